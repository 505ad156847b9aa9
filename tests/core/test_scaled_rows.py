"""Rows whose entries have scales and signs, and rows that a function from outside solves."""

import ctypes
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import LowLevelCallable, optimize

from mmtfl.core.row_problems import ForeignRow, ScaledRow, next_row, row_costs, row_violations, solve_rows
from mmtfl.core.smooth_rows import EuclideanRow
from mmtfl.core.sum_and_max_rows import MaxNormRow, SeparableRow, SumNormRow
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.penalties import make_penalty
from oracles import INF

PROBLEMS = {
    (2, 2): EuclideanRow(1), (2, 1): EuclideanRow(2 / 3), (1, 1): SumNormRow(1 / 2),
    (1, INF): SeparableRow(1), (INF, 1): MaxNormRow(1), (1, "log"): SumNormRow(0, logarithm=True),
}  # fmt: skip


def solve(problem, g, L, alpha, scale, positive):
    numbers = np.concatenate([[alpha, 0.05], scale, np.asarray(positive, dtype=float)])[None]
    out = np.empty((1, len(g)))
    solve_rows(problem, np.array(g)[None], np.array(L)[None], numbers, out)
    return out[0]


# -- scales and signs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k"), PROBLEMS)
def test_no_row_that_brute_force_finds_is_better(p, k):
    """Signs and scales at once, from many starts inside of what is allowed."""
    rng = np.random.default_rng(2)
    for _ in range(6):
        g, L, s = rng.normal(size=3), np.exp(rng.normal(size=3)), np.exp(rng.normal(size=3))
        positive, problem = np.array([1.0, 0.0, 1.0]), ScaledRow(PROBLEMS[p, k])
        numbers = np.concatenate([[0.2, 0.05], s, positive])
        bounds = [(0.0, None), (None, None), (0.0, None)]

        def value(a, g=g, L=L, numbers=numbers, problem=problem):
            a = np.ascontiguousarray(a)
            return np.sum(L / 2 * a**2 - g * a) + row_costs(problem, a[None], numbers[None])[0]

        found = solve(problem, g, L, 0.2, s, positive)
        assert np.all(found[[0, 2]] >= 0.0)
        starts = [np.where(positive > 0, np.maximum(g, 0.0), g) / L * share for share in (0.5, 1.0)]
        least = min(
            optimize.minimize(value, x, method="Nelder-Mead", bounds=bounds, tol=1e-11).fun for x in starts
        )
        assert value(found) <= min(least, 0.0) + 1e-8


