"""Spread of columns and targets, without copies of the data and without overflow; and which columns vary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.tasks.container import Tasks

_CONSTANT = 1e-10  # share of the largest entry: a column that varies less is constant up to rounding
CHUNK = 1 << 18  # entries of X held in float64 at a time


def column_spread(tasks: Tasks, columns: np.ndarray | None = None) -> np.ndarray:
    """Weighted standard deviation of columns (None: all) over all observations; 1 for a constant column."""
    weights = _row_weights(tasks)
    X = tasks.X if columns is None else tasks.X[:, columns]
    if X.shape[1] == 0:
        return np.empty(0)
    spread = _sparse_spread if sparse.issparse(X) else _dense_spread
    return spread(X, weights / weights.sum())


def target_spread(tasks: Tasks) -> np.ndarray:
    """Weighted standard deviation of each task's target; 1 for a constant one."""
    index, T = tasks.observation_task, tasks.n_tasks
    weights = np.ones_like(tasks.y) if tasks.weights is None else tasks.weights
    share = weights / _sum_by(index, weights, T)[index]
    size = np.zeros(T)
    np.maximum.at(size, index, np.where(weights > 0, np.abs(tasks.y), 0.0))
    size[size == 0] = 1.0
    y = tasks.y / size[index]
    mean = _sum_by(index, share * y, T)
    variance = _sum_by(index, share * (y - mean[index]) ** 2, T)
    return _finish(np.sqrt(variance), mean, size)


def _row_weights(tasks: Tasks) -> np.ndarray:
    """Weight of each row of X: the sum of the weights of its observations."""
    if tasks.rows is None:
        return np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
    return np.bincount(tasks.rows, tasks.weights, minlength=tasks.X.shape[0]).astype(np.float64)


def _dense_spread(X: np.ndarray, share: np.ndarray) -> np.ndarray:
    size = np.zeros(X.shape[1])
    for part in _chunks(X):
        # rows of weight zero count as absent, however large they are
        np.maximum(size, np.abs(X[part][share[part] > 0]).max(axis=0, initial=0.0), out=size)
    size[size == 0] = 1.0
    mean = sum(share[part] @ _scaled(X, part, size, share) for part in _chunks(X))
    variance = sum(share[part] @ (_scaled(X, part, size, share) - mean) ** 2 for part in _chunks(X))
    return _finish(np.sqrt(variance), mean, size)


def _sparse_spread(X: Any, share: np.ndarray) -> np.ndarray:
    if not X.has_canonical_format:  # duplicates would be squared one by one
        X = X.copy()
        X.sum_duplicates()
    entries = X.tocoo()
    d = X.shape[1]
    weight, column = share[entries.row], entries.col
    data = np.where(weight > 0, entries.data, 0.0).astype(np.float64)
    size = np.zeros(d)
    np.maximum.at(size, column, np.abs(data))
    size[size == 0] = 1.0
    data /= size[column]
    mean = _sum_by(column, weight * data, d)
    stored = _sum_by(column, weight, d)
    variance = _sum_by(column, weight * (data - mean[column]) ** 2, d)
    variance += np.maximum(1.0 - stored, 0.0) * mean**2  # the zeros that are not stored
    return _finish(np.sqrt(variance), mean, size)


def _sum_by(index: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(index, values, minlength=size).astype(
        np.float64
    )  # numpy returns int for an empty index


def _chunks(X: np.ndarray) -> Iterator[slice]:
    step = max(1, CHUNK // X.shape[1])
    return (slice(start, start + step) for start in range(0, X.shape[0], step))


def _scaled(X: np.ndarray, part: slice, size: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Rows of X in units of each column's largest entry, so that no square overflows."""
    return np.where(share[part, None] > 0, X[part], 0.0) / size


def _finish(deviation: np.ndarray, mean: np.ndarray, size: np.ndarray) -> np.ndarray:
    # a smaller deviation is rounding of the mean, as in a constant column
    constant = deviation <= 10 * np.finfo(np.float64).eps * np.abs(mean)
    spread = deviation * size
    return np.where(constant | (spread == 0), 1.0, spread)


# -- which tasks could use which features --------------------------------------------------------------


def could_use(tasks: Tasks, *, fit_intercept: bool) -> np.ndarray:
    """Tell for each task and feature, (n_tasks, n_features), whether the task could use the feature.

    With an intercept a column that is constant within the task is of no use; without one, only a column of
    zeros is. Rows of weight zero count as absent.

    Examples
    --------
    >>> from mmtfl import Tasks
    >>> from mmtfl.tasks.scaling import could_use
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
    varies = _differ(X[0], X[-1])  # two rows decide most columns
    rest = np.flatnonzero(~varies)
    if rest.size and len(X) > 2:
        varies[rest] = _differ(X[:, rest].min(axis=0), X[:, rest].max(axis=0))
    return varies


def _is_not_zero(X: Any) -> np.ndarray:
    if sparse.issparse(X):
        return abs(X).max(axis=0).toarray().ravel() > 0.0
    return X.any(axis=0)


def _differ(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    # the difference of halves cannot overflow
    return np.abs(first / 2 - second / 2) > _CONSTANT / 2 * np.maximum(np.abs(first), np.abs(second))
