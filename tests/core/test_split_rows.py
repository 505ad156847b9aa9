"""Rows that are sums of two parts, with alpha ||p|| + eps ||q||_1, against a conic solver."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.core.row_problems import next_row, row_costs, solve_rows
from mmtfl.core.split_rows import SplitRow
from oracles import INF

STRENGTHS = [(1.0, 0.6), (0.7, 0.9), (1.5, 0.4), (0.3, 0.05), (2.0, 0.1)]


def draw(seed, n_rows=12, n_tasks=4):
    rng = np.random.default_rng(seed)
    g, L = 2.0 * rng.normal(size=(n_rows, n_tasks)), rng.uniform(0.2, 3.0, size=(n_rows, n_tasks))
    g[0] = 0.01  # a row that stays zero
    L[1, 2] = 0.0  # a task in which the feature is constant
    return g, L


def solve(g, L, p, strengths):
    out = np.empty(g.shape)
    solve_rows(SplitRow(p), g, L, np.full((len(g), 2), strengths), out)
    return out


def conic_value(smooth, P, Q, p, strengths):
    """Least value of a smooth function plus both norms."""
    rows = [cp.norm(P[j], 2 if p == 2 else "inf") for j in range(P.shape[0])]
    total = smooth + strengths[0] * sum(rows) + strengths[1] * cp.sum(cp.abs(Q))
    return cp.Problem(cp.Minimize(total)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("strengths", STRENGTHS, ids=str)
@pytest.mark.parametrize("p", [2.0, INF])
def test_rows_are_as_good_as_those_of_a_conic_solver(p, strengths):
    g, L = draw(5)
    found = solve(g, L, p, strengths)
    assert not found[0].any() and found[1, 2] == 0.0 and found[2:].any(axis=1).sum() > 3
    g[1, 2] = 0.0
    P, Q = cp.Variable(g.shape), cp.Variable(g.shape)
    smooth = cp.sum(cp.multiply(0.5 * L, cp.square(P + Q))) - cp.sum(cp.multiply(g, P + Q))
    best = conic_value(smooth, P, Q, p, strengths)
    costs = row_costs(SplitRow(p), found, np.full((len(g), 2), strengths))
    assert_allclose(np.sum(0.5 * L * found**2 - g * found) + costs.sum(), best, rtol=1e-7)


@pytest.mark.parametrize("p", [2.0, INF])
def test_the_present_row_is_only_where_the_search_begins(p):
    rng = np.random.default_rng(7)
    g, L = draw(7, n_rows=40)
    best, numbers = solve(g, L, p, (1.0, 0.6)), np.array([1.0, 0.6])
    for j, size in enumerate(np.geomspace(1e-6, 1e6, 40)):
        present = size * rng.normal(size=4)
        found = next_row(SplitRow(p), g[j], L[j], numbers, present, thorough=False)
        assert_allclose(found, best[j], rtol=1e-9, atol=1e-12)
