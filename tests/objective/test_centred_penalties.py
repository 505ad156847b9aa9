"""Penalties with pooling, eqs. (10) to (12): norms about a common part, against plain minimisation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar

from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.row_sizes import alpha_from_gammas, common_part
from oracles import INF, common_weight

MEMBERS = [(2, 2), (2, 1), (2, INF), (1, 1), (1, INF), (2, "log"), (1, "log")]
POOLINGS = [0.2, 0.6, 0.9, 0.998]


def draw(seed=0, n_rows=8, n_tasks=5):
    """Rows with and without something in common, one of them zero."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n_rows, n_tasks)) + 3.0 * rng.normal(size=(n_rows, 1))
    A[0] = 0.0
    return A


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("n_tasks", [1, 2, 5])
def test_the_norm_is_the_least_over_the_common_part_which_attains_it(p, pooling, n_tasks):
    A, w = draw(n_tasks=n_tasks), common_weight(pooling, n_tasks)
    penalty = make_penalty(p, 2, 1.0, pooling=pooling)
    for a, norm, m in zip(A, penalty.norms(A), penalty.common_part(A), strict=True):

        def cost(x, a=a):
            return w * abs(x) ** p + np.sum(np.abs(a - x) ** p)

        size = np.abs(a).max() + 1.0
        best = minimize_scalar(cost, bounds=(-size, size), method="bounded", options={"xatol": 1e-11}).fun
        assert_allclose(cost(m), norm**p, rtol=1e-12)
        assert norm**p <= best + 1e-12


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_at_p_one_nothing_is_common_up_to_one_half(p, k):
    A, plain, half = draw(), make_penalty(p, k, 0.7), make_penalty(p, k, 0.7, pooling=0.5)
    assert half.is_centred == (p == 2)
    if p == 1:
        assert_array_equal(half.norms(A), plain.norms(A))
        assert_array_equal(half.common_part(A), 0.0)
        assert type(half.row_problem()) is type(plain.row_problem())
    else:
        assert np.all(half.norms(A)[1:] < plain.norms(A)[1:])


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize(("p", "k"), [(2, 2), (1, INF)])
def test_the_dual_norm_is_the_largest_product_with_a_unit_row(p, k, pooling):
    rng, penalty = np.random.default_rng(1), make_penalty(p, k, 1.0, pooling=pooling)
    U = rng.normal(size=(4, 6)) + rng.normal(size=(4, 1))
    rows = rng.normal(size=(4000, 6)) + 3.0 * rng.normal(size=(4000, 1))
    unit = np.vstack([rows, np.eye(6), np.ones((1, 6))])
    if penalty.is_centred and p == 2:  # where it is attained
        unit = np.vstack([unit, U + U.sum(axis=1, keepdims=True) / common_weight(pooling, 6)])
    unit /= penalty.norms(unit)[:, None]
    products = np.abs(U @ unit.T).max(axis=1)
    assert np.all(products <= penalty.dual_norm(U) * (1 + 1e-12))
    assert_allclose(products, penalty.dual_norm(U), rtol=1e-12)


@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 1), (1, 1), (1, 2)])
def test_the_product_form_about_mu_costs_as_much_at_its_best_c(p, k):
    """Eq. (9) at c of eq. (3), mu = m / c and delta = a / c - mu is the joint form, and other c cost more."""
    gamma1, gamma2, pooling, A = 0.6, 1.7, 0.9, draw()[1:]
    alpha = alpha_from_gammas(gamma1, gamma2, p=p, k=k)
    penalty, w = make_penalty(p, k, alpha, pooling=pooling), common_weight(pooling, A.shape[1])
    m, best = common_part(A, p, pooling), penalty.shared_part(A, gamma1 / gamma2)

    def cost(c):
        mu, delta = m / c, (A - m[:, None]) / c[:, None]
        return gamma1 * (w * np.sum(np.abs(mu) ** p) + np.sum(np.abs(delta) ** p)) + gamma2 * np.sum(c**k)

    assert_allclose(cost(best), penalty.value(A), rtol=1e-12)
    assert min(cost(1.01 * best), cost(0.99 * best)) > cost(best)


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_extreme_rows_have_norms(scale):
    for p, k in MEMBERS:
        penalty = make_penalty(p, k, 1.0, pooling=0.9)
        assert_allclose(penalty.norms(scale * draw()), scale * penalty.norms(draw()), rtol=1e-12)
