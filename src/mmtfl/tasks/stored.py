"""Tasks whose rows stay in files or on a cluster: an index of their pieces, and readers of some tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.tasks.checks import (
    check_design,
    check_finite_design,
    check_finite_target,
    check_task_labels,
    check_task_weights,
    check_weights,
)
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.frames import as_float
from mmtfl.tasks.grouping import observation_task_of, offsets_of
from mmtfl.tasks.moments import Moments, block_length, is_compressible
from mmtfl.tasks.wording import count

_BATCH = 1 << 19  # numbers that are read at a time


@dataclass(frozen=True)
class Piece:
    """A row group of a file or a partition of a frame, and which tasks have rows in it."""

    source: Any  # has a method tables(columns, n_rows) that yields the rows, some at a time
    label: Any  # task of all its rows, from the name of the folder; None if a column holds the labels
    tasks: np.ndarray  # positions of the tasks that have rows in it


@dataclass(frozen=True, eq=False, repr=False)
class StoredTasks:
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

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @property
    def n_samples(self) -> int:
        """Number of rows, over all tasks."""
        return int(self.sizes.sum())

    def __repr__(self) -> str:
        sizes = f"n_tasks={self.n_tasks}, n_samples={self.n_samples}, n_features={self.n_features}"
        return f"StoredTasks({sizes}, in {count(len(self.pieces), 'piece')})"

    def part(self, lo: int, hi: int, *, compress: bool) -> StoredPart:
        """A reader of the tasks from position lo up to hi."""
        pieces = [piece for piece in self.pieces if np.any((piece.tasks >= lo) & (piece.tasks < hi))]
        own = replace(
            self,
            pieces=[replace(piece, tasks=np.empty(0, dtype=int)) for piece in pieces],
            labels=self.labels[lo:hi],
            sizes=self.sizes[lo:hi],
            weight_sums=self.weight_sums[lo:hi],
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

    def class_counts(self) -> dict[Any, np.ndarray]:
        """Number of rows of each task that have each value of the target."""
        counts: dict[Any, np.ndarray] = {}
        for observation_task, table in _batches(self, [self.target]):
            column = table.column(self.target)
            if column.null_count:
                raise ValueError(f"The target column {self.target!r} has missing values: drop those rows.")
            values = np.array(column.to_pylist())
            for value in np.unique(values):
                found = np.bincount(observation_task[values == value], minlength=self.n_tasks)
                counts[value.item()] = counts.get(value.item(), 0) + found
        return counts


@dataclass(frozen=True)
class StoredPart:
    """A reader of consecutive stored tasks; `first` is the position of the first of them among all tasks."""

    stored: StoredTasks
    first: int
    compress: bool

    def read(self) -> Tasks:
        """Read the tasks; with `compress`, a long task becomes a few rows with the same moments."""
        stored, d = self.stored, self.stored.n_features
        few = np.array([self.compress and is_compressible(n, d) for n in stored.sizes])
        moments = {int(t): Moments(d) for t in np.flatnonzero(few)}
        offsets = offsets_of(np.where(few, 0, stored.sizes))
        X, y, weights = np.empty((offsets[-1], d)), np.empty(offsets[-1]), np.empty(offsets[-1])
        filled = offsets[:-1].copy()
        for observation_task, X_new, y_new, w_new in self.batches():
            order = np.argsort(observation_task, kind="stable")
            bounds = np.searchsorted(observation_task[order], np.arange(stored.n_tasks + 1))
            for t in np.unique(observation_task):
                rows = order[bounds[t] : bounds[t + 1]]
                w = np.ones(len(rows)) if w_new is None else w_new[rows]
                if few[t]:
                    moments[t].add(X_new[rows], y_new[rows], w)
                else:
                    into = slice(filled[t], filled[t] + len(rows))
                    X[into], y[into], weights[into] = X_new[rows], y_new[rows], w
                    filled[t] = into.stop
        return self._assemble(X, y, weights, offsets, moments)

    def _assemble(self, X, y, weights, offsets, moments: dict[int, Moments]) -> Tasks:
        stored = self.stored
        if not moments:
            parts = X, y, offsets, weights if stored.weight is not None else None
        else:
            blocks = []
            for t in range(stored.n_tasks):
                rows = slice(offsets[t], offsets[t + 1])
                own = moments.pop(t, None)  # its memory is freed as soon as its rows exist
                blocks.append((X[rows], y[rows], weights[rows]) if own is None else own.rows())
            columns = [np.concatenate(column) for column in zip(*blocks, strict=True)]
            parts = columns[0], columns[1], offsets_of([len(block[1]) for block in blocks]), columns[2]
        X, y, offsets, weights = parts
        if weights is not None:
            check_task_weights(weights, observation_task=observation_task_of(offsets), labels=stored.labels)
        return Tasks(X, y, offsets, stored.labels, weights, None, stored.feature_names)

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield checked rows, some at a time: position of each row's task, X, y and weights (or None)."""
        stored = self.stored
        extra = [] if stored.weight is None else [stored.weight]
        for observation_task, table in _batches(stored, [*stored.feature_names, stored.target, *extra]):
            who: dict[str, Any] = {"observation_task": observation_task, "labels": stored.labels}
            X = check_design(table.select(list(stored.feature_names)))[0]
            check_finite_design(X, **who, feature_names=stored.feature_names)
            y = self._targets(table.column(stored.target))
            check_finite_target(y, **who)
            w = None if stored.weight is None else check_weights(table.column(stored.weight), len(y))
            yield observation_task, X, y, w

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
        by_column = piece.label is None
        if not by_column and piece.label not in position:
            continue
        wanted = [*columns, *([stored.task] if by_column else [])]
        for table in piece.source.tables(wanted, n_rows):
            if by_column:
                observation_task = locate_labels(table.column(stored.task), position)
                inside = observation_task >= 0
                if not inside.any():
                    continue
                if not inside.all():
                    table, observation_task = table.filter(pa.array(inside)), observation_task[inside]
            else:
                observation_task = np.full(table.num_rows, position[piece.label])
            yield observation_task, table


