"""Optimality written out by hand, at solutions of every solver; not read from what the solver measured."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.objective.penalties import make_penalty
from oracles import (
    EVERY_LOSS,
    INF,
    LOSSES,
    SHAPES,
    best_constant,
    brute_force_row,
    common_weight,
    joint_objective,
    largest_null_slope,
    loss_gradient,
    make_problem,
    row_objective,
    row_sums,
    stationary_curve,
)

SOLVERS = ["alternating", "block"]  # "auto" is one of them
CONVEX = [(2, 2), (3, 1.5), (1.5, 3)]
CONCAVE = [(1, 1), (2, 1), (1, 2), (1.5, 1)]
ODD_CONCAVE = [(3, 0.5), (2, 0.4)]
# concave members reach the rounding of their objective a little below 1e-8 of the largest slope
TOL = 1e-7
CASES = [("block", shape) for shape in SHAPES] + [("alternating", "ragged")]


def solved(p, k, loss, shape, solver, *, strength=0.35, tol=TOL, eps=1e-2, seed=4):
    problem = make_problem(seed, loss=loss, **SHAPES[shape])
    alpha = strength * largest_null_slope(problem)
    solution = problem.solve(make_penalty(p, k, alpha, eps=eps), solver=solver, tol=tol)
    assert solution.converged and solution.violation <= tol
    G, slope_b = loss_gradient(problem, solution.A, solution.intercept)
    size = largest_null_slope(problem)
    if problem.fit_intercept:
        assert np.abs(slope_b).max() <= 10 * tol * size
    else:
        assert not np.any(solution.intercept)
    return problem, alpha, solution, G, 10 * tol * size


def check_kept_rows(A, G, p, k, alpha, atol, eps=1e-2):
    """Section 6: the slope of the loss is minus the slope of the penalty, entry by entry."""
    S = row_sums(A, p)[:, None]
    if k == "log":
        weight = alpha / (eps + S)
    else:
        e = 1.0 if k == INF else k / (p + k)
        weight = alpha * e * S ** (e - 1)  # lambda e S^(e-1)
    if p == 1:
        on = A != 0
        assert_allclose(G[on], (-weight * np.sign(A))[on], atol=atol)
        assert np.all((np.abs(G) <= weight + atol)[~on])
    else:
        assert_allclose(G, -weight * p * np.abs(A) ** (p - 1) * np.sign(A), atol=atol)


def row_curvature(problem, solution):
    """||X_t[:, j]||^2 / n with weights, columns centred beside an intercept, times the bound on l''.

    Where l'' has no bound, times its largest value at the solution or at A = 0.
    """
    L = np.empty((problem.n_features, problem.n_tasks))
    bound = EVERY_LOSS[problem.loss].curvature
    for t, (X, w) in enumerate(zip(problem.X, problem.row_weights, strict=True)):
        centred = X - w @ X / w.sum() if problem.fit_intercept else X
        at_zero = best_constant(problem.loss, problem.y[t], w) if problem.fit_intercept else 0.0
        z = np.append(X @ solution.A[:, t] + solution.intercept[t], at_zero)
        L[:, t] = (np.exp(z.max()) if bound is None else bound) * (w @ centred**2)
    return L


@pytest.mark.parametrize(("solver", "shape"), CASES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("p", "k"), CONVEX)
def test_convex_rows(p, k, loss, shape, solver):
    _, alpha, solution, G, atol = solved(p, k, loss, shape, solver)
    kept = np.any(solution.A != 0, axis=1)
    assert 0 < kept.sum() < len(kept)
    check_kept_rows(solution.A[kept], G[kept], p, k, alpha, atol)
    dual = np.linalg.norm(G[~kept], ord=p / (p - 1), axis=1)
    assert np.all(dual <= alpha + atol)
    assert np.any(dual > 0.2 * alpha)  # the condition has something to say


@pytest.mark.parametrize(("solver", "shape"), CASES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("p", "k"), CONCAVE + ODD_CONCAVE)
def test_concave_rows(p, k, loss, shape, solver):
    problem, alpha, solution, G, atol = solved(p, k, loss, shape, solver)
    A = solution.A
    kept = np.any(A != 0, axis=1)
    assert 0 < kept.sum() < len(kept)
    check_kept_rows(A[kept], G[kept], p, k, alpha, atol)
    # dropped rows: zero is the fixed point of the row problem under the bound on its curvature
    L = row_curvature(problem, solution)
    for j in np.flatnonzero(~kept):
        # by symmetry in the signs; the curve holds every row that could be a minimum
        curve = stationary_curve(np.abs(G[j]), L[j], p, n_points=3001)
        least = row_objective(curve, np.abs(G[j]), L[j], p, k, alpha).min()
        assert least >= -1e-9 * joint_objective(problem, A, solution.intercept, p, k, alpha)


@pytest.mark.parametrize("shape", ["ragged", "n < d, weighted"])
@pytest.mark.parametrize(("p", "k"), CONCAVE + ODD_CONCAVE)
def test_no_single_row_can_be_improved_under_squared_loss(p, k, shape):
    """With squared loss the row problem is exact: neither kept nor dropped rows have a better value alone."""
    problem, alpha, solution, G, _ = solved(p, k, "squared", shape, "block")
    L, A = row_curvature(problem, solution), solution.A
    assert 0 < np.count_nonzero(np.any(A, axis=1)) < len(A)
    for j in range(len(A)):
        g = L[j] * A[j] - G[j]
        ours = row_objective(A[j], g, L[j], p, k, alpha)[0]
        least, _ = brute_force_row(g, L[j], p, k, alpha, n_grid=11 if problem.n_tasks > 3 else 21)
        assert ours <= least + 1e-8 * solution.objective


# -- the logarithm ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize("p", [1, 2])
def test_the_log_edge_is_stationary_and_descends(p, loss, solver, eps=0.2):
    problem, alpha, solution, G, atol = solved(p, "log", loss, "no intercept", solver, strength=0.08, eps=eps)
    A = solution.A
    assert np.any(A)
    assert np.all(np.diff(solution.history) <= 1e-12 * solution.history[0])
    check_kept_rows(A, G, p, "log", alpha, atol, eps)
    on = A != 0
    assert on.all() == (p == 2)
    L = row_curvature(problem, solution)
    for j in np.flatnonzero(~np.any(on, axis=1)):
        least, _ = brute_force_row(-G[j], L[j], p, "log", alpha, eps, n_grid=15)
        assert least >= -1e-9 * solution.objective


# -- the trap of all zeros, and what the violation says --------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("p", "k"), [*CONCAVE, *ODD_CONCAVE, (INF, 0.5), (1, "log")])
def test_concave_members_leave_zero_when_alpha_is_small(p, k, loss, solver):
    problem = make_problem(4, loss=loss, **SHAPES["no intercept"])
    alpha = 0.05 * largest_null_slope(problem) * (0.1 if k == "log" else 1.0)
    penalty = make_penalty(p, k, alpha)
    solution = problem.solve(penalty, solver=solver)
    zero = np.zeros_like(solution.A)
    null_value = joint_objective(problem, zero, np.zeros(3), p, k, alpha)
    assert np.any(solution.A) and solution.objective < 0.8 * null_value
    # and the measure that stops the solvers knows that zero was no answer
    ours = problem.ours()
    G, _ = loss_gradient(problem, zero, np.zeros(3))
    assert ours.row_violation(penalty, zero, G).max() > 0.3 * largest_null_slope(problem)
    G, _ = loss_gradient(problem, solution.A, solution.intercept)
    z = ours.predict(solution.A, solution.intercept)
    assert ours.row_violation(penalty, solution.A, G, z=z).max() <= 2e-6 * largest_null_slope(problem)


POOLED_CONCAVE = [(2, 1), (1, 1), (2, "log"), (1, "log")]


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
@pytest.mark.parametrize(("p", "k"), POOLED_CONCAVE)
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
