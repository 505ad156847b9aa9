"""Where the concave members begin: several cheap starts, each followed by row descent, the lowest kept.

Concave members have many local minima and the start decides between them. Zero is the worst of starts;
docs/solvers.md compares those used here with Algorithm 1 run to the end.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from mmtfl.objective.design import MANY_TASKS
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.row_descent import RowDescent, Settled
from mmtfl.solvers.solution import Solution

_FEW_PASSES, _FEW_NEWTON_PASSES = 20, 40  # on one least-squares model, and where a pass is a few of them
_RISING = tuple(2.0**-i for i in (3, 2.5, 2, 1.5, 1, 0.6, 0.3, 0.1))  # shares of alpha on the way up
_ROUGH = 1e-4  # accuracy on the way to a start
_CONVEX_STEPS = 3  # outer steps towards the convex solution: it is only a start
_NULL_STEPS, _NULL_TOL = 1000, 1e-9  # of a model of the entries that are free of penalty
_ROUNDING = 1e-12  # an objective that is lower by this share is lower
_FEWEST = 64  # features that are tried at least
_MOST = 0.5  # share of the features above which leaving the others out saves nothing

Place = tuple[Any, Any]  # A and intercepts, either of which may be None


class NullModel(NamedTuple):
    """The best model without anything that is penalised: A is zero but for entries free of penalty."""

    A: np.ndarray
    intercept: np.ndarray
    value: float
    gradient: np.ndarray  # zero for the free entries


def null_model(problem: Problem, penalty: RowPenalty) -> NullModel:
    """What a problem comes to under infinite strength."""
    A = np.zeros((problem.design.n_features, problem.design.n_tasks))
    known = penalty.known
    if known is None or not known.free_rows.any():
        return NullModel(A, problem.null_intercept, problem.null_value, problem.null_gradient)
    free = replace(penalty, alpha=1.0, known=known.only_free())
    found = RowDescent(problem).solve(free, max_iter=_NULL_STEPS, tol=_NULL_TOL)
    z = problem.predict(found.A, found.intercept)
    gradient = problem.design.correlate(problem.loss_gradient(z))
    return NullModel(found.A, found.intercept, found.objective, np.where(known.scale > 0.0, gradient, 0.0))


def best_of_starts(
    problem: Problem, penalty: RowPenalty, *, start=None, max_iter: int, tol: float
) -> Solution:
    """The lowest of what row descent reaches from every start.

    The starts are compared on the features that the convex problem meets on its way, which are few where
    features are many; the last descent looks at all of them.
    """
    descent = RowDescent(problem)
    best = min(_settled(descent, penalty, start), key=lambda at: at.objective)
    problem.forget_null_gradient()  # of no use to a descent from elsewhere
    solution = descent.solve(penalty, best.A, best.intercept, max_iter=max_iter, tol=tol)
    history = np.concatenate([[best.objective_before], solution.history])
    return replace(solution, history=history, n_iter=len(history))


def is_zero_best(problem: Problem, penalty: RowPenalty, *, max_iter: int, tol: float) -> bool:
    """Whether `best_of_starts` gives A = 0; one start that ends below the objective of zero denies it."""
    descent, found, null = RowDescent(problem), [], null_model(problem, penalty)
    for at in _settled(descent, penalty, None):
        if not penalty.is_null(at.A) and at.objective < (1.0 - _ROUNDING) * null.value:
            return False
        found.append(at)
    best = min(found, key=lambda at: at.objective)
    return penalty.is_null(descent.solve(penalty, best.A, best.intercept, max_iter=max_iter, tol=tol).A)


def _settled(descent: RowDescent, penalty: RowPenalty, start) -> Iterator[Settled]:
    """Where descents over the promising features end, one after the other."""
    problem, n_features = descent.problem, descent.problem.design.n_features
    convex = convex_start(descent, penalty)
    promising, n_gathered = np.arange(n_features), descent.working_set.size
    if n_features > _FEWEST and n_gathered <= _MOST * n_features:
        # the steepest at zero, if few were gathered so far, and those of `start`
        steepness = penalty.dual_norm(problem.null_gradient)
        promising = np.argsort(-steepness, kind="stable")[: max(0, _FEWEST - n_gathered)]
        if start is not None:
            promising = np.union1d(promising, np.flatnonzero(np.any(start != 0.0, axis=1)))
    descent.gather(penalty, promising)
    for place in _starts(descent, penalty, convex, start):
        yield descent.settle(penalty, *place, tol=_ROUGH)


def _starts(descent: RowDescent, penalty: RowPenalty, convex: Place, start) -> Iterator[Place]:
    if start is not None:
        yield start, None
    yield convex
    if math.isinf(penalty.p):
        # Algorithm 1 says nothing here: given c it asks for |a| <= c, and that a gives the same c back
        yield None, None
        return
    yield descent.rough_passes(penalty, _FEW_PASSES)
    design = descent.problem.design
    if design.n_tasks > MANY_TASKS:  # dearer starts were not seen to change which rows are kept
        yield None, None
        return
    if not descent.problem.loss.is_quadratic:
        yield descent.rough_passes(penalty, _FEW_NEWTON_PASSES, follow=True)
    # rising is the dearest of all: not where features are many, nor where there is a better guess
    if start is None and descent.working_set.size == design.n_features:
        yield rising_start(descent, penalty)


def convex_start(descent: RowDescent, penalty: RowPenalty) -> Place:
    """The (2, 2) solution at the same alpha, roughly."""
    solution = descent.solve(penalty.convex(), max_iter=_CONVEX_STEPS, tol=10 * _ROUGH)
    return solution.A, solution.intercept


def dense_start(descent: RowDescent, penalty: RowPenalty) -> Place:
    """The first pass of Algorithm 1 (one well-posed problem per task); at p = inf the convex solution."""
    if math.isinf(penalty.p):
        return convex_start(descent, penalty)
    return descent.rough_passes(penalty, 1)


def rising_start(descent: RowDescent, penalty: RowPenalty) -> Place:
    """From a dense start at a small alpha up towards the one asked for; p is finite."""
    place: Place = descent.rough_passes(penalty.at(_RISING[0] * penalty.alpha), 1)
    for share in _RISING:
        place = descent.settle(penalty.at(share * penalty.alpha), *place, tol=_ROUGH)[:2]
    return place
