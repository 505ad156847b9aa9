"""Fits with pooling: against a conic solver, by optimality written out, and as models of other names."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso

from mmtfl.engines.threads import Threads
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers.algorithm1 import Passes
from mmtfl.solvers.path import alpha_max
from oracles import (
    INF,
    LOSSES,
    common_weight,
    conic_optimum,
    joint_objective,
    largest_null_slope,
    loss_gradient,
    make_problem,
    null_slopes,
    row_sums,
)

CONVEX = [(2, 2), (2, INF), (1, INF), (2, 4)]
CONCAVE = [(2, 1), (1, 1), (2, "log"), (1, "log")]


def strength(problem, p, k, share=0.3):
    """A useful alpha."""
    return share * largest_null_slope(problem) * (0.1 if k == "log" else 0.3 if p == 2 and k != 2 else 1.0)


def fitted(problem, p, k, pooling, *, share=0.3, **options):
    penalty = make_penalty(p, k, strength(problem, p, k, share), pooling=pooling)
    found = problem.solve(penalty, **options)
    assert found.converged
    return penalty, found


@pytest.mark.parametrize("pooling", [0.4, 0.9])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("p", "k"), CONVEX)
def test_convex_members_reach_the_optimum_of_a_conic_solver(p, k, loss, pooling):
    problem = make_problem(3, loss=loss, sizes=(14, 9, 12), d=7, weighted=True)
    penalty, found = fitted(problem, p, k, pooling, solver="block", tol=1e-9)
    least, _, _ = conic_optimum(problem, p, k, penalty.alpha, pooling)
    ours = joint_objective(problem, found.A, found.intercept, p, k, penalty.alpha, pooling=pooling)
    assert_allclose(found.objective, ours, rtol=1e-12)
    assert_allclose(ours, least, rtol=1e-6)
    assert 0.0 <= found.dual_gap <= 1e-8 * abs(ours) + 1e-9


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("p", "k", "pooling"),
    [
        *((*pk, pooling) for pk in CONVEX for pooling in (0.0, 0.3, 0.9, 0.99)),
        *((*pk, 0.0) for pk in ((INF, 1), (3, 1.5), (1.5, 3), (INF, 2))),
    ],
)
def test_both_solvers_agree_and_the_passes_never_rise(p, k, pooling, loss):
    problem = make_problem(4, loss=loss)
    _, by_rows = fitted(problem, p, k, pooling, solver="block", tol=1e-9)
    _, by_passes = fitted(problem, p, k, pooling, solver="alternating", tol=1e-9)
    assert_allclose(by_passes.objective, by_rows.objective, rtol=1e-8)
    assert np.all(np.diff(by_passes.history) <= 1e-12 * by_passes.history[0])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("solver", ["block", "alternating"])
@pytest.mark.parametrize("pooling", [0.6, 0.95])
@pytest.mark.parametrize(("p", "k"), CONCAVE)
def test_concave_members_are_stationary_by_hand(p, k, pooling, solver, loss):
    problem = make_problem(5, loss=loss)
    penalty, found = fitted(problem, p, k, pooling, solver=solver, share=0.15)
    A, w = found.A, common_weight(pooling, problem.n_tasks)
    G, slope_b = loss_gradient(problem, A, found.intercept)
    assert np.abs(slope_b).max() < 1e-5
    kept = A.any(axis=1)
    assert kept.sum() > 0
    S = row_sums(A[kept], p, pooling)
    e = 0.0 if k == "log" else k / (p + k)
    weight = penalty.alpha * (1.0 / (1e-2 + S) if k == "log" else e * S ** (e - 1.0))
    m = penalty.common_part(A[kept])
    scale = largest_null_slope(problem)
    for a, g, one, middle in zip(A[kept], G[kept], weight, m, strict=True):
        if p == 2:
            assert_allclose(-g, 2.0 * one * (a - middle), atol=1e-5 * scale)
        else:
            apart = a != middle
            assert_allclose(-g[apart], one * np.sign(a - middle)[apart], atol=1e-5 * scale)
            assert np.all(np.abs(g) <= one + 1e-5 * scale)
            # the common part balances the tasks
            assert abs(g.sum()) <= w * one + 1e-5 * scale
            if middle != 0.0:
                assert_allclose(-g.sum(), w * one * np.sign(middle), atol=1e-5 * scale)
    assert np.all(np.diff(found.history) <= 1e-12 * found.history[0])


@pytest.mark.parametrize("pooling", [0.4, 0.9])
@pytest.mark.parametrize(("p", "k"), [(2, 2), (1, INF)])
def test_zero_is_the_answer_exactly_from_the_largest_dual_norm_up(p, k, pooling):
    problem = make_problem(6)
    G, w = null_slopes(problem), common_weight(pooling, problem.n_tasks)
    pooled = np.abs(G.sum(axis=1)) / w ** (1 / p)
    dual = np.hypot(np.linalg.norm(G, axis=1), pooled) if p == 2 else np.maximum(np.abs(G).max(1), pooled)
    top = dual.max()
    assert_allclose(alpha_max(problem.ours(), make_penalty(p, k, 1.0, pooling=pooling)), top, rtol=1e-12)
    for share, is_zero in ((1.0, True), (0.99, False)):
        found = problem.solve(make_penalty(p, k, share * top, pooling=pooling))
        assert (not found.A.any()) == is_zero


# -- models that others solve too --------------------------------------------------------------------------


def test_ridge_with_pooling_is_the_blup_of_random_slopes():
    """y_t = X_t (m + d_t) + noise with m ~ N(0, s/w), d ~ N(0, s): their means, from the covariance of y."""
    problem, pooling, alpha = make_problem(7, fit_intercept=False), 0.9, 0.2
    T, d, w = problem.n_tasks, problem.n_features, common_weight(0.9, problem.n_tasks)
    n = sum(map(len, problem.y)) / T
    X, y = np.concatenate(problem.X), np.concatenate(problem.y)
    task = np.repeat(np.arange(T), [len(part) for part in problem.y])
    slopes = 1.0 / (2.0 * alpha * n)  # variance of a task's own slopes, in units of the noise
    same = (task[:, None] == task).astype(float)
    covariance = slopes * (X @ X.T) * (1.0 / w + same) + np.eye(len(y))
    share = X * np.linalg.solve(covariance, y)[:, None]
    common = slopes / w * share.sum(axis=0)
    own = slopes * np.array([share[task == t].sum(axis=0) for t in range(T)]).T
    for solver in ("block", "alternating", "auto"):
        penalty = make_penalty(2, INF, alpha, pooling=pooling)
        found = problem.solve(penalty, solver=solver, tol=1e-10)
        assert_allclose(found.A, common[:, None] + own, atol=1e-7)
        assert_allclose(penalty.common_part(found.A), common, atol=1e-7)
    assert found.A.shape == (d, T)


@pytest.mark.parametrize("pooling", [0.6, 0.8, 0.95])
def test_lasso_with_pooling_is_the_data_shared_lasso(pooling):
    """The lasso on the columns [X / w, X_1, ..., X_T], whose first block serves all tasks."""
    problem, alpha = make_problem(8, sizes=(20, 15, 25), fit_intercept=False), 0.15
    T, d, w = problem.n_tasks, problem.n_features, common_weight(pooling, problem.n_tasks)
    blocks = [
        [X / w, *(X if s == t else np.zeros_like(X) for s in range(T))] for t, X in enumerate(problem.X)
    ]
    design, y = np.block(blocks), np.concatenate(problem.y)
    lasso = Lasso(alpha=alpha / T, fit_intercept=False, tol=1e-12, max_iter=100000).fit(design, y)
    common, own = lasso.coef_[:d] / w, lasso.coef_[d:].reshape(T, d).T
    penalty = make_penalty(1, INF, alpha, pooling=pooling)
    found = problem.solve(penalty, tol=1e-10)
    assert common.any()
    assert_allclose(found.A, common[:, None] + own, atol=1e-6)


# -- what does not matter ----------------------------------------------------------------------------------


def test_a_column_that_is_constant_in_a_task_has_the_common_part_there():
    problem = make_problem(10)
    X = problem.X
    X[1][:, 0] = 3.0
    for p, k in ((2, 2), (1, INF), (2, INF)):
        penalty = make_penalty(p, k, 0.05, pooling=0.9)
        found = [problem.solve(penalty, solver=s, tol=1e-10) for s in ("block", "alternating")]
        for one in found:
            assert_allclose(one.A[0, 1], penalty.common_part(one.A)[0], rtol=1e-7)
            # the intercept takes up what the constant column adds
            rest = problem.y[1] - X[1] @ one.A[:, 1] - one.intercept[1]
            assert abs(rest.mean()) < 1e-7
        assert found[0].A[0, 1] != 0.0


def test_passes_that_start_at_the_end_of_others_stay_there():
    problem = make_problem(11, loss="squared", sizes=(9, 12, 8, 10, 11, 9, 13), d=6)
    penalty = make_penalty(2, 1, strength(problem, 2, 1, 0.15), pooling=0.9)
    whole = problem.ours()
    first = Passes(whole, penalty, Threads(1), tol=1e-10)
    first.run(500, 1e-10)
    A, intercept = first.bring_home()
    again = Passes(whole, penalty, Threads(1), tol=1e-10, start=A, intercept=intercept)
    again.run(1, 1e-10)
    assert np.any(A) and again.history[0] <= first.history[-1] * (1.0 + 1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_bits_do_not_depend_on_where_the_tasks_are(loss):
    problem = make_problem(11, loss=loss, sizes=(9, 12, 8, 10, 11, 9, 13), d=6)
    penalty = make_penalty(2, 1, strength(problem, 2, 1, 0.15), pooling=0.9)
    found = []
    for n_slots in (1, 2, 3, 7):
        passes = Passes(problem.ours(), penalty, Threads(n_slots), tol=1e-6)
        assert len(passes.placed.shards) == n_slots
        passes.run(60, 1e-6)
        found.append((passes.bring_home()[0], passes.history, passes.common.given))
    for A, history, common in found[1:]:
        assert_array_equal(A, found[0][0])
        assert history == found[0][1]
        assert_array_equal(common, found[0][2])
    assert found[0][2].any()
