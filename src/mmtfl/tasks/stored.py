"""Tasks whose rows stay in files or on a cluster: an index of their pieces, and readers of some tasks.

Parquet files and Dask frames are opened by finding where each task is, without reading features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.content_hash import fingerprint
from mmtfl.tasks.checks import (
    check_design,
    check_finite_design,
    check_finite_target,
    check_task_labels,
    check_task_weights,
    check_weights,
)
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.frames import as_float, feature_columns
from mmtfl.tasks.grouping import RowsElsewhere, offsets_of
from mmtfl.tasks.moments import block_length, by_task, gather_rows, is_compressible
from mmtfl.wording import count

_BATCH = 1 << 19  # numbers that are read at a time
Columns = Sequence[str] | None


@dataclass(frozen=True)
class Piece:
    """A row group of a file or a partition of a frame, and which tasks have rows in it."""

    source: Any  # has a method tables(columns, n_rows) that yields the rows, some at a time
    tasks: np.ndarray  # positions of the tasks that have rows in it


@dataclass(frozen=True, eq=False, repr=False)
class StoredTasks(RowsElsewhere):
    """Tasks whose rows stay where they are stored; fitted by ``model.fit(stored)``.

    They are made by ``Tasks.from_parquet`` and ``Tasks.from_dask``.

    Parameters
    ----------
    pieces : list of Piece
        Row groups in the order of the files, or partitions of a frame.
    labels : ndarray of shape (n_tasks,)
        Task labels, sorted.
    sizes : ndarray of shape (n_tasks,)
        Number of rows of each task.
    weight_sums : ndarray of shape (n_tasks,)
        Sum of the weights of each task's rows.
    task, target, weight : str
        Columns; weight may be None.
    feature_names : tuple of str
        Columns of the features.
    fingerprint : str
        Content hash of the files or of the frame.
    memory_limit : int, optional
        Bytes that a fit in this process may take.
    classes : tuple, optional
        The two values of the target that stand for -1 and +1.
    task_factors : ndarray of shape (n_tasks,), optional
        What the weights of each task's rows are multiplied by when they are read.
    """

    pieces: list[Piece]
    labels: np.ndarray
    sizes: np.ndarray
    weight_sums: np.ndarray
    task: str
    target: str
    weight: str | None
    feature_names: tuple[str, ...]
    fingerprint: str
    memory_limit: int | None = None
    classes: tuple[Any, Any] | None = None
    task_factors: np.ndarray | None = None

    def __repr__(self) -> str:
        return self._described(f"in {count(len(self.pieces), 'piece')}")

    def part(self, lo: int, hi: int, *, compress: bool) -> StoredPart:
        """A reader of the tasks from position lo up to hi."""
        pieces = [piece for piece in self.pieces if np.any((piece.tasks >= lo) & (piece.tasks < hi))]
        own = replace(
            self,
            pieces=[replace(piece, tasks=np.empty(0, dtype=int)) for piece in pieces],
            labels=self.labels[lo:hi],
            sizes=self.sizes[lo:hi],
            weight_sums=self.weight_sums[lo:hi],
            task_factors=None if self.task_factors is None else self.task_factors[lo:hi],
        )
        return StoredPart(own, lo, compress)

    def load(self) -> Tasks:
        """Read all rows into memory."""
        return self.part(0, self.n_tasks, compress=False).read()

    def rows_held(self, *, compress: bool) -> np.ndarray:
        """Number of rows of each task that a shard holds in memory."""
        return np.minimum(self.sizes, self.n_features + 2) if compress else self.sizes

    def bytes_held(self, *, compress: bool) -> np.ndarray:
        """Estimate of the memory that each task takes while it is read and worked on."""
        d = self.n_features
        # the rows, a copy in the layout of the solvers, and products of the same size
        rows = 4 * self.rows_held(compress=compress)
        waiting = np.where(compress & (self.sizes > d + 2), block_length(d) + d, 0)
        return 8 * (d + 1) * (rows + waiting)

    def class_weights(self) -> dict[Any, np.ndarray]:
        """Weight (or number) of the rows of each task that have each value of the target."""
        sums: dict[Any, np.ndarray] = {}
        for observation_task, table in _batches(self, [self.target, *([self.weight] if self.weight else [])]):
            column = table.column(self.target)
            if column.null_count:
                raise ValueError(f"The target column {self.target!r} has missing values: drop those rows.")
            values = np.array(column.to_pylist())
            weights = np.ones(len(values))
            if self.weight is not None:
                weights = check_weights(table.column(self.weight), len(values))
            for value in np.unique(values):
                own = values == value
                found = np.bincount(observation_task[own], weights[own], minlength=self.n_tasks)
                sums[value.item()] = sums.get(value.item(), 0.0) + found
        return sums


@dataclass(frozen=True)
class StoredPart:
    """A reader of consecutive stored tasks; `first` is the position of the first of them among all tasks."""

    stored: StoredTasks
    first: int
    compress: bool

    def read(self) -> Tasks:
        """Read the tasks; with `compress`, a long task becomes a few rows with the same moments."""
        stored, d = self.stored, self.stored.n_features
        few = is_compressible(stored.sizes, d) & self.compress
        blocks = (block for batch in self.batches() for block in by_task(*batch))
        keys, X, y, weights = gather_rows(blocks, few, d)
        offsets = offsets_of(np.bincount(keys[:, 0], minlength=stored.n_tasks))
        check_task_weights(weights, observation_task=keys[:, 0], labels=stored.labels)
        plain = stored.weight is None and stored.task_factors is None and not few.any()
        kept = None if plain else weights
        return Tasks(X, y, offsets, stored.labels, kept, None, stored.feature_names)

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield checked rows, some at a time: position of each row's task, X, y and weights."""
        stored = self.stored
        extra, factors = [] if stored.weight is None else [stored.weight], stored.task_factors
        for observation_task, table in _batches(stored, [*stored.feature_names, stored.target, *extra]):
            who: dict[str, Any] = {"observation_task": observation_task, "labels": stored.labels}
            X = check_design(table.select(list(stored.feature_names)))[0]
            check_finite_design(X, **who, feature_names=stored.feature_names)
            y = self._targets(table.column(stored.target))
            check_finite_target(y, **who)
            w = check_weights(table.column(stored.weight), len(y)) if extra else np.ones(len(y))
            yield observation_task, X, y, w if factors is None else w * factors[observation_task]

    def _targets(self, column: Any) -> np.ndarray:
        classes = self.stored.classes
        if classes is None:
            return as_float(column.to_numpy(), f"column {self.stored.target!r}").astype(float)
        values = np.array(column.to_pylist())
        return np.where(values == classes[1], 1.0, -1.0)


