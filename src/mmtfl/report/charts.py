"""Charts as coordinates for SVG: lines, points, cells and ticks, which the template draws."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mmtfl.plots.search_display import above_last
from mmtfl.report.sentences import number
from mmtfl.report.summary import SearchGrid, SearchSummary
from mmtfl.tables.column_encoding import spline_basis

WIDTH, HEIGHT = 520.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 76.0, 14.0, 14.0, 46.0
MOST_STYLES = 5  # curves that get a colour and a line style of their own


@dataclass(frozen=True)
class Tick:
    """A tick of an axis: its position and its label."""

    at: float
    label: str


@dataclass(frozen=True)
class Line:
    """A curve, its error band (if any) and its points, by the name of their style."""

    style: str
    path: str
    band: str = ""
    points: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The axes of a picture, and a sentence that says what it shows."""

    alt: str
    x_label: str
    y_label: str
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


@dataclass(frozen=True, kw_only=True)
class Chart(Frame):
    """Lines, and a legend of (style, label)."""

    lines: list[Line]
    legend: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Axis:
    """From numbers to places, on a plain or a logarithmic scale."""

    low: float
    high: float
    start: float
    stop: float
    is_log: bool = False

    @classmethod
    def around(cls, values: np.ndarray, start: float, stop: float, *, is_log: bool = False) -> _Axis:
        low, high = float(values.min()), float(values.max())
        if low == high:
            low, high = (
                (low / 2, high * 2) if is_log else (low - (abs(low) or 1.0), high + (abs(high) or 1.0))
            )
        return cls(low, high, start, stop, is_log)

    def at(self, value: float) -> float:
        a, b, v = (math.log(part) if self.is_log else part for part in (self.low, self.high, value))
        return round(self.start + (v - a) / (b - a) * (self.stop - self.start), 2)

    def ticks(self) -> list[Tick]:
        values = self._decades() if self.is_log else self._round_steps()
        return [Tick(self.at(value), number(value)) for value in values]

    def _decades(self) -> list[float]:
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        if last - first < 1:
            return [self.low, math.sqrt(self.low * self.high), self.high]
        step = max(1, math.ceil((last - first) / 6))
        return [10.0**power for power in range(first, last + 1, step)]

    def _round_steps(self) -> list[float]:
        raw = (self.high - self.low) / 4
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= raw)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(i * step, 12) for i in range(first, last + 1)]


@dataclass(frozen=True)
class _Plane:
    """The two axes of a chart."""

    x: _Axis
    y: _Axis

    @classmethod
    def around(
        cls, across: np.ndarray, up: np.ndarray, *, log_x: bool = False, log_y: bool = False
    ) -> _Plane:
        x = _Axis.around(across, LEFT, WIDTH - RIGHT, is_log=log_x)
        return cls(x, _Axis.around(up, HEIGHT - BOTTOM, TOP, is_log=log_y))

    def places(self, across: Any, up: Any) -> list[tuple[float, float]]:
        return [(self.x.at(a), self.y.at(b)) for a, b in zip(across, up, strict=True)]

    def chart(self, lines: list[Line], **words: Any) -> Chart:
        return Chart(x_ticks=self.x.ticks(), y_ticks=self.y.ticks(), lines=lines, **words)


def search_chart(search: SearchSummary) -> Chart | None:
    """Held-out score against strength, with its error band; None with nothing to draw."""
    curves = [curve for curve in search.curves if len(curve.alphas) > 1 and np.isfinite(curve.mean).all()]
    if not curves:
        return None
    alphas = np.concatenate([curve.alphas for curve in curves])
    errors = [np.nan_to_num(curve.error, posinf=0.0) for curve in curves]
    means = [np.asarray(curve.mean) for curve in curves]
    spans = [part for mean, error in zip(means, errors, strict=True) for part in (mean - error, mean + error)]
    plane = _Plane.around(alphas, _without_far_below(np.concatenate(spans), means), log_x=True)
    styled = len(curves) <= MOST_STYLES

    def places(alphas: list[float], scores: np.ndarray) -> list[tuple[float, float]]:
        return plane.places(alphas, np.clip(scores, plane.y.low, None))

    lines = []
    for i, (curve, mean, error) in enumerate(zip(curves, means, errors, strict=True)):
        line, band = places(curve.alphas, mean), ""
        points = [] if curve.chosen is None else [line[curve.chosen]]
        if points and styled:
            above = places(curve.alphas, np.minimum(mean + error, plane.y.high))
            band = _path([*above, *places(curve.alphas, mean - error)[::-1]]) + "Z"
        lines.append(Line(f"s{i}" if styled else "many", _path(line), band, points))
    lines.sort(key=lambda one: bool(one.points))  # what was chosen is drawn on top
    chosen = next((curve for curve in curves if curve.chosen is not None), curves[0])
    at = "" if chosen.chosen is None else f" Chosen: alpha = {number(chosen.alphas[chosen.chosen])}."
    who = f"{len(curves)} tasks" if not styled else ", ".join(curve.label for curve in curves)
    return plane.chart(
        lines,
        alt=f"Held-out score against the strength alpha, for {who}.{at}",
        x_label="strength alpha (logarithmic)",
        y_label="held-out score",
        legend=[(f"s{i}", curve.label) for i, curve in enumerate(curves)] if styled else [],
    )


