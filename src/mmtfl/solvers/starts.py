"""Where the concave members begin: several cheap starts, each followed by row descent, the lowest kept.

Concave members have many local minima and the start decides between them. Coming down from zero is the worst
of starts; docs/solvers.md has what the ones here are worth against Algorithm 1 run to the end.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mmtfl.objective.objective import Objective
from mmtfl.objective.penalties import RowPower
from mmtfl.solvers.block import RowDescent
from mmtfl.solvers.solution import Solution

_FEW_PASSES = 20
_RISING = tuple(2.0**-i for i in (3, 2.5, 2, 1.5, 1, 0.6, 0.3, 0.1))  # shares of alpha on the way up
_ROUGH = 1e-4  # accuracy on the way to a start
_CONVEX_STEPS = 4  # outer steps towards the convex solution: it is only a start
_RISING_STEPS = 20
_FEWEST = 64  # features that are tried at least
_MOST = 0.5  # share of the features above which leaving the others out saves nothing

Place = tuple[Any, Any]  # A and intercepts, either of which may be None


def best_of_starts(objective: Objective, *, start=None, max_iter: int, tol: float) -> Solution:
    """Row descent from every start; the solution with the lowest objective.

    The starts are weighed on the features that the convex problem meets on its way, which are few where
    features are many; the last descent looks at all of them.
    """
    descent = RowDescent(objective)
    convex = convex_start(objective, descent)
    features = _promising(objective, descent, start)
    if features.size > _MOST * objective.design.n_features:
        return _lowest(_starts(objective, descent, convex, start), descent, max_iter, tol)
    part = Objective(
        objective.design.restricted(features), objective.loss, objective.penalty.of_rows(features)
    )
    descent_part = RowDescent(part)
    A, intercept = convex
    starts = _starts(part, descent_part, (A[features], intercept), None if start is None else start[features])
    found = _lowest(starts, descent_part, max_iter, _ROUGH)
    A = np.zeros_like(A)
    A[features] = found.A
    return descent.solve(A, found.intercept, max_iter=max_iter, tol=tol)


def _lowest(starts: Iterator[Place], descent: RowDescent, max_iter: int, tol: float) -> Solution:
    solutions = [descent.solve(*place, max_iter=max_iter, tol=tol) for place in starts]
    return min(solutions, key=lambda solution: solution.objective)


def _promising(objective: Objective, descent: RowDescent, start) -> np.ndarray:
    """The features gathered so far, those of `start`, and the steepest at zero if these are few."""
    steepness = RowPower(objective.penalty.p, 1.0, 1.0).dual_norm(objective.null_gradient)
    chosen = np.zeros(len(steepness), dtype=bool)
    chosen[descent.working_set.features] = True
    if start is not None:
        chosen |= np.any(start != 0.0, axis=1)
    if chosen.sum() < _FEWEST:
        chosen[np.argsort(-steepness, kind="stable")[:_FEWEST]] = True
    return np.flatnonzero(chosen)


def _starts(objective: Objective, descent: RowDescent, convex: Place, start) -> Iterator[Place]:
    if start is not None:
        yield start, None
    yield convex
    if math.isinf(objective.penalty.p):
        # Algorithm 1 says nothing here: given c it asks for |a| <= c, and that a gives the same c back
        yield None, None
        return
    yield descent.rough_passes(_FEW_PASSES)
    if start is None:
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
    place = None
    try:
        for share in _RISING:
            objective.penalty = penalty.at(share * penalty.alpha)
            if place is None:
                place = dense_start(objective, descent)
            solution = descent.solve(*place, max_iter=_RISING_STEPS, tol=_ROUGH)
            place = solution.A, solution.intercept
    finally:
        objective.penalty = penalty
    assert place is not None
    return place
