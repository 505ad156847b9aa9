"""Scores of a search as curves: one per member of the family, second strength or task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.search import TaskSearch
from mmtfl.estimators.two_strength_search import TwoStrengthCV


@dataclass(frozen=True)
class Curve:
    """Held-out scores along one strength.

    Attributes
    ----------
    name : str
        What is the same along the curve.
    strength : ndarray of shape (n_strengths,)
        Strengths, largest first.
    mean, error : ndarray of shape (n_strengths,)
        Mean over folds, and its standard error (zero with one fold).
    chosen : int or None
        Position of the choice, if it is on this curve.
    """

    name: str
    strength: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    chosen: int | None = None

    @property
    def best(self) -> int:
        """Position of the best mean."""
        return int(np.argmax(np.where(np.isfinite(self.mean), self.mean, -np.inf)))

    @property
    def one_se(self) -> int:
        """Position of the strongest penalty within one standard error of the best mean."""
        return int(np.flatnonzero(self.mean >= self.mean[self.best] - self.error[self.best])[0])


def search_curves(model: Any) -> tuple[list[Curve], str, str]:
    """Curves of a fitted search, the name of the strength along them, and what tells them apart."""
    while not isinstance(model, TaskSearch | TwoStrengthCV):
        if not hasattr(model, "best_estimator_"):
            raise TypeError(
                f"{type(model).__name__} did not search: fit MMTFLRegressorCV, MMTFLClassifierCV, "
                "TwoStrengthCV or a SingleTask model, whose cv_results_ are drawn."
            )
        model = model.best_estimator_
    check_is_fitted(model)
    alpha: Any = getattr(model, "alpha_", None)
    table = model.cv_results_
    if isinstance(model, TwoStrengthCV):
        first, second = model.best_estimator_.strength_names
        chosen = (model.best_params_[second], model.best_params_[first])
        curves = _split(table, first, table[second], [f"{value:.3g}" for value in table[second]], [chosen])
        return curves, first, second
    if "task" in table:
        wanted = list(zip(model.tasks_.tolist(), alpha.tolist(), strict=True))
        return _split(table, "alpha", table["task"], table["task"], wanted), "alpha", "task"
    pairs = [
        f"({p:g}, {'log' if k == 0 else format(k, 'g')})" for p, k in zip(table["p"], table["k"], strict=True)
    ]
    member = f"({model.best_p_:g}, {model.best_k_ if model.best_k_ == 'log' else format(model.best_k_, 'g')})"
    return _split(table, "alpha", np.array(pairs), pairs, [(member, alpha)]), "alpha", "(p, k)"


def _split(
    table: dict[str, Any], along: str, group: np.ndarray, names: Any, wanted: list[tuple]
) -> list[Curve]:
    """One curve per value of `group`; `wanted` has pairs (group, strength) that were chosen."""
    folds = np.column_stack([column for name, column in table.items() if name.startswith("split")])
    finite = np.where(np.isfinite(folds), folds, np.nan)
    count = np.count_nonzero(np.isfinite(folds), axis=1)
    centred = (
        finite - np.where(np.isfinite(table["mean_test_score"]), table["mean_test_score"], np.nan)[:, None]
    )
    variance = np.nansum(centred**2, axis=1) / np.maximum(count - 1, 1)
    error = np.sqrt(variance / np.maximum(count, 1))
    strengths = dict(wanted)
    curves = []
    for value in dict.fromkeys(group.tolist()):
        rows = np.flatnonzero(group == value)
        rows = rows[np.argsort(-table[along][rows], kind="stable")]
        strength = table[along][rows]
        at = np.flatnonzero(strength == strengths.get(value))
        chosen = int(at[0]) if at.size else None
        curves.append(
            Curve(str(names[rows[0]]), strength, table["mean_test_score"][rows], error[rows], chosen)
        )
    return curves
