"""Labels of the pictures: plain text of bounded length, in fonts that have it, without overlaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import product
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.plots.figures import ink

SMALL = 8  # points: the least that reads well in print
POINTS = 72.0  # of an inch
_LETTER = 0.62 * SMALL  # width of a character in points
# fonts of boxes, and fonts whose characters are not where Unicode has them
_NOT_FOR_TEXT = ("Last Resort", "STIXNonUnicode", "STIXSize", "cm")
_GAPS = (5.0, 16.0)  # points between a point and its label; at the second, a line joins them
# the sides of a point on which its label may stand: right, left, above, below, then the diagonals
_SIDES = (
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
    (1, 1, "left", "bottom"),
    (-1, 1, "right", "bottom"),
    (1, -1, "left", "top"),
    (-1, -1, "right", "top"),
)


# -- text ----------------------------------------------------------------------------------------------------


def plain(*texts: str) -> dict[str, Any]:
    """Options that draw texts as they are: "$x" is no formula, and every character has a font."""
    return {"parse_math": False, "usetex": False, "family": font_families("".join(texts))}


def shown(name: Any, width: int = 24) -> str:
    """A name on one line of at most `width` characters, cut in the middle, where names differ least."""
    text = " ".join(str(name).split())
    letters = [_drawable(letter) if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text]
    if sum(map(len, letters)) <= width:
        return "".join(letters)
    end = (width - 1) // 3
    return f"{_fitting(letters, width - 1 - end)}\N{HORIZONTAL ELLIPSIS}{_fitting(letters[::-1], end, -1)}"


def _fitting(letters: list[str], width: int, step: int = 1) -> str:
    """The first characters that fit, written forwards or backwards; an escaped character is not cut."""
    ends = np.cumsum([len(letter) for letter in letters])
    return "".join(letters[: int(np.searchsorted(ends, width, side="right"))][::step])


def task_name(label: Any, width: int = 24) -> str:
    """The label of a task as a title: "task 3" where the label is a number."""
    return shown(label if isinstance(label, str) else f"task {label}", width)


# -- names of axes, rows and columns -------------------------------------------------------------------------


def axes_points(ax: Any) -> tuple[float, float]:
    """Width and height of the axes in points, as they are before the layout gives room to labels."""
    box = ax.get_window_extent()
    return box.width * POINTS / ax.figure.dpi, box.height * POINTS / ax.figure.dpi


def name_width(ax: Any) -> int:
    """Characters that a name beside the axes may have: fewer beside small axes."""
    return int(np.clip(axes_points(ax)[0] / POINTS * 6.0, 8, 24))


def _thinned(n: int, room: float) -> np.ndarray:
    """Positions of the labels that fit into `room` points: all n, or every m-th."""
    fit = max(int(room / (1.25 * SMALL)), 1)
    return np.arange(0, n, max(-(-n // fit), 1))


def name_rows(ax: Any, names: np.ndarray, room: float, *, width: int = 24) -> None:
    """Label the rows of an image, one name every few rows where not all fit."""
    at = _thinned(len(names), room)
    texts = [shown(names[j], width) for j in at]
    ax.set_yticks(at, texts, fontsize=SMALL, **plain(*texts))


def upright_length(names: np.ndarray, room: float, *, width: int = 16) -> float:
    """Points that names of columns take when upright; zero where they fit side by side."""
    longest = max((len(shown(name, width)) for name in names), default=0)
    flat = len(names) * (longest + 2) * _LETTER < room
    return 0.0 if flat else longest * _LETTER


def name_columns(ax: Any, names: np.ndarray, room: float, *, width: int = 16) -> None:
    """Label the columns of an image: flat where the names fit, else upright."""
    texts = [shown(name, width) for name in names]
    flat = not upright_length(names, room, width=width)
    at = np.arange(len(texts)) if flat else _thinned(len(texts), room)
    rotation = 0 if flat else 90
    ax.set_xticks(at, [texts[t] for t in at], rotation=rotation, fontsize=SMALL, **plain(*texts))


def note(ax: Any, lines: Iterable[str]) -> None:
    """Write lines above the axes, at the left."""
    text = "\n".join(lines)
    ax.set_title(text, loc="left", fontsize=SMALL + 1, **plain(text))


def legend(ax: Any, entries: Sequence[tuple[Any, str]], **options: Any) -> Any:
    """Draw a legend at the right of the axes for pairs of artist and name, names as plain text."""
    handles = [handle for handle, _ in entries]
    looks = {"fontsize": SMALL, "title_fontsize": SMALL, "frameon": False, "borderaxespad": 0.2}
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    # matplotlib leaves out what it takes for a private label, such as "_x": names come in afterwards
    made = ax.legend(handles, [str(i) for i in range(len(handles))], **{**looks, **place, **options})
    for text, (_, name) in zip(made.get_texts(), entries, strict=True):
        text.set(text=name, **plain(name))
    return made


# -- names beside points -------------------------------------------------------------------------------------


def label_points(
    ax: Any, points: np.ndarray, names: Sequence[Any], chosen: Sequence[int], *, width: int = 24
) -> list[Any]:
    """Name the chosen ones of points (n, 2), in the order given, where no name or point is in the way.

    A name without a free place beside its point is left out.
    """
    ax.figure.draw_without_rendering()  # where things are is known once the layout has run
    inside = ax.get_window_extent()
    dots, scale = ax.transData.transform(points), ax.figure.dpi / POINTS
    obstacles = dots
    taken: list[Any] = []
    made: list[Any] = []
    for j in chosen:
        name = shown(names[j], width)
        for gap, (right, up, ha, va) in product(_GAPS, _SIDES):
            offset = {"xytext": (gap * right, gap * up), "textcoords": "offset points"}
            text = ax.annotate(name, points[j], **offset, ha=ha, va=va, fontsize=SMALL, **plain(name))
            text.set_in_layout(False)
            box = text.get_window_extent().padded(2.0)
            fits = box.x0 >= inside.x0 and box.x1 <= inside.x1 and box.y0 >= inside.y0 and box.y1 <= inside.y1
            step = scale * gap * np.array([right, up])
            line = dots[j] + np.linspace(0.3, 1.0, 8)[:, None] * step if gap > _GAPS[0] else dots[:0]
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


# -- fonts ---------------------------------------------------------------------------------------------------


def _drawable(letter: str) -> str:
    r"""A character, or its number such as ``\u4e2d`` where no installed font can draw it."""
    if ord(letter) < 128 or _in_usual_fonts(letter) or _other_font(letter) is not None:
        return letter
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"


def font_families(text: str) -> list[str]:
    """Font families for a text: the usual ones, then installed ones that have the other characters."""
    others = (_other_font(letter) for letter in text if ord(letter) >= 128 and not _in_usual_fonts(letter))
    return [*_usual_families(), *dict.fromkeys(name for name in others if name is not None)]


def _usual_families() -> list[str]:
    return list(require("matplotlib", "plots").rcParams["font.family"])


def _in_usual_fonts(letter: str) -> bool:
    manager = require("matplotlib.font_manager", "plots")
    wanted = manager.FontProperties(family=_usual_families())
    return ord(letter) in _characters_of(manager.findfont(wanted))


@lru_cache(maxsize=4096)
def _other_font(letter: str) -> str | None:
    """The first installed font that has a character, plain styles first."""
    manager = require("matplotlib.font_manager", "plots")
    entries = [entry for entry in manager.fontManager.ttflist if not entry.name.startswith(_NOT_FOR_TEXT)]
    entries.sort(key=lambda entry: (entry.style != "normal", entry.weight != 400, entry.name))
    return next((entry.name for entry in entries if ord(letter) in _characters_of(entry.fname)), None)


@cache
def _characters_of(path: str) -> Any:
    """Unicode numbers of the characters that a font file has; none if the font cannot be scaled."""
    font = require("matplotlib.ft2font", "plots")
    try:
        found = font.FT2Font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(found.get_charmap()) if found.scalable else frozenset()
