"""Tasks of few rows, solved together: step 1 of Algorithm 1 with the squared loss.

Which tasks these are, and their answers, depend on each task alone: not on the others of its shard.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from mmtfl.objective.design import CONSTANT
from mmtfl.objective.row_sizes import EntryPenalty
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.grouping import offsets_of

_FEW_ROWS = 16
_LEAST_ENTRY = 1e-60  # weights below this, in units of their mean, are left to `Design`
_TASK_SWEEPS = 2_000  # of one task at p other than 2
_LEAST_WEIGHT = 1e-200  # next to none, and its inverse can be multiplied


class SmallAnswers(NamedTuple):
    """Coefficients (n_members, n_features), intercepts, losses (nan: not solved), and if all are exact."""

    A: np.ndarray
    intercept: np.ndarray
    losses: np.ndarray
    is_exact: bool


class SmallTasks:
    """The tasks of a shard that have few rows, ready to be solved for any weights of the features.

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
        from mmtfl.kernels.task_sweeps import centre_tasks

        centre_tasks(self._x, self.offsets, weight, fit_intercept, CONSTANT, self._means, self.spread)
        y, starts = tasks.y[rows], self.offsets[:-1]
        self._centre = np.zeros(len(self.members))
        if fit_intercept and len(rows):
            self._centre = np.add.reduceat(weight * y, starts) / np.add.reduceat(weight, starts)
        self._target = np.sqrt(weight) * (y - np.repeat(self._centre, np.diff(self.offsets)))

    def solve(
        self, weights: np.ndarray, p: float, tol: float, last: np.ndarray | None, common: np.ndarray | None
    ) -> "SmallAnswers":
        """The least loss plus sum_j w_j |a_j|^p of every task; see `TaskStep.minimise`."""
        found = self._ridges(weights, common) if p == 2.0 else self._settled(weights, p, tol, last)
        A, losses, is_exact = found
        return SmallAnswers(A, self._centre - np.einsum("tj,tj->t", self._means, A), losses, is_exact)

    def _ridges(self, weights: np.ndarray, common: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, bool]:
        from mmtfl.kernels.task_sweeps import solve_tasks

        inverse = 1.0 / np.maximum(weights, _LEAST_WEIGHT)
        kept = np.flatnonzero(inverse > 0.0)
        A, losses = np.zeros_like(self._means), np.empty(len(self.members))
        common = np.zeros(len(weights)) if common is None else common
        with np.errstate(over="ignore", invalid="ignore"):
            solve_tasks(self._x, self.offsets, self._target, kept, inverse, common, A, losses)
        return A, losses, True

    def _settled(
        self, weights: np.ndarray, p: float, tol: float, last: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """By coordinate descent from the last answers, in units of each task's steepest slope at zero."""
        from mmtfl.kernels.task_sweeps import settle_tasks

        kept, starts = np.flatnonzero(np.isfinite(weights)), self.offsets[:-1]
        A, state = np.zeros(self._means.T.shape), self._target.copy()
        if last is not None:
            A[kept] = last[:, kept].T
            state -= np.einsum("ij,ij->i", self._x, np.repeat(A.T, np.diff(self.offsets), axis=0))
        entries = EntryPenalty(p, weights[kept], np.full(len(kept), np.inf))
        lengths, n_sweeps = np.diff(self.offsets), np.empty(len(starts), dtype=np.intp)
        settle_tasks(
            self._columns, starts, lengths, np.empty(0), np.empty((0, 0)), self._curvature, state, starts,
            kept, A, *entries, entries.limit, tol * self._steepest, n_sweeps, _TASK_SWEEPS,
        )  # fmt: skip
        losses = 0.5 * np.add.reduceat(state**2, starts) if len(state) else np.empty(0)
        return np.ascontiguousarray(A.T), losses, bool(np.all(n_sweeps < _TASK_SWEEPS))

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self._x.T)

    @cached_property
    def _curvature(self) -> np.ndarray:
        return np.ascontiguousarray(self.spread.T**2)

    @cached_property
    def _steepest(self) -> np.ndarray:
        if len(self._x) == 0:
            return np.empty(0)
        slopes = np.add.reduceat(self._x * self._target[:, None], self.offsets[:-1])
        largest = np.abs(slopes).max(axis=1, initial=0.0)
        return np.where(largest > 0.0, largest, 1.0)


def are_small(tasks: Tasks, mean_size: float) -> np.ndarray:
    """Which tasks are solved here: those of few dense rows, none of which weighs next to nothing."""
    if sparse.issparse(tasks.X) or tasks.rows is not None or tasks.known is not None:
        return np.zeros(tasks.n_tasks, dtype=bool)
    is_small = tasks.sizes <= _FEW_ROWS
    if tasks.weights is not None:
        is_small &= np.minimum.reduceat(tasks.weights, tasks.offsets[:-1]) > _LEAST_ENTRY * mean_size
    return is_small
