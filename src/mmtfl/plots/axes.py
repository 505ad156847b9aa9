"""Axes to draw on: the caller's, or those of a new figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmtfl.errors import require


def axes_for(ax: Any, figsize: tuple[float, float]) -> Any:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    plt = require("matplotlib.pyplot", "plots")
    return plt.subplots(figsize=figsize, layout="constrained")[1]


def panels_for(
    ax: Any, shape: tuple[int, int], figsize: tuple[float, float], *, heights: list[float] | None = None
) -> np.ndarray:
    """A grid of axes in a new figure, or in the place of the axes given, which are then hidden."""
    n_rows, n_columns = shape
    if ax is None:
        plt = require("matplotlib.pyplot", "plots")
        ratios = {"height_ratios": heights}
        return plt.subplots(
            n_rows, n_columns, figsize=figsize, squeeze=False, layout="constrained", gridspec_kw=ratios
        )[1]
    ax.set_axis_off()
    place = ax.get_subplotspec()
    if place is not None:
        grid = place.subgridspec(n_rows, n_columns, height_ratios=heights)
    else:
        box = ax.get_position()
        edges = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
        grid = ax.figure.add_gridspec(n_rows, n_columns, height_ratios=heights, **edges)
    return grid.subplots(squeeze=False)


def whole_numbers(most: int = 9) -> Any:
    """Ticks at whole numbers only."""
    ticker = require("matplotlib.ticker", "plots")
    return ticker.MaxNLocator(nbins=most, integer=True, min_n_ticks=1)