def _batches(stored: StoredTasks, columns: Sequence[str]) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield tables of the rows of these tasks, each with the position of every row's task."""
    pa = require("pyarrow", "dask")
    n_rows = max(1, _BATCH // len(columns))
    position = {label: t for t, label in enumerate(stored.labels.tolist())}
    for piece in stored.pieces:
        for table in piece.source.tables([*columns, stored.task], n_rows):
            observation_task = _locate_labels(table.column(stored.task), position)
            inside = observation_task >= 0
            if not inside.all():
                table, observation_task = table.filter(pa.array(inside)), observation_task[inside]
            if len(observation_task):
                yield observation_task, table


def _locate_labels(column: Any, position: dict[Any, int]) -> np.ndarray:
    """Position of each label of an arrow column, -1 for a label that is not among them."""
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "chunks"):
        encoded = encoded.combine_chunks()
    of_value = np.array([position.get(value, -1) for value in encoded.dictionary.to_pylist()], dtype=np.intp)
    return of_value[encoded.indices.to_numpy(zero_copy_only=False)]


# -- the index of the pieces -----------------------------------------------------------------------------


# of a piece: its source; its distinct labels, and the rows and sum of weights of each
Contents = tuple[Any, list, list, list]


def _make_stored(contents: list[Contents], columns: Sequence[str], task: str, **known: Any) -> StoredTasks:
    """Index the pieces by task."""
    if not contents:
        raise ValueError("There are no rows: the files or partitions are all empty.")
    every = [label for _, found, _, _ in contents for label in found]
    labels = np.unique(check_task_labels(every, None, name=f"column {task!r}"))
    position = {label: t for t, label in enumerate(labels.tolist())}
    sizes, sums = np.zeros(len(labels), dtype=np.intp), np.zeros(len(labels))
    pieces = []
    for source, found, n_rows, weights in contents:
        tasks = np.array([position[own] for own in found])
        sizes[tasks] += n_rows
        sums[tasks] += weights
        pieces.append(Piece(source, np.sort(tasks)))
    return StoredTasks(pieces, labels, sizes, sums, task, feature_names=tuple(columns), **known)