def test_entries_free_of_penalty_and_excluded_ones():
    g, L = [1.0, -2.0, 3.0, -0.5, 1.0], [0.5, 1.0, 2.0, 0.5, 0.0]
    scale, positive = [0.0, INF, 1.0, 0.0, 0.0], [0, 0, 0, 1, 0]
    found = solve(ScaledRow(EuclideanRow(1)), g, L, 1.0, scale, positive)
    assert_allclose(found, [2.0, 0.0, 1.0, 0.0, 0.0])  # a free constant column has no coefficient
    gone = solve(ScaledRow(EuclideanRow(1)), g, L, 1e300, scale, positive)
    assert_allclose(gone, [2.0, 0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(("p", "k"), PROBLEMS)
def test_costs_are_those_of_the_penalty(p, k):
    rng = np.random.default_rng(3)
    scale, positive = np.exp(rng.normal(size=(8, 4))), np.arange(8) % 2 == 0
    scale[0, 1], scale[1, 2], scale[2] = 0.0, INF, 0.0
    A = rng.normal(size=(8, 4)) * np.where(np.arange(8) < 6, 1.0, -1.0)[:, None]
    A[:6] = np.where(np.isinf(scale[:6]), 0.0, np.abs(A[:6]))
    A[7] *= np.sign(A[7])
    scale[7, 0] = INF  # which A does not keep to
    penalty = make_penalty(p, k, 0.3, eps=0.05, known=KnownFeatures(scale, positive))
    expected = [penalty.of_rows(np.array([j])).value(A[j : j + 1]) for j in range(8)]
    found = row_costs(ScaledRow(PROBLEMS[p, k]), A, penalty.row_numbers(8))
    assert_allclose(found, expected, rtol=1e-12)
    assert np.isinf(expected[7]) and np.isfinite(expected[:6]).all() and expected[2] == 0.0


# -- a row solver from outside -------------------------------------------------------------------------------

DOUBLES = ctypes.POINTER(ctypes.c_double)
ARGUMENTS = (ctypes.c_ssize_t, DOUBLES, DOUBLES, DOUBLES, DOUBLES, ctypes.c_int, DOUBLES, ctypes.c_void_p)
Callback = ctypes.CFUNCTYPE(None, *ARGUMENTS)


@Callback
def ridge(n, g, L, numbers, present, thorough, out, user_data):
    """alpha/2 ||a||^2 in plain Python, or that times what the user data points to."""
    alpha = numbers[0] * (ctypes.cast(user_data, DOUBLES)[0] if user_data else 1.0)
    for t in range(n):
        out[t] = g[t] / (L[t] + alpha)


def ridge_rows(problem):
    rng = np.random.default_rng(5)
    G, L, numbers = rng.normal(size=(7, 3)), np.exp(rng.normal(size=(7, 3))), np.exp(rng.normal(size=(7, 2)))
    numbers[2, 0] = INF
    out = np.empty(G.shape)
    solve_rows(problem, G, L, numbers, out)
    return out, G, L, numbers


def test_a_python_callback_solves_rows():
    problem = ForeignRow(ridge)
    out, G, L, numbers = ridge_rows(problem)
    expected = G / (L + numbers[:, :1])
    assert_allclose(out, expected, rtol=1e-15)
    assert_array_equal(out[2], 0.0)
    violation = row_violations(problem, 0.0 * G, -G, L, numbers)
    assert_allclose(violation, np.max(L * np.abs(expected), axis=1), rtol=1e-14)
    assert np.isnan(row_costs(problem, out, numbers)).all()


def test_the_callback_may_have_data_of_its_own_and_scales_around_it():
    factor = ctypes.c_double(3.0)
    data = ctypes.cast(ctypes.pointer(factor), ctypes.c_void_p)
    problem = ForeignRow(LowLevelCallable(ridge, user_data=data))
    out, G, L, numbers = ridge_rows(problem)
    assert_allclose(out, G / (L + 3.0 * numbers[:, :1]), rtol=1e-15)
    scaled = solve(ScaledRow(problem), [1.0, -1.0], [1.0, 2.0], 0.5, [2.0, 1.0], [0, 0])
    assert_allclose(scaled, [1.0 / (1.0 + 3.0 * 0.5 * 4.0), -1.0 / 3.5])


def test_the_callback_sees_the_present_row_and_whether_to_be_thorough():
    seen = []

    @Callback
    def look(n, g, L, numbers, present, thorough, out, user_data):
        seen.append(([present[t] for t in range(n)], thorough, [out[t] for t in range(n)]))

    problem, g, numbers = ForeignRow(look, has_short_cut=True), np.ones(2), np.ones(2)
    for thorough in (True, False):
        assert_array_equal(next_row(problem, g, g, numbers, np.array([3.0, 4.0]), thorough=thorough), 0.0)
    assert seen == [([3.0, 4.0], 1, [0.0, 0.0]), ([3.0, 4.0], 0, [0.0, 0.0])]
    assert problem.has_short_cut


def test_what_is_no_row_solver_is_refused():
    with pytest.raises(ValueError, match="signature"):
        ForeignRow(ctypes.CFUNCTYPE(None, *ARGUMENTS[:-1])(lambda *arguments: None))
    with pytest.raises(ValueError, match="signature"):
        ForeignRow(ctypes.CFUNCTYPE(ctypes.c_int, *ARGUMENTS)(lambda *arguments: 0))
    with pytest.raises(ValueError, match="callable"):
        ForeignRow(math.sqrt)
