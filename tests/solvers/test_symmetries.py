"""Symmetries of the model: what may change in the data without changing the answer, or only its units."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.objective.penalties import make_penalty
from oracles import INF, LOSSES, Problem, largest_null_slope, make_problem

TOL = 1e-8


def power(p, k):
    """r = p e, the degree of the penalty in A."""
    return k if np.isinf(p) else p if np.isinf(k) else p * k / (p + k)


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


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("one", "other"), [((2, 1), (1, 2)), ((1, INF), (2, 2)), ((INF, 0.5), (1, 1)), ((3, 1.5), (INF, 1))]
)
def test_with_one_task_only_the_degree_of_the_penalty_matters(one, other, loss):
    problem = make_problem(5, loss=loss, sizes=(40,), d=6)
    alpha = 0.3 * largest_null_slope(problem)
    assert np.isclose(power(*one), power(*other))
    here, there = run(problem, *one, alpha), run(problem, *other, alpha)
    assert np.any(here.A)
    assert_allclose(here.objective, there.objective, rtol=1e-8)
    assert_allclose(here.A, there.A, atol=1e-5)


# -- columns ---------------------------------------------------------------------------------------------
