"""The additive solver against a conic solver, and in its limits: lasso, joint norms, one part alone."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from mmtfl.objective.norms import ColumnNorm, EntryNorm, RowNorm, TraceNorm, TwoNorms
from mmtfl.solvers.part_solvers import BothParts
from mmtfl.solvers.strengths import AdditiveGrid, additive_descent, solve_additive
from oracles import LOSSES, conic_loss, loss_part, make_problem, minimum, problem_of
from two_parts.conic_parts import conic_norm, plain_norm

PAIRS = {
    "dirty": (RowNorm(1.0, np.inf), EntryNorm(1.0)),
    "dirty2": (RowNorm(1.0), EntryNorm(1.0)),
    "robust": (RowNorm(1.0), ColumnNorm(1.0)),
    "robust_inf": (RowNorm(1.0, np.inf), ColumnNorm(1.0)),
    "low_rank": (TraceNorm(1.0), ColumnNorm(1.0)),
    "low_rank_entries": (TraceNorm(1.0), EntryNorm(1.0)),
}
TOL = 1e-9


def value(problem, shared, specific, P, Q, b):
    return loss_part(problem, P + Q, b) + plain_norm(shared, P) + plain_norm(specific, Q)


def conic_optimum(problem, shared, specific):
    """The minimum: objective by plain formulas at the conic solver's answer."""
    shape = problem.n_features, problem.n_tasks
    P, Q, b = cp.Variable(shape), cp.Variable(shape), cp.Variable(problem.n_tasks)
    minimum(conic_loss(problem, P + Q, b) + conic_norm(shared, P) + conic_norm(specific, Q))
    intercept = b.value if problem.fit_intercept else np.zeros(problem.n_tasks)
    return value(problem, shared, specific, P.value, Q.value, intercept)


def strengths(problem, pair, shares):
    """The pair at shares of its critical strengths."""
    shared, specific = pair
    tops = TwoNorms(shared, specific).critical_strengths(problem.ours())
    return shared.at(shares[0] * tops[0]), specific.at(shares[1] * tops[1])


def fit(problem, shared, specific, **options):
    return solve_additive(problem.ours(), TwoNorms(shared, specific), **{"tol": TOL, **options})


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.2, 0.2), (0.3, 0.1), (0.05, 0.05)], ids=str)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("pair", PAIRS)
def test_the_objective_is_that_of_a_conic_solver(pair, loss, shares):
    seed = len(pair) + 10 * (loss == "logistic")
    problem = make_problem(seed, loss=loss, weighted=shares[0] == 0.2, fit_intercept=shares[0] != 0.3)
    shared, specific = strengths(problem, PAIRS[pair], shares)
    found = fit(problem, shared, specific)
    ours = value(problem, shared, specific, found.shared, found.specific, found.intercept)
    theirs = conic_optimum(problem, shared, specific)
    assert found.converged
    assert found.A.any()
    assert_allclose(found.objective, ours, rtol=1e-12)
    assert_allclose(found.A, found.shared + found.specific, atol=1e-15)
    assert abs(ours - theirs) <= 1e-6 * theirs
    assert 0.0 <= found.dual_gap <= 1e-8 * ours + 1e-10
    assert ours - theirs <= found.dual_gap + 1e-7 * theirs  # the gap bounds what is left


# -- optimality, written out ---------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS)
def test_zero_is_the_answer_exactly_from_the_critical_strengths_up(pair):
    problem = make_problem(6)
    assert not fit(problem, *strengths(problem, PAIRS[pair], (1.0 + 1e-12, 1.0 + 1e-12))).A.any()
    assert fit(problem, *strengths(problem, PAIRS[pair], (0.99, 2.0))).shared.any()
    assert fit(problem, *strengths(problem, PAIRS[pair], (2.0, 0.99))).specific.any()


# -- storage, weights, starts --------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_sparse_design_too_large_to_be_dense_gives_the_same(monkeypatch, loss):
    problem = make_problem(0, loss=loss)
    X = sparse.csr_array(np.concatenate(problem.X))
    ours, thin = (problem_of(replace(problem.tasks, X=one), LOSSES[loss]) for one in (X.toarray(), X))
    norms = TwoNorms(*PAIRS["low_rank"])
    norms = norms.at(*(0.2 * top for top in norms.critical_strengths(ours)))
    quick = solve_additive(thin, norms, tol=TOL)
    monkeypatch.setattr("mmtfl.solvers.strengths._MOST_DENSE", 0)
    assert isinstance(additive_descent(thin, norms).parts, BothParts)
    for other in (quick, solve_additive(thin, norms, tol=TOL)):
        assert_allclose(other.A, solve_additive(ours, norms, tol=TOL).A, atol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("pair", PAIRS)
def test_the_answer_does_not_depend_on_the_start_and_the_objective_never_rises(pair, loss):
    problem = make_problem(7, loss=loss)
    shared, specific = strengths(problem, PAIRS[pair], (0.3, 0.3))
    cold = fit(problem, shared, specific)
    rng = np.random.default_rng(0)
    start = rng.normal(size=(2, problem.n_features, problem.n_tasks))
    warm = fit(problem, shared, specific, start=start)
    again = fit(problem, shared, specific, start=np.stack([cold.shared, cold.specific]))
    assert_allclose([warm.objective, again.objective], cold.objective, rtol=1e-8)
    assert again.n_iter <= 3
    for solution in (cold, warm):
        assert np.all(np.diff(solution.history) <= 1e-12 * np.abs(solution.history[:-1]))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_grid_has_the_solutions_of_single_fits_and_repeats_those_that_recur(pair, loss):
    problem = make_problem(4, loss=loss)
    norms, tol = strengths(problem, PAIRS[pair], (1.0, 1.0)), 1e-6
    grid = AdditiveGrid(problem.ours(), TwoNorms(*norms))
    assert_allclose(grid.largest(), [norm.alpha for norm in norms])
    null_value = problem.ours().null_value
    above, recurred = [], 0
    for first in norms[0].alpha * np.geomspace(1.0, 0.1, 4):
        line = []
        for i, second in enumerate(norms[1].alpha * np.geomspace(1.0, 0.1, 4)):
            line.append(grid.solve(first, second, line[-1:] + above[i : i + 1], max_iter=1000, tol=tol))
            shared, specific = norms[0].at(first), norms[1].at(second)
            single = fit(problem, shared, specific)
            here = value(problem, shared, specific, line[-1].shared, line[-1].specific, line[-1].intercept)
            assert_allclose(line[-1].objective, here, rtol=1e-10)
            assert line[-1].objective - single.objective <= line[-1].dual_gap + 1e-9
            assert line[-1].dual_gap <= tol * null_value
            recurred += any(line[-1].A is other.A for other in [*line[:-1], *above])
        above = line
    assert 0 < recurred < 15


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("pair", ["robust", "low_rank"])
def test_passes_end_where_rounding_holds_them(pair, loss):
    """A tolerance below rounding cannot be met: the fit says so, is as exact as numbers allow, and ends."""
    problem = make_problem(0, loss=loss, sizes=(25, 30, 18), d=15)
    shared, specific = strengths(problem, PAIRS[pair], (0.01, 0.01))
    found = fit(problem, shared, specific, tol=1e-17, max_iter=1000)
    assert not found.converged and found.violation < 1e-13
    assert found.n_iter < 100
