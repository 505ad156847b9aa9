"""Groups of features whose tasks scatter about common parts: with a conic solver, by hand, by brute force."""

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.row_sizes import centred_norms, common_weight
from mmtfl.solvers.path import alpha_max
from oracles import INF, LOSSES, largest_null_slope, loss_gradient, make_problem, problem_of, solve

GROUPS = np.array([0, 1, 1, 2, 3, 3, 3, 4, 5, 5])
WEIGHTS = {
    "alike": np.ones(10),
    "weights": np.array([1.0, 0.5, 2.0, 0.0, 1.0, 3.0, 0.4, INF, 1.0, 1.5]),
}
THETA = 0.9


def known_of(kind):
    return KnownFeatures(np.repeat(WEIGHTS[kind][:, None], 3, axis=1), GROUPS < 0, GROUPS)


def power_of(p, k):
    return p * k / (p + k)


def by_hand(A, p, k, kind):
    """Eq. (15) with S of eq. (11), and the scales of eq. (14)."""
    r, total = power_of(p, k), 0.0
    scale = np.where(np.isinf(WEIGHTS[kind]), 0.0, WEIGHTS[kind]) ** (1.0 / r)
    S = centred_norms(A * scale[:, None], p, THETA) ** p
    for group in np.unique(GROUPS):
        size = np.count_nonzero(group == GROUPS)
        total += size ** (1.0 - r / p) * S[group == GROUPS].sum() ** (r / p)
    return total


def conic(problem, k, alpha, kind):
    """The minimum at p = 2 by a conic solver, the common parts as variables of their own."""
    A, b, m = cp.Variable((10, 3)), cp.Variable(3), cp.Variable((10, 1))
    r, root = power_of(2, k), np.sqrt(common_weight(THETA, 3))
    weight, total = WEIGHTS[kind], 0.0
    scale = np.where(np.isinf(weight), 0.0, weight) ** (1.0 / r)
    for group in np.unique(GROUPS):
        rows = np.flatnonzero(group == GROUPS)
        parts = cp.hstack([A[rows] - m[rows] @ np.ones((1, 3)), root * m[rows]])
        norm = cp.norm(cp.vec(cp.multiply(scale[rows][:, None], parts), order="C"), 2)
        total += alpha * len(rows) ** (1.0 - r / 2) * (norm if r == 1.0 else cp.power(norm, r))
    for t, (X, y, w) in enumerate(zip(problem.X, problem.y, problem.row_weights, strict=True)):
        z = X @ A[:, t] + b[t]
        if problem.loss == "squared":
            total += 0.5 * cp.sum_squares(cp.multiply(np.sqrt(w), y - z))
        else:
            total += w @ cp.logistic(cp.multiply(-y, z))
    fixed = [A[j] == 0.0 for j in np.flatnonzero(np.isinf(weight))]
    fixed += [m[j] == 0.0 for j in np.flatnonzero(scale == 0.0)]
    found = cp.Problem(cp.Minimize(total), fixed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        found.solve(solver=cp.CLARABEL)
    return found.value


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 4), (2, 1), (1, 1), (1, 2)])
def test_the_value_is_the_formula(p, k, kind):
    A = np.random.default_rng(0).normal(size=(10, 3)) + 1.0
    A[np.isinf(WEIGHTS[kind])] = 0.0
    penalty = make_penalty(p, k, 0.7, pooling=THETA, known=known_of(kind))
    assert_allclose(penalty.value(A), 0.7 * by_hand(A, p, k, kind), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("k", [2, 4])
def test_convex_members_reach_the_conic_optimum(k, loss, kind):
    problem = make_problem(3, loss=loss, sizes=(24, 19, 31))
    alpha = 0.1 * largest_null_slope(problem)
    penalty = make_penalty(2, k, alpha, pooling=THETA, known=known_of(kind))
    for solver in ("block", "alternating"):
        found = solve(problem.tasks, LOSSES[loss], penalty, tol=1e-9, solver=solver)
        assert abs(found.objective - conic(problem, k, alpha, kind)) < 1e-6 * found.objective
    kept = found.A.any(axis=1)
    assert kept.any()
    if kind == "alike":
        assert all(len(set(kept[group == GROUPS])) == 1 for group in range(6))
        assert found.dual_gap < 1e-6 * found.objective


@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 1), (2, "log"), (1, 1), (1, 2), (1, "log")])
def test_a_block_is_solved_as_brute_force_solves_it(p, k):
    """Two rows of three tasks that share one penalty; many starts compete, and zero."""
    rng = np.random.default_rng(7)
    kept = 0
    for _ in range(12):
        L = np.exp(rng.normal(size=(2, 3)))
        g = (rng.normal(size=(2, 3)) + rng.normal(size=(2, 1))) * L
        alpha = rng.choice([0.1, 0.4]) * np.abs(g).max() * (0.1 if k == "log" else 1.0)
        known = KnownFeatures(np.ones((2, 3)), np.zeros(2, dtype=bool), np.zeros(2, dtype=int))
        penalty = make_penalty(p, k, alpha, pooling=THETA, known=known)

        def value(a, g=g, L=L, penalty=penalty):
            A = a.reshape(2, 3)
            return float(np.sum(L / 2 * A**2 - g * A)) + penalty.value(A)

        found = penalty.solve_rows(g, L)
        starts = [g / L, 0.5 * g / L, np.repeat((g / L).mean(axis=1)[:, None], 3, axis=1)]
        options = {"xatol": 1e-8, "fatol": 1e-11, "maxiter": 4000, "maxfev": 4000}
        least = min(
            optimize.minimize(value, start.ravel(), method="Nelder-Mead", options=options).fun
            for start in starts
        )
        assert value(found.ravel()) <= min(least, 0.0) + 1e-6 * max(abs(least), 1e-3)
        kept += found.any()
    assert kept > 3


