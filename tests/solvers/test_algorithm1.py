"""Algorithm 1: pass by pass the textbook, never rising, and no worse at its end."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.engines.threads import Threads
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers.algorithm1 import run_passes
from oracles import (
    INF,
    LOSSES,
    SHAPES,
    algorithm1,
    joint_objective,
    largest_null_slope,
    make_problem,
)

TEXTBOOK = [(2, 1), (2, 2), (2, 0.4), (1, 1), (1, 2), (1, 0.5)]
EVERY = [
    *TEXTBOOK, (2, 4), (2, INF), (1, INF), (1.5, 1), (1.5, 3), (1.2, 0.7), (3, 0.5), (3, 1.5), (3, 4),
    (1, "log"), (2, "log"), (1.5, "log"), (INF, 1), (INF, 0.5),
]  # fmt: skip


def passes(problem, p, k, alpha, n_passes, tol=1e-9):
    ours = problem.ours()
    penalty = make_penalty(p, k, alpha)
    return run_passes(ours, penalty, Threads(), max_iter=n_passes, tol=tol, accelerate=False)


# -- never rising ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("p", "k"), EVERY)
def test_the_objective_never_rises(p, k, loss):
    problem = make_problem(2, loss=loss, **SHAPES["ragged"])
    for strength in (0.1, 0.4):
        alpha = strength * largest_null_slope(problem) * (0.2 if k == "log" else 1.0)
        solution = problem.solve(make_penalty(p, k, alpha), solver="alternating")
        assert solution.n_iter == len(solution.history) > 1
        # inner problems are solved to a share of tol, so a rise below that is none
        assert np.all(np.diff(solution.history) <= 1e-9 * solution.history[0])
        assert_allclose(solution.history[-1], solution.objective, rtol=1e-12)
        ours = joint_objective(problem, solution.A, solution.intercept, p, k, alpha)
        assert_allclose(solution.objective, ours, rtol=1e-12)
        assert solution.history[0] > solution.objective or k == INF


# -- pass by pass ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("p", "k"), TEXTBOOK)
def test_every_pass_is_that_of_the_textbook(p, k, loss, shape):
    problem = make_problem(7, loss=loss, **SHAPES[shape])
    alpha = 0.15 * largest_null_slope(problem)
    for n_passes in (1, 2, 6):
        A, b, history = passes(problem, p, k, alpha, n_passes)
        theirs, their_b, their_history = algorithm1(problem, p, k, alpha, max_passes=n_passes)
        if make_penalty(p, k, alpha).is_convex and len(history) < n_passes:
            assert n_passes > 2  # convex members stop early and leave the rest to the rows
            continue
        assert_allclose(A, theirs, atol=1e-5 * np.abs(theirs).max())
        assert_allclose(b, their_b, atol=1e-5 * max(1.0, np.abs(their_b).max()))
        # classes of few rows are nearly separable: the loss tells the minimiser to the root of rounding only
        assert_allclose(history, their_history, rtol=1e-8 if loss == "squared" else 1e-7)
    assert np.any(A)


def test_a_feature_gone_from_the_start_does_not_return(alpha=0.5):
    problem = make_problem(2)
    ours, penalty = problem.ours(), make_penalty(2, 1, alpha)
    start = np.ones((10, 3))
    start[[0, 4]] = 0.0
    A, _, _ = run_passes(ours, penalty, Threads(), start=start, max_iter=5, tol=1e-9, accelerate=False)
    assert not np.any(A[[0, 4]]) and np.all(A[[1, 2, 3]] != 0)


@pytest.mark.parametrize("seed", [1, 4, 10])
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_may_grow_without_bound_and_without_a_warning(loss, seed):
    """Rows on their way out have weights up to the largest float; nothing may divide by what is left."""
    problem = make_problem(seed, loss=loss, sizes=(8, 5, 6), d=16)
    for strength in (0.1, 0.7):
        penalty = make_penalty(3, 0.5, strength * largest_null_slope(problem))
        solution = problem.solve(penalty, solver="alternating")
        assert np.isfinite(solution.objective)
        # a row is kept or gone: nothing in between that no one would call a coefficient
        sizes = np.abs(solution.A).max(axis=1)
        assert np.all((sizes == 0) | (sizes > 1e-6 * sizes.max()))


# -- quicker passes --------------------------------------------------------------------------------------