def _count(table: Any, task: str, weight: str | None, where: str) -> tuple[list, list, list]:
    """Distinct labels of a piece, and the rows and sum of weights of each."""
    column = table.column(task)
    if column.null_count:
        raise ValueError(f"Column {task!r} {where} has missing labels: drop those rows.")
    distinct = column.unique().to_pylist()
    position = _locate_labels(column, {value: i for i, value in enumerate(distinct)})
    weights = None if weight is None else check_weights(table.column(weight), table.num_rows)
    sums = np.bincount(position, weights, minlength=len(distinct)).astype(float)
    return distinct, np.bincount(position, minlength=len(distinct)).tolist(), sums.tolist()


def parse_bytes(size: str | int | None) -> int | None:
    """Parse a number of bytes such as "2GB", "500 MiB" or 10; None stays."""
    if size is None:
        return None
    try:
        found = require("dask.utils", "dask").parse_bytes(size)
    except (ValueError, TypeError):
        found = 0
    if isinstance(size, bool) or found <= 0:
        raise ValueError(f"memory_limit must be a size such as '2GB' or '500MiB', got {size!r}.")
    return found


# -- parquet files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowGroup:
    """A row group of a parquet file; `state` is the file's when it was indexed.

    The name of the folder may hold the task of all its rows: then `label` is that of the column `task`.
    """

    path: str
    number: int
    state: str
    task: str
    label: Any

    def tables(self, columns: list[str], n_rows: int) -> Iterator[Any]:
        """Yield some columns, at most n_rows rows at a time."""
        pa, parquet = require("pyarrow", "dask"), require("pyarrow.parquet", "dask")
        if _state(Path(self.path)) != self.state:
            raise ValueError(f"{self.path!r} has changed since it was opened: call Tasks.from_parquet again.")
        own = [name for name in columns if self.label is None or name != self.task]
        with parquet.ParquetFile(self.path, pre_buffer=False) as file:
            for batch in file.iter_batches(n_rows, row_groups=[self.number], columns=own):
                table = pa.Table.from_batches([batch])
                if len(own) < len(columns):
                    table = table.append_column(self.task, pa.repeat(self.label, batch.num_rows))
                yield table


