"""Weights, signs and groups of features, with pooling too: with a conic solver and by hand."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.norms import EntryNorm, RowNorm, TwoNorms
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.row_sizes import centred_norms
from mmtfl.solvers.path import Paths, alpha_max, solve_path
from mmtfl.solvers.strengths import solve_additive
from oracles import (
    INF,
    LOSSES,
    common_weight,
    conic_loss,
    largest_null_slope,
    loss_gradient,
    make_problem,
    minimum,
)

CONVEX = [(2, 2), (1, INF), (2, INF), (1.5, 3), (INF, 1)]
THETA = 0.9
GROUPS = np.array([0, 1, 1, 2, 3, 3, 3, 4, 5, 5])
ALONE = np.arange(10)
SIGNS = np.isin(ALONE, (2, 4, 8))


def weights_of_all_kinds():
    """(features, tasks): whole features free and left out, single entries too, all others of their own."""
    weight = np.random.default_rng(5).uniform(0.4, 2.5, size=(10, 3))
    weight[0], weight[7], weight[3, 1], weight[5, 2] = 0.0, INF, 0.0, INF
    return weight


BY_FEATURE = np.repeat(np.array([[1.0, 0.5, 2.0, 0.0, 1.0, 3.0, 0.4, INF, 1.0, 1.5]]).T, 3, axis=1)
KINDS = {
    "weights": (np.repeat(weights_of_all_kinds()[:, :1], 3, axis=1), ~SIGNS & False, ALONE),
    "entries": (weights_of_all_kinds(), ~SIGNS & False, ALONE),
    "signs": (np.ones((10, 3)), SIGNS, ALONE),
    "groups": (np.ones((10, 3)), ~SIGNS & False, GROUPS),
    "all": (weights_of_all_kinds(), SIGNS, GROUPS),
}
POOLED = {"pooled": KINDS["groups"], "pooled weights": (BY_FEATURE, ~SIGNS & False, GROUPS)}
EVERY = KINDS | POOLED


def penalty_of(p, k, alpha, kind):
    weight, positive, groups = EVERY[kind]
    known = KnownFeatures(weight, positive, None if groups is ALONE else groups)
    return make_penalty(p, k, alpha, pooling=THETA * (kind in POOLED), known=known)


def ragged(loss="squared"):
    return make_problem(3, loss=loss, sizes=(24, 19, 31))


def row_power(p, k):
    return p if np.isinf(k) else k if np.isinf(p) else p * k / (p + k)


def finite(weight):
    return np.where(np.isinf(weight), 0.0, weight)


def conic(problem, p, k, alpha, kind):
    """The minimum by a conic solver, the common parts of pooled rows as variables of their own."""
    weight, positive, groups = EVERY[kind]
    A, b, m = cp.Variable((10, 3)), cp.Variable(3), cp.Variable((10, 1))
    r, total = row_power(p, k), conic_loss(problem, A, b)
    scale = finite(weight) ** (1.0 / r)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        seen = cp.multiply(scale[rows], A[rows] - (m[rows] @ np.ones((1, 3)) if kind in POOLED else 0.0))
        parts = [cp.vec(seen, order="C")]
        if kind in POOLED:
            root = common_weight(THETA, 3) ** (1.0 / p)
            parts.append(root * cp.multiply(scale[rows, 0], m[rows, 0]))
        row = cp.hstack(parts)
        norm = cp.norm_inf(row) if np.isinf(p) else cp.pnorm(row, p)
        factor = len(rows) ** (1.0 - (0.0 if np.isinf(p) else r / p))
        total += alpha * factor * (norm if abs(r - 1.0) < 1e-12 else cp.power(norm, r))
    fixed = [A[j, t] == 0.0 for j, t in np.argwhere(np.isinf(weight))]
    fixed += [m[j] == 0.0 for j in np.flatnonzero(~scale.all(axis=1))]
    return minimum(total, fixed + [A[j] >= 0.0 for j in np.flatnonzero(positive)])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("kind", "p", "k"),
    [
        *((kind, *pk) for kind in KINDS for pk in CONVEX),
        *((kind, *pk) for kind in POOLED for pk in ((2, 2), (2, 4))),
    ],
)
def test_convex_members_reach_the_conic_optimum(p, k, loss, kind):
    problem = ragged(loss)
    alpha = 0.1 * largest_null_slope(problem)
    least, (weight, positive, groups) = conic(problem, p, k, alpha, kind), EVERY[kind]
    for solver in ("block", "alternating") if kind in POOLED else ("auto",):
        found = problem.solve(penalty_of(p, k, alpha, kind), solver=solver, tol=1e-9)
        assert found.converged
        assert abs(found.objective - least) < 1e-6 * abs(found.objective)
    assert not found.A[np.isinf(weight)].any() and (found.A[positive] >= 0.0).all()
    if (weight == 0.0).any():
        assert found.A[weight == 0.0].all() and found.dual_gap is None
    elif kind == "pooled":
        kept = found.A.any(axis=1)
        assert kept.any() and all(len(set(kept[group == groups])) == 1 for group in range(6))
        assert found.dual_gap < 1e-6 * found.objective


@pytest.mark.parametrize("loss", LOSSES)
def test_the_concave_member_meets_its_conditions_by_hand(loss):
    """At (2, 1): slope + alpha r s^2 a / ||s a||^(2 - r) = 0 where penalised, zero slope where free."""
    problem = ragged(loss)
    alpha, (weight, _, _) = 0.05 * largest_null_slope(problem), KINDS["entries"]
    found = problem.solve(penalty_of(2, 1, alpha, "entries"), tol=1e-10)
    G, slope_b = loss_gradient(problem, found.A, found.intercept)
    r, scale = 2.0 / 3.0, finite(weight) ** 1.5
    norms = np.linalg.norm(scale * found.A, axis=1, keepdims=True)
    kept = norms[:, 0] > 0.0
    assert 0 < kept.sum() < 9
    pull = np.zeros_like(G)
    pull[kept] = alpha * r * (scale**2 * found.A)[kept] * norms[kept] ** (r - 2.0)
    of_interest = np.isfinite(weight) & (kept[:, None] | (weight == 0.0))
    assert_allclose((G + pull)[of_interest], 0.0, atol=1e-7 * largest_null_slope(problem))
    assert_allclose(slope_b, 0.0, atol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_concave_member_of_pooled_groups_meets_its_conditions_by_hand(loss):
    """At (2, 1): slope + alpha |G|^(1-e) 2e S^(e-1) (a - m) = 0 on kept groups, S being that of the group."""
    problem = ragged(loss)
    alpha, e = 0.05 * largest_null_slope(problem), 1.0 / 3.0
    found = problem.solve(penalty_of(2, 1, alpha, "pooled"), tol=1e-10)
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


def test_groups_share_one_c_in_the_product_form():
    """Eliminating a c that the rows of a group share gives the penalty of the group; eq. (15)."""
    A = np.abs(np.random.default_rng(0).normal(size=(10, 3)))
    for p, k in [(2, 2), (2, 1), (1, 2), (1.5, 3)]:
        penalty = penalty_of(p, k, 1.0, "groups")
        c = penalty.shared_part(A)
        assert all(len(set(c[group == GROUPS])) == 1 for group in range(6))
        gamma = 1.0 / ((p / k) ** (k / (p + k)) * (p + k) / p)
        value = gamma * (np.sum((A / c[:, None]) ** p) + np.sum(c**k))
        assert_allclose(value, penalty.value(A), rtol=1e-12)
        worse = c * np.where(GROUPS == 3, 1.1, 1.0)
        assert gamma * (np.sum((A / worse[:, None]) ** p) + np.sum(worse**k)) > value


@pytest.mark.parametrize(
    ("kind", "p", "k"),
    [
        *((kind, *pk) for kind in KINDS for pk in ((2, 2), (1.5, 3), (INF, 1))),
        ("pooled", 2, 2),
        ("pooled", 2, 1),
    ],
)
def test_zero_is_the_answer_exactly_from_alpha_max_up(p, k, kind):
    problem, penalty = ragged(), penalty_of(p, k, 1.0, kind)
    top = alpha_max(problem.ours(), penalty)
    for share, null in ((1.001 if kind == "pooled" else 1.0001, True), (0.99, False)):
        found = problem.solve(penalty.at(share * top), tol=1e-9)
        assert penalty.is_null(found.A) == null


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, INF), (1, INF)])
def test_algorithm_1_row_descent_and_paths_agree(p, k, kind):
    problem = ragged()
    ours, alpha = problem.ours(), 0.1 * largest_null_slope(problem)
    penalty = penalty_of(p, k, alpha, kind)
    block, passes = (problem.solve(penalty, tol=1e-10, solver=solver) for solver in ("block", "alternating"))
    assert_allclose(passes.A, block.A, atol=1e-6)
    grid = np.array([2.0 * alpha, alpha])
    for path in (
        solve_path(ours, penalty, grid, tol=1e-10),
        Paths(ours).solve(penalty, grid, max_iter=1000, tol=1e-8),
    ):
        assert_allclose(path.coef(1).T, block.A, atol=1e-5)


@pytest.mark.parametrize("p", [2.0, INF])
def test_the_dirty_model_with_weights_reaches_the_conic_optimum(p):
    problem = ragged()
    (weight, positive, _), top = KINDS["all"], largest_null_slope(problem)
    norms = TwoNorms(RowNorm(0.1 * top, p), EntryNorm(0.06 * top), KnownFeatures(weight, positive))
    found = solve_additive(problem.ours(), norms, tol=1e-9)
    P, Q, b = cp.Variable((10, 3)), cp.Variable((10, 3)), cp.Variable(3)
    seen, total = cp.multiply(finite(weight), P), conic_loss(problem, P + Q, b)
    total += 0.06 * top * cp.sum(cp.abs(cp.multiply(finite(weight), Q)))
    total += 0.1 * top * sum((cp.norm2 if p == 2.0 else cp.norm_inf)(seen[j]) for j in range(10))
    fixed = [(P + Q)[j, t] == 0.0 for j, t in np.argwhere(np.isinf(weight))]
    signs = [(P + Q)[j] >= 0.0 for j in np.flatnonzero(positive)]
    least = minimum(total, fixed + signs)
    assert found.converged
    assert abs(found.objective - least) < 1e-6 * least
    assert found.specific.any() and found.shared.any()
    assert_allclose(found.objective - found.loss, norms.value(found.shared, found.specific), rtol=1e-9)
    assert_array_equal(found.shared + found.specific, found.A)
