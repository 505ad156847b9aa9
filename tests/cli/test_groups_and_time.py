"""--group and --time: what cv, report and compare say does not rest on rows that give the answer away."""

import json

import numpy as np
import pandas as pd
import pytest

import mmtfl
from cli.typed import run


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


def cv(visits, output, words):
    fast = "--pk 2,2 --poolings 0 --alphas 8 --folds 3"
    return ["cv", visits, "--task site --target stay -o", output, fast, words]


def test_cv_and_report_hold_out_whole_groups(visits, tmp_path, capsys):
    run(cv(visits, tmp_path / "apart.mmtfl", "--drop patient day"), capsys)
    run(cv(visits, tmp_path / "m.mmtfl", "--group patient --drop day"), capsys)
    apart, together = (mmtfl.load(tmp_path / name) for name in ("apart.mmtfl", "m.mmtfl"))
    assert apart.heldout_scores_["r2"].min() > 0.3
    assert together.heldout_scores_["r2"].max() < 0.1
    assert "patient" not in together.feature_names_in_
    run(["report", tmp_path / "m.mmtfl", visits, "-o", tmp_path / "m.html"], capsys)
    assert "without any row of the same group" in (tmp_path / "m.html").read_text()


def test_compare_splits_by_group_and_the_best_method_knows_nothing(visits, capsys):
    words = "--task site --target stay --drop day --group patient --methods separate pooled boosting"
    words += " --repeats 2 --jobs 1 --folds 2 --json -q"
    found = json.loads(run(["compare", visits, words], capsys).out)
    assert max(standing["within"] for standing in found["standings"]) < 0.1


def test_time_predicts_the_later_from_the_earlier(visits, tmp_path, capsys):
    run(cv(visits, tmp_path / "m.mmtfl", "--time day --drop patient"), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    assert type(model.cv).__name__ == "TaskTimeSplit"
    assert model.heldout_scores_["n_rows"].sum() < 0.8 * 180
    assert "day" not in model.feature_names_in_
    run(["report", tmp_path / "m.mmtfl", visits, "-o", tmp_path / "m.html"], capsys)
    assert "fitted again to earlier rows" in (tmp_path / "m.html").read_text()
    words = "--task site --target stay --drop patient --time day --methods separate pooled"
    found = json.loads(run(["compare", visits, words, "--repeats 2 --jobs 1 -q --json"], capsys).out)
    assert sum(task["held_out"] for task in found["tasks"]) < 0.6 * 180