def _without_far_below(values: np.ndarray, means: list[np.ndarray]) -> np.ndarray:
    """Scores, clipped far below the best: an overfitted end of a path must not flatten the picture."""
    every = np.concatenate(means)
    best, middle = every.max(), np.median(every)
    floor = best - 4 * (best - middle) if best > middle else values.min()
    return np.maximum(values, floor)


def history_chart(history: list[float]) -> Chart | None:
    """How far the objective was above its last value after each pass; None with fewer than two such passes.

    Passes that had reached the last value, but for rounding, are not drawn.
    """
    left = above_last(np.asarray(history, dtype=float))
    kept = left > 0
    if np.count_nonzero(kept) < 2 or not np.isfinite(history).all():
        return None
    passes = np.arange(1, len(left) + 1)[kept]
    plane = _Plane.around(passes.astype(float), left[kept], log_y=True)
    places = plane.places(passes, left[kept])
    chart = plane.chart(
        [Line("s0", _path(places), points=places if len(places) <= 40 else [])],
        alt=f"Objective above its last value after each of {len(left)} passes: from {number(left[0])} down "
        f"to {number(left[kept][-1])}.",
        x_label="pass over the data",
        y_label="objective above its last value",
    )
    return replace(chart, x_ticks=[tick for tick in chart.x_ticks if "." not in tick.label])


def reliability_chart(curve: dict[str, np.ndarray]) -> Chart:
    """How often held-out rows are of the second class, by the probability they were given."""
    ends = np.array([0.0, 1.0])
    plane = _Plane.around(ends, ends)
    lines = [Line("s4", _path(plane.places(ends, ends)))]
    places = plane.places(curve["probability"].tolist(), curve["share"].tolist())
    lines.append(Line("s0", _path(places), points=places))
    return plane.chart(
        lines,
        alt=f"Share of the second class by its probability, in {len(curve['share'])} bins of held-out rows.",
        x_label="probability of the second class",
        y_label="share of the second class",
        legend=[("s0", "as predicted"), ("s4", "exactly right")],
    )


def effect_chart(effect: CurvedEffect) -> Chart:
    """A curve for each task, and the one that they have in common."""
    plane = _Plane.around(effect.at, np.append(effect.by_task, effect.common))
    n_tasks = len(effect.by_task)
    styled = 1 < n_tasks < MOST_STYLES

    def line(style: str, values: np.ndarray) -> Line:
        return Line(style, _path(plane.places(effect.at, values)))

    styles = [f"s{t + 1}" if styled else "many" for t in range(n_tasks)]
    lines = [line(style, values) for style, values in zip(styles, effect.by_task, strict=True)]
    legend = list(zip(styles, effect.tasks, strict=True)) if styled else [("many", "one task each")]
    return plane.chart(
        [*lines, line("s0", effect.common)],
        alt=f"Effect of {effect.name} in {n_tasks} tasks, against its values.",
        x_label=effect.name,
        y_label="effect beside the median",
        legend=[("s0", effect.common_name), *(legend if n_tasks > 1 else [])],
    )


@dataclass(frozen=True)
class Cell:
    """One pair of strengths: its place, its shade from 0 to 9, and what it says."""

    x: float
    y: float
    shade: int
    title: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class Grid(Frame):
    """Scores of pairs of strengths as shaded cells."""

    cells: list[Cell]
    cell_width: float
    cell_height: float


def grid_chart(grid: SearchGrid) -> Grid:
    """Held-out score of every pair of strengths that was tried: the darker, the better."""
    mean = np.asarray(grid.mean, dtype=float)
    (n, m), n_tried = mean.shape, int(np.count_nonzero(~np.isnan(mean)))
    # ranks, because one bad corner would make all the others look alike; those without a score come last
    rank = np.argsort(np.argsort(-mean, axis=None, kind="stable")).reshape(n, m) / max(n_tried - 1, 1)
    width, height = (WIDTH - RIGHT - LEFT) / n, (HEIGHT - BOTTOM - TOP) / m
    first, second = grid.names

    def name(i: int, j: int) -> str:
        return f"{first} = {number(grid.first[i])}, {second} = {number(grid.second[j])}"

    cells = [
        Cell(
            x=round(LEFT + (n - 1 - i) * width, 2),  # strengths fall: the smallest stands left
            y=round(TOP + j * height, 2),
            shade=9 - math.ceil(rank[i, j] * 9),
            title=f"{name(i, j)}: {number(mean[i, j])}",
            is_chosen=(i, j) == tuple(grid.chosen),
        )
        for i, j in np.argwhere(~np.isnan(mean)).tolist()
    ]
    across, down = (range(0, size, max(1, math.ceil(size / 5))) for size in (n, m))
    return Grid(
        alt=f"Held-out score of {n_tried} pairs of strengths. Best: {name(*grid.chosen)}.",
        x_label=first,
        y_label=second,
        x_ticks=[Tick(round(LEFT + (n - 0.5 - i) * width, 2), number(grid.first[i], 2)) for i in across],
        y_ticks=[Tick(round(TOP + (j + 0.5) * height, 2), number(grid.second[j], 2)) for j in down],
        cells=cells,
        cell_width=round(width, 2),
        cell_height=round(height, 2),
    )


def _path(places: list[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in places)


# -- effects that are curves: splines of columns -------------------------------------------------------------


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
    >>> from mmtfl.report.charts import curved_effects
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
