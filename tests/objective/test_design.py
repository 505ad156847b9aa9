"""The design: every storage answers the same questions with the same numbers, and leaves the data alone."""

import gc
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mmtfl.objective import design
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Squared
from mmtfl.objective.problem import Problem
from mmtfl.objective.row_sizes import zero_rows
from mmtfl.objective.units import column_levels, without_levels
from mmtfl.tasks import Tasks


def with_long_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


SIZES = (6, 1, 9)
N, D, T = sum(SIZES), 5, len(SIZES)
STORAGES = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "float32 C": lambda X: X.astype(np.float32),
    "float32 F": lambda X: np.asfortranarray(X, dtype=np.float32),
    "csr array": sparse.csr_array,
    "csc array": sparse.csc_array,
    "csr matrix": sparse.csr_matrix,
    "csc matrix": sparse.csc_matrix,
    "csr float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    "csc of long indices": lambda X: with_long_indices(sparse.csc_array(X)),
}
LAYOUTS = ["stacked", "shared", "shared with gaps"]
# sums of float32 products are done in float64, so all storages agree to float64 rounding
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def base_data(layout, weighted):
    """Dense float64 X of float32 numbers with some zeros, targets, the rows of each task, and weights."""
    rng = np.random.default_rng(0)
    n_rows = N if layout == "stacked" else 8
    X = rng.normal(size=(n_rows, D)) + 1.0
    X[rng.random(X.shape) < 0.4] = 0.0
    X[:, 3] = 2.0  # constant
    X = X.astype(np.float32).astype(float)
    if layout == "stacked":
        y = rng.normal(size=N)
        rows = np.split(np.arange(N), np.cumsum(SIZES)[:-1])
        w = rng.uniform(0.5, 2.0, size=N) if weighted else None
        return X, y, rows, w
    Y = rng.normal(size=(n_rows, T))
    if layout == "shared with gaps":
        Y[[0, 3, 3, 7], [0, 0, 2, 1]] = np.nan
    rows = [np.flatnonzero(~np.isnan(Y[:, t])) for t in range(T)]
    w = rng.uniform(0.5, 2.0, size=n_rows) if weighted else None
    return X, Y, rows, w


def make_tasks(layout, storage, weighted):
    X, y, rows, w = base_data(layout, weighted)
    stored = STORAGES[storage](X)
    if layout == "stacked":
        tasks = Tasks.from_rows(stored, y, np.repeat(np.arange(T), SIZES), w)
        weights = None if w is None else [w[r] for r in rows]
    else:
        tasks = Tasks.from_shared(stored, y, w)
        weights = None if w is None else [w[r] for r in rows]
    designs = [X[r] for r in rows]
    weights = [np.ones(len(r)) for r in rows] if weights is None else weights
    mean_size = sum(w.sum() for w in weights) / T
    return tasks, designs, [w / mean_size for w in weights]


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_storage_gives_the_written_out_sums(layout, storage, weighted):
    tasks, X, weights = make_tasks(layout, storage, weighted)
    scale = np.array([1.0, 2.0, 0.1, 5.0, 3.0])
    rng = np.random.default_rng(1)
    for fit_intercept in (True, False):
        design = Design(tasks, column_scale=scale, fit_intercept=fit_intercept)
        assert_allclose(design.row_weight, np.concatenate(weights), rtol=1e-14)
        assert_allclose(design.row_weight.sum(), T, rtol=1e-14)

        v = [rng.normal(size=len(x)) for x in X]
        correlated = np.column_stack([(x / scale).T @ u for x, u in zip(X, v, strict=True)])
        assert_allclose(design.correlate(np.concatenate(v)), correlated, **CLOSE)

        curvature = np.empty((D, T))
        for t, (x, w) in enumerate(zip(X, weights, strict=True)):
            x = x / scale - fit_intercept * (w @ (x / scale) / w.sum())
            curvature[:, t] = w @ x**2
        assert_allclose(design.curvature, curvature, rtol=1e-10, atol=1e-12)

        A = rng.normal(size=(D, T))
        A[2] = 0.0
        z = np.concatenate([(x / scale) @ A[:, t] for t, x in enumerate(X)])
        assert_allclose(design.predict(A), z, **CLOSE)
        assert_allclose(design.predict(np.zeros((D, T))), 0.0)

        index = np.array([4, 0, 3])
        block = design.columns(index, expand=True)
        assert block.dtype == np.float64 and block.flags.f_contiguous
        assert_allclose(block, np.concatenate(X)[:, index] / scale[index], **CLOSE)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_are_a_copy(layout, storage):
    tasks, _, _ = make_tasks(layout, storage, weighted=False)
    dense = tasks.X.toarray() if sparse.issparse(tasks.X) else tasks.X.copy()
    design = Design(tasks)
    for expand in (True, False):
        block = design.columns(np.arange(D), expand=expand)
        block[:] = np.nan
    design.correlate(np.ones(tasks.n_samples))
    assert design.curvature.shape == (D, T)
    assert_array_equal(tasks.X.toarray() if sparse.issparse(tasks.X) else tasks.X, dense)


