"""Looking at Dask DataFrames: which tasks are in which partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.content_hash import fingerprint
from mmtfl.tasks.frames import feature_columns
from mmtfl.tasks.parquet import parse_bytes
from mmtfl.tasks.stored import Found, StoredTasks, index_pieces

__all__ = ["open_dask"]


@dataclass(frozen=True)
class Partition:
    """One partition of a frame, made when it is read."""

    frame: Any

    def tables(self, columns: list[str], n_rows: int) -> Iterator[Any]:
        """Some columns, some rows at a time."""
        pa = require("pyarrow", "dask")
        # made in this thread: whoever reads it is a task of Dask already, or has no cluster
        rows = self.frame[columns].compute(scheduler="synchronous")
        for first in range(0, len(rows), n_rows):
            yield pa.Table.from_pandas(rows.iloc[first : first + n_rows], preserve_index=False)


def open_dask(
    frame: Any,
    *,
    task: str,
    target: str,
    features: Sequence[str] | None = None,
    weight: str | None = None,
    memory_limit: str | int | None = None,
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
    seen = []
    for i, part in enumerate(counts):
        if part["missing"].sum():
            raise ValueError(f"Column {task!r} has missing labels in partition {i}: drop those rows.")
        if len(part):
            labels = part["label"].tolist()
            seen.append(
                Found(
                    Partition(frame.partitions[i]), None, labels, part["count"].tolist(), part["sum"].tolist()
                )
            )
    labels, pieces, sizes, sums = index_pieces(seen, name=f"column {task!r}")
    limit = None if memory_limit is None else parse_bytes(memory_limit)
    name = fingerprint(frame._name, task, target, weight, columns)
    return StoredTasks(pieces, labels, sizes, sums, task, target, weight, tuple(columns), name, limit)


def _count(rows: Any, task: str, weight: str | None) -> Any:
    """Rows and weight of every label of a partition."""
    groups = rows.groupby(task, observed=True)
    count = groups.size()
    out = count.rename("count").reset_index().rename(columns={task: "label"})
    out["sum"] = (count if weight is None else groups[weight].sum()).to_numpy(dtype=float)
    out["missing"] = int(rows[task].isna().sum())
    return out
