"""Axes to draw on, and colours that colour-blind readers tell apart, each with its line style."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.errors import require

# Okabe and Ito's palette without yellow and sky blue, which are too pale for lines on white
BLUE, VERMILLION, GREEN, ORANGE, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE)
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
GREY = "#9A9A9A"


def axes_for(ax: Any, figsize: tuple[float, float]) -> Any:
    """The caller's axes, or those of a new figure."""
    if ax is not None:
        return ax
    plt = require("matplotlib.pyplot", "plots")
    return plt.subplots(figsize=figsize, layout="constrained")[1]


def panels_for(
    ax: Any, shape: tuple[int, int], figsize: tuple[float, float], *, heights: list[float] | None = None
) -> np.ndarray:
    """A grid of axes in a new figure, or in the place of the caller's axes, which are then hidden."""
    if ax is None:
        figure = require("matplotlib.pyplot", "plots").figure(figsize=figsize, layout="constrained")
        return figure.subplots(*shape, squeeze=False, height_ratios=heights)
    ax.set_axis_off()
    place = ax.get_subplotspec()
    if place is not None:
        grid = place.subgridspec(*shape, height_ratios=heights)
    else:
        box = ax.get_position()
        edges = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
        grid = ax.figure.add_gridspec(*shape, height_ratios=heights, **edges)
    return grid.subplots(squeeze=False)


def whole_numbers(most: int = 9) -> Any:
    """A locator that puts ticks at whole numbers only."""
    ticker = require("matplotlib.ticker", "plots")
    return ticker.MaxNLocator(nbins=most, integer=True, min_n_ticks=1)


@dataclass(frozen=True)
class Style:
    """How one curve is drawn: no two of the first ten share both colour and line style."""

    colour: str
    line: Any

    @classmethod
    def of(cls, i: int) -> Style:
        """The style of the i-th curve; the second round of colours has other line styles."""
        n = len(COLOURS)
        return cls(COLOURS[i % n], LINES[(i + i // n) % n])


def ink() -> str:
    """The colour of axes and text in the reader's matplotlib style, dark or light."""
    return require("matplotlib", "plots").rcParams["axes.edgecolor"]


def sharing_colours() -> Any:
    """The colour map of the sharing map: orange below zero, purple above, without the palest middle.

    Exact zeros are drawn in white, so that a small coefficient still shows as used.
    """
    whole = require("matplotlib", "plots").colormaps["PuOr"]
    colours = require("matplotlib.colors", "plots")
    places = np.concatenate([np.linspace(0.0, 0.42, 128), np.linspace(0.58, 1.0, 128)])
    return colours.ListedColormap(whole(places), name="sharing").with_extremes(bad="white")
