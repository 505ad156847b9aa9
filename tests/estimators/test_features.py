"""penalty_weight, positive, feature_groups and absent_features on the estimators; docs/features.md."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

import mmtfl
from mmtfl import (
    CappedRegressor,
    DirtyRegressor,
    MMTFLClassifier,
    MMTFLClassifierCV,
    MMTFLRegressor,
    MMTFLRegressorCV,
    SingleTaskRegressorCV,
    TwoStrengthCV,
)

NAMES = ["age", "dose", "iron", "pulse", "salt", "zinc"]
SITES = np.repeat(["Aker", "Bern", "Cork"], [30, 25, 35])
ALL = {
    "penalty_weight": {"age": 0, "zinc": np.inf},
    "positive": ["dose"],
    "feature_groups": {"metals": ["iron", "salt"]},
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(90, 6)) + np.arange(6), columns=NAMES)
    coef = [[1, -1.5, 1, 0.5, 0, 1], [0.6, 1.2, 1.5, 0.7, 0, -1], [1.2, -1, 0.8, 0.6, 0, 0.5]]
    y = np.einsum("ij,ij->i", X, np.repeat(coef, [30, 25, 35], axis=0)) + rng.normal(size=90)
    return X, y


def classes(y):
    """Two classes in every task."""
    return y > pd.Series(y).groupby(SITES).transform("median").to_numpy()


def lacking(X):
    """Cork never measures iron, Aker never pulse."""
    X = X.copy()
    X.loc[SITES == "Cork", "iron"] = np.nan
    X.loc[SITES == "Aker", "pulse"] = np.nan
    return X


ABSENT = np.array([[0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]], dtype=bool)


# -- weights, signs and groups -------------------------------------------------------------------------------

SAID = [
    *(MMTFLRegressor(p, k, alpha=0.3, **ALL) for p, k in ((2, 2), (2, 1), (1, 1), (2, "log"))),
    MMTFLRegressorCV(alphas=6, cv=3, pk=((2, 2), (1, 1)), **ALL),
    MMTFLClassifierCV(alphas=6, cv=3, pk=((2, 2), (1, 1)), **ALL),
    DirtyRegressor(0.3, 0.2, penalty_weight=ALL["penalty_weight"], positive=["dose"]),
    TwoStrengthCV(DirtyRegressor(penalty_weight=ALL["penalty_weight"], positive=["dose"]), 3, cv=3),
]


@pytest.mark.parametrize("model", SAID, ids=lambda model: type(model).__name__)
def test_models_and_searches_do_what_is_said_of_their_features(data, model):
    X, y = data
    y = classes(y) if isinstance(model, MMTFLClassifierCV) else y
    model = clone(model).fit(X, y, task=SITES)
    assert model.coef_[:, 0].all() and not model.coef_[:, 5].any() and (model.coef_[:, 1] >= 0).all()
    if hasattr(model, "c_"):
        assert model.c_[2] == model.c_[4] and model.c_[0] == 1.0
        assert_allclose(model.coef_.T, model.c_[:, None] * model.B_, atol=1e-12)
        a = model.add_task(X[:20], y[:20], task="Dijon").coef_[-1]
        assert a[0] != 0.0 and a[5] == 0.0 and a[1] >= 0.0
    if isinstance(model, MMTFLRegressor):
        free = MMTFLRegressor(model.p, model.k, alpha=0.3).fit(X, y, task=SITES)
        assert free.coef_[:, 1].min() < 0.0  # the sign costs


def test_all_forms_of_a_weight_are_one(data):
    X, y = data
    weight = np.array([0.0, 1.0, 2.0, 1.0, 1.0, np.inf])
    first = MMTFLRegressor(2, 2, penalty_weight=weight).fit(X, y, task=SITES)
    for form in ({"age": 0, "iron": 2, "zinc": np.inf}, pd.Series(weight, NAMES), {0: 0, 2: 2, 5: np.inf}):
        model = MMTFLRegressor(2, 2, penalty_weight=form).fit(X, y, task=SITES)
        assert_array_equal(model.coef_, first.coef_)
        assert_array_equal(model.penalty_weight_, weight)


@pytest.mark.parametrize("model", [MMTFLRegressor(2, 1), MMTFLRegressorCV(alphas=5, cv=3)])
def test_weights_of_one_and_groups_of_one_cost_nothing(data, model):
    X, y = data
    plain = clone(model).fit(X, y, task=SITES)
    same = clone(model).set_params(penalty_weight=np.ones(6), feature_groups=[["age"], ["iron"]])
    same.fit(X, y, task=SITES)
    assert_array_equal(same.coef_, plain.coef_)
    assert not hasattr(same, "penalty_weight_")


@pytest.mark.parametrize("said", [{"penalty_weight": {"age": 0}}, {"feature_groups": [["iron", "dose"]]}])
def test_a_search_keeps_its_poolings_where_they_go_with_weights_and_groups(data, said):
    X, y = data
    model = MMTFLRegressorCV(alphas=4, cv=3, **said).fit(X, y, task=SITES)
    assert {0.0, 0.9, 0.99} < set(model.cv_results_["pooling"])
    with pytest.raises(ValueError, match="pooling goes with groups and weights of features"):
        MMTFLRegressorCV(alphas=4, poolings=(0.9,), positive=True).fit(X, y, task=SITES)


WRONG = [
    ({"penalty_weight": {"bmi": 1}}, ValueError, "names the feature 'bmi', which X does not have"),
    ({"penalty_weight": [1, 2]}, ValueError, r"has shape \(2,\), but the data have 6 features"),
    ({"penalty_weight": [1, 1, -1, 1, 1, 1]}, ValueError, "feature 'iron' is -1.0"),
    ({"penalty_weight": "age"}, TypeError, "must be numbers, or a dict"),
    ({"penalty_weight": {9: 1}}, ValueError, "neither the name of a feature nor a position from 0 to 5"),
    ({"positive": ["doze"]}, ValueError, "did you mean 'dose'"),
    ({"positive": [True, False]}, ValueError, "positive has 2 values"),
    ({"positive": "age"}, ValueError, "positive"),
    ({"feature_groups": [["age"], ["age", "iron"]]}, ValueError, "'age' in two groups"),
    ({"feature_groups": ["age", "iron"]}, TypeError, "which is no list"),
    ({"positive": True, "pooling": 0.9}, ValueError, "Use pooling=0"),
    ({"pooling": 0.5, "p": 1.5}, ValueError, "needs p = 1 or p = 2"),
    ({"absent_features": "drop"}, ValueError, "absent_features"),
]


@pytest.mark.parametrize(("said", "kind", "message"), WRONG)
def test_what_cannot_be_is_one_clear_error(data, said, kind, message):
    X, y = data
    with pytest.raises(kind, match=message):
        MMTFLRegressor(**{"k": 2, **said}).fit(X, y, task=SITES)


# -- features that some tasks do not have --------------------------------------------------------------------


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("pooling", [0.0, 0.9])
def test_an_absent_feature_is_one_left_out_for_its_task(data, pooling, standardize):
    """The same as a column of zeros there; the spread is over the tasks that have it."""
    X, y = data
    options = {"alpha": 0.2, "standardize": standardize, "tol": 1e-9}
    model = MMTFLRegressor(2, 2, pooling=pooling, absent_features="allow", **options)
    model.fit(lacking(X), y, task=SITES)
    assert not model.coef_[ABSENT].any() and model.coef_[:, [2, 3]][~ABSENT[:, [2, 3]]].all()
    assert_array_equal(model.absent_, ABSENT)
    assert_array_equal(model.usable_, ~ABSENT)
    has = SITES != "Cork"
    assert_allclose(model.feature_spread_[2], X["iron"][has].std(ddof=0))
    if pooling == 0.0:
        scale = model.column_scale_ if standardize else np.ones(6)
        left_out = MMTFLRegressor(2, 2, penalty_weight=scale, alpha=0.2, tol=1e-9)
        left_out.fit(lacking(X).fillna(0.0), y, task=SITES)
        assert_allclose(left_out.coef_, model.coef_, atol=1e-6)


LACKING = [
    MMTFLRegressorCV(alphas=5, cv=3),
    DirtyRegressor(0.1, 0.1),
    CappedRegressor(0.1, 1.0),
    SingleTaskRegressorCV(alphas=5, cv=3),
    MMTFLClassifier(2, 2, alpha=0.02),
]


@pytest.mark.parametrize("model", LACKING, ids=lambda model: type(model).__name__)
def test_every_model_knows_absent_features(data, model):
    X, y = data
    y = classes(y) if isinstance(model, MMTFLClassifier) else y
    model = clone(model).set_params(absent_features="allow").fit(lacking(X), y, task=SITES)
    assert model.coef_.any() and not model.coef_[ABSENT].any()
    assert len(model.predict(lacking(X), task=SITES)) == 90
    if "c_" in vars(model):
        cork = SITES == "Cork"
        more = model.add_task(lacking(X)[cork], y[cork], task="Dijon")
        assert more.coef_[-1, 2] == 0.0 and more.absent_[-1].tolist() == ABSENT[2].tolist()
        assert len(set(more.predict(lacking(X)[cork], task=["Dijon"] * 35))) > 1
    with pytest.raises(ValueError, match=r"column '(iron|pulse)'.*absent_features='allow'"):
        clone(model).set_params(absent_features="error").fit(lacking(X), y, task=SITES)


def test_predictions_ignore_what_a_task_does_not_have(data, tmp_path):
    X, y = data
    model = MMTFLRegressor(2, 2, alpha=0.2, absent_features="allow", unknown_task="mean")
    model.fit(lacking(X), y, task=SITES)
    new = [model.predict(rows, task=["Oslo"] * 90) for rows in (X, X.assign(iron=X["iron"] + 1.0))]
    assert_allclose(new[1] - new[0], model.coef_[:2, 2].mean())  # the mean of those that have it
    predicted = model.predict(lacking(X), task=SITES)
    assert_allclose(model.predict(X, task=SITES), predicted, rtol=1e-12)
    model.save(tmp_path / "absent.mmtfl")
    assert_array_equal(mmtfl.load(tmp_path / "absent.mmtfl").predict(lacking(X), task=SITES), predicted)
    scattered = lacking(X)
    scattered.loc[3, "age"] = np.nan
    for call in (model.predict, lambda X, task: clone(model).fit(X, y, task=task)):
        with pytest.raises(ValueError, match="1 value in column 'age' of task 'Aker'"):
            call(scattered, task=SITES)
    with pytest.raises(ValueError, match="column 'iron' of task 'Bern'"):
        model.predict(lacking(X)[SITES == "Cork"], task=np.repeat("Bern", 35))


def test_sparse_rows_and_targets_in_columns_are_the_same(data):
    X, y = data
    model = MMTFLRegressor(2, 2, alpha=0.2, absent_features="allow").fit(lacking(X), y, task=SITES)
    rows = sparse.csr_array(lacking(X).to_numpy())
    thin = clone(model).fit(rows, y, task=SITES)
    assert_allclose(thin.predict(rows, task=SITES), model.predict(lacking(X), task=SITES), atol=1e-9)
    position = np.unique(SITES, return_inverse=True)[1]
    Y = np.full((90, 3), np.nan)
    Y[np.arange(90), position] = y
    shared = clone(model).fit(lacking(X), Y)
    expected = model.predict(lacking(X), task=SITES)
    assert_allclose(shared.predict(lacking(X), task=position), expected, atol=1e-8)
    with pytest.raises(ValueError, match="pass task= to predict each row by its own task"):
        shared.predict(lacking(X))
    assert shared.predict(X).shape == (90, 3)
