"""The numbers of the summary and of the comparison, against ones written out by hand."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score, roc_auc_score

from mmtfl import (
    CappedRegressor,
    DirtyRegressor,
    LowRankRegressor,
    MMTFLClassifier,
    MMTFLClassifierCV,
    MMTFLRegressor,
    MMTFLRegressorCV,
    RobustClassifier,
    RobustRegressor,
    SingleTaskClassifierCV,
    SingleTaskRegressorCV,
    TwoStrengthCV,
)
from mmtfl.datasets import make_tasks
from mmtfl.persistence.json_values import plain
from mmtfl.report import evaluation as evaluation_module
from mmtfl.report.evaluation import evaluate
from mmtfl.report.sentences import verdict
from mmtfl.report.summary import describe


def regression(**options):
    return make_tasks(
        **{
            "n_tasks": 4,
            "n_samples": 30,
            "n_features": 8,
            "n_informative": 3,
            "noise": 0.5,
            "random_state": 0,
        }
        | options
    )


def classification(**options):
    return regression(n_samples=60, classification=True, **options)


def fit(model, data):
    return model.fit(data.X, data.y, task=data.task)


MODELS = {
    "family": lambda: fit(MMTFLRegressor(p=1, k=2, alpha=0.1), regression()),
    "log": lambda: fit(MMTFLRegressor(p=2, k="log", alpha=0.1), regression()),
    "classifier": lambda: fit(MMTFLClassifier(alpha=0.02), classification()),
    "search": lambda: fit(
        MMTFLRegressorCV(pk=((2, 2), (2, "log")), alphas=5, cv=3, poolings=(0,)), regression()
    ),
    "search, classes": lambda: fit(
        MMTFLClassifierCV(pk=(2, 1), alphas=4, cv=3, poolings=(0,)), classification()
    ),
    "dirty": lambda: fit(DirtyRegressor(), regression()),
    "robust": lambda: fit(RobustRegressor(alpha_shared=0.5, alpha_outlier=0.9), regression()),
    "low rank": lambda: fit(LowRankRegressor(), regression()),
    "capped": lambda: fit(CappedRegressor(), regression()),
    "two strengths": lambda: fit(TwoStrengthCV(RobustClassifier(), strengths=3, cv=3), classification()),
    "single": lambda: fit(SingleTaskRegressorCV(p=1, alphas=5, cv=3), regression()),
    "single, by task": lambda: fit(SingleTaskClassifierCV(alphas=4, cv=3, per_task=True), classification()),
    "one task": lambda: MMTFLRegressor(alpha=0.1).fit(regression().X, regression().y),
}


# -- what a model says ---------------------------------------------------------------------------------------


def test_features_are_counted_and_measured():
    model = fit(MMTFLRegressor(alpha=0.1), regression())
    model.coef_ = np.array(
        [
            [1.0, 2.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0],
            [1.0, -2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            [5.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ]
    )
    model.c_ = np.array([2.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    summary = describe(model)
    assert summary.counts == {"shared": 1, "partial": 1, "single": 1, "none": 5}
    by_position = {feature.position: feature for feature in summary.features}
    assert [feature.position for feature in summary.features[:3]] == [4, 0, 1]  # largest c first
    assert (by_position[0].kind, by_position[1].kind, by_position[4].kind) == ("shared", "partial", "single")
    assert by_position[0].mean_coef == pytest.approx((1 + 1 - 1 + 5) / 4)
    assert (by_position[0].min_coef, by_position[0].max_coef) == (-1.0, 5.0)
    assert (by_position[1].mean_coef, by_position[1].min_coef) == (0.5, -2.0)
    assert [by_position[j].used_by for j in (0, 1, 4, 2)] == [
        *("all 4 tasks", "3 of 4 tasks"),
        *("one task (0)", "no task"),
    ]
    assert summary.usage == "Of 8 features, 3 are used: 1 by all 4 tasks, 1 by some, 1 by one."
    assert by_position[0].agreement == pytest.approx(3 / 4)
    assert by_position[1].agreement == pytest.approx(2 / 3)
    assert by_position[2].agreement is None
    assert [task.n_features for task in summary.tasks] == [3, 2, 1, 2]


def test_both_scales_are_told_where_there_are_two():
    data = regression()
    X = data.X * np.linspace(1, 50, 8)
    plain_summary = describe(MMTFLRegressor(alpha=0.1).fit(X, data.y, task=data.task))
    assert (plain_summary.scaled, plain_summary.scaled_in_fit) == (("features",), ())
    assert_allclose(plain_summary.scaled_coef, plain_summary.coef * X.std(axis=0))
    model = MMTFLRegressor(alpha=0.1, standardize=True, scale_targets=True).fit(X, data.y, task=data.task)
    summary = describe(model)
    spread = np.array([data.y[data.task == t].std() for t in model.tasks_])
    assert summary.scaled == summary.scaled_in_fit == ("features", "targets")
    assert_allclose(summary.scaled_coef, model.coef_ * X.std(axis=0) / spread[:, None])
    for name, over_tasks in (("mean", np.mean), ("min", np.min), ("max", np.max)):
        assert_allclose(
            [getattr(feature, f"{name}_coef_per_sd") for feature in summary.features],
            [over_tasks((model.coef_ * X.std(axis=0))[:, f.position]) for f in summary.features],
        )


def test_rows_of_each_task_are_known():
    data = regression()
    keep = np.arange(len(data.y)) > 6
    model = MMTFLRegressor(alpha=0.1).fit(data.X[keep], data.y[keep], task=data.task[keep])
    expected = [int(np.sum(data.task[keep] == label)) for label in model.tasks_]
    assert len(set(expected)) > 1
    assert [task.n_rows for task in describe(model).tasks] == expected


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_stopped_short_is_told():
    data = regression()
    done = fit(MMTFLRegressor(alpha=0.1), data)
    short = fit(MMTFLRegressor(alpha=0.01, max_iter=1, tol=1e-14, solver="alternating"), data)
    assert describe(done).convergence.converged
    assert not describe(short).convergence.converged


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_is_described_in_plain_json(name):
    model = MODELS[name]()
    summary = describe(model)
    text = json.dumps(summary.as_dict(), allow_nan=False)
    assert json.loads(text)["counts"] == summary.counts
    assert sum(summary.counts.values()) == summary.n_features == len(summary.features)
    sizes = [feature.size for feature in summary.features]
    assert sizes == sorted(sizes, reverse=True)
    assert summary.size_meaning
    assert all(np.all(np.asarray(value) > 0) for value in summary.strengths.values())


def test_tasks_set_apart_are_marked_and_do_not_count():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(250, 10)), np.repeat(list("abcde"), 50)
    y = np.where(task == "e", X[:, 2:].sum(axis=1), X[:, 0] - X[:, 1]) + 0.1 * rng.normal(size=250)
    summary = describe(RobustRegressor(alpha_shared=0.3, alpha_outlier=0.6).fit(X, y, task=task))
    assert [task.label for task in summary.tasks if task.set_apart] == ["e"]
    assert summary.counts["shared"] == 2


def test_the_search_is_the_table_of_the_search():
    model = MODELS["search"]()
    search = describe(model).search
    table = model.cv_results_
    assert [curve.label for curve in search.curves] == ["(2, 2)", "(2, log)"]
    assert_allclose(np.concatenate([curve.mean for curve in search.curves]), table["mean_test_score"])
    folds = np.column_stack([table[f"split{i}_test_score"] for i in range(3)])
    errors = np.concatenate([curve.error for curve in search.curves])
    assert_allclose(errors, folds.std(axis=1, ddof=1) / np.sqrt(3))
    (chosen,) = [curve for curve in search.curves if curve.chosen is not None]
    assert chosen.alphas[chosen.chosen] == model.alpha_
    assert search.best_score == max(table["mean_test_score"])
    assert search.score_without_features == chosen.mean[0] < search.best_score


def test_one_fold_says_nothing_of_the_error():
    data = regression()
    half = np.arange(0, len(data.y), 2), np.arange(1, len(data.y), 2)
    summary = describe(fit(MMTFLRegressorCV(pk=(2, 1), alphas=4, cv=[half], poolings=(0,)), data))
    (curve,) = summary.as_dict()["search"]["curves"]
    assert curve["error"] == [None] * 4
    assert None not in curve["mean"]


def test_plain_knows_what_json_does_not():
    assert plain([np.float64(1.5), np.inf, -np.inf, np.nan, (np.int64(2),), {1: np.array([True])}]) == [
        1.5,
        "inf",
        "-inf",
        None,
        [2],
        {"1": [True]},
    ]


# -- how well it predicts ------------------------------------------------------------------------------------


def test_scores_are_those_of_held_out_rows():
    """With next to no penalty and few features, all models are least squares, which can be refitted here."""
    data = regression(n_samples=50, n_features=3)
    model = fit(MMTFLRegressor(p=2, k=2, alpha=1e-9), data)
    found = evaluate(model, data.X, data.y, data.task)
    held_out = np.full(len(data.y), np.nan)
    for train, test in evaluation_module.TaskKFold(3, random_state=0).split(data.X, task=data.task):
        for label in np.unique(data.task):
            rows, asked = train[data.task[train] == label], test[data.task[test] == label]
            held_out[asked] = LinearRegression().fit(data.X[rows], data.y[rows]).predict(data.X[asked])
    for task in found.tasks:
        mine = data.task == task.label
        assert task.n_rows == mine.sum()
        assert task.own == pytest.approx(r2_score(data.y[mine], held_out[mine]), abs=1e-6)
        assert task.separate == pytest.approx(task.own, abs=0.05)
        assert task.fitted == pytest.approx(
            r2_score(data.y[mine], model.predict(data.X[mine], task=data.task[mine]))
        )
        assert task.fitted > task.own


def test_a_search_is_made_again_in_every_training_part():
    """On 20 strengths and 3 folds at most, with the folds that the others are given."""
    data = regression()
    search = fit(MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=8, cv=5, standardize=True), data)
    found = evaluate(search, data.X, data.y, data.task)
    assert found.strength == "tuned"
    rows = evaluation_module._Rows.read(search, data.X, data.y, data.task, None, None)
    held_out = np.full(len(data.y), np.nan)
    for train, test in rows.folds(stratify=False):
        again = MMTFLRegressorCV(pk=search.pk, alphas=8, cv=rows.select(train).folds(False), standardize=True)
        again.fit(data.X[train], data.y[train], task=data.task[train])
        held_out[test] = again.predict(data.X[test], task=data.task[test])
    for task in found.tasks:
        mine = data.task == task.label
        assert task.own == pytest.approx(r2_score(data.y[mine], held_out[mine]), abs=1e-6)


def test_a_search_on_a_large_table_keeps_its_choice(monkeypatch):
    data = regression()
    search = fit(MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=8, cv=3, standardize=True), data)
    chosen = MMTFLRegressor(search.best_p_, search.best_k_, search.alpha_, standardize=True)
    expected = evaluate(fit(chosen, data), data.X, data.y, data.task)
    monkeypatch.setattr(evaluation_module, "MOST_TUNED", 10)
    found = evaluate(search, data.X, data.y, data.task)
    assert (found.strength, expected.strength) == ("kept", "given")
    assert_allclose([task.own for task in found.tasks], [task.own for task in expected.tasks], rtol=1e-5)


@pytest.mark.parametrize(
    ("values", "coarse"),
    [
        (100, 6),
        (4, 4),
        ([1.0, 2.0], [1.0, 2.0]),
        (np.arange(1.0, 101.0), [1.0, 21.0, 41.0, 60.0, 80.0, 100.0]),
        ((10, 3), (6, 3)),
        (([1.0, 2.0], 10), ([1.0, 2.0], 6)),
    ],
)
def test_a_coarser_grid_has_at_most_so_many_values(values, coarse):
    found = evaluation_module._coarse(values, 6)
    assert [np.asarray(part).tolist() for part in np.atleast_1d(np.asarray(found, dtype=object))] == [
        np.asarray(part).tolist() for part in np.atleast_1d(np.asarray(coarse, dtype=object))
    ]


def test_the_pooled_model_has_an_intercept_for_each_task():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(120, 3)), np.repeat(list("abcdef"), 20)
    y = X @ [1.0, -1.0, 0.5] + np.repeat(100.0 * np.arange(6), 20) + 0.3 * rng.normal(size=120)
    found = evaluate(MMTFLRegressor(alpha=0.01).fit(X, y, task=task), X, y, task)
    assert min(entry.pooled for entry in found.tasks) > 0.85


def test_a_task_of_one_class_is_left_out_and_does_not_stop_the_others():
    data = classification()
    y = np.where(data.task == 1, data.y.max(), data.y)
    model = fit(MMTFLClassifier(alpha=0.02), data)
    found = evaluate(model, data.X, y, data.task)
    assert found.reason is None
    assert found.errors.unscored.tolist() == [task.label == 1 for task in found.tasks] or (
        found.errors.too_few.tolist() == [task.label == 1 for task in found.tasks]
    )


def test_a_task_of_one_class_is_not_called_small():
    data = classification()
    y = np.where(data.task == 1, data.y.max(), data.y)
    model = MMTFLClassifier(alpha=0.02, on_degenerate_task="base_rate")
    with pytest.warns(UserWarning, match="left out of the fit"):
        model.fit(data.X, y, task=data.task)
    found = evaluate(model, data.X, y, data.task)
    assert verdict(found)[-1] == "Left out of this comparison: 1 task with one class (1)."


def test_accuracy_and_base_rate_are_those_of_held_out_rows():
    data = classification()
    found = evaluate(fit(MMTFLClassifier(alpha=0.02), data), data.X, data.y, data.task)
    sizes = np.array([task.n_rows for task in found.tasks])
    for task in found.tasks:
        share = np.mean(data.y[data.task == task.label] == data.y.max())
        assert task.base_rate == pytest.approx(max(share, 1 - share))
        assert 0.5 < task.accuracy <= 1
    assert found.accuracy == pytest.approx(sizes @ [task.accuracy for task in found.tasks] / sizes.sum())
    assert found.base_rate == pytest.approx(sizes @ [task.base_rate for task in found.tasks] / sizes.sum())


def test_classifiers_are_scored_by_the_area_under_the_curve():
    data = classification()
    model = fit(MMTFLClassifier(alpha=0.02), data)
    found = evaluate(model, data.X, data.y, data.task)
    assert found.metric == "AUC"
    first = found.tasks[0]
    mine = data.task == first.label
    odds = model.decision_function(data.X[mine], task=data.task[mine])
    assert first.fitted == pytest.approx(roc_auc_score(data.y[mine], odds))
    assert 0 < first.own < first.fitted


def test_pooled_wins_where_tasks_are_one():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(120, 6)), np.repeat(list("abcdefgh"), 15)
    y = X @ [2.0, -2.0, 1.0, 1.0, -1.0, 1.0] + rng.normal(size=120)
    model = MMTFLRegressor(p=1, k=1, alpha=0.3).fit(X, y, task=task)
    found = evaluate(model, X, y, task)
    assert found.mean("pooled") > found.mean("own")
    assert found.against("pooled").outcome == "worse"
    assert found.median("pooled") > found.median("own")


@pytest.mark.parametrize(
    "name", ["log", "search", "search, classes", "dirty", "capped", "two strengths", "single", "one task"]
)
def test_every_way_to_a_model_is_compared(name):
    data = classification() if name in ("search, classes", "two strengths") else regression()
    task = None if name == "one task" else data.task
    found = evaluate(MODELS[name](), data.X, data.y, task)
    assert found.reason is None
    assert all(found.mean(who) is not None for who in ("fitted", "own", "pooled", "separate"))


def test_several_targets_of_one_row_are_held_out_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = X[:, :1] + 0.1 * rng.normal(size=(60, 3))
    Y[::7, 1] = np.nan
    model = MMTFLRegressor(alpha=0.05).fit(X, Y)
    rows = evaluation_module._Rows.read(model, X, Y, None, None, None)
    assert len(rows.y) == np.isfinite(Y).sum()
    for train, test in rows.folds(stratify=False):
        assert not set(rows.source[train]) & set(rows.source[test])
    found = evaluate(model, X, Y)
    assert [task.n_rows for task in found.tasks] == np.isfinite(Y).sum(axis=0).tolist()
    assert found.mean("own") > 0.8


def test_a_large_table_is_scored_without_refitting(monkeypatch):
    data = regression()
    monkeypatch.setattr(evaluation_module, "MOST_ENTRIES", 10)
    found = evaluate(fit(MMTFLRegressor(alpha=0.1), data), data.X, data.y, data.task)
    assert found.n_folds is None
    assert "million" in found.reason
    assert found.mean("own") is None
    assert found.mean("fitted") > 0


@pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
def test_a_task_with_one_row_has_no_score_and_does_not_stop_the_others():
    data = regression()
    task = data.task.astype(object)
    task[0] = "alone"
    task = task.astype(str)
    model = MMTFLRegressor(alpha=0.1).fit(data.X, data.y, task=task)
    found = {entry.label: entry for entry in evaluate(model, data.X, data.y, task).tasks}
    assert found["alone"].fitted is found["alone"].own is None
    assert sum(entry.own is not None for entry in found.values()) == 4


def test_the_model_is_left_as_it_was():
    data = regression()
    model = fit(MMTFLRegressorCV(pk=(2, 1), alphas=4, cv=3), data)
    before = {name: np.copy(value) for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    evaluate(model, data.X, data.y, data.task)
    assert before
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(model, name), value)


def test_unknown_tasks_and_wrong_columns_are_refused():
    data = regression()
    model = fit(MMTFLRegressor(alpha=0.1), data)
    with pytest.raises(ValueError, match="Unknown task"):
        evaluate(model, data.X[:2], data.y[:2], [98, 99])
    with pytest.raises(ValueError, match="features"):
        evaluate(model, data.X[:, :3], data.y, data.task)
