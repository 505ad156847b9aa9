"""Effects that are curves: splines of columns, with a curve for each task and a common one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.plots import figures
from mmtfl.report.pictures import Picture, picture
from mmtfl.tables.column_encoding import spline_basis

N_POINTS = 60


@dataclass(frozen=True, eq=False)
class CurvedEffect:
    """The effect of one column on the linear predictor, beside that of its middle knot.

    Attributes
    ----------
    name : str
        The column.
    at : ndarray of shape (n_points,)
        Its values, from the smallest to the largest of the fit.
    by_task : ndarray of shape (n_tasks, n_points)
        The effect in each task.
    common : ndarray of shape (n_points,)
        The common part of the model, or the mean of the tasks where it has none.
    common_name : str
        Which of the two.
    tasks : list of str
        Labels of the tasks.
    """

    name: str
    at: np.ndarray
    by_task: np.ndarray
    common: np.ndarray
    common_name: str
    tasks: list[str]


def curved_effects(model: Any) -> list[CurvedEffect]:
    """The curves that a fitted model of the command line uses, largest first.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.report.curved_effects import curved_effects
    >>> curved_effects(MMTFLRegressor().fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0]))  # knows no table
    []
    """
    recipe = getattr(model, "recipe_", None)
    names = model._feature_names()
    found = []
    for column in () if recipe is None else recipe.features:
        if column.knots is None:
            continue
        own = [names.index(name) for name in column.features]
        if model.coef_[:, own].any():
            found.append(_effect(model, column, own))
    return sorted(found, key=lambda effect: -np.ptp(effect.by_task, axis=1).max())


def _effect(model: Any, column: Any, own: list[int]) -> CurvedEffect:
    at = np.linspace(column.knots[0], column.knots[-1], N_POINTS)
    middle = np.array([column.knots[len(column.knots) // 2]])
    basis = spline_basis(at, column.knots) - spline_basis(middle, column.knots)
    by_task = model.coef_[:, own] @ basis.T
    common, name = by_task.mean(axis=0), "mean of the tasks"
    if "common_intercept_" in vars(model):
        common, name = basis @ model.common_[own], "common part"
    return CurvedEffect(column.name, at, by_task, common, name, [str(label) for label in model.tasks_])


def effect_picture(effect: CurvedEffect) -> Picture:
    """A thin curve for each task, and the common one."""

    def draw(ax: Any) -> None:
        ax.plot(effect.at, effect.by_task.T, color=figures.GREY, linewidth=0.7, alpha=0.7)
        ax.plot(effect.at, effect.common, color=figures.BLUE, linewidth=2.0, label=effect.common_name)
        ax.set_xlabel(figures.shown(effect.name), **figures.PLAIN)
        ax.set_ylabel("effect beside the median")
        ax.legend(frameon=False)

    n_tasks = len(effect.by_task)
    return picture(draw, f"Effect of {effect.name} in {n_tasks} tasks, against its values.", size=(4.6, 3.0))
