"""Columns of a wide sparse X that have no entries are left out of the work, and nothing else changes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mmtfl import DirtyRegressor, MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.objective.design import Design
from mmtfl.tasks import Tasks

N_FEATURES, TASK = 12_000, np.repeat([0, 1, 2], 30)
FORMATS = [sparse.csr_array, sparse.csc_array, sparse.csr_matrix]


@pytest.fixture(scope="module")
def narrow():
    """X with twelve features, the first full and far from zero; and where they stand in a wide X."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 12)) * (rng.random((90, 12)) < 0.4)
    X[:, 0] = 1e6 + rng.normal(size=90)
    return X, np.sort(rng.choice(N_FEATURES, 12, replace=False))


def widened(X, place, make):
    wide = sparse.lil_array((len(X), N_FEATURES))
    wide[:, place] = X
    return make(wide)


def target(X):
    return (X - X.mean(axis=0)) @ np.linspace(2.0, -1.0, 12) + 0.1 * np.sin(np.arange(90))


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("options", [{"k": 2}, {"k": 1}, {"p": 1, "k": 1}, {"pooling": 0.9}])
def test_a_wide_table_of_empty_columns_has_the_answer_of_the_narrow_one(narrow, make, options):
    X, place = narrow
    y = target(X)
    model = MMTFLRegressor(**{"p": 2, "k": 2, "alpha": 0.05, "tol": 1e-10, **options})
    expected = model.fit(X, y, task=TASK).coef_
    used, intercept, common = expected.any(axis=0), model.intercept_, model.common_
    assert used.any()
    model.fit(widened(X, place, make), y, task=TASK)
    assert_allclose(model.coef_[:, place], expected, atol=1e-8)
    assert_allclose(model.intercept_, intercept, rtol=1e-8)
    assert_allclose(model.common_[place], common, atol=1e-8)
    assert_array_equal(np.flatnonzero(model.c_), place[used])
    assert_allclose(model.c_[:, None] * model.B_, model.coef_.T, atol=1e-12)


def test_classes_two_parts_and_searches_know_empty_columns_too(narrow):
    X, place = narrow
    X = X[:, 1:]
    y, place = target(np.column_stack([np.zeros(90), X])), place[1:]
    wide = widened(X, place, sparse.csc_array)
    for model, of in (
        (MMTFLClassifier(p=2, k=2, alpha=0.02, tol=1e-9), y > np.median(y)),
        (DirtyRegressor(alpha_shared=0.1, alpha_specific=0.1, tol=1e-9), y),
        (MMTFLRegressorCV(pk=[(2, 2)], poolings=(0,), alphas=[0.3, 0.1, 0.03], cv=3, tol=1e-9), y),
    ):
        expected = model.fit(X, of, task=TASK).coef_.copy()
        assert expected.any()
        assert_allclose(model.fit(wide, of, task=TASK).coef_[:, place], expected, atol=1e-6)


@pytest.mark.parametrize("make", FORMATS)
def test_the_solver_sees_no_empty_columns_and_no_second_copy_of_the_entries(narrow, make):
    X, place = narrow
    wide = widened(X[:, 1:], place[1:], make)
    tasks = Tasks.from_rows(wide, np.arange(90.0), TASK)
    calm, units = Design(tasks).levelled(scale_targets=False)
    assert calm.n_features == 11
    assert_array_equal(np.flatnonzero(units.present), place[1:])
    assert_array_equal(calm.tasks.X.toarray(), X[:, 1:])
    assert np.shares_memory(calm.tasks.X.data, tasks.X.data)