def test_a_complete_shared_block_has_the_rows_of_x_once():
    tasks, _, _ = make_tasks("shared", "C", weighted=False)
    design = Design(tasks)
    assert design.is_complete
    assert design.columns(np.arange(D), expand=False).shape == (8, D)
    assert design.columns(np.arange(D), expand=True).shape == (8 * T, D)
    gaps = Design(make_tasks("shared with gaps", "C", weighted=False)[0])
    assert not gaps.is_complete
    assert gaps.columns(np.arange(D), expand=False).shape == (len(gaps.y), D)


@pytest.mark.parametrize("size", [1e-200, 1e-150, 1e150, 1e200])
@pytest.mark.parametrize("storage", ["C", "F", "csr array", "csc array"])
def test_columns_in_safe_units_are_the_same_columns_in_powers_of_two(size, storage):
    X, y, _, _ = base_data("stacked", weighted=False)
    labels = np.repeat(np.arange(T), SIZES)
    extreme = Tasks.from_rows(STORAGES[storage](X * size), y, labels)
    design = Design(extreme)
    problem, units = Problem(design, Squared()).in_safe_units()
    factor = units.column
    moderate = problem.design
    assert_array_equal(np.log2(factor), np.round(np.log2(factor)))
    block = moderate.columns(np.arange(D), expand=True)
    assert np.abs(block).max() < 100 and np.abs(block).max(axis=0).min() > 0.1
    assert_allclose(block * factor, design.columns(np.arange(D), expand=True), rtol=1e-12)
    assert np.all(np.isfinite(moderate.curvature)) and moderate.curvature.max() > 1e-3


def test_a_problem_is_gone_with_its_last_name():
    """Problems of wide data are large: none may hold itself, and so wait for the garbage collector."""
    rng = np.random.default_rng(0)
    problem = Problem(Design(Tasks.from_rows(rng.normal(size=(12, 3)), rng.normal(size=12))), Squared())
    assert problem.in_safe_units() == (problem, None)
    gone = weakref.ref(problem)
    gc.disable()
    try:
        del problem
        assert gone() is None
    finally:
        gc.enable()


def test_many_columns_and_tasks_are_taken_in_parts_with_the_same_bits(monkeypatch):
    rng = np.random.default_rng(1)
    tasks = Tasks.from_rows(
        np.asfortranarray(rng.normal(size=(60, 7))), rng.normal(size=60), np.arange(60) // 3
    )
    whole, v = Design(tasks), rng.normal(size=60)
    curvature, slopes = whole.curvature, whole.correlate(v)
    monkeypatch.setattr(design, "_CHUNK", 8 * 20 * 2)  # two columns at a time
    parts = Design(tasks)
    assert_array_equal(parts.curvature, curvature)
    assert_array_equal(parts.correlate(v), slopes)
    assert_allclose(slopes[:, 4], tasks.X[12:15].T @ v[12:15], **CLOSE)


def test_columns_whose_squares_leave_the_floats_have_no_curvature_and_no_warning():
    X = np.random.default_rng(0).normal(size=(6, 2)) * [1.0, 1e170]
    design = Design(Tasks.from_rows(X, np.arange(6.0), np.repeat(["a", "b"], 3)))
    assert np.all(design.curvature[0] > 0.0) and not design.curvature[1].any()


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_a_written_row_takes_no_more_than_its_own_pages():
    A = zero_rows(20_000, 500)
    before = _resident()
    A[::200] = 1.0  # a hundred rows of 4 kB, of 80 MB
    A.any(axis=1)
    assert _resident() - before < 8e6


def _resident() -> float:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096.0


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).normal(size=(40, 3)) + 5.0,
        np.ones((40, 3)),
        np.random.default_rng(0).integers(0, 2, size=(40, 3)).astype(float),
        np.full((40, 3), 0.1),
        np.where(np.arange(40)[:, None] == 25, 0.0, np.ones((40, 3))),
    ],
    ids=["near", "ones", "binary", "a constant", "nearly constant"],
)
def test_ordinary_columns_have_no_level(X):
    assert column_levels(Tasks.from_rows(X, np.zeros(40), np.repeat([0, 1], 20))) is None


def test_sparse_columns_that_are_not_full_keep_their_pattern():
    X = sparse.random_array((60, 5), density=0.4, rng=np.random.default_rng(0), format="csr")
    X.data[:] = 1e6
    assert column_levels(Tasks.from_rows(X, np.zeros(60), np.repeat([0, 1], 30))) is None


def test_the_rounding_of_a_target_level_is_no_spread():
    y = [1e9, 1e9 + 1e-6, 1e9, 1e9 + 2.0]
    tasks = Tasks.from_rows(np.eye(4), y, ["constant", "constant", "varies", "varies"])
    assert np.diff(y)[0] > 0.0
    assert without_levels(tasks, None, np.array([1e9, 1e9])).y.tolist() == [0.0, 0.0, 0.0, 2.0]
