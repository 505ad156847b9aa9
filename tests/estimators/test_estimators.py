"""What fit learns, what predict and score give, whichever door the data came through."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
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


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 1), (1, 2)])
def test_what_is_learned_fits_together(rows, p, k, fit_intercept):
    X, y, task = rows
    place = np.searchsorted(TASKS, task)
    model = MMTFLRegressor(p, k, alpha=0.1, fit_intercept=fit_intercept).fit(X, y, task=task)
    assert_array_equal(model.tasks_, TASKS)
    assert model.intercept_.shape == (3,) and model.intercept_.any() == fit_intercept
    assert model.n_features_in_ == 5 and not hasattr(model, "feature_names_in_")
    assert model.violation_ <= model.tol and model.n_iter_ >= 1
    assert model.dual_gap_ is None if 1 / p + 1 / k > 1 else 0 <= model.dual_gap_ < 1e-4
    z = np.einsum("ij,ij->i", X, model.coef_[place]) + model.intercept_[place]
    assert_allclose(model.predict(X, task=task), z, rtol=1e-10)
    penalty = 0.1 * np.sum(np.sum(np.abs(model.coef_) ** p, axis=0) ** (k / (p + k)))
    assert model.objective_ == pytest.approx(0.5 * np.sum((y - z) ** 2) * 3 / len(y) + penalty, rel=1e-9)
    assert model.history_[-1] == pytest.approx(model.objective_, rel=1e-9)


@pytest.mark.parametrize("pair", [(0, 1), (-1, 1), (False, True), ("a", "b"), (0.0, 2.0)], ids=str)
def test_classes_are_learned_whatever_they_are_called(classes, pair):
    X, y, task = classes
    labels = np.array(pair)[(y == "yes").astype(int)]
    model = MMTFLClassifier(1, 2, alpha=0.05).fit(X, labels, task=task)
    assert model.classes_.tolist() == list(pair) and model.classes_.dtype == labels.dtype
    z, probability = model.decision_function(X, task=task), model.predict_proba(X, task=task)
    loss = np.logaddexp(0, -np.where(y == "yes", 1, -1) * z).sum() * 3 / len(y)
    penalty = 0.05 * np.sum(np.sum(np.abs(model.coef_), axis=0) ** (2 / 3))
    assert model.objective_ == pytest.approx(loss + penalty, rel=1e-10)
    assert_allclose(probability, np.column_stack([1 / (1 + np.exp(z)), 1 / (1 + np.exp(-z))]))
    assert_allclose(model.predict_log_proba(X, task=task), np.log(probability))
    assert_array_equal(model.predict(X, task=task), np.array(pair)[(z > 0).astype(int)])


# -- doors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", FRAMES)
def test_frames_and_task_columns_of_every_library_are_arrays_with_names(rows, backend):
    X, y, task = rows
    column = {"pandas": pd.Series, "polars": pl.Series, "pyarrow": pa.array}[backend]
    weights = np.linspace(0.5, 2, len(y))
    for part in (X, y, task, weights):
        part.flags.writeable = False  # whoever writes to its inputs fails here
    options = {"alpha": 0.1, "standardize": True, "scale_targets": True}
    plain = MMTFLRegressor(**options).fit(X, y, task, weights)
    frame = FRAMES[backend](as_columns(X))
    labelled = FRAMES[backend](as_columns(X[:, :2], site=task, **as_columns(X)))
    both = (
        MMTFLRegressor(**options).fit(frame, column(y), column(task), column(weights)),
        MMTFLRegressor(**options, task_column="site").fit(labelled, y, sample_weight=weights),
    )
    for model, rows_, labels in zip(both, (frame, labelled), ({"task": column(task)}, {}), strict=True):
        assert model.feature_names_in_.tolist() == [f"f{j}" for j in range(5)]
        assert_array_equal(model.tasks_, plain.tasks_)
        assert_allclose(model.coef_, plain.coef_, rtol=1e-6, atol=1e-9)
        assert_allclose(model.predict(rows_, **labels), plain.predict(X, task=task), rtol=1e-7)
        assert model.score(rows_, y, **labels) == pytest.approx(plain.score(X, y, task=task), rel=1e-7)


LOSSES = {"count": "poisson", "death": "logistic", "stay": "squared"}
COLUMNS = {
    "numbers": MMTFLRegressor(alpha=0.1, tol=1e-9),
    "classes": MMTFLClassifier(alpha=0.1, tol=1e-9),
    "counts beside offsets": MMTFLRegressor(2, 2, 0.05, loss="poisson", tol=1e-9),
    "a loss for each": MMTFLRegressor(2, 2, 0.1, loss=LOSSES, tol=1e-9),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_matrix_of_targets_is_the_same_as_stacked_rows(rows, kind):
    X, y, _ = rows
    rng = np.random.default_rng(0)
    count, death = rng.poisson(np.exp(0.3 * y - 0.5)).astype(float), 1.0 * (y > rng.logistic(size=98))
    targets = {"numbers": [y, X[:, 3] - y], "classes": [death, 1.0 * (X[:, 0] > 0.3)]}
    targets |= {"counts beside offsets": [count, count[::-1]], "a loss for each": [count, death, y]}
    Y = np.column_stack(targets[kind])
    Y[::3, 0], Y[1::4, 1] = np.nan, np.nan
    names = np.array(list(LOSSES)) if kind == "a loss for each" else np.array([0, 1])
    offset = rng.normal(size=Y.shape) * (kind == "counts beside offsets")
    row, column = np.nonzero(~np.isnan(Y))
    stack = {"task": names[column], "offset": offset[row, column]}
    frame = pd.DataFrame(Y, columns=names) if kind == "a loss for each" else Y
    model = clone(COLUMNS[kind]).fit(X, frame, offset=offset)
    stacked = clone(COLUMNS[kind]).fit(X[row], Y[row, column], **stack)
    assert model.coef_.any()
    assert_array_equal(model.tasks_, names)
    assert_allclose(model.coef_, stacked.coef_, atol=1e-6)
    assert_allclose(model.intercept_, stacked.intercept_, atol=1e-6)
    found, expected = model.score(X, frame, offset=offset), stacked.score(X[row], Y[row, column], **stack)
    assert found == pytest.approx(expected, abs=1e-6)
    wide, flat = model.predict(X, offset=offset), stacked.predict(X[row], **stack)
    assert wide.shape == Y.shape
    if kind == "classes":
        assert_array_equal(wide[row, column], flat)
        wide, flat = model.predict_proba(X), stacked.predict_proba(X[row], **stack)[:, 1]
        assert model.decision_function(X).shape == wide.shape == Y.shape
    assert_allclose(wide[row, column], flat, rtol=1e-5, atol=1e-6)
    if kind == "counts beside offsets":
        assert_allclose(model.predict(X, offset=offset[:, 0]), model.predict(X) * np.exp(offset[:, :1]))
    elif kind != "classes":
        assert_allclose(wide[:, 0], model.predict(X, task=names[np.zeros(98, dtype=int)]))


# -- scales ------------------------------------------------------------------------------------------------


def test_scales_are_fitting_on_scaled_columns_and_targets(rows):
    X, y, task = rows
    place = np.searchsorted(TASKS, task)
    X, y = X * [1, 10, 0.1, 100, 1], y * np.array([1.0, 1000.0, 0.01])[place]
    columns, targets = X.std(axis=0), np.array([y[task == label].std() for label in TASKS])
    model = MMTFLRegressor(alpha=0.1, standardize=True, scale_targets=True, tol=1e-9).fit(X, y, task=task)
    by_hand = MMTFLRegressor(alpha=0.1, tol=1e-9).fit(X / columns, y / targets[place], task=task)
    assert 0 < np.count_nonzero(model.c_) < 5
    assert_allclose(model.coef_, by_hand.coef_ * targets[:, None] / columns, rtol=1e-6, atol=1e-12)
    assert_allclose(model.c_, by_hand.c_, rtol=1e-6)
    assert_allclose(model.intercept_, by_hand.intercept_ * targets, rtol=1e-6)
    assert model.objective_ == pytest.approx(by_hand.objective_)


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


@pytest.mark.parametrize("weighted", [False, True])
def test_score_is_the_mean_of_the_scores_of_the_tasks(rows, classes, weighted):
    for kind, metric, (X, y, task) in (
        (MMTFLRegressor, r2_score, rows),
        (MMTFLClassifier, accuracy_score, classes),
    ):
        weights = np.arange(len(y)) % 3 if weighted else np.ones(len(y))
        model = kind(alpha=0.1).fit(X, y, task=task)
        predicted, own = model.predict(X, task=task), [task == label for label in TASKS]
        by_task = [metric(y[t], predicted[t], sample_weight=weights[t]) for t in own]
        options = {"sample_weight": weights} if weighted else {}
        assert model.score(X, y, task=task, **options) == pytest.approx(np.mean(by_task))
        assert np.mean(by_task) != pytest.approx(metric(y, predicted), abs=1e-4)


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
