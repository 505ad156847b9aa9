"""Agreement: with a conic solver, with scikit-learn, between our solvers, storages, threads and engines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import MultiTaskLasso

from mmtfl.engines.threads import Threads
from mmtfl.objective.penalties import make_penalty
from mmtfl.tasks import Tasks
from oracles import (
    EVERY_LOSS,
    INF,
    LOSSES,
    SHAPES,
    Problem,
    conic_optimum,
    joint_objective,
    largest_null_slope,
    make_problem,
    solve,
)

SOLVERS = ["alternating", "block"]  # "auto" is one of them
CONVEX = [(2, 2, 0), (INF, 1, 0), (3, 1.5, 0), (2, INF, 0), (1, INF, 0), (2, 4, 0), (1.5, 3, 0), (INF, 2, 0)]
CONVEX += [(2, 2, 0.4), (2, INF, 0.9), (1, INF, 0.9), (2, 4, 0.9)]


# -- with a conic solver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("p", "k", "pooling"), CONVEX)
def test_convex_members_reach_the_conic_optimum(p, k, pooling, loss, shape):
    problem = make_problem(3, loss=loss, **SHAPES[shape])
    alpha = 0.25 * largest_null_slope(problem)
    optimum, _, _ = conic_optimum(problem, p, k, alpha, pooling)
    null = joint_objective(
        problem, np.zeros((problem.n_features, problem.n_tasks)), np.zeros(problem.n_tasks), p, k, 1
    )
    assert optimum < 0.99 * null  # the optimum is not the trivial one
    for solver in SOLVERS:
        solution = problem.solve(make_penalty(p, k, alpha, pooling=pooling), solver=solver)
        assert solution.converged
        ours = joint_objective(problem, solution.A, solution.intercept, p, k, alpha, pooling=pooling)
        assert_allclose(solution.objective, ours, rtol=1e-12)
        assert_allclose(ours, optimum, rtol=1e-6)
        # the gap bounds what is left above the minimum (both numbers carry the tolerance of their solver)
        assert solution.dual_gap >= ours - optimum - 1e-8 * optimum
        assert solution.dual_gap <= 1e-5 * ours


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("p", "k"), [(2, 2), (INF, 1), (3, 1.5), (1, INF), (2, 4), (2, INF)])
def test_the_gap_bounds_the_distance_to_the_minimum_when_stopped_early(p, k, loss):
    problem = make_problem(6, loss=loss, sizes=(8, 5, 6), d=16)
    alpha = 0.05 * largest_null_slope(problem)
    optimum, _, _ = conic_optimum(problem, p, k, alpha)
    for max_iter in (1, 2, 3):
        solution = problem.solve(make_penalty(p, k, alpha), solver="block", max_iter=max_iter, tol=1e-9)
        above = solution.objective - optimum
        if max_iter == 1:
            assert above > 1e-3 * optimum and not solution.converged
        # the bound needs optimal intercepts, which Newton's method for other losses brings step by step
        slack = {"squared": 1e-7, "huber": 0.02}.get(loss, 1e-3)
        assert solution.dual_gap >= above - slack * optimum


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("p", "k"), [(2, 4), (3, 4), (1.5, INF), (INF, 2), (2, INF), (2, 2)])
def test_columns_of_very_different_size_do_not_stop_short(p, k, loss, solver):
    """Where no row is dropped, the rows of small columns have small slopes and still matter to the gap."""
    for seed in (3, 4):
        base = make_problem(seed, loss=loss, sizes=(8, 6), d=20)
        size = np.exp(2 * np.random.default_rng(seed).normal(size=20))
        problem = Problem(tuple(X * size for X in base.X), base.y, loss)
        alpha = 0.3 * largest_null_slope(problem)
        solution = problem.solve(make_penalty(p, k, alpha), solver=solver)
        assert solution.converged and solution.n_iter < 300
        assert solution.dual_gap <= 1e-6 * solution.objective  # which bounds the distance to the minimum


def test_what_is_solved_at_once_is_converged():
    """Ridge on two rows is exact after one pass: nothing moves any more, and that is no failure."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tasks = Tasks.from_rows(rng.normal(size=(2, 1)), rng.normal(size=2))
        assert solve(tasks, LOSSES["squared"], make_penalty(2, INF, 0.3)).converged


