"""The row problem with pooling, against brute force: sum_t L_t a_t^2 / 2 - g_t a_t + phi(S^(1/p))."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize

from mmtfl.core.pooled_rows import PooledRow
from mmtfl.core.row_problems import next_row, solve_blocks
from mmtfl.objective.penalties import make_penalty
from oracles import INF, row_objective, row_sums

MEMBERS = [
    (2, 2), (2, 1), (2, 0.3), (2, 4), (2, INF), (2, "log"), (1, 1), (1, 2), (1, 0.2), (1, INF), (1, "log"),
]  # fmt: skip


def problem_of(p, k, pooling, n_tasks=0):
    power = make_penalty(p, k, 1.0).power
    return PooledRow(p, power, pooling, n_tasks, logarithm=k == "log")


def solve(g, L, p, k, alpha, pooling, n_tasks=0):
    g, L = (np.asarray(part, dtype=float) for part in (g, L))
    problem, numbers = problem_of(p, k, pooling, n_tasks), np.array([alpha, 1e-2])
    return next_row(problem, g, L, numbers, np.zeros(g.size), thorough=True)


def draw(rng, k, n_tasks=None, *, flat=False):
    """Slopes with something in common, curvatures that may differ by orders, and a strength."""
    n_tasks = n_tasks or int(rng.integers(1, 5))
    L = np.exp(rng.normal(size=n_tasks) * rng.choice([0.0, 1.5]))
    g = (rng.normal(size=n_tasks) + rng.normal()) * L
    if flat and n_tasks > 1:
        L[0] = g[0] = 0.0
    return g, L, rng.choice([0.05, 0.3, 1.0]) * np.abs(g).max() * (0.1 if k == "log" else 1.0)


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_no_row_of_a_fine_grid_is_better(p, k):
    """Two tasks: the plane is searched whole, so that no local minimum is missed."""
    rng = np.random.default_rng(8)
    for pooling in (0.3, 0.6, 0.95, 0.998):
        for case in range(4):
            g, L, alpha = draw(rng, k, 2, flat=case == 0)
            size = 1.3 * np.abs(g[1] / L[1] if case == 0 else g / L).max()
            axis = size * np.linspace(-1.0, 1.0, 401)
            plane = np.array(np.meshgrid(axis, axis)).reshape(2, -1).T
            least = row_objective(plane, g, L, p, k, alpha, pooling=pooling).min()
            ours = solve(g, L, p, k, alpha, pooling)
            assert row_objective(ours, g, L, p, k, alpha, pooling=pooling)[0] <= min(least, 0.0) + 1e-12


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_a_task_without_curvature_has_the_common_part(p, k):
    rng = np.random.default_rng(2)
    g, L = np.array([2.0, 0.0, 1.6, 2.4]), np.array([1.0, 0.0, 0.8, 1.3])
    alpha, pooling = 0.02, 0.8
    a = solve(g, L, p, k, alpha, pooling)
    assert a.all()
    value = row_objective(a, g, L, p, k, alpha, pooling=pooling)[0]
    for other in a[1] + rng.normal(size=50) * 0.1:
        moved = np.array([a[0], other, a[2], a[3]])
        assert row_objective(moved, g, L, p, k, alpha, pooling=pooling)[0] >= value
    assert_allclose(a[1], make_penalty(p, k, alpha, pooling=pooling).common_part(a[None])[0], rtol=1e-12)


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_a_block_has_a_common_part_in_each_row(p, k):
    """Two rows of three tasks that share one penalty; many starts compete, and zero."""
    rng = np.random.default_rng(10)
    kept = 0
    for _ in range(4):
        L = np.exp(rng.normal(size=(2, 3)))
        g = (rng.normal(size=(2, 3)) + rng.normal(size=(2, 1))) * L
        alpha = rng.choice([0.1, 0.4]) * np.abs(g).max() * (0.1 if k == "log" else 1.0)
        problem, found, numbers = problem_of(p, k, 0.9, 3), np.empty((2, 3)), np.array([alpha, 1e-2])
        solve_blocks(problem, g, L, np.arange(2), np.array([0, 2]), numbers, np.array([0, 2]), found)

        def value(a, g=g, L=L, alpha=alpha):
            S = row_sums(a.reshape(2, 3), p, 0.9).sum()
            phi = np.log1p(S / 1e-2) if k == "log" else S if k == INF else S ** (k / (p + k))
            return float(np.sum((L.ravel() / 2 * a - g.ravel()) * a)) + alpha * phi

        starts = [g / L, 0.5 * g / L, np.repeat((g / L).mean(axis=1)[:, None], 3, axis=1)]
        options = {"xatol": 1e-8, "fatol": 1e-11, "maxiter": 4000, "maxfev": 4000}
        least = min(
            optimize.minimize(value, start.ravel(), method="Nelder-Mead", options=options).fun
            for start in starts
        )
        assert value(found.ravel()) <= min(least, 0.0) + 1e-6 * max(abs(least), 1e-3)
        kept += found.any()
    assert kept > 1
