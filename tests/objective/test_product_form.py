"""Eliminating c: eqs. (3), (4), (5) against numerical minimisation, and what the printed constants solve."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.row_sizes import (
    alpha_from_gammas,
    gammas_from_alpha,
    product_value,
    shared_part,
    task_part,
)
from oracles import (
    INF,
    LOSSES,
    joint_objective,
    largest_null_slope,
    make_problem,
    product_objective,
)

FINITE = [(2, 2), (1, 1), (2, 1), (1, 2), (3, 1.5), (1.5, 1), (4, 0.5), (1, 7)]
GAMMAS = [(1.0, 1.0), (0.3, 2.5), (40.0, 0.02)]


def row_cost(c, S, p, k, gamma1, gamma2):
    """What a row with sum S pays in problem (1) at a given c."""
    return gamma1 * S * c**-p + gamma2 * c**k


def best_c(S, p, k, gamma1, gamma2):
    """Numerical minimiser of the row cost over c, and its value."""
    found = minimize_scalar(
        lambda u: np.log(row_cost(np.exp(u), S, p, k, gamma1, gamma2)), bracket=(-1.0, 1.0), tol=1e-12
    )
    return math.exp(found.x), math.exp(found.fun)


# -- eqs. (3), (4), (5) ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k"), FINITE)
@pytest.mark.parametrize(("gamma1", "gamma2"), GAMMAS)
def test_c_of_eq_3_minimises_the_product_penalty(p, k, gamma1, gamma2):
    for S in (1e-3, 0.7, 50.0):
        numerical, _ = best_c(S, p, k, gamma1, gamma2)
        ours = shared_part(np.array([S ** (1 / p)]), p, k, ratio=gamma1 / gamma2)[0]
        assert_allclose(ours, numerical, rtol=1e-6)
        assert_allclose(ours, (p * gamma1 / (k * gamma2) * S) ** (1 / (p + k)), rtol=1e-12)


@pytest.mark.parametrize(("p", "k"), FINITE)
@pytest.mark.parametrize(("gamma1", "gamma2"), GAMMAS)
def test_alpha_of_eq_5_is_the_least_product_penalty(p, k, gamma1, gamma2):
    alpha = alpha_from_gammas(gamma1, gamma2, p=p, k=k)
    for S in (1e-3, 0.7, 50.0):
        _, least = best_c(S, p, k, gamma1, gamma2)
        assert_allclose(alpha * S ** (k / (p + k)), least, rtol=1e-10)


@pytest.mark.parametrize(("p", "k"), [*FINITE, (1, INF), (2, INF), (INF, 1), (INF, 0.5)])
@pytest.mark.parametrize("ratio", [1.0, 0.2, 30.0])
def test_alpha_to_gammas_and_back(p, k, ratio, alpha=0.37):
    gamma1, gamma2 = gammas_from_alpha(alpha, p=p, k=k, ratio=ratio)
    assert_allclose(gamma1 / gamma2, ratio, rtol=1e-12)
    assert_allclose(alpha_from_gammas(gamma1, gamma2, p=p, k=k), alpha, rtol=1e-12)


@pytest.mark.parametrize(
    ("p", "k"), [(0.5, 1), (2, 0), (2, -1), (math.nan, 1), (2, math.nan), (INF, INF), ("2", 1), (True, 1)]
)
def test_exponents_outside_the_family_are_refused(p, k):
    with pytest.raises(TypeError if isinstance(p, str | bool) else ValueError):
        alpha_from_gammas(1.0, 1.0, p=p, k=k)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, INF])
def test_strengths_must_be_positive_and_finite(bad):
    with pytest.raises(ValueError, match="gamma1"):
        alpha_from_gammas(bad, 1.0, p=2, k=1)
    with pytest.raises(ValueError, match="alpha"):
        gammas_from_alpha(bad, p=2, k=1)


# -- the printed constants -------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k"), FINITE)
@pytest.mark.parametrize(("gamma1", "gamma2"), GAMMAS)
def test_paper_constants_are_the_shift_of_gamma2_and_nothing_more(p, k, gamma1, gamma2):
    paper = alpha_from_gammas(gamma1, gamma2, p=p, k=k, constants="paper")
    assert_allclose(paper, alpha_from_gammas(gamma1, gamma2 * p / k, p=p, k=k), rtol=1e-12)
    _, least = best_c(2.0, p, k, gamma1, gamma2 * p / k)
    assert_allclose(paper * 2.0 ** (k / (p + k)), least, rtol=1e-10)


# -- solutions in both forms -----------------------------------------------------------------------------


def parts(solution, p, k, alpha, ratio):
    gamma1, gamma2 = gammas_from_alpha(alpha, p=p, k=k, ratio=ratio)
    c = make_penalty(p, k, alpha).shared_part(solution.A, ratio=ratio)
    return task_part(solution.A, c), c, gamma1, gamma2


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("p", "k"), FINITE)
def test_product_and_joint_form_have_the_same_value_at_a_solution(p, k, loss):
    problem = make_problem(0, loss=loss)
    alpha = 0.3 * largest_null_slope(problem)
    solution = problem.solve(make_penalty(p, k, alpha))
    assert np.any(solution.A)
    joint = joint_objective(problem, solution.A, solution.intercept, p, k, alpha)
    assert_allclose(solution.objective, joint, rtol=1e-12)
    for ratio in (1.0, 0.1):
        B, c, gamma1, gamma2 = parts(solution, p, k, alpha, ratio)
        assert_allclose(c[:, None] * B, solution.A, rtol=1e-12, atol=0)
        assert np.array_equal(c > 0, np.any(solution.A != 0, axis=1))
        value = product_objective(problem, B, c, solution.intercept, p, k, gamma1, gamma2)
        assert_allclose(value, joint, rtol=1e-12)
        penalty = value - product_objective(problem, B, c, solution.intercept, p, k, 0.0, 0.0)
        assert_allclose(product_value(B, c, gamma1, gamma2, p, k), penalty, rtol=1e-10)


def test_parts_at_infinite_exponents():
    A = np.array([[3.0, -4.0], [0.0, 0.0], [0.5, 0.1]])
    ridge, box = make_penalty(2, INF, 1.0), make_penalty(INF, 1, 1.0)
    assert_allclose(ridge.shared_part(A), [1.0, 0.0, 1.0])
    assert_allclose(box.shared_part(A), [4.0, 0.0, 0.5])
    assert np.abs(task_part(A, box.shared_part(A))).max() == 1.0
    for penalty in (ridge, box):
        c = penalty.shared_part(A)
        assert_allclose(c[:, None] * task_part(A, c), A)
