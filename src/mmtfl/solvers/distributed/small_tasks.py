"""Tasks of few rows, solved together: step 1 of Algorithm 1 with the squared or the logistic loss.

Which tasks these are, and their answers, depend on each task alone: not on the others of its shard.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from mmtfl.core.columns import CONSTANT
from mmtfl.objective.losses import Logistic
from mmtfl.objective.losses.by_rows import TaskLoss
from mmtfl.objective.problem import Problem
from mmtfl.objective.row_sizes import EntryPenalty
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.grouping import offsets_of

MANY_TASKS = 1000  # above, passes and rows take turns
_MOSTLY = 0.9  # share of the tasks that are small
_FEW_ROWS = 16
_LEAST_ENTRY = 1e-60  # weights below this, in units of their mean, are left to `Design`
_TASK_SWEEPS = 2_000  # of one task at p other than 2
_FINEST = 1e-10  # slope of such a task, in units of the steepest at zero, below which it stands still
_NEWTON_STEPS = 50  # of one task with the logistic loss
_LEAST_WEIGHT = 1e-200  # next to none, and its inverse can be multiplied


Last = tuple[np.ndarray, np.ndarray | None] | None  # the last coefficients of the tasks, and intercepts


class SmallAnswers(NamedTuple):
    """Coefficients (n_members, n_features), intercepts, losses (nan: not solved), and if all are exact."""

    A: np.ndarray
    intercept: np.ndarray
    losses: np.ndarray
    is_exact: bool


class SmallTasks(ABC):
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
        self.offsets, self._weight = offsets_of(tasks.sizes[self.members]), weights / mean_size
        self._fit_intercept, self._y = fit_intercept, np.asarray(tasks.y[rows], dtype=float)
        X = tasks.X[rows]
        self._x = np.array(X.toarray() if sparse.issparse(X) else X, dtype=float, order="C")
        if column_scale is not None:
            self._x *= 1.0 / column_scale

    @abstractmethod
    def solve(
        self, weights: np.ndarray, p: float, tol: float, last: Last, common: np.ndarray | None
    ) -> SmallAnswers:
        """The least loss plus sum_j w_j |a_j|^p of every task; see `TaskStep.minimise`."""

    def _centre(self, x: np.ndarray) -> np.ndarray:
        """Centre the columns in place, and scale rows by the roots of their weights; their means."""
        from mmtfl.kernels.task_sweeps import centre_tasks

        means, self.spread = np.empty((2, len(self.members), x.shape[1]))
        centre_tasks(x, self.offsets, self._weight, self._fit_intercept, CONSTANT, means, self.spread)
        return means

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        """Sums over the rows of each task."""
        return np.add.reduceat(rows, self.offsets[:-1]) if len(rows) else rows


class SmallSquared(SmallTasks):
    """Tasks of few rows with the squared loss: columns and targets are centred and weighted beforehand."""

    def __init__(self, tasks: Tasks, **options):
        super().__init__(tasks, **options)
        self._means = self._centre(self._x)
        y, weight = self._y, self._weight
        self._level = np.zeros(len(self.members))
        if self._fit_intercept:
            self._level = self._sums(weight * y) / self._sums(weight)
        self._target = np.sqrt(weight) * (y - np.repeat(self._level, np.diff(self.offsets)))

    def solve(self, weights, p, tol, last, common):
        """By ridges, or coordinate descent from the last answers."""
        found = self._ridges(weights, common) if p == 2.0 else self._settled(weights, p, tol, last)
        A, losses, is_exact = found
        return SmallAnswers(A, self._level - np.einsum("tj,tj->t", self._means, A), losses, is_exact)

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
        self, weights: np.ndarray, p: float, tol: float, last: Last
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """By coordinate descent from the last answers, in units of each task's steepest slope at zero."""
        from mmtfl.kernels.task_sweeps import settle_tasks

        kept, starts = np.flatnonzero(np.isfinite(weights)), self.offsets[:-1]
        A, state = np.zeros(self._means.T.shape), self._target.copy()
        if last is not None:
            A[kept] = last[0][:, kept].T
            state -= np.einsum("ij,ij->i", self._x, np.repeat(A.T, np.diff(self.offsets), axis=0))
        entries = EntryPenalty(p, weights[kept], np.full(len(kept), np.inf))
        lengths, n_sweeps = np.diff(self.offsets), np.empty(len(starts), dtype=np.intp)
        settle_tasks(
            self._columns, starts, lengths, np.empty(0), np.empty((0, 0)), self._curvature, state, starts,
            kept, A, *entries, entries.limit, tol * self._steepest, n_sweeps, _TASK_SWEEPS,
        )  # fmt: skip
        losses = 0.5 * self._sums(state**2)
        return np.ascontiguousarray(A.T), losses, bool(np.all(n_sweeps < _TASK_SWEEPS))

    @cached_property
    def _columns(self) -> np.ndarray:
        return np.ascontiguousarray(self._x.T)

    @cached_property
    def _curvature(self) -> np.ndarray:
        return np.ascontiguousarray(self.spread.T**2)

    @cached_property
    def _steepest(self) -> np.ndarray:
        return _largest(self._sums(self._x * self._target[:, None]))