@pytest.mark.parametrize("loss", LOSSES)
def test_the_concave_member_meets_its_conditions_by_hand(loss):
    """At (2, 1): slope + alpha |G|^(1-e) 2e S^(e-1) (a - m) = 0 on kept groups, S being that of the group."""
    problem = make_problem(3, loss=loss, sizes=(24, 19, 31))
    alpha, e = 0.05 * largest_null_slope(problem), 1.0 / 3.0
    penalty = make_penalty(2, 1, alpha, pooling=THETA, known=known_of("alike"))
    found = solve(problem.tasks, LOSSES[loss], penalty, tol=1e-10)
    G, slope_b = loss_gradient(problem, found.A, found.intercept)
    m = found.A.sum(axis=1, keepdims=True) / (3 + common_weight(THETA, 3))
    S = centred_norms(found.A, 2.0, THETA) ** 2
    kept = found.A.any(axis=1)
    assert 0 < kept.sum() < 10
    for group in np.unique(GROUPS[kept]):
        rows = group == GROUPS
        pull = 2 * e * rows.sum() ** (1 - e) * S[rows].sum() ** (e - 1) * (found.A - m)[rows]
        assert_allclose(G[rows] + alpha * pull, 0.0, atol=1e-7 * largest_null_slope(problem))
    assert_allclose(slope_b, 0.0, atol=1e-7)


def test_a_level_that_a_task_lacks_has_the_common_part_there():
    problem = make_problem(3, sizes=(24, 19, 31))
    X = [x.copy() for x in problem.X]
    X[1][:, 5] = 0.0
    tasks = replace(problem.tasks, X=np.concatenate(X))
    penalty = make_penalty(2, 2, 0.02 * largest_null_slope(problem), pooling=THETA, known=known_of("alike"))
    found = solve(tasks, LOSSES["squared"], penalty, tol=1e-10)
    assert found.A[5].all()
    assert_allclose(found.A[5, 1], penalty.common_part(found.A)[5], rtol=1e-6)


@pytest.mark.parametrize("k", [2, 1])
def test_zero_is_the_answer_exactly_from_alpha_max_up(k):
    problem = make_problem(3, sizes=(24, 19, 31))
    penalty = make_penalty(2, k, 1.0, pooling=THETA, known=known_of("alike"))
    top = alpha_max(problem_of(problem.tasks, LOSSES["squared"]), penalty)
    for share, null in ((1.001, True), (0.98, False)):
        found = solve(problem.tasks, LOSSES["squared"], penalty.at(share * top), tol=1e-9)
        assert penalty.is_null(found.A) == null
