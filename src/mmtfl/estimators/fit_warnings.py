"""Warnings of a fit: no convergence, tasks that are too small, features kept or dropped by their units."""

import sys
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mmtfl.errors import SmallTaskWarning, UnitsWarning
from mmtfl.wording import count, show

HANDFUL = 5  # rows; with fewer, a task says little of its own
FEW = 10  # rows; with fewer, a task without coefficients has too few rows to earn any
APART = 100.0  # times: spreads this far apart are units, not importance
MOST_NAMED = 5


def warn_of_fit(model: Any, prepared: Any, solver: str) -> None:
    """Print a line on the fit with ``verbose``, and warn of what the user should look at."""
    if model.verbose > hasattr(model, "cv"):  # searches first show how far they are
        kept = np.count_nonzero(model._uses().any(axis=0))
        print(
            f"[{type(model).__name__}] {solver}: {model.n_iter_} passes, objective {model.objective_:.6g}, "
            f"violation {model.violation_:.2e}, {kept} of {model.coef_.shape[1]} features kept",
            file=sys.stderr,
        )
    if not model.converged_:
        gap = "" if model.dual_gap_ is None else f" and a dual gap of {model.dual_gap_:.2e}"
        message = (
            f"{type(model).__name__} stopped after {model.n_iter_} passes at a violation of "
            f"{model.violation_:.2e}{gap}, short of tol={model.tol:g}. Raise max_iter (now "
            f"{model.max_iter}), loosen tol, or put the features on one scale with standardize=True."
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=5)
    for caution in (_small_tasks(model, prepared), _features_chosen_by_units(model, prepared)):
        if caution is not None:
            warnings.warn(caution, stacklevel=5)


def _small_tasks(model: Any, prepared: Any) -> SmallTaskWarning | None:
    """A warning that names tasks with too few rows to say much of their own; None if there are none."""
    rows, weights = prepared.sizes, getattr(prepared.tasks, "weights", None)
    if weights is not None and not weights.all():  # a row of weight zero does not count
        rows = np.bincount(prepared.tasks.observation_task[weights > 0], minlength=len(rows))
    is_constant = ~model._uses().any(axis=1)
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
    alone = getattr(model, "best_k_", getattr(model, "k", None)) == np.inf
    rests = "is learned from these rows alone" if alone else "rests on what the other tasks share"
    constants = ", and of a constant it is the same for all rows" if is_constant[small].any() else ""
    has, its, it = ("has", "its", "it") if len(small) == 1 else ("have", "their", "them")
    return SmallTaskWarning(
        f"{len(small)} of {len(rows)} tasks {has} too few rows to say much of {its} own: {named}{more}. "
        f"What is predicted for {it} {rests}{constants}. Merge such tasks with tasks like them, or leave "
        f"them out.{ratio}"
    )


def _features_chosen_by_units(model: Any, prepared: Any) -> UnitsWarning | None:
    """A warning that every kept feature varies far more than every dropped one; None if that is not so."""
    if model.standardize:
        return None
    kept = model._uses().any(axis=0)
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


def warn_of_one_value(tasks: Any, targets: np.ndarray) -> None:
    """Warn of tasks whose targets are all alike, rows of weight zero aside: other tasks tell their level."""
    counts = np.ones(len(targets), dtype=bool) if tasks.weights is None else tasks.weights > 0.0
    alike = []
    for t, (first, last) in enumerate(pairwise(tasks.offsets)):
        own = targets[first:last][counts[first:last]]
        if len(own) and np.all(own == own[0]):
            alike.append(f"{show(tasks.labels, t)} ({count(len(own), 'row')}, {own[0]})")
    if alike:
        more = f" and {len(alike) - MOST_NAMED} more" if len(alike) > MOST_NAMED else ""
        has, its = ("has", "its level rests") if len(alike) == 1 else ("have", "their levels rest")
        warnings.warn(
            f"{count(len(alike), 'task')} {has} one value of the target only, so that {its} on the other "
            f"tasks too: {', '.join(alike[:MOST_NAMED])}{more}.",
            UserWarning,
            stacklevel=6,
        )
