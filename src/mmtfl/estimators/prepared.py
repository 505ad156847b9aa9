"""The tasks in the units of the solver, and the way back to those of the data and to tasks left out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mmtfl.estimators.curves import bent, joined, with_curves
from mmtfl.inference.task_levels import TaskLevels, follow_the_fit
from mmtfl.model_selection.folds import Fold
from mmtfl.objective.design import Design
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.losses.by_rows import LossPerTask, TaskLoss, tasks_with_units
from mmtfl.objective.problem import Problem
from mmtfl.tasks.checks import n_classes, with_weight
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
from mmtfl.wording import count, show

# what a fitted model has for each task, along the first axis
PER_TASK = (
    *("coef_", "intercept_", "task_sizes_", "shared_", "specific_", "outlier_", "usable_"),
    "absent_",
)
_MOST_NAMED = 5


@dataclass(frozen=True)
class Prepared:
    """The tasks in the units that the penalty sees, and the way back.

    Attributes
    ----------
    tasks : Tasks, or OpenTasks in `StoredPrepared`
        Targets of rows in memory are divided by ``target_scale`` already; X is as it came.
    column_scale : ndarray of shape (n_features,), or None
        What the solver divides the columns of X by.
    target_scale : ndarray of shape (n_tasks,), or None
        What the targets are divided by.
    start : ndarray of shape (n_features, n_tasks), or None
        Coefficients to begin from, in the same units.
    left_out : BaseRates, or None
        Tasks that have no part in the fit, and what predicts them.
    task_factors : ndarray of shape (n_tasks,), or None
        What the fit multiplies the weights of each task's rows by; those of `tasks` are as they came.
    known : KnownFeatures, or None
        What the parameters say of the features.
    row_counts : ndarray of shape (n_tasks,), or None
        Numbers of rows, where few rows stand for many.
    """

    tasks: Any
    column_scale: np.ndarray | None = None
    target_scale: np.ndarray | None = None
    start: np.ndarray | None = None
    left_out: BaseRates | None = None
    task_factors: np.ndarray | None = None
    known: KnownFeatures | None = None
    row_counts: np.ndarray | None = None

    @classmethod
    def of(cls, model: Any, tasks: Any, left_out: BaseRates | None = None) -> Prepared:
        """Scale and weigh the tasks as the parameters of a model ask."""
        factors = task_factors(tasks, model.task_weight) if isinstance(tasks, Tasks) else None
        plain = cls(tasks, left_out=left_out, task_factors=factors)
        tasks, known = with_curves(model, tasks)
        plain = replace(plain, tasks=tasks)
        columns = plain.spread() if model.standardize else None
        targets = None
        if getattr(model, "scale_targets", False) or isinstance(model._loss, LossPerTask):
            targets = np.where(tasks_with_units(model._loss, tasks.labels), plain._target_spread(), 1.0)
        start = None
        if getattr(model, "warm_start", False) and hasattr(model, "coef_"):
            start = _scaled_start(model, tasks, columns, targets)
        if targets is not None and isinstance(tasks, Tasks):
            tasks = tasks.with_y(tasks.y / targets[tasks.observation_task])
        return cls(tasks, columns, targets, start, left_out, factors, known)

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

    def problem(self, loss: TaskLoss, *, fit_intercept: bool) -> Problem:
        """Return the problem to solve, with a loss."""
        return Problem(
            Design(self.weighted, column_scale=self.column_scale, fit_intercept=fit_intercept), loss
        )

    def may_shrink_levels(self, loss: TaskLoss) -> bool:
        """Whether there are levels to shrink once the coefficients are known."""
        shared = getattr(self.tasks, "rows", None) is not None
        return follow_the_fit(loss, n_tasks=self.tasks.n_tasks, rows_are_shared=shared)

    def task_levels(self) -> TaskLevels:
        """What is needed of the rows to shrink levels."""
        design = Design(self.weighted, column_scale=self.column_scale)
        return TaskLevels.of(design, self.target_scale, task_totals(self.tasks))

    def loss_and_curvature(self, loss: TaskLoss, found: Any, penalty: Any) -> tuple:
        """Sum of the losses of all rows, and the curvature of all features, in the units of the fit.

        What was found has A, intercept and objective.
        """
        problem = self.problem(loss, fit_intercept=True)
        value = problem.loss_value(problem.predict(found.A, found.intercept))
        return problem.design.mean_size * value, problem.design.curvature

    def original_tasks(self) -> Any:
        """Return the tasks with targets in their own units."""
        if self.target_scale is None:
            return self.tasks
        return self.tasks.with_y(self.tasks.y * self.target_scale[self.tasks.observation_task])

    def could_use(self, *, fit_intercept: bool) -> np.ndarray:
        """Return which tasks could use which features, (n_tasks, n_features)."""
        return could_use(self.tasks, fit_intercept=fit_intercept)

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

    def problem(self, loss: TaskLoss, *, fit_intercept: bool) -> Problem:
        """Return the problem to solve, with the loss for which the tasks were opened."""
        return self.tasks.problem(column_scale=self.column_scale, target_scale=self.target_scale)

    def task_levels(self) -> TaskLevels:
        """What is needed of the rows to shrink levels: their means, and how many they are."""
        scales = self.column_scale, self.target_scale
        return TaskLevels.of_means(self.tasks.column_means, self.tasks.stored.weight_sums, *scales)

    def loss_and_curvature(self, loss: TaskLoss, found: Any, penalty: Any) -> tuple:
        """Sum of the losses of all rows, and the curvature of all features, in the units of the fit."""
        design = self.problem(loss, fit_intercept=True).design
        return design.mean_size * (found.objective - penalty.value(found.A)), design.curvature

    def could_use(self, *, fit_intercept: bool) -> np.ndarray:
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


@dataclass(frozen=True)
class SearchPrepared(Prepared):
    """Prepared data with the folds of a search, as positions of observations (or of rows of a shared X)."""

    folds: list[Fold] = field(default_factory=list)
    summarised: SummarisedTasks | None = None  # what the tasks come from, if they have no rows

    def with_curves(self, model: Any) -> SearchPrepared | None:
        """The same with the columns of curves; None if no feature may have one."""
        if self.summarised is None:
            curved = bent(self.tasks, self.known)
        else:
            curved = self.summarised.bent(self.tasks, None if self.known is None else self.known.may_bend())
        tasks, known = with_curves(model, curved)
        if tasks.curves is None:
            return None
        scale = self.column_scale
        scale = None if scale is None else scale[tasks.curves.feature_of_column]
        return replace(self, tasks=tasks, known=known, column_scale=scale)


def _scaled_start(
    model: Any, tasks: Any, column_scale: np.ndarray | None, target_scale: np.ndarray | None
) -> np.ndarray | None:
    """Scale the coefficients of the last fit for this one; None if tasks or features are others."""
    model = joined(model)
    if model.coef_.shape != (tasks.n_tasks, tasks.n_features) or not np.array_equal(
        model.tasks_, tasks.labels
    ):
        return None
    start = model._starting_point()
    start = start if column_scale is None else start * column_scale[:, None]
    return np.array(start if target_scale is None else start / target_scale)


# -- tasks with a single class: left out of the fit, and predicted by their base rate ----------------------


@dataclass(frozen=True)
class BaseRates:
    """Tasks with a single class, which are left out of the fit and predicted by their base rate.

    Attributes
    ----------
    labels : ndarray of shape (n_tasks,)
        All tasks.
    left_out : ndarray of bool of shape (n_tasks,)
        Which of them are not fitted.
    log_odds : ndarray of shape (n_left_out,)
        Of the second class, at the base rate of these tasks.
    sizes : ndarray of shape (n_left_out,)
        Their numbers of rows.
    """

    labels: np.ndarray
    left_out: np.ndarray
    log_odds: np.ndarray
    sizes: np.ndarray

    def add_to(self, model: Any) -> None:
        """Add these tasks to a model that was fitted on the others: no feature, and an intercept."""
        self.widen(model)
        model.base_rate_tasks_ = self.labels[self.left_out]

    def widen(self, model: Any) -> None:
        """Insert these tasks into every learned attribute that has one entry per task."""
        for name in PER_TASK:
            if vars(model).get(name) is not None:
                setattr(model, name, self._widen(getattr(model, name), 0))
        model.intercept_[self.left_out] = self.log_odds
        model.task_sizes_[self.left_out] = self.sizes
        model.tasks_ = self.labels
        if np.ndim(vars(model).get("alpha_")) == 1:  # every task has a strength of its own
            model.alpha_ = self._widen(model.alpha_, 0, fill=np.nan)
            model.alphas_ = self._widen(model.alphas_, 0, fill=np.nan)
        if "path_" in vars(model):
            model.path_ = self.widen_path(model.path_)
        if "heldout_scores_" in vars(model):
            model.heldout_scores_ = self.widen_scores(model.heldout_scores_)
        if "heldout_errors_" in vars(model):
            model.heldout_errors_ = self.widen_errors(model.heldout_errors_)
        if "effects_" in vars(model):
            model.effects_ = self.widen_effects(model.effects_)

    def widen_errors(self, errors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Add these tasks to errors on held-out rows, of which they have none."""
        none = {name: self._widen(errors[name], 0) for name in ("n_rows", "n_kept")}
        return {**errors, **none, "task": self.labels}

    def widen_effects(self, effects: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Add these tasks to effects, of which they have none."""
        none = {name: self._widen(effects[name], 0, fill=np.nan) for name in ("effect", "error")}
        wide = {**effects, **none, "degrees": self._widen(effects["degrees"], 0, fill=np.inf)}
        if "correlation" in effects:
            wide["correlation"] = self._widen(self._widen(effects["correlation"], 0), 1)
        return wide

    def widen_scores(self, table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Add these tasks to a table of held-out scores, in which they have none."""
        columns = {"task": self.labels, "n_rows": self._widen(table["n_rows"], 0)}
        scores = {name: column for name, column in table.items() if name not in columns}
        return columns | {name: self._widen(column, 0, fill=np.nan) for name, column in scores.items()}

    def widen_path(self, path: Any) -> Any:
        """Add these tasks to a path, or to a list with one path for each task."""
        if not isinstance(path, list):
            intercepts = self._widen(path.intercepts, 1)
            intercepts[:, self.left_out] = self.log_odds
            return replace(path, values=[self._widen(v, 1) for v in path.values], intercepts=intercepts)
        fitted, rates = iter(path), iter(self.log_odds)
        return [_flat(path[0], next(rates)) if out else next(fitted) for out in self.left_out]

    def _widen(self, values: np.ndarray, axis: int, fill: float = 0.0) -> np.ndarray:
        shape = list(values.shape)
        shape[axis] = len(self.labels)
        wide = np.full(shape, fill, dtype=values.dtype)
        np.moveaxis(wide, axis, 0)[~self.left_out] = np.moveaxis(values, axis, 0)
        return wide


def _flat(path: Any, log_odds: float) -> Any:
    """Return a path without features, of the same length as another path."""
    n = len(path.alphas)
    return replace(
        path,
        features=[np.empty(0, dtype=np.intp)] * n,
        values=[np.empty((0, 1))] * n,
        intercepts=np.full((n, 1), log_odds),
        objectives=np.full(n, np.nan),
        violations=np.zeros(n),
        converged=np.ones(n, dtype=bool),
    )


def leave_out_one_class(tasks: Tasks, classes: np.ndarray) -> tuple[Tasks, BaseRates | None]:
    """Return the tasks with rows of both classes (-1 and +1), and the base rates of the others.

    The rate of a task left out is that of its rows and one more row at the rate of all tasks, so that it is
    neither 0 nor 1.
    """
    weights = np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
    observation_task, positive = tasks.observation_task, tasks.y > 0
    counting = with_weight(positive, observation_task, tasks.labels, tasks.weights)
    left_out = n_classes(positive[counting], observation_task[counting], tasks.n_tasks) < 2
    if not left_out.any():
        return tasks, None
    if left_out.all():
        raise ValueError(
            "Every task has a single class, so that no task tells the classes apart: nothing is left to fit. "
            "Add rows of the other class, or check the task labels."
        )
    both = np.array(
        [np.bincount(observation_task, weights * part, tasks.n_tasks) for part in (~positive, positive)]
    )
    prior = both.sum(axis=1) / both.sum()
    negative, of_second = both[:, left_out] + prior[:, None]
    found = BaseRates(tasks.labels, left_out, np.log(of_second / negative), tasks.sizes[left_out])
    _tell(found, classes[(both[1] > both[0])[left_out].astype(np.intp)])
    return tasks.select(~left_out[observation_task]), found


def _tell(found: BaseRates, classes: np.ndarray) -> None:
    labels = found.labels[found.left_out]
    named = [
        f"{show(labels, t)} ({count(found.sizes[t], 'row')}, {show(classes, t)})"
        for t in range(min(len(labels), _MOST_NAMED))
    ]
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    warnings.warn(
        f"{count(len(labels), 'task')} left out of the fit and predicted by the base rate, for want of a "
        f"second class: {', '.join(named)}{more}.",
        UserWarning,
        stacklevel=7,
    )
