"""Convergence: the objective after each pass."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.estimators.two_strengths import CappedModel
from mmtfl.plots.figures import BLUE, Display, fitted, note, whole_numbers

_MANY = 60  # passes; beyond, a marker on each hides the line

_ROUNDING = 1e-12  # of the objective: smaller steps are not steps


def above_last(history: np.ndarray) -> np.ndarray:
    """How far an objective was above its last value after each pass; zero where that is rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.plots.history_display import above_last
    >>> above_last(np.array([3.0, 2.0, 2.0 + 4e-16, 2.0])).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    distance = history - history[-1] if len(history) else history
    return np.where(distance > _ROUNDING * np.abs(history), distance, 0.0)


@dataclass(eq=False, repr=False)
class HistoryDisplay(Display):
    """Distance of the objective to the value reached, after each pass, on a log scale.

    A straight line down is convergence at a steady rate. The last pass has distance zero and is not drawn,
    nor are passes that had reached its value already, but for rounding. The last fit of a search starts close
    to its end.

    Parameters
    ----------
    history : ndarray of shape (n_passes,)
        Objective after each pass.
    step : str, default="pass"
        What one entry is: a pass over the data, or a stage.
    violation : float, optional
        Distance to stationarity at the end.

    Attributes
    ----------
    line_ : matplotlib line
        The distances.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import HistoryDisplay
    >>> data = make_tasks(n_tasks=4, n_features=20, n_informative=4, random_state=0)
    >>> model = MMTFLRegressor(p=2, k=2, alpha=0.1).fit(data.X, data.y, task=data.task)
    >>> HistoryDisplay.from_estimator(model).ax_.get_yscale()
    'log'
    """

    _size = 6.0, 3.5

    history: np.ndarray
    _: KW_ONLY
    step: str = "pass"
    violation: float | None = None

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> HistoryDisplay:
        """Draw the history of a fitted model.

        Parameters
        ----------
        model : fitted estimator of mmtfl
            Any of them; of a search, the last fit on all rows.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : HistoryDisplay
            Drawn.
        """
        model = fitted(model)
        step = "stage" if isinstance(model, CappedModel) else "pass"
        return cls(model.history_, step=step, violation=model.violation_).plot(ax)

    def _draw(self) -> None:
        ax = self.ax_
        history = np.asarray(self.history, dtype=float)
        distance = above_last(history)
        ahead = np.flatnonzero(distance)
        marker = "o" if len(ahead) <= _MANY else None
        (self.line_,) = ax.plot(ahead + 1, distance[ahead], color=BLUE, marker=marker, markersize=4)
        if len(ahead):
            ax.set_yscale("log")
        n = len(history)
        ax.set(
            xlabel="pass over the data" if self.step == "pass" else self.step,
            ylabel="objective above its last value",
            xlim=(0.5, n + 0.5),
        )
        ax.xaxis.set_major_locator(whole_numbers())
        ax.grid(alpha=0.3)
        spent = f"{n} {self.step}" + ("" if n == 1 else "es" if self.step.endswith("s") else "s")
        lines = [f"objective {history[-1]:.6g} after {spent}"]
        lines += [] if self.violation is None else [f"violation {self.violation:.1e}"]
        lines += [] if ahead.size else [f"flat: the first {self.step} reached it, but for rounding"]
        note(ax, lines)
