"""Compression of rows for the squared loss: a task of any length is replaced by at most d + 2 rows.

The squared loss of a task depends on its rows only through their total weight, means and scatter matrix.
These are accumulated block by block, and d + 2 rows with the same weight, means and scatter take the place of
all rows: objective, gradients, intercepts and certificates stay the same. Cross-validation does this for each
fold of a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import helmert
from scipy.linalg.lapack import dpstrf

if TYPE_CHECKING:
    from mmtfl.tasks.stored import StoredTasks

_LEAST_BLOCK = 256  # rows accumulated at once, so that a block is a product of matrices
_CONSTANT = 1e-20  # share of the raw square sum below which a column is constant


def is_compressible(n_rows: Any, n_features: int) -> Any:
    """Whether a task of n_rows rows (or each of an array of them) has more rows than would replace it."""
    return n_rows > n_features + 2


def block_length(n_features: int) -> int:
    """Number of rows that are accumulated at once."""
    return max(_LEAST_BLOCK, 2 * (n_features + 1))


class Moments:
    """Weight, means and scatter of the rows of one task, with the target as last column.

    Rows are accumulated in blocks of a fixed length, so that the result has the same bits however they
    arrive.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.moments import Moments
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(1000, 2)), rng.normal(size=1000)
    >>> moments = Moments(2)
    >>> moments.add(X[:300], y[:300]); moments.add(X[300:], y[300:])
    >>> few, target, weight = moments.rows()
    >>> few.shape, bool(np.isclose(weight.sum(), 1000))
    ((4, 2), True)
    >>> np.allclose(few.T @ (weight[:, None] * few), X.T @ X), np.allclose((weight * target) @ few, y @ X)
    (True, True)
    """

    def __init__(self, n_features: int):
        n_columns = n_features + 1
        self.weight = 0.0
        self.mean = np.zeros(n_columns)
        self.scatter = np.zeros((n_columns, n_columns))
        self._waiting = np.empty((block_length(n_features), n_columns))
        self._waiting_weight = np.empty(len(self._waiting))
        self._n_waiting = 0

    def add(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | float = 1.0) -> None:
        """Add some rows."""
        weights, done = np.broadcast_to(weights, len(y)), 0
        while done < len(y):
            at = self._n_waiting
            n = min(len(y) - done, len(self._waiting) - at)
            into, new = slice(at, at + n), slice(done, done + n)
            self._waiting[into, :-1], self._waiting[into, -1] = X[new], y[new]
            self._waiting_weight[into] = weights[new]
            self._n_waiting, done = at + n, done + n
            if self._n_waiting == len(self._waiting):
                self.accumulate()

    def accumulate(self) -> None:
        """Take the rows that still wait into the moments."""
        block, weight = self._waiting[: self._n_waiting], self._waiting_weight[: self._n_waiting]
        self._n_waiting = 0
        total = float(weight.sum())
        if total == 0.0:
            return
        mean = weight @ block / total
        block = (block - mean) * np.sqrt(weight)[:, None]
        both = self.weight + total
        apart = mean - self.mean
        self.scatter += block.T @ block
        self.scatter += np.outer(apart, apart) * (self.weight * total / both)
        self.mean += apart * (total / both)
        self.weight = both

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give X, y and weights of at most d + 2 rows with these moments."""
        self.accumulate()
        return rows_with(self.weight, self.mean, self.scatter)


