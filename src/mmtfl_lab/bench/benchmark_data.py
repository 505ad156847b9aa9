"""Made data of the benchmark: tasks with their own rows, or one X shared by all tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit

_CORRELATION = 0.5  # between neighbouring columns
_NOISE = 1.0 / 3.0  # standard deviation of the noise over that of the signal


@dataclass(frozen=True)
class RaggedTasks:
    """Every task has its own rows: X (N, d), y (N,), and the task of each row, sorted."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    loss: str = "squared"
    fit_intercept: bool = False

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where each task's rows begin, and where the last one's end."""
        return np.flatnonzero(np.r_[True, np.diff(self.task) > 0, True])

    @property
    def n_tasks(self) -> int:
        """Number of tasks T."""
        return len(self.offsets) - 1

    @property
    def mean_size(self) -> float:
        """Mean rows per task, the n of eq. (2)."""
        return len(self.y) / self.n_tasks

    @property
    def shape(self) -> str:
        """One line for people."""
        rows = np.diff(self.offsets)
        sizes = f"{rows.min()}" if rows.min() == rows.max() else f"{rows.min()}..{rows.max()}"
        return f"T = {self.n_tasks}, n_t = {sizes}, d = {self.X.shape[1]}"

    def parts(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """X_t and y_t of every task."""
        for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.X[first:last], self.y[first:last]

    def predict(self, A: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Linear predictor X_t a_t + b_t, in the order of y."""
        kept = np.flatnonzero(A.any(axis=1))
        return np.concatenate([X[:, kept] @ A[kept, t] + b[t] for t, (X, _) in enumerate(self.parts())])

    def correlate(self, r: np.ndarray) -> np.ndarray:
        """X_t^T r_t of every task, (d, T): one pass over the data."""
        bounds = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        return np.column_stack([self.X[first:last].T @ r[first:last] for first, last in bounds])

    def centred(self, r: np.ndarray) -> np.ndarray:
        """r minus its mean over each task's rows."""
        means = np.add.reduceat(r, self.offsets[:-1]) / np.diff(self.offsets)
        return r - np.repeat(means, np.diff(self.offsets))


@dataclass(frozen=True)
class SharedTasks:
    """All tasks have the same rows: X (n, d) and y (n, T)."""

    X: np.ndarray
    y: np.ndarray
    loss: str = "squared"
    fit_intercept: bool = True
    task: None = None

    @property
    def n_tasks(self) -> int:
        """Number of tasks T."""
        return self.y.shape[1]

    @property
    def mean_size(self) -> float:
        """Rows per task, the n of eq. (2)."""
        return float(self.y.shape[0])

    @property
    def shape(self) -> str:
        """One line for people."""
        return f"n = {self.X.shape[0]}, d = {self.X.shape[1]}, T = {self.n_tasks}"

    def predict(self, A: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Linear predictor X A + b."""
        kept = np.flatnonzero(A.any(axis=1))
        return self.X[:, kept] @ A[kept] + b

    def correlate(self, r: np.ndarray) -> np.ndarray:
        """X^T r, (d, T): one pass over the data."""
        return self.X.T @ r

    def centred(self, r: np.ndarray) -> np.ndarray:
        """r minus its mean over the rows, for every task."""
        return r - r.mean(axis=0)


Data = RaggedTasks | SharedTasks


def make_ragged(
    *, n_tasks: int, least: int, most: int, n_features: int, n_true: int, loss: str = "squared", seed: int = 0
) -> RaggedTasks:
    """Tasks of `least` to `most` rows; n_true rows of A are N(0, 1), the others zero.

    Examples
    --------
    >>> from mmtfl_lab.bench.benchmark_data import make_ragged
    >>> data = make_ragged(n_tasks=3, least=5, most=9, n_features=4, n_true=2)
    >>> data.X.shape == (len(data.task), 4), data.n_tasks
    (True, 3)
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(least, most + 1, size=n_tasks)
    task = np.repeat(np.arange(n_tasks), sizes)
    X = _correlated_columns(rng, len(task), n_features)
    true, rows = _true_rows(rng, n_features, n_tasks, n_true)
    z = np.einsum("ij,ij->i", X[:, true], rows.T[task])
    return RaggedTasks(X, _targets(rng, z, loss), task, loss=loss)


def make_shared(*, n_rows: int, n_features: int, n_tasks: int, n_true: int, seed: int = 0) -> SharedTasks:
    """One X for all tasks, by the same law.

    Examples
    --------
    >>> from mmtfl_lab.bench.benchmark_data import make_shared
    >>> make_shared(n_rows=6, n_features=4, n_tasks=3, n_true=2).y.shape
    (6, 3)
    """
    rng = np.random.default_rng(seed)
    X = _correlated_columns(rng, n_rows, n_features)
    true, rows = _true_rows(rng, n_features, n_tasks, n_true)
    return SharedTasks(X, _targets(rng, X[:, true] @ rows, "squared"))


def _correlated_columns(rng: np.random.Generator, n_rows: int, n_features: int) -> np.ndarray:
    """AR(1) along the columns, unit variance."""
    columns = rng.normal(size=(n_features, n_rows))
    for j in range(1, n_features):
        columns[j] *= np.sqrt(1.0 - _CORRELATION**2)
        columns[j] += _CORRELATION * columns[j - 1]
    return np.ascontiguousarray(columns.T)  # rows of a table, as people have it


def _true_rows(rng: np.random.Generator, n_features: int, n_tasks: int, n_true: int):
    return rng.choice(n_features, n_true, replace=False), rng.normal(size=(n_true, n_tasks))


def _targets(rng: np.random.Generator, z: np.ndarray, loss: str) -> np.ndarray:
    if loss == "logistic":
        return (rng.random(z.shape) < expit(z)).astype(float)
    return z + _NOISE * z.std() * rng.normal(size=z.shape)
