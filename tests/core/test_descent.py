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


def test_storages_lead_to_the_same_rows():
    x, y, curvature = made(1)
    for problem in (EuclideanRow(1), SeparableRow(1), EuclideanRow(2 / 3)):
        one, other = (minimised(storage(x, y), problem, curvature) for storage in (by_columns, by_grams))
        assert one.any()
        assert_allclose(one, other, atol=1e-7)


def test_tasks_may_share_columns_and_a_gram_matrix():
    x, y, _ = made(2)
    x = np.tile(x[:, :N], T)
    curvature = np.repeat((x[:, :N] ** 2).sum(axis=1)[:, None], T, axis=1)
    apart = minimised(by_columns(x, y), EuclideanRow(1), curvature)
    own = np.ascontiguousarray(x[:, :N])
    shared = ColumnStorage(own, np.zeros(T, dtype=np.intp), BEGIN, LENGTH, y.copy(), NOTHING, NO_MEANS)
    gram = GramStorage((own @ own.T)[None], np.array([own @ y[b : b + N] for b in BEGIN]), M)
    for storage in (shared, gram):
        assert_allclose(minimised(storage, EuclideanRow(1), curvature), apart, atol=1e-8)
    assert apart.any()


def test_weighted_columns_are_centred_and_weighted_on_the_way():
    (x, y, _), weight = made(3), np.random.default_rng(3).uniform(0.5, 2.0, T * N)
    parts = [slice(b, b + N) for b in BEGIN]
    means = np.array([[np.average(x[j, part], weights=weight[part]) for part in parts] for j in range(M)])
    ready = (x - np.repeat(means, N, axis=1)) * np.sqrt(weight)
    level = np.repeat([np.average(y[part], weights=weight[part]) for part in parts], N)
    curvature = np.array([[ready[j, part] @ ready[j, part] for part in parts] for j in range(M)])
    weighted = ColumnStorage(x, BEGIN, BEGIN, LENGTH, weight * (y - level), weight, means)
    A = minimised(weighted, EuclideanRow(1), curvature)
    assert A.any()
    assert_allclose(
        A, minimised(by_columns(ready, np.sqrt(weight) * (y - level)), EuclideanRow(1), curvature), atol=1e-8
    )


def grouped(x, y, groups, curvature):
    """The minimum over blocks of rows."""
    members = np.concatenate(groups).astype(np.intp)
    starts = np.cumsum([0, *map(len, groups)]).astype(np.intp)
    A, numbers = np.zeros((M, T)), np.tile([ALPHA, 1.0], len(groups))
    blocks = Blocks(members, starts, numbers, 2 * np.arange(len(groups)), curvature[members].ravel())
    settled, *_ = Descent(by_columns(x, y), EuclideanRow(1), blocks, A).run(slope=1e-10, max_sweeps=20_000)
    assert settled
    return A


def test_blocks_of_rows_are_kept_or_dropped_together():
    (x, y, curvature), groups = made(4), [[0, 1], [2], [3, 4, 5], [6, 7]]
    A = grouped(x, y, groups, curvature)
    slopes, n_kept = slopes_at(x, y, A), 0
    for rows in groups:
        if A[rows].any():
            n_kept += 1
            assert_allclose(slopes[rows], ALPHA * A[rows] / np.linalg.norm(A[rows]), atol=1e-7)
        else:
            assert np.linalg.norm(slopes[rows]) <= ALPHA + 1e-8
    assert 0 < n_kept < len(groups)


def test_rows_that_are_not_swept_stay_as_they_are():
    x, y, curvature = made(5)
    A = minimised(by_grams(x, y), EuclideanRow(1), curvature, rows=np.array([0, 2, 3]))
    assert A[[0, 3]].any(axis=1).all() and not A[[1, 4, 5, 6, 7]].any()


def test_a_row_of_infinite_strength_is_zero():
    x, y, curvature = made(6)
    A, numbers = np.ones((M, T)), np.column_stack([np.full(M, ALPHA), np.ones(M)])
    numbers[[0, 5], 0] = np.inf
    state = y - np.concatenate([A[:, t] @ x[:, b : b + N] for t, b in enumerate(BEGIN)])
    blocks = Blocks.of_rows(np.arange(M), numbers, curvature)
    Descent(by_columns(x, state), EuclideanRow(1), blocks, A).run(slope=1e-9, max_sweeps=1000)
    assert not A[[0, 5]].any() and A[3].any()


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
