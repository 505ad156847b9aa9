"""Where the concave members begin: several cheap starts, each followed by row descent, the lowest kept.

Concave members have many local minima and the start decides between them. Coming down from zero is the worst
of starts; docs/model.md section 6 has what the ones here are worth against Algorithm 1 run to the end.
"""

import math
from collections.abc import Iterator

import numpy as np

from mmtfl.engine.base import Engine
from mmtfl.objective.objective import Objective
from mmtfl.objective.penalties import RowPower
from mmtfl.solvers.alternating import run_passes
from mmtfl.solvers.block import RowDescent
from mmtfl.solvers.solution import Solution

_FEW_PASSES = 20
_RISING = tuple(2.0**-i for i in (3, 2.5, 2, 1.5, 1, 0.6, 0.3, 0.1))  # shares of alpha on the way up
_ROUGH = 1e-4  # accuracy on the way to a start
_ROUGH_STEPS = 50


def best_of_starts(
    objective: Objective, engine: Engine, *, start=None, max_iter: int, tol: float
) -> Solution:
    """Row descent from every start; the solution with the lowest objective."""
    descent = RowDescent(objective)
    solutions = [
        descent.solve(A, intercept, max_iter=max_iter, tol=tol)
        for A, intercept in _starts(objective, descent, engine, start, max_iter)
    ]
    return min(solutions, key=lambda solution: solution.objective)


def _starts(
    objective: Objective, descent: RowDescent, engine: Engine, start, max_iter: int
) -> Iterator[tuple]:
    if start is not None:
        yield start, None
    convex = convex_start(objective, descent, max_iter)
    yield convex.A, convex.intercept
    if math.isinf(objective.penalty.p):
        # Algorithm 1 says nothing here: given c it asks for |a| <= c, and that a gives the same c back
        yield None, None
        return
    yield rough_passes(objective, engine, _FEW_PASSES)
    if start is None:
        yield _rising_start(objective, descent, engine, max_iter)


def convex_start(objective: Objective, descent: RowDescent, max_iter: int) -> Solution:
    """The (2, 2) solution at the same alpha."""
    descent.objective = Objective(objective.design, objective.loss, RowPower(2, objective.penalty.alpha, 2))
    try:
        return descent.solve(max_iter=max_iter, tol=10 * _ROUGH)
    finally:
        descent.objective = objective


def dense_start(objective: Objective, descent: RowDescent, engine: Engine, max_iter: int) -> tuple:
    """The first pass of Algorithm 1 (one well-posed problem per task); at p = inf the convex solution."""
    if math.isinf(objective.penalty.p):
        convex = convex_start(objective, descent, max_iter)
        return convex.A, convex.intercept
    return rough_passes(objective, engine, 1)


def rough_passes(objective: Objective, engine: Engine, n_passes: int) -> tuple:
    """A and intercepts after some passes of Algorithm 1, not solved to the last digit.

    Weighted ridge has a direct answer per task. Other tasks' problems are one problem of rows that do not
    meet (k = inf), solved at once: thousands of small tasks then cost no more than their data.
    """
    penalty = objective.penalty
    if penalty.p == 2.0 and objective.loss.is_quadratic:
        return run_passes(objective, engine, max_iter=n_passes, tol=_ROUGH)[:2]
    n_features = objective.design.n_features
    weights = np.array(np.broadcast_to(np.asarray(penalty.start_weight(), dtype=float), n_features))
    separable = Objective(objective.design, objective.loss, RowPower(penalty.p, weights, math.inf))
    descent = RowDescent(separable)
    last = descent.solve(max_iter=_ROUGH_STEPS, tol=_ROUGH)
    for _ in range(n_passes - 1):
        weights = penalty.weights(last.A)
        separable.penalty = RowPower(penalty.p, weights, math.inf)
        A = np.where(np.isinf(weights)[:, None], 0.0, last.A)
        new = descent.solve(A, last.intercept, max_iter=_ROUGH_STEPS, tol=_ROUGH)
        change, last = np.abs(new.A - last.A).max(), new
        if change <= _ROUGH * np.abs(last.A).max():
            break
    return last.A, last.intercept


def _rising_start(objective: Objective, descent: RowDescent, engine: Engine, max_iter: int) -> tuple:
    """From a dense start at a small alpha up towards the one asked for."""
    penalty = objective.penalty
    place = None
    try:
        for share in _RISING:
            objective.penalty = penalty.at(share * penalty.alpha)
            if place is None:
                place = dense_start(objective, descent, engine, max_iter)
            solution = descent.solve(*place, max_iter=max_iter, tol=_ROUGH)
            place = solution.A, solution.intercept
    finally:
        objective.penalty = penalty
    assert place is not None
    return place
