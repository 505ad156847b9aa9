"""Levels of tasks in the estimators: shrunk after the fit, shown, and used for tasks never seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mmtfl.estimators.parameters import Declared
from mmtfl.inference.levels import LevelModel, TaskColumns
from mmtfl.inference.task_levels import (
    LevelPrior,
    TaskLevels,
    are_in_the_fit,
    effective_parameters,
    follow_the_fit,
    marginal_model,
)
from mmtfl.model_selection.cross_validation import Linear
from mmtfl.tasks.container import Tasks

if TYPE_CHECKING:
    import pandas as pd

# what only some fits learn of rows
_OF_ROWS = (
    *("levels_", "effects_", "absent_", "common_intercept_", "added_tasks_", "heldout_errors_"),
    *("penalty_weight_", "positive_", "feature_group_"),
)
_NUMBERS = ("common", "common_error", "spread", "noise", "prior_spread", "p_spread")
_OF_COLUMNS = ("effects", "factor", "tested", "errors", "p")


class HasLevels(Declared):
    """A model whose intercepts may be shrunk.

    Attributes
    ----------
    level_spread_ : float
        Only with shrunk levels: tau, the standard deviation of levels about what the tasks' columns say.
    level_effects_ : Series of shape (n_features,)
        Only with shrunk levels: how much higher the level of a task is where a column (its mean, if it varies
        within tasks) is higher by one, beside what the column does within tasks. They are drawn to zero.
    """

    def _has_prior(self: Any, tasks: Any) -> bool:
        """Tell whether the fit draws levels to a prior: those of classes and counts."""
        return self.levels == "shrunk" and self.fit_intercept and are_in_the_fit(self._loss, tasks)

    def _with_prior(self: Any, prepared: Any) -> Any:
        """Return prepared data with a prior of the levels, if the fit has one: found without any slopes."""
        if not self._has_prior(prepared.tasks):
            return prepared
        of_tasks = prepared.task_levels()
        model = marginal_model(of_tasks, prepared.tasks, self._loss)
        return replace(prepared, prior=LevelPrior.of(of_tasks, model))

    def _finish_fit(self: Any, prepared: Any, solution: Any, penalty: Any) -> None:
        """Learn from a solution; with a prior of the levels, find both anew first, at its slopes."""
        self._forget(*_OF_ROWS)  # of an earlier fit
        if prepared.prior is not None:
            of_tasks = prepared.task_levels()
            slopes = np.ascontiguousarray(prepared.to_original(solution.A).T)
            model = marginal_model(of_tasks, prepared.tasks, self._loss, slopes)
            prepared = replace(prepared, prior=LevelPrior.of(of_tasks, model))
            solution = self._solve_again(prepared, penalty, solution)
            self.levels_ = _as_dict(of_tasks, model)
        self._learn(prepared, solution, penalty)

    def _solve_again(self: Any, prepared: Any, penalty: Any, last: Any) -> Any:
        """Return the solution of a problem that differs a little from the last one."""
        return self._solve(prepared)[0]

    def _learn_levels(self: Any, prepared: Any, solution: Any, penalty: Any) -> None:
        """Shrink the intercepts once the coefficients are known."""
        if prepared.prior is not None:
            return
        free = free_levels(self, prepared, solution.A, solution.intercept, penalty, solution.objective)
        if free is None:
            return
        of_tasks, found, n_parameters = free
        model = of_tasks.fit(found, found.loss, n_parameters)
        self.intercept_ = of_tasks.at_zero(model.levels, self.coef_)
        self.levels_ = _as_dict(of_tasks, model)

    def _objective_at_levels(self: Any, prepared: Any, solution: Any) -> float:
        """Value of the objective at the intercepts of the model, without the prior of its levels."""
        if "levels_" not in vars(self) or not isinstance(prepared.tasks, Tasks):
            return solution.objective
        solved = prepared.problem()
        penalty = solution.objective - solved.loss_value(solved.predict(solution.A, solution.intercept))
        problem = replace(prepared, prior=None).problem()
        scale = 1.0 if prepared.target_scale is None else prepared.target_scale
        return problem.loss_value(problem.predict(solution.A, self.intercept_ / scale)) + penalty

    @property
    def level_spread_(self: Any) -> float:
        """Standard deviation of the tasks' levels about what their columns say."""
        return float(self._learned_levels()["spread"][0])

    @property
    def level_effects_(self: Any) -> pd.Series:
        """Effects of the task-level columns on the level, in the units of the data."""
        from pandas import Series

        known, effects = self._learned_levels(), np.zeros(self.coef_.shape[1])
        effects[known["features"]] = known["effects"] / known["scale"]
        names = self._feature_names()
        return Series(effects[: len(names)], index=names, name="effect")

    def _learned_levels(self: Any) -> dict[str, np.ndarray]:
        if "levels_" not in vars(self):
            raise AttributeError(
                f"This {type(self).__name__} has free levels: fit it with levels='shrunk' to several tasks "
                "that have rows of their own."
            )
        return self.levels_


def free_levels(
    model: Any, prepared: Any, A: np.ndarray, intercept: np.ndarray, penalty: Any, objective: float = np.nan
) -> tuple[TaskLevels, Linear, float] | None:
    """What it takes to shrink the levels of a solution: the tasks, the fit and its number of free parameters.

    The loss of the fit is the sum over its rows. None if levels stay free.
    """
    n_tasks, shared = prepared.tasks.n_tasks, getattr(prepared.tasks, "rows", None) is not None
    after = follow_the_fit(prepared.loss, n_tasks=n_tasks, rows_are_shared=shared)
    if model.levels != "shrunk" or not (prepared.fit_intercept and after):
        return None
    features = np.flatnonzero(A.any(axis=1))
    loss, curvature = prepared.loss_and_curvature(A, intercept, penalty, objective)
    found = Linear(features, A[features], intercept, loss, penalty)
    return prepared.task_levels(), found, effective_parameters(found, curvature)


def _as_dict(of_tasks: TaskLevels, model: LevelModel) -> dict[str, np.ndarray]:
    """What is kept of the levels, as arrays."""
    columns = of_tasks.columns
    numbers = {name: np.array([getattr(model, name)]) for name in _NUMBERS}
    arrays = {name: getattr(model, name) for name in _OF_COLUMNS}
    about = {"features": columns.kept, "centre": columns.centre, "scale": columns.scale}
    return {**numbers, **arrays, **about, "reference": of_tasks.centre}


def level_model(known: dict[str, np.ndarray]) -> tuple[TaskColumns, LevelModel]:
    """The distribution of levels that a model has learned, and the columns that it is about."""
    numbers: dict[str, Any] = {name: float(known[name][0]) for name in _NUMBERS}
    arrays: dict[str, Any] = {name: known[name] for name in _OF_COLUMNS}
    nothing = np.empty((0, len(known["features"])))
    columns = TaskColumns(nothing, known["features"], known["centre"], known["scale"])
    return columns, LevelModel(**numbers, **arrays, levels=np.empty(0))
