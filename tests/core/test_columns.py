"""Every pass over X gives what numpy gives, whatever the storage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl.core import columns

DENSE = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "float32 C": lambda X: X.astype(np.float32),
    "float32 F": lambda X: np.asfortranarray(X, dtype=np.float32),
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "rows backwards": lambda X: X[::-1].copy()[::-1],
    "some rows of C": lambda X: np.repeat(X, 2, axis=0)[::2],
    "read-only": lambda X: np.lib.stride_tricks.as_strided(X, writeable=False),
}
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
SIZES = np.array([3, 1, 140, 6])  # more rows than are gathered at a time, and a task of one row
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
TASK = np.repeat(np.arange(4), SIZES)
N, D = OFFSETS[-1], 7


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def draw(rng, storage):
    """X as it is stored, and as float64."""
    X = DENSE[storage](rng.normal(size=(N, D)) + 2.0)
    return X, np.array(X, dtype=float)


def task_sums(rows):
    return np.add.reduceat(rows, OFFSETS[:-1], axis=0)


@pytest.mark.parametrize("storage", DENSE)
def test_every_pass_over_X_gives_what_numpy_gives(rng, storage):
    X, plain = draw(rng, storage)
    weight, scale, v = rng.uniform(0.1, 2.0, N), rng.uniform(0.5, 2.0, D), rng.normal(size=N)
    index, gathered = np.array([6, 0, 3]), np.empty((3, N))
    columns.gather(X, None, index, scale, gathered)
    assert_array_equal(gathered, (plain * scale)[:, index].T)
    some, few = np.array([5, 0, 149, 5, 77]), np.empty((3, 5))
    columns.gather(X, some, index, scale, few)
    assert_array_equal(few, gathered[:, some])
    squares, sums = columns.moments(X, OFFSETS, weight, scale)
    assert_allclose(squares, task_sums(weight[:, None] * (plain * scale) ** 2), **CLOSE)
    assert_allclose(sums, task_sums(weight[:, None] * plain * scale), **CLOSE)
    assert_allclose(columns.adjoint(X, OFFSETS, v), task_sums(plain * v[:, None]), **CLOSE)
    coef, intercept, task = rng.normal(size=(5, D)), rng.normal(size=5), rng.integers(0, 5, N)
    expected = np.sum(plain * coef[task], axis=1) + intercept[task]
    assert_allclose(columns.predict_rows(X, task, coef, intercept), expected, **CLOSE)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("storage", ["C", "F"])
def test_what_is_not_finite_shows_in_its_prediction_even_times_zero(rng, storage, value):
    X, _ = draw(rng, storage)
    X[20, D - 1] = value
    z = columns.predict_rows(X, np.zeros(N, dtype=np.intp), np.zeros((1, D)), np.ones(1))
    assert_array_equal(np.flatnonzero(~np.isfinite(z)), [20])


def test_the_image_is_the_sum_of_columns_times_the_coefficients_of_each_task(rng):
    x, A = rng.normal(size=(D, N)), rng.normal(size=(D, len(SIZES)))
    A[[0, 3], [1, 2]] = 0.0
    assert_allclose(columns.forward_by_columns(x, OFFSETS, A), np.sum(x * A[:, TASK], axis=0), **CLOSE)


# -- centred columns -----------------------------------------------------------------------------------------


def moments_in_numpy(x, weight):
    """Weighted means and square sums about them, (columns, tasks)."""
    size = task_sums(weight)
    means = task_sums((weight * x).T).T / size
    return means, task_sums((weight * (x - means[:, TASK]) ** 2).T).T


@pytest.mark.parametrize("is_centred", [True, False])
def test_columns_are_centred_and_scaled_by_the_weights_and_their_square_sums_returned(rng, is_centred):
    x, weight = rng.normal(size=(D, N)) + 5.0, rng.uniform(0.1, 2.0, N)
    root, own, some = np.sqrt(weight), x.copy(), np.array([4, 1])
    means, squares = moments_in_numpy(x, weight)
    if not is_centred:
        means, squares = np.zeros_like(means), task_sums((weight * x**2).T).T
    for found in (columns.centre(own, OFFSETS, weight, root, is_centred),
                  columns.weighted_moments(x, np.arange(D), OFFSETS, weight, is_centred)):  # fmt: skip
        assert_allclose(found[0], means, **CLOSE)
        assert_allclose(found[1], squares, **CLOSE)
    assert_allclose(own, (x - means[:, TASK]) * root, **CLOSE)
    _, of_some = columns.weighted_moments(x, some, OFFSETS, weight, is_centred)
    assert_allclose(of_some, squares[some], **CLOSE)


def test_constant_columns_have_no_curvature(rng):
    x, weight = rng.normal(size=(3, N)), rng.uniform(0.1, 2.0, N)
    x[1] = 0.1  # not exact in binary: the mean of many of them differs in the last bit
    _, curvature = columns.weighted_moments(x, np.arange(3), OFFSETS, weight, True)
    assert_array_equal(curvature[1], 0.0)
    assert np.all(curvature[[0, 2]][:, SIZES > 1] > 0.0)
    _, curvature = columns.centre(x, OFFSETS, weight, np.sqrt(weight), True)
    assert_array_equal(curvature[1], 0.0)
    assert_array_equal(x[1], 0.0)
    assert np.all(np.any(x[[0, 2]] != 0.0, axis=1))


def test_tasks_that_share_their_rows_have_moments_by_their_own_weights(rng):
    n_tasks, n = 3, 9
    x, weight = rng.normal(size=(2, n)) + 1.0, rng.uniform(0.1, 2.0, n_tasks * n)
    offsets, every = n * np.arange(n_tasks + 1), np.arange(2)
    stacked = columns.weighted_moments(np.tile(x, n_tasks), every, offsets, weight, True)
    assert_array_equal(columns.weighted_moments(x, every, offsets, weight, True), stacked)


# -- sparse --------------------------------------------------------------------------------------------------
