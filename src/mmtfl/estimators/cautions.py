"""What a fit should tell its user: tasks that are too small, and features told apart by their units alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mmtfl.errors import SmallTaskWarning, UnitsWarning
from mmtfl.tasks.wording import count, show

__all__ = ["cautions"]

HANDFUL = 5  # rows; with fewer, a task says little of its own
FEW = 10  # rows; with fewer, a task without coefficients has too few rows to earn any
APART = 100.0  # times: spreads this far apart are units, not importance
MOST_NAMED = 5


def cautions(model: Any, prepared: Any) -> Iterator[Warning]:
    """What to warn of after a fit."""
    found = _small_tasks(model, prepared), _told_by_units(model, prepared)
    return (caution for caution in found if caution is not None)


def _small_tasks(model: Any, prepared: Any) -> SmallTaskWarning | None:
    rows = prepared.rows_with_weight()
    is_constant = ~model.coef_.any(axis=1)
    # a model without any feature is not for want of rows in some tasks
    is_small = (rows < HANDFUL) | (is_constant & (rows < FEW) & ~is_constant.all())
    small = np.flatnonzero(is_small)
    if len(rows) < 2 or not small.size:
        return None
    named = ", ".join(
        f"{show(model.tasks_, t)} ({count(int(rows[t]), 'row')}{', a constant' if is_constant[t] else ''})"
        for t in small[:MOST_NAMED]
    )
    more = f", and {len(small) - MOST_NAMED} more" if len(small) > MOST_NAMED else ""
    n_rows, n_features = int(rows.sum()), model.n_features_in_
    ratio = (
        f" All tasks together have {count(n_rows, 'row')} for {n_features} features "
        f"({n_rows / n_features:.2g} rows per feature)."
        if n_rows < n_features
        else ""
    )
    has, its, it = ("has", "its", "it") if len(small) == 1 else ("have", "their", "them")
    return SmallTaskWarning(
        f"{len(small)} of {len(rows)} tasks {has} too few rows to say much of {its} own: {named}{more}. "
        f"What is predicted for {it} {_rests_on(model)}, or is the constant that is said. Merge such "
        f"tasks with tasks like them, or leave them out.{ratio}"
    )


def _rests_on(model: Any) -> str:
    member_k = getattr(model, "best_k_", getattr(model, "k", None))
    return "is learned from these rows alone" if member_k == np.inf else "rests on what the other tasks share"


def _told_by_units(model: Any, prepared: Any) -> UnitsWarning | None:
    if model.standardize:
        return None
    kept = model.coef_.any(axis=0)
    usable = np.ones_like(kept) if model.usable_ is None else model.usable_.any(axis=0)
    dropped = np.flatnonzero(~kept & usable)
    if not kept.any() or not dropped.size:
        return None
    narrowest = int(np.argmin(np.where(kept, model.feature_spread_, np.inf)))
    least = float(model.feature_spread_[narrowest])
    # a few columns mostly settle it
    if APART * prepared.spread(dropped[:3]).max() > least:
        return None
    spreads = prepared.spread(dropped)
    widest = int(np.argmax(spreads))
    if APART * spreads[widest] > least:
        return None
    names = model._feature_names()
    return UnitsWarning(
        f"The units of the columns decide which features this fit keeps: each of those kept varies at least "
        f"{APART:g} times as much as any that is dropped, such as {names[narrowest]!r} (standard deviation "
        f"{least:.3g}, kept) and {names[dropped[widest]]!r} ({spreads[widest]:.3g}, dropped). Set "
        "standardize=True, so that the penalty sees all features on one scale."
    )