class SmallLogistic(SmallTasks):
    """Tasks of few rows with the logistic loss, each by Newton steps of its own."""

    def __init__(self, tasks: Tasks, **options):
        super().__init__(tasks, **options)
        n_rows, at = np.diff(self.offsets), (self._y, self._weight, self.offsets)
        self._null = Logistic().null_intercepts(*at) if self._fit_intercept else np.zeros(len(self.members))
        slope = Logistic().gradient(self._y, np.repeat(self._null, n_rows), self._weight)
        x = self._x.copy()
        self._centre(x)
        self._steepest = _largest(self._sums(x * (slope / np.sqrt(self._weight))[:, None]))

    def solve(self, weights, p, tol, last, common):
        """By Newton steps from the last answers, to a share of each task's steepest slope at zero."""
        from mmtfl.kernels.logistic_tasks import solve_logistic_tasks

        kept, n_tasks = np.flatnonzero(np.isfinite(weights)), len(self.members)
        A, intercept, losses = np.zeros((n_tasks, len(weights))), self._null.copy(), np.empty(n_tasks)
        if last is not None:
            A[:, kept] = last[0][:, kept]
            intercept = intercept if last[1] is None else last[1].copy()
        common = np.zeros(len(weights)) if common is None else common
        is_exact = solve_logistic_tasks(
            self._x, self.offsets, self._y, self._weight, self._fit_intercept, CONSTANT, kept, p,
            np.maximum(weights[kept], _LEAST_WEIGHT), common[kept], tol * self._steepest,
            _FINEST * self._steepest, _NEWTON_STEPS, _TASK_SWEEPS, A, intercept, losses,
        )  # fmt: skip
        return SmallAnswers(A, intercept, losses, is_exact)


def are_solved_together(loss: TaskLoss) -> bool:
    """Whether tasks of few rows are solved together for this loss."""
    return loss.is_quadratic or loss == Logistic()


def small_tasks(tasks: Tasks, loss: TaskLoss, **options) -> SmallTasks | None:
    """The tasks of few rows, where such tasks are solved together for their loss."""
    kind = SmallSquared if loss.is_quadratic else SmallLogistic
    return kind(tasks, **options) if are_solved_together(loss) else None


def _largest(slopes: np.ndarray) -> np.ndarray:
    """The largest slope of each task, or one where all are zero."""
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


def has_many_small_tasks(problem: Problem) -> bool:
    """Whether a pass of Algorithm 1, which solves every task, costs no more than a sweep of rows."""
    design = problem.design
    if design.n_tasks <= MANY_TASKS or not are_solved_together(problem.loss):
        return False
    if design.placed is not None:  # rows of files are dense
        return bool(np.mean(np.diff(design.offsets) <= _FEW_ROWS) > _MOSTLY)
    return bool(np.mean(are_small(design.tasks, design.mean_size)) > _MOSTLY)
