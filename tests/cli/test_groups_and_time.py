"""--group and --time: what cv, report and compare say does not rest on rows that give the answer away."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import mmtfl
from cli.typed import refusal, run


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """A table whose target is told by the patient and by nothing else; features tell the patient."""
    rng = np.random.default_rng(0)
    patient = rng.integers(30, size=180)
    marks, target = rng.normal(size=(30, 25)).round(3), rng.normal(size=30).round(3)
    frame = pd.DataFrame(marks[patient], columns=[f"x{j}" for j in range(25)])
    frame["site"] = np.array(["a", "b"])[rng.integers(2, size=180)]
    frame["patient"], frame["stay"] = [f"P{i}" for i in patient], target[patient]
    frame["day"] = [f"2024-{day // 28 + 1:02d}-{day % 28 + 1:02d}" for day in rng.integers(300, size=180)]
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    frame.to_csv(path, index=False)
    return path


def cv(visits, output, *more):
    fast = ("--pk", "2,2", "--poolings", "0", "--alphas", "8", "--folds", "3")
    return ["cv", visits, "--task", "site", "--target", "stay", "-o", output, *fast, *more]


def test_cv_and_report_hold_out_whole_groups(visits, tmp_path, capsys):
    run(cv(visits, tmp_path / "apart.mmtfl", "--drop", "patient", "day"), capsys)
    run(cv(visits, tmp_path / "m.mmtfl", "--group", "patient", "--drop", "day"), capsys)
    apart, together = (mmtfl.load(tmp_path / name) for name in ("apart.mmtfl", "m.mmtfl"))
    assert apart.heldout_scores_["r2"].min() > 0.3
    assert together.heldout_scores_["r2"].max() < 0.1
    assert "patient" not in together.feature_names_in_
    run(["report", tmp_path / "m.mmtfl", visits, "-o", tmp_path / "m.html"], capsys)
    page = (tmp_path / "m.html").read_text()
    assert "without any row of the same group" in page


def test_compare_splits_by_group_and_the_best_method_knows_nothing(visits, capsys):
    words = ["compare", visits, "--task", "site", "--target", "stay", "--drop", "day"]
    words += ["--methods", "separate", "pooled", "boosting", "--repeats", "2", "--jobs", "1", "--folds", "2"]
    words += ["--json", "-q"]
    found = json.loads(run([*words, "--group", "patient"], capsys).out)
    assert max(standing["within"] for standing in found["standings"]) < 0.1


def test_time_predicts_the_later_from_the_earlier(visits, tmp_path, capsys):
    run(cv(visits, tmp_path / "m.mmtfl", "--time", "day", "--drop", "patient"), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    assert type(model.cv).__name__ == "TaskTimeSplit"
    assert model.heldout_scores_["n_rows"].sum() < 0.8 * 180
    assert "day" not in model.feature_names_in_
    run(["report", tmp_path / "m.mmtfl", visits, "-o", tmp_path / "m.html"], capsys)
    assert "fitted again to earlier rows" in (tmp_path / "m.html").read_text()
    words = ["compare", visits, "--task", "site", "--target", "stay", "--drop", "patient", "--time", "day"]
    words += ["--methods", "separate", "pooled", "--repeats", "2", "--jobs", "1", "-q", "--json"]
    found = json.loads(run(words, capsys).out)
    assert sum(task["held_out"] for task in found["tasks"]) < 0.6 * 180


@pytest.mark.parametrize(
    ("column", "values", "options", "told"),
    [
        ("day", ["soon", "later"], ("--time", "day"), "Time column 'day' holds text such as 'later'"),
        ("day", [1, 2], ("--group", "ward"), "no column 'ward'"),
    ],
)
def test_columns_that_do_not_suit_are_told(visits, tmp_path, capsys, column, values, options, told):
    frame = pd.read_csv(visits)
    frame[column] = [values[i > 0] for i in range(len(frame))]
    frame.to_csv(tmp_path / "bad.csv", index=False)
    drop = [name for name in ("patient", "day") if name not in options]
    error = refusal(cv(tmp_path / "bad.csv", tmp_path / "m.mmtfl", *options, "--drop", *drop, "-q"), capsys)
    assert re.search(re.escape(told), error)
