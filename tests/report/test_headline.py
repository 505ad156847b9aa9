"""The line that says how well a tuned model predicts: the same everywhere, and true."""

from types import SimpleNamespace

import numpy as np
import pytest

from mmtfl import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.cli.main import main
from mmtfl.datasets import make_tasks
from mmtfl.model_selection.metrics import FEW_ROWS
from mmtfl.report.html import render_report
from mmtfl.report.sentences import heldout_headline
from mmtfl.report.summary import describe

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
