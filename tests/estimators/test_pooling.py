"""Estimators with pooling: the common part on the original scale, in files and paths, what is refused."""

import os

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mmtfl import MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV

INF = float("inf")


def alike(seed=0, n_tasks=4, n_rows=20, d=6):
    """Tasks whose coefficients are nearly the same."""
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(n_tasks * n_rows, d)) + 0.5, np.repeat(list("abcdefgh")[:n_tasks], n_rows)
    coef = rng.normal(size=d) + 0.1 * rng.normal(size=(n_tasks, d))
    z = np.einsum("ij,ij->i", X, np.repeat(coef, n_rows, axis=0)) + 1.0
    return X, z + 0.5 * rng.normal(size=len(z)), task


@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 1), (1, 1), (2, INF), (1, INF), (2, "log")])
def test_the_common_part_is_what_the_coefficients_scatter_about(p, k):
    X, y, task = alike()
    model = MMTFLRegressor(p, k, 0.01, pooling=0.9).fit(X, y, task=task)
    if p == 2:
        assert_allclose(model.common_, 0.9 * model.coef_.mean(axis=0), rtol=1e-12)
    assert_allclose(model.common_, model.coef_.mean(axis=0), atol=0.3)
    assert_allclose(model.coef_.T, model.c_[:, None] * model.B_, rtol=1e-12)


@pytest.mark.parametrize(("p", "k"), [(2, 2), (1, INF)])
def test_common_part_is_on_the_original_scale(p, k):
    X, y, task = alike()
    units = np.array([1.0, 10.0, 0.1, 5.0, 2.0, 0.01])
    options = {"pooling": 0.9, "standardize": True, "tol": 1e-10}
    one = MMTFLRegressor(p, k, 0.02, **options).fit(X, y, task=task)
    other = MMTFLRegressor(p, k, 0.02, **options).fit(X / units, y, task=task)
    assert one.common_.any()
    assert_allclose(other.common_, one.common_ * units, rtol=1e-6)
    thin = MMTFLRegressor(p, k, 0.02, **options).fit(sparse.csr_array(X), y, task=task)
    assert_allclose(thin.common_, one.common_, atol=1e-7)


@pytest.mark.parametrize("estimator", [MMTFLRegressor, MMTFLClassifier])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooling": 1.0}, "Use 0 for no common part"),
        ({"pooling": -0.1}, "Use 0 for no common part"),
        ({"pooling": "much"}, "Use 0 for no common part"),
        ({"pooling": 0.5, "p": 1.5}, "needs p = 1 or p = 2"),
        ({"pooling": 0.5, "p": INF}, "needs p = 1 or p = 2"),
    ],
)
def test_what_is_wrong_is_told_with_a_remedy(estimator, options, words):
    X, y, task = alike()
    with pytest.raises(ValueError, match=words):
        estimator(**options).fit(X, np.where(y > np.median(y), 1, 0), task=task)


def test_a_checkpoint_goes_on_with_the_common_part(tmp_path):
    """A fit that is cut short after some passes ends with the bits of one that was not."""
    X, y, task = alike()
    options = {"p": 2, "k": 1, "alpha": 0.05, "pooling": 0.95, "solver": "alternating", "tol": 1e-9}
    whole = MMTFLRegressor(**options).fit(X, y, task=task)
    file = tmp_path / "fit.checkpoint"
    kept = MMTFLRegressor(**options, checkpoint=file).fit(X, y, task=task)
    assert os.path.exists(file)
    again = MMTFLRegressor(**options, checkpoint=file).fit(X, y, task=task)
    for model in (kept, again):
        assert_array_equal(model.coef_, whole.coef_)


def test_a_search_tries_pooling_by_default_but_not_with_members_that_are_named():
    rng = np.random.default_rng(5)
    X, task = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    poolings = {
        name: set(MMTFLRegressorCV(alphas=3, cv=2, **options).fit(X, y, task).cv_results_["pooling"].tolist())
        for name, options in {
            "default": {},
            "named": {"pk": (2, 2)},
            "both named": {"pk": (2, 2), "poolings": (0, 0.5)},
        }.items()
    }
    assert poolings == {"default": {0.0, 0.9, 0.99, 6 / 6.03}, "named": {0.0}, "both named": {0.0, 0.5}}
