"""Effects with their intervals, effects that are curves, and intervals of predictions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.estimators.inputs import take_task_column, targets_like
from mmtfl.plots import figures
from mmtfl.wording import count, noun_of_tasks

_MOST_ROWS = 60  # of a forest, and of a task; beyond, those with most weight, and evenly spaced ones
_MOST_TASKS = 6  # whose intervals are drawn
_INNER = 0.05, 0.95  # of the tasks, between which the band lies where there are many
_RATIOS = {"odds_ratio": "odds ratio", "rate_ratio": "rate ratio"}


@dataclass(eq=False, repr=False)
class ForestDisplay(figures.Display):
    """Effects with their intervals, one row for each task, and the average of all tasks.

    A square is the effect that the task's own rows show, the larger the more it weighs in the average; the
    line is its interval, the short tick the effect drawn to the average. The diamond is the average with its
    interval, the band what a new task may have. Without a feature there is a row for each feature with its
    average effect, for going from its lower to its upper quartile. For classes and counts the axis has odds
    or rate ratios.

    Parameters
    ----------
    labels : list of str
        One for each row: tasks, or features.
    effect, lower, upper : ndarray of shape (n_rows,)
        Effects with their intervals, on the scale of the linear predictor; NaN where there is none.
    weight : ndarray of shape (n_rows,)
        Weight of each row in the average, from 0 to 1.
    name : str
        What is measured.
    shrunk : ndarray of shape (n_rows,), optional
        Effects drawn to the average.
    average : tuple of float, optional
        The average with the ends of its interval.
    new : tuple of float, optional
        What a new task may have.
    ratio : str, optional
        "odds_ratio" or "rate_ratio": the axis has these, on a logarithmic scale.
    coverage : float, default=0.9
        Of all intervals.
    n_left_out : int, default=0
        Rows that are not shown.
    noun : str, default="task"
        What a task is called.

    Attributes
    ----------
    squares_ : matplotlib collection
        The effects.
    intervals_ : matplotlib collection
        Their intervals.
    ticks_ : matplotlib collection or None
        The shrunk effects.
    diamond_ : matplotlib patch or None
        The average.
    band_ : matplotlib patch or None
        What a new task may have.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import ForestDisplay
    >>> data = make_tasks(n_tasks=4, n_samples=60, n_features=3, n_informative=2, random_state=0)
    >>> model = MMTFLRegressor(alpha=0.1, effects=True).fit(data.X, data.y, task=data.task)
    >>> ForestDisplay.from_estimator(model, "x0").labels
    ['0', '1', '2', '3']
    >>> ForestDisplay.from_estimator(model).ax_.get_xlabel()
    'effect from the lower to the upper quartile, with 90 % intervals'
    """

    labels: list[str]
    effect: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    weight: np.ndarray
    _: KW_ONLY
    name: str
    shrunk: np.ndarray | None = None
    average: tuple[float, ...] | None = None
    new: tuple[float, ...] | None = None
    ratio: str | None = None
    coverage: float = 0.9
    n_left_out: int = 0
    noun: str = "task"

    @classmethod
    def from_estimator(
        cls, model: Any, feature: Any = None, *, coverage: float = 0.9, ax: Any = None
    ) -> ForestDisplay:
        """Draw the effects of one feature in every task, or the averages of all features.

        Parameters
        ----------
        model : fitted search, or model fitted with ``effects=True``
            What is drawn.
        feature : str or int, optional
            Name or position of the feature; None draws the averages of all.
        coverage : float, default=0.9
            Of all intervals.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : ForestDisplay
            Drawn.
        """
        model = figures.fitted(model)
        table = figures.columns_of(model.effects(coverage))
        ratio = next((name for name in _RATIOS if name in table), None)
        if feature is None:
            rows = averages(table)
            name = f"{_RATIOS.get(ratio or '', 'effect')} from the lower to the upper quartile"
        else:
            label = feature if isinstance(feature, str) else model._feature_names()[feature]
            rows = effects_by_task(table, figures.columns_of(model.task_effects(feature, coverage)), label)
            is_level = table["column"][table["feature"] == label][0] != label  # as ward=surgery
            unit = "if it is true" if is_level else "per unit"
            name = f"{_RATIOS.get(ratio or '', 'effect')} of {figures.shown(label)}, {unit}"
        look: dict[str, Any] = {"ratio": ratio, "coverage": coverage, "noun": noun_of_tasks(model)[0]}
        return cls(**rows, name=name, **look).plot(ax)

    @property
    def _size(self) -> tuple[float, float]:
        n_rows = len(self.labels) + (2 if self.average else 0)
        return 6.0, 1.3 + 0.21 * n_rows

    def _draw(self) -> None:
        ax = self.ax_
        at = np.arange(len(self.labels))
        n_rows = len(at)
        ends = self._on_axis(np.column_stack([self.lower, self.upper]))
        known = np.isfinite(ends[:, 0])
        self.intervals_ = ax.hlines(at[known], *ends[known].T, colors=figures.BLUE, linewidths=1.2)
        size = 12.0 + 60.0 * self.weight
        self.squares_ = ax.scatter(
            self._on_axis(self.effect), at, s=size, marker="s", color=figures.BLUE, zorder=3
        )
        self.ticks_ = self.diamond_ = self.band_ = None
        if self.shrunk is not None:
            look = {"marker": "|", "s": 60, "color": figures.VERMILLION, "zorder": 4, "linewidths": 1.5}
            self.ticks_ = ax.scatter(self._on_axis(self.shrunk), at, **look)
        if self.new is not None and np.isfinite(self.new).all():
            ends = self._on_axis(np.array(self.new))
            self.band_ = ax.axvspan(*ends, color=figures.BLUE, alpha=0.1, linewidth=0)
        if self.average is not None and np.isfinite(self.average).all():
            self._draw_diamond(n_rows + 0.5)
            n_rows += 2
        ax.axvline(1.0 if self.ratio else 0.0, color=figures.GREY, linewidth=1.0, zorder=0)
        if self.ratio:
            ax.set_xscale("log")
            figures.ratio_axis(ax.xaxis, *ax.get_xlim())
        ax.set_ylim(n_rows - 0.3, -0.8)
        self._name_rows(at)
        text = f"{self.name}, with {100 * self.coverage:.0f} % intervals"
        ax.set_xlabel(text, fontsize=figures.SMALL + 1, **figures.PLAIN)
        figures.note(ax, self._notes())

    def _on_axis(self, values: np.ndarray) -> np.ndarray:
        """Effects as they are, or as ratios."""
        return np.exp(np.clip(values, -50.0, 50.0)) if self.ratio else values

    def _draw_diamond(self, y: float) -> None:
        average, lower, upper = self.average or (0.0, 0.0, 0.0)
        x = self._on_axis(np.array([lower, average, upper, average]))
        self.diamond_ = self.ax_.fill(x, [y, y - 0.35, y, y + 0.35], color=figures.VERMILLION, zorder=3)[0]

    def _name_rows(self, at: np.ndarray) -> None:
        names = [figures.shown(label, 32) for label in self.labels]
        places = list(at)
        if self.diamond_ is not None:
            places.append(len(at) + 0.5)
            names.append("average")
        self.ax_.set_yticks(places, names, fontsize=figures.SMALL, **figures.PLAIN)

    def _notes(self) -> list[str]:
        lines = []
        if self.average is not None:
            lines.append(f"square: the rows of the {self.noun} alone; tick: drawn to the average")
        if self.band_ is not None:
            lines.append(f"band: what a new {self.noun} may have")
        if self.n_left_out:
            lines.append(f"not shown: {self.n_left_out} more")
        return lines


def effects_by_task(table: dict[str, np.ndarray], own: dict[str, np.ndarray], feature: str) -> dict[str, Any]:
    """The forest of one feature, from ``effects()`` and its ``task_effects``."""
    row = int(np.flatnonzero(table["feature"] == feature)[0])
    ends = ("average", "lower", "upper")
    known = np.flatnonzero(np.isfinite(own["effect"]))
    left_out = max(len(known) - _MOST_ROWS, 0)
    if left_out:  # those with most rows stay
        known = np.sort(known[np.argsort(-own["n_rows"][known], kind="stable")[:_MOST_ROWS]])
    found: dict[str, Any] = {name: own[name][known] for name in ("effect", "lower", "upper", "shrunk")}
    error = (found["upper"] - found["lower"]) / 3.3  # intervals of 90 % are about 3.3 errors wide
    weight = 1.0 / (error**2 + np.nan_to_num(float(table["spread"][row])) ** 2)
    return {
        **found,
        "labels": [str(label) for label in own["task"][known]],
        "weight": weight / weight.max(initial=0.0),
        "average": tuple(float(table[name][row]) for name in ends),
        "new": tuple(float(table[f"new_task_{end}"][row]) for end in ends[1:]),
        "n_left_out": left_out,
    }


def averages(table: dict[str, np.ndarray]) -> dict[str, Any]:
    """The forest of the averages of all features, from ``effects()``."""
    known = np.flatnonzero(np.isfinite(table["quartiles"]) & np.isfinite(table["quartiles_lower"]))
    shown = known[:_MOST_ROWS]
    ends = {"effect": "quartiles", "lower": "quartiles_lower", "upper": "quartiles_upper"}
    return {
        **{name: table[column][shown] for name, column in ends.items()},
        "labels": [f"{table['feature'][j]}: {table['word'][j]}" for j in shown],
        "weight": np.full(len(shown), 0.4),
        "n_left_out": len(known) - len(shown),
    }


# -- curves --------------------------------------------------------------------------------------------------


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
        ax, collection = self.ax_, require("matplotlib.collections", "plots").LineCollection
        ends = _INNER if len(self.by_task) >= 20 else (0.0, 1.0)
        low, high = np.quantile(self.by_task, ends, axis=0)
        self.band_ = ax.fill_between(self.values, low, high, color=figures.BLUE, alpha=0.12, linewidth=0)
        lines = [np.column_stack([self.values, effect]) for effect in self.by_task]
        self.lines_ = ax.add_collection(collection(lines, colors=figures.GREY, linewidths=0.7, alpha=0.7))
        (self.common_,) = ax.plot(self.values, self.common, color=figures.BLUE, linewidth=2.2)
        ax.axhline(0.0, color=figures.GREY, linewidth=0.8, zorder=0)
        ax.set_xlabel(figures.shown(self.feature), **figures.PLAIN)
        ax.set_ylabel(self.unit)
        held = "nine in ten of them" if len(self.by_task) >= 20 else "all of them"
        figures.note(ax, [f"thick: in common; thin: one {self.noun} each", f"band: {held}"])


# -- intervals -------------------------------------------------------------------------------------------


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
        values = targets_like(ends[..., 0], y)
        if values.shape != ends.shape[:-1]:
            raise ValueError(
                f"y has shape {values.shape} and its predictions {ends.shape[:-1]}: pass one for each."
            )
        if values.ndim == 2:  # tasks that are columns of y
            rows, columns = np.nonzero(values == values)
            values, ends, labels = values[rows, columns], ends[rows, columns], inner.tasks_[columns]
        else:
            labels = take_task_column(X, task, inner.task_column)[1]
            labels = np.repeat(inner.tasks_[:1], len(ends)) if labels is None else np.asarray(labels)
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
