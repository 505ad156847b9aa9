"""Single-task ridge and lasso: one strength for all tasks, or one for each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso, LassoCV

from mmtfl import MMTFLRegressor, MMTFLRegressorCV, SingleTaskRegressorCV

INF = float("inf")


@pytest.fixture
def rows():
    """A clean task, a noisy one, and a small one: they want different strengths."""
    rng = np.random.default_rng(0)
    task = np.repeat(["clean", "noisy", "small"], [80, 100, 30])
    X = rng.normal(size=(210, 8))
    noise = np.where(task == "noisy", 6.0, 0.2)
    y = X[:, 0] * np.where(task == "small", -2.0, 2.0) + noise * rng.normal(size=210)
    return X, y, task


def per_task_folds(task, n=4):
    fold = np.zeros(len(task), dtype=int)
    for label in np.unique(task):
        rows = np.flatnonzero(task == label)
        fold[rows] = np.arange(len(rows)) % n
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n)]


@pytest.mark.parametrize("p", [1, 2])
def test_one_strength_for_all_is_the_search_of_the_family(p, rows):
    X, y, task = rows
    one = SingleTaskRegressorCV(p, alphas=12, cv=3).fit(X, y, task=task)
    family = MMTFLRegressorCV((p, INF), alphas=12, cv=3, poolings=(0,), levels="free").fit(X, y, task=task)
    assert one.alpha_ == family.alpha_ and np.ndim(one.alpha_) == 0
    assert_array_equal(one.coef_, family.coef_)
    assert_array_equal(one.cv_results_["mean_test_score"], family.cv_results_["mean_test_score"])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_task_has_the_coefficients_of_its_strength(p, weighted, rows):
    X, y, task = rows
    weight = np.random.default_rng(1).uniform(0.5, 2.0, size=len(y)) if weighted else None
    model = SingleTaskRegressorCV(p, alphas=12, cv=3, per_task=True).fit(
        X, y, task=task, sample_weight=weight
    )
    assert model.alpha_.shape == (3,) and len(set(model.alpha_)) == 3
    assert model.alpha_[1] > model.alpha_[0]  # noise asks for more
    for t in range(3):
        whole = MMTFLRegressor(p, INF, model.alpha_[t]).fit(X, y, task=task, sample_weight=weight)
        assert_allclose(model.coef_[t], whole.coef_[t], atol=1e-6)
        assert_allclose(model.intercept_[t], whole.intercept_[t], atol=1e-6)
        assert model.alpha_[t] in model.alphas_[t]
    if not weighted:
        loss = 0.5 * np.sum((y - model.predict(X, task=task)) ** 2) / (len(y) / 3)
        penalty = model.alpha_ @ np.sum(np.abs(model.coef_) ** p, axis=1)
        assert model.objective_ == pytest.approx(loss + penalty)


def test_every_task_is_scikit_learn_s_own_search_on_its_rows(rows):
    X, y, task = rows
    folds = per_task_folds(task)
    model = SingleTaskRegressorCV(1, alphas=20, cv=folds, per_task=True, alpha_ratio=1e-3).fit(
        X, y, task=task
    )
    sizes = np.array([np.sum(task == label) for label in model.tasks_])
    own = model.alpha_ * sizes.mean() / sizes  # in units of each task's own loss
    for t, label in enumerate(model.tasks_):
        mine = task == label
        place = np.cumsum(mine) - 1
        split = [(place[train[mine[train]]], place[test[mine[test]]]) for train, test in folds]
        older = LassoCV().get_params().get("n_alphas") not in (None, "deprecated")  # of scikit-learn
        theirs = LassoCV(eps=1e-3, cv=split, **{"n_alphas" if older else "alphas": 20}).fit(X[mine], y[mine])
        assert own[t] == pytest.approx(theirs.alpha_, rel=1e-6)
        assert_allclose(model.coef_[t], Lasso(own[t], tol=1e-9).fit(X[mine], y[mine]).coef_, atol=1e-5)
