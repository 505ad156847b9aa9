"""Fits with pooling: against a conic solver, by optimality written out, and as models of other names."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.objective.penalties import make_penalty
from oracles import (
    INF,
    LOSSES,
    common_weight,
    largest_null_slope,
    loss_gradient,
    make_problem,
    row_sums,
)

CONCAVE = [(2, 1), (1, 1), (2, "log"), (1, "log")]


def strength(problem, p, k, share=0.3):
    """A useful alpha."""
    return share * largest_null_slope(problem) * (0.1 if k == "log" else 0.3 if p == 2 and k != 2 else 1.0)


def fitted(problem, p, k, pooling, *, share=0.3, **options):
    penalty = make_penalty(p, k, strength(problem, p, k, share), pooling=pooling)
    found = problem.solve(penalty, **options)
    assert found.converged
    return penalty, found


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
