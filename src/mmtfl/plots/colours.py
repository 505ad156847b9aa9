"""Colours that colour-blind readers tell apart, each with a line style for print in grey."""

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
UNUSED = "white"


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
    """The colour of axes and text in the reader's own style, dark or light."""
    return require("matplotlib", "plots").rcParams["axes.edgecolor"]


def sharing_colours() -> Any:
    """Orange below zero, purple above, without the palest middle.

    Exact zeros are drawn in white, so that a small coefficient still shows as used.
    """
    whole = require("matplotlib", "plots").colormaps["PuOr"]
    colours = require("matplotlib.colors", "plots")
    places = np.concatenate([np.linspace(0.0, 0.42, 128), np.linspace(0.58, 1.0, 128)])
    return colours.ListedColormap(whole(places), name="sharing").with_extremes(bad=UNUSED)
