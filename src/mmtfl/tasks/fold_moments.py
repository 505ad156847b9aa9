"""Stored tasks for cross-validation: rows cut into folds as they are read, long ones kept as few.

For the squared loss a part of a task is worth d + 2 rows (see `moments`). So each task keeps at most d + 2
rows per fold, whatever its length, and what is fitted and scored on them is what all rows would give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mmtfl.tasks.moments import Moments, block_length, is_compressible
from mmtfl.tasks.stored import StoredTasks

__all__ = ["FoldedRows", "bytes_folded", "fold_rows"]


@dataclass(frozen=True)
class FoldedRows:
    """Rows in the order of their tasks.

    Attributes
    ----------
    X, y, weights : ndarray
        Rows, or few in the place of many.
    task : ndarray
        Task label of each.
    fold : ndarray of int
        In which fold each is held out.
    """

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
    """What `fold_rows` and a search over its rows take in memory, about."""
    d = stored.n_features
    held = np.minimum(stored.sizes, n_folds * (d + 2))
    long = is_compressible(stored.sizes // n_folds, d)
    gathering = np.where(long, n_folds * (block_length(d) + d + 1), 0)
    # the rows, those of a fold's training part, and a copy in the solvers' layout
    return int(np.sum(8 * (d + 1) * (4 * held + gathering)))


def fold_rows(stored: StoredTasks, n_folds: int, seed: int) -> FoldedRows:
    """Read stored tasks once, each cut at random into folds as equal as they can be.

    Parameters
    ----------
    stored : StoredTasks
        Tasks with numbers as targets.
    n_folds : int
        Number of folds.
    seed : int
        Of the random numbers; with the same files and seed the folds are the same.

    Returns
    -------
    FoldedRows
        At most ``n_folds * (n_features + 2)`` rows of each task.
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
    """Rows of one task at a time, with the fold of each; the parts of a task differ by a row per batch."""
    seen = np.zeros(stored.n_tasks, dtype=int)
    batches = stored.part(0, stored.n_tasks, compress=False).batches()
    for number, (codes, X, y, w) in enumerate(batches):
        rng = np.random.default_rng([seed, number])
        for t in np.unique(codes).tolist():
            rows = np.flatnonzero(codes == t)
            fold = rng.permutation((seen[t] + np.arange(len(rows))) % n_folds)
            seen[t] += len(rows)
            yield t, fold, X[rows], y[rows], np.ones(len(rows)) if w is None else w[rows]
