"""Levels of tasks in the estimators: shrunk after the fit, shown, and used for tasks never seen."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.stats import t as student

from mmtfl.estimators.curves import joined
from mmtfl.estimators.parameters import Declared
from mmtfl.inference.levels import LevelModel, TaskColumns
from mmtfl.inference.marginal_levels import NODES
from mmtfl.inference.task_levels import (
    LevelPrior,
    TaskLevels,
    are_in_the_fit,
    effective_parameters,
    marginal_model,
)
from mmtfl.tasks.container import Tasks
from mmtfl.wording import count, show

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMED = 5
_ROUNDS = 1  # of slopes and the prior of the levels
_NUMBERS = ("common", "common_error", "spread", "noise", "prior_spread")
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

    def _fit_prepared(self: Any, prepared: Any) -> None:
        """Solve, learn, and in between have the prior of the levels follow the slopes, if there is one."""
        prepared = self._with_prior(prepared)
        self._settle(prepared, *self._solve(prepared))

    def _settle(self: Any, prepared: Any, solution: Any, penalty: Any) -> None:
        """Learn from a solution; with a prior of the levels, after both were found anew."""
        self.__dict__.pop("levels_", None)  # of an earlier fit
        if prepared.prior is not None:
            of_tasks = prepared.task_levels()
            for _ in range(_ROUNDS):
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
        self.__dict__.pop("levels_", None)  # of an earlier fit
        free = free_levels(self, prepared, solution, penalty)
        if free is None:
            return
        of_tasks, found, loss, n_parameters = free
        model = of_tasks.fit(found, loss, n_parameters)
        self.intercept_ = of_tasks.at_zero(model.levels, self.coef_)
        self.levels_ = _as_dict(of_tasks, model)

    def _objective_at_levels(self: Any, prepared: Any, solution: Any) -> float:
        """Value of the objective at the intercepts of the model, without the prior of its levels."""
        if "levels_" not in vars(self) or not isinstance(prepared.tasks, Tasks):
            return solution.objective
        solved = prepared.problem(self._loss, fit_intercept=True)
        penalty = solution.objective - solved.loss_value(solved.predict(solution.A, solution.intercept))
        problem = replace(prepared, prior=None).problem(self._loss, fit_intercept=True)
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


def tell_of_one_value(tasks: Any, targets: np.ndarray) -> None:
    """Warn of tasks whose targets are all alike, rows of weight zero aside: other tasks tell their level."""
    counts = np.ones(len(targets), dtype=bool) if tasks.weights is None else tasks.weights > 0.0
    alike = []
    for t, (first, last) in enumerate(pairwise(tasks.offsets)):
        own = targets[first:last][counts[first:last]]
        if len(own) and np.all(own == own[0]):
            alike.append(f"{show(tasks.labels, t)} ({count(len(own), 'row')}, {own[0]})")
    if alike:
        more = f" and {len(alike) - _MOST_NAMED} more" if len(alike) > _MOST_NAMED else ""
        has, its = ("has", "its level rests") if len(alike) == 1 else ("have", "their levels rest")
        warnings.warn(
            f"{count(len(alike), 'task')} {has} one value of the target only, so that {its} on the other "
            f"tasks too: {', '.join(alike[:_MOST_NAMED])}{more}.",
            UserWarning,
            stacklevel=6,
        )


class Fit(NamedTuple):
    """A fit whose levels are free yet, in the units of its problem."""

    features: np.ndarray
    values: np.ndarray
    intercept: np.ndarray
    penalty: Any


def free_levels(
    model: Any, prepared: Any, solution: Any, penalty: Any
) -> tuple[TaskLevels, Fit, float, float] | None:
    """What it takes to shrink the levels of a solution (A, intercept, objective); None if they stay free.

    The tasks, the fit, the sum of the losses of its rows and its number of free parameters.
    """
    if model.levels != "shrunk" or not model.fit_intercept or not prepared.may_shrink_levels(model._loss):
        return None
    features = np.flatnonzero(solution.A.any(axis=1))
    found = Fit(features, solution.A[features], solution.intercept, penalty)
    loss, curvature = prepared.loss_and_curvature(model._loss, solution, penalty)
    return prepared.task_levels(), found, loss, effective_parameters(found, curvature)


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


# -- tasks never seen ----------------------------------------------------------------------------------------


def expected_levels(model: Any, X: Any, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Level of each task never seen at the reference point, and its variance, by the means of its rows.

    Rows of such tasks have places from the number of tasks on.
    """
    columns, of_levels = level_model(model._learned_levels())
    w = columns.place(_means_of_new(X, place, len(model.tasks_)))
    return of_levels.expected(w), of_levels.variance(w)


def averaged_over_levels(model: Any, z: np.ndarray, X: Any, place: np.ndarray | None) -> np.ndarray:
    """The linear predictor at which a class or a count of a task never seen has its mean over all levels."""
    n_tasks, loss = len(model.tasks_), model._loss
    if place is None or "levels_" not in vars(model) or model.unknown_task != "common" or loss.on_residuals:
        return z
    new = np.flatnonzero(place >= n_tasks)
    if not len(new):
        return z
    spread = np.sqrt(expected_levels(model, X, place)[1])[place[new] - n_tasks]
    x, weight = np.polynomial.hermite_e.hermegauss(NODES)
    mean = loss.mean(z[new, None] + spread[:, None] * x) @ (weight / weight.sum())
    z = z.copy()
    z[new] = np.log(mean) - np.log1p(-mean) if loss.has_classes else loss.link(mean)
    return z


def _means_of_new(X: Any, place: np.ndarray, n_tasks: int) -> np.ndarray:
    """Means of the columns over the rows of each task never seen."""
    rows = np.flatnonzero(place >= n_tasks)
    new = place[rows] - n_tasks
    sizes = np.bincount(new)
    pick = sparse.csr_array((1.0 / sizes[new], (new, rows)), shape=(len(sizes), X.shape[0]))
    means = pick @ X
    return means.toarray() if sparse.issparse(means) else np.asarray(means)


def error_of_new_tasks(model: Any, X: Any, place: np.ndarray, share: float) -> np.ndarray:
    """Half the width, for rows of tasks never seen, of what their level and slopes may add to a prediction.

    It is a quantile of Student's t, as the spread of the levels is told by the tasks: one degree of freedom
    for each but one.
    """
    n_tasks, reference = len(model.tasks_), model._learned_levels()["reference"]
    rows = np.flatnonzero(place >= n_tasks)
    far, wide = X[rows], joined(model)
    far = far.toarray() if sparse.issparse(far) else np.asarray(far, dtype=float)
    if wide is not model:
        far = model.curves_.basis.widened(far)
    apart = wide.coef_ - wide._common_slopes()
    scatter = np.sum(((far - reference) @ apart.T) ** 2, axis=1) / max(n_tasks - 1, 1)
    variance = expected_levels(model, X, place)[1][place[rows] - n_tasks]
    return student.ppf(0.5 + 0.5 * share, max(n_tasks - 1, 1)) * np.sqrt(variance + scatter)
