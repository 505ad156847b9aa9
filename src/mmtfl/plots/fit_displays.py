"""How a fit came about: the path, the scores of a search and its choice, the objective after each pass."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mmtfl.errors import require
from mmtfl.estimators.search import TaskSearch
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.estimators.two_strengths import CappedModel
from mmtfl.objective.losses import Loss
from mmtfl.plots import figures

_NAMED = 8  # features or curves in colour; more cannot be told apart


@dataclass(eq=False, repr=False)
class PathDisplay(figures.Display):
    """Sizes of the features' coefficients against alpha, with the number of features kept above.

    The size of a feature is the Euclidean norm of its coefficients over tasks, on the scale that the penalty
    saw: with ``standardize`` for one standard deviation of the feature, with ``scale_targets`` in standard
    deviations of each task's target. The largest ones at the chosen alpha are drawn in colour and named, the
    others in grey.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths.
    sizes : ndarray of shape (n_alphas, n_features)
        Size of each feature at each alpha.
    features : ndarray of shape (n_features,)
        Names of the features.
    alpha : float, optional
        The strength chosen.
    scaled : str, default=""
        On which scale the sizes are, such as "per s.d. of the feature"; empty for the units of the data.

    Attributes
    ----------
    lines_ : list of matplotlib lines
        Those of the named features, largest first.
    kept_ : matplotlib axis
        The numbers of features kept, above the picture.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import path
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import PathDisplay
    >>> data = make_tasks(n_tasks=3, n_samples=30, n_features=8, n_informative=2, noise=0.1, random_state=0)
    >>> found = path(data.X, data.y, data.task, p=2, k=2, alphas=20)
    >>> display = PathDisplay.from_path(found, alpha=0.1)
    >>> display.sizes.shape
    (20, 8)
    """

    _size = 6.5, 4.4

    alphas: np.ndarray
    sizes: np.ndarray
    _: KW_ONLY
    features: np.ndarray
    alpha: float | None = None
    scaled: str = ""

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> PathDisplay:
        """Draw the path of the member that a search chose.

        Parameters
        ----------
        model : fitted MMTFLRegressorCV, MMTFLClassifierCV or SingleTask model
            With a path on all rows.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : PathDisplay
            Drawn.
        """
        model = figures.fitted(model)
        found = getattr(model, "path_", None)
        if found is None:
            raise TypeError(
                f"{type(model).__name__} has no path: fit MMTFLRegressorCV or MMTFLClassifierCV, or draw "
                "what mmtfl.path returns with PathDisplay.from_path."
            )
        if isinstance(found, list):
            raise TypeError(
                f"{type(model).__name__}(per_task=True) has one path per task: draw one of them with "
                "PathDisplay.from_path(model.path_[0])."
            )
        names = getattr(model, "feature_names_in_", None)
        return cls.from_path(found, alpha=model.alpha_, features=names, ax=ax)

    @classmethod
    def from_path(
        cls, path: Any, *, alpha: float | None = None, features: Any = None, ax: Any = None
    ) -> PathDisplay:
        """Draw what ``mmtfl.path`` returns.

        Parameters
        ----------
        path : Path
            Coefficients along a grid of strengths.
        alpha : float, optional
            The strength to mark.
        features : array-like of shape (n_features,), optional
            Names of the features.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : PathDisplay
            Drawn.
        """
        sizes = np.zeros((len(path), path.n_features))
        for i, kept in enumerate(path.features):
            sizes[i, kept] = np.linalg.norm(path.penalised(i), axis=1)
        if features is None:
            features = [f"x{j}" for j in range(path.n_features)]
        if len(features) != path.n_features:
            raise ValueError(
                f"{len(features)} names were given for {path.n_features} features: pass one name per feature."
            )
        names = np.array([str(name) for name in features], dtype=object)
        scales = {"per s.d. of the feature": path.column_scale, "in s.d. of the target": path.target_scale}
        scaled = ", ".join(words for words, scale in scales.items() if scale is not None)
        look: dict[str, Any] = {"alpha": alpha, "scaled": scaled}
        return cls(path.alphas, sizes, features=names, **look).plot(ax)

    def _draw(self) -> None:
        ax, named = self.ax_, self._largest(_NAMED)
        others = np.setdiff1d(np.flatnonzero(self.sizes.any(axis=0)), named)
        curves = [np.column_stack([self.alphas, self.sizes[:, j]]) for j in others]
        look = {"colors": figures.GREY, "linewidths": 0.6, "alpha": 0.7, "rasterized": len(others) > 500}
        ax.add_collection(require("matplotlib.collections", "plots").LineCollection(curves, **look))
        self.lines_ = [
            ax.plot(self.alphas, self.sizes[:, j], **figures.line_style(i), linewidth=1.6)[0]
            for i, j in enumerate(named)
        ]
        scaled = f"\n{self.scaled}" if self.scaled else ""
        ax.set(
            xscale="log",
            xlabel="alpha, the strength of the penalty",
            ylabel=f"size of a feature's coefficients\n(norm over tasks){scaled}",
        )
        ax.grid(alpha=0.3)
        ax.set_ylim(bottom=0.0)
        self.kept_ = ax.secondary_xaxis("top")
        at = np.unique(np.linspace(0, len(self.alphas) - 1, 7).round().astype(int))
        self.kept_.set_xticks(self.alphas[at], np.count_nonzero(self.sizes[at], axis=1), minor=False)
        self.kept_.set_xticks([], minor=True)
        self.kept_.set_xlabel("features kept")
        if self.alpha is not None:
            ax.axvline(self.alpha, color=figures.ink(), linestyle=(0, (1, 2)), linewidth=1.2)
            figures.note(ax, [f"dotted line: the chosen alpha, {self.alpha:.3g}"])
        if self.lines_:
            names = [figures.shown(self.features[j], figures.name_width(ax)) for j in named]
            figures.legend(ax, list(zip(self.lines_, names, strict=True)), title="largest features")

    def _largest(self, most: int) -> np.ndarray:
        """Features that are largest at the chosen alpha; then, or without one, along the whole path."""
        here = np.zeros(self.sizes.shape[1])
        if self.alpha is not None:
            here = self.sizes[np.argmin(np.abs(np.log(self.alphas / self.alpha)))]
        overall = self.sizes.max(axis=0)
        order = np.lexsort((self.features.astype(str), -overall, -here))
        return order[overall[order] > 0.0][:most]


@dataclass(frozen=True)
class Curve:
    """Held-out scores along one strength.

    Attributes
    ----------
    name : str
        What is the same along the curve.
    strength : ndarray of shape (n_strengths,)
        Strengths, largest first.
    mean, error : ndarray of shape (n_strengths,)
        Mean over folds, and its standard error (NaN with one fold).
    chosen : int or None
        Position of the choice, if it is on this curve.
    """

    name: str
    strength: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    chosen: int | None = None

    @property
    def best(self) -> int:
        """Position of the best mean."""
        return int(np.argmax(np.where(np.isfinite(self.mean), self.mean, -np.inf)))

    @property
    def one_se(self) -> int:
        """Position of the strongest penalty within one standard error of the best mean."""
        reach = np.nan_to_num(self.error[self.best])
        return int(np.flatnonzero(self.mean >= self.mean[self.best] - reach)[0])


@dataclass(eq=False, repr=False)
class SearchDisplay(figures.Display):
    """Held-out score against the strength, with a band of one standard error over folds.

    One curve per (p, k); per second strength for `TwoStrengthCV`; per task where every task has its own
    strength. The choice is a filled circle; where they are other points, the best score is an open diamond
    and the strongest penalty within one standard error of it an open circle.

    Parameters
    ----------
    curves : list of Curve
        Scores along the strengths.
    strength : str, default="alpha"
        Name of the strength.
    told_apart_by : str, default="(p, k)"
        What the curves differ in.
    score : str, default="minus the loss"
        What the score is.
    relative : bool, default=False
        Whether to draw strengths as shares of the largest one of each curve.

    Attributes
    ----------
    lines_ : list of matplotlib lines
        The named curves, best first.
    bands_ : list of matplotlib collections
        Their bands.
    marks_ : dict of matplotlib lines
        The points "chosen", "best score" and "within one s.e.".
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressorCV
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import SearchDisplay
    >>> data = make_tasks(n_tasks=4, n_samples=40, n_features=12, n_informative=3, noise=0.5, random_state=0)
    >>> model = MMTFLRegressorCV(pk=((2, 2), (2, 1)), poolings=(0,), alphas=20, cv=3)
    >>> model = model.fit(data.X, data.y, task=data.task)
    >>> display = SearchDisplay.from_estimator(model)
    >>> [curve.name for curve in display.curves]
    ['(2, 2)', '(2, 1)']
    """

    _size = 6.5, 4.0

    curves: list[Curve]
    _: KW_ONLY
    strength: str = "alpha"
    told_apart_by: str = "(p, k)"
    score: str = "minus the loss"
    relative: bool = False

    @classmethod
    def from_estimator(cls, model: Any, *, relative: bool | None = None, ax: Any = None) -> SearchDisplay:
        """Draw the scores of a fitted search.

        Parameters
        ----------
        model : fitted MMTFLRegressorCV, MMTFLClassifierCV, TwoStrengthCV or SingleTask model
            With ``cv_results_``.
        relative : bool, optional
            Whether to draw strengths as shares of the largest one of each curve. None does where curves have
            grids of their own: alphas of different (p, k) are in different units.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : SearchDisplay
            Drawn.
        """
        searched = search_of(model)
        curves, strength, told_apart_by = search_curves(searched)
        if relative is None:
            relative = any(not np.array_equal(curve.strength, curves[0].strength) for curve in curves)
        names = {"strength": strength, "told_apart_by": told_apart_by}
        score = score_name(searched)
        return cls(curves, **names, score=score, relative=relative).plot(ax)

    def _draw(self) -> None:
        ax = self.ax_
        # the best first, whatever the order of the candidates; on top of the others, so drawn last
        ranked = sorted(self.curves, key=lambda curve: (curve.chosen is None, -curve.mean[curve.best]))
        named = ranked[:_NAMED]
        for curve in ranked[_NAMED:]:
            ax.plot(self._x(curve), curve.mean, color=figures.GREY, linewidth=0.6, zorder=1)
        self.lines_: list[Any] = []
        self.bands_: list[Any] = []
        self.marks_: dict[str, Any] = {}
        for i, curve in enumerate(named):
            self._draw_curve(curve, figures.line_style(i), depth=2.0 + 0.1 * (len(named) - i))
        ax.set_xscale("log")
        of = f"as a share of the largest for each {self.told_apart_by}" if self.relative else "the strength"
        ax.set(xlabel=f"{self.strength}, {of}", ylabel=f"held-out score:\n{self.score}")
        ax.grid(alpha=0.3)
        ax.set_ylim(*self._limits(named))
        lines = ["band: one standard error over folds"]
        if len(ranked) > _NAMED:
            lines.append(f"in grey: {len(ranked) - _NAMED} more, by {self.told_apart_by}")
        figures.note(ax, lines)
        names = [figures.shown(curve.name, figures.name_width(ax)) for curve in named]
        marks = [(mark, name) for name, mark in self.marks_.items()]
        figures.legend(ax, [*zip(self.lines_, names, strict=True), *marks], title=self.told_apart_by)

    def _x(self, curve: Curve) -> np.ndarray:
        return curve.strength / curve.strength.max() if self.relative else curve.strength

    def _draw_curve(self, curve: Curve, style: dict[str, Any], depth: float) -> None:
        x, colour = self._x(curve), style["color"]
        alpha, width = (0.1, 1.2) if curve.chosen is None else (0.25, 1.8)
        low, high = curve.mean - curve.error, curve.mean + curve.error
        band = {"alpha": alpha, "linewidth": 0, "color": colour, "zorder": depth}
        self.bands_.append(self.ax_.fill_between(x, low, high, **band))
        self.lines_ += self.ax_.plot(x, curve.mean, linewidth=width, **style, zorder=depth)
        if curve.chosen is None:
            return
        marks = {"best score": (curve.best, "D"), "within one s.e.": (curve.one_se, "o")}
        for name, (at, marker) in {**marks, "chosen": (curve.chosen, "o")}.items():
            if name != "chosen" and at == curve.chosen:
                continue
            face = colour if name == "chosen" else "white"
            edge = figures.ink()
            look = {"marker": marker, "markersize": 7, "markerfacecolor": face, "markeredgecolor": edge}
            (self.marks_[name],) = self.ax_.plot(x[at], curve.mean[at], linestyle="none", zorder=4, **look)

    def _limits(self, named: list[Curve]) -> tuple[float, float]:
        """Limits around the best scores: an overfitted end of a path may fall a thousand times as far."""
        means = np.concatenate([curve.mean[np.isfinite(curve.mean)] for curve in named])
        tops = [curve.mean[curve.best] + np.nan_to_num(curve.error[curve.best]) for curve in named]
        best = float(means.max())
        depth = best - float(np.quantile(means, 0.2))
        low = max(best - 2.0 * depth, float(means.min()))
        high = max(tops)
        margin = 0.06 * (high - low) or 0.1 * abs(best) or 1.0
        return low - margin, high + margin


def search_of(model: Any) -> Any:
    """The fitted search of this library in a search of scikit-learn, or the model itself if it is one."""
    inner = model
    while not isinstance(inner, TaskSearch | TwoStrengthCV):
        if not hasattr(inner, "best_estimator_"):
            raise TypeError(
                f"{type(inner).__name__} did not search: fit MMTFLRegressorCV, MMTFLClassifierCV, "
                "TwoStrengthCV or a SingleTask model, whose cv_results_ are drawn."
            )
        inner = inner.best_estimator_
    check_is_fitted(inner)
    return inner


def score_name(model: Any) -> str:
    """What a fitted search measures on held-out rows, in words; larger is better."""
    scoring = model.scoring
    if scoring is not None:
        metric = getattr(scoring, "metric", None)
        return str(getattr(metric, "name", scoring if isinstance(scoring, str) else "a score of its own"))
    inner = model._fitted()
    if inner._metric == "accuracy":
        return "minus the logistic loss per row"
    if not isinstance(inner._loss, Loss):
        return "minus the tasks' losses per row, in units of their slopes without any feature"
    unit = ", in units of each task's spread" if inner.scale_targets else ""
    loss = inner._loss
    what = "half the mean squared error" if loss.is_quadratic else f"the {loss.name} loss per row"
    return f"minus {what}{unit}"


def search_curves(model: Any) -> tuple[list[Curve], str, str]:
    """Curves of a fitted search, the name of the strength along them, and what tells them apart."""
    model = search_of(model)
    table = model.cv_results_
    if isinstance(model, TwoStrengthCV):
        first, second = model.best_estimator_.strength_names
        names = [f"{value:.3g}" for value in table[second]]
        chosen: dict[Any, Any] = {model.best_params_[second]: model.best_params_[first]}
        return _curves(table, first, table[second], names, chosen), first, second
    if "task" in table:
        chosen = dict(zip(model.tasks_.tolist(), np.ravel(model.alpha_).tolist(), strict=True))
        return _curves(table, "alpha", table["task"], table["task"], chosen), "alpha", "task"
    curves = table.get("curves", np.zeros(len(table["p"]), dtype=bool))
    both = bool(curves.any()) and not curves.all()
    rows = zip(table["p"], table["k"], table["pooling"], curves & both, strict=True)
    names = [member_name(*row) for row in rows]
    own = member_name(model.best_p_, model.best_k_, model.best_pooling_, both and model.best_curves_)
    kind = "(p, k, pooling)" if table["pooling"].any() else "(p, k)"
    return _curves(table, "alpha", np.array(names), names, {own: model.alpha_}), "alpha", kind


def member_name(p: float, k: Any, pooling: float, curves: bool = False) -> str:
    """(p, k), the pooling where there is some, and whether features may act by curves."""
    numbers = [f"{p:g}", "log" if k in (0, "log") else f"{k:g}", *([f"{pooling:g}"] if pooling else [])]
    return f"({', '.join(numbers)}){' with curves' if curves else ''}"


def _curves(
    table: dict[str, Any], along: str, group: np.ndarray, names: Any, chosen: dict[Any, Any]
) -> list[Curve]:
    """One curve for each value of `group`; `chosen` maps groups to the strength chosen in them.

    Folds without a finite score do not count in the standard error of a mean.
    """
    mean = table["mean_test_score"]
    folds = np.column_stack([column for name, column in table.items() if name.startswith("split")])
    folds = np.where(np.isfinite(folds), folds, np.nan)
    with warnings.catch_warnings(action="ignore"):  # of one fold nothing is known
        error = np.nanstd(folds, axis=1, ddof=1) / np.sqrt(np.count_nonzero(~np.isnan(folds), axis=1))
    curves = []
    for value in dict.fromkeys(group.tolist()):
        rows = np.flatnonzero((group == value) & ~np.isnan(mean))  # else it was not scored on all folds
        if not rows.size:
            continue
        rows = rows[np.argsort(-table[along][rows], kind="stable")]
        strength = table[along][rows]
        at = np.flatnonzero(strength == chosen.get(value))
        place = int(at[0]) if at.size else None
        curves.append(Curve(str(names[rows[0]]), strength, mean[rows], error[rows], place))
    return curves


# -- the solver's history ------------------------------------------------------------------------------------


_MANY = 60  # passes; beyond, a marker on each hides the line

_ROUNDING = 1e-12  # of the objective: smaller steps are not steps


def above_last(history: np.ndarray) -> np.ndarray:
    """How far an objective was above its last value after each pass; zero where that is rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.plots.fit_displays import above_last
    >>> above_last(np.array([3.0, 2.0, 2.0 + 4e-16, 2.0])).tolist()
    [1.0, 0.0, 0.0, 0.0]
    """
    distance = history - history[-1] if len(history) else history
    return np.where(distance > _ROUNDING * np.abs(history), distance, 0.0)


@dataclass(eq=False, repr=False)
class HistoryDisplay(figures.Display):
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
        model = figures.fitted(model)
        step = "stage" if isinstance(model, CappedModel) else "pass"
        return cls(model.history_, step=step, violation=model.violation_).plot(ax)

    def _draw(self) -> None:
        ax = self.ax_
        history = np.asarray(self.history, dtype=float)
        distance = above_last(history)
        ahead = np.flatnonzero(distance)
        marker = "o" if len(ahead) <= _MANY else None
        (self.line_,) = ax.plot(ahead + 1, distance[ahead], color=figures.BLUE, marker=marker, markersize=4)
        if len(ahead):
            ax.set_yscale("log")
        n = len(history)
        ax.set(
            xlabel="pass over the data" if self.step == "pass" else self.step,
            ylabel="objective above its last value",
            xlim=(0.5, n + 0.5),
        )
        ax.xaxis.set_major_locator(figures.whole_numbers())
        ax.grid(alpha=0.3)
        spent = f"{n} {self.step}" + ("" if n == 1 else "es" if self.step.endswith("s") else "s")
        lines = [f"objective {history[-1]:.6g} after {spent}"]
        lines += [] if self.violation is None else [f"violation {self.violation:.1e}"]
        lines += [] if ahead.size else [f"flat: the first {self.step} reached it, but for rounding"]
        figures.note(ax, lines)
