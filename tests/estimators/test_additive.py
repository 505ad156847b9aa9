"""The additive and capped models as estimators: what they learn, scales, doors, bad input, scikit-learn."""

import inspect
import pickle
import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.estimator_checks import check_estimator

from mmtfl import (
    CappedClassifier,
    CappedRegressor,
    DirtyClassifier,
    DirtyRegressor,
    LowRankClassifier,
    LowRankRegressor,
    RobustClassifier,
    RobustRegressor,
    SingleTaskClassifierCV,
    SingleTaskRegressorCV,
    TwoStrengthCV,
)
from mmtfl.model_selection import TaskKFold

REGRESSORS = [DirtyRegressor, RobustRegressor, LowRankRegressor, CappedRegressor]
CLASSIFIERS = [DirtyClassifier, RobustClassifier, LowRankClassifier, CappedClassifier]
MODELS = REGRESSORS + CLASSIFIERS
ADDITIVE = [Model for Model in MODELS if "Capped" not in Model.__name__]
OUTLIERS = [Model for Model in ADDITIVE if "Dirty" not in Model.__name__]
NAMES = [f"f{j}" for j in range(6)]


@pytest.fixture
def rows():
    """Three tasks that agree, one that does not; the last feature is never used."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(320, 6))
    index = rng.permutation(np.repeat([0, 1, 2, 3], 80))
    slope = np.array([[2.0, 1, 0, 0, 0, 0], [-2, 1, 0, 0, 0, 0], [2.0, 1, 1.5, 0, 0, 0], [0, 0, -1, 2, 3, 0]])
    y = np.einsum("ij,ij->i", X, slope[index]) + 0.5 * rng.normal(size=320)
    return X, y, np.array(["a", "b", "c", "odd"])[index]


@pytest.fixture
def routed():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def target(Model, y):
    return np.where(y > 0, "up", "down") if Model in CLASSIFIERS else y


def fitted(Model, rows, **options):
    X, y, task = rows
    return Model(**options).fit(X, target(Model, y), task=task)


# -- what fit learns ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", ADDITIVE)
@pytest.mark.parametrize("scaled", [False, True])
def test_coefficients_are_the_sum_of_the_parts(Model, rows, scaled):
    options = {"standardize": scaled, **({"scale_targets": scaled} if Model in REGRESSORS else {})}
    model = fitted(Model, rows, **options)
    second = model.specific_ if "Dirty" in Model.__name__ else model.outlier_
    assert_array_equal(model.coef_, model.shared_ + second)
    assert model.shared_.shape == (4, 6) and model.shared_.any()
    assert 0.0 <= model.dual_gap_ < 1e-5 and model.violation_ <= 1e-7
    assert not hasattr(model, "c_") and not hasattr(model, "B_")


def test_the_dirty_model_finds_the_exception(rows):
    model = fitted(DirtyRegressor, rows, alpha_shared=0.6, alpha_specific=0.25)
    assert np.flatnonzero(model.shared_.any(axis=0)).tolist() == [0, 1]
    assert {tuple(place) for place in np.argwhere(model.specific_)} >= {(2, 2), (3, 2), (3, 3), (3, 4)}
    euclidean = fitted(DirtyRegressor, rows, alpha_shared=0.6, alpha_specific=0.25, p=2)
    assert not np.allclose(euclidean.shared_, model.shared_)


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
    slope = np.outer(
        [1.0, 2.0, -1.0, 1.5, -2.0, 0.0], [1.0, 1, 1, 1, 0, 0, 0, 0]
    )  # five are multiples of one
    slope[5, 4:] = [3, -3, 3, -3]
    y = np.einsum("ij,ij->i", X, slope[index]) + 0.1 * rng.normal(size=480)
    task = np.array(["a", "b", "c", "d", "e", "odd"])[index]
    model = fitted(Model, (X, y, task), alpha_shared=strengths[0], alpha_outlier=strengths[1])
    assert model.outlier_tasks_.tolist() == ["odd"]
    assert_array_equal(model.outlier_.any(axis=1), model.tasks_ == "odd")
    assert np.linalg.matrix_rank(model.shared_[:5], tol=1e-6) == 1 or "LowRank" not in Model.__name__


@pytest.mark.parametrize("Model", OUTLIERS)
def test_no_task_is_set_apart_at_a_large_strength(Model, rows):
    model = fitted(Model, rows, alpha_outlier=1e6)
    assert model.outlier_tasks_.tolist() == [] and not model.outlier_.any()


def test_summaries_name_the_parts_and_leave_outliers_out_of_the_count(rows):
    dirty = fitted(DirtyRegressor, rows, alpha_shared=0.6, alpha_specific=0.25).summary()
    assert list(dirty.columns)[:5] == ["feature", "shared", "specific", "n_tasks", "kind"]
    assert dirty["feature"][0] == "x0" and dirty.set_index("feature")["kind"]["x5"] == "none"
    robust = fitted(RobustRegressor, rows, alpha_shared=0.5, alpha_outlier=0.7).summary().set_index("feature")
    assert list(robust.columns)[:4] == ["shared", "outlier", "n_tasks", "kind"]
    assert robust["kind"]["x0"] == "shared" and robust["n_tasks"]["x0"] == 3
    assert robust["kind"]["x3"] == "none" and robust["outlier"]["x3"] > 0
    assert robust["n_possible"].eq(3).all()
    assert robust["max_coef"]["x3"] == 0.0  # over the tasks that are not set apart


# -- scales ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", MODELS)
def test_standardize_is_dividing_by_the_standard_deviation(Model, rows):
    X, y, task = rows
    X = X * [1, 10, 0.1, 1, 5, 1]
    y = target(Model, y)
    spread = X.std(axis=0)
    inside = Model(standardize=True).fit(X, y, task=task)
    outside = Model().fit(X / spread, y, task=task)
    assert_allclose(inside.coef_ * spread, outside.coef_, atol=1e-5)
    assert_allclose(inside.objective_, outside.objective_, rtol=1e-7)
    assert_allclose(inside.decision_function(X, task) if Model in CLASSIFIERS else inside.predict(X, task),
                    outside.decision_function(X / spread, task) if Model in CLASSIFIERS
                    else outside.predict(X / spread, task), atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("Model", REGRESSORS)
def test_scaled_targets_do_not_compete(Model, rows):
    X, y, task = rows
    factor = np.where(task == "a", 1000.0, 1.0)
    plain = Model(scale_targets=True).fit(X, y, task=task)
    stretched = Model(scale_targets=True).fit(X, y * factor, task=task)
    assert_allclose(stretched.coef_[0], 1000 * plain.coef_[0], rtol=1e-4, atol=1e-3)
    assert_allclose(stretched.coef_[1:], plain.coef_[1:], atol=1e-5)


@pytest.mark.parametrize("Model", MODELS)
def test_storage_and_precision_do_not_matter(Model, rows):
    X, y, task = rows
    X, y = np.where(np.abs(X) > 1, X, 0.0).astype(np.float32), target(Model, y)
    models = [Model().fit(stored, y, task=task) for stored in (X, X.astype(float), sparse.csr_array(X))]
    for model in models[1:]:
        assert_allclose(model.coef_, models[0].coef_, atol=1e-5)


@pytest.mark.parametrize("Model", MODELS)
def test_the_order_of_rows_and_names_of_tasks_do_not_matter(Model, rows):
    X, y, task = rows
    y = target(Model, y)
    order = np.random.default_rng(1).permutation(len(y))
    one = Model().fit(X, y, task=task)
    other = Model().fit(X[order], y[order], task=np.where(task == "a", "z", task)[order])
    assert_allclose(other.coef_[[3, 0, 1, 2]], one.coef_, atol=1e-5)


# -- doors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", MODELS)
def test_both_doors_lead_to_the_same_model(Model, rows):
    X, y, task = rows
    y = target(Model, y)
    frame = pd.DataFrame(X, columns=NAMES).assign(site=task)
    model = Model(task_column="site").fit(frame, y)
    assert_allclose(model.coef_, Model().fit(X, y, task=task).coef_, atol=1e-9)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.predict(frame).shape == y.shape
    with pytest.raises(ValueError, match="given twice"):
        model.predict(frame, task=task)


@pytest.mark.parametrize("Model", MODELS)
def test_matrix_targets_give_matrix_predictions(Model, rows):
    X, y, _ = rows
    Y = np.column_stack([y, X[:, 0] - X[:, 2], X[:, 1]])
    Y = np.sign(Y) if Model in CLASSIFIERS else Y
    model = Model().fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert model.score(X, Y) > 0.5


@pytest.mark.parametrize("Model", MODELS)
def test_unknown_tasks_are_refused_or_averaged(Model, rows):
    X, _, _ = rows
    model = fitted(Model, rows)
    with pytest.raises(ValueError, match="Unknown task 'new'"):
        model.predict(X[:1], task=["new"])
    model.set_params(unknown_task="mean")
    assert model.predict(X[:1], task=["new"]).shape == (1,)


@pytest.mark.parametrize("Model", MODELS)
def test_a_warm_start_saves_passes_and_keeps_the_answer(Model, rows):
    X, y, task = rows
    y = target(Model, y)
    model = Model(warm_start=True, standardize=True).fit(X, y, task=task)
    cold, passes = model.coef_.copy(), model.n_iter_
    model.fit(X, y, task=task)
    assert_allclose(model.coef_, cold, atol=1e-6)
    assert model.n_iter_ <= passes
    model.fit(X[:, :4], y, task=task)  # other features: nothing to start from
    assert model.coef_.shape == (4, 4)


@pytest.mark.parametrize("Model", MODELS)
def test_clones_and_pickles(Model, rows):
    X, _, task = rows
    model = fitted(Model, rows)
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.predict(X, task=task), model.predict(X, task=task))
    fresh = clone(model)
    assert fresh.get_params() == model.get_params() and not hasattr(fresh, "coef_")


# -- docs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", [*MODELS, SingleTaskRegressorCV, SingleTaskClassifierCV, TwoStrengthCV])
def test_every_parameter_and_every_learned_attribute_is_documented(Model, rows):
    text = inspect.getdoc(Model)
    parameters, attributes = (
        text.split("Attributes\n")[0],
        text.split("Attributes\n")[1].split("Examples\n")[0],
    )
    names = [name for name in inspect.signature(Model).parameters if name != "self"]
    documented = re.findall(r"^([\w, ]+) :", parameters, re.M)
    assert sorted(", ".join(documented).split(", ")) == sorted(names)
    model = Model(DirtyRegressor(), 2, cv=2) if Model is TwoStrengthCV else Model()
    X, y, task = rows
    model.fit(X, target(Model, y) if Model is not SingleTaskClassifierCV else y > 0, task=task)
    learned = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    assert learned <= set(", ".join(re.findall(r"^([\w, ]+) :", attributes, re.M)).split(", "))
    assert "<" not in re.sub(r">>>.*|\.\.\. .*|<=?\s", "", text)  # a placeholder left in


# -- scikit-learn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", MODELS)
def test_all_checks_of_scikit_learn_pass(Model):
    results = check_estimator(Model(), on_skip=None, on_fail="raise")
    skipped = {result["check_name"] for result in results if result["status"] == "skipped"}
    assert len(results) > 50 and skipped <= {"check_array_api_input"}
    assert is_classifier(Model()) == (Model in CLASSIFIERS)
    assert is_regressor(Model()) == (Model in REGRESSORS)


@pytest.mark.parametrize("Model", MODELS)
def test_labels_are_routed_without_requests(Model, rows, routed):
    X, y, task = rows
    y = target(Model, y)
    useful, useless = ({name: [value] for name in Model.strength_names} for value in (0.02, 1e6))
    search = GridSearchCV(Model(), [useless, useful], cv=TaskKFold(3, random_state=0)).fit(X, y, task=task)
    assert search.best_params_ == dict.fromkeys(Model.strength_names, 0.02)
    assert search.score(X, y, task=task) > 0.8
    scores = cross_validate(make_pipeline(StandardScaler(), Model()), X, y, params={"task": task}, cv=3)
    assert np.all(scores["test_score"] > 0.6)


@pytest.mark.parametrize("Model", [DirtyRegressor, RobustClassifier])
def test_tools_that_cannot_route_take_the_second_door(Model, rows):
    X, y, task = rows
    frame = pd.DataFrame(X, columns=NAMES).assign(site=task)
    predicted = cross_val_predict(Model(task_column="site"), frame, target(Model, y), cv=3)
    assert (
        np.mean((predicted == "up") == (y > 0) if Model in CLASSIFIERS else (predicted > 0) == (y > 0)) > 0.8
    )


# -- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan, "much", None])
@pytest.mark.parametrize("Model", MODELS)
def test_strengths_must_be_positive_and_finite(Model, bad, rows):
    for name in Model.strength_names:
        with pytest.raises(InvalidParameterError, match=rf"'{name}' parameter of {Model.__name__}.* Use "):
            fitted(Model, rows, **{name: bad})


@pytest.mark.parametrize("bad", [1, 3, "inf", None])
def test_the_dirty_model_knows_two_row_norms(bad, rows):
    with pytest.raises(InvalidParameterError, match="'p' parameter of DirtyRegressor"):
        fitted(DirtyRegressor, rows, p=bad)


@pytest.mark.parametrize("Model", MODELS)
def test_data_that_cannot_be_read_is_told_by_task_and_column(Model, rows):
    X, y, task = rows
    y = target(Model, y)
    broken = X.copy()
    broken[np.flatnonzero(task == "b")[0], 2] = np.nan
    with pytest.raises(ValueError, match=r"(?s)'b'.*column 2|column 2.*'b'"):
        Model().fit(broken, y, task=task)
    with pytest.raises(ValueError, match="task"):
        Model().fit(X, y, task=task[:-1])
    with pytest.raises(ValueError, match="each row needs a label"):
        Model().fit(X, y, task=task).predict(X)


@pytest.mark.parametrize("Model", REGRESSORS)
def test_columns_whose_squares_leave_the_floats_are_fitted(Model, rows):
    """In their units the strengths are next to nothing, so that each task has its least squares."""
    X, y, task = rows
    model = Model().fit(X * 1e160, y, task=task)
    for label, coef in zip(model.tasks_, model.coef_, strict=True):
        own = task == label
        free = np.linalg.lstsq(X[own] - X[own].mean(axis=0), y[own] - y[own].mean(), rcond=None)[0]
        np.testing.assert_allclose(coef * 1e160, free, rtol=1e-4, atol=1e-4)
    assert Model(standardize=True).fit(X * 1e160, y, task=task).coef_.any()


@pytest.mark.parametrize("Model", CLASSIFIERS)
def test_a_task_with_one_class_is_refused(Model, rows):
    X, y, task = rows
    y = np.where(task == "c", "up", target(Model, y))
    with pytest.raises(ValueError, match="'c'"):
        Model().fit(X, y, task=task)


@pytest.mark.parametrize("Model", MODELS)
def test_stopping_early_is_told(Model, rows):
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        fitted(Model, rows, max_iter=1)


def test_one_line_on_how_it_went(rows, capsys):
    fitted(RobustRegressor, rows, verbose=1)
    assert "[RobustRegressor]" in capsys.readouterr().err


# -- small problems ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
@pytest.mark.parametrize("Model", REGRESSORS)
@pytest.mark.parametrize(
    "case", ["constant target", "constant column", "one row each", "one feature", "no rows left"]
)
def test_degenerate_problems_have_answers(Model, case):
    rng = np.random.default_rng(0)
    X, y, task, weight = rng.normal(size=(20, 3)), rng.normal(size=20), np.repeat([0, 1], 10), None
    if case == "constant target":
        y = np.full(20, 3.0)
    elif case == "constant column":
        X[:, 1] = 7.0
    elif case == "one row each":
        X, y, task = X[:2], y[:2], np.array([0, 1])
    elif case == "one feature":
        X = X[:, :1]
    else:
        weight = np.r_[1.0, np.zeros(9), np.ones(10)]
    model = Model().fit(X, y, task=task, sample_weight=weight)
    assert np.all(np.isfinite(model.coef_)) and np.all(np.isfinite(model.intercept_))
    if case in ("constant target", "one row each"):
        assert not model.coef_.any()
        assert_allclose(model.predict(X, task=task), y)
    if case == "constant column":
        assert_allclose(model.coef_[:, 1], 0.0, atol=1e-14)
