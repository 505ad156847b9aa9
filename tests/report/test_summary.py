"""The numbers of the summary, against ones written out by hand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl import MMTFLClassifierCV, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.cli.main import main
from mmtfl.datasets import make_tasks
from mmtfl.model_selection.metrics import FEW_ROWS
from mmtfl.report.html import render_report
from mmtfl.report.sentences import heldout_headline
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


NAN = float("nan")


def headline(n_folds=5, **columns):
    table = {"task": list(range(len(columns["n_rows"]))), **columns}
    return heldout_headline(SimpleNamespace(held_out=table, n_folds=n_folds))


@pytest.mark.parametrize(
    ("r2", "n_rows", "line"),
    [
        ([0.5, 0.75, 1.0], [9, 9, 9], "median 0.75 over 3 tasks (mean 0.75)"),
        ([0.5, 0.7, -159.4], [9, 9, 9], "median 0.50 over 3 tasks (mean far below 0)"),
        ([0.5], [9], "0.50"),
        ([0.5, 0.7, -30.0], [9, FEW_ROWS, FEW_ROWS - 1],
         "median 0.60 over 2 tasks (mean 0.60), 1 task with fewer than 5 held-out rows apart"),
        ([0.5, NAN, -30.0, NAN], [9, 1, 4, 9],
         "0.50, 2 tasks with fewer than 5 held-out rows apart, 1 task without a score apart"),
        ([0.5, 0.7], [4, 3], "median 0.60 over 2 tasks (mean 0.60), fewer than 5 held-out rows each"),
        ([0.5, NAN], [4, 1], "0.50, fewer than 5 held-out rows only, 1 task without a score apart"),
        ([NAN, NAN], [1, 9], "not defined"),
    ],
)  # fmt: skip
def test_the_line_of_a_regression(r2, n_rows, line):
    assert headline(r2=r2, n_rows=n_rows) == f"Held-out R^2: {line}; 5 folds"


def test_classes_are_counted_by_pairs_within_tasks_beside_the_accuracy():
    # 20 and 2 rows of the rarer class: 600 and 96 pairs
    line = headline(n_rows=[50, 50], auc=[0.8, 0.1], accuracy=[0.9, 0.94], base_rate=[0.6, 0.96])
    share = (600 * 0.8 + 96 * 0.1) / 696
    assert line == (
        f"Held-out AUC: {share:.2f} over all pairs within 2 tasks; mean accuracy 0.920 "
        "(always the commoner class: 0.780); 5 folds"
    )
    alone = headline(n_rows=[50], auc=[NAN], accuracy=[1.0], base_rate=[1.0], n_folds=1)
    assert alone == "Held-out AUC: not defined; accuracy 1.000 (always the commoner class: 1.000); 1 fold"


@pytest.mark.parametrize("classification", [False, True])
def test_the_model_the_command_line_and_the_report_say_the_same(tmp_path, capsys, classification):
    data = make_tasks(4, 30, 6, n_informative=2, noise=1.0, classification=classification, random_state=0)
    Search = MMTFLClassifierCV if classification else MMTFLRegressorCV
    model = Search((2, 2), 5, 3).fit(data.X, data.y, task=data.task)
    table = model.heldout_scores_
    line = heldout_headline(describe(model).search)
    expected = (
        "Held-out AUC: 0." if classification else f"Held-out R^2: median {np.median(table['r2']):.2f} over 4"
    )
    assert line.startswith(expected)
    model.save(tmp_path / "a.mmtfl")
    assert main(["inspect", str(tmp_path / "a.mmtfl")]) == 0
    shown = capsys.readouterr().out
    assert line in shown.splitlines()
    for name in set(table) - {"task", "n_rows"}:
        assert all(f"{value:.4g}" in shown for value in table[name])
    in_report = line.replace("R^2", "R²").replace(" -", " −") + "."
    assert in_report in render_report(model)
    assert in_report in render_report(model, data=(data.X, data.y, data.task))
