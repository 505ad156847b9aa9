"""Effects that are curves, with a curve for each task and a common one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from mmtfl.plots import figures
from mmtfl.report.pictures import Picture, picture

N_POINTS = 60


@dataclass(frozen=True, eq=False)
class CurvedEffect:
    """The effect of one feature on the linear predictor, whose mean over the rows is zero.

    Attributes
    ----------
    name : str
        The feature.
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
    """The curves that a fitted model uses, largest first.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.report.curved_effects import curved_effects
    >>> curved_effects(MMTFLRegressor().fit([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0]))  # lines only
    []
    """
    curves, names = getattr(model, "curves_", None), model._feature_names()
    bent: Any = [] if curves is None else np.flatnonzero(curves.used().any(axis=0))
    found = [_effect(model, int(j), names[j]) for j in bent]
    return sorted(found, key=lambda effect: -np.ptp(effect.by_task, axis=1).max())


def _effect(model: Any, j: int, name: str) -> CurvedEffect:
    low, _, high = model.feature_range_[:, j]
    at = np.linspace(low, high, N_POINTS)
    by_task = _effects(model.curve(j, at, task=model.tasks_.tolist())).reshape(-1, N_POINTS)
    common = "common part" if "common_intercept_" in vars(model) else "mean of the tasks"
    return CurvedEffect(
        name, at, by_task, _effects(model.curve(j, at)), common, [str(t) for t in model.tasks_]
    )


def _effects(frame: Any) -> np.ndarray:
    return nw.from_native(frame, eager_only=True).get_column("effect").to_numpy()


def effect_picture(effect: CurvedEffect) -> Picture:
    """A thin curve for each task, and the common one."""

    def draw(ax: Any) -> None:
        ax.plot(effect.at, effect.by_task.T, color=figures.GREY, linewidth=0.7, alpha=0.7)
        ax.plot(effect.at, effect.common, color=figures.BLUE, linewidth=2.0, label=effect.common_name)
        ax.set_xlabel(figures.shown(effect.name), **figures.PLAIN)
        ax.set_ylabel("effect beside the mean")
        ax.legend(frameon=False)

    n_tasks = len(effect.by_task)
    return picture(draw, f"Effect of {effect.name} in {n_tasks} tasks, against its values.", size=(4.6, 3.0))
