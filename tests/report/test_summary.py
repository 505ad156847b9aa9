"""The numbers of the summary, against ones written out by hand."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl import (
    MMTFLRegressor,
    MMTFLRegressorCV,
)
from mmtfl.datasets import make_tasks
from mmtfl.report.summary import describe
from models import MODELS, fitted

SIZE = {"n_tasks": 4, "n_samples": 30, "n_features": 8, "n_informative": 3, "noise": 0.5, "random_state": 0}


def regression(**options):
    return make_tasks(**SIZE | options)


def fit(model, data):
    return model.fit(data.X, data.y, task=data.task)


# -- what a model says ---------------------------------------------------------------------------------------


def test_features_are_counted_and_measured():
    model = fit(MMTFLRegressor(alpha=0.1), regression())
    model.coef_ = np.zeros((4, 8))
    model.coef_[:, :2] = [[1.0, 2.0], [1.0, -2.0], [-1.0, 0.0], [5.0, 2.0]]
    model.coef_[0, 4] = 3.0
    model.c_ = np.array([2.0, 1.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    summary = describe(model)
    assert summary.counts == {"shared": 1, "partial": 1, "single": 1, "none": 5}
    by_position = {feature.position: feature for feature in summary.features}
    assert [feature.position for feature in summary.features[:3]] == [4, 0, 1]  # largest c first
    assert (by_position[0].kind, by_position[1].kind, by_position[4].kind) == ("shared", "partial", "single")
    assert by_position[0].coef == pytest.approx(((1 + 1 - 1 + 5) / 4, -1.0, 5.0))
    assert by_position[1].coef == (0.5, -2.0, 2.0)
    who = ["all 4 tasks", "3 of 4 tasks", "one task (0)", "no task"]
    assert [by_position[j].used_by for j in (0, 1, 4, 2)] == who
    assert summary.usage == "Of 8 features, 3 are used: 1 by all 4 tasks, 1 by some, 1 by one."
    assert by_position[0].agreement == pytest.approx(3 / 4)
    assert by_position[1].agreement == pytest.approx(2 / 3)
    assert by_position[2].agreement is None
    assert [task.n_features for task in summary.tasks] == [3, 2, 1, 2]


def test_both_scales_are_told_where_there_are_two():
    data = regression()
    X = data.X * np.linspace(1, 50, 8)
    plain_summary = describe(MMTFLRegressor(alpha=0.1).fit(X, data.y, task=data.task))
    assert plain_summary.scaled_in_fit == ()
    assert_allclose(plain_summary.scaled_coef, plain_summary.coef * X.std(axis=0))
    model = MMTFLRegressor(alpha=0.1, standardize=True, scale_targets=True).fit(X, data.y, task=data.task)
    summary = describe(model)
    spread = np.array([data.y[data.task == t].std() for t in model.tasks_])
    assert summary.scaled_in_fit == ("features", "targets")
    assert_allclose(summary.scaled_coef, model.coef_ * X.std(axis=0) / spread[:, None])
    for i, over_tasks in enumerate((np.mean, np.min, np.max)):
        assert_allclose(
            [feature.per_sd[i] for feature in summary.features],
            [over_tasks((model.coef_ * X.std(axis=0))[:, f.position]) for f in summary.features],
        )


def test_rows_of_each_task_are_known():
    data = regression()
    keep = np.arange(len(data.y)) > 6
    model = MMTFLRegressor(alpha=0.1).fit(data.X[keep], data.y[keep], task=data.task[keep])
    expected = [int(np.sum(data.task[keep] == label)) for label in model.tasks_]
    assert len(set(expected)) > 1
    assert [task.n_rows for task in describe(model).tasks] == expected


@pytest.mark.parametrize(("kind", "name"), MODELS)
def test_every_kind_of_model_is_described_in_plain_json(kind, name):
    summary = describe(fitted(kind, name))
    text = json.dumps(summary.as_dict(), allow_nan=False)
    assert json.loads(text)["counts"] == summary.counts
    assert sum(summary.counts.values()) == summary.n_features == len(summary.features)
    sizes = [feature.size for feature in summary.features]
    assert sizes == sorted(sizes, reverse=True)
    assert summary.size_meaning
    assert all(np.all(np.asarray(value) > 0) for value in summary.strengths.values())


def test_the_search_is_the_table_of_the_search():
    model = fit(MMTFLRegressorCV(((2, 2), (2, "log")), 5, 3, poolings=(0,)), regression())
    search = describe(model).search
    table = model.cv_results_
    assert [curve.name for curve in search.curves] == ["(2, 2)", "(2, log)"]
    assert_allclose(np.concatenate([curve.mean for curve in search.curves]), table["mean_test_score"])
    folds = np.column_stack([table[f"split{i}_test_score"] for i in range(3)])
    errors = np.concatenate([curve.error for curve in search.curves])
    assert_allclose(errors, folds.std(axis=1, ddof=1) / np.sqrt(3))
    (chosen,) = [curve for curve in search.curves if curve.chosen is not None]
    assert chosen.strength[chosen.chosen] == model.alpha_
    assert search.best_score == max(table["mean_test_score"])


def test_one_fold_says_nothing_of_the_error():
    data = regression()
    half = np.arange(0, len(data.y), 2), np.arange(1, len(data.y), 2)
    summary = describe(fit(MMTFLRegressorCV(pk=(2, 1), alphas=4, cv=[half], poolings=(0,)), data))
    (curve,) = summary.as_dict()["search"]["curves"]
    assert curve["error"] == [None] * 4
    assert None not in curve["mean"]
