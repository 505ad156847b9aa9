"""What may change in the data without changing the answer, and odd data that must have a finite one.

Every test runs with warnings as errors, as all tests do.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mmtfl import (
    CappedRegressor,
    DirtyClassifier,
    DirtyRegressor,
    LowRankRegressor,
    MMTFLClassifier,
    MMTFLRegressor,
    MMTFLRegressorCV,
    RobustRegressor,
)

pytestmark = pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
MEMBERS = [(2, 2), (2, 1), (1, 1), (3, 1.5), (2, math.inf), (1, math.inf), (math.inf, 1), (1, 2), (2, "log")]


def family(loss):
    if loss == "logistic":
        return lambda p, k, **options: MMTFLClassifier(p, k, 0.03, tol=1e-9, **options)
    return lambda p, k, **options: MMTFLRegressor(p, k, 0.1, loss=loss, tol=1e-9, **options)


MODELS = {(loss, pk): family(loss) for loss in ("squared", "logistic") for pk in MEMBERS}
MODELS |= {(loss, pk): family(loss) for loss in ("huber", "poisson") for pk in ((2, 2), (2, 1))}
ADDITIVE = {
    "dirty": lambda **options: DirtyRegressor(0.2, 0.1, tol=1e-10, **options),
    "dirty classes": lambda **options: DirtyClassifier(0.03, 0.02, tol=1e-10, **options),
    "robust": lambda **options: RobustRegressor(0.1, 0.2, tol=1e-10, **options),
    "low rank": lambda **options: LowRankRegressor(0.2, 0.3, tol=1e-10, **options),
    "capped": lambda **options: CappedRegressor(0.05, 0.5, tol=1e-10, **options),
}
SEARCH = {"search": lambda **options: MMTFLRegressorCV((2, 2), 5, 3, poolings=(0,), tol=1e-9, **options)}
KEYS = [*MODELS, *ADDITIVE]


def make(key, **options):
    """A model, its name or its loss and member given."""
    if isinstance(key, tuple):
        return MODELS[key](*key[1], **options)
    return (ADDITIVE | SEARCH)[key](**options)


def data(key="squared", seed=0, n_tasks=4, size=30, n_features=6):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n_tasks * size, n_features)), np.repeat(np.arange(n_tasks), size)
    z = 2.0 * X[:, 0] - X[:, 1] + rng.normal(size=len(X))
    kind = key[0] if isinstance(key, tuple) else key
    if kind in ("logistic", "dirty classes"):
        return X, z > 0.0, labels
    return X, rng.poisson(np.exp(0.4 * z)).astype(float) if kind == "poisson" else z, labels


def has_numbers(key):
    return key[0] in ("squared", "huber") if isinstance(key, tuple) else key != "dirty classes"


def assert_same(there, here, coef, intercept, tolerance=1e-4):
    """Objectives agree, and coefficients that were brought back."""
    assert here.coef_.any()
    assert_allclose(there.objective_, here.objective_, rtol=1e-6)
    assert_allclose(coef, here.coef_, atol=tolerance)
    assert_allclose(intercept, here.intercept_, atol=tolerance)


few = settings(max_examples=25, deadline=None, derandomize=True)
keys, seeds = st.sampled_from(KEYS), st.integers(0, 1000)


# -- symmetries --------------------------------------------------------------------------------------------


@few
@given(keys, seeds)
def test_the_order_of_rows_tasks_and_features_does_not_matter(key, seed):
    X, y, labels = data(key)
    rng = np.random.default_rng(seed)
    rows, tasks, features = rng.permutation(len(y)), rng.permutation(4), rng.permutation(6)
    here = make(key).fit(X, y, task=labels)
    there = make(key).fit(X[rows][:, features], y[rows], task=tasks[labels[rows]])
    coef = there.coef_[tasks][:, np.argsort(features)]
    assert_same(there, here, coef, there.intercept_[tasks])


@few
@given(keys, seeds)
def test_weight_two_is_a_repeated_row_and_only_ratios_of_weights_matter(key, seed):
    X, y, labels = data(key)
    times = np.random.default_rng(seed).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    here = make(key).fit(X[rows], y[rows], task=labels[rows])
    for weight in (times, 4.0 ** (seed % 100 - 50) * times):
        there = make(key).fit(X, y, task=labels, sample_weight=weight)
        assert_same(there, here, there.coef_, there.intercept_)


@few
@given(keys, st.floats(0.0, 7.0))
def test_constants_added_to_columns_and_targets_change_only_the_intercepts(key, exponent):
    X, y, labels = data(key)
    shift = 10.0**exponent * np.array([1.0, -1.0, 1.0, 0.0, 1.0, 2.0])
    level = (10.0**exponent * np.array([1.0, -1.0, 0.5, 0.0])) if has_numbers(key) else np.zeros(4)
    # what adding the constant has rounded off
    X, y = (X + shift) - shift, (y + level[labels]) - level[labels] if has_numbers(key) else y
    here = make(key).fit(X, y, task=labels)
    there = make(key).fit(X + shift, y + level[labels] if has_numbers(key) else y, task=labels)
    back = there.intercept_ + there.coef_ @ shift - level
    assert_same(there, here, there.coef_, back, tolerance=1e-3 + 1e-8 * 10.0**exponent)


@few
@given(keys, st.lists(st.floats(-60.0, 60.0), min_size=6, max_size=6))
def test_units_of_columns_do_not_matter_where_columns_are_standardized(key, exponents):
    X, y, labels = data(key)
    units = 10.0 ** np.array(exponents)
    here = make(key, standardize=True).fit(X, y, task=labels)
    there = make(key, standardize=True).fit(X * units, y, task=labels)
    assert_same(there, here, there.coef_ * units, there.intercept_)


@few
@given(st.sampled_from([key for key in KEYS if has_numbers(key)]), st.integers(-60, 60))
def test_units_of_targets_do_not_matter_where_targets_are_scaled(key, exponent):
    X, y, labels = data(key)
    units = np.array([1.0, 2.0**exponent, 1.0, 4.0])[labels]
    here, there = (make(key, scale_targets=True).fit(X, y * u, task=labels) for u in (1.0, units))
    assert_same(there, here, there.coef_ / units[::30, None], there.intercept_ / units[::30])


@pytest.mark.parametrize("unit", [1e-100, 1e100])
def test_a_search_does_not_know_units_and_offsets(unit):
    X, y, labels = data()
    options = {"standardize": True, "scale_targets": True}
    here = make("search", **options).fit(X, y, task=labels)
    there = make("search", **options).fit((X + 1e4) * unit, y * unit - 3.0 * unit, task=labels)
    assert_allclose(there.coef_, here.coef_, atol=1e-3)
    assert_allclose(there.alpha_, here.alpha_, rtol=1e-3)


@few
@given(keys)
def test_empty_constant_and_stored_columns_change_nothing(key):
    X, y, labels = data(key)
    here = make(key).fit(X, y, task=labels)
    wide = np.column_stack([X, np.zeros(len(X)), np.full(len(X), 0.1)])
    for storage in (np.asfortranarray, sparse.csr_array, sparse.csc_array):
        there = make(key).fit(storage(wide), y, task=labels)
        assert not there.coef_[:, 6].any()
        assert_allclose(there.coef_[:, 7], 0.0, atol=1e-5)
        assert_same(there, here, there.coef_[:, :6], there.intercept_ + 0.1 * there.coef_[:, 7])


# -- targets of other units -------------------------------------------------------------------------------


def with_a_task_of_two_rows():
    """Four tasks of 30 rows, and one of two: every fold trains that one on a single row."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(122, 6)), np.append(np.repeat(np.arange(4), 30), [4, 4])
    return X, 2 * X[:, 0] + rng.normal(size=122), task


