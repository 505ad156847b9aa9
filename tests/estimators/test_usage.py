"""Which tasks could use a feature, which do, and which way: against numbers written out by hand."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from mmtfl import MMTFLRegressor, MMTFLRegressorCV, Tasks, TwoStrengthCV
from mmtfl.estimators.two_strengths import RobustRegressor
from mmtfl.report.summary import describe
from mmtfl.tasks.scaling import could_use

STORAGES = [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array, np.float32]


def hospitals():
    """Four hospitals; dose does not vary in Cork, and Doha has one row."""
    rng = np.random.default_rng(0)
    task = np.repeat(["Aker", "Bern", "Cork", "Doha"], [40, 60, 25, 1])
    X = pd.DataFrame(rng.normal(size=(126, 4)), columns=["age", "dose", "iron", "salt"])
    X["age"] = 50 + 15 * X["age"]
    X.loc[task == "Cork", "dose"] = 2.0
    y = 0.1 * X["age"] - X["dose"] + np.where(task == "Bern", -2, 0) * X["iron"] + 0.3 * rng.normal(size=126)
    return X, y, task


@pytest.fixture(scope="module")
def model():
    X, y, task = hospitals()
    with pytest.warns(UserWarning, match="Doha"):
        return MMTFLRegressor(p=1, k=1, alpha=0.5, standardize=True).fit(X, y, task=task)


# -- who could -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", STORAGES)
def test_a_task_could_use_what_varies_within_its_rows(store):
    X = np.array([[0.0, 1.0, 5.0, 0.0], [0.0, 2.0, 5.0, 0.0], [1.0, 3.0, 5.0, 7.0], [1.0, 3.0, 6.0, 7.0]])
    tasks = Tasks.from_rows(store(X), np.arange(4.0), ["a", "a", "b", "b"])
    expected = [[False, True, False, False], [False, False, True, False]]
    assert_array_equal(could_use(tasks, fit_intercept=True), expected)
    not_zero = [[False, True, True, False], [True, True, True, True]]
    assert_array_equal(could_use(tasks, fit_intercept=False), not_zero)
    X = np.array([[1.0, 1e9, 1.7e9], [1.0, 1e9 + 1e-7, 1.7e9 + 1.0], [2.0, 1e9, 1.7e9]])
    tasks = Tasks.from_rows(X, np.arange(3.0), sample_weight=[1.0, 1.0, 0.0])
    # neither rows without weight nor rounding make a column vary
    assert could_use(tasks, fit_intercept=True).tolist() == [[False, False, True]]


# -- who does ------------------------------------------------------------------------------------------------


def test_a_feature_of_all_tasks_that_could_use_it_is_shared(model):
    frame = model.summary().set_index("feature")
    assert frame["n_possible"].to_dict() == {"age": 3, "dose": 2, "iron": 3, "salt": 3}
    assert frame["n_tasks"].to_dict() == {"age": 3, "dose": 2, "iron": 1, "salt": 0}
    assert frame["kind"].to_dict() == {"age": "shared", "dose": "shared", "iron": "single", "salt": "none"}
    words = {feature.name: feature.used_by for feature in describe(model).features}
    assert words == {
        "age": "all 3 tasks that could",
        "dose": "all 2 tasks that could",
        "iron": "one task (Bern)",
        "salt": "no task",
    }
    assert describe(model).usage == (
        "Of 4 features, 3 are used: 2 by all tasks that could use them, 0 by some, 1 by one."
    )


def test_means_and_ranges_are_over_the_tasks_that_could(model):
    X, _, _ = hospitals()
    frame = model.summary().set_index("feature")
    dose = model.coef_[:2, 1]
    assert (dose < 0).all()
    assert frame.loc["dose", ["mean_coef", "min_coef", "max_coef"]].tolist() == [
        *(pytest.approx(dose.mean()), dose.min(), dose.max())
    ]
    assert_allclose(frame["mean_coef_per_sd"], frame["mean_coef"] * X.std(ddof=0)[frame.index])


# -- what is said of it --------------------------------------------------------------------------------------

CONSTRUCTION = "a kept feature is used by every task by construction: the table says which features the model"


@pytest.mark.parametrize(("p", "said"), [(1, False), (1.5, True), (2, True), (np.inf, True)])
def test_models_that_fill_rows_or_set_tasks_apart_say_so(p, said):
    X, y, task = hospitals()
    kept = np.isin(task, ["Aker", "Bern"])
    found = describe(
        MMTFLRegressor(p=p, k=1, alpha=0.05, standardize=True).fit(X[kept], y[kept], task=task[kept])
    )
    assert found.usage_notes == (
        [f"With p = {p:g} {CONSTRUCTION} keeps, not in which tasks they matter."] if said else []
    )
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(250, 10)), np.repeat(list("abcde"), 50)
    y = np.where(task == "e", X[:, 2:].sum(axis=1), X[:, 0] - X[:, 1]) + 0.1 * rng.normal(size=250)
    found = describe(RobustRegressor(alpha_shared=0.3, alpha_outlier=0.6).fit(X, y, task=task))
    assert found.usage == "Of 10 features, 2 are used: 2 by all 4 tasks, 0 by some, 0 by one."
    assert found.usage_notes[0].startswith(f"In this model {CONSTRUCTION}")
    assert found.usage_notes[1] == "Tasks that the model sets apart are not counted."


# -- warnings ------------------------------------------------------------------------------------------------


def small(sizes, n_features=3, **options):
    """Tasks of these sizes that all follow the first feature; the warnings of a fit, and the model."""
    rng = np.random.default_rng(0)
    task = np.repeat([f"t{i}" for i in range(len(sizes))], sizes)
    X = rng.normal(size=(len(task), n_features))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MMTFLRegressor(alpha=0.05, **options).fit(X, X[:, 0], task=task)
    return [str(one.message) for one in caught if one.category.__name__ == "SmallTaskWarning"], model


def test_small_tasks_are_named_with_their_rows_and_a_remedy():
    (text,), model = small([30, 1, 4, 30])
    assert not model.coef_[1].any() and model.coef_[2].any()
    assert text.startswith(
        "2 of 4 tasks have too few rows to say much of their own: 't1' (1 row, a constant), 't2' "
    )
    assert "(4 rows)." in text and "rests on what the other tasks share" in text and "leave them out." in text
    assert "rows per feature" not in text
    assert "learned from these rows alone" in small([30, 4], k=np.inf)[0][0]
    assert small([30, 5, 8])[0] == small([3])[0] == []
    rng = np.random.default_rng(0)
    task, X = np.repeat(["a", "b"], [60, 8]), rng.normal(size=(68, 2))
    X[task == "b", 0] = 1.0
    with pytest.warns(UserWarning, match=r"1 of 2 tasks has .*'b' \(8 rows, a constant\)"):
        MMTFLRegressor(p=1, k=1, alpha=0.1).fit(X, X[:, 0], task=task)


def in_units(scale, y_of, **options):
    """Names of the warnings of a fit on columns of these spreads."""
    rng = np.random.default_rng(0)
    Z, task = rng.normal(size=(200, 4)), np.repeat(["a", "b"], 100)
    X = pd.DataFrame(Z * scale, columns=["salary", "age", "bmi", "dose"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = MMTFLRegressor(**options).fit(X, Z @ y_of, task=task)
    return [str(one.message) for one in caught], model


def test_a_fit_that_is_told_by_units_warns_with_the_remedy():
    (text,), model = in_units([1e4, 1, 1, 0.5], [1, 1, 1, 1], alpha=3.0)
    assert np.flatnonzero(model.c_).tolist() == [0]
    assert "'salary' (standard deviation" in text and "kept) and " in text and "standardize=True" in text
    assert in_units([1e4, 1, 1, 0.5], [1, 1, 1, 1], alpha=0.3, standardize=True)[0] == []


@pytest.mark.parametrize(
    ("scale", "y_of", "alpha"),
    [
        ([1, 1, 1, 1], [1, 1, 0, 0], 0.1),  # one unit
        ([1e4, 1, 1, 1], [1, 1, 0, 0], 0.1),  # a narrow column is kept too
        ([1e4, 1, 1e4, 1], [1, 0, 0, 0], 0.1),  # a wide column is dropped too
        ([1, 1e4, 1e4, 1e4], [1, 0, 0, 0], 0.1),  # what is kept is narrow
        ([50, 1, 1, 1], [1, 0, 0, 0], 0.1),  # less than a hundredfold
        ([1e4, 0, 0, 0], [1, 0, 0, 0], 0.1),  # what is dropped does not vary
        ([1e4, 1, 1, 1], [1, 1, 1, 1], 1e6),  # nothing is kept
        ([1e4, 1, 1, 1], [1, 1, 1, 1], 1e-6),  # nothing is dropped
    ],
)
def test_units_that_do_not_tell_are_not_told(scale, y_of, alpha):
    texts, _ = in_units(scale, y_of, alpha=alpha, p=1, k=2)
    assert [text for text in texts if "units" in text] == []


def test_searches_warn_of_the_final_fit_alone():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(44, 3)), np.repeat(["a", "b", "c"], [20, 20, 4])
    for search in (
        MMTFLRegressorCV(pk=(2, 2), alphas=4, cv=2),
        TwoStrengthCV(RobustRegressor(), strengths=2, cv=2),
    ):
        with pytest.warns(UserWarning) as caught:
            search.fit(X, X[:, 0], task=task)
        assert [one.category.__name__ for one in caught] == ["SmallTaskWarning"]
        assert "'c' (4 rows)" in str(caught[0].message)


def test_a_task_in_which_a_feature_is_constant_does_not_use_it_though_pooling_gives_it_the_common_part():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(120, 3)), np.repeat(["a", "b", "c", "d"], 30)
    X[task == "c", 0] = 1.0
    y = 2.0 * X[:, 0] + rng.normal(size=120)
    model = MMTFLRegressor(p=2, k=2, alpha=0.1, pooling=0.9).fit(X, y, task=task)
    assert model.coef_[2, 0] != 0.0
    first = model.summary().set_index("feature").loc["x0"]
    assert (first["n_tasks"], first["n_possible"], first["kind"]) == (3, 3, "shared")


def test_columns_in_float32_that_are_far_from_zero_have_the_intercepts_of_float64():
    rng, task = np.random.default_rng(0), np.repeat([0, 1, 2], 30)
    X = (np.round(2.0 * rng.normal(size=(90, 3))) + 1e7).astype(np.float32)  # their spacing is one
    y = (X.astype(float) - 1e7) @ [1.0, 0.0, -1.0] + 0.1 * rng.normal(size=90)
    one, other = (MMTFLRegressor(alpha=1e-3).fit(rows, y, task=task) for rows in (X, X.astype(float)))
    assert_allclose(one.coef_, other.coef_, rtol=1e-9)
    assert_allclose(
        one.predict(X.astype(float), task=task), other.predict(X.astype(float), task=task), atol=1e-5
    )
