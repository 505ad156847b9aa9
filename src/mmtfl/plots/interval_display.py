"""Prediction intervals beside what was observed, task by task."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.estimators.inputs import matrix_values, take_task_column
from mmtfl.plots import figures
from mmtfl.tasks.checks import check_length
from mmtfl.wording import count

_MOST_TASKS = 6
_MOST_ROWS = 60  # of a task; beyond, evenly spaced ones


@dataclass(eq=False, repr=False)
class IntervalDisplay(figures.Display):
    """Rows of the six largest tasks in the order of their predictions, with intervals and what was observed.

    Rows outside their interval are crosses. Beyond 60 rows of a task evenly spaced ones are drawn, and all
    are counted.

    Parameters
    ----------
    y_true : ndarray of shape (n_rows,)
        What was observed.
    interval : ndarray of shape (n_rows, 2)
        Lower and upper ends.
    task : ndarray of shape (n_rows,)
        Task label of each row.
    coverage : float
        What was asked for.

    Attributes
    ----------
    labels_ : list
        The tasks.
    covered_ : ndarray of shape (n_tasks,)
        Share of the rows of each that are within their interval.
    inside_, outside_ : matplotlib collections
        What was observed.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressorCV
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import IntervalDisplay
    >>> data = make_tasks(n_tasks=2, n_samples=90, n_features=5, n_informative=2, random_state=0)
    >>> old, new = slice(0, None, 2), slice(1, None, 2)
    >>> model = MMTFLRegressorCV(pk=(2, 1), alphas=8, cv=3).fit(data.X[old], data.y[old], data.task[old])
    >>> display = IntervalDisplay.from_estimator(model, data.X[new], data.y[new], data.task[new])
    >>> display.covered_.shape
    (2,)
    """

    y_true: np.ndarray
    interval: np.ndarray
    _: KW_ONLY
    task: np.ndarray
    coverage: float

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, task: Any = None, *, coverage: float = 0.9, ax: Any = None
    ) -> IntervalDisplay:
        """Predict intervals of rows that were not in the fit, and draw them.

        Parameters
        ----------
        model : regressor that was tuned or calibrated
            See ``predict_interval``.
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,) or (n_rows, n_tasks)
            What was observed; NaN in two dimensions was not.
        task : array-like of shape (n_rows,), optional
            Task label of each row, as in ``predict``.
        coverage : float, default=0.9
            Share of the rows that the intervals are to hold.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : IntervalDisplay
            Drawn.
        """
        inner: Any = figures.fitted(model)
        ends = inner.predict_interval(X, task=task, coverage=coverage)
        if ends.ndim == 3:  # tasks that are columns of y
            values = matrix_values(y)
            if values.shape != ends.shape[:2]:
                raise ValueError(
                    f"y has shape {values.shape} and its predictions {ends.shape[:2]}: pass one for each."
                )
            rows, columns = np.nonzero(values == values)
            return cls(
                values[rows, columns], ends[rows, columns], task=inner.tasks_[columns], coverage=coverage
            ).plot(ax)
        labels = take_task_column(X, task, inner.task_column)[1]
        labels = np.repeat(inner.tasks_[:1], len(ends)) if labels is None else np.asarray(labels)
        values = np.asarray(y).ravel()
        check_length("y", len(values), len(ends))
        return cls(values, ends, task=labels, coverage=coverage).plot(ax)

    @property
    def _size(self) -> tuple[float, float]:
        return float(np.clip(1.4 * len(np.unique(self.task)), 4.5, 8.4)), 3.6

    def _draw(self) -> None:
        ax, labels = self.ax_, np.unique(self.task, return_counts=True)
        self.labels_ = labels[0][np.sort(np.argsort(-labels[1], kind="stable")[:_MOST_TASKS])].tolist()
        inside = (self.interval[:, 0] <= self.y_true) & (self.y_true <= self.interval[:, 1])
        order, at, names, covered = [], [], [], []
        for t, label in enumerate(self.labels_):
            rows = np.flatnonzero(self.task == label)
            rows = rows[np.argsort(self.interval[rows].mean(axis=1), kind="stable")]
            order.append(rows[np.unique(np.linspace(0, len(rows) - 1, _MOST_ROWS).round().astype(int))])
            at.append(t + np.linspace(0.05, 0.95, len(order[-1])))
            covered.append(float(inside[rows].mean()))
            names.append(f"{figures.task_name(label, 14)}\n{covered[-1]:.0%} of {count(len(rows), 'row')}")
        self.covered_ = np.array(covered)
        shown, x = np.concatenate(order), np.concatenate(at)
        ends = np.where(np.isfinite(self.interval[shown]), self.interval[shown], np.nan)
        ax.vlines(x, *ends.T, color=figures.BLUE, alpha=0.3, linewidth=1.2)
        self.inside_, self.outside_ = (
            ax.scatter(x[part], self.y_true[shown[part]], zorder=3, linewidths=1.0, **look)
            for part, look in (
                (inside[shown], {"marker": "o", "s": 7, "color": figures.BLUE}),
                (~inside[shown], {"marker": "x", "s": 18, "color": figures.VERMILLION}),
            )
        )
        places = np.arange(len(names)) + 0.5
        ax.set_xticks(places, names, fontsize=figures.SMALL, **figures.PLAIN)
        ax.tick_params(axis="x", length=0)
        ax.set(xlim=(0, len(names)), ylabel="observed, with interval")
        figures.note(ax, [f"intervals that hold {self.coverage:.0%} of new rows; rows by their prediction"])
