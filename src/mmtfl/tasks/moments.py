"""Many rows as few: for the squared loss a task of any length is worth d + 2 rows.

The squared loss of a task depends on its rows only through their number, means and scatter. These are
gathered block by block, and at the end a handful of rows is made that has the same number (by weight), means
and scatter: whoever works with those rows gets the same objective, gradients, intercepts and certificates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import helmert
from scipy.linalg.lapack import dpstrf

_LEAST_BLOCK = 256  # rows that are worked in at once, so that a block is a product of matrices
_CONSTANT = 1e-20  # share of the raw square sum


def is_compressible(n_rows: Any, n_features: int) -> Any:
    """Whether a task (or each of an array of them) has more rows than would stand for it."""
    return n_rows > n_features + 2


def block_length(n_features: int) -> int:
    """Rows waiting to be worked in, at most."""
    return max(_LEAST_BLOCK, 2 * (n_features + 1))


class Moments:
    """Weight, means and scatter of the rows of one task, with the target as last column.

    Rows are worked in by blocks of a fixed length, so that the result has the same bits however they
    arrive.

    Parameters
    ----------
    n_features : int
        Number of features.

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
        """Take some more rows."""
        done = 0
        while done < len(y):
            at = self._n_waiting
            n = min(len(y) - done, len(self._waiting) - at)
            self._waiting[at : at + n, :-1] = X[done : done + n]
            self._waiting[at : at + n, -1] = y[done : done + n]
            self._waiting_weight[at : at + n] = 1.0 if weights is None else weights[done : done + n]
            self._n_waiting, done = at + n, done + n
            if self._n_waiting == len(self._waiting):
                self._work_in()

    def _work_in(self) -> None:
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
        """X, y and weights of at most d + 2 rows with these moments."""
        self._work_in()
        root = self._root()
        n_rows = len(root) + 1
        # orthonormal columns that sum to zero: they turn the root without moving the mean
        turned = helmert(n_rows).T @ root * np.sqrt(n_rows / self.weight)
        rows = self.mean + turned
        weights = np.full(n_rows, self.weight / n_rows)
        return np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, -1]), weights

    def _root(self) -> np.ndarray:
        """R with R.T @ R the scatter, as many rows as its rank; columns on one scale on the way."""
        squares = np.diag(self.scatter)
        # the scatter of a constant column is the rounding of its mean
        is_constant = squares <= _CONSTANT * self.weight * self.mean**2
        scale = np.sqrt(np.where(is_constant, 0.0, squares))
        unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        factor, pivots, rank, _ = dpstrf(self.scatter * unit[:, None] * unit, lower=0)
        root = np.empty((rank, len(scale)))
        root[:, pivots - 1] = np.triu(factor)[:rank]
        return root * scale
