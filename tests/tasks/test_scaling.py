"""Spread of columns, against sums in extended precision."""

import numpy as np
import pytest
from scipy import sparse

from mmtfl import Tasks
from mmtfl.tasks import scaling
from mmtfl.tasks.scaling import column_spread, target_spread


def awkward_columns(rng, n_rows):
    """Columns that are plain, far from zero, tiny, huge, with an odd first row, and constant."""
    plain = rng.normal(size=n_rows)
    odd = plain.copy()
    odd[0] = 1e5
    rare = np.zeros(n_rows)
    rare[0] = 1.0
    huge = 1e300 * plain / np.abs(plain).max()
    return np.column_stack([plain, 1e9 + plain, 1e-180 * plain, huge, odd, rare, np.full(n_rows, 0.1)])


def exact_spread(X, weights):
    X, weights = X.astype(np.longdouble), weights.astype(np.longdouble) / weights.sum()
    return np.sqrt(weights @ (X - weights @ X) ** 2).astype(float)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunk", [35, scaling.CHUNK])
def test_spread_is_that_of_exact_sums_whatever_the_columns(monkeypatch, order, chunk):
    monkeypatch.setattr(scaling, "CHUNK", chunk)
    rng = np.random.default_rng(0)
    X = np.asarray(awkward_columns(rng, 101), order=order)
    weights = rng.integers(0, 3, size=101).astype(float)
    weights[[0, 3, 60]] = 1.0, 0.0, 1.0
    X[3] = 1e300  # of weight zero
    tasks = Tasks.from_rows(X, np.zeros(101), np.repeat([0, 1], [50, 51]), sample_weight=weights)
    with np.errstate(over="raise", invalid="raise"):
        found = column_spread(tasks)
    expected = exact_spread(X, weights)
    expected[6] = 1.0  # a constant column has the unit one
    np.testing.assert_allclose(found, expected, rtol=1e-11)
    np.testing.assert_allclose(column_spread(tasks, np.array([4, 0])), found[[4, 0]], rtol=1e-11)


@pytest.mark.parametrize("n", [241, 100_003])
def test_many_rows_do_not_make_a_constant_vary(n):
    values = np.column_stack([np.arange(n) % 3, np.ones(n), np.full(n, 0.1)])
    for X in (values, np.asfortranarray(values), sparse.csr_array(values)):
        tasks = Tasks.from_rows(X, np.full(n, 0.3), np.zeros(n, dtype=int))
        assert column_spread(tasks)[1:].tolist() == [1.0, 1.0]  # those of constants
        assert column_spread(tasks)[0] == pytest.approx(np.std(np.arange(n) % 3))
        assert target_spread(tasks, otherwise=7.0).tolist() == [7.0]


@pytest.mark.parametrize("layout", [sparse.csr_array, sparse.csc_array])
def test_sparse_columns_far_from_zero_have_their_own_spread(layout):
    rng = np.random.default_rng(1)
    X, weights = 5e10 + rng.normal(size=(91, 4)), rng.uniform(0.1, 3.0, size=91)
    X[7, 2], weights[7] = 0.0, 0.0  # a zero that does not count
    tasks = Tasks.from_rows(layout(X), np.zeros(91), np.repeat([0, 1], [50, 41]), sample_weight=weights)
    np.testing.assert_allclose(column_spread(tasks), exact_spread(X, weights), rtol=1e-6)
