"""The rivals of the report, beside scikit-learn by hand."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.linear_model import RidgeCV

from mmtfl.report.rivals import RIVALS, STRENGTHS, Rows, fit_separate


def predictions(fit, X, y, task, kind):
    rows = Rows.of_table(X, y, task, kind=kind)
    with warnings.catch_warnings(action="ignore"):
        return fit(rows)(rows)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(300, 3)), np.repeat(np.arange(5), 60)
    z = X @ [1.0, -1.0, 0.0] + 2.0 * task + 0.3 * rng.normal(size=300)
    return X, z, task


def test_separate_models_are_ridge_of_each_task_with_its_own_strength(table):
    X, y, task = table
    found = predictions(fit_separate, X, y, task, "numbers")
    for t in range(5):
        mine = task == t
        mean, spread = X[mine].mean(axis=0), X[mine].std(axis=0)
        by_hand = RidgeCV(STRENGTHS).fit((X[mine] - mean) / spread, y[mine])
        assert_allclose(found[mine], by_hand.predict((X[mine] - mean) / spread))


@pytest.mark.parametrize("who", RIVALS)
@pytest.mark.parametrize("kind", ["numbers", "classes", "counts"])
def test_every_rival_learns_levels_and_effects(table, who, kind):
    X, z, task = table
    rng = np.random.default_rng(1)
    y = {
        "numbers": z,
        "classes": (z > 4.0).astype(float),
        "counts": rng.poisson(np.exp(0.4 * z)).astype(float),
    }[kind]
    mean = predictions(RIVALS[who].fit, X, y, task, kind)
    assert np.corrcoef(mean, y)[0, 1] > 0.8
    if kind != "numbers":
        assert (mean >= 0.0).all()
    if who != "boosting":
        thin = predictions(RIVALS[who].fit, sparse.csr_matrix(X), y, task, kind)
        assert np.corrcoef(thin, mean)[0, 1] > 0.99


def test_tasks_that_are_too_small_or_of_one_class_have_their_mean():
    X, task = np.arange(14.0).reshape(-1, 1), np.repeat([0, 1], [10, 4])
    y = np.r_[np.arange(10.0), 5.0, 6.0, 7.0, 6.0]
    assert_allclose(predictions(fit_separate, X, y, task, "numbers")[10:], 6.0)
    assert_allclose(predictions(fit_separate, X, np.zeros(14), task, "classes")[:10], 0.5 / 11.0)
    rows = Rows.of_table(X, y, task, kind="numbers")
    unseen = fit_separate(rows.select(np.arange(10)))(rows)[10:]
    assert_allclose(unseen, 4.5)
