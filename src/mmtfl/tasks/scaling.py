"""Spread of columns and targets, measured without copying the data and without overflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.tasks.container import Tasks

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
    """Weight of each row of X: what its observations weigh together."""
    if tasks.rows is None:
        return np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
    return np.bincount(tasks.rows, tasks.weights, minlength=tasks.X.shape[0]).astype(np.float64)


def _dense_spread(X: np.ndarray, share: np.ndarray) -> np.ndarray:
    size = np.zeros(X.shape[1])
    for part in _chunks(X):
        # rows without weight count as absent, however large they are
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
    return np.bincount(index, values, minlength=size).astype(np.float64)  # numpy counts in int where empty


def _chunks(X: np.ndarray) -> Iterator[slice]:
    step = max(1, CHUNK // X.shape[1])
    return (slice(start, start + step) for start in range(0, X.shape[0], step))


def _scaled(X: np.ndarray, part: slice, size: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Rows of X in units of each column's largest entry, so that no square overflows."""
    return np.where(share[part, None] > 0, X[part], 0.0) / size


def _finish(deviation: np.ndarray, mean: np.ndarray, size: np.ndarray) -> np.ndarray:
    # below this the deviation is the rounding of the mean, as in a constant column
    constant = deviation <= 10 * np.finfo(np.float64).eps * np.abs(mean)
    spread = deviation * size
    return np.where(constant | (spread == 0), 1.0, spread)
