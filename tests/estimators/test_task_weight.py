"""Weights of whole tasks: factors on the rows' weights, in every model, and no part of held-out scores."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import mmtfl
from mmtfl import (
    DirtyRegressor,
    MMTFLClassifier,
    MMTFLRegressor,
    MMTFLRegressorCV,
    RobustRegressor,
    path,
)


@pytest.fixture(scope="module")
def rows():
    """A large task and two small ones that disagree with it."""
    rng = np.random.default_rng(3)
    task = np.repeat(["big", "mid", "tiny"], [120, 30, 15])
    X = rng.normal(size=(165, 4))
    slope = {"big": [2.0, 0.0, 0.0, 0.0], "mid": [0.0, 2.0, 0.5, 0.0], "tiny": [0.0, 1.5, 0.0, 1.0]}
    y = np.einsum("ij,ij->i", X, np.array([slope[t] for t in task])) + rng.normal(size=165)
    return X, y, task


def by_sample_weight(task, wanted):
    """Weights of the rows that say the same, by hand: n / T for every task, or a factor, with the sum n."""
    names, place = np.unique(task, return_inverse=True)
    sizes = np.bincount(place)
    factor = np.array([1.0 / sizes[t] if wanted == "equal" else wanted.get(names[t], 1.0) for t in range(3)])
    weights = factor[place]
    return weights * (len(task) / weights.sum())


@pytest.mark.parametrize("wanted", ["equal", {"tiny": 8.0, "mid": 2}])
@pytest.mark.parametrize(
    "model",
    [
        MMTFLRegressor(alpha=0.2),
        MMTFLRegressor(p=2, k=2, alpha=0.2, pooling=0.9, standardize=True),
        MMTFLRegressor(alpha=0.2, scale_targets=True, solver="alternating"),
        MMTFLClassifier(alpha=0.02),
        DirtyRegressor(),
        RobustRegressor(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_task_weight_is_the_same_weight_of_its_rows_with_the_old_sum(rows, model, wanted):
    X, y, task = rows
    y = np.where(y > 0, "yes", "no") if isinstance(model, MMTFLClassifier) else y
    found = clone(model).set_params(task_weight=wanted).fit(X, y, task=task)
    by_hand = clone(model).fit(X, y, task=task, sample_weight=by_sample_weight(task, wanted))
    without = clone(model).fit(X, y, task=task)
    assert_allclose(found.coef_, by_hand.coef_, atol=1e-9)
    assert_allclose(found.intercept_, by_hand.intercept_, atol=1e-9)
    assert abs(found.coef_ - without.coef_).max() > 1e-3


def test_held_out_scores_count_rows_as_they_came(rows):
    X, y, task = rows
    options = {"pk": (2, 1), "alphas": [0.5], "poolings": (0,), "cv": 3, "levels": "free"}
    search = MMTFLRegressorCV(**options, task_weight="equal").fit(X, y, task=task)
    losses = []
    for train, test in mmtfl.model_selection.TaskKFold(3, random_state=0).split(X, task=task):
        part = MMTFLRegressor(p=2, k=1, alpha=0.5, task_weight="equal")
        part.fit(X[train], y[train], task=task[train])
        losses.append(-0.5 * np.mean((y[test] - part.predict(X[test], task=task[test])) ** 2))
    assert_allclose(search.best_score_, np.mean(losses), rtol=1e-3)  # paths of a search are solved to 1e-4
    plain = MMTFLRegressorCV(**options).fit(X, y, task=task)
    assert abs(plain.best_score_ - search.best_score_) > 1e-3
    assert path(X, y, task, alphas=3, task_weight="equal").coef(2).shape == (3, 4)
