"""Tasks of few rows, solved together in the compiled core: step 1 of Algorithm 1.

Which tasks these are, and their answers, depend on each task alone: not on the others of its shard.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mmtfl.core.columns import CONSTANT
from mmtfl.objective.design import FEW_ROWS, MANY_TASKS
from mmtfl.objective.losses import Logistic, Loss, Squared
from mmtfl.objective.losses.by_rows import TaskLoss
from mmtfl.objective.penalties import RowPower
from mmtfl.objective.problem import Problem
from mmtfl.solvers.task_step import LEAST_WEIGHT, MOST_STEPS
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.grouping import offsets_of

_MOSTLY = 0.9  # share of the tasks that are small
_LEAST_ENTRY = 1e-60  # weights below this, in units of their mean, are left to `Design`
_MAX_SWEEPS = 2_000  # of one task
_FINEST = 1e-10  # slope of a task, in units of the steepest at zero, below which it stands still


Last = tuple[np.ndarray, np.ndarray | None] | None  # the last coefficients of the tasks, and intercepts


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
    loss : Loss
        The squared or the logistic loss.
    mean_size : float
        n of eq. (1).
    column_scale : ndarray (n_features,) or None
        Units of the columns.
    fit_intercept : bool
        Whether each task has a constant.
    """

    def __init__(self, tasks: Tasks, loss: Loss, *, mean_size: float, column_scale, fit_intercept: bool):
        is_small = are_small(tasks, mean_size)
        self.members, rows = np.flatnonzero(is_small), np.flatnonzero(np.repeat(is_small, tasks.sizes))
        weights = np.ones(len(rows)) if tasks.weights is None else tasks.weights[rows]
        self.offsets, self._weight = offsets_of(tasks.sizes[self.members]), weights / mean_size
        self._loss, self._fit_intercept = loss, fit_intercept
        self._y, X = np.asarray(tasks.y[rows], dtype=float), tasks.X[rows]
        self._x = np.array(X.toarray() if sparse.issparse(X) else X, dtype=float, order="C")
        if column_scale is not None:
            self._x *= 1.0 / column_scale
        self._null = np.zeros(len(self.members))
        if fit_intercept:
            self._null = loss.null_intercepts(self._y, self._weight, self.offsets)
        self._centre()
        self._steps = self._compiled()

    def _compiled(self) -> Any:
        from mmtfl.core.losses import LogisticLoss, SquaredLoss
        from mmtfl.core.task_steps import TaskSteps

        if self._loss.is_quadratic:
            loss = SquaredLoss(self._y, self._weight)
        else:
            loss = LogisticLoss(np.where(self._y > 0.0, 1.0, -1.0), self._weight)
        return TaskSteps(self._x, self.offsets, loss, self._fit_intercept, CONSTANT)

    def _centre(self) -> None:
        """Find how much every column spreads in every task, and the steepest slope of each task at zero."""
        n_rows, weight = np.diff(self.offsets), self._weight[:, None]
        x = self._x
        if self._fit_intercept:
            means = self._sums(weight * x) / self._sums(weight)
            x = x - np.repeat(means, n_rows, axis=0)
        self.spread = np.sqrt(self._sums(weight * x**2))
        slope = self._loss.gradient(self._y, np.repeat(self._null, n_rows), self._weight)
        largest = np.abs(self._sums(x * slope[:, None])).max(axis=1, initial=0.0)
        self._steepest = np.where(largest > 0.0, largest, 1.0)

    def _sums(self, rows: np.ndarray) -> np.ndarray:
        """Sums over the rows of each task."""
        return np.add.reduceat(rows, self.offsets[:-1]) if len(rows) else rows

    def solve(
        self, weights: np.ndarray, p: float, tol: float, last: Last, common: np.ndarray | None
    ) -> SmallAnswers:
        """The least loss plus sum_j w_j |a_j|^p of every task; see `TaskStep.minimise`."""
        kept = np.flatnonzero(np.isfinite(weights))
        A, intercept = np.zeros((len(self.members), len(weights))), self._null.copy()
        if last is not None:
            A[:, kept] = last[0][:, kept]
            intercept = intercept if last[1] is None else last[1].copy()
        penalty = RowPower(p, np.maximum(weights[kept], LEAST_WEIGHT), np.inf)
        common = np.zeros(len(kept)) if common is None else common[kept]
        losses, is_exact = self._steps.solve(
            penalty.row_problem(), penalty.row_numbers(len(kept)), kept, is_ridge=p == 2.0, common=common,
            goal=tol * self._steepest, finest=_FINEST * self._steepest, A=A, intercept=intercept,
            max_steps=MOST_STEPS, max_sweeps=_MAX_SWEEPS,
        )  # fmt: skip
        return SmallAnswers(A, intercept, losses, is_exact)


def are_solved_together(loss: TaskLoss) -> bool:
    """Whether tasks of few rows are solved together for this loss."""
    return loss.is_quadratic or loss == Logistic()


def small_tasks(tasks: Tasks, loss: TaskLoss, **options) -> SmallTasks | None:
    """The tasks of few rows, if there are any and such tasks are solved together for their loss."""
    if not are_solved_together(loss) or not are_small(tasks, options["mean_size"]).any():
        return None
    return SmallTasks(tasks, Squared() if loss.is_quadratic else Logistic(), **options)


def are_small(tasks: Tasks, mean_size: float) -> np.ndarray:
    """Which tasks are solved here: those of few dense rows, none of which weighs next to nothing."""
    if sparse.issparse(tasks.X) or tasks.rows is not None or tasks.known is not None:
        return np.zeros(tasks.n_tasks, dtype=bool)
    is_small = tasks.sizes <= FEW_ROWS
    if tasks.weights is not None:
        is_small &= np.minimum.reduceat(tasks.weights, tasks.offsets[:-1]) > _LEAST_ENTRY * mean_size
    return is_small


def has_many_small_tasks(problem: Problem) -> bool:
    """Whether a pass of Algorithm 1, which solves every task, costs no more than a sweep of rows."""
    design = problem.design
    if design.n_tasks <= MANY_TASKS or not are_solved_together(problem.loss):
        return False
    if design.placed is not None:  # rows of files are dense
        return bool(np.mean(np.diff(design.offsets) <= FEW_ROWS) > _MOSTLY)
    return bool(np.mean(are_small(design.tasks, design.mean_size)) > _MOSTLY)
