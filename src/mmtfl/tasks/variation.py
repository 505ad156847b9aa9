"""Which tasks could use which features: a column that does not vary within a task tells nothing there."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.tasks.container import Tasks

__all__ = ["could_use"]

_CONSTANT = 1e-10  # of the largest entry: a column that varies less is constant but for rounding


def could_use(tasks: Tasks, *, fit_intercept: bool) -> np.ndarray:
    """Tell for each task and feature whether the task could use the feature.

    Parameters
    ----------
    tasks : Tasks
        Data; rows of weight zero count as absent.
    fit_intercept : bool
        With an intercept a column that is constant within the task is of no use; without one, only a column
        of zeros is.

    Returns
    -------
    possible : ndarray of bool, shape (n_tasks, n_features)
        False where the coefficient is zero whatever the model.

    Examples
    --------
    >>> from mmtfl import Tasks
    >>> from mmtfl.tasks.variation import could_use
    >>> tasks = Tasks.from_rows([[1.0, 5.0], [2.0, 5.0], [3.0, 6.0]], [1.0, 2.0, 3.0], ["a", "a", "b"])
    >>> could_use(tasks, fit_intercept=True)
    array([[ True, False],
           [False, False]])
    """
    if tasks.weights is not None and np.any(tasks.weights == 0.0):
        tasks = tasks.select(np.flatnonzero(tasks.weights))
    tells = _varies if fit_intercept else _is_not_zero
    X = tasks.X.tocsr() if sparse.issparse(tasks.X) else tasks.X
    if tasks.is_complete:
        return np.tile(tells(X), (tasks.n_tasks, 1))
    possible = np.empty((tasks.n_tasks, tasks.n_features), dtype=bool)
    for t in range(tasks.n_tasks):
        own = slice(tasks.offsets[t], tasks.offsets[t + 1])
        possible[t] = tells(X[own if tasks.rows is None else tasks.rows[own]])
    return possible


def _varies(X: Any) -> np.ndarray:
    if sparse.issparse(X):
        return _differ(X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel())
    varies = _differ(X[0], X[-1])  # two rows settle most columns
    rest = np.flatnonzero(~varies)
    if rest.size and len(X) > 2:
        varies[rest] = _differ(X[:, rest].min(axis=0), X[:, rest].max(axis=0))
    return varies


def _is_not_zero(X: Any) -> np.ndarray:
    if sparse.issparse(X):
        return abs(X).max(axis=0).toarray().ravel() > 0.0
    return X.any(axis=0)


def _differ(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    # halves: the difference could overflow
    return np.abs(first / 2 - second / 2) > _CONSTANT / 2 * np.maximum(np.abs(first), np.abs(second))