def rows_with(
    weight: float, mean: np.ndarray, scatter: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give X, y and weights of at most d + 2 rows of this total weight, mean and scatter (the target last).

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.moments import rows_with
    >>> X, y, weights = rows_with(50.0, np.array([3.0, 7.0]), np.array([[20.0, 5.0], [5.0, 10.0]]))
    >>> len(y), bool(np.isclose(weights @ y, 350.0)), bool(np.isclose(weights @ (y - 7.0) ** 2, 10.0))
    (3, True, True)
    """
    root = _root(weight, mean, scatter)
    n_rows = len(root) + 1
    # orthonormal columns that sum to zero rotate the root without moving the mean
    turned = helmert(n_rows).T @ root * np.sqrt(n_rows / weight)
    rows = mean + turned
    weights = np.full(n_rows, weight / n_rows)
    return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, -1]), weights


def _root(weight: float, mean: np.ndarray, scatter: np.ndarray) -> np.ndarray:
    """R with R.T @ R = scatter and as many rows as its rank, factorised with scaled columns."""
    squares = np.diag(scatter)
    # the scatter of a constant column is the rounding of its mean
    is_constant = squares <= _CONSTANT * weight * mean**2
    scale = np.sqrt(np.where(is_constant, 0.0, squares))
    unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
    factor, pivots, rank, _ = dpstrf(scatter * unit[:, None] * unit, lower=0)
    root = np.empty((rank, len(scale)))
    root[:, pivots - 1] = np.triu(factor)[:rank]
    return root * scale


def gather_rows(
    blocks: Iterable[tuple[Any, np.ndarray, np.ndarray, np.ndarray]], is_long: np.ndarray, n_features: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Stack blocks (key, X, y, weights) in the order of their keys; returns each row's key, X, y and weights.

    A key is a tuple: a task, or a task and a fold. Rows of a long task become few rows with the same moments.
    """
    held: dict[Any, Any] = {}
    for key, *block in blocks:
        if not is_long[key[0]]:
            held.setdefault(key, []).append(block)
        else:
            if key not in held:
                held[key] = Moments(n_features)
            held[key].add(*block)
    found = []
    for key in sorted(held):
        own = held.pop(key)  # its memory is freed as soon as its rows exist
        found += [(key, *block) for block in ([own.rows()] if isinstance(own, Moments) else own)]
    keys, X, y, weights = zip(*found, strict=True)
    row_keys = np.repeat(keys, [len(part) for part in y], axis=0)
    return row_keys, np.concatenate(X), np.concatenate(y), np.concatenate(weights)


# -- folds of stored tasks -----------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldedRows:
    """Rows in the order of their tasks, with the label and the fold in which each is held out."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    task: np.ndarray
    fold: np.ndarray

    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Training and test rows of every fold."""
        numbers = range(int(self.fold.max()) + 1)
        return [(np.flatnonzero(self.fold != k), np.flatnonzero(self.fold == k)) for k in numbers]


def bytes_folded(stored: StoredTasks, n_folds: int) -> int:
    """Estimate of the memory that `fold_rows` and a search over its rows take."""
    d = stored.n_features
    held = np.minimum(stored.sizes, n_folds * (d + 2))
    long = is_compressible(stored.sizes // n_folds, d)
    gathering = np.where(long, n_folds * (block_length(d) + d + 1), 0)
    # the rows, those of the training part of a fold, and a copy in the layout of the solvers
    return int(np.sum(8 * (d + 1) * (4 * held + gathering)))


def fold_rows(stored: StoredTasks, n_folds: int, seed: int) -> FoldedRows:
    """Read stored tasks once, and split each at random into folds of nearly equal size.

    Every task keeps at most ``n_folds * (n_features + 2)`` rows. The same files and seed give the same folds.
    """
    long = is_compressible(stored.sizes // n_folds, stored.n_features)
    blocks = (
        ((t, k), X[fold == k], y[fold == k], w[fold == k])
        for t, fold, X, y, w in _rows_with_folds(stored, n_folds, seed)
        for k in np.unique(fold).tolist()
    )
    keys, X, y, w = gather_rows(blocks, long, stored.n_features)
    return FoldedRows(X, y, w, stored.labels[keys[:, 0]], keys[:, 1])


def _rows_with_folds(stored: StoredTasks, n_folds: int, seed: int) -> Iterator[tuple]:
    """Yield rows of one task at a time with their folds, which differ by at most one row in every batch."""
    seen = np.zeros(stored.n_tasks, dtype=int)
    batches = stored.part(0, stored.n_tasks, compress=False).batches()
    for number, batch in enumerate(batches):
        rng = np.random.default_rng([seed, number])
        for (t,), *block in by_task(*batch):
            n_rows = len(block[1])
            fold = rng.permutation((seen[t] + np.arange(n_rows)) % n_folds)
            seen[t] += n_rows
            yield t, fold, *block


def by_task(
    observation_task: np.ndarray, X: np.ndarray, y: np.ndarray, weights: np.ndarray
) -> Iterator[tuple[tuple[int], np.ndarray, np.ndarray, np.ndarray]]:
    """Split a batch of rows into blocks, one per task, in the order of the tasks."""
    order = np.argsort(observation_task, kind="stable")
    found, starts = np.unique(observation_task[order], return_index=True)
    for t, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield (t,), X[rows], y[rows], weights[rows]
