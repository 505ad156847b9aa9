"""Scores by task agree with scikit-learn's on each task, and the scorer finds its way to the tasks."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn import metrics as skm
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mmtfl import MMTFLClassifier, MMTFLRegressor
from mmtfl.model_selection import per_task_scores, task_scorer
from mmtfl.model_selection.metrics import mean_task_score, pooled_score

TASKS = np.array(["a", "b", "c"])


@pytest.fixture
def regression():
    rng = np.random.default_rng(0)
    task = rng.permutation(np.repeat(TASKS, [5, 9, 30]))
    y = rng.standard_normal(44) + (task == "c")
    return y, y + 0.5 * rng.standard_normal(44), task


@pytest.fixture
def classification():
    rng = np.random.default_rng(1)
    task = rng.permutation(np.repeat(TASKS, [10, 20, 30]))
    score = rng.standard_normal(60)
    y = (score + rng.standard_normal(60) > 0).astype(int)
    return y, 1 / (1 + np.exp(-score)), task


@pytest.fixture
def problem():
    """Tasks with opposite slopes: a model that ignores the task predicts nothing."""
    rng = np.random.default_rng(2)
    task = rng.permutation(np.repeat(["up", "down"], 30))
    X = rng.standard_normal((60, 2))
    return X, X[:, 0] * np.where(task == "up", 1.0, -1.0) + 0.1 * rng.standard_normal(60), task


# -- scores ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "function", "sign"),
    [
        ("r2", skm.r2_score, 1),
        ("neg_mean_squared_error", skm.mean_squared_error, -1),
        ("neg_mean_absolute_error", skm.mean_absolute_error, -1),
    ],
)
def test_regression_scores_are_those_of_scikit_learn_on_each_task(regression, name, function, sign):
    y, predicted, task = regression
    scores = per_task_scores(y, predicted, task, name)
    expected = {t: sign * function(y[task == t], predicted[task == t]) for t in TASKS.tolist()}
    assert list(scores) == TASKS.tolist()
    assert_allclose(list(scores.values()), list(expected.values()), rtol=1e-12)
    assert_allclose(mean_task_score(y, predicted, task, name), np.mean(list(expected.values())))
    assert_allclose(pooled_score(y, predicted, name), sign * function(y, predicted))


@pytest.mark.parametrize(
    ("name", "function", "sign", "hard"),
    [
        ("accuracy", skm.accuracy_score, 1, True),
        ("f1", skm.f1_score, 1, True),
        ("roc_auc", skm.roc_auc_score, 1, False),
        ("average_precision", skm.average_precision_score, 1, False),
        ("neg_log_loss", skm.log_loss, -1, False),
    ],
)
def test_classification_scores_are_those_of_scikit_learn_on_each_task(
    classification, name, function, sign, hard
):
    y, probability, task = classification
    predicted = (probability > 0.5).astype(int) if hard else probability
    scores = per_task_scores(y, predicted, task, name)
    expected = [sign * function(y[task == t], predicted[task == t]) for t in TASKS]
    assert len(set(expected)) > 1
    assert_allclose(list(scores.values()), expected, rtol=1e-12)


@pytest.mark.parametrize("constant", [0.1, 3.0])
def test_r2_of_a_constant_task_is_one_if_met_and_zero_otherwise(constant):
    y = np.concatenate([np.full(7, constant), np.arange(7.0)])
    task = np.repeat([0, 1], 7)
    missed = y.copy()
    missed[0] *= 2
    assert per_task_scores(y, y, task) == {0: 1.0, 1: 1.0}
    assert per_task_scores(y, missed, task) == {0: 0.0, 1: 1.0}


def test_columns_are_tasks_and_nan_is_not_observed():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((12, 3))
    predicted = Y + rng.standard_normal((12, 3))
    Y[3, 0] = Y[5:9, 2] = np.nan
    seen = ~np.isnan(Y)
    expected = [skm.r2_score(Y[seen[:, t], t], predicted[seen[:, t], t]) for t in range(3)]
    assert_allclose(list(per_task_scores(Y, predicted).values()), expected)
    assert_allclose(mean_task_score(Y, predicted), np.mean(expected))
    assert_allclose(pooled_score(Y, predicted), skm.r2_score(Y[seen], predicted[seen]))
    frame = pd.DataFrame(Y, columns=["u", "v", "w"])
    assert_allclose(list(per_task_scores(frame, predicted).values()), expected)
    assert list(per_task_scores(frame, predicted)) == ["u", "v", "w"]
    assert list(per_task_scores(pl.from_pandas(frame, nan_to_null=False), predicted)) == ["u", "v", "w"]


def test_own_functions_and_scorers_are_metrics(classification):
    y, probability, task = classification
    predicted = (probability > 0.5).astype(int)
    worst = per_task_scores(y, predicted, task, lambda a, b: -float(np.sum(a != b)))
    assert worst == {t: -float(np.sum(y[task == t] != predicted[task == t])) for t in TASKS.tolist()}
    scorer = skm.make_scorer(skm.fbeta_score, beta=2, greater_is_better=False)
    expected = [-skm.fbeta_score(y[task == t], predicted[task == t], beta=2) for t in TASKS]
    assert_allclose(list(per_task_scores(y, predicted, task, scorer).values()), expected)


# -- tasks left out --------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["r2", "accuracy", "neg_mean_squared_error", "neg_log_loss"])
def test_a_task_of_one_row_is_left_out_and_named(metric):
    y, predicted, task = np.array([0, 1, 1]), np.array([0, 0, 1]), ["a", "a", "lone"]
    if metric == "neg_log_loss":
        predicted = np.array([0.2, 0.6, 0.9])
    with pytest.warns(UserWarning, match=r"task 'lone' \(fewer than two rows\)") as caught:
        mean = mean_task_score(y, predicted, task, metric)
    assert len(caught) == 1
    assert_allclose(mean, per_task_scores(y[:2], predicted[:2], task[:2], metric)["a"])
    with pytest.warns(UserWarning, match="lone"):
        assert np.isnan(per_task_scores(y, predicted, task, metric)["lone"])


def test_a_task_of_one_class_is_left_out_of_auc_but_not_of_log_loss():
    y = np.array([0, 1, 0, 1, 1, 1])
    probability, task = np.array([0.2, 0.7, 0.4, 0.3, 0.9, 0.6]), ["a", "a", "a", "a", "b", "b"]
    with pytest.warns(UserWarning, match=r"task 'b' \(one class only\)") as caught:
        mean = mean_task_score(y, probability, task, "roc_auc")
    assert len(caught) == 1
    assert mean == skm.roc_auc_score(y[:4], probability[:4])
    losses = per_task_scores(y, probability, task, "neg_log_loss")
    assert_allclose(losses["b"], np.mean(np.log([0.9, 0.6])))


def test_wrong_input_is_named(regression):
    y, predicted, task = regression
    with pytest.raises(ValueError, match="'neg_mean_squared_error'"):
        per_task_scores(y, predicted, task, "neg_mean_square_error")
    with pytest.raises(TypeError, match="metric=3"):
        per_task_scores(y, predicted, task, 3)
    with pytest.raises(ValueError, match="y_pred has 43"):
        per_task_scores(y, predicted[1:], task)
    with pytest.raises(ValueError, match="task has 43"):
        per_task_scores(y, predicted, task[1:])
    with pytest.raises(ValueError, match="task=None"):
        per_task_scores(np.column_stack([y, y]), np.column_stack([y, y]), task)
    with pytest.raises(ValueError, match=r"'r2' failed on task 'a'.*NaN"):
        per_task_scores(y, np.full(44, np.nan), task)
    with pytest.raises(ValueError, match=r"'accuracy' failed on task 'a'.*continuous"):
        per_task_scores(y, predicted, task, "accuracy")


# -- the scorer ------------------------------------------------------------------------------------------


def test_scorer_hands_the_task_to_predict(problem):
    X, y, task = problem
    model = MMTFLRegressor(2, np.inf, 1e-3).fit(X, y, task)
    expected = mean_task_score(y, model.predict(X, task), task)
    assert expected > 0.9
    assert task_scorer()(model, X, y, task=task) == expected
    pooled = task_scorer(average="pooled")(model, X, y, task=task)
    assert pooled == skm.r2_score(y, model.predict(X, task))
    Y, plain = np.column_stack([y, X[:, 1]]), make_pipeline(StandardScaler(), Ridge())  # which knows no tasks
    assert task_scorer()(plain.fit(X, y), X, y, task=task) == mean_task_score(y, plain.predict(X), task)
    Y[4, 0] = np.nan
    plain.fit(X, np.nan_to_num(Y))
    assert task_scorer()(plain, X, Y) == mean_task_score(Y, plain.predict(X))


def test_scorer_finds_the_tasks_in_the_column_of_the_estimator(problem):
    X, y, task = problem
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(site=task)
    model = MMTFLRegressor(2, np.inf, 1e-3, task_column="site").fit(frame, y)
    expected = mean_task_score(y, model.predict(frame), task)
    assert expected != pooled_score(y, model.predict(frame))
    assert task_scorer()(model, frame, y) == expected
    assert task_scorer()(make_pipeline("passthrough", model), frame, y) == expected


@pytest.mark.parametrize("metric", ["accuracy", "f1", "roc_auc", "neg_log_loss", "neg_brier_score"])
def test_scorer_asks_for_the_response_the_metric_needs(problem, metric):
    X, y, task = problem
    y = (y > 0).astype(int)
    model = MMTFLClassifier(2, np.inf, 1e-2).fit(X, y, task)
    hard = metric in ("accuracy", "f1")
    response = model.predict(X, task) if hard else model.predict_proba(X, task)[:, 1]
    assert task_scorer(metric)(model, X, y, task=task) == pytest.approx(
        np.mean(list(per_task_scores(y, response, task, metric).values()))
    )


def test_log_loss_knows_the_classes_of_the_estimator(problem):
    X, y, _ = problem
    y = (y > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    rows = y == 1
    task = np.arange(rows.sum()) % 2
    score = task_scorer("neg_log_loss")(model, X[rows], y[rows], task=task)
    probability = model.predict_proba(X[rows])[:, 1]
    assert_allclose(score, np.mean([np.log(probability[task == t]).mean() for t in (0, 1)]))


def test_wrong_options_of_the_scorer_are_named(problem):
    X, y, _ = problem
    with pytest.raises(ValueError, match="per_task_scores"):
        task_scorer(average=None)
    for no_metric in (lambda model, X, y: 1.0, task_scorer("r2"), {"r2": "r2"}):
        with pytest.raises(TypeError, match=r"metric\(y_true, y_pred\)"):
            task_scorer(no_metric)
    with pytest.raises(ValueError, match="'neg_mean_squared_error'"):
        task_scorer("mean_squared_error")
    with pytest.raises(ValueError, match="greater_is_better=False"):
        task_scorer(skm.mean_squared_error)
    with pytest.raises(TypeError, match="needs predict_proba, which Ridge does not have"):
        task_scorer("neg_log_loss")(Ridge().fit(X, y), X, y)
