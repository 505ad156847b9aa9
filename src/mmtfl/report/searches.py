"""How the strengths of a model were chosen, as curves of held-out scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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
    """

    score_name: str
    best_score: float
    score_without_features: float | None
    n_folds: int
    n_candidates: int
    selection: str
    curves: list[SearchCurve]
    grid: SearchGrid | None


def describe_search(model: Any) -> SearchSummary | None:
    """Gather what a search found; None for a model whose strengths were given."""
    table = getattr(model, "cv_results_", None)
    if not table:
        return None
    scores = _fold_scores(table)
    grid = _grid(model, table) if "best_params_" in vars(model) else None
    curves = [] if grid else _curves(model, table, scores)
    return SearchSummary(
        score_name=_score_name(model),
        best_score=float(model.best_score_),
        score_without_features=_without_features(model, curves),
        n_folds=scores.shape[1],
        n_candidates=len(scores),
        selection=getattr(model, "selection", "best"),
        curves=curves,
        grid=grid,
    )


def _fold_scores(table: dict[str, Any]) -> np.ndarray:
    n_folds = sum(name.startswith("split") for name in table)
    return np.column_stack([table[f"split{fold}_test_score"] for fold in range(n_folds)])


def _standard_error(scores: np.ndarray) -> np.ndarray:
    """Standard error of the mean over folds; a fold that does not test a task has no score there."""
    tested = np.count_nonzero(~np.isnan(scores), axis=1)
    if (tested < 2).any():
        return np.full(len(scores), np.nan)
    with np.errstate(invalid="ignore"):  # a score of minus infinity has no deviation
        return np.nanstd(scores, axis=1, ddof=1) / np.sqrt(tested)


def _curves(model: Any, table: dict[str, Any], scores: np.ndarray) -> list[SearchCurve]:
    error = _standard_error(scores)
    names = [_label(table, i) for i in range(len(scores))]
    chosen_alphas = np.atleast_1d(model.alpha_)
    curves = []
    for c, label in enumerate(dict.fromkeys(names)):
        rows = np.array([i for i, name in enumerate(names) if name == label])
        alphas, mean = np.asarray(table["alpha"])[rows], np.asarray(table["mean_test_score"])[rows]
        alpha = chosen_alphas[c] if "task" in table else chosen_alphas[0]
        is_chosen = "task" in table or label == _pair(model.best_p_, model.best_k_)
        best = int(np.argmax(np.nan_to_num(mean, nan=-np.inf)))
        chosen = int(np.argmin(np.abs(alphas - alpha))) if is_chosen else None
        curves.append(
            SearchCurve(label, alphas.tolist(), mean.tolist(), error[rows].tolist(), best=best, chosen=chosen)
        )
    return curves


def _label(table: dict[str, Any], i: int) -> str:
    if "task" in table:
        return str(table["task"][i])
    k = float(table["k"][i])
    return _pair(float(table["p"][i]), k if k else "log")


def _pair(p: float, k: float | str) -> str:
    return f"({p:g}, {k if isinstance(k, str) else format(k, 'g')})"


def _grid(model: Any, table: dict[str, Any]) -> SearchGrid:
    first, second = model.strengths_
    names = tuple(model.best_params_)
    mean = np.reshape(table["mean_test_score"], (len(first), len(second)))
    chosen = np.unravel_index(model.best_index_, mean.shape)
    return SearchGrid(
        names=(names[0], names[1]),
        first=np.asarray(first).tolist(),
        second=np.asarray(second).tolist(),
        mean=mean.tolist(),
        chosen=(int(chosen[0]), int(chosen[1])),
    )


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
