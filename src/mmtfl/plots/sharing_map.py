"""What tasks share: the map of all coefficients, and the shared part of each feature."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.estimators.feature_use import KINDS, MEANINGS
from mmtfl.plots import figures
from mmtfl.wording import count

_ROBUST = 0.98  # share of coefficients within the limits of the colours
_CELL = 11.0  # points: cells as large as this have room for a sign
_GROUPS = (*KINDS[:3], "apart")  # features of none of the tasks that count are those of tasks set apart
_NAMES = {"shared": "by all tasks", "partial": "by some", "single": "by one", "apart": "set apart"}
_BESIDE = "distance from the common part"
_LONG = 4.5  # inches: a longer colour bar is no easier to read
_WIDEST = 6.5  # inches: wider figures are shrunk in print, and their text with them
_EXACT = 600  # tasks; beyond, turning every branch of the tree the best way takes seconds
_LABELS_TAKE = 0.3  # share of the axes that names and colour bar take once they are laid out
_LOOKS = {"shared": (figures.BLUE, "o"), "partial": (figures.VERMILLION, "^"), "single": (figures.GREEN, "s")}
_GOLDEN = (5**0.5 - 1) / 2
_CROWDED = 500  # points; beyond, smaller ones that let others shine through
_NAMED = 10  # largest features, as far as their names do not overlap
_WIDTH = 0.3  # of the jitter, to each side of a number of tasks


@dataclass(eq=False, repr=False)
class SharingMapDisplay(figures.Display):
    """Map of which task uses which feature, and how much.

    One row per feature that some task uses, those of all tasks first; one column per task, those alike side
    by side. "By all tasks" counts the tasks that could use a feature, those within whose rows it varies.
    Purple coefficients are positive, orange ones negative (with a dash where there is room), white cells
    are exact zeros. Where there are more cells than the picture can show, a cell stands for several and
    shows the largest coefficient in size.

    Parameters
    ----------
    coef : ndarray of shape (n_shown, n_tasks)
        Coefficients in the order drawn.
    features : ndarray of shape (n_shown,)
        Names of the features.
    tasks : ndarray of shape (n_tasks,)
        Labels of the tasks.
    kind : ndarray of shape (n_shown,)
        "shared" (used by all tasks that could use it), "partial", "single", or "apart": used only by tasks
        that the model sets apart.
    n_features : int
        Number of features of the model, those that no task uses included.
    quantity : str, default="coefficient"
        What the colours stand for.

    Attributes
    ----------
    limit_ : float
        Colours end at minus and plus this value.
    image_ : matplotlib image
        The map.
    colorbar_ : matplotlib colorbar or None
        Its colour bar.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import SharingMapDisplay
    >>> data = make_tasks(n_tasks=4, n_features=20, n_informative=4, pattern="partial", random_state=0)
    >>> model = MMTFLRegressor(p=1, k=2, alpha=0.2).fit(data.X, data.y, task=data.task)
    >>> display = SharingMapDisplay.from_estimator(model)
    >>> display.kind.tolist(), display.n_features
    (['shared', 'partial', 'partial', 'single', 'single', 'single', 'single'], 20)
    """

    coef: np.ndarray
    _: KW_ONLY
    features: np.ndarray
    tasks: np.ndarray
    kind: np.ndarray
    n_features: int
    quantity: str = "coefficient"

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        scaled: bool = False,
        order: str = "structure",
        beside_common: bool = False,
        ax: Any = None,
    ) -> SharingMapDisplay:
        """Draw the sharing map of a fitted model.

        Parameters
        ----------
        model : fitted estimator of mmtfl
            Any of them; of a search, the model it chose.
        scaled : bool, default=False
            Show coefficients per standard deviation of the feature over all rows, so that features in
            different units compare; of models with ``scale_targets`` in standard deviations of each task's
            target too.
        order : {"structure", "given"}, default="structure"
            Order features and tasks so that sharing is seen, or leave them as they came.
        beside_common : bool, default=False
            Show how far the coefficients are from the common part of a model with ``pooling``, instead of
            the coefficients: where the tasks differ.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : SharingMapDisplay
            Drawn.
        """
        if order not in ("structure", "given"):
            raise ValueError(f"order must be 'structure' or 'given', got {order!r}.")
        inner, read = figures.fitted(model), figures.Learned(model)
        if order == "structure":
            columns = order_tasks(read)
            rows = order_features(read, columns)
        else:
            columns, rows = np.arange(len(read.tasks)), np.flatnonzero(read.uses.any(axis=1))
        coef, quantity = read.A, "coefficient"
        if beside_common:
            coef, quantity = coef - inner._pooled_slopes()[:, None], _BESIDE
        if scaled:
            targets = inner.target_scale_
            coef = coef * inner.feature_spread_[:, None] / (1.0 if targets is None else targets)
            quantity += " per s.d. of the feature" + ("" if targets is None else ", in s.d. of the target")
        return cls(
            coef[np.ix_(rows, columns)],
            features=read.features[rows],
            tasks=read.tasks[columns],
            kind=np.array(_GROUPS)[read.kind[rows]],
            n_features=len(read.features),
            quantity=quantity,
        ).plot(ax)

    def _draw(self) -> None:
        ax, (n_rows, n_columns) = self.ax_, self.coef.shape
        width, height = (float(points) for points in figures.axes_points(ax))
        sizes = np.abs(self.coef[self.coef != 0.0])
        self.limit_ = float(np.quantile(sizes, _ROBUST)) if sizes.size else 1.0
        lines = [self._count_line(), *([self.quantity] if self.quantity != "coefficient" else [])]
        # pixels may be fewer once names and colour bar have their room
        pixels = (1.0 - _LABELS_TAKE) * ax.figure.dpi / figures.POINTS
        drawn, block = largest_in_blocks(self.coef, int(height * pixels), int(width * pixels))
        if block != (1, 1):
            nouns = zip(block, ("feature", "task"), strict=True)
            what = " by ".join(count(n, noun) for n, noun in nouns if n > 1)
            lines.append(f"each cell stands for {what} and shows the largest coefficient")
        extent = (-0.5, block[1] * drawn.shape[1] - 0.5, max(block[0] * drawn.shape[0], 1) - 0.5, -0.5)
        colours = {"cmap": figures.sharing_colours(), "vmin": -self.limit_, "vmax": self.limit_}
        look = {"extent": extent, "aspect": "auto", "interpolation": "none"}
        self.image_ = ax.imshow(np.ma.masked_equal(drawn, 0.0), **colours, **look)
        ax.set(xlim=(-0.5, n_columns - 0.5), ylim=(max(n_rows, 1) - 0.5, -0.5))
        figures.name_rows(ax, self.features, 0.85 * height, width=figures.name_width(ax))
        figures.name_columns(ax, self.tasks, (1.0 - _LABELS_TAKE) * width)
        ax.set(xlabel="task", ylabel="feature")
        ax.tick_params(length=2)
        figures.note(ax, lines)
        self._mark_kinds(height)
        if (1.0 - _LABELS_TAKE) * min(width / n_columns, height / max(n_rows, 1)) >= _CELL:
            self._mark_signs()
        self.colorbar_ = self._draw_colorbar(sizes, height) if sizes.size else None

    @property
    def _size(self) -> tuple[float, float]:
        n_rows, n_columns = self.coef.shape
        wide = float(np.clip(3.4 + 0.2 * n_columns, 5.5, _WIDEST))
        room = (1.0 - _LABELS_TAKE) * wide * figures.POINTS
        below = figures.upright_length(self.tasks, room) / figures.POINTS
        return wide, float(np.clip(1.7 + 0.17 * n_rows, 3.2, 8.5)) + below

    # -- the parts of the picture ----------------------------------------------------------------------------

    def _count_line(self) -> str:
        left_out = self.n_features - len(self.features)
        if not len(self.features):
            return f"no task uses any of the {count(self.n_features, 'feature')}"
        used = f"{count(len(self.features), 'feature')} used"
        return f"{used}; not shown: {left_out} that no task uses" if left_out else used

    def _mark_kinds(self, height: float) -> None:
        """Lines between features of all tasks, of some and of one, and their numbers at the right."""
        kinds = [kind for kind in _GROUPS if kind in self.kind]
        first = [int(np.argmax(self.kind == kind)) for kind in kinds]
        number = [int(np.count_nonzero(self.kind == kind)) for kind in kinds]
        if not kinds or not np.array_equal(np.repeat(kinds, number), self.kind):
            return  # features as they came: kinds are mixed
        row = height / len(self.kind)
        last, at, names = -np.inf, [], []
        for kind, start, n in zip(kinds, first, number, strict=True):
            if start:
                self.ax_.axhline(start - 0.5, color="black", linewidth=0.8)
            middle = start + (n - 1) / 2
            if (middle - last) * row >= 1.3 * figures.SMALL:  # a thin group next to another is not named
                at.append(middle)
                names.append(f"{n} {self._by_whom(kind)}")
                last = middle
        side = self.ax_.secondary_yaxis("right")
        side.set_yticks(at, names, fontsize=figures.SMALL, **figures.PLAIN)
        side.tick_params(length=0)

    def _by_whom(self, kind: str) -> str:
        could = kind == "shared" and not self.coef[self.kind == kind].all()
        return "by all that could" if could else _NAMES[kind]

    def _mark_signs(self) -> None:
        """Thin lines between cells, and a dash on negative ones: their sign is seen in grey too."""
        n_rows, n_columns = self.coef.shape
        self.ax_.set_xticks(np.arange(0.5, n_columns - 1), minor=True)
        self.ax_.set_yticks(np.arange(0.5, n_rows - 1), minor=True)
        self.ax_.grid(which="minor", color="#DDDDDD", linewidth=0.5)
        self.ax_.tick_params(which="minor", length=0)
        rows, columns = np.nonzero(self.coef < 0.0)
        dark = self.coef[rows, columns] < -0.6 * self.limit_
        colours = np.where(dark, "white", "black")
        self.ax_.scatter(columns, rows, marker="_", s=20, c=colours, linewidths=0.9)

    def _draw_colorbar(self, sizes: np.ndarray, height: float) -> Any:
        beyond = bool(np.any(sizes > self.limit_))
        look = {"extend": "both" if beyond else "neither", "aspect": 35, "pad": 0.02}
        shrink = min(1.0, _LONG * figures.POINTS / height)
        bar = self.figure_.colorbar(self.image_, ax=self.ax_, shrink=shrink, **look)
        what = _BESIDE if self.quantity.startswith(_BESIDE) else "coefficient"
        bar.set_label(f"{what} (white: zero)", fontsize=figures.SMALL + 1)
        bar.ax.tick_params(labelsize=figures.SMALL)
        return bar


def largest_in_blocks(values: np.ndarray, n_rows: int, n_columns: int) -> tuple[np.ndarray, tuple[int, int]]:
    """The value largest in size of each block of cells, with its sign, and the size of a block."""
    limits = zip(values.shape, (n_rows, n_columns), strict=True)
    steps = [max(-(-length // max(most, 1)), 1) for length, most in limits]
    for axis, step in enumerate(steps):
        if step > 1:
            starts = np.arange(0, values.shape[axis], step)
            high = np.maximum.reduceat(values, starts, axis=axis)
            low = np.minimum.reduceat(values, starts, axis=axis)
            values = np.where(high >= -low, high, low)
    return values, (steps[0], steps[1])


# -- the order of features and tasks ------------------------------------------------------------------------


def order_tasks(model: figures.Learned) -> np.ndarray:
    """Tasks that use features alike side by side; tasks set apart, then tasks without features, at the end.

    Starting from sorted labels and names makes the answer that of the model, not of the order of its rows.
    """
    by_label = np.argsort(model.tasks, kind="stable")
    A = model.A[np.argsort(model.features.astype(str), kind="stable")]
    A = A[A.any(axis=1)]
    A = A / np.abs(A).max(axis=1, keepdims=True)  # features count alike, whatever their units
    empty = ~A.any(axis=0)
    group = np.where(empty, 2, np.where(model.counts, 0, 1))[by_label]
    joining, apart, without = (by_label[group == g] for g in range(3))
    return np.concatenate([_by_likeness(A, joining), _by_likeness(A, apart), without])


def _by_likeness(A: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Leaves of a tree of average cosine distances, its branches turned so that neighbours are close."""
    if len(tasks) < 3:
        return tasks
    from scipy.cluster.hierarchy import leaves_list, linkage  # late: every command imports this module

    # which features count most, then their signs: tasks may share a feature and differ in its sign
    profile = np.vstack([np.abs(A[:, tasks]), 0.5 * A[:, tasks]]).T
    tree = linkage(profile, "average", metric="cosine", optimal_ordering=len(tasks) <= _EXACT)
    leaves = leaves_list(tree)
    # a tree reads both ways: the end with more coefficients comes first
    weight = np.abs(A[:, tasks[leaves]]).sum(axis=0)
    half = len(tasks) // 2
    return tasks[leaves[::-1] if weight[-half:].sum() > weight[:half].sum() else leaves]


