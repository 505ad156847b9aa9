"""The descent of the core: its minima obey the conditions written out here, wherever the columns are."""

import signal
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.core.descent import Blocks, Descent
from mmtfl.core.smooth_rows import EuclideanRow
from mmtfl.core.storage import ColumnStorage, GramStorage
from mmtfl.core.sum_and_max_rows import SeparableRow

T, M, N = 3, 8, 20  # tasks, columns, rows of a task
BEGIN, LENGTH = N * np.arange(T), np.full(T, N)
NOTHING, NO_MEANS = np.empty(0), np.empty((0, 0))
ALPHA = 4.0


def made(seed=0):
    """Columns (M, T N), targets (T N,) that two of them explain, and the curvature (M, T)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(M, T * N))
    x[1] = x[0] + 0.1 * rng.normal(size=T * N)  # nearly equal columns
    y = x[0] * np.repeat([1.0, 2.0, -1.0], N) + x[3] + rng.normal(size=T * N)
    return x, y, np.array([[x[j, b : b + N] @ x[j, b : b + N] for b in BEGIN] for j in range(M)])


def by_columns(x, y):
    return ColumnStorage(x, BEGIN, BEGIN, LENGTH, y.copy(), NOTHING, NO_MEANS)


def by_grams(x, y):
    parts = [(x[:, b : b + N], y[b : b + N]) for b in BEGIN]
    grams, slopes = (np.array(both) for both in zip(*((p @ p.T, p @ r) for p, r in parts), strict=True))
    return GramStorage(grams, slopes, M)


def minimised(storage, problem, curvature, alpha=ALPHA, rows=None):
    rows = np.arange(M) if rows is None else rows
    A = np.zeros((M, T))
    numbers = np.column_stack([np.full(len(rows), alpha), np.ones(len(rows))])
    descent = Descent(storage, problem, Blocks.of_rows(rows, numbers, curvature[rows]), A)
    settled, n_sweeps, _ = descent.run(slope=1e-10, max_sweeps=5000)
    assert settled and 1 < n_sweeps < 5000
    return A


def slopes_at(x, y, A):
    return np.column_stack(
        [x[:, b : b + N] @ (y[b : b + N] - A[:, t] @ x[:, b : b + N]) for t, b in enumerate(BEGIN)]
    )


@pytest.mark.parametrize("storage", [by_columns, by_grams])
def test_rows_of_the_group_lasso_meet_the_optimality_conditions(storage):
    x, y, curvature = made()
    A = minimised(storage(x, y), EuclideanRow(1), curvature)
    slopes, kept = slopes_at(x, y, A), A.any(axis=1)
    assert 0 < kept.sum() < M
    unit = A[kept] / np.linalg.norm(A[kept], axis=1, keepdims=True)
    assert_allclose(slopes[kept], ALPHA * unit, atol=1e-8)
    assert np.all(np.linalg.norm(slopes[~kept], axis=1) <= ALPHA + 1e-8)


def test_extrapolation_shortens_the_way_along_nearly_equal_columns():
    """A plain sweep leaves nearly all of the difference of two nearly equal columns."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2, T * N))
    x[1] = x[0] + 1e-3 * rng.normal(size=T * N)
    y = x[0] - x[1]
    curvature = np.array([[x[j, b : b + N] @ x[j, b : b + N] for b in BEGIN] for j in range(2)])
    A = np.zeros((2, T))
    blocks = Blocks.of_rows(np.arange(2), np.full((2, 2), 1e-9), curvature)
    settled, n_sweeps, _ = Descent(by_columns(x, y), SeparableRow(2), blocks, A).run(
        slope=1e-9, max_sweeps=10_000
    )
    assert settled and n_sweeps < 500
    assert_allclose(A, [[1.0] * T, [-1.0] * T], atol=1e-2)


@pytest.mark.skipif(sys.platform == "win32", reason="has no timer that interrupts")
def test_an_interrupt_ends_a_descent_that_would_take_for_ever():
    x, y, curvature = made(9)
    blocks = Blocks.of_rows(np.arange(M), np.full((M, 2), 1e-3), curvature)
    descent = Descent(by_columns(x, y), EuclideanRow(1), blocks, np.zeros((M, T)))

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            descent.run(slope=-1.0, max_sweeps=1 << 40)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