def open_parquet(
    path: Any, task: str, target: str, features: Columns, weight: str | None, memory_limit: str | int | None
) -> StoredTasks:
    """See ``Tasks.from_parquet``."""
    pa, parquet = require("pyarrow", "dask"), require("pyarrow.parquet", "dask")
    limit = parse_bytes(memory_limit)
    files = _files(Path(path))
    columns: list[str] = []
    contents: list[Contents] = []
    counted = [task, *([] if weight is None else [weight])]
    labels, states = _folder_labels(files, task), [_state(file) for file in files]
    for file, label, state in zip(files, labels, states, strict=True):
        with parquet.ParquetFile(file) as opened:
            names, metadata = opened.schema_arrow.names, opened.metadata
        special = [target, *(counted if label is None else counted[1:])]
        chosen = [name for name in feature_columns(names, special, features) if name != task]
        columns = columns or chosen
        odd = sorted(set(chosen) ^ set(columns))
        if odd:
            raise ValueError(f"{file.name} and {files[0].name} differ in column {odd[0]!r}: align the files.")
        for i in range(metadata.num_row_groups):
            source, n_rows = RowGroup(str(file), i, state, task, label), metadata.row_group(i).num_rows
            if n_rows:
                table = pa.concat_tables(source.tables(counted, n_rows))
                contents.append((source, *_count(table, task, weight, f"of {file.name}")))
    name = fingerprint(states, labels, task, target, weight, columns)
    known = {"fingerprint": name, "memory_limit": limit}
    return _make_stored(contents, columns, task, target=target, weight=weight, **known)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"There is no file or folder {str(path)!r}.")
    hidden = (".", "_")
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix in (".parquet", ".pq")
        and not any(part.startswith(hidden) and "=" not in part for part in file.relative_to(path).parts)
    ]
    if not files:
        raise FileNotFoundError(f"The folder {str(path)!r} has no .parquet files.")
    return files


def _folder_labels(files: list[Path], task: str) -> list[Any]:
    """Label in the name of each file's folder, as in site=Bern; None where there is none."""
    prefix = f"{task}="
    found = [
        next((unquote(part[len(prefix) :]) for part in file.parts if part.startswith(prefix)), None)
        for file in files
    ]
    named = [label for label in found if label is not None]
    if named and all(re.fullmatch(r"-?(0|[1-9]\d*)", label) for label in named):
        return [None if label is None else int(label) for label in found]
    return found


def _state(file: Path) -> str:
    """Hash of the size, the layout and the statistics of a parquet file, which are at its end."""
    with file.open("rb") as opened:
        opened.seek(-8, 2)
        length = int.from_bytes(opened.read(4), "little")
        opened.seek(-8 - min(length, file.stat().st_size - 8), 2)
        return fingerprint(opened.read(length), file.stat().st_size)


# -- Dask frames -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Partition:
    """A partition of a Dask frame, computed when it is read."""

    frame: Any

    def tables(self, columns: list[str], n_rows: int) -> Iterator[Any]:
        """Yield some columns, at most n_rows rows at a time."""
        pa = require("pyarrow", "dask")
        # computed in this thread: the reader is itself a task of Dask, or there is no cluster
        rows = self.frame[columns].compute(scheduler="synchronous")
        for first in range(0, len(rows), n_rows):
            yield pa.Table.from_pandas(rows.iloc[first : first + n_rows], preserve_index=False)


def open_dask(
    frame: Any, task: str, target: str, features: Columns, weight: str | None, memory_limit: str | int | None
) -> StoredTasks:
    """See ``Tasks.from_dask``."""
    dd = require("dask.dataframe", "dask")
    if not isinstance(frame, dd.DataFrame):
        raise TypeError(
            f"frame must be a dask.dataframe.DataFrame, not {type(frame).__name__}: use Tasks.from_frame for "
            "one in memory, Tasks.from_parquet for files."
        )
    special = [target, task, *([] if weight is None else [weight])]
    columns = feature_columns(list(frame.columns), special, features)
    counted = frame[[name for name in (task, weight) if name is not None]]
    delayed, compute = (getattr(require("dask", "dask"), name) for name in ("delayed", "compute"))
    counts = [
        delayed(_count_partition)(rows, task, weight, f"in partition {i}")
        for i, rows in enumerate(counted.to_delayed())
    ]
    contents = [(Partition(frame.partitions[i]), *count) for i, count in enumerate(compute(*counts)) if count]
    name = fingerprint(frame._name, task, target, weight, columns)
    known = {"fingerprint": name, "memory_limit": parse_bytes(memory_limit)}
    return _make_stored(contents, columns, task, target=target, weight=weight, **known)


def _count_partition(rows: Any, task: str, weight: str | None, where: str) -> Any:
    table = require("pyarrow", "dask").Table.from_pandas(rows, preserve_index=False)
    return _count(table, task, weight, where) if len(rows) else None
