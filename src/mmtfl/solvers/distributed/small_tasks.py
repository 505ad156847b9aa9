"""Tasks of few rows, solved together: step 1 of Algorithm 1 at p = 2 with the squared loss.

Which tasks these are, and their answers, depend on each task alone: not on the others of its shard.
"""

import numpy as np
from scipy import sparse

from mmtfl.objective.design import CONSTANT
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.grouping import offsets_of

_FEW_ROWS = 16
_LEAST_ENTRY = 1e-60  # weights below this, in units of their mean, are left to `Design`
_LEAST_WEIGHT = 1e-200  # next to none, and its inverse can be multiplied


class SmallTasks:
    """The tasks of a shard that have few rows, ready for weighted ridges.

    Parameters
    ----------
    tasks : Tasks
        The tasks of the shard, without far levels and with targets in the units wanted.
    mean_size : float
        n of eq. (1).
    column_scale : ndarray (n_features,) or None
        Units of the columns.
    fit_intercept : bool
        Whether each task has a constant.
    """

    def __init__(self, tasks: Tasks, *, mean_size: float, column_scale, fit_intercept: bool):
        is_small = are_small(tasks, mean_size)
        self.members, rows = np.flatnonzero(is_small), np.flatnonzero(np.repeat(is_small, tasks.sizes))
        weights = np.ones(len(rows)) if tasks.weights is None else tasks.weights[rows]
        self.offsets, weight = offsets_of(tasks.sizes[self.members]), weights / mean_size
        X = tasks.X[rows]
        self._x = np.array(X.toarray() if sparse.issparse(X) else X, dtype=float, order="C")
        if column_scale is not None:
            self._x *= 1.0 / column_scale
        self._means, self.spread = np.empty((2, len(self.members), tasks.n_features))
        from mmtfl.kernels.small_ridges import centre_tasks

        centre_tasks(self._x, self.offsets, weight, fit_intercept, CONSTANT, self._means, self.spread)
        y, starts = tasks.y[rows], self.offsets[:-1]
        self._centre = np.zeros(len(self.members))
        if fit_intercept and len(rows):
            self._centre = np.add.reduceat(weight * y, starts) / np.add.reduceat(weight, starts)
        self._target = np.sqrt(weight) * (y - np.repeat(self._centre, np.diff(self.offsets)))

    def solve(
        self, weights: np.ndarray, common: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients (n_members, n_features), intercepts and losses; a loss of nan: not solved."""
        from mmtfl.kernels.small_ridges import solve_tasks

        inverse = 1.0 / np.maximum(weights, _LEAST_WEIGHT)
        kept = np.flatnonzero(inverse > 0.0)
        A, losses = np.zeros_like(self._means), np.empty(len(self.members))
        common = np.zeros(len(weights)) if common is None else common
        with np.errstate(over="ignore", invalid="ignore"):
            solve_tasks(self._x, self.offsets, self._target, kept, inverse, common, A, losses)
            return A, self._centre - np.einsum("tj,tj->t", self._means, A), losses


def are_small(tasks: Tasks, mean_size: float) -> np.ndarray:
    """Which tasks are solved here: those of few dense rows, none of which weighs next to nothing."""
    if sparse.issparse(tasks.X) or tasks.rows is not None:
        return np.zeros(tasks.n_tasks, dtype=bool)
    is_small = tasks.sizes <= _FEW_ROWS
    if tasks.weights is not None:
        is_small &= np.minimum.reduceat(tasks.weights, tasks.offsets[:-1]) > _LEAST_ENTRY * mean_size
    return is_small
