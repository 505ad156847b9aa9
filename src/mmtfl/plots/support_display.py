"""How sure: which features half samples keep in which tasks, and the effect of one feature in every task."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from mmtfl.estimators.supported_features import Stability
from mmtfl.model_selection.evidence import mean_over_tasks, t_reach
from mmtfl.plots import figures

_MOST_ROWS = 40


def found_by(model: Any) -> Stability:
    """What half samples found: of a search with ``stability``, or given as it is."""
    if isinstance(model, Stability):
        return model
    found = getattr(figures.fitted(model), "stability_", None)
    if found is None:
        raise ValueError(
            f"{type(model).__name__} was fitted without half samples: use stability=50, or draw what "
            "mmtfl.stability returns."
        )
    return found


@dataclass(eq=False, repr=False)
class SupportDisplay(figures.Display):
    """Share of the half samples in which a task uses a feature, features by tasks, with what is supported.

    Features supported in most tasks come first. A cross marks an entry in which the rows support an effect.
    With p > 1 a half sample keeps a feature for all tasks or for none, so that the columns are alike: the
    crosses tell the tasks apart.

    Parameters
    ----------
    found : Stability
        What `mmtfl.stability` returns.
    max_features : int, default=40
        Number of rows drawn.

    Attributes
    ----------
    image_ : matplotlib image
        The shares.
    features_ : ndarray
        Positions of the features drawn, from the top down.
    supported_ : ndarray of bool, shape (n_drawn, n_tasks)
        Where there are crosses.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor, stability
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import SupportDisplay
    >>> data = make_tasks(n_tasks=3, n_samples=60, n_features=8, n_informative=2, noise=0.5, random_state=0)
    >>> found = stability(MMTFLRegressor(alpha=0.5), data.X, data.y, data.task, n_pairs=5, random_state=0)
    >>> SupportDisplay.from_estimator(found).features_[:2].tolist()
    [0, 1]
    """

    found: Stability
    _: KW_ONLY
    max_features: int = _MOST_ROWS

    @classmethod
    def from_estimator(cls, model: Any, *, max_features: int = _MOST_ROWS, ax: Any = None) -> SupportDisplay:
        """Draw what half samples found of a model.

        Parameters
        ----------
        model : search fitted with ``stability``, or Stability
            What is drawn.
        max_features : int, default=40
            Number of rows drawn.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : SupportDisplay
            Drawn.
        """
        return cls(found_by(model), max_features=max_features).plot(ax)

    @property
    def _size(self) -> tuple[float, float]:
        n_rows, n_tasks = min(self.max_features, len(self.found.feature_names_)), len(self.found.tasks_)
        return 2.5 + min(0.3 * n_tasks + 2.0, 8.0), 1.5 + 0.17 * n_rows

    def _draw(self) -> None:
        found, ax = self.found, self.ax_
        order = found.order()[: self.max_features]
        self.features_ = order
        shares = np.ma.masked_invalid(found.entry_frequency_[:, order].T)
        self.image_ = ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto", interpolation="none")
        rows = [np.isin(found.tasks_, found.supporting_tasks(j)) for j in order]
        self.supported_ = np.array(rows).reshape(shares.shape)
        row, column = np.nonzero(self.supported_)
        ax.plot(column, row, "x", color=figures.VERMILLION, markersize=5, linestyle="none")
        width, height = figures.axes_points(ax)
        names = np.array([f"{found.feature_names_[j]}: {found.supported_[j]}" for j in order], dtype=object)
        figures.name_rows(ax, names, height, width=32)
        figures.name_columns(ax, found.tasks_, width)
        ax.figure.colorbar(self.image_, ax=ax, label="share of half samples that use it")
        figures.note(
            ax, [f"{found.n_pairs_} pairs of half samples", "cross: the rows support an effect in the task"]
        )


@dataclass(eq=False, repr=False)
class EffectDisplay(figures.Display):
    """The effect of one feature in every task, and its mean over the tasks, each with its interval.

    Effects are estimated without shrinkage beside the supported features, on the rows on which these were
    selected: near the threshold of selection they are too large on average.

    Parameters
    ----------
    tasks : ndarray
        Labels.
    effect, error : ndarray of shape (n_tasks,)
        Effects and standard errors; NaN where a task was not tested.
    feature : str
        Name of the feature.
    coverage : float, default=0.9
        Of each interval.
    spare : ndarray of shape (n_tasks,) or float, default=inf
        Degrees of freedom of the standard errors.

    Attributes
    ----------
    intervals_ : matplotlib container
        Effects with their intervals.
    mean_, mean_reach_ : float
        Mean of the tasks' effects, and half the width of its interval.
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor, stability
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.plots import EffectDisplay
    >>> data = make_tasks(n_tasks=3, n_samples=60, n_features=8, n_informative=2, noise=0.5, random_state=0)
    >>> found = stability(MMTFLRegressor(alpha=0.5), data.X, data.y, data.task, n_pairs=5, random_state=0)
    >>> EffectDisplay.from_estimator(found, "x0").ax_.get_xlabel()
    'effect of x0, with 90% intervals'
    """

    tasks: np.ndarray
    effect: np.ndarray
    error: np.ndarray
    _: KW_ONLY
    feature: str
    coverage: float = 0.9
    spare: Any = np.inf

    @classmethod
    def from_estimator(
        cls, model: Any, feature: str, *, coverage: float = 0.9, ax: Any = None
    ) -> EffectDisplay:
        """Draw the effects of one feature.

        Parameters
        ----------
        model : search fitted with ``stability``, or Stability
            What is drawn.
        feature : str
            Name of the feature.
        coverage : float, default=0.9
            Of each interval.
        ax : matplotlib axes, optional
            Where to draw; None makes a figure.

        Returns
        -------
        display : EffectDisplay
            Drawn.
        """
        found = found_by(model)
        if feature not in found.feature_names_:
            raise ValueError(
                f"There is no feature {feature!r}: use one of {', '.join(found.feature_names_[:6])}."
            )
        j = found.feature_names_.index(feature)
        parts = found.tasks_, found.effect_[:, j], found.effect_error_[:, j]
        spare = np.inf if found.effect_spare_ is None else found.effect_spare_[:, j]
        return cls(*parts, feature=feature, coverage=coverage, spare=spare).plot(ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 5.5, 1.2 + 0.22 * len(self.tasks)

    def _draw(self) -> None:
        ax = self.ax_
        tested = np.isfinite(self.effect) & np.isfinite(self.error) & (self.error > 0.0)
        at, effect = np.flatnonzero(tested), self.effect[tested]
        reach = t_reach(self.error, self.spare, self.coverage)[tested]
        self.intervals_ = ax.errorbar(
            effect, at, xerr=reach, fmt="o", color=figures.BLUE, markersize=4, capsize=2
        )
        spare = np.broadcast_to(self.spare, self.effect.shape)
        self.mean_, self.mean_reach_ = mean_over_tasks(self.effect, self.error, spare, self.coverage)
        if np.isfinite(self.mean_reach_):
            ends = self.mean_ - self.mean_reach_, self.mean_ + self.mean_reach_
            ax.axvspan(*ends, color=figures.BLUE, alpha=0.15, lw=0)
        ax.axvline(0.0, color=figures.GREY, linewidth=1.0)
        ax.axvline(self.mean_, color=figures.BLUE, linewidth=1.0, linestyle=":")
        ax.set_ylim(len(self.tasks) - 0.5, -0.5)
        figures.name_rows(ax, self.tasks, figures.axes_points(ax)[1])
        ax.set_xlabel(
            f"effect of {self.feature}, with {self.coverage:.0%} intervals", fontsize=figures.SMALL + 1
        )
        figures.note(ax, ["dotted: mean of these tasks; band: its interval"])
