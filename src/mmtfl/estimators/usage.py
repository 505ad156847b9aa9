"""How the tasks use each feature: how many of those that could, and which way; and the words for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["FeatureUse", "Range", "feature_use", "used_by", "used_by_how_many"]

KINDS = ("shared", "partial", "single", "none")
MEANINGS = {  # what a kind is called where people read it
    "shared": "used by all tasks",
    "partial": "used by some tasks",
    "single": "used by one task",
    "none": "not used",
}


@dataclass(frozen=True)
class Range:
    """Mean, smallest and largest coefficient of each feature, over the tasks that could use it."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def per_sd(self, spread: np.ndarray) -> Range:
        """The same for one standard deviation of the feature."""
        return Range(self.mean * spread, self.low * spread, self.high * spread)


@dataclass(frozen=True)
class FeatureUse:
    """What the tasks make of each feature; arrays of shape (n_features,).

    Attributes
    ----------
    n_counted : int
        Number of tasks that count: all but those that a model sets apart.
    n_tasks, n_possible : ndarray
        How many of these tasks use the feature, and how many could.
    kind : ndarray of str
        "shared", "partial", "single" or "none".
    only : ndarray
        The label of the one task that uses it, else None.
    agreement : ndarray
        Share of the tasks that use it whose coefficient has the more frequent sign; NaN for no task.
    coef : Range
        Coefficients, in the units of the data.
    per_sd : Range or None
        The same per standard deviation of the feature over all rows; None where a model of an earlier version
        does not know it.
    """

    n_counted: int
    n_tasks: np.ndarray
    n_possible: np.ndarray
    kind: np.ndarray
    only: np.ndarray
    agreement: np.ndarray
    coef: Range
    per_sd: Range | None


def feature_use(model: Any) -> FeatureUse:
    """Tell how the tasks of a fitted model use each feature."""
    counted = model._counted()
    coef = model.coef_[counted]
    used, possible = coef != 0.0, _possible(model)[counted]
    n_tasks, n_possible = np.count_nonzero(used, axis=0), np.count_nonzero(possible, axis=0)
    conditions = [n_tasks == 0, n_tasks == 1, n_tasks == n_possible]
    positive = np.count_nonzero(coef > 0.0, axis=0)
    only = np.full(coef.shape[1], None, dtype=object)
    single = np.flatnonzero(n_tasks == 1)
    if single.size:
        only[single] = model.tasks_[counted][used[:, single].argmax(axis=0)].tolist()
    values, spread = _range(coef, possible), model._feature_spread()
    return FeatureUse(
        n_counted=len(coef),
        n_tasks=n_tasks,
        n_possible=n_possible,
        kind=np.select(conditions, ["none", "single", "shared"], default="partial"),
        only=only,
        agreement=np.divide(
            np.maximum(positive, n_tasks - positive),
            n_tasks,
            out=np.full(len(n_tasks), np.nan),
            where=n_tasks > 0,
        ),
        coef=values,
        per_sd=None if spread is None else values.per_sd(spread),
    )


def _possible(model: Any) -> np.ndarray:
    """Which tasks could use which features; a model of an earlier version does not know, and all count."""
    known = getattr(model, "usable_", None)
    return np.ones(model.coef_.shape, dtype=bool) if known is None else known | (model.coef_ != 0.0)


def _range(coef: np.ndarray, possible: np.ndarray) -> Range:
    n = np.count_nonzero(possible, axis=0)
    mean = np.where(possible, coef, 0.0).sum(axis=0) / np.maximum(n, 1)
    low = np.where(possible, coef, np.inf).min(axis=0, initial=np.inf)
    high = np.where(possible, coef, -np.inf).max(axis=0, initial=-np.inf)
    return Range(mean, np.where(n > 0, low, 0.0), np.where(n > 0, high, 0.0))


# -- in words ------------------------------------------------------------------------------------------------


def used_by(use: FeatureUse, j: int) -> str:
    """Who uses feature j: "all 8 tasks", "3 of 8 tasks", "all 7 tasks that could", "one task (Bern)"."""
    n, possible = int(use.n_tasks[j]), int(use.n_possible[j])
    if n < 2:
        return f"one task ({use.only[j]})" if n else "no task"
    of = f"all {n} tasks" if n == possible else f"{n} of {possible} tasks"
    return of if possible == use.n_counted else f"{of} that could"


def used_by_how_many(use: FeatureUse) -> str:
    """How many features are used by how many tasks: "2 by all 4 tasks, 0 by some, 1 by one"."""
    kinds = use.kind.tolist()
    shared, partial, single = (kinds.count(kind) for kind in ("shared", "partial", "single"))
    everywhere = bool((use.n_possible[use.kind == "shared"] == use.n_counted).all())
    who = f"all {use.n_counted} tasks" if everywhere else "all tasks that could use them"
    return f"{shared} by {who}, {partial} by some, {single} by one"
