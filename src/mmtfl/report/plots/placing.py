"""Labels beside points, none on top of another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mmtfl.report.plots.text import PLAIN, SMALL, shown

_GAP = 5.0  # points between a point and its label
# the side of the point on which a label stands: right, left, above, below
_SIDES = (
    (_GAP, 0.0, "left", "center"),
    (-_GAP, 0.0, "right", "center"),
    (0.0, _GAP, "center", "bottom"),
    (0.0, -_GAP, "center", "top"),
)


def label_points(ax: Any, points: Iterable[tuple[float, float, Any]], *, width: int = 24) -> list[Any]:
    """Name points (x, y, name), the first ones first; a name without a free place beside is left out."""
    ax.figure.draw_without_rendering()  # where things are is known once the layout has run
    inside = ax.get_window_extent()
    taken: list[Any] = []
    made: list[Any] = []
    for x, y, name in points:
        for dx, dy, ha, va in _SIDES:
            text = ax.annotate(
                shown(name, width),
                (x, y),
                (dx, dy),
                textcoords="offset points",
                ha=ha,
                va=va,
                fontsize=SMALL,
                **PLAIN,
            )
            text.set_in_layout(False)
            box = text.get_window_extent()
            fits = box.x0 >= inside.x0 and box.x1 <= inside.x1 and box.y0 >= inside.y0 and box.y1 <= inside.y1
            if fits and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                made.append(text)
                break
            text.remove()
    return made
