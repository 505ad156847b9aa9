"""Missing values of a table: which are refused, and with which remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmtfl.tables.column_encoding import MISSING
from mmtfl.tables.reading import TableError

__all__ = ["check_missing", "check_none_missing"]


def check_missing(
    frame: Any, names: Sequence[str], task: str | None = None, *, absent: str = "error"
) -> None:
    """Refuse missing values; where tasks may lack columns, those of tasks that have some of the values."""
    missing, lacking = frame[list(names)].isna(), ""
    if task is not None and task in frame.columns and missing.any(axis=None):
        whole = missing.groupby(frame[task].to_numpy()).transform("all")
        if absent == "allow":
            missing &= ~whole
        elif whole.any(axis=None):
            lacks = whole.columns[whole.any()][0]
            label = frame[task][whole[lacks]].iloc[0]
            lacking = f" Task {str(label)!r} has no value of {lacks!r}: --absent-features allow fits it so."
    counts = missing.sum()
    counts = counts[counts > 0]
    if len(counts):
        listed = ", ".join(f"{name!r} {count}" for name, count in counts.iloc[:8].items())
        more = f", ... ({len(counts)} columns in all)" if len(counts) > 8 else ""
        raise TableError(
            f"Missing values, of {len(frame)} rows: {listed}{more}. Fill them in with --impute mean (or "
            f"median, most_frequent) when fitting, or leave columns out with --drop.{lacking} {MISSING}."
        )


def check_none_missing(numbers: np.ndarray, what: str, name: str) -> None:
    """Refuse missing values of a target or weight."""
    missing = np.isnan(numbers)
    if missing.any():
        raise TableError(
            f"{what} {name!r} is missing in {missing.sum()} of {len(missing)} rows (first in data row "
            f"{missing.argmax() + 1}): fill it in, or leave these rows out with --drop-unlabelled. {MISSING}."
        )
