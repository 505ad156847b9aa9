"""The row problem min over a of sum_t L_t a_t^2 / 2 - g_t a_t + phi(||a||_p), against brute force."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl.core.pooled_rows import PooledRow
from mmtfl.core.row_problems import (
    next_row,
    row_costs,
    row_violations,
    solve_rows,
)
from mmtfl.core.searched_rows import GeneralRow
from mmtfl.core.smooth_rows import EuclideanRow
from mmtfl.core.sum_and_max_rows import MaxNormRow, SeparableRow, SumNormRow
from mmtfl.objective.penalties import make_penalty
from oracles import INF, brute_force_row, row_objective, row_penalties, stationary_curve

PROBLEMS = {
    (2, 2): EuclideanRow(1), (2, 1): EuclideanRow(2 / 3), (2, 0.3): EuclideanRow(0.6 / 2.3),
    (2, 4): EuclideanRow(4 / 3), (2, INF): SeparableRow(2), (1, 1): SumNormRow(1 / 2),
    (1, 2): SumNormRow(2 / 3), (1, 0.2): SumNormRow(1 / 6), (1, INF): SeparableRow(1),
    (1.5, 1): GeneralRow(1.5, 0.6), (1.5, 3): GeneralRow(1.5, 1), (1.5, INF): SeparableRow(1.5),
    (1.05, 1): GeneralRow(1.05, 1.05 / 2.05), (3, 1.5): GeneralRow(3, 1), (3, 0.5): GeneralRow(3, 3 / 7),
    (3, 4): GeneralRow(3, 12 / 7), (8, 1): GeneralRow(8, 8 / 9), (INF, 1): MaxNormRow(1),
    (INF, 0.5): MaxNormRow(0.5), (INF, 2): MaxNormRow(2), (1, "log"): SumNormRow(0, logarithm=True),
    (2, "log"): GeneralRow(2, 0, logarithm=True), (3, "log"): GeneralRow(3, 0, logarithm=True),
    (2, 1.6): EuclideanRow(3.2 / 3.6), (2, 1.9): EuclideanRow(3.8 / 3.9),
    (1.5, 2.8): GeneralRow(1.5, 4.2 / 4.3), (3, 1.4): GeneralRow(3, 4.2 / 4.4),
    (8, 1.1): GeneralRow(8, 8.8 / 9.1), (8, 1.0857): GeneralRow(8, 8 * 1.0857 / 9.0857),
}  # fmt: skip
JUST_CONCAVE = [(2, 1.6), (2, 1.9), (1.5, 2.8), (3, 1.4), (8, 1.1)]
MEMBERS = [member for member in PROBLEMS if member not in (*JUST_CONCAVE, (8, 1.0857))]
# members that drop rows: the slope of phi at zero is positive
STEEP = [
    (2, 2), (2, 1), (2, 0.3), (1, 1), (1, 2), (1, 0.2), (1, INF), (1.5, 1), (1.5, 3), (1.05, 1), (3, 1.5),
    (3, 0.5), (8, 1), (INF, 1), (INF, 0.5), (1, "log"),
]  # fmt: skip
POOLED = [
    (2, 2), (2, 1), (2, 0.3), (2, 4), (2, INF), (2, "log"), (1, 1), (1, 2), (1, 0.2), (1, INF), (1, "log"),
]  # fmt: skip
EVERY = [*((*member, 0.0) for member in MEMBERS), *((*member, 0.9) for member in POOLED)]
CONCAVE = [(p, k) for p, k in STEEP if not make_penalty(p, k, 1.0).is_convex]


def problem_of(p, k, pooling):
    power = make_penalty(p, k, 1.0).power
    return PooledRow(p, power, pooling, 0, logarithm=k == "log") if pooling else PROBLEMS[p, k]


def solve(g, L, p, k, alpha, eps=1e-2):
    g, L = (np.atleast_2d(np.asarray(part, dtype=float)) for part in (g, L))
    out = np.empty(g.shape)
    solve_rows(PROBLEMS[p, k], g, L, np.full((1, 2), [alpha, eps]), out)
    return out[0]


def draw(rng, k, n_rows=1, n_tasks=5, spread=1.0):
    """Slopes with something in common, curvatures that differ, and strengths about the critical one."""
    L = np.exp(spread * rng.normal(size=(n_rows, n_tasks)))
    g = (rng.normal(size=L.shape) + rng.normal(size=(n_rows, 1))) * np.sqrt(L)
    strength = np.exp(rng.normal(size=n_rows) - 1.0) * np.linalg.norm(g, axis=1)
    return g, L, np.column_stack([strength * (0.1 if k == "log" else 1.0), np.full(n_rows, 0.05)])


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


# -- scale, signs, degenerate rows -----------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_a_task_without_curvature_stays_at_zero(p, k):
    # a constant column has neither curvature nor slope in that task
    g, L = np.array([2.0, 0.0, -1.0]), np.array([1.0, 0.0, 0.5])
    a = solve(g, L, p, k, 0.2)
    assert a[1] == 0.0 and np.all(np.isfinite(a)) and np.any(a)
    assert_allclose(a[[0, 2]], solve(g[[0, 2]], L[[0, 2]], p, k, 0.2), rtol=1e-10)
    assert_array_equal(solve(np.zeros(3), np.zeros(3), p, k, 0.2), 0.0)


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_without_strength_the_row_is_free_and_with_infinite_strength_it_is_zero(p, k):
    g, L = np.array([2.0, 0.0, -1.0]), np.array([0.5, 0.0, 1.5])
    assert_allclose(solve(g, L, p, k, 0.0), [4.0, 0.0, -2.0 / 3.0], rtol=1e-12)
    assert_array_equal(solve(g, L, p, k, np.inf), 0.0)


# -- rows that replace others ----------------------------------------------------------------------------


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize(("p", "k", "pooling"), EVERY)
def test_the_answer_is_never_worse_than_the_present_row(p, k, pooling, thorough):
    rng = np.random.default_rng(5)
    for _ in range(40):
        g, L, numbers = (part[0] for part in draw(rng, k, n_tasks=4))
        present = rng.normal(size=4) * np.abs(g / L) * rng.choice([0.01, 1.0])
        found = next_row(problem_of(p, k, pooling), g, L, numbers, present, thorough=thorough)
        before, after = row_objective([present, found], g, L, p, k, *numbers, pooling=pooling)
        assert after <= before + 1e-11 * abs(before)


@pytest.mark.parametrize(("p", "k", "pooling"), EVERY)
def test_a_solution_is_a_fixed_point(p, k, pooling):
    rng, problem = np.random.default_rng(6), problem_of(p, k, pooling)
    rounding = 1e-12 if pooling else 1e-11
    kept = 0
    for _ in range(20):
        g, L, numbers = (part[0] for part in draw(rng, k))
        a = next_row(problem, g, L, numbers, np.zeros(5), thorough=True)
        kept += a.any()
        for thorough in (True, False):
            again = next_row(problem, g, L, numbers, a, thorough=thorough)
            assert_allclose(again, a, rtol=1e-9, atol=rounding * np.abs(g / L).max())
    assert kept > 3


# -- all rows at once ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k", "pooling"), [*EVERY, *((*member, 0.55) for member in POOLED)])
def test_costs_are_those_of_the_penalty(p, k, pooling):
    rng, problem = np.random.default_rng(7), problem_of(p, k, pooling)
    A, alpha = rng.normal(size=(6, 4)) * np.exp(3 * rng.normal(size=(6, 1))), np.exp(rng.normal(size=6))
    A[0], A[1, 2], A[5] = 0.0, 0.0, 1e-200
    penalty = make_penalty(p, k, alpha, eps=0.05, pooling=pooling)
    expected = [penalty.of_rows(np.array([j])).value(A[j : j + 1]) for j in range(5)]
    found = row_costs(problem, A, penalty.row_numbers(6))
    assert_allclose(found[:5], expected, rtol=1e-12)
    assert 0.0 <= found[5] < 1e-15
    assert_array_equal(row_costs(problem, A[:2], np.full((2, 2), [np.inf, 0.05])), [0.0, np.inf])


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_violations_are_distances_from_the_answers(p, k):
    rng = np.random.default_rng(8)
    G, L, numbers = draw(rng, k, 30)
    numbers[3, 0] = np.inf
    best = np.empty(G.shape)
    solve_rows(PROBLEMS[p, k], G, L, numbers, best)
    assert_allclose(row_violations(PROBLEMS[p, k], best, L * best - G, L, numbers), 0.0, atol=1e-8)
    A = rng.normal(size=G.shape)
    # exact problems have the same answer from every row
    if k == "log" or (p not in (1, INF) and make_penalty(p, k, 1.0).power < 1.0):
        return
    found = row_violations(PROBLEMS[p, k], A, L * A - G, L, numbers)
    assert_allclose(found, np.max(L * np.abs(A - best), axis=1), rtol=1e-6)
    assert found[3] == np.max(L[3] * np.abs(A[3]))


@pytest.mark.parametrize(("p", "k"), [(2, 2), (1, 1), (3, 0.5), (1, "log")])
def test_threads_that_share_a_problem_do_not_disturb_each_other(p, k):
    rng = np.random.default_rng(10)
    G, L, numbers = draw(rng, k, 400, 12)

    def solutions(_):
        out = np.empty(G.shape)
        solve_rows(PROBLEMS[p, k], G, L, numbers, out)
        return out

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(solutions, range(8))
    assert first.any()
    for other in others:
        assert_array_equal(other, first)