def order_features(model: figures.Learned, tasks: np.ndarray) -> np.ndarray:
    """Used features: of all tasks, of some, of one, then those of tasks set apart alone.

    Shared ones have the largest first. The others follow the tasks that use them, by the mean position of
    these tasks weighted by their coefficients, so that a staircase comes out as one.
    """
    used = np.flatnonzero(model.uses.any(axis=1))
    if not used.size:
        return used
    uses = model.uses[used][:, tasks]
    weight = np.abs(model.A[used][:, tasks])
    weight = weight / weight.max(axis=1, keepdims=True)
    position = weight @ np.arange(len(tasks)) / weight.sum(axis=1)
    pattern = np.unique(np.packbits(uses, axis=1), axis=0, return_inverse=True)[1].ravel()
    kind = model.kind[used]
    shared = kind == 0
    names = np.argsort(np.argsort(model.features[used].astype(str), kind="stable"))
    keys = (names, -model.size[used], np.where(shared, 0, -pattern), np.where(shared, 0.0, position), kind)
    return used[np.lexsort(keys)]


# -- the shared part -----------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class SharedPartDisplay(figures.Display):
    """The shared part c of each feature against the number of tasks that use it.

    Points of one number of tasks are moved aside by up to a third of a step, always in the same way, so
    that they are told apart. Models without c (the additive ones, one model per task) show the size of each
    feature instead, as their summary does.

    Parameters
    ----------
    size : ndarray of shape (n_features,)
        c, or what stands for it.
    n_using : ndarray of shape (n_features,)
        Number of tasks that use each feature.
    features : ndarray of shape (n_features,)
        Names of the features.
    n_tasks : int
        Number of tasks.
    size_label : str
        What the size is, in words.
    kind : ndarray of shape (n_features,)
        "shared" (used by all tasks that could use it), "partial", "single" or "none".

    Attributes
    ----------
    points_ : dict of matplotlib collections
        The points of each kind of feature.
    labels_ : list of matplotlib texts
        Names of the largest features.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import SharedPartDisplay
    >>> data = make_tasks(n_tasks=4, n_features=20, n_informative=4, pattern="partial", random_state=0)
    >>> model = MMTFLRegressor(p=1, k=2, alpha=0.2).fit(data.X, data.y, task=data.task)
    >>> display = SharedPartDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'number of tasks that use the feature (of 4)'
    """

    size: np.ndarray
    n_using: np.ndarray
    _: KW_ONLY
    features: np.ndarray
    n_tasks: int
    size_label: str
    kind: np.ndarray

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> SharedPartDisplay:
        """Draw the shared part of a fitted model.

        Parameters
        ----------
        model : fitted estimator of mmtfl
            Any of them; of a search, the model it chose.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : SharedPartDisplay
            Drawn.
        """
        read = figures.Learned(model)
        return cls(
            read.size,
            read.n_using,
            features=read.features,
            n_tasks=int(np.count_nonzero(read.counts)),
            size_label=read.size_label,
            kind=np.array(KINDS)[read.kind],
        ).plot(ax)

    def _draw(self) -> None:
        ax = self.ax_
        x = self.n_using + self._aside()
        margin = max(0.5, 0.03 * self.n_tasks)
        crowded = np.count_nonzero(self.n_using) > _CROWDED
        kinds = {kind: self.kind == kind for kind in _LOOKS}
        self.points_ = {}
        for kind, chosen in kinds.items():
            if chosen.any():
                colour, marker = _LOOKS[kind]
                look = {"marker": marker, "facecolor": colour, "linewidth": 0, "rasterized": crowded}
                look |= {"s": 12, "alpha": 0.5} if crowded else {"s": 22, "alpha": 1.0}
                self.points_[kind] = ax.scatter(x[chosen], self.size[chosen], **look)
        ax.set(
            xlabel=f"number of tasks that use the feature (of {self.n_tasks})",
            ylabel=self.size_label,
            xlim=(1.0 - margin, max(self.n_tasks, 1) + margin),
        )
        ax.xaxis.set_major_locator(figures.whole_numbers())
        ax.set_ylim(0.0, 1.12 * float(self.size.max(initial=0.0)) or 1.0)
        ax.grid(axis="y", alpha=0.3)
        ax.set_axisbelow(True)
        none = int(np.count_nonzero(self.n_using == 0))
        figures.note(ax, [f"not shown: {count(none, 'feature')} that no task uses"] if none else [])
        if self.points_:
            could = " that could" if np.any(self.n_using[kinds["shared"]] < self.n_tasks) else ""
            words = {**MEANINGS, "shared": f"{MEANINGS['shared']}{could}"}
            named = [(drawn, f"{words[kind]} ({kinds[kind].sum()})") for kind, drawn in self.points_.items()]
            figures.legend(ax, named, title="features")
        top = self._by_size(np.flatnonzero(self.n_using))[:_NAMED].tolist()
        places, names = np.column_stack([x, self.size]), self.features.tolist()
        self.labels_ = figures.label_points(ax, places, names, top, width=figures.name_width(ax))

    def _by_size(self, chosen: np.ndarray) -> np.ndarray:
        return chosen[np.lexsort((self.features[chosen].astype(str), -self.size[chosen]))]

    def _aside(self) -> np.ndarray:
        """How far each point is moved: neighbours in size far apart, whatever the order of the features."""
        out = np.zeros(len(self.size))
        for n in np.unique(self.n_using[self.n_using > 0]):
            column = self._by_size(np.flatnonzero(self.n_using == n))
            steps = np.arange(len(column)) * _GOLDEN % 1.0
            out[column] = _WIDTH * np.where(steps < 0.5, 2.0 * steps, 2.0 * steps - 2.0)
        return out
