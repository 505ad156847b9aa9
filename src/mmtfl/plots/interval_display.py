"""Prediction intervals beside what was observed, task by task."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.estimators.inputs import matrix_values, take_task_column
from mmtfl.plots import figures
from mmtfl.tasks.checks import check_length
from mmtfl.wording import count

_PANELS = 6  # tasks with a panel of their own
_MOST_ROWS = 150  # of a panel; beyond, evenly spaced ones


@dataclass(eq=False, repr=False)
class IntervalDisplay(figures.TaskPanels):
    """Rows in the order of their predictions, with their intervals and what was observed.

    Rows outside their interval are crosses. The largest six tasks have a panel each. Beyond 150 rows of a
    task evenly spaced ones are drawn, and all are counted.

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
        Label of the task of each panel.
    covered_ : ndarray of shape (n_panels,)
        Share of the task's rows that are within their interval.
    axes_ : ndarray of matplotlib axes
        The panels.
    ax_, figure_ : matplotlib axes and figure
        The first panel, and the figure.

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
            Where to draw, split into panels; None makes a figure.

        Returns
        -------
        display : IntervalDisplay
            Drawn.
        """
        inner: Any = figures.fitted(model)
        ends = inner.predict_interval(X, task=task, coverage=coverage)
        labels = labels_of(inner, X, task, ends[..., 0])
        (y_true, lower, place), (_, upper, _) = (stack_rows(y, ends[..., end], labels) for end in (0, 1))
        return cls(y_true, np.column_stack([lower, upper]), task=place, coverage=coverage).plot(ax)

    @property
    def _tasks_shown(self) -> list[Any]:
        labels, sizes = np.unique(self.task, return_counts=True)
        return labels[np.sort(np.argsort(-sizes, kind="stable")[:_PANELS])].tolist()

    def _draw(self) -> None:
        pairs = zip(self.axes_, self.labels_, strict=True)
        self.covered_ = np.array([self._draw_task(*pair) for pair in pairs])
        self._name_axes("rows, by prediction", "observed, with interval", fontsize=figures.SMALL + 1)

    def _draw_task(self, panel: Any, label: Any) -> float:
        """Draw one task; the share of its rows that is covered."""
        rows = np.flatnonzero(self.task == label)
        rows = rows[np.argsort(self.interval[rows].mean(axis=1), kind="stable")]
        lower, upper = self.interval[rows].T
        inside = (lower <= self.y_true[rows]) & (self.y_true[rows] <= upper)
        shown = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).round().astype(int))
        at, y = np.arange(len(shown)), self.y_true[rows[shown]]
        ends = np.where(np.isfinite(self.interval[rows[shown]]), self.interval[rows[shown]], np.nan)
        panel.vlines(at, *ends.T, color=figures.BLUE, alpha=0.3, linewidth=1.2)
        for part, marker, size, colour in (
            (inside[shown], "o", 7, figures.BLUE),
            (~inside[shown], "x", 18, figures.VERMILLION),
        ):
            panel.scatter(at[part], y[part], s=size, color=colour, marker=marker, linewidths=1.0, zorder=3)
        panel.set_xticks([])
        covered = float(inside.mean())
        lines = [
            figures.task_name(label, 18),
            f"{covered:.0%} of {count(len(rows), 'row')} ({self.coverage:.0%} asked)",
        ]
        panel.set_title("\n".join(lines), fontsize=figures.SMALL + 1, **figures.PLAIN)
        return covered


def labels_of(model: Any, X: Any, task: Any, y_pred: np.ndarray) -> np.ndarray:
    """Task label of each row of the predictions; of each column, if they have two dimensions."""
    if y_pred.ndim == 2:
        return model.tasks_
    labels = take_task_column(X, task, model.task_column)[1]
    return np.repeat(model.tasks_[:1], len(y_pred)) if labels is None else labels


def stack_rows(y: Any, y_pred: np.ndarray, task: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets, predictions and labels, one row for each that was observed."""
    if y_pred.ndim == 2:
        Y = matrix_values(y)
        if Y.shape != y_pred.shape:
            raise ValueError(f"y has shape {Y.shape} and its predictions {y_pred.shape}: pass one for each.")
        labels = np.arange(Y.shape[1]) if task is None else np.asarray(task)
        check_length("task", len(labels), Y.shape[1])
        rows, columns = np.nonzero(Y == Y)
        return Y[rows, columns], y_pred[rows, columns], labels[columns]
    y_true = np.asarray(y).ravel()
    check_length("y_pred", len(y_pred), len(y_true))
    labels = np.zeros(len(y_true), dtype=int) if task is None else np.asarray(task)
    check_length("task", len(labels), len(y_true))
    return y_true, y_pred, labels