def locate_labels(column: Any, position: dict[Any, int]) -> np.ndarray:
    """Position of each label of an arrow column, -1 for a label that is not among them."""
    encoded = column.combine_chunks().dictionary_encode()
    if hasattr(encoded, "chunks"):
        encoded = encoded.combine_chunks()
    of_value = np.array([position.get(value, -1) for value in encoded.dictionary.to_pylist()], dtype=np.intp)
    return of_value[encoded.indices.to_numpy(zero_copy_only=False)]


# -- the index of the pieces -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Contents:
    """What a piece holds: its distinct labels, and the number of rows and the sum of weights of each."""

    source: Any
    label: Any
    labels: list
    counts: list
    sums: list


def make_stored(
    contents: list[Contents],
    task: str,
    target: str,
    weight: str | None,
    columns: Sequence[str],
    fingerprint: str,
    memory_limit: int | None,
) -> StoredTasks:
    """Index the pieces by task."""
    if not contents:
        raise ValueError("There are no rows: the files or partitions are all empty.")
    found = [label for piece in contents for label in piece.labels]
    labels = np.unique(check_task_labels(found, None, name=f"column {task!r}"))
    position = {label: t for t, label in enumerate(labels.tolist())}
    sizes, sums = np.zeros(len(labels), dtype=np.intp), np.zeros(len(labels))
    pieces = []
    for piece in contents:
        tasks = np.array([position[label] for label in piece.labels])
        sizes[tasks] += piece.counts
        sums[tasks] += piece.sums
        pieces.append(Piece(piece.source, piece.label, np.sort(tasks)))
    names = tuple(columns)
    return StoredTasks(pieces, labels, sizes, sums, task, target, weight, names, fingerprint, memory_limit)
