"""How the strengths of a model were chosen, as curves of held-out scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.plots.search_display import Curve, search_curves

__all__ = ["SearchCurve", "SearchGrid", "SearchSummary", "describe_search"]


@dataclass(frozen=True)
class SearchCurve:
    """Held-out scores along the strengths tried, for one (p, k) or one task."""

    label: str
    alphas: list[float]
    mean: list[float]
    error: list[float]
    best: int
    chosen: int | None


@dataclass(frozen=True)
class SearchGrid:
    """Mean held-out scores of pairs of strengths: ``mean[i][j]`` at the i-th first and the j-th second."""

    names: tuple[str, str]
    first: list[float]
    second: list[float]
    mean: list[list[float]]
    chosen: tuple[int, int]


@dataclass(frozen=True)
class SearchSummary:
    """A search over strengths: its folds, its measure, its candidates and its choice.

    Attributes
    ----------
    score_name : str
        What is measured on held-out rows, in words; larger is better.
    best_score : float
        Mean score of the choice.
    score_without_features : float or None
        Mean score where the strength leaves only intercepts, if it is among the candidates.
    n_folds, n_candidates : int
        How much was tried.
    selection : str
        "best", or "one_se": the strongest alpha within a standard error of the best.
    curves : list of SearchCurve
        One for each (p, k), or for each task that has a strength of its own; empty with two strengths.
    grid : SearchGrid or None
        With two strengths.
    held_out : dict of lists, or None
        ``heldout_scores_`` of the model: scores of each task on held-out rows.
    """

    score_name: str
    best_score: float
    score_without_features: float | None
    n_folds: int
    n_candidates: int
    selection: str
    curves: list[SearchCurve]
    grid: SearchGrid | None
    held_out: dict[str, list[Any]] | None


def describe_search(model: Any) -> SearchSummary | None:
    """Gather what a search found; None for a model whose strengths were given."""
    table = getattr(model, "cv_results_", None)
    if not table:
        return None
    n_folds = sum(name.startswith("split") for name in table)
    grid = _grid(model, table) if "best_params_" in vars(model) else None
    curves = [] if grid else [_plain(curve, n_folds) for curve in search_curves(model)[0]]
    return SearchSummary(
        score_name=_score_name(model),
        best_score=float(model.best_score_),
        score_without_features=_without_features(model, curves),
        n_folds=n_folds,
        n_candidates=len(table["mean_test_score"]),
        selection=getattr(model, "selection", "best"),
        curves=curves,
        grid=grid,
        held_out=_held_out(model),
    )


def _held_out(model: Any) -> dict[str, list[Any]] | None:
    table = getattr(model, "heldout_scores_", None)  # older files have none
    return None if table is None else {name: np.asarray(column).tolist() for name, column in table.items()}


def _plain(curve: Curve, n_folds: int) -> SearchCurve:
    # one fold says nothing of the error
    error = curve.error if n_folds > 1 else np.full(len(curve.error), np.nan)
    alphas, mean = curve.strength.tolist(), curve.mean.tolist()
    return SearchCurve(curve.name, alphas, mean, error.tolist(), curve.best, curve.chosen)


def _grid(model: Any, table: dict[str, Any]) -> SearchGrid:
    first, second = model.strengths_
    names = tuple(model.best_params_)
    mean = np.reshape(table["mean_test_score"], (len(first), len(second)))
    i, j = (int(at) for at in np.unravel_index(model.best_index_, mean.shape))
    first, second = np.asarray(first).tolist(), np.asarray(second).tolist()
    return SearchGrid((names[0], names[1]), first, second, mean.tolist(), (i, j))


def _score_name(model: Any) -> str:
    scoring = model.scoring
    if scoring is not None:
        metric = getattr(scoring, "metric", None)
        return str(getattr(metric, "name", scoring if isinstance(scoring, str) else "a score of its own"))
    inner = getattr(model, "best_estimator_", model)
    if inner._metric == "accuracy":
        return "minus the logistic loss per row"
    unit = ", in units of each task's spread" if inner.scale_targets else ""
    return f"minus half the mean squared error{unit}"


def _without_features(model: Any, curves: list[SearchCurve]) -> float | None:
    """The mean score at the strength that keeps no feature, of the member chosen."""
    path = getattr(model, "path_", None)
    if isinstance(path, list) or path is None or len(path.n_kept) == 0 or path.n_kept[0] > 0:
        return None
    return next(curve.mean[0] for curve in curves if curve.chosen is not None)