# -- with scikit-learn -----------------------------------------------------------------------------------


def shared_data(seed=0, n=30, d=12, n_tasks=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 0.5
    W = np.zeros((d, n_tasks))
    W[:4] = rng.normal(size=(4, n_tasks))
    return X, X @ W + rng.normal(size=(n, n_tasks)) + np.arange(n_tasks)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(30, 12), (12, 40)])
def test_a_shared_design_gives_the_multitask_lasso(shape, fit_intercept):
    X, Y = shared_data(n=shape[0], d=shape[1])
    for alpha in (0.05, 0.4):
        reference = MultiTaskLasso(alpha, fit_intercept=fit_intercept, tol=1e-12, max_iter=100_000).fit(X, Y)
        residual = Y - reference.predict(X)
        theirs = 0.5 * np.sum(residual**2) / len(X) + alpha * np.linalg.norm(reference.coef_, axis=0).sum()
        for solver in SOLVERS:
            options = {"solver": solver, "fit_intercept": fit_intercept, "tol": 1e-9}
            solution = solve(Tasks.from_shared(X, Y), LOSSES["squared"], make_penalty(2, 2, alpha), **options)
            assert_allclose(solution.objective, theirs, rtol=1e-8)
        assert_allclose(solution.A.T, reference.coef_, atol=1e-5)
        assert_allclose(solution.intercept, reference.intercept_ + np.zeros(4), atol=1e-5)
        assert 0 < np.count_nonzero(np.any(solution.A, axis=1)) < shape[1] or alpha < 0.1


# -- threads and engines ---------------------------------------------------------------------------------


BITS = [(p, k, 0, "squared") for p, k in ((2, 2), (2, 1), (1, 1), (2, INF), (INF, 1))]
BITS += [(2, 1, 0, "logistic"), (1, 1, 0, "logistic"), (2, 1, 0.9, "squared"), (2, 1, 0.9, "logistic")]


def same_bits(one, other):
    assert_array_equal(one.A, other.A)
    assert_array_equal(one.intercept, other.intercept)
    assert_array_equal(one.history, other.history)
    assert one.objective == other.objective and one.solver == other.solver


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("p", "k", "pooling", "loss"), BITS)
def test_same_bits_for_any_number_of_threads_and_with_an_engine(p, k, pooling, loss, solver):
    problem = make_problem(1, loss=loss, sizes=(8, 5, 6), d=16)
    for share in (0.4, 0.2):
        penalty = make_penalty(p, k, share * largest_null_slope(problem), pooling=pooling)
        one = problem.solve(penalty, solver=solver, n_jobs=1, max_iter=60)
        assert np.any(one.A)
        for other in ({"n_jobs": 2}, {"engine": Threads(3)}):
            same_bits(one, problem.solve(penalty, solver=solver, max_iter=60, **other))


TOL = 1e-8


def run(problem, p, k, alpha, **options):
    return problem.solve(make_penalty(p, k, alpha), tol=TOL, **options)


# -- a duplicated task -----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("p", "k"), [(2, 2), (INF, 1), (3, 1.5), (2, INF), (1, INF), (2, 4), (2, 1), (1.5, 1)]
)
def test_a_duplicated_task_is_one_task_at_another_alpha(p, k, loss):
    """Two equal columns have twice the loss and twice S: 2^(1-e) alpha gives twice the one-task problem."""
    one = make_problem(5, loss=loss, sizes=(40,), d=6)
    two = Problem(one.X * 2, one.y * 2, loss)
    alpha = 0.3 * largest_null_slope(one)
    e = 1.0 if np.isinf(k) else 0.0 if np.isinf(p) else k / (p + k)
    alone, twice = run(one, p, k, alpha), run(two, p, k, alpha * 2 ** (1 - e))
    assert np.any(alone.A)
    assert_allclose(twice.A[:, 0], twice.A[:, 1], atol=1e-5)
    assert_allclose(twice.A[:, :1], alone.A, atol=1e-5)
    assert_allclose(twice.objective, 2 * alone.objective, rtol=1e-8)


# -- one task --------------------------------------------------------------------------------------------


# -- columns ---------------------------------------------------------------------------------------------
