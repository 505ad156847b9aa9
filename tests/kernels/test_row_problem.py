"""The row problem min over a of sum_t L_t a_t^2 / 2 - g_t a_t + phi(||a||_p), against brute force."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl.objective.penalties import make_penalty
from oracles import INF, brute_force_row, row_objective, row_penalties, stationary_curve

MEMBERS = [
    (2, 2), (2, 1), (2, 0.3), (2, 4), (2, INF), (1, 1), (1, 2), (1, 0.2), (1, INF), (1.5, 1), (1.5, 3),
    (1.5, INF), (1.05, 1), (3, 1.5), (3, 0.5), (3, 4), (8, 1), (INF, 1), (INF, 0.5), (INF, 2),
    (1, "log"), (2, "log"), (3, "log"),
]  # fmt: skip
# members that drop rows: the slope of phi at zero is positive
STEEP = [
    (2, 2), (2, 1), (2, 0.3), (1, 1), (1, 2), (1, 0.2), (1, INF), (1.5, 1), (1.5, 3), (1.05, 1), (3, 1.5),
    (3, 0.5), (8, 1), (INF, 1), (INF, 0.5), (1, "log"),
]  # fmt: skip
CONCAVE = [(p, k) for p, k in STEEP if not make_penalty(p, k, 1.0).is_convex]
JUST_CONCAVE = [(2, 1.6), (2, 1.9), (1.5, 2.8), (3, 1.4), (8, 1.1)]


def solve(g, L, p, k, alpha, eps=1e-2):
    return make_penalty(p, k, alpha, eps=eps).solve_rows(
        np.array([g], dtype=float), np.array([L], dtype=float)
    )[0]


def threshold(curve, g, L, p, k):
    """Strength at which the best row other than zero becomes worse than zero."""
    smooth, penalty = row_objective(curve, g, L, p, k, 0.0), row_penalties(curve, p, k)
    return float(np.max(-smooth[penalty > 0] / penalty[penalty > 0]))


def largest_local_minimum(curve, g, L, p, k, alpha):
    """Value of the row problem at its largest stationary row that is a minimum; 0 if there is none."""
    curve = curve[np.argsort(np.linalg.norm(curve, axis=1))]
    values = row_objective(curve, g, L, p, k, alpha)
    falling = np.diff(values) < 0
    local = np.flatnonzero(falling[:-1] & ~falling[1:]) + 1
    return values[local[-1]] if local.size else 0.0


@pytest.mark.parametrize("metric", ["equal", "unequal"])
@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_no_row_of_a_grid_is_better(p, k, metric):
    rng = np.random.default_rng([7, MEMBERS.index((p, k))])
    n_moved = 0
    for n_tasks in (1, 2, 3):
        for strength in (0.15, 0.6):
            g = 2 * rng.normal(size=n_tasks)
            L = np.ones(n_tasks) if metric == "equal" else np.exp(rng.normal(size=n_tasks))
            eps = 0.1 if strength < 0.5 else 1e-3
            alpha = strength * np.abs(g).max() * (0.1 if k == "log" else 1.0)
            a = solve(g, L, p, k, alpha, eps)
            least, _ = brute_force_row(g, L, p, k, alpha, eps, n_grid={1: 1001, 2: 61, 3: 19}[n_tasks])
            assert row_objective(a, g, L, p, k, alpha, eps)[0] <= least + 1e-8 * max(1.0, abs(least))
            n_moved += bool(np.any(a))
    assert n_moved >= 3


@pytest.mark.parametrize(("p", "k"), STEEP)
def test_zero_from_the_critical_strength_up_and_only_from_there(p, k):
    rng = np.random.default_rng(3)
    for _ in range(4):
        g, L = rng.uniform(0.2, 3.0, size=3), rng.uniform(0.5, 2.0, size=3)
        critical = threshold(stationary_curve(g, L, p), g, L, p, k)
        assert_array_equal(solve(g, L, p, k, 1.001 * critical), 0.0)
        assert np.any(solve(g, L, p, k, 0.99 * critical))


@pytest.mark.parametrize(("p", "k"), [*CONCAVE, *JUST_CONCAVE])
def test_the_largest_stationary_row_is_found_in_very_unequal_metrics(p, k):
    """Ragged tasks give curvatures that differ by orders; rows near their threshold are the hard ones."""
    rng = np.random.default_rng(11)
    n_checked = 0
    for _ in range(40):
        n_tasks = int(rng.integers(2, 5))
        L = np.exp(rng.normal(size=n_tasks) * rng.choice([0.5, 2.0]))
        g = np.exp(rng.normal(size=n_tasks) * rng.choice([0.3, 1.0])) * np.sqrt(L)
        curve = stationary_curve(g, L, p, n_points=1501)
        alpha = threshold(curve, g, L, p, k) * math.exp(-abs(rng.normal()) * rng.choice([0.01, 0.3]))
        largest = largest_local_minimum(curve, g, L, p, k, alpha)
        if largest < 0:
            n_checked += 1
            ours = row_objective(solve(g, L, p, k, alpha), g, L, p, k, alpha)[0]
            assert ours <= largest + 1e-6 * abs(largest) + 1e-10 * np.sum(g**2 / L)
    assert n_checked > 20


# the best row is small: a step from the right passes it, or another, larger minimum is worse than zero
PASSED_OVER = [
    (2, 1, [23.21, 0.6618, 0.6824], [3.092, 1.138, 0.4370], 1.137),
    (2, 1, [58.42, 1.576, 0.03439], [7.419, 2.120, 0.8895], 2.465),
    (2, 1, [25.2, 0.1436, 43.26], [72.12, 1.719, 4.101], 60.93),
    (2, 1.9, [2.057, 4.137, 3.843, 0.05486], [1.001, 0.7948, 0.7314, 2.538], 2.734),
    (2, 1.9, [0.1067, 5.785, 6.024], [1.847, 0.7786, 0.5616], 1.901),
    (1.5, 1, [1.4351, 6.4759, 0.0069267], [0.15918, 0.14857, 0.035065], 0.044427),
    (8, 1, [0.1045, 7.552, 21.77, 0.519], [1.155, 0.7298, 0.6151, 0.9768], 1.8146),
    (8, 1, [0.1545, 16.29], [1.21, 1.0245], 1.17995),
    (8, 1.0857, [1.981, 0.0002445], [0.7265, 0.9994], 1.3575),
]


@pytest.mark.parametrize(("p", "k", "L", "g", "alpha"), PASSED_OVER)
def test_a_small_best_row_is_not_passed_over(p, k, L, g, alpha):
    values = row_objective(stationary_curve(g, L, p, 40001), np.array(g), np.array(L), p, k, alpha)
    assert values.min() < 0  # so zero is not the answer
    ours = row_objective(solve(g, L, p, k, alpha), np.array(g), np.array(L), p, k, alpha)[0]
    assert ours <= values.min() + 1e-6 * abs(values.min())


# -- closed forms ----------------------------------------------------------------------------------------

Z = np.array([[3.0, -4.0, 0.5], [0.2, 0.1, -0.1], [-1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])


def test_rows_of_norm_two_are_soft_thresholded(step=0.5, alpha=1.2):
    size = np.linalg.norm(Z, axis=1, keepdims=True)
    expected = Z * np.maximum(1 - step * alpha / np.maximum(size, 1e-300), 0.0)
    assert_allclose(make_penalty(2, 2, alpha).prox(Z, step), expected, rtol=1e-12)
    assert np.any(expected[0]) and not np.any(expected[1])


def test_lasso_and_ridge_rows(step=0.5, alpha=1.2):
    soft = np.sign(Z) * np.maximum(np.abs(Z) - step * alpha, 0.0)
    assert_allclose(make_penalty(1, INF, alpha).prox(Z, step), soft, rtol=1e-14)
    assert_allclose(make_penalty(2, INF, alpha).prox(Z, step), Z / (1 + 2 * step * alpha), rtol=1e-14)


def test_max_norm_row_is_z_minus_its_projection_on_the_l1_ball(step=0.5, alpha=3.0):
    radius = step * alpha
    ours = make_penalty(INF, 1, alpha).prox(Z, step)
    for z, a in zip(Z, ours, strict=True):
        # bisection on the threshold of the projection
        low, high = 0.0, np.abs(z).max()
        for _ in range(200):
            middle = 0.5 * (low + high)
            inside = np.maximum(np.abs(z) - middle, 0.0).sum() <= radius
            low, high = (low, middle) if inside else (middle, high)
        projection = np.sign(z) * np.maximum(np.abs(z) - high, 0.0) if np.abs(z).sum() > radius else z
        assert_allclose(a, z - projection, atol=1e-12)


def test_the_known_threshold_of_the_square_root(alpha=1.3):
    # one task, |a|^(1/2): zero exactly while |z| <= 3/2 (alpha step)^(2/3), and a jump there
    critical = 1.5 * alpha ** (2 / 3)
    below, above = (
        make_penalty(1, 1, alpha).prox(np.array([[s * critical]]), 1.0)[0, 0] for s in (0.9999, 1.0001)
    )
    assert below == 0.0
    assert_allclose(above, critical * 2 / 3, rtol=1e-2)


# -- scale, signs, degenerate rows -----------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k"), [(p, k) for p, k in MEMBERS if k != "log"])
@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_rows_scale_with_their_problem(p, k, scale):
    power = k if math.isinf(p) else p if math.isinf(k) else p * k / (p + k)
    g, L = np.array([2.0, -1.0, 0.3]), np.array([0.5, 1.5, 1.0])
    a = solve(g, L, p, k, 0.4)
    assert np.any(a)
    assert_allclose(solve(scale * g, L, p, k, 0.4 * scale ** (2 - power)), scale * a, rtol=1e-8)
    # the same in units of a: curvature scale^-2 and slope scale^-1
    assert_allclose(solve(g / scale, L / scale**2, p, k, 0.4 * scale**-power), scale * a, rtol=1e-8)


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_signs_and_order_of_tasks_carry_over(p, k):
    g, L = np.array([2.0, -1.0, 0.3, 0.0]), np.array([0.5, 1.5, 1.0, 2.0])
    a = solve(g, L, p, k, 0.2)
    assert np.any(a)
    assert_array_equal(np.sign(a)[a != 0], np.sign(g)[a != 0])
    assert_allclose(solve(-g, L, p, k, 0.2), -a, rtol=1e-12)
    order = [2, 0, 3, 1]
    assert_allclose(solve(g[order], L[order], p, k, 0.2), a[order], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_a_task_without_curvature_stays_at_zero(p, k):
    # a constant column has neither curvature nor slope in that task
    g, L = np.array([2.0, 0.0, -1.0]), np.array([1.0, 0.0, 0.5])
    a = solve(g, L, p, k, 0.2)
    assert a[1] == 0.0 and np.all(np.isfinite(a)) and np.any(a)
    assert_allclose(a[[0, 2]], solve(g[[0, 2]], L[[0, 2]], p, k, 0.2), rtol=1e-10)
    assert_array_equal(solve(np.zeros(3), np.zeros(3), p, k, 0.2), 0.0)


@pytest.mark.parametrize(("p", "k"), MEMBERS)
@pytest.mark.parametrize("alpha", [1e-200, 1e200])
def test_extreme_strengths_stay_finite(p, k, alpha):
    g, L = np.array([2.0, -1.0, 0.3]), np.array([0.5, 1.5, 1.0])
    a = solve(g, L, p, k, alpha)
    assert np.all(np.isfinite(a))
    if alpha < 1:
        assert_allclose(a, g / L, rtol=1e-6)
    else:
        assert np.abs(a).max() < 1e-20
