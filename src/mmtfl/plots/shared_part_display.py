"""The shared part of each feature against the number of tasks that use it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.estimators.results import KINDS, MEANINGS
from mmtfl.plots import figures
from mmtfl.wording import count

_LOOKS = {"shared": (figures.BLUE, "o"), "partial": (figures.VERMILLION, "^"), "single": (figures.GREEN, "s")}
_GOLDEN = (5**0.5 - 1) / 2
_CROWDED = 500  # points; beyond, smaller ones that let others shine through
_WIDTH = 0.3  # of the jitter, to each side of a number of tasks


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
    n_labels : int, default=10
        Number of largest features to name, as far as their names do not overlap.

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
    n_labels: int = 10

    @classmethod
    def from_estimator(cls, model: Any, *, n_labels: int = 10, ax: Any = None) -> SharedPartDisplay:
        """Draw the shared part of a fitted model.

        Parameters
        ----------
        model : fitted estimator of mmtfl
            Any of them; of a search, the model it chose.
        n_labels : int, default=10
            Number of largest features to name, as far as their names do not overlap.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : SharedPartDisplay
            Drawn.
        """
        read = figures.learned(model)
        return cls(
            read.size,
            read.n_using,
            features=read.features,
            n_tasks=int(np.count_nonzero(read.counts)),
            size_label=read.size_label,
            kind=np.array(KINDS)[read.kind],
            n_labels=n_labels,
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
        top = self._by_size(np.flatnonzero(self.n_using))[: self.n_labels].tolist()
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
