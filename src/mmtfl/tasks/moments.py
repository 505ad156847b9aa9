"""Compression of rows for the squared loss: a task of any length is replaced by at most d + 2 rows.

The squared loss of a task depends on its rows only through their total weight, means and scatter matrix.
These are accumulated block by block, and d + 2 rows with the same weight, means and scatter take the place of
all rows: objective, gradients, intercepts and certificates stay the same. Cross-validation does this for each
fold of a task.
"""

from __future__ import annotations

from collections.abc import Iterator
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

    def add(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Add some rows."""
        done = 0
        while done < len(y):
            at = self._n_waiting
            n = min(len(y) - done, len(self._waiting) - at)
            self._waiting[at : at + n, :-1] = X[done : done + n]
            self._waiting[at : at + n, -1] = y[done : done + n]
            self._waiting_weight[at : at + n] = 1.0 if weights is None else weights[done : done + n]
            self._n_waiting, done = at + n, done + n
            if self._n_waiting == len(self._waiting):
                self._accumulate()

    def _accumulate(self) -> None:
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
        self._accumulate()
        root = self._root()
        n_rows = len(root) + 1
        # orthonormal columns that sum to zero rotate the root without moving the mean
        turned = helmert(n_rows).T @ root * np.sqrt(n_rows / self.weight)
        rows = self.mean + turned
        weights = np.full(n_rows, self.weight / n_rows)
        return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, -1]), weights

    def _root(self) -> np.ndarray:
        """R with R.T @ R = scatter and as many rows as its rank, factorised with scaled columns."""
        squares = np.diag(self.scatter)
        # the scatter of a constant column is the rounding of its mean
        is_constant = squares <= _CONSTANT * self.weight * self.mean**2
        scale = np.sqrt(np.where(is_constant, 0.0, squares))
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        factor, pivots, rank, _ = dpstrf(self.scatter * unit[:, None] * unit, lower=0)
        root = np.empty((rank, len(scale)))
        root[:, pivots - 1] = np.triu(factor)[:rank]
        return root * scale


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
    d, n_tasks = stored.n_features, stored.n_tasks
    long = is_compressible(stored.sizes // n_folds, d)
    gathered = {(t, k): Moments(d) for t in np.flatnonzero(long).tolist() for k in range(n_folds)}
    short: dict[tuple[int, int], list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {}
    for t, fold, X, y, w in _rows_with_folds(stored, n_folds, seed):
        for k in np.unique(fold).tolist():
            rows = fold == k
            if long[t]:
                gathered[t, k].add(X[rows], y[rows], w[rows])
            else:
                short.setdefault((t, k), []).append((X[rows], y[rows], w[rows]))
    blocks, task, folds = [], [], []
    for t in range(n_tasks):
        for k in range(n_folds):
            own = [gathered.pop((t, k)).rows()] if long[t] else short.pop((t, k), [])
            blocks += own
            n_rows = sum(len(block[1]) for block in own)
            task += [t] * n_rows
            folds += [k] * n_rows
    X, y, w = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
    return FoldedRows(X, y, w, stored.labels[task], np.array(folds))


def _rows_with_folds(stored: StoredTasks, n_folds: int, seed: int) -> Iterator[tuple]:
    """Yield rows of one task at a time with their folds, which differ by at most one row in every batch."""
    seen = np.zeros(stored.n_tasks, dtype=int)
    batches = stored.part(0, stored.n_tasks, compress=False).batches()
    for number, (observation_task, X, y, w) in enumerate(batches):
        rng = np.random.default_rng([seed, number])
        for t in np.unique(observation_task).tolist():
            rows = np.flatnonzero(observation_task == t)
            fold = rng.permutation((seen[t] + np.arange(len(rows))) % n_folds)
            seen[t] += len(rows)
            yield t, fold, X[rows], y[rows], np.ones(len(rows)) if w is None else w[rows]
