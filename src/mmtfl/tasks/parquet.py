"""Looking at parquet files: which tasks are in which row groups, without reading the features."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from mmtfl.errors import require
from mmtfl.tasks.checks import check_weights
from mmtfl.tasks.frames import feature_columns
from mmtfl.tasks.stored import Found, RowGroup, StoredTasks, codes_of, index_pieces

__all__ = ["open_parquet", "parse_bytes"]

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def open_parquet(
    path: Any,
    *,
    task: str,
    target: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    memory_limit: str | int | None = None,
) -> StoredTasks:
    """See ``Tasks.from_parquet``."""
    parquet = require("pyarrow.parquet", "dask")
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    files = _files(Path(path))
    folder_labels = _folder_labels(files, task)
    columns: list[str] | None = None
    seen: list[Found] = []
    digest = blake2b(digest_size=16)
    for file, label in zip(files, folder_labels, strict=True):
        with parquet.ParquetFile(file) as opened:
            names = list(opened.schema_arrow.names)
            special = [target, *([task] if label is None else []), *([] if weight is None else [weight])]
            chosen = [name for name in feature_columns(names, special, features) if name != task]
            if columns is None:
                columns = chosen
            elif chosen != columns and sorted(chosen) != sorted(columns):
                odd = sorted(set(chosen) ^ set(columns))[0]
                raise ValueError(
                    f"{file.name} and {files[0].name} differ in column {odd!r}: align the files."
                )
            digest.update(repr((label, names, file.stat().st_size, opened.metadata.num_rows)).encode())
            digest.update(_footer(file))
            seen += _look(opened, str(file), label, task, weight)
    labels, pieces, sizes, sums = index_pieces(seen, name=f"column {task!r}")
    digest.update(repr((task, target, weight, columns)).encode())
    return StoredTasks(
        pieces, labels, sizes, sums, task, target, weight, tuple(columns or ()), digest.hexdigest(), limit
    )


def _look(opened: Any, path: str, label: Any, task: str, weight: str | None) -> Iterator[Found]:
    for number in range(opened.num_row_groups):
        n_rows = opened.metadata.row_group(number).num_rows
        if n_rows == 0:
            continue
        if label is not None and weight is None:
            yield Found(RowGroup(path, number), label, [label], [n_rows], [float(n_rows)])
            continue
        columns = [name for name in (task if label is None else None, weight) if name is not None]
        table = opened.read_row_group(number, columns=columns)
        if label is not None:
            total = float(np.sum(check_weights(table.column(weight), n_rows)))
            yield Found(RowGroup(path, number), label, [label], [n_rows], [total])
            continue
        column = table.column(task)
        if column.null_count:
            raise ValueError(f"Column {task!r} of {Path(path).name} has missing labels: drop those rows.")
        distinct = column.unique().to_pylist()
        codes = codes_of(column, {value: i for i, value in enumerate(distinct)})
        counts = np.bincount(codes, minlength=len(distinct))
        sums = counts.astype(float)
        if weight is not None:
            sums = np.bincount(codes, check_weights(table.column(weight), n_rows), minlength=len(distinct))
        yield Found(RowGroup(path, number), None, distinct, counts.tolist(), sums.tolist())


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
    """The label in the name of each file's folder, as in site=Bern; None where there is none."""
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


def parse_bytes(size: str | int) -> int:
    """A number of bytes from "2GB", "500 MiB" or a number.

    Examples
    --------
    >>> parse_bytes("2GB"), parse_bytes("1.5 MiB"), parse_bytes(10)
    (2000000000, 1572864, 10)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([A-Za-z]*)\s*", str(size))
    if isinstance(size, bool) or match is None or match[2].upper() not in _UNITS or float(match[1]) == 0.0:
        raise ValueError(f"memory_limit must be a size such as '2GB' or '500MiB', got {size!r}.")
    return int(float(match[1]) * _UNITS[match[2].upper()])
