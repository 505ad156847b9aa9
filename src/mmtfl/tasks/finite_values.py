"""Neither NaN nor infinity: checks that name the task, the column and the row.

They take ``task_index`` (the task of each row, as a position in ``labels``) and ``labels``, so that
containers and estimators word their errors alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.tasks.wording import count, not_finite_kind, show


def check_finite_design(
    X: Any,
    *,
    task_index: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    feature_names: Sequence[str] | None = None,
    offsets: np.ndarray | None = None,
    name: str = "X",
) -> None:
    """Check that a design has neither NaN nor infinity; one pass over clean data.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_rows, n_features)
        The design.
    task_index : ndarray of shape (n_rows,), optional
        Task of each row, as a position in ``labels``; None when the rows belong to all tasks.
    labels : ndarray of shape (n_tasks,), optional
        Task labels.
    feature_names : sequence of str, optional
        Names of the columns.
    offsets : ndarray of shape (n_tasks + 1,), optional
        Where each task begins, to count its rows from there.
    name : str, default="X"
        What the argument is called in error messages.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.finite_values import check_finite_design
    >>> check_finite_design(np.array([[1.0, np.nan]]), feature_names=["age", "dose"])
    Traceback (most recent call last):
    ...
    ValueError: Input X contains NaN: 1 value in column 'dose' (first in row 0). Impute it, or drop ...
    """
    if _all_finite(X.data if sparse.issparse(X) else X):
        return
    rows, columns, values = _not_finite_entries(X)
    first = np.lexsort((columns, rows))[0]
    same = (columns == columns[first]) & (np.isnan(values) == np.isnan(values[first]))
    where, row = f" in column {show(feature_names, columns[first])}", rows[first]
    if task_index is not None and labels is not None:
        t = task_index[row]
        same &= task_index[rows] == t
        where, row = f"{where} of task {show(labels, t)}", row if offsets is None else row - offsets[t]
    others = "" if same.all() else f" {values.size} values of {name} are not finite."
    raise ValueError(
        f"{_found(name, values[first], same.sum(), where, row)}{others} "
        f"Impute {'it' if values.size == 1 else 'them'}, or drop those rows or columns."
    )


def check_finite_target(
    y: np.ndarray,
    *,
    task_index: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    offsets: np.ndarray | None = None,
    name: str = "y",
) -> None:
    """Check that a target has neither NaN nor infinity.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        The target.
    task_index : ndarray of shape (n_rows,), optional
        Task of each row, as a position in ``labels``.
    labels : ndarray of shape (n_tasks,), optional
        Task labels.
    offsets : ndarray of shape (n_tasks + 1,), optional
        Where each task begins, to count its rows from there.
    name : str, default="y"
        What the target is called in error messages.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.finite_values import check_finite_target
    >>> check_finite_target(np.array([1.0, np.inf]), task_index=np.zeros(2, int), labels=np.array(["a"]))
    Traceback (most recent call last):
    ...
    ValueError: Input y contains infinity: 1 value of task 'a' (first in row 1). Drop those rows or ...
    """
    if _all_finite(y):
        return
    bad = np.flatnonzero(~np.isfinite(y))
    same, where, row = np.isnan(y[bad]) == np.isnan(y[bad[0]]), "", bad[0]
    if task_index is not None and labels is not None:
        t = task_index[row]
        same &= task_index[bad] == t
        where, row = f" of task {show(labels, t)}", row if offsets is None else row - offsets[t]
    found = _found(name, y[bad[0]], same.sum(), where, row)
    raise ValueError(f"{found} Drop those rows or fill in the target.")


def _all_finite(values: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        total = values.sum()
    # the sum of finite values may overflow: only a finite sum is proof
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


def _not_finite_entries(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if sparse.issparse(X):
        entries = X.tocoo(copy=False)
        bad = ~np.isfinite(entries.data)
        return entries.row[bad], entries.col[bad], entries.data[bad]
    rows, columns = np.nonzero(~np.isfinite(X))
    return rows, columns, X[rows, columns]


def _found(name: str, value: float, number: int, where: str, row: int) -> str:
    what = f"{not_finite_kind(value)}: {count(number, 'value')}"
    return f"Input {name} contains {what}{where} (first in row {row})."
