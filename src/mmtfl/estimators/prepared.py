"""The tasks in the units of the solver, and the way back to those of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmtfl.estimators.fitted_curves import add_curves, join_curves, with_curves
from mmtfl.inference.task_levels import LevelPrior, TaskLevels
from mmtfl.model_selection.folds import Fold
from mmtfl.objective.design import Design
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.losses.by_rows import LossPerTask, TaskLoss, tasks_with_units
from mmtfl.objective.problem import Problem
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.scaling import (
    column_range,
    column_spread,
    could_use,
    target_spread,
    task_factors,
    task_totals,
    with_task_factors,
)
from mmtfl.tasks.summaries import SummarisedTasks


@dataclass(frozen=True)
class Prepared:
    """The tasks in the units that the penalty sees, and the way back.

    Attributes
    ----------
    tasks : Tasks, or OpenTasks in `StoredPrepared`
        Targets of rows in memory are divided by ``target_scale`` already; X is as it came.
    loss : Loss or LossPerTask
        The loss of the model.
    fit_intercept : bool
        Whether each task has an intercept.
    column_scale : ndarray of shape (n_features,), or None
        What the solver divides the columns of X by.
    target_scale : ndarray of shape (n_tasks,), or None
        What the targets are divided by.
    start : ndarray of shape (n_features, n_tasks), or None
        Coefficients to begin from, in the same units.
    task_factors : ndarray of shape (n_tasks,), or None
        What the fit multiplies the weights of each task's rows by; those of `tasks` are as they came.
    known : KnownFeatures, or None
        What the parameters say of the features.
    row_counts : ndarray of shape (n_tasks,), or None
        Numbers of rows, where few rows stand for many.
    prior : LevelPrior, or None
        What the fit draws the levels of classes and counts to.
    folds : list of Fold
        Folds of a search, as positions of observations (or of rows of a shared X).
    summarised : SummarisedTasks, or None
        What the tasks come from, if they have no rows.
    """

    tasks: Any
    loss: TaskLoss
    fit_intercept: bool = True
    column_scale: np.ndarray | None = None
    target_scale: np.ndarray | None = None
    start: np.ndarray | None = None
    task_factors: np.ndarray | None = None
    known: KnownFeatures | None = None
    row_counts: np.ndarray | None = None
    prior: LevelPrior | None = None
    folds: Sequence[Fold] = ()
    summarised: SummarisedTasks | None = None

    @classmethod
    def of(cls, model: Any, tasks: Any, summarised: SummarisedTasks | None = None) -> Prepared:
        """Scale and weigh the tasks as the parameters of a model ask."""
        tasks, known = with_curves(model, tasks, summarised)
        plain = cls(tasks, model._loss, model.fit_intercept, known=known, summarised=summarised)
        if isinstance(tasks, Tasks):
            plain = replace(plain, task_factors=task_factors(tasks, model.task_weight))
        columns = plain.spread() if model.standardize else None
        targets = None
        if getattr(model, "scale_targets", False) or isinstance(plain.loss, LossPerTask):
            targets = np.where(tasks_with_units(plain.loss, tasks.labels), plain._target_spread(), 1.0)
        start = None
        if getattr(model, "warm_start", False) and hasattr(model, "coef_"):
            start = _scaled_start(model, tasks, columns, targets)
        if targets is not None and isinstance(tasks, Tasks):
            tasks = tasks.with_y(tasks.y / targets[tasks.observation_task])
        counts = None if summarised is None else summarised.sizes
        return replace(
            plain, tasks=tasks, column_scale=columns, target_scale=targets, start=start, row_counts=counts
        )

    @property
    def weighted(self) -> Any:
        """The tasks with the weights that the fit sees."""
        return with_task_factors(self.tasks, self.task_factors)

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each task."""
        return self.tasks.sizes if self.row_counts is None else self.row_counts

    @property
    def task_weights(self) -> np.ndarray:
        """Sum of the weights of each task's rows in the fit."""
        return task_totals(self.weighted)

    def task_means(self, A: np.ndarray) -> np.ndarray:
        """Return the weighted mean of X @ A[:, t] over the rows of each task t, with X as it was given."""
        design = Design(self.weighted)
        return design.task_means(design.predict(A), design.row_weight)

    def problem(self) -> Problem:
        """Return the problem to solve."""
        if self.prior is not None:
            return self.prior.problem(self.weighted, self.loss, self.column_scale)  # type: ignore[arg-type]
        design = Design(self.weighted, column_scale=self.column_scale, fit_intercept=self.fit_intercept)
        return Problem(design, self.loss)

    def task_levels(self) -> TaskLevels:
        """What is needed of the rows to shrink levels."""
        design = Design(self.weighted, column_scale=self.column_scale)
        return TaskLevels.of(design, self.target_scale, task_totals(self.tasks))

    def loss_and_curvature(
        self, A: np.ndarray, intercept: np.ndarray, penalty: Any, objective: float
    ) -> tuple:
        """Sum of the losses of all rows, and the curvature of all features, in the units of the fit."""
        problem = self.problem()
        value = problem.loss_value(problem.predict(A, intercept))
        return problem.design.mean_size * value, problem.design.curvature

    def original_tasks(self) -> Any:
        """Return the tasks with targets in their own units."""
        if self.target_scale is None:
            return self.tasks
        return self.tasks.with_y(self.tasks.y * self.target_scale[self.tasks.observation_task])

    def curved(self, model: Any) -> Prepared | None:
        """The same with the columns of curves; None if no feature may have one."""
        tasks, known = with_curves(model, add_curves(self.tasks, self.known, self.summarised))
        if tasks.curves is None:
            return None
        scale = self.column_scale
        scale = None if scale is None else scale[tasks.curves.feature_of_column]
        return replace(self, tasks=tasks, known=known, column_scale=scale)

    def could_use(self) -> np.ndarray:
        """Return which tasks could use which features, (n_tasks, n_features)."""
        return could_use(self.tasks, fit_intercept=self.fit_intercept)

    def spread(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Return the standard deviation of some features, or of all, over all rows; 1 for a constant one."""
        if self.column_scale is not None:
            return self.column_scale[slice(None) if columns is None else columns]
        return column_spread(self.weighted, columns)

    def feature_range(self) -> np.ndarray | None:
        """Smallest value, mean and largest value of every feature.

        Where few rows stand for many, two standard deviations below and above the mean.
        """
        found = column_range(self.tasks)
        if self.row_counts is not None:
            reach = 2.0 * column_spread(self.tasks, np.arange(found.shape[1]))
            found[0], found[2] = found[1] - reach, found[1] + reach
        return found

    def to_original(self, A: np.ndarray) -> np.ndarray:
        """Coefficients (n_tasks, n_features) in the units of X and y as they were given.

        Features that are not used take no memory: A may be the largest array beside the data.
        """
        used = np.flatnonzero(A.any(axis=1))
        rows, out = A[used], np.zeros(A.shape[::-1])
        if self.column_scale is not None:
            rows /= self.column_scale[used, None]
        if self.target_scale is not None:
            rows *= self.target_scale
        out[:, used] = rows.T
        return out

    def common_to_original(self, common: np.ndarray) -> np.ndarray:
        """A common part (n_features,) on the original scale, in the mean of the tasks' units."""
        common = common if self.column_scale is None else common / self.column_scale
        return common if self.target_scale is None else common * self.target_scale.mean()

    def _target_spread(self) -> np.ndarray:
        return target_spread(self.tasks)


class StoredPrepared(Prepared):
    """Tasks whose rows are in files or in other processes: `tasks` is an `OpenTasks`."""

    @property
    def task_weights(self) -> np.ndarray:
        """Sum of the weights of each task's rows."""
        return self.tasks.stored.weight_sums

    def task_means(self, A: np.ndarray) -> np.ndarray:
        """Return the weighted mean of X @ A[:, t] over the rows of each task t, with X as it was given."""
        return np.einsum("tj,jt->t", self.tasks.column_means, A)

    def problem(self) -> Problem:
        """Return the problem to solve."""
        return self.tasks.problem(column_scale=self.column_scale, target_scale=self.target_scale)

    def task_levels(self) -> TaskLevels:
        """What is needed of the rows to shrink levels: their means, and how many they are."""
        scales = self.column_scale, self.target_scale
        return TaskLevels.of_means(self.tasks.column_means, self.tasks.stored.weight_sums, *scales)

    def loss_and_curvature(
        self, A: np.ndarray, intercept: np.ndarray, penalty: Any, objective: float
    ) -> tuple:
        """Sum of the losses of all rows, and the curvature of all features, in the units of the fit."""
        design = self.problem().design
        return design.mean_size * (objective - penalty.value(A)), design.curvature

    def could_use(self) -> np.ndarray:
        """Return which tasks could use which features, (n_tasks, n_features)."""
        return self.tasks.could_use

    def spread(self, columns: np.ndarray | None = None) -> np.ndarray:
        """Return the standard deviation of some features, or of all, over all rows; 1 for a constant one."""
        return self.tasks.spreads()[0][slice(None) if columns is None else columns]

    def feature_range(self) -> np.ndarray | None:
        """Return None: rows in files are not read for it."""
        return None

    def _target_spread(self) -> np.ndarray:
        return self.tasks.spreads()[1]


def _scaled_start(
    model: Any, tasks: Any, column_scale: np.ndarray | None, target_scale: np.ndarray | None
) -> np.ndarray | None:
    """Scale the coefficients of the last fit for this one; None if tasks or features are others."""
    model = join_curves(model)
    if model.coef_.shape != (tasks.n_tasks, tasks.n_features) or not np.array_equal(
        model.tasks_, tasks.labels
    ):
        return None
    start = model.coef_.T if column_scale is None else model.coef_.T * column_scale[:, None]
    return np.array(start if target_scale is None else start / target_scale)
