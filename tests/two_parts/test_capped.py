"""Capped-l1 rows: stages never raise the objective, and end where the conditions hold."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl import CappedRegressor, MMTFLRegressor
from mmtfl.datasets import make_tasks
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers.strengths import CappedRows, solve_capped
from oracles import largest_null_slope, loss_gradient, loss_part, make_problem

SETTINGS = [
    (loss, share, cap) for loss in ("squared", "logistic") for share in (0.1, 0.3) for cap in (0.4, 1.0)
]


def capped_value(problem, A, b, alpha, cap):
    return loss_part(problem, A, b) + alpha * np.minimum(np.abs(A).sum(axis=1), cap).sum()


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_no_stage_raises_the_objective(setting):
    loss, share, cap = setting
    fell = 0
    for seed in range(6):
        problem = make_problem(seed, loss=loss, sizes=(150, 130, 120), weighted=seed % 2 == 1)
        alpha = share * largest_null_slope(problem)
        found = solve_capped(problem.ours(), CappedRows(alpha, cap), tol=1e-8)
        assert found.converged
        assert_allclose(
            found.objective, capped_value(problem, found.A, found.intercept, alpha, cap), rtol=1e-10
        )
        assert found.history[-1] == found.objective
        assert np.all(np.diff(found.history) <= 1e-10)
        lasso = problem.solve(make_penalty(1, np.inf, alpha), tol=1e-8)
        first = capped_value(problem, lasso.A, lasso.intercept, alpha, cap)
        assert_allclose(found.history[0], first, rtol=1e-7)
        fell += found.objective < first - 1e-6
    assert fell >= 2


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_rows_past_the_cap_have_no_slope_and_the_others_that_of_the_lasso(setting):
    loss, share, cap = setting
    problem = make_problem(2, loss=loss, sizes=(150, 130, 120))
    alpha = share * largest_null_slope(problem)
    found = solve_capped(problem.ours(), CappedRows(alpha, cap), tol=1e-9)
    G, slope_b = loss_gradient(problem, found.A, found.intercept)
    past = np.abs(found.A).sum(axis=1) >= cap
    assert past.any() and not past.all()
    assert_allclose(slope_b, 0.0, atol=1e-7)
    assert_allclose(G[past], 0.0, atol=1e-7)
    below, kept = G[~past], found.A[~past] != 0
    assert_allclose(below[kept], -alpha * np.sign(found.A[~past][kept]), atol=1e-7)
    assert np.all(np.abs(below) <= alpha + 1e-7)


def test_a_start_past_the_cap_is_not_penalised_from_the_first_stage_on():
    problem = make_problem(1, sizes=(40, 40))
    free = problem.solve(make_penalty(1, np.inf, 1e-9))
    assert np.all(np.abs(free.A).sum(axis=1) > 1e-4)
    found = solve_capped(problem.ours(), CappedRows(0.3, 1e-5), start=free.A)
    assert_allclose(found.A, free.A, atol=1e-5)


def test_found_features_are_not_shrunk():
    data = make_tasks(n_tasks=4, n_samples=100, n_features=20, n_informative=3, noise=0.1, random_state=0)
    capped = CappedRegressor(alpha=0.3, cap=1.0).fit(data.X, data.y, task=data.task)
    lasso = MMTFLRegressor(1, np.inf, 0.3).fit(data.X, data.y, task=data.task)
    found = np.flatnonzero(data.support.any(axis=0))
    assert np.flatnonzero(capped.capped_).tolist() == found.tolist()
    assert np.abs(capped.coef_ - data.coef).max() < 0.2 * np.abs(lasso.coef_ - data.coef).max()
    assert capped.dual_gap_ is None
    summary = capped.summary()
    assert list(summary.columns)[:4] == ["feature", "size", "n_tasks", "kind"]
    assert set(summary["feature"][:3]) == {f"x{j}" for j in found}
