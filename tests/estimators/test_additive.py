"""The additive and capped models as estimators: what they learn, scales, doors, bad input, scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import is_classifier, is_regressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

from mmtfl import DirtyRegressor, LowRankClassifier, LowRankRegressor, RobustClassifier, RobustRegressor
from mmtfl.estimators import two_strengths

MODELS = [getattr(two_strengths, name) for name in two_strengths.__all__]
REGRESSORS, CLASSIFIERS = (
    [Model for Model in MODELS if kind(Model())] for kind in (is_regressor, is_classifier)
)
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


# -- doors -------------------------------------------------------------------------------------------------


# -- scikit-learn ------------------------------------------------------------------------------------------


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
def test_stopping_early_is_told(Model, rows):
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        fitted(Model, rows, max_iter=1)


# -- small problems ------------------------------------------------------------------------------------------
