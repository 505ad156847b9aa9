"""Models with two strengths, and the search for both: what they learn, the grid, the scores, bad input."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning

from mmtfl import (
    CappedClassifier,
    DirtyRegressor,
    LowRankClassifier,
    LowRankRegressor,
    RobustClassifier,
    RobustRegressor,
    TwoStrengthCV,
)
from mmtfl.estimators.model_files import ESTIMATORS
from mmtfl.estimators.two_strengths import TwoStrengthModel
from mmtfl.model_selection import TaskKFold, task_scorer

MODELS = [cls for cls in ESTIMATORS if issubclass(cls, TwoStrengthModel)]
REGRESSORS, CLASSIFIERS = (
    [Model for Model in MODELS if kind(Model())] for kind in (is_regressor, is_classifier)
)
ADDITIVE = [Model for Model in MODELS if "Capped" not in Model.__name__]


@pytest.fixture
def rows():
    """Two tasks that agree, and one that does not."""
    rng = np.random.default_rng(0)
    X, index = rng.normal(size=(150, 5)), rng.permutation(np.repeat([0, 1, 2], 50))
    slope = np.array([[2.0, 1, 0, 0, 0], [-2, 1, 0, 0, 0], [2.0, 0, 1.5, 0, 0]])
    y = np.einsum("ij,ij->i", X, slope[index]) + rng.normal(size=150)
    return X, y, np.array(["a", "b", "c"])[index]


def target(Model, y):
    return np.where(y > 0, "up", "down") if Model in CLASSIFIERS else y


# -- the models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", ADDITIVE)
@pytest.mark.parametrize("scaled", [False, True])
def test_coefficients_are_the_sum_of_the_parts(Model, rows, scaled):
    X, y, task = rows
    options = {"standardize": scaled, **({"scale_targets": scaled} if Model in REGRESSORS else {})}
    model = Model(**options).fit(X, target(Model, y), task=task)
    second = model.specific_ if "Dirty" in Model.__name__ else model.outlier_
    assert_array_equal(model.coef_, model.shared_ + second)
    assert model.shared_.shape == (3, 5) and model.shared_.any()
    assert 0.0 <= model.dual_gap_ < 1e-5 and model.violation_ <= 1e-7
    assert not hasattr(model, "c_") and not hasattr(model, "B_")


@pytest.mark.parametrize(
    ("Model", "strengths"),
    [
        (RobustRegressor, (0.5, 0.7)),
        (RobustClassifier, (0.1, 0.13)),
        (LowRankRegressor, (1.0, 0.8)),
        (LowRankClassifier, (0.2, 0.16)),
    ],
)
def test_the_task_that_does_not_join_in_is_named(Model, strengths):
    rng = np.random.default_rng(0)
    X, index = rng.normal(size=(480, 8)), np.repeat(np.arange(6), 80)
    slope = np.outer([1.0, 2.0, -1.0, 1.5, -2.0, 0.0], np.arange(8) < 4)  # five are multiples of one
    slope[5, 4:] = [3, -3, 3, -3]
    y = np.einsum("ij,ij->i", X, slope[index]) + 0.1 * rng.normal(size=480)
    task = np.array(["a", "b", "c", "d", "e", "odd"])[index]
    model = Model(*strengths).fit(X, target(Model, y), task=task)
    assert model.outlier_tasks_.tolist() == ["odd"]
    assert_array_equal(model.outlier_.any(axis=1), model.tasks_ == "odd")
    assert np.linalg.matrix_rank(model.shared_[:5], tol=1e-6) == 1 or "LowRank" not in Model.__name__
    table = model.summary().set_index("feature")
    assert "outlier" in table and table["n_possible"].eq(5).all()  # the other tasks
    if Model is RobustRegressor:
        assert table["kind"]["x0"] == "shared" and table["n_tasks"]["x0"] == 5
        assert table["kind"]["x7"] == "none" and table["outlier"]["x7"] > 0 == table["max_coef"]["x7"]


def test_the_dirty_model_finds_the_exception(rows):
    X, y, task = rows
    model = DirtyRegressor(0.6, 0.25).fit(X, y, task=task)
    assert np.flatnonzero(model.shared_.any(axis=0)).tolist() == [0]
    assert {tuple(place) for place in np.argwhere(model.specific_)} >= {(0, 1), (1, 1), (2, 2)}
    assert not np.allclose(DirtyRegressor(0.6, 0.25, p=2).fit(X, y, task=task).shared_, model.shared_)
    table = model.summary()
    assert list(table.columns)[:5] == ["feature", "shared", "specific", "n_tasks", "kind"]
    assert table["feature"][0] == "x0" and table.set_index("feature")["kind"]["x4"] == "none"


@pytest.mark.parametrize("Model", MODELS)
def test_stopping_early_is_told(Model, rows):
    X, y, task = rows
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        Model(max_iter=1).fit(X, target(Model, y), task=task)


# -- the search --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", MODELS)
def test_scores_are_those_of_fitting_every_pair_on_every_fold(Model, rows):
    X, y, task = rows
    y = target(Model, y)
    folds = list(TaskKFold(2, random_state=1, stratify=Model in CLASSIFIERS).split(X, y, task))
    model = Model(standardize=True, tol=1e-6)
    metric = "accuracy" if Model in CLASSIFIERS else "r2"
    # free rows of weaker strengths separate the classes: there is no minimum then
    ratio = 0.3 if Model is CappedClassifier else 0.05
    search = TwoStrengthCV(model, strengths=3, cv=folds, scoring=metric, ratio=ratio, levels="free").fit(
        X, y, task=task
    )
    first, second = Model.strength_names
    scorer = task_scorer(metric)
    for row in range(9):
        pair = {name: search.cv_results_[name][row] for name in (first, second)}
        for f, (train, test) in enumerate(folds):
            alone = clone(model).set_params(**pair).fit(X[train], y[train], task=task[train])
            by_hand = scorer(alone, X[test], y[test], task=task[test])
            found = search.cv_results_[f"split{f}_test_score"][row]
            assert found == pytest.approx(by_hand, abs=0.02 if Model in CLASSIFIERS else 2e-3)
    best = search.cv_results_["mean_test_score"].argmax()
    assert search.best_index_ == best and search.cv_results_["rank_test_score"][best] == 1
    assert search.best_params_ == {name: search.cv_results_[name][best] for name in (first, second)}
    refit = clone(model).set_params(**search.best_params_).fit(X, y, task=task)
    assert_allclose(search.best_estimator_.coef_, refit.coef_, atol=1e-5)
    assert_array_equal(search.predict(X, task=task), search.best_estimator_.predict(X, task=task))


@pytest.mark.parametrize("Model", MODELS)
def test_the_grid_begins_where_nothing_is_left(Model, rows):
    X, y, task = rows
    y = target(Model, y)
    search = TwoStrengthCV(Model(), strengths=(4, 3), cv=2, ratio=0.1).fit(X, y, task=task)
    first, second = search.strengths_
    assert len(first) == 4 and len(second) == 3 and len(search.cv_results_["mean_test_score"]) == 12
    assert_allclose([first[-1] / first[0], second[-1] / second[0]], 0.1)
    assert_allclose(np.diff(np.log(first)), np.log(0.1) / 3)
    names = Model.strength_names
    tops = {names[0]: first[0] * (1 + 1e-9), names[1]: second[0] * (1 + 1e-9)}
    assert not Model(**tops, levels="shrunk").fit(X, y, task=task).coef_.any()
    assert Model(**{**tops, names[0]: 0.95 * first[0]}).fit(X, y, task=task).coef_.any()
    if "Capped" not in Model.__name__:
        assert Model(**{**tops, names[1]: 0.95 * second[0]}).fit(X, y, task=task).coef_.any()


def test_what_the_model_learned_is_the_search_s_own(rows):
    X, y, task = rows
    search = TwoStrengthCV(RobustRegressor(), ([0.1, 1.0], [0.2]), cv=2)
    assert not hasattr(search, "coef_")
    search.fit(X, y, task=task)
    assert search.tasks_.tolist() == ["a", "b", "c"] and search.coef_.shape == (3, 5)
    assert [part.tolist() for part in search.strengths_] == [[1.0, 0.1], [0.2]]  # the largest first
    assert_array_equal(search.coef_, search.shared_ + search.outlier_)
    assert search.summary().equals(search.best_estimator_.summary())
    assert not hasattr(search, "predict_proba") and not hasattr(search, "nothing_")
    copy = pickle.loads(pickle.dumps(search))
    assert_array_equal(copy.predict(X, task=task), search.predict(X, task=task))
    assert search.estimator.alpha_shared == RobustRegressor().alpha_shared  # as it was given
