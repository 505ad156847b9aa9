"""Where the concave members begin: several cheap starts, each followed by row descent, the lowest kept.

Concave members have many local minima and the start decides between them. Coming down from zero is the worst
of starts; docs/solvers.md has what the ones here are worth against Algorithm 1 run to the end.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mmtfl.objective.objective import Objective
from mmtfl.objective.penalties import RowPower
from mmtfl.solvers.block import RowDescent
from mmtfl.solvers.solution import Solution

_FEW_PASSES = 20
_RISING = tuple(2.0**-i for i in (3, 2.5, 2, 1.5, 1, 0.6, 0.3, 0.1))  # shares of alpha on the way up
_ROUGH = 1e-4  # accuracy on the way to a start
_CONVEX_STEPS = 3  # outer steps towards the convex solution: it is only a start
_FEWEST = 64  # features that are tried at least
_MOST = 0.5  # share of the features above which leaving the others out saves nothing

Place = tuple[Any, Any]  # A and intercepts, either of which may be None


def best_of_starts(objective: Objective, *, start=None, max_iter: int, tol: float) -> Solution:
    """The lowest of what row descent reaches from every start.

    The starts are weighed on the features that the convex problem meets on its way, which are few where
    features are many; the last descent looks at all of them.
    """
    descent = RowDescent(objective)
    convex = convex_start(objective, descent)
    descent.working_set.add(_promising(objective, descent, start))
    places = _starts(objective, descent, convex, start)
    best = min((descent.settle(*place, tol=_ROUGH) for place in places), key=lambda at: at.objective)
    solution = descent.solve(best.A, best.intercept, max_iter=max_iter, tol=tol)
    history = np.concatenate([[best.objective_before], solution.history])
    return replace(solution, history=history, n_iter=len(history))


def _promising(objective: Objective, descent: RowDescent, start) -> np.ndarray:
    """Features to weigh starts on: those of `start`, and the steepest at zero if few were gathered so far."""
    n_features, n_gathered = objective.design.n_features, descent.working_set.size
    if n_features <= _FEWEST or n_gathered > _MOST * n_features:
        return np.arange(n_features)
    steepness = RowPower(objective.penalty.p, 1.0, 1.0).dual_norm(objective.null_gradient)
    chosen = np.argsort(-steepness, kind="stable")[: max(0, _FEWEST - n_gathered)]
    return chosen if start is None else np.union1d(chosen, np.flatnonzero(np.any(start != 0.0, axis=1)))


def _starts(objective: Objective, descent: RowDescent, convex: Place, start) -> Iterator[Place]:
    if start is not None:
        yield start, None
    yield convex
    if math.isinf(objective.penalty.p):
        # Algorithm 1 says nothing here: given c it asks for |a| <= c, and that a gives the same c back
        yield None, None
        return
    yield descent.rough_passes(_FEW_PASSES)
    # rising is the dearest of the three: not where features are many, nor where there is a better guess
    if start is None and descent.working_set.size == objective.design.n_features:
        yield rising_start(objective, descent)


def convex_start(objective: Objective, descent: RowDescent, max_iter: int = _CONVEX_STEPS) -> Place:
    """The (2, 2) solution at the same alpha, roughly."""
    descent.objective = Objective(objective.design, objective.loss, RowPower(2, objective.penalty.alpha, 2))
    descent.objective.__dict__["null_gradient"] = objective.null_gradient
    try:
        solution = descent.solve(max_iter=max_iter, tol=10 * _ROUGH)
        return solution.A, solution.intercept
    finally:
        descent.objective = objective


def dense_start(objective: Objective, descent: RowDescent) -> Place:
    """The first pass of Algorithm 1 (one well-posed problem per task); at p = inf the convex solution."""
    if math.isinf(objective.penalty.p):
        return convex_start(objective, descent)
    return descent.rough_passes(1)


def rising_start(objective: Objective, descent: RowDescent) -> Place:
    """From a dense start at a small alpha up towards the one asked for."""
    penalty = objective.penalty
    place: Place = (None, None)
    try:
        for share in _RISING:
            objective.penalty = penalty.at(share * penalty.alpha)
            if share == _RISING[0]:
                place = dense_start(objective, descent)
            place = descent.settle(*place, tol=_ROUGH)[:2]
    finally:
        objective.penalty = penalty
    return place
