"""The command `mmtfl compare`: the methods on somebody's table."""

import json

import numpy as np
import pandas as pd
import pytest

from cli.typed import refusal, run
from mmtfl.cli.compare import _sentence
from mmtfl.datasets.simulate import make_tasks
from mmtfl.report import methods
from mmtfl.report.evaluation import standings
from mmtfl.report.judging import HeldOut

CITY = ("city", "cities")
SHORT = "--repeats 2 --jobs 1"


@pytest.fixture
def table(tmp_path, monkeypatch):
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(methods, "LEAVES", (4,))
    monkeypatch.setattr(methods, "TREES", (40,))
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


def comparison(ratios, *, n_tasks=12, n_rows=20):
    """What compare finds where methods' errors are so many times those of the first."""
    rng = np.random.default_rng(0)
    task, y = np.repeat(np.arange(n_tasks), n_rows), rng.normal(size=n_tasks * n_rows)
    error = 0.5 * rng.normal(size=len(y))
    means = {
        name: y + error * np.sqrt(np.broadcast_to(ratio, n_tasks))[task] for name, ratio in ratios.items()
    }
    heldout = HeldOut("numbers", y, task, means, n_tasks)
    n_left = np.count_nonzero(~heldout.counted)
    return standings(heldout, {name: name for name in ratios}), n_left


def test_every_verdict_has_its_clause():
    wave = np.where(np.arange(12) % 2, 1.0, -1.0)
    found = comparison(
        {"a": 1.0, "b": 1.0, "c": 1.0 + 0.01 * wave + 0.002, "d": 1.005, "e": np.exp(0.5 * wave), "f": 2.0}
    )
    assert _sentence(*found, CITY) == (
        "a comes first. It cannot be told apart from e. The same as it: b. About as good: c. Slightly worse: "
        "d. Worse: f (judged by 12 cities)."
    )
    assert _sentence(*comparison({"a": 1.0, "f": 2.0}), CITY).startswith(
        "a wins: every other method is worse"
    )
    assert "cannot be judged" in _sentence(*comparison({"a": 1.0, "f": 2.0}, n_rows=4), CITY)
