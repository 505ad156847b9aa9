"""Linear predictors of many rows, each with the coefficients of its own task."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

CHUNK = 1 << 18  # entries handled at a time: float32 rows are widened by parts, never as a whole


def predict_all(X: Any, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """Predict every task on every row: (n_rows, n_tasks)."""
    if sparse.issparse(X):
        return np.asarray(X @ coef.T) + intercept
    z = np.empty((X.shape[0], coef.shape[0]))
    for part in _parts(*X.shape):
        np.matmul(X[part], coef.T, out=z[part])
    return z + intercept


def predict_rows(X: Any, coef: np.ndarray, intercept: np.ndarray, observation_task: np.ndarray) -> np.ndarray:
    """Predict row i with the coefficients of task observation_task[i]: (n_rows,)."""
    z = np.empty(X.shape[0])
    if sparse.issparse(X):
        entries = X.tocoo()
        terms = entries.data * coef[observation_task[entries.row], entries.col]
        return np.bincount(entries.row, terms, minlength=X.shape[0]) + intercept[observation_task]
    for part in _parts(*X.shape):
        z[part] = np.einsum("ij,ij->i", X[part], coef[observation_task[part]])
    return z + intercept[observation_task]


def _parts(n_rows: int, n_features: int) -> list[slice]:
    step = max(1, CHUNK // n_features)
    return [slice(start, start + step) for start in range(0, n_rows, step)]
