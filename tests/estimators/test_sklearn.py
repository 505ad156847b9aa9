"""Citizenship: the tools of scikit-learn work on the estimators as on its own."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor
from mmtfl.model_selection import TaskKFold, task_scorer

MODELS = [MMTFLRegressor, MMTFLClassifier]
VARIANTS = [
    MMTFLRegressor(),
    # weights and repeated rows are one problem in other roundings, whose answers must agree to 1e-7
    MMTFLRegressor(2, 2, alpha=0.1, standardize=True, scale_targets=True, tol=1e-9),
    MMTFLClassifier(1, 2, alpha=0.05, standardize=True),
]
NAMES = [f"f{j}" for j in range(4)]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    index = rng.permutation(np.repeat([0, 1, 2], 40))
    slope = np.array([[2.0, 1, 0, 0], [-2.0, 1, 0, 0], [1.0, -2, 0, 0]])
    y = np.einsum("ij,ij->i", X, slope[index]) + 0.3 * rng.normal(size=120)
    return X, y, np.array(["a", "b", "c"])[index]


@pytest.fixture
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def target(Model, y):
    return np.where(y > 0, "up", "down") if Model is MMTFLClassifier else y


def framed(X, task):
    return pd.DataFrame(X, columns=NAMES).assign(site=task)


# -- the conventions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", VARIANTS, ids=repr)
def test_all_checks_of_scikit_learn_pass(model):
    results = check_estimator(model, on_skip=None, on_fail="raise")
    assert len(results) > 50
    assert {result["status"] for result in results} <= {"passed", "skipped"}
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # runs only where SCIPY_ARRAY_API is set


# -- routing: task= goes where the rows go, without set_*_request --------------------------------------------


@pytest.mark.parametrize("Model", MODELS)
def test_requests_for_task_are_declared_on_the_class(Model, routed):
    requests = Model().get_metadata_routing()
    for method in ("fit", "predict", "score"):
        assert getattr(requests, method).requests["task"] is True, method
        assert getattr(requests, method).requests["offset"] is True, method
    for method in ("predict_log_proba", "decision_function"):
        asked = {"task": True, "offset": True} if Model is MMTFLClassifier else {}
        assert getattr(requests, method).requests == asked
    assert requests.fit.requests["sample_weight"] is None


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("ours", [False, True], ids=["KFold", "TaskKFold and task_scorer"])
def test_grid_search_routes_labels_to_model_splitter_and_scorer(Model, ours, rows, routed):
    X, y, task = rows
    y = target(Model, y)
    cv = TaskKFold(3, random_state=0) if ours else KFold(3, shuffle=True, random_state=0)
    scoring = task_scorer("r2" if Model is MMTFLRegressor else "accuracy", average="pooled") if ours else None
    search = GridSearchCV(Model(), {"alpha": [0.01, 0.1, 10.0]}, cv=cv, scoring=scoring, error_score="raise")
    search.fit(X, y, task=task)
    assert search.best_params_["alpha"] < 10
    by_hand = []
    for train, test in cv.split(X, **({"task": task} if ours else {})):
        model = Model(alpha=0.1).fit(X[train], y[train], task=task[train])
        predicted = model.predict(X[test], task=task[test])
        pooled = r2_score(y[test], predicted) if Model is MMTFLRegressor else np.mean(y[test] == predicted)
        by_hand.append(pooled if ours else model.score(X[test], y[test], task=task[test]))
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(by_hand))
    assert search.best_estimator_.predict(X, task=task).shape == y.shape
    assert search.score(X, y, task=task) > 0.8


def test_pipelines_route_labels(rows, routed):
    X, y, task = rows
    y = target(MMTFLClassifier, y)
    pipe = make_pipeline(StandardScaler(), MMTFLClassifier(alpha=0.02)).fit(X, y, task=task)
    plain = MMTFLClassifier(alpha=0.02).fit(StandardScaler().fit_transform(X), y, task=task)
    Z = pipe[0].transform(X)
    assert_array_equal(pipe.predict(X, task=task), plain.predict(Z, task=task))
    assert_array_equal(pipe.predict_proba(X, task=task), plain.predict_proba(Z, task=task))
    assert pipe.score(X, y, task=task) > 0.8


def test_labels_that_were_not_routed_are_asked_for(rows):
    X, y, task = rows
    search = GridSearchCV(MMTFLRegressor(), {"alpha": [0.1]}, cv=3, error_score="raise")
    with pytest.raises(ValueError, match="enable_metadata_routing"):
        search.fit(X, y, task=task)
    with pytest.raises(ValueError, match="task_column"):
        cross_val_predict(MMTFLRegressor(), X, y, params={"task": task})  # passes nothing on to predict


# -- the second door, for tools that cannot route -----------------------------------------------------------


def test_cross_val_predict_with_a_task_column(rows):
    X, y, task = rows
    frame = framed(X, task)
    predicted = cross_val_predict(MMTFLRegressor(alpha=0.05, task_column="site"), frame, y, cv=4)
    assert np.corrcoef(predicted, y)[0, 1] > 0.9
