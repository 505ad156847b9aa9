"""The displays of `mmtfl.plots` as pictures of the page: SVG in an `img`, in which no script can run."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.estimators.fitted_curves import shapes
from mmtfl.plots import CurveDisplay, HistoryDisplay, SearchDisplay
from mmtfl.plots.figures import columns_of
from mmtfl.plots.search_display import above_last, search_curves

WIDE = 6.4, 3.4  # inches
MOST_CURVES = 12  # effects that are drawn
STYLE = {
    "svg.fonttype": "none",  # text stays text, in the fonts of the reader
    "svg.hashsalt": "mmtfl",  # the same picture has the same bytes
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Picture:
    """An image as a data URL, and a sentence that says what it shows."""

    source: str
    alt: str


def picture(draw: Callable[[Any], Any], alt: str, *, size: tuple[float, float] = WIDE) -> Picture:
    """Call `draw` with new axes, and keep what it drew as SVG."""
    with require("matplotlib.style", "plots").context(["default", STYLE]):
        figure = require("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")
        file = io.StringIO()
        # a character that matplotlib's fonts lack is drawn by the browser
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            draw(figure.add_subplot())
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue().encode("utf-8", errors="replace")
    return Picture(f"data:image/svg+xml;base64,{base64.b64encode(text).decode('ascii')}", alt)


def _draw(display: Any, model: Any, ax: Any) -> None:
    display.from_estimator(model, ax=ax)


def search_picture(model: Any) -> Picture | None:
    """Held-out score against the strength; None without a search, or with one strength."""
    if not getattr(model, "cv_results_", None):
        return None
    if all(len(curve.strength) < 2 for curve in search_curves(model)[0]):
        return None
    draw = partial(_draw, SearchDisplay, model)
    return picture(draw, "Held-out score against the strength of the penalty.")


def history_picture(model: Any) -> Picture | None:
    """The objective above its last value after each pass; None with fewer than two passes above it."""
    history = np.asarray(model._fitted().history_, dtype=float)
    if not np.isfinite(history).all() or np.count_nonzero(above_last(history)) < 2:
        return None
    draw = partial(_draw, HistoryDisplay, model._fitted())
    return picture(draw, f"Objective above its last value after each of {len(history)} passes.")


@dataclass(frozen=True)
class Curve:
    """The effect of a feature that is a curve: large for its card, and a line that stands beside its name."""

    name: str
    picture: Picture
    line: str


def curve_pictures(model: Any, effects: Any) -> list[Curve]:
    """The first effects of features that are curves, in the order of the table of effects."""
    if getattr(model, "curves_", None) is None:
        return []
    kinds = zip(model._feature_names(), shapes(model)[0], strict=True)
    curved = [name for name, kind in kinds if kind == "curve"]
    if effects is not None:
        order = {row["feature"]: i for i, row in enumerate(effects.rows)}
        curved.sort(key=lambda name: order.get(name, len(order)))
    return [_curve(model, name) for name in curved[:MOST_CURVES]]


def _curve(model: Any, name: str) -> Curve:
    def draw(ax: Any) -> None:
        CurveDisplay.from_estimator(model, name, ax=ax)

    effect = columns_of(model.curve(name))["effect"]
    size = float(np.ptp(effect)) or 1.0
    places = zip(np.linspace(1, 47, len(effect)), 14 - 12 * (effect - effect.min()) / size, strict=True)
    line = "M" + "L".join(f"{x:.0f} {y:.1f}" for x, y in places)
    return Curve(name, picture(draw, f"Effect of {name} against its values, a curve.", size=(4.4, 2.8)), line)


def calibration_picture(curve: dict[str, np.ndarray]) -> Picture:
    """How often held-out rows are of the second class, by the probability they were given."""
    display = require("sklearn.calibration", "plots").CalibrationDisplay

    def draw(ax: Any) -> None:
        display(curve["share"], curve["probability"], curve["probability"]).plot(ax=ax, name="as predicted")
        ax.set(xlabel="probability of the second class", ylabel="share of the second class")

    bins = len(curve["share"])
    return picture(draw, f"Share of the second class by its probability, in {bins} bins of held-out rows.")
