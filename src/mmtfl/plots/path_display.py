"""The regularisation path: sizes of the features, and their number, against alpha."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.plots import figures

_NAMED = 8  # features; the others are grey


@dataclass(eq=False, repr=False)
class PathDisplay(figures.Display):
    """Sizes of the features' coefficients against alpha, with the number of features kept above.

    The size of a feature is the Euclidean norm of its coefficients over tasks, on the scale that the penalty
    saw: with ``standardize`` for one standard deviation of the feature, with ``scale_targets`` in standard
    deviations of each task's target. The largest ones at the chosen alpha are drawn in colour and named, the
    others in grey.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
        Strengths.
    sizes : ndarray of shape (n_alphas, n_features)
        Size of each feature at each alpha.
    features : ndarray of shape (n_features,)
        Names of the features.
    alpha : float, optional
        The strength chosen.
    scaled : str, default=""
        On which scale the sizes are, such as "per s.d. of the feature"; empty for the units of the data.

    Attributes
    ----------
    lines_ : list of matplotlib lines
        Those of the named features, largest first.
    kept_ : matplotlib axis
        The numbers of features kept, above the picture.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import path
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import PathDisplay
    >>> data = make_tasks(n_tasks=3, n_samples=30, n_features=8, n_informative=2, noise=0.1, random_state=0)
    >>> found = path(data.X, data.y, data.task, p=2, k=2, alphas=20)
    >>> display = PathDisplay.from_path(found, alpha=0.1)
    >>> display.sizes.shape
    (20, 8)
    """

    _size = 6.5, 4.4

    alphas: np.ndarray
    sizes: np.ndarray
    _: KW_ONLY
    features: np.ndarray
    alpha: float | None = None
    scaled: str = ""

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> PathDisplay:
        """Draw the path of the member that a search chose.

        Parameters
        ----------
        model : fitted MMTFLRegressorCV, MMTFLClassifierCV or SingleTask model
            With a path on all rows.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : PathDisplay
            Drawn.
        """
        model = figures.fitted(model)
        found = getattr(model, "path_", None)
        if found is None:
            raise TypeError(
                f"{type(model).__name__} has no path: fit MMTFLRegressorCV or MMTFLClassifierCV, or draw "
                "what mmtfl.path returns with PathDisplay.from_path."
            )
        if isinstance(found, list):
            raise TypeError(
                f"{type(model).__name__}(per_task=True) has one path per task: draw one of them with "
                "PathDisplay.from_path(model.path_[0])."
            )
        names = getattr(model, "feature_names_in_", None)
        return cls.from_path(found, alpha=model.alpha_, features=names, ax=ax)

    @classmethod
    def from_path(
        cls, path: Any, *, alpha: float | None = None, features: Any = None, ax: Any = None
    ) -> PathDisplay:
        """Draw what ``mmtfl.path`` returns.

        Parameters
        ----------
        path : Path
            Coefficients along a grid of strengths.
        alpha : float, optional
            The strength to mark.
        features : array-like of shape (n_features,), optional
            Names of the features.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : PathDisplay
            Drawn.
        """
        sizes = np.zeros((len(path), path.n_features))
        for i, kept in enumerate(path.features):
            sizes[i, kept] = np.linalg.norm(path.penalised(i), axis=1)
        if features is None:
            features = [f"x{j}" for j in range(path.n_features)]
        if len(features) != path.n_features:
            raise ValueError(
                f"{len(features)} names were given for {path.n_features} features: pass one name per feature."
            )
        names = np.array([str(name) for name in features], dtype=object)
        scales = {"per s.d. of the feature": path.column_scale, "in s.d. of the target": path.target_scale}
        scaled = ", ".join(words for words, scale in scales.items() if scale is not None)
        look: dict[str, Any] = {"alpha": alpha, "scaled": scaled}
        return cls(path.alphas, sizes, features=names, **look).plot(ax)

    def _draw(self) -> None:
        ax, named = self.ax_, self._largest(_NAMED)
        others = np.setdiff1d(np.flatnonzero(self.sizes.any(axis=0)), named)
        curves = [np.column_stack([self.alphas, self.sizes[:, j]]) for j in others]
        look = {"colors": figures.GREY, "linewidths": 0.6, "alpha": 0.7, "rasterized": len(others) > 500}
        ax.add_collection(require("matplotlib.collections", "plots").LineCollection(curves, **look))
        self.lines_ = [
            ax.plot(self.alphas, self.sizes[:, j], **figures.line_style(i), linewidth=1.6)[0]
            for i, j in enumerate(named)
        ]
        scaled = f"\n{self.scaled}" if self.scaled else ""
        ax.set(
            xscale="log",
            xlabel="alpha, the strength of the penalty",
            ylabel=f"size of a feature's coefficients\n(norm over tasks){scaled}",
        )
        ax.grid(alpha=0.3)
        ax.set_ylim(bottom=0.0)
        self.kept_ = ax.secondary_xaxis("top")
        at = np.unique(np.linspace(0, len(self.alphas) - 1, 7).round().astype(int))
        self.kept_.set_xticks(self.alphas[at], np.count_nonzero(self.sizes[at], axis=1), minor=False)
        self.kept_.set_xticks([], minor=True)
        self.kept_.set_xlabel("features kept")
        if self.alpha is not None:
            ax.axvline(self.alpha, color=figures.ink(), linestyle=(0, (1, 2)), linewidth=1.2)
            figures.note(ax, [f"dotted line: the chosen alpha, {self.alpha:.3g}"])
        if self.lines_:
            names = [figures.shown(self.features[j], figures.name_width(ax)) for j in named]
            figures.legend(ax, list(zip(self.lines_, names, strict=True)), title="largest features")

    def _largest(self, most: int) -> np.ndarray:
        """Features that are largest at the chosen alpha; then, or without one, along the whole path."""
        here = np.zeros(self.sizes.shape[1])
        if self.alpha is not None:
            here = self.sizes[np.argmin(np.abs(np.log(self.alphas / self.alpha)))]
        overall = self.sizes.max(axis=0)
        order = np.lexsort((self.features.astype(str), -overall, -here))
        return order[overall[order] > 0.0][:most]
