"""Weights, signs and groups of features: with a conic solver, by hand, and between our own ways."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.norms import EntryNorm, RowNorm, TwoNorms
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers.path import Paths, alpha_max, solve_path
from mmtfl.solvers.strengths import solve_additive
from oracles import INF, LOSSES, largest_null_slope, loss_gradient, make_problem, problem_of, solve

CONVEX = [(2, 2), (1, INF), (2, INF), (1.5, 3), (INF, 1)]
GROUPS = np.array([0, 1, 1, 2, 3, 3, 3, 4, 5, 5])
ALONE = np.arange(10)
SIGNS = np.isin(ALONE, (2, 4, 8))


def weights_of_all_kinds():
    """(features, tasks): whole features free and left out, single entries too, all others of their own."""
    weight = np.random.default_rng(5).uniform(0.4, 2.5, size=(10, 3))
    weight[0], weight[7], weight[3, 1], weight[5, 2] = 0.0, INF, 0.0, INF
    return weight


KINDS = {
    "weights": (np.repeat(weights_of_all_kinds()[:, :1], 3, axis=1), ~SIGNS & False, ALONE),
    "entries": (weights_of_all_kinds(), ~SIGNS & False, ALONE),
    "signs": (np.ones((10, 3)), SIGNS, ALONE),
    "groups": (np.ones((10, 3)), ~SIGNS & False, GROUPS),
    "all": (weights_of_all_kinds(), SIGNS, GROUPS),
}


def known_of(kind):
    weight, positive, groups = KINDS[kind]
    return KnownFeatures(weight, positive, None if groups is ALONE else groups)


def row_power(p, k):
    return p if np.isinf(k) else k if np.isinf(p) else p * k / (p + k)


def conic(problem, p, k, alpha, kind):
    """The minimum by a conic solver."""
    weight, positive, groups = KINDS[kind]
    A, b = cp.Variable((10, 3)), cp.Variable(3)
    r = row_power(p, k)
    scale = np.where(np.isinf(weight), 0.0, weight) ** (1.0 / r)
    total = 0.0
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        row = cp.vec(cp.multiply(scale[rows], A[rows]), order="C")
        norm = cp.norm_inf(row) if np.isinf(p) else cp.pnorm(row, p)
        factor = len(rows) ** (1.0 - (0.0 if np.isinf(p) else r / p))
        total += alpha * factor * (norm if abs(r - 1.0) < 1e-12 else cp.power(norm, r))
    for t, (X, y, w) in enumerate(zip(problem.X, problem.y, problem.row_weights, strict=True)):
        z = X @ A[:, t] + b[t]
        squared = problem.loss == "squared"
        total += 0.5 * cp.sum_squares(cp.multiply(np.sqrt(w), y - z)) if squared else 0.0
        total += 0.0 if squared else w @ cp.logistic(cp.multiply(-y, z))
    fixed = [A[j, t] == 0.0 for j, t in np.argwhere(np.isinf(weight))]
    signs = [A[j] >= 0.0 for j in np.flatnonzero(positive)]
    found = cp.Problem(cp.Minimize(total), fixed + signs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        found.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return found.value


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("p", "k"), CONVEX)
@pytest.mark.parametrize("kind", KINDS)
def test_convex_members_reach_the_conic_optimum(p, k, loss, kind):
    problem = make_problem(3, loss=loss, sizes=(24, 19, 31))
    alpha = 0.1 * largest_null_slope(problem)
    found = solve(problem.tasks, LOSSES[loss], make_penalty(p, k, alpha, known=known_of(kind)), tol=1e-9)
    weight, positive, _ = KINDS[kind]
    assert found.converged
    assert abs(found.objective - conic(problem, p, k, alpha, kind)) < 1e-6 * abs(found.objective)
    assert not found.A[np.isinf(weight)].any() and (found.A[positive] >= 0.0).all()
    if (weight == 0.0).any():
        assert found.A[weight == 0.0].all() and found.dual_gap is None


def test_what_is_forbidden_has_an_infinite_value():
    penalty, A = make_penalty(2, 2, 1.0, known=known_of("all")), np.zeros((10, 3))
    A[7, 0] = 1.0
    assert penalty.value(A) == INF
    A[7, 0], A[2, 0] = 0.0, -1.0
    assert penalty.value(A) == INF
    assert penalty.value(penalty.feasible(A)) == 0.0


@pytest.mark.parametrize("loss", LOSSES)
def test_the_concave_member_meets_its_conditions_by_hand(loss):
    """At (2, 1): slope + alpha r s^2 a / ||s a||^(2 - r) = 0 where penalised, zero slope where free."""
    problem = make_problem(3, loss=loss, sizes=(24, 19, 31))
    alpha, (weight, _, _) = 0.05 * largest_null_slope(problem), KINDS["entries"]
    penalty = make_penalty(2, 1, alpha, known=known_of("entries"))
    found = solve(problem.tasks, LOSSES[loss], penalty, tol=1e-10)
    G, slope_b = loss_gradient(problem, found.A, found.intercept)
    r, scale = 2.0 / 3.0, np.where(np.isinf(weight), 0.0, weight) ** 1.5
    norms = np.linalg.norm(scale * found.A, axis=1, keepdims=True)
    kept = norms[:, 0] > 0.0
    assert 0 < kept.sum() < 9
    pull = np.zeros_like(G)
    pull[kept] = alpha * r * (scale**2 * found.A)[kept] * norms[kept] ** (r - 2.0)
    of_interest = np.isfinite(weight) & (kept[:, None] | (weight == 0.0))
    assert_allclose((G + pull)[of_interest], 0.0, atol=1e-7 * largest_null_slope(problem))
    assert_allclose(slope_b, 0.0, atol=1e-7)


@pytest.mark.parametrize(("p", "k"), [(2, 1), (1, 1), (2, "log"), (1, 2), (INF, 0.5)])
@pytest.mark.parametrize("kind", ["entries", "signs", "groups", "all"])
def test_concave_members_end_where_no_group_would_move(p, k, kind):
    problem = make_problem(3, sizes=(24, 19, 31))
    known = known_of(kind)
    penalty = make_penalty(p, k, 0.05 * largest_null_slope(problem), known=known)
    found = solve(problem.tasks, LOSSES["squared"], penalty, tol=1e-9)
    assert found.converged and known.allows(found.A)
    kept = penalty.norms(found.A) > 0.0
    if known.groups is not None:
        assert all(len(set(kept[group == GROUPS])) == 1 for group in range(6))


def test_groups_share_one_c_in_the_product_form():
    """Eliminating a c that the rows of a group share gives the penalty of the group; eq. (15)."""
    A = np.abs(np.random.default_rng(0).normal(size=(10, 3)))
    for p, k in [(2, 2), (2, 1), (1, 2), (1.5, 3)]:
        penalty = make_penalty(p, k, 1.0, known=known_of("groups"))
        c = penalty.shared_part(A)
        assert all(len(set(c[group == GROUPS])) == 1 for group in range(6))
        gamma = 1.0 / ((p / k) ** (k / (p + k)) * (p + k) / p)
        value = gamma * (np.sum((A / c[:, None]) ** p) + np.sum(c**k))
        assert_allclose(value, penalty.value(A), rtol=1e-12)
        worse = c * np.where(GROUPS == 3, 1.1, 1.0)
        assert gamma * (np.sum((A / worse[:, None]) ** p) + np.sum(worse**k)) > value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("p", "k"), [(2, 2), (1.5, 3), (INF, 1)])
def test_zero_is_the_answer_exactly_from_alpha_max_up(p, k, kind):
    problem = make_problem(3, sizes=(24, 19, 31))
    ours = problem_of(problem.tasks, LOSSES["squared"])
    penalty = make_penalty(p, k, 1.0, known=known_of(kind))
    top = alpha_max(ours, penalty)
    for share, null in ((1.0001, True), (0.99, False)):
        found = solve(problem.tasks, LOSSES["squared"], penalty.at(share * top), tol=1e-9)
        assert penalty.is_null(found.A) == null


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, INF), (1, INF)])
def test_algorithm_1_row_descent_and_paths_agree(p, k, kind):
    problem = make_problem(3, sizes=(24, 19, 31))
    ours = problem_of(problem.tasks, LOSSES["squared"])
    alpha = 0.1 * largest_null_slope(problem)
    penalty = make_penalty(p, k, alpha, known=known_of(kind))
    block, passes = (
        solve(problem.tasks, LOSSES["squared"], penalty, tol=1e-10, solver=solver)
        for solver in ("block", "alternating")
    )
    assert_allclose(passes.A, block.A, atol=1e-6)
    grid = np.array([2.0 * alpha, alpha])
    for path in (
        solve_path(ours, penalty, grid, tol=1e-10),
        Paths(ours).solve(penalty, grid, max_iter=1000, tol=1e-8),
    ):
        assert_allclose(path.coef(1).T, block.A, atol=1e-5)


def test_whole_features_have_weights_with_pooling_too():
    problem = make_problem(3, sizes=(24, 19, 31))
    weight = np.repeat(np.array([0.0, INF, 2.0, 0.5, 1, 1, 1, 3, 1, 1])[:, None], 3, axis=1)
    known, alpha = KnownFeatures(weight, SIGNS & False), 0.05 * largest_null_slope(problem)
    found = solve(
        problem.tasks, LOSSES["squared"], make_penalty(2, 2, alpha, pooling=0.9, known=known), tol=1e-9
    )
    # the same with the columns divided by the weights instead; a free one is all but free
    scale = np.where(weight[:, 0] == 0.0, 1e-7, np.where(np.isinf(weight[:, 0]), 1e7, weight[:, 0]))
    plain = make_penalty(2, 2, alpha, pooling=0.9)
    scaled = solve(problem.tasks, LOSSES["squared"], plain, column_scale=scale, tol=1e-9)
    assert_allclose(found.A, scaled.A / scale[:, None], atol=1e-5)
    with pytest.raises(ValueError, match="pooling goes with groups and weights of features"):
        make_penalty(2, 2, 1.0, pooling=0.9, known=known_of("signs"))


@pytest.mark.parametrize("p", [2.0, INF])
def test_the_dirty_model_with_weights_reaches_the_conic_optimum(p):
    problem = make_problem(3, sizes=(24, 19, 31))
    (weight, positive, _), top = KINDS["all"], largest_null_slope(problem)
    norms = TwoNorms(RowNorm(0.1 * top, p), EntryNorm(0.06 * top), KnownFeatures(weight, positive))
    found = solve_additive(problem_of(problem.tasks, LOSSES["squared"]), norms, tol=1e-9)
    scale = np.where(np.isinf(weight), 0.0, weight)
    P, Q, b = cp.Variable((10, 3)), cp.Variable((10, 3)), cp.Variable(3)
    seen, total = cp.multiply(scale, P), 0.06 * top * cp.sum(cp.abs(cp.multiply(scale, Q)))
    total += 0.1 * top * sum((cp.norm2 if p == 2.0 else cp.norm_inf)(seen[j]) for j in range(10))
    for t, (X, y, w) in enumerate(zip(problem.X, problem.y, problem.row_weights, strict=True)):
        total += 0.5 * cp.sum_squares(cp.multiply(np.sqrt(w), y - X @ (P + Q)[:, t] - b[t]))
    fixed = [(P + Q)[j, t] == 0.0 for j, t in np.argwhere(np.isinf(weight))]
    signs = [(P + Q)[j] >= 0.0 for j in np.flatnonzero(positive)]
    conic = cp.Problem(cp.Minimize(total), fixed + signs)
    conic.solve(solver=cp.CLARABEL)
    assert found.converged
    assert abs(found.objective - conic.value) < 1e-6 * conic.value
    assert found.specific.any() and found.shared.any()
    assert_allclose(found.objective - found.loss, norms.value(found.shared, found.specific), rtol=1e-9)
    assert_array_equal(found.shared + found.specific, found.A)
