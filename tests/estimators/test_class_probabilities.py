"""Log odds of held-out rows, and how right the probabilities are on them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl import MMTFLClassifier, MMTFLClassifierCV
from mmtfl.inference.heldout_errors import reliability
from mmtfl.model_selection import TaskKFold


def make_rows(n=150, seed=0, sizes=(1.0, 1.0, 0.2)):
    """Three tasks with one law of classes; the last has few rows."""
    rng = np.random.default_rng(seed)
    task = np.repeat(["a", "b", "c"], [int(n * size) for size in sizes])
    X = rng.normal(size=(len(task), 5))
    z = 2.0 * X[:, 0] - 1.5 * X[:, 1] - 1.0
    return X, np.where(rng.uniform(size=len(z)) < 1.0 / (1.0 + np.exp(-z)), "yes", "no"), task


@pytest.fixture(scope="module")
def model():
    X, y, task = make_rows()
    return MMTFLClassifierCV(pk=(2, 2), poolings=(0,), alphas=6, cv=4, levels="free").fit(X, y, task=task)


def test_errors_are_those_of_the_fits_without_the_fold(model):
    X, y, task = make_rows()
    found = model.heldout_errors_
    wrong = {label: [] for label in "abc"}
    for train, test in TaskKFold(4, random_state=0, stratify=True).split(X, y, task):
        fitted = MMTFLClassifier(p=2, k=2, alpha=model.alpha_).fit(X[train], y[train], task=task[train])
        z = fitted.decision_function(X[test], task=task[test])
        for label, error in zip(task[test], np.where(y[test] == "yes", -z, z), strict=True):
            wrong[label].append(error)
    assert_allclose(found["error"], np.concatenate([np.sort(wrong[label]) for label in "abc"]), atol=5e-3)


def test_reliability_is_the_mean_and_the_share_of_equal_bins(model):
    errors = model.heldout_errors_
    curve = reliability(errors, 4)
    z = np.where(errors["is_second"], -errors["error"], errors["error"])
    lowest = np.argsort(z)[: len(z) // 4]
    assert_allclose(curve["probability"][0], np.mean(1.0 / (1.0 + np.exp(-z[lowest]))))
    assert_allclose(curve["share"][0], errors["is_second"][lowest].mean())
    assert_allclose(curve["n_rows"].sum(), len(z))
