"""What fit learns, what predict and score give, whichever door the data came through."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, r2_score

from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor, prediction

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
TASKS = np.array(["leeds", "oslo", "rome"])
COEF = np.array([[3.0, -2.0, 0, 0, 0], [2.0, 1.0, 1.5, 0, 0], [-1.0, 2.0, 0, 0, 0]])


@pytest.fixture
def rows():
    """Ragged tasks in mixed order: two features shared, one for oslo alone, two for none."""
    rng = np.random.default_rng(3)
    index = rng.permutation(np.repeat([0, 1, 2], [40, 25, 33]))
    X = rng.normal(size=(98, 5))
    y = np.einsum("ij,ij->i", X, COEF[index]) + index + 0.1 * rng.normal(size=98)
    return X, y, TASKS[index]


@pytest.fixture
def classes(rows):
    X, y, task = rows
    rng = np.random.default_rng(4)
    return X, np.where(y + rng.logistic(size=y.size) > 1, "yes", "no"), task


def as_columns(X, **more):
    return {**{f"f{j}": X[:, j] for j in range(X.shape[1])}, **more}


# -- what fit learns ---------------------------------------------------------------------------------------


def test_learned_attributes(rows):
    X, y, task = rows
    model = MMTFLRegressor(2, 2, alpha=0.1).fit(X, y, task=task)
    assert_array_equal(model.tasks_, TASKS)
    assert model.intercept_.shape == (3,) and model.n_features_in_ == 5
    assert model.violation_ <= model.tol
    assert 0 <= model.dual_gap_ < 1e-4
    assert model.n_iter_ >= 1
    assert model.history_[-1] == pytest.approx(model.objective_, rel=1e-9)
    assert not hasattr(model, "feature_names_in_")
    assert MMTFLRegressor(2, 1, alpha=0.1).fit(X, y, task=task).dual_gap_ is None


def test_objective_is_the_one_of_the_docstring(rows):
    X, y, task = rows
    model = MMTFLRegressor(2, 1, alpha=0.3).fit(X, y, task=task)
    residual = y - model.predict(X, task=task)
    penalty = 0.3 * np.sum(np.sum(model.coef_**2, axis=0) ** (1 / 3))
    assert model.objective_ == pytest.approx(0.5 * np.sum(residual**2) * 3 / len(y) + penalty, rel=1e-10)


def test_classifier_objective_is_the_one_of_the_docstring(classes):
    X, y, task = classes
    model = MMTFLClassifier(1, 2, alpha=0.05).fit(X, y, task=task)
    z = np.where(y == "yes", 1, -1) * model.decision_function(X, task=task)
    penalty = 0.05 * np.sum(np.sum(np.abs(model.coef_), axis=0) ** (2 / 3))
    loss = np.sum(np.logaddexp(0, -z)) * 3 / len(y)
    assert model.objective_ == pytest.approx(loss + penalty, rel=1e-10)


def test_without_intercept_there_is_none(rows):
    X, y, task = rows
    model = MMTFLRegressor(alpha=0.1, fit_intercept=False).fit(X, y, task=task)
    assert not model.intercept_.any()
    assert_allclose(
        model.predict(X, task=task),
        np.einsum("ij,tj->it", X, model.coef_)[np.arange(98), np.searchsorted(TASKS, task)],
    )


# -- doors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", FRAMES)
def test_a_task_column_is_the_same_as_task_labels(rows, backend):
    X, y, task = rows
    frame = FRAMES[backend](as_columns(X[:, :2], site=task, **as_columns(X)))
    model = MMTFLRegressor(alpha=0.1, task_column="site").fit(frame, y)
    plain = MMTFLRegressor(alpha=0.1).fit(X, y, task=task)
    assert model.feature_names_in_.tolist() == [f"f{j}" for j in range(5)]
    assert model.n_features_in_ == 5
    assert_array_equal(model.tasks_, plain.tasks_)
    assert_array_equal(model.coef_, plain.coef_)
    assert_allclose(model.predict(frame), plain.predict(X, task=task), rtol=1e-12)
    assert model.score(frame, y) == pytest.approx(plain.score(X, y, task=task), rel=1e-12)


@pytest.mark.parametrize("backend", FRAMES)
def test_frames_and_columns_of_every_library_are_read(rows, backend):
    X, y, task = rows
    make = FRAMES[backend]
    column = {"pandas": pd.Series, "polars": pl.Series, "pyarrow": pa.array}[backend]
    frame = make(as_columns(X))
    weights = np.linspace(0.5, 2, len(y))
    model = MMTFLRegressor(alpha=0.1).fit(frame, column(y), column(task), column(weights))
    plain = MMTFLRegressor(alpha=0.1).fit(X, y, task, weights)
    assert_array_equal(model.coef_, plain.coef_)
    assert_allclose(model.predict(frame, task=column(task)), plain.predict(X, task=task), rtol=1e-12)


def test_a_matrix_of_targets_is_the_same_as_stacked_rows(rows):
    X, y, _ = rows
    Y = np.column_stack([y, -y + X[:, 3]])
    Y[::3, 0], Y[1::4, 1] = np.nan, np.nan
    model = MMTFLRegressor(alpha=0.1, tol=1e-9).fit(X, Y)
    row, column = np.nonzero(~np.isnan(Y))
    stacked = MMTFLRegressor(alpha=0.1, tol=1e-9).fit(X[row], Y[row, column], task=column)
    assert_array_equal(model.tasks_, [0, 1])
    assert_allclose(model.coef_, stacked.coef_, atol=1e-7)
    assert_allclose(model.intercept_, stacked.intercept_, atol=1e-7)
    assert model.predict(X).shape == (98, 2)
    assert_allclose(model.predict(X)[row, column], stacked.predict(X[row], task=column), atol=1e-6)
    assert model.score(X, Y) == pytest.approx(stacked.score(X[row], Y[row, column], task=column), abs=1e-7)


@pytest.mark.parametrize("order", ["C", "F"])
def test_inputs_are_never_written_to(rows, order):
    X, y, task = rows
    X = np.asarray(X, order=order)
    weights = np.ones(len(y))
    kept = [part.copy() for part in (X, y, task, weights)]
    for part in (X, y, task, weights):
        part.flags.writeable = False
    model = MMTFLRegressor(alpha=0.1, standardize=True, scale_targets=True).fit(X, y, task, weights)
    model.predict(X, task=task)
    model.score(X, y, task, weights)
    for part, before in zip((X, y, task, weights), kept, strict=True):
        assert_array_equal(part, before)


# -- scales and weights ------------------------------------------------------------------------------------


def test_standardize_is_fitting_on_standardised_columns(rows):
    X, y, task = rows
    X = X * [1, 10, 0.1, 100, 1]
    spread = X.std(axis=0)
    model = MMTFLRegressor(alpha=0.2, standardize=True, tol=1e-9).fit(X, y, task=task)
    by_hand = MMTFLRegressor(alpha=0.2, tol=1e-9).fit(X / spread, y, task=task)
    assert 0 < np.count_nonzero(model.c_) < 5
    assert_allclose(model.coef_, by_hand.coef_ / spread, rtol=1e-6, atol=1e-12)
    assert_allclose(model.c_, by_hand.c_, rtol=1e-6)
    assert_allclose(model.intercept_, by_hand.intercept_, atol=1e-6)
    assert model.objective_ == pytest.approx(by_hand.objective_)


def test_scale_targets_is_fitting_on_scaled_targets(rows):
    X, y, task = rows
    y = y * np.array([1.0, 1000.0, 0.01])[np.searchsorted(TASKS, task)]
    spread = np.array([y[task == label].std() for label in TASKS])
    model = MMTFLRegressor(alpha=0.1, scale_targets=True, tol=1e-9).fit(X, y, task=task)
    by_hand = MMTFLRegressor(alpha=0.1, tol=1e-9).fit(X, y / spread[np.searchsorted(TASKS, task)], task=task)
    assert_allclose(model.coef_, by_hand.coef_ * spread[:, None], rtol=1e-6, atol=1e-12)
    assert_allclose(model.intercept_, by_hand.intercept_ * spread, rtol=1e-6)


# -- prediction and score ----------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, sparse.csc_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_row_is_predicted_by_its_own_task(rows, monkeypatch, layout, dtype):
    monkeypatch.setattr(prediction, "CHUNK", 35)  # seven rows at a time
    X, y, task = rows
    X = X.astype(dtype)
    model = MMTFLRegressor(alpha=0.1).fit(X, y, task=task)
    expected = [
        x @ model.coef_[t] + model.intercept_[t]
        for x, t in zip(X.astype(float), np.searchsorted(TASKS, task), strict=True)
    ]
    found = model.predict(layout(X), task=task)
    assert found.dtype == np.float64
    assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_unknown_tasks_are_predicted_by_the_mean_if_asked(rows):
    X, y, task = rows
    model = MMTFLRegressor(alpha=0.1, unknown_task="mean").fit(X, y, task=task)
    found = model.predict(X[:3], task=["oslo", "paris", "aachen"])
    mean = X[:3] @ model.coef_.mean(axis=0) + model.intercept_.mean()
    assert_allclose(found[1:], mean[1:])
    assert found[0] == model.predict(X[:1], task=["oslo"])[0] != mean[0]
    assert model.score(X, y, task=np.where(task == "oslo", "new", task)) < model.score(X, y, task=task)


def test_score_is_the_mean_over_tasks(rows):
    X, y, task = rows
    model = MMTFLRegressor(alpha=0.5).fit(X, y, task=task)
    predicted = model.predict(X, task=task)
    by_task = [r2_score(y[task == label], predicted[task == label]) for label in TASKS]
    assert model.score(X, y, task=task) == pytest.approx(np.mean(by_task))
    assert np.mean(by_task) != pytest.approx(r2_score(y, predicted), abs=1e-3)


def test_weighted_score_is_the_mean_of_weighted_scores(rows, classes):
    X, y, task = rows
    weights = np.arange(len(y)) % 3
    model = MMTFLRegressor(alpha=0.5).fit(X, y, task=task)
    predicted = model.predict(X, task=task)
    by_task = [
        r2_score(y[here], predicted[here], sample_weight=weights[here]) for here in (task == t for t in TASKS)
    ]
    assert model.score(X, y, task, sample_weight=weights) == pytest.approx(np.mean(by_task))
    X, y, task = classes
    model = MMTFLClassifier(alpha=0.1).fit(X, y, task=task)
    predicted = model.predict(X, task=task)
    by_task = [
        accuracy_score(y[here], predicted[here], sample_weight=weights[here])
        for here in (task == t for t in TASKS)
    ]
    assert 0.5 < np.mean(by_task) < 1
    assert model.score(X, y, task, sample_weight=weights) == pytest.approx(np.mean(by_task))


# -- classifier --------------------------------------------------------------------------------------------


def test_probabilities_agree_with_decisions(classes):
    X, y, task = classes
    model = MMTFLClassifier(alpha=0.05).fit(X, y, task=task)
    z, probability = model.decision_function(X, task=task), model.predict_proba(X, task=task)
    assert model.classes_.tolist() == ["no", "yes"]
    assert_allclose(probability.sum(axis=1), 1)
    assert_allclose(probability[:, 1], 1 / (1 + np.exp(-z)))
    assert_allclose(model.predict_log_proba(X, task=task), np.log(probability))
    assert_array_equal(model.predict(X, task=task), np.where(z > 0, "yes", "no"))
    assert model.score(X, y, task=task) > 0.7


@pytest.mark.parametrize("pair", [(0, 1), (-1, 1), (False, True), ("a", "b"), (0.0, 2.0), (10, 20)], ids=str)
def test_any_two_labels_will_do(classes, pair):
    X, y, task = classes
    labels = np.array(pair)[(y == "yes").astype(int)]
    model = MMTFLClassifier(alpha=0.05).fit(X, labels, task=task)
    assert model.classes_.tolist() == list(pair)
    assert model.classes_.dtype == labels.dtype
    assert_array_equal(model.coef_, MMTFLClassifier(alpha=0.05).fit(X, y, task=task).coef_)
    assert set(model.predict(X, task=task)) == set(pair)


def test_a_matrix_of_classes_with_gaps_is_the_same_as_stacked_rows(classes):
    X, y, _ = classes
    Y = np.column_stack([y == "yes", X[:, 0] > 0.3]).astype(float)
    Y[::5, 0] = np.nan
    model = MMTFLClassifier(alpha=0.1, tol=1e-9).fit(X, Y)
    row, column = np.nonzero(~np.isnan(Y))
    stacked = MMTFLClassifier(alpha=0.1, tol=1e-9).fit(X[row], Y[row, column], task=column)
    assert_allclose(model.coef_, stacked.coef_, atol=1e-6)
    assert model.predict(X).shape == model.decision_function(X).shape == (98, 2)
    assert_allclose(
        model.predict_proba(X)[row, column], stacked.predict_proba(X[row], task=column)[:, 1], atol=1e-6
    )
    assert model.score(X, Y) == stacked.score(X[row], Y[row, column], task=column)


# -- warm starts and warnings ------------------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [False, True])
def test_warm_start_begins_at_the_last_answer(rows, scaled):
    X, y, task = rows
    options = {"alpha": 0.1, "p": 2, "k": 2, "solver": "block"}
    cold = MMTFLRegressor(standardize=scaled, scale_targets=scaled, **options).fit(X, y, task=task)
    warm = MMTFLRegressor(standardize=scaled, scale_targets=scaled, warm_start=True, **options)
    again = warm.fit(X, y, task=task).fit(X, y, task=task)
    assert again.n_iter_ < cold.n_iter_
    assert again.objective_ == pytest.approx(cold.objective_, rel=1e-9)


def test_stopping_early_is_a_warning_that_names_violation_tolerance_and_remedy(rows):
    X, y, task = rows
    X = X + X[:, :1]  # correlated columns need more passes
    for solver in ("block", "alternating"):
        model = MMTFLRegressor(2, 2, alpha=1e-3, max_iter=1, tol=1e-12, solver=solver)
        with pytest.warns(ConvergenceWarning) as caught:
            model.fit(X, y, task=task)
        message = str(caught[0].message)
        assert f"{model.violation_:.2e}" in message and "tol=1e-12" in message
        assert "max_iter" in message and "standardize" in message
        assert caught[0].filename == __file__  # points at the call of fit


# -- summary -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", FRAMES)
def test_summary_is_a_frame_of_the_library_of_X(rows, backend):
    X, y, task = rows
    model = MMTFLRegressor(1, 1, alpha=0.3).fit(FRAMES[backend](as_columns(X)), y, task=task)
    summary = model.summary()
    assert type(summary).__module__.partition(".")[0] == backend
    columns = {name: list(np.asarray(summary[name])) for name in ("feature", "c", "n_tasks", "kind")}
    assert columns["feature"] == ["f0", "f1", "f2", "f3", "f4"]
    assert columns["kind"] == ["shared", "shared", "single", "none", "none"]
    assert columns["n_tasks"] == [3, 3, 1, 0, 0]
    assert_array_equal(columns["c"], np.sort(model.c_)[::-1])


# -- documentation -----------------------------------------------------------------------------------------
