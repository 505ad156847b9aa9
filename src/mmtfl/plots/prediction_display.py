"""Predicted against observed values, and intervals beside what was observed, task by task."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import is_classifier

from mmtfl.estimators.inputs import matrix_values, take_task_column
from mmtfl.plots import figures
from mmtfl.tasks.checks import check_length
from mmtfl.wording import count

_PANELS = 12  # tasks with a panel of their own
_CROWDED = 3000  # points of a panel; beyond, hexagons show how many
_ALIKE = 4.0  # ranges of targets that differ by less share their limits
_BINS = np.linspace(0.0, 1.0, 21)


@dataclass(eq=False, repr=False)
class PredictionDisplay(figures.TaskPanels):
    """Predicted against observed values, in one panel per task; all tasks in one if they are many.

    For a classifier, a panel shows how the predicted probability is spread over rows of each class: apart
    for a good model, on their own side of one half for a calibrated one. It needs no minimal number of rows,
    which a ROC or a calibration curve of a small task does.

    Parameters
    ----------
    y_true : ndarray of shape (n_rows,)
        Observed targets, or classes.
    y_pred : ndarray of shape (n_rows,)
        Predictions, or probabilities of the second class.
    task : ndarray of shape (n_rows,)
        Task label of each row.
    classes : pair, optional
        The two classes; None for regression.

    Attributes
    ----------
    labels_ : list
        Label of the task of each panel; None where one panel has all of them.
    axes_ : ndarray of matplotlib axes
        The panels.
    ax_, figure_ : matplotlib axes and figure
        The first panel, and the figure.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import PredictionDisplay
    >>> data = make_tasks(n_tasks=4, n_features=20, n_informative=4, random_state=0)
    >>> model = MMTFLRegressor(alpha=0.1).fit(data.X, data.y, task=data.task)
    >>> display = PredictionDisplay.from_estimator(model, data.X, data.y, data.task)
    >>> len(display.axes_)
    4
    """

    _panel, _margin = (1.95, 2.1), 0.6

    y_true: np.ndarray
    y_pred: np.ndarray
    _: KW_ONLY
    task: np.ndarray
    classes: tuple[Any, Any] | None = None

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, task: Any = None, *, tasks: Any = None, ax: Any = None
    ) -> PredictionDisplay:
        """Predict rows, best ones that were not in the fit, and draw them.

        Parameters
        ----------
        model : fitted estimator of mmtfl
            Any of them.
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,) or (n_rows, n_tasks)
            What was observed; NaN in two dimensions was not.
        task : array-like of shape (n_rows,), optional
            Task label of each row, as in ``predict``.
        tasks : sequence of labels, optional
            Tasks to draw; None draws all.
        ax : matplotlib axes, optional
            Where to draw, split into panels; None makes a figure.

        Returns
        -------
        display : PredictionDisplay
            Drawn.
        """
        inner = figures.fitted(model)
        if is_classifier(inner):
            y_pred, classes = expit(inner.decision_function(X, task=task)), inner.classes_.tolist()
        else:
            y_pred, classes = inner.predict(X, task=task), None
        labels = labels_of(inner, X, task, y_pred)
        return cls.from_predictions(y, y_pred, labels, classes=classes, tasks=tasks, ax=ax)

    @classmethod
    def from_predictions(
        cls, y: Any, y_pred: Any, task: Any = None, *, classes: Any = None, tasks: Any = None, ax: Any = None
    ) -> PredictionDisplay:
        """Draw predictions of any model.

        Parameters
        ----------
        y : array-like of shape (n_rows,) or (n_rows, n_tasks)
            What was observed; NaN in two dimensions was not.
        y_pred : array-like of the same shape
            Predictions; with classes, the probability of the second one.
        task : array-like of shape (n_rows,), optional
            Task label of each row; of each column if y has two dimensions. None is one task, or columns
            numbered from 0.
        classes : pair, optional
            The two classes, if y holds classes.
        tasks : sequence of labels, optional
            Tasks to draw; None draws all.
        ax : matplotlib axes, optional
            Where to draw, split into panels; None makes a figure.

        Returns
        -------
        display : PredictionDisplay
            Drawn.
        """
        y_true, y_pred, task = stack_rows(y, np.asarray(y_pred, dtype=float), task)
        if classes is not None:
            classes = tuple(classes)
            unknown = set(np.unique(y_true).tolist()) - set(classes)
            if len(classes) != 2 or unknown:
                raise ValueError(
                    f"classes must be the two values of y, got {classes!r} for {sorted(unknown)!r} too."
                )
        if tasks is not None:
            wanted = list(tasks)
            missing = [label for label in wanted if label not in set(task.tolist())]
            if missing:
                raise ValueError(f"Task {missing[0]!r} has no rows here: leave it out of tasks=.")
            chosen = np.isin(task, wanted)
            y_true, y_pred, task = y_true[chosen], y_pred[chosen], task[chosen]
        return cls(y_true, y_pred, task=task, classes=classes).plot(ax)

    @property
    def _tasks_shown(self) -> list[Any]:
        labels = np.unique(self.task).tolist()
        return labels if len(labels) <= _PANELS else [None]

    @property
    def _least(self) -> tuple[float, float]:
        return 4.5, 3.6 if len(self.labels_) == 1 else 2.8

    def _draw(self) -> None:
        n_tasks = len(np.unique(self.task))
        if self.classes is None:
            self._draw_values(n_tasks)
            self._name_axes("observed", "predicted")
        else:
            self._draw_probabilities(n_tasks)
            self._name_axes(f"probability of {figures.shown(self.classes[1], 16)}", "rows")

    # -- regression ------------------------------------------------------------------------------------------

    def _draw_values(self, n_tasks: int) -> None:
        y_true, y_pred = self.y_true, self.y_pred
        rows = [self._rows(label) for label in self.labels_]
        differ, pooled = self._ranges_differ(), self.labels_ == [None]
        if pooled and differ:
            y_true, y_pred = self._in_spreads()
        values = [np.concatenate([y_true[part], y_pred[part]]) for part in rows]
        limits = [_limits(part) for part in values]
        if not differ:
            limits = [(min(low for low, _ in limits), max(high for _, high in limits))] * len(limits)
        for panel, label, part, limit in zip(self.axes_, self.labels_, rows, limits, strict=True):
            panel.plot(limit, limit, color=figures.ink(), linewidth=0.8, linestyle="--", zorder=1)
            if len(part) > _CROWDED:
                look = {"gridsize": 40, "mincnt": 1, "bins": "log", "cmap": "cividis_r", "linewidths": 0.1}
                panel.hexbin(y_true[part], y_pred[part], extent=(*limit, *limit), **look)
            else:
                see = float(np.clip(60.0 / np.sqrt(max(len(part), 1)) / 6.0, 0.25, 0.8))
                panel.scatter(
                    y_true[part], y_pred[part], s=9, color=figures.BLUE, alpha=see, linewidths=0, zorder=2
                )
            panel.set(xlim=limit, ylim=limit, aspect="equal")
            if pooled:
                lines = [f"{count(n_tasks, 'task')}, {count(len(part), 'row')}"]
                lines += ["in s.d. of each task's observed values"] if differ else []
            else:
                fit = r_squared(y_true[part], y_pred[part])
                lines = [figures.task_name(label, 18), *([] if fit is None else [f"R² {fit:.2f}"])]
            lines += ["darker: more rows"] if len(part) > _CROWDED else []
            panel.set_title("\n".join(lines), fontsize=figures.SMALL + 1, **figures.plain(*lines))

    def _rows(self, label: Any) -> np.ndarray:
        return np.arange(len(self.task)) if label is None else np.flatnonzero(self.task == label)

    def _ranges_differ(self) -> bool:
        ranges = [np.ptp(self.y_true[self.task == label]) for label in np.unique(self.task)]
        ranges = [size for size in ranges if size > 0.0]
        return len(ranges) > 1 and max(ranges) > _ALIKE * min(ranges)

    def _in_spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """Values around each task's mean, in units of its spread: tasks of different units in one panel."""
        y_true, y_pred = np.array(self.y_true, dtype=float), np.array(self.y_pred)
        for label in np.unique(self.task):
            part = self.task == label
            mean, spread = y_true[part].mean(), y_true[part].std() or 1.0
            y_true[part], y_pred[part] = (y_true[part] - mean) / spread, (y_pred[part] - mean) / spread
        return y_true, y_pred

    # -- classification --------------------------------------------------------------------------------------

    def _draw_probabilities(self, n_tasks: int) -> None:
        assert self.classes is not None
        first, second = self.classes
        for panel, label in zip(self.axes_, self.labels_, strict=True):
            part = self._rows(label)
            is_second = self.y_true[part] == second
            probability = self.y_pred[part]
            filled = panel.hist(probability[is_second], _BINS, color=figures.ORANGE, edgecolor="none")[2]
            look = {"histtype": "step", "color": figures.BLUE, "linewidth": 1.4}
            outline = panel.hist(probability[~is_second], _BINS, **look)[2]
            panel.axvline(0.5, color=figures.ink(), linewidth=0.8, linestyle="--")
            panel.set_xlim(0.0, 1.0)
            panel.yaxis.set_major_locator(figures.whole_numbers(5))
            panel.set_xticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
            right = float(np.mean((probability > 0.5) == is_second))
            name = count(n_tasks, "task") if label is None else figures.task_name(label, 18)
            panel.set_title(f"{name}\n{right:.0%} right", fontsize=figures.SMALL + 1, **figures.plain(name))
        entries = [(filled[0], figures.shown(second, 16)), (outline[0], figures.shown(first, 16))]
        figures.legend(self.axes_[self._n_columns - 1], entries, title="observed")


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


def _limits(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 0.1 * abs(low) or 1.0
    return low - margin, high + margin


def r_squared(y_true: np.ndarray, y_pred: np.ndarray) -> float | None:
    """Share of the variance that is explained; None where there is none."""
    total = float(np.sum((y_true - y_true.mean()) ** 2))
    return 1.0 - float(np.sum((y_true - y_pred) ** 2)) / total if total > 0.0 else None


# -- intervals -----------------------------------------------------------------------------------------------


_INTERVAL_PANELS = 6  # tasks with a panel of their own
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
        return labels[np.sort(np.argsort(-sizes, kind="stable")[:_INTERVAL_PANELS])].tolist()

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
        panel.set_title("\n".join(lines), fontsize=figures.SMALL + 1, **figures.plain(*lines))
        return covered
