"""Levels of columns and targets: found where they are far, taken off exactly, and left alone elsewhere."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from mmtfl.objective.units import column_levels, without_levels
from mmtfl.tasks import Tasks

STORAGES = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
}


def far_columns(seed=0):
    """Three tasks; the first column is far in task 1 alone, the last in all of them."""
    X = np.random.default_rng(seed).normal(size=(36, 4))
    X[12:24, 0] += 1e6
    X[:, 3] -= 2e4
    return X, np.repeat([0, 1, 2], 12)


@pytest.mark.parametrize("storage", STORAGES)
def test_taking_off_levels_leaves_the_input_as_it_was(storage):
    X, labels = far_columns()
    given = STORAGES[storage](X.copy())
    tasks = Tasks.from_rows(given, np.zeros(36), labels)
    levels = column_levels(tasks)
    left = without_levels(tasks, levels, None).X
    left = left.toarray() if sparse.issparse(left) else left
    assert_array_equal(left, X - np.repeat(levels, 12, axis=0))
    assert_array_equal(given.toarray() if sparse.issparse(given) else given, X)


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