@pytest.mark.parametrize("unit", [1e3, 1e6])
def test_a_constant_task_has_the_median_spread_of_the_others(unit):
    X, y, task = with_a_task_of_two_rows()
    y[task == 4], y[task == 3] = 7.0, 10 * y[task == 3]
    model = MMTFLRegressor(alpha=0.1, scale_targets=True).fit(X, unit * y, task=task)
    spread = [np.std(unit * y[task == t]) for t in range(4)]
    assert_allclose(model.target_scale_, [*spread, np.median(spread)])


def test_a_new_task_of_one_row_follows_the_unit_of_y():
    X, y, task = with_a_task_of_two_rows()
    models = [
        MMTFLRegressor(alpha=0.1, scale_targets=True, pooling=0.5)
        .fit(X[:120], y[:120] * unit, task=task[:120])
        .add_task(X[120:121], y[120:121] * unit, task=9)
        for unit in (1.0, 1e6)
    ]
    assert_allclose(models[1].coef_ / 1e6, models[0].coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(models[1].intercept_ / 1e6, models[0].intercept_, rtol=1e-6)


# -- a wide sparse X, whose empty columns are left out of the work ----------------------------------------

N_COLUMNS, TASK = 12_000, np.repeat([0, 1, 2], 30)
FORMATS = [sparse.csr_array, sparse.csc_array, sparse.csr_matrix]


@pytest.fixture(scope="module")
def narrow():
    """X with twelve features, the first full and far from zero; and where they stand in a wide X."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 12)) * (rng.random((90, 12)) < 0.4)
    X[:, 0] = 1e6 + rng.normal(size=90)
    return X, np.sort(rng.choice(N_COLUMNS, 12, replace=False))


def widened(X, place, make):
    wide = sparse.lil_array((len(X), N_COLUMNS))
    wide[:, place] = X
    return make(wide)


def target(X):
    return (X - X.mean(axis=0)) @ np.linspace(2.0, -1.0, 12) + 0.1 * np.sin(np.arange(90))


@pytest.mark.parametrize("make", FORMATS)
@pytest.mark.parametrize("options", [{"k": 2}, {"k": 1}, {"p": 1, "k": 1}, {"pooling": 0.9}])
def test_a_wide_table_of_empty_columns_has_the_answer_of_the_narrow_one(narrow, make, options):
    X, place = narrow
    y = target(X)
    model = MMTFLRegressor(**{"p": 2, "k": 2, "alpha": 0.05, "tol": 1e-10, **options})
    expected = model.fit(X, y, task=TASK).coef_
    used, intercept, common = expected.any(axis=0), model.intercept_, model.common_
    assert used.any()
    model.fit(widened(X, place, make), y, task=TASK)
    assert_allclose(model.coef_[:, place], expected, atol=1e-8)
    assert_allclose(model.intercept_, intercept, rtol=1e-8)
    assert_allclose(model.common_[place], common, atol=1e-8)
    assert_array_equal(np.flatnonzero(model.c_), place[used])
    assert_allclose(model.c_[:, None] * model.B_, model.coef_.T, atol=1e-12)


# -- odd data ----------------------------------------------------------------------------------------------

rng = np.random.default_rng(5)
ROWS, LABELS = rng.normal(size=(55, 5)), np.repeat([10, 20, 30], [12, 25, 18])
ODD = {
    "fewer rows than features": (rng.normal(size=(24, 60)), np.repeat([0, 1], 12)),
    "one task": (ROWS, np.zeros(55, dtype=int)),
    "one feature": (ROWS[:, :1], LABELS),
    "two rows": (ROWS[:2], np.zeros(2, dtype=int)),
    "tasks of two rows": (ROWS[:20], np.repeat(np.arange(10), 2)),
    "repeated columns": (np.column_stack([ROWS, ROWS[:, 0], ROWS[:, 1] + 1e-9 * ROWS[:, 2]]), LABELS),
    "constant within tasks": (np.column_stack([ROWS, LABELS == 10, LABELS]), LABELS),
    "tiny": (1e-150 * ROWS, LABELS),
    "huge": (1e150 * ROWS, LABELS),
    "sparse and huge": (sparse.csr_array(1e150 * ROWS), LABELS),
}


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("key", [key for key in MODELS if key[0] in ("squared", "logistic")], ids=str)
def test_odd_data_have_finite_answers(key, name, standardize):
    X, labels = ODD[name]
    y = np.tile([0.0, 1.0], X.shape[0])[: X.shape[0]]
    noise = np.random.default_rng(0).normal(size=len(y))
    model = make(key, standardize=standardize)
    model.fit(X, y + 0.5 * noise if key[0] == "squared" else y, task=labels)
    for attribute in ("coef_", "intercept_", "c_", "objective_", "history_"):
        assert np.isfinite(getattr(model, attribute)).all(), attribute
    assert np.isfinite(model.score(X, y, task=labels))


@pytest.mark.parametrize("key", [key for key in MODELS if key[0] == "squared"], ids=str)
def test_tasks_of_one_row_and_constant_targets_are_their_intercepts(key):
    X, y, _ = data(size=2)
    model = make(key).fit(X, y, task=np.arange(8))
    assert not model.coef_.any()
    assert_allclose(model.intercept_, y)
    model = make(key).fit(ROWS, LABELS / 7, task=LABELS)
    assert_allclose(model.intercept_, model.tasks_ / 7)
    assert_allclose(model.coef_, 0.0, atol=1e-9)
