"""Names of features and tasks as they are drawn: plain text of a bounded length, as many as fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mmtfl.plots.fonts import drawable, families

SMALL = 8  # points: the least that reads well in print
POINTS = 72.0  # of an inch
_LETTER = 0.62 * SMALL  # width of a letter in points


def plain(*texts: str) -> dict[str, Any]:
    """Options of texts that are drawn as they are: "$x" is no formula, and every letter has its font."""
    return {"parse_math": False, "usetex": False, "family": families("".join(texts))}


def shown(name: Any, width: int = 24) -> str:
    """Make a name one line of at most `width` characters, cut in the middle, where names differ least."""
    text = " ".join(str(name).split())
    letters = [drawable(letter) if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text]
    if sum(map(len, letters)) <= width:
        return "".join(letters)
    end = (width - 1) // 3
    return f"{_fitting(letters, width - 1 - end)}\N{HORIZONTAL ELLIPSIS}{_fitting(letters[::-1], end, -1)}"


def _fitting(letters: list[str], width: int, step: int = 1) -> str:
    """The first letters that fit, written forwards or backwards; a number of a letter is not cut."""
    taken: list[str] = []
    for letter in letters:
        width -= len(letter)
        if width < 0:
            break
        taken.append(letter)
    return "".join(taken[::step])


def task_name(label: Any, width: int = 24) -> str:
    """The label of a task as a title: a number alone says nothing."""
    return shown(label if isinstance(label, str) else f"task {label}", width)


def thinned(n: int, room: float, *, line: float = 1.25 * SMALL) -> np.ndarray:
    """Positions of the labels that fit: all n, or every m-th, in `room` points at `line` points each."""
    fit = max(int(room / line), 1)
    return np.arange(0, n, max(-(-n // fit), 1))


def axes_points(ax: Any) -> tuple[float, float]:
    """Width and height of the axes in points, as they are before the layout gives room to labels."""
    box = ax.get_window_extent()
    return box.width * POINTS / ax.figure.dpi, box.height * POINTS / ax.figure.dpi


def name_width(ax: Any) -> int:
    """Letters that a name beside the axes may have: fewer beside small axes."""
    return int(np.clip(axes_points(ax)[0] / POINTS * 6.0, 8, 24))


def name_rows(ax: Any, names: np.ndarray, room: float, *, width: int = 24) -> None:
    """Label the rows of an image, one name every few rows where not all fit."""
    at = thinned(len(names), room)
    texts = [shown(names[j], width) for j in at]
    ax.set_yticks(at, texts, fontsize=SMALL, **plain(*texts))


def upright_length(names: np.ndarray, room: float, *, width: int = 16) -> float:
    """Points that names of columns take when upright; zero where they fit side by side."""
    longest = max((len(shown(name, width)) for name in names), default=0)
    flat = len(names) * (longest + 2) * _LETTER < room
    return 0.0 if flat else longest * _LETTER


def name_columns(ax: Any, names: np.ndarray, room: float, *, width: int = 16) -> None:
    """Label the columns of an image: flat where they fit, else upright."""
    texts = [shown(name, width) for name in names]
    flat = not upright_length(names, room, width=width)
    at = np.arange(len(texts)) if flat else thinned(len(texts), room)
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
