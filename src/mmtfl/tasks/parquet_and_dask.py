"""Open parquet files and Dask frames as stored tasks: find where each task is, without reading features."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.content_hash import fingerprint
from mmtfl.tasks.checks import check_weights
from mmtfl.tasks.frames import feature_columns
from mmtfl.tasks.stored import Contents, StoredTasks, locate_labels, make_stored

Columns = Sequence[str] | None
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def parse_bytes(size: str | int | None) -> int | None:
    """Parse a number of bytes such as "2GB", "500 MiB" or 10; None stays.

    Examples
    --------
    >>> parse_bytes("2GB"), parse_bytes("1.5 MiB"), parse_bytes(10)
    (2000000000, 1572864, 10)
    """
    if size is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]*)\s*", str(size))
    if isinstance(size, bool) or match is None or match[2].upper() not in _UNITS or float(match[1]) == 0.0:
        raise ValueError(f"memory_limit must be a size such as '2GB' or '500MiB', got {size!r}.")
    return int(float(match[1]) * _UNITS[match[2].upper()])


# -- parquet files ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowGroup:
    """A row group of a parquet file."""

    path: str
    number: int

    def tables(self, columns: list[str], n_rows: int) -> Iterator[Any]:
        """Yield some columns, at most n_rows rows at a time."""
        pa, parquet = require("pyarrow", "dask"), require("pyarrow.parquet", "dask")
        with parquet.ParquetFile(self.path, pre_buffer=False) as file:
            for batch in file.iter_batches(n_rows, row_groups=[self.number], columns=columns):
                yield pa.Table.from_batches([batch])


def open_parquet(
    path: Any, task: str, target: str, features: Columns, weight: str | None, memory_limit: str | int | None
) -> StoredTasks:
    """See ``Tasks.from_parquet``."""
    parquet = require("pyarrow.parquet", "dask")
    limit = parse_bytes(memory_limit)
    files = _files(Path(path))
    columns: list[str] = []
    contents: list[Contents] = []
    digest = blake2b(digest_size=16)
    for file, label in zip(files, _folder_labels(files, task), strict=True):
        with parquet.ParquetFile(file) as opened:
            names = list(opened.schema_arrow.names)
            special = [target, *([task] if label is None else []), *([] if weight is None else [weight])]
            chosen = [name for name in feature_columns(names, special, features) if name != task]
            columns = columns or chosen
            odd = sorted(set(chosen) ^ set(columns))
            if odd:
                raise ValueError(
                    f"{file.name} and {files[0].name} differ in column {odd[0]!r}: align the files."
                )
            digest.update(repr((label, names, file.stat().st_size, opened.metadata.num_rows)).encode())
            digest.update(_footer(file))
            contents += _row_group_contents(opened, str(file), label, task, weight)
    digest.update(repr((task, target, weight, columns)).encode())
    return make_stored(contents, task, target, weight, columns, digest.hexdigest(), limit)


def _row_group_contents(
    opened: Any, path: str, label: Any, task: str, weight: str | None
) -> Iterator[Contents]:
    """Count the rows and weights of each task in every row group; `label` is that of the folder, or None."""
    columns = [name for name in (task if label is None else None, weight) if name is not None]
    for number in range(opened.num_row_groups):
        n_rows = opened.metadata.row_group(number).num_rows
        if n_rows == 0:
            continue
        source = RowGroup(path, number)
        if not columns:
            yield Contents(source, label, [label], [n_rows], [float(n_rows)])
            continue
        table = opened.read_row_group(number, columns=columns)
        distinct, position = [label], np.zeros(n_rows, dtype=np.intp)
        if label is None:
            column = table.column(task)
            if column.null_count:
                raise ValueError(f"Column {task!r} of {Path(path).name} has missing labels: drop those rows.")
            distinct = column.unique().to_pylist()
            position = locate_labels(column, {value: i for i, value in enumerate(distinct)})
        weights = None if weight is None else check_weights(table.column(weight), n_rows)
        counts = np.bincount(position, minlength=len(distinct))
        sums = np.bincount(position, weights, minlength=len(distinct)).astype(float)
        yield Contents(source, label, distinct, counts.tolist(), sums.tolist())


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


def _footer(file: Path) -> bytes:
    """The end of a parquet file: its layout and the statistics of its columns."""
    with file.open("rb") as opened:
        opened.seek(-8, 2)
        length = int.from_bytes(opened.read(4), "little")
        opened.seek(-8 - min(length, file.stat().st_size - 8), 2)
        return opened.read(length)


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
    counted = [name for name in (task, weight) if name is not None]
    meta = {"label": frame._meta[task].dtype, "count": np.int64, "sum": np.float64, "missing": np.int64}
    found = frame[counted].map_partitions(_count, task, weight, meta=meta)
    counts = require("dask", "dask").compute(*(found.partitions[i] for i in range(found.npartitions)))
    contents = []
    for i, part in enumerate(counts):
        if part["missing"].sum():
            raise ValueError(f"Column {task!r} has missing labels in partition {i}: drop those rows.")
        if len(part):
            numbers = (part[name].tolist() for name in ("label", "count", "sum"))
            contents.append(Contents(Partition(frame.partitions[i]), None, *numbers))
    name = fingerprint(frame._name, task, target, weight, columns)
    return make_stored(contents, task, target, weight, columns, name, parse_bytes(memory_limit))


def _count(rows: Any, task: str, weight: str | None) -> Any:
    """Number of rows and sum of weights of every label of a partition."""
    groups = rows.groupby(task, observed=True)
    count = groups.size()
    out = count.rename("count").reset_index().rename(columns={task: "label"})
    out["sum"] = (count if weight is None else groups[weight].sum()).to_numpy(dtype=float)
    out["missing"] = int(rows[task].isna().sum())
    return out
