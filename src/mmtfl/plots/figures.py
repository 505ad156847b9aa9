"""What the pictures share: a fitted model as arrays, axes, colours and labels.

Colour-blind readers tell the colours apart. Labels are plain text of bounded length that does not overlap.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Self

import narwhals as nw
import numpy as np
from sklearn.utils.validation import check_is_fitted

from mmtfl.errors import require
from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.feature_use import KINDS, feature_use

# Okabe and Ito's palette without yellow and sky blue, which are too pale for lines on white
BLUE, VERMILLION, GREEN, ORANGE, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7"
COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE)
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
GREY = "#9A9A9A"
SMALL = 8  # points: the least that reads well in print
POINTS = 72.0  # of an inch
_LETTER = 0.62 * SMALL  # width of a character in points
# the sides of a point on which its label may stand
_SIDES = (
    (1, 0, "left", "center"),
    (-1, 0, "right", "center"),
    (0, 1, "center", "bottom"),
    (0, -1, "center", "top"),
)
_SIZES = {"c": "c, the part common to all tasks", "size": "size of the coefficients (sum over tasks)"}


# -- a fitted model ------------------------------------------------------------------------------------------


class Learned:
    """A fitted model as arrays; a search is read through the model it chose.

    Attributes
    ----------
    A : ndarray of shape (n_features, n_tasks)
        Coefficients.
    features, tasks : ndarray
        Names of the features, labels of the tasks.
    counts : ndarray of shape (n_tasks,)
        Which tasks count as users of a feature: all but those that the model sets apart.
    n_using : ndarray of shape (n_features,)
        How many of these tasks use each feature.
    kind : ndarray of shape (n_features,)
        Position of each feature's kind in the KINDS of the summary.
    size : ndarray of shape (n_features,)
        How large each feature is, as the model's summary has it; of two parts, the sum.
    size_label : str
        What the size is, in words.
    """

    def __init__(self, model: Any):
        model = fitted(model)
        use, sizes = feature_use(model), model._sizes()
        self.A, self.tasks = model.coef_.T, model.tasks_
        self.features = np.array(model._feature_names(), dtype=object)
        self.counts, self.n_using = model._counted(), use.n_tasks
        self.kind = np.array([KINDS.index(word) for word in use.kind.tolist()])
        self.size = np.sum(list(sizes.values()), axis=0)
        self.size_label = _SIZES.get(" + ".join(sizes), f"size of the {' + '.join(sizes)} parts")
        if "c" in sizes and getattr(model, "best_k_", getattr(model, "k", None)) == np.inf:
            # tasks are fitted apart, and c is one for every feature that is kept
            self.size = np.linalg.norm(model.coef_, axis=0)
            self.size_label = "size of the coefficients (norm over tasks)"

    @property
    def uses(self) -> np.ndarray:
        """Which feature is used by which task, (n_features, n_tasks)."""
        return self.A != 0.0


def fitted(model: Any) -> TaskModel:
    """The fitted model of mmtfl in a search, or the model itself; anything else is refused."""
    inner = model
    while not isinstance(inner, TaskModel) and hasattr(inner, "best_estimator_"):
        inner = inner.best_estimator_
    if not isinstance(inner, TaskModel):
        if hasattr(inner, "estimator"):
            check_is_fitted(inner)
        raise TypeError(
            f"{type(model).__name__} is not a model of mmtfl: pass an MMTFL, Dirty, Robust, LowRank, Capped "
            "or SingleTask model, fitted (of a pipeline, its last step: pipeline[-1])."
        )
    check_is_fitted(inner)
    return inner


def columns_of(frame: Any) -> dict[str, np.ndarray]:
    """The columns of a frame of any library as arrays."""
    return {
        column.name: column.to_numpy() for column in nw.from_native(frame, eager_only=True).iter_columns()
    }


# -- displays ------------------------------------------------------------------------------------------------


class Display:
    """A picture in one pair of axes: a kind of display says how large it is, and how it is drawn.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.
    """

    ax_: Any
    figure_: Any
    _draw: Callable[[], None]
    _size: Any = 6.0, 4.0  # width and height of a new figure, in inches

    def plot(self, ax: Any = None) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw, split where there are several panels; None makes a figure.

        Returns
        -------
        self : display
            Drawn.
        """
        if ax is None:
            pyplot = require("matplotlib.pyplot", "plots")
            ax = pyplot.subplots(figsize=self._size, layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        self._draw()
        return self


# -- axes and colours ----------------------------------------------------------------------------------------


def whole_numbers(most: int = 9) -> Any:
    """A locator that puts ticks at whole numbers only."""
    ticker = require("matplotlib.ticker", "plots")
    return ticker.MaxNLocator(nbins=most, integer=True, min_n_ticks=1)


def ratio_axis(axis: Any, low: float, high: float) -> None:
    """Ticks of an axis of ratios, on a logarithmic scale: 0.5, 1 and 2 instead of powers of ten."""
    ticker = require("matplotlib.ticker", "plots")
    wide = high > 4.0 * low
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)) if wide else ticker.MaxNLocator(6))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:.3g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def line_style(i: int) -> dict[str, Any]:
    """How the i-th curve is drawn: no two of the first ten share both colour and line style."""
    n = len(COLOURS)
    return {"color": COLOURS[i % n], "linestyle": LINES[(i + i // n) % n]}


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


# -- text ----------------------------------------------------------------------------------------------------


PLAIN = {"parse_math": False, "usetex": False}  # texts are drawn as they are: "$x" is no formula


def shown(name: Any, width: int = 24) -> str:
    """A name on one line of at most `width` characters, cut in the middle, where names differ least."""
    text = " ".join(str(name).split())
    text = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    if len(text) <= width:
        return text
    end = (width - 1) // 3
    return f"{text[: width - 1 - end]}\N{HORIZONTAL ELLIPSIS}{text[-end:] if end else ''}"


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
    ax.set_yticks(at, texts, fontsize=SMALL, **PLAIN)


def upright_length(names: np.ndarray, room: float) -> float:
    """Points that names of columns take when upright; zero where they fit side by side."""
    longest = max((len(shown(name, 16)) for name in names), default=0)
    return 0.0 if len(names) * (longest + 2) * _LETTER < room else longest * _LETTER


def name_columns(ax: Any, names: np.ndarray, room: float) -> None:
    """Label the columns of an image: flat where the names fit, else upright."""
    texts = [shown(name, 16) for name in names]
    upright = upright_length(names, room) > 0.0
    at = _thinned(len(texts), room) if upright else np.arange(len(texts))
    rotation = 90 if upright else 0
    ax.set_xticks(at, [texts[t] for t in at], rotation=rotation, fontsize=SMALL, **PLAIN)


def note(ax: Any, lines: Iterable[str]) -> None:
    """Write lines above the axes, at the left."""
    text = "\n".join(lines)
    ax.set_title(text, loc="left", fontsize=SMALL + 1, **PLAIN)


def legend(ax: Any, entries: Sequence[tuple[Any, str]], **options: Any) -> Any:
    """Draw a legend at the right of the axes for pairs of artist and name, names as plain text."""
    handles = [handle for handle, _ in entries]
    looks = {"fontsize": SMALL, "title_fontsize": SMALL, "frameon": False, "borderaxespad": 0.2}
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    # matplotlib leaves out what it takes for a private label, such as "_x": names come in afterwards
    made = ax.legend(handles, [str(i) for i in range(len(handles))], **{**looks, **place, **options})
    for text, (_, name) in zip(made.get_texts(), entries, strict=True):
        text.set(text=name, **PLAIN)
    return made


# -- names beside points -------------------------------------------------------------------------------------


def label_points(
    ax: Any, points: np.ndarray, names: Sequence[Any], chosen: Sequence[int], *, width: int = 24
) -> list[Any]:
    """Name the chosen ones of points (n, 2), in the order given; those without a free place have no name."""
    ax.figure.draw_without_rendering()  # where things are is known once the layout has run
    inside, dots = ax.get_window_extent(), ax.transData.transform(points)
    made: list[Any] = []
    taken: dict[int, Any] = {}
    for j, (right, up, ha, va) in product(chosen, _SIDES):
        if j in taken:
            continue
        at = {"xytext": (5.0 * right, 5.0 * up), "textcoords": "offset points", "ha": ha, "va": va}
        text = ax.annotate(shown(names[j], width), points[j], fontsize=SMALL, **at, **PLAIN)
        text.set_in_layout(False)
        box = text.get_window_extent().padded(2.0)
        fits = np.all(box.min >= inside.min) and np.all(box.max <= inside.max)
        in_the_way = np.any(np.all((dots >= box.min) & (dots <= box.max), axis=1))
        if fits and not in_the_way and not any(map(box.overlaps, taken.values())):
            taken[j] = box
            made.append(text)
        else:
            text.remove()
    return made
