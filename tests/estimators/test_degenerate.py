"""Degenerate but legal input: it works, and all that is learned is finite; only small tasks are warned of."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mmtfl.errors import UnitsWarning
from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor

pytestmark = pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
MODELS = [MMTFLRegressor, MMTFLClassifier]
MEMBERS = [(2, 2), (1, 1), (2, 1), (1, 2), (1, np.inf), (2, np.inf), (np.inf, 1), (2, "log"), (1.5, 1.5)]


@pytest.fixture
def rows():
    """Three ragged tasks; two features matter."""
    rng = np.random.default_rng(5)
    task = np.repeat([10, 20, 30], [12, 25, 18])
    X = rng.normal(size=(55, 5))
    y = X[:, 0] - 2 * X[:, 1] * (task == 20) + 0.1 * rng.normal(size=55)
    return X, y, task


def target(Model, y):
    return y > np.median(y) if Model is MMTFLClassifier else y


def assert_all_finite(model):
    for name, value in vars(model).items():
        if name.endswith("_") and np.asarray(value).dtype.kind == "f":
            assert np.all(np.isfinite(value)), name
    assert_allclose(model.c_[:, None] * model.B_, model.coef_.T, rtol=1e-9)


def fit(Model, X, y, task=None, **options):
    model = Model(**{"alpha": 0.1, **options}).fit(X, y, task=task)
    assert_all_finite(model)
    assert np.all(np.isfinite(model._linear_predictor(X, task)))
    return model


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_constant_zero_and_duplicated_columns(rows, Model, p, k, standardize):
    X, y, task = rows
    X = np.column_stack([X, np.ones(55), np.zeros(55), X[:, 0], np.full(55, 0.1)])
    model = fit(Model, X, target(Model, y), task, p=p, k=k, standardize=standardize)
    assert np.any(model.coef_)
    assert not model.coef_[:, 6].any()  # a zero column earns nothing, and costs
    assert_allclose(model.coef_[:, [5, 8]], 0, atol=1e-5)  # nor does a constant beside the intercept


@pytest.mark.parametrize("Model", MODELS)
def test_columns_constant_within_each_task(rows, Model):
    X, y, task = rows
    model = fit(Model, np.column_stack([X, task == 10, task]), target(Model, y), task, standardize=True)
    assert_allclose(model.coef_[:, 5:], 0, atol=1e-5)


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_tasks_of_one_row(rows, p, k):
    X, y, task = rows
    task = np.concatenate([[1, 2, 3], task[3:]])
    for options in ({}, {"standardize": True, "scale_targets": True}, {"fit_intercept": False}):
        model = fit(MMTFLRegressor, X, y, task, p=p, k=k, **options)
        assert model.coef_.shape == (6, 5)


def test_every_task_of_one_row():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 3)), rng.normal(size=8)
    model = fit(MMTFLRegressor, X, y, np.arange(8))
    assert_allclose(model.intercept_, y)  # the intercepts explain everything
    assert not model.coef_.any()


def test_tasks_of_two_rows_of_two_classes():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(20, 3)), np.repeat(np.arange(10), 2)
    model = fit(MMTFLClassifier, X, np.tile([0, 1], 10), task)
    assert model.coef_.shape == (10, 3)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_fewer_rows_than_features(Model, p, k):
    rng = np.random.default_rng(1)
    X, task = rng.normal(size=(24, 60)), np.repeat(["a", "b"], 12)
    y = X[:, 0] * 3 + 0.1 * rng.normal(size=24)
    model = fit(Model, X, target(Model, y), task, p=p, k=k)
    assert np.any(model.coef_)


@pytest.fixture
def overlapping():
    """Enough rows and noise that no task's classes can be separated, even without a penalty."""
    rng = np.random.default_rng(5)
    task = np.repeat([10, 20, 30], [30, 45, 36])
    X = rng.normal(size=(111, 3))
    return X, X[:, 0] - 2 * X[:, 1] * (task == 20) + 2 * rng.normal(size=111), task


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("factor", [1e150, 1e-150])
@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_features_far_from_one(overlapping, Model, factor, p, k):
    X, y, task = overlapping
    for standardize in (False, True):
        fit(Model, X * factor, target(Model, y), task, p=p, k=k, standardize=standardize)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("factor", [1e150, 1e-150])
@pytest.mark.parametrize("layout", [sparse.csr_array, sparse.csc_array])
def test_sparse_features_far_from_one(overlapping, Model, factor, layout):
    X, y, task = overlapping
    for standardize in (False, True):
        fit(Model, layout(X * factor), target(Model, y), task, standardize=standardize)


@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 1)])
def test_separable_classes_with_next_to_no_penalty(rows, p, k):
    X, y, task = rows
    fit(MMTFLClassifier, X * 1e150, target(MMTFLClassifier, y), task, p=p, k=k)


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize("factor", [1e150, 1e-150])
def test_standardised_features_may_be_of_any_size(rows, Model, factor):
    X, y, task = rows
    y = target(Model, y)
    far, near = (fit(Model, X * s, y, task, standardize=True, tol=1e-8) for s in (factor, 1.0))
    assert np.any(near.coef_)
    assert_allclose(far.coef_ * factor, near.coef_, rtol=1e-5, atol=1e-10)
    assert_allclose(far._linear_predictor(X * factor, task), near._linear_predictor(X, task), atol=1e-5)


