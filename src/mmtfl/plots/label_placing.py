"""Labels beside points, none on top of another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from mmtfl.plots.colours import ink
from mmtfl.plots.label_text import POINTS, SMALL, plain, shown

_GAPS = (5.0, 16.0)  # points between a point and its label; from the second on, a line joins them
# the side of the point on which a label stands: right, left, above, below
_SIDES = (
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
)
_DIAGONALS = (
    (1, 1, "left", "bottom"),
    (-1, 1, "right", "bottom"),
    (1, -1, "left", "top"),
    (-1, -1, "right", "top"),
)


def label_points(
    ax: Any, points: np.ndarray, names: Sequence[Any], chosen: Sequence[int], *, width: int = 24
) -> list[Any]:
    """Name the chosen ones of points (n, 2), the first ones first, where no name or point is in the way.

    A name without a free place beside its point is left out.
    """
    ax.figure.draw_without_rendering()  # where things are is known once the layout has run
    inside = ax.get_window_extent()
    dots, scale = ax.transData.transform(points), ax.figure.dpi / POINTS
    obstacles = dots
    taken: list[Any] = []
    made: list[Any] = []
    for j in chosen:
        for gap, (right, up, ha, va) in product(_GAPS, (*_SIDES, *_DIAGONALS)):
            offset = {"xytext": (gap * right, gap * up), "textcoords": "offset points"}
            name = shown(names[j], width)
            text = ax.annotate(name, points[j], **offset, ha=ha, va=va, fontsize=SMALL, **plain(name))
            text.set_in_layout(False)
            box = text.get_window_extent().padded(2.0)
            fits = box.x0 >= inside.x0 and box.x1 <= inside.x1 and box.y0 >= inside.y0 and box.y1 <= inside.y1
            end = dots[j] + scale * gap * np.array([right, up])
            line = (
                dots[j] + np.linspace(0.3, 1.0, 8)[:, None] * (end - dots[j]) if gap > _GAPS[0] else dots[:0]
            )
            crossed = any(box.overlaps(other) or np.any(_within(line, other)) for other in taken)
            if fits and not crossed and not np.any(_within(obstacles, box)):
                taken.append(box)
                made.append(text)
                obstacles = np.vstack([obstacles, line])
                if len(line):
                    look = {"arrowstyle": "-", "linewidth": 0.5, "color": ink(), "shrinkA": 0, "shrinkB": 2}
                    ax.annotate("", points[j], **offset, arrowprops=look).set_in_layout(False)
                break
            text.remove()
    return made


def _within(dots: np.ndarray, box: Any) -> np.ndarray:
    """Which of some points, in pixels, are in a box."""
    x, y = dots.T
    return (x >= box.x0) & (x <= box.x1) & (y >= box.y0) & (y <= box.y1)
