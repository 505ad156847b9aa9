"""The command `mmtfl compare`: the methods on somebody's table."""

import json

import numpy as np
import pandas as pd
import pytest

import mmtfl
from cli.typed import refusal, run
from mmtfl.cli.compare import _sentence
from mmtfl.datasets.simulate import make_tasks
from mmtfl.report import rivals
from mmtfl.report.evaluation import standings
from report.test_judging import heldout

CITY = ("city", "cities")
SHORT = "--repeats 2 --jobs 1"


@pytest.fixture
def table(tmp_path, monkeypatch):
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(rivals, "LEAVES", (4,))
    monkeypatch.setattr(rivals, "TREES", (40,))
    data = make_tasks(4, 40, 5, n_informative=2, noise=0.3, random_state=0)
    frame = pd.DataFrame(data.X, columns=list("abcde"))
    frame["site"] = np.array(["Aker", "Bern", "Cork", "Dijon"])[data.task]
    frame["y"] = data.y
    frame["sick"] = np.where(data.y > np.median(data.y), "yes", "no")
    frame["z"] = frame["y"] + frame["a"]
    frame["colour"] = np.array(["red", "green", "blue"])[np.arange(160) % 3]
    frame["visits"] = np.random.default_rng(0).poisson(np.exp(0.3 * frame["a"]))
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_it_names_the_winner_and_what_is_worse_and_progress_moves(table, capsys):
    words = "--task site --target y --drop sick z visits --methods mmtfl21 pooled separate"
    out, err = run(["compare", table, words, SHORT], capsys)
    assert out.splitlines()[-1].startswith("MMTFL(2,1) ")
    assert "One ridge for all" in out and "as six sites are needed" in out.splitlines()[-1]
    assert [f"{i} of 6 fits" in err for i in range(1, 7)] == [True] * 6


@pytest.mark.parametrize(
    "more",
    [
        "--task site --target sick --drop y z visits",
        "--task site --target visits --loss poisson --drop y z sick",
        "--target y z --drop site sick visits",
    ],
)
def test_classes_counts_and_several_targets_with_categories(table, capsys, more):
    found = json.loads(run(["compare", table, more, "-q --json", SHORT], capsys).out)
    assert len(found["standings"]) == 8 and found["standings"][0]["verdict"] == ""
    assert all(np.isfinite(standing["within"]) for standing in found["standings"])


def test_an_offset_of_numbers_is_taken_along_and_of_counts_refused(table, capsys):
    frame = pd.read_csv(table)[["site", "y", "visits", *"abcde"]]
    frame["shift"] = np.random.default_rng(1).normal(0.0, 3.0, size=len(frame)).round(3)
    frame.assign(y=frame["y"] + frame["shift"]).to_csv(table, index=False)
    words = "--task site --target y --drop visits -q --json --methods mmtfl21 dirty separate boosting"
    found = json.loads(run(["compare", table, words, SHORT, "--offset shift"], capsys).out)
    within = [one["within"] for one in found["standings"]]
    assert len(within) == 4 and min(within) > 0.8  # without the offset three quarters were noise
    words = "--task site --target visits --drop y --loss poisson --offset shift"
    assert "models of counts take no offset" in refusal(["compare", table, words], capsys)


def comparison(ratios, **sizes):
    """What compare finds where methods' errors are so many times those of the first."""
    found = heldout(ratios, **sizes)
    names = {"own": "a", **{name: name for name in ratios}}
    return standings(found, names), np.count_nonzero(~found.counted)


def test_every_verdict_has_its_clause():
    wave = np.where(np.arange(12) % 2, 1.0, -1.0)
    found = comparison(
        {"b": 1.0, "c": 1.0 + 0.01 * wave + 0.002, "d": 1.005, "e": np.exp(0.5 * wave), "f": 2.0}
    )
    assert _sentence(*found, CITY) == (
        "a comes first. It cannot be told apart from e. The same as it: b. About as good: c. Slightly worse: "
        "d. Worse: f (judged by 12 cities)."
    )
    assert _sentence(*comparison({"f": 2.0}), CITY).startswith("a wins: every other method is worse")
    assert "cannot be judged" in _sentence(*comparison({"f": 2.0}, n_rows=4), CITY)


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
