"""The effect of a feature that is a curve: in every task, and what they have in common."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.plots import figures
from mmtfl.wording import noun_of_tasks

_INNER = 0.05, 0.95  # of the tasks, between which the band lies where there are many


@dataclass(eq=False, repr=False)
class CurveDisplay(figures.Display):
    """The effect of one feature against its values: a thin line for each task, a thick one in common.

    Effects are on the scale of the linear predictor (log odds for classes, the logarithm for counts), and
    zero on average over the rows fitted. The band holds nine in ten tasks, or all of fewer than twenty.

    Parameters
    ----------
    values : ndarray of shape (n_values,)
        Values of the feature.
    by_task : ndarray of shape (n_tasks, n_values)
        The effect in each task.
    common : ndarray of shape (n_values,)
        The common part of the model, or the mean of the tasks where it has none.
    feature : str
        Name of the feature.
    unit : str, default="effect"
        What is measured.
    noun : str, default="task"
        What a task is called.

    Attributes
    ----------
    lines_ : matplotlib collection
        The tasks.
    common_ : matplotlib line
        The common part.
    band_ : matplotlib collection
        Where the tasks lie.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.plots import CurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.uniform(-1, 1, size=(400, 2)), np.repeat(["a", "b"], 200)
    >>> y = X[:, 0] ** 2 + X[:, 1] + 0.1 * rng.normal(size=400)
    >>> model = MMTFLRegressor(p=2, k=2, alpha=0.001, curves=True).fit(X, y, task=task)
    >>> CurveDisplay.from_estimator(model, 0).by_task.shape
    (2, 101)
    """

    _size = 5.0, 3.4

    values: np.ndarray
    by_task: np.ndarray
    common: np.ndarray
    _: KW_ONLY
    feature: str
    unit: str = "effect"
    noun: str = "task"

    @classmethod
    def from_estimator(cls, model: Any, feature: Any, *, ax: Any = None) -> CurveDisplay:
        """Draw the effect of one feature.

        Parameters
        ----------
        model : fitted estimator of mmtfl
            Any of them; features without a curve are drawn as lines.
        feature : str or int
            Name or position of the feature.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : CurveDisplay
            Drawn.
        """
        model = figures.fitted(model)
        common = figures.columns_of(model.curve(feature))
        tasks = model.tasks_.tolist()
        own = figures.columns_of(model.curve(feature, task=tasks))
        values = next(iter(common.values()))
        name = feature if isinstance(feature, str) else model._feature_names()[feature]
        unit = {"logistic": "log odds", "poisson": "logarithm of the rate"}.get(
            getattr(model._loss, "name", ""), "effect"
        )
        by_task = own["effect"].reshape(len(tasks), len(values))
        look = {"feature": name, "unit": unit, "noun": noun_of_tasks(model)[0]}
        return cls(values, by_task, common["effect"], **look).plot(ax)

    def _draw(self) -> None:
        from matplotlib.collections import LineCollection

        ax = self.ax_
        ends = _INNER if len(self.by_task) >= 20 else (0.0, 1.0)
        low, high = np.quantile(self.by_task, ends, axis=0)
        self.band_ = ax.fill_between(self.values, low, high, color=figures.BLUE, alpha=0.12, linewidth=0)
        lines = [np.column_stack([self.values, effect]) for effect in self.by_task]
        self.lines_ = ax.add_collection(LineCollection(lines, colors=figures.GREY, linewidths=0.7, alpha=0.7))
        (self.common_,) = ax.plot(self.values, self.common, color=figures.BLUE, linewidth=2.2)
        ax.axhline(0.0, color=figures.GREY, linewidth=0.8, zorder=0)
        ax.set_xlabel(figures.shown(self.feature), **figures.PLAIN)
        ax.set_ylabel(self.unit)
        held = "nine in ten of them" if len(self.by_task) >= 20 else "all of them"
        figures.note(ax, [f"thick: in common; thin: one {self.noun} each", f"band: {held}"])