@pytest.mark.parametrize("Model", MODELS)
def test_columns_of_very_different_sizes(rows, Model):
    X, y, task = rows
    sizes = np.array([1e120, 1.0, 1e-120, 1e-8, 1e8])
    with pytest.warns(UnitsWarning):
        fit(Model, X * sizes, target(Model, y), task)
    model = fit(Model, X * sizes, target(Model, y), task, standardize=True)
    near = fit(Model, X, target(Model, y), task, standardize=True)
    assert_allclose(model.coef_ * sizes, near.coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("factor", [1e100, 1e-100])
def test_targets_far_from_one(rows, factor):
    X, y, task = rows
    far, near = (fit(MMTFLRegressor, X, y * s, task, scale_targets=True, tol=1e-8) for s in (factor, 1.0))
    assert_allclose(far.coef_ / factor, near.coef_, rtol=1e-5, atol=1e-10)
    fit(MMTFLRegressor, X, y * factor, task)


@pytest.mark.parametrize(("p", "k"), MEMBERS)
def test_one_task(rows, p, k):
    X, y, _ = rows
    for Model in MODELS:
        model = fit(Model, X, target(Model, y), p=p, k=k)
        assert model.coef_.shape == (1, 5) and model.tasks_.tolist() == [0]


@pytest.mark.parametrize("Model", MODELS)
def test_one_feature(rows, Model):
    X, y, task = rows
    assert fit(Model, X[:, :1], target(Model, y), task).coef_.shape == (3, 1)


@pytest.mark.parametrize(
    ("p", "k", "solver"), [(2, 2, "auto"), (2, 1, "auto"), (1, 1, "block"), (1, 2, "block")]
)
def test_thousands_of_tiny_tasks(p, k, solver):
    rng = np.random.default_rng(2)
    T = 3000
    task = rng.permutation(np.concatenate([np.arange(T), rng.integers(T, size=T)]))
    X = rng.normal(size=(2 * T, 4))
    y = 3 * X[:, 0] + 0.1 * rng.normal(size=2 * T)
    model = fit(MMTFLRegressor, X, y, task, p=p, k=k, alpha=2.0, fit_intercept=False, solver=solver)
    assert model.coef_.shape == (T, 4)
    assert np.argmax(model.c_) == 0


@pytest.mark.parametrize(("p", "k", "solver"), [(2, 2, "auto"), (2, 1, "block")])
def test_thousands_of_tiny_classifications(p, k, solver):
    rng = np.random.default_rng(3)
    T = 3000
    X, task = rng.normal(size=(2 * T, 4)), np.repeat(np.arange(T), 2)
    model = fit(MMTFLClassifier, X, np.tile([0, 1], T), task, p=p, k=k, alpha=5.0, solver=solver)
    assert model.coef_.shape == (T, 4)


def test_targets_constant_within_each_task(rows):
    X, _, task = rows
    for options in ({}, {"scale_targets": True}, {"p": 2, "k": 2}, {"p": 2, "k": np.inf}):
        model = fit(MMTFLRegressor, X, task / 7, task, **options)
        assert_allclose(model.intercept_, model.tasks_ / 7)
        assert_allclose(model.coef_, 0, atol=1e-9)


def test_a_target_of_zeros(rows):
    X, _, task = rows
    for options in ({}, {"scale_targets": True}, {"fit_intercept": False}):
        model = fit(MMTFLRegressor, X, np.zeros(55), task, **options)
        assert not model.coef_.any() and not model.intercept_.any()


@pytest.mark.parametrize("Model", MODELS)
def test_a_design_of_zeros(rows, Model):
    _, y, task = rows
    for X in (np.zeros((55, 3)), sparse.csr_array((55, 3))):
        assert not fit(Model, X, target(Model, y), task, standardize=True).coef_.any()


@pytest.mark.parametrize("Model", MODELS)
@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 1), (1, 1), (1, 2), (1, np.inf)])
def test_a_huge_alpha_gives_exact_zeros(rows, Model, p, k):
    X, y, task = rows
    model = fit(Model, X, target(Model, y), task, p=p, k=k, alpha=1e10)
    assert not model.coef_.any() and model.n_iter_ >= 1
    if Model is MMTFLRegressor:
        assert_allclose(model.intercept_, [y[task == t].mean() for t in (10, 20, 30)])


@pytest.mark.parametrize("Model", MODELS)
def test_perfectly_separable_or_explained_data_at_a_tiny_alpha(rows, Model):
    X, _, task = rows
    y = X[:, 0] if Model is MMTFLRegressor else X[:, 0] > 0
    model = fit(Model, X, y, task, p=2, k=2, alpha=1e-4)
    assert model.score(X, y, task=task) > 0.99


@pytest.mark.parametrize("Model", MODELS)
def test_two_rows_in_all(Model):
    X, y = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([0, 1])
    fit(Model, X, y)


def test_one_row_in_all():
    model = fit(MMTFLRegressor, [[1.0, 2.0]], [3.0])
    assert_array_equal(model.intercept_, [3.0])


def test_repeated_rows(rows):
    X, y, task = rows
    again = np.tile(np.arange(55), 20)
    model = MMTFLRegressor(alpha=0.1, tol=1e-9)
    once, often = model.fit(X, y, task=task).coef_, model.fit(X[again], y[again], task=task[again]).coef_
    assert_allclose(once, often, atol=1e-6)
