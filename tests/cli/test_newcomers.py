"""What a newcomer types and has: options in every spelling, methods by name, and tables as they come."""

import inspect
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import mmtfl
from cli.typed import refusal, run
from mmtfl.cli.cv import TWO_STRENGTHS
from mmtfl.cli.main import COMMANDS

METHODS = ("mmtfl", *TWO_STRENGTHS, "single")


def visits(n=90, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"site": rng.choice(["Bern", "Cork", "Delft"], n)})
    frame = frame.assign(age=rng.normal(50, 10, n).round(1), dose=rng.normal(size=n).round(2))
    frame = frame.assign(noise=rng.normal(size=n).round(2))
    stay = 0.3 * frame["age"] + 2 * (frame["site"] == "Bern") * frame["dose"] + rng.normal(size=n)
    return frame.assign(stay=stay.round(3))


def classes(n=90):
    """Of three sites, one has a single class."""
    frame = visits(n)
    return frame.assign(stay=np.where((frame["stay"] > 15) | (frame["site"] == "Delft"), "long", "short"))


@pytest.fixture
def table(tmp_path):
    visits().to_csv(tmp_path / "visits.csv", index=False)
    classes().to_csv(tmp_path / "classes.csv", index=False)
    return tmp_path


def on(table, name, words="", command="fit", output="m.mmtfl"):
    return [command, table / f"{name}.csv", "--task site --target stay -o", table / output, words]


# -- options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", ["--target a b", "--target a --target b", "--target=a --target=b"])
def test_several_targets_in_every_spelling(tmp_path, capsys, targets):
    frame = visits()
    frame = frame.assign(a=frame["stay"], b=2 * frame["age"]).drop(columns=["stay", "site"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    run(["fit", tmp_path / "a.csv", targets, "--alpha 0.1 -o", tmp_path / "m.mmtfl"], capsys)
    assert mmtfl.load(tmp_path / "m.mmtfl").tasks_.tolist() == ["a", "b"]


def test_jobs_has_two_names(table, capsys):
    for command in ("cv", "compare"):
        shown = run([command, "--help-all"], capsys).out
        assert "--jobs" in shown and "--n-jobs" in shown
    run(on(table, "visits", "--pk 2,1 --alphas 3 --folds 2 --n-jobs 2", command="cv"), capsys)
    assert mmtfl.load(table / "m.mmtfl").n_jobs == 2


@pytest.mark.parametrize("command", COMMANDS)
def test_the_usage_names_real_arguments_and_all_that_are_needed(capsys, command):
    shown = run([command, "--help"], capsys).out
    first = shown.splitlines()[0]
    assert first == f"Usage: mmtfl {command} {COMMANDS[command][1]} [OPTIONS]" and "[ARGS]" not in shown
    options = re.findall(r"(?<!\w)--?\w[\w-]*", first.partition(" [OPTIONS]")[0].partition(command)[2])
    assert all(re.search(rf"(^|\s){re.escape(option)}\b", shown.partition("\n")[2]) for option in options)
    # a row that begins with a star is required
    required = re.findall(r"^│ \*\s+(\S+)", shown, flags=re.M)
    for name in required:
        if name.startswith("-"):
            assert name in first.split() or {"-o", "--output"} & set(first.split()), name
        else:
            assert name in first.split(), name


# -- methods -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["visits", "classes"])
def test_every_method_is_fitted_predicted_and_inspected(table, capsys, method, kind):
    few = "--pk 2,1 --alphas 4" if method == "mmtfl" else "--alphas 3"
    run(on(table, kind, f"--method {method} {few} --folds 2", command="cv"), capsys)
    model = mmtfl.load(table / "m.mmtfl")
    named = type(getattr(model, "best_estimator_", model)).__name__
    assert named.lower().startswith({"single": "singletask"}.get(method, method))
    assert named.removesuffix("CV").endswith("Regressor" if kind == "visits" else "Classifier")
    out = run(["predict", table / "m.mmtfl", table / f"{kind}.csv"], capsys).out
    found = pd.read_csv(io.StringIO(out))
    good = (
        np.corrcoef(found["prediction"], found["stay"])[0, 1]
        if kind == "visits"
        else (found["prediction"] == found["stay"]).mean()
    )
    assert good > 0.6
    if kind == "classes":  # the probability is that of the second class
        assert ((found["probability"] > 0.5) == (found["prediction"] == "short")).all()
    shown = run(["inspect", table / "m.mmtfl"], capsys).out
    assert f"--method {method}" in shown and "Bern" in shown


@pytest.mark.parametrize("method", ["dirty", "single"])
def test_the_report_shows_every_kind_of_search(table, capsys, method):
    run(on(table, "classes", f"--method {method} --alphas 3 --folds 2", command="cv"), capsys)
    page = table / "r.html"
    out, err = run(["report", table / "m.mmtfl", table / "classes.csv", "-o", page], capsys)
    assert (out, err) == ("", f"Written: {page}\n")
    assert "could not be refitted" not in page.read_text(encoding="utf-8")


def test_the_help_of_cv_says_what_every_method_assumes():
    from mmtfl.cli.cv import cv

    text = inspect.getdoc(cv)
    assert all(f" {method}: " in " ".join(text.split()) for method in METHODS)


# -- tasks of one class ------------------------------------------------------------------------------------


def test_a_task_of_one_class_is_fitted_and_told(table, capsys):
    n_rows = int((classes()["site"] == "Delft").sum())
    err = run(on(table, "classes"), capsys).err
    assert "1 task has one value of the target only" in err and f"'Delft' ({n_rows} rows, long)" in err
    out = run(["predict", table / "m.mmtfl", table / "classes.csv"], capsys).out
    rows = pd.read_csv(io.StringIO(out)).query("site == 'Delft'")
    assert (rows["prediction"] == "long").mean() > 0.9
    err = refusal(on(table, "classes", "--levels free", output="free.mmtfl"), capsys)
    assert "Task 'Delft' has only one class, 'long'" in err and "--levels shrunk" in err


def test_scores_in_the_fit_are_those_of_tasks_whose_target_varies(table, capsys):
    run(on(table, "classes"), capsys)
    known = json.loads(run(["inspect", table / "m.mmtfl", "--json"], capsys).out)["provenance"]["training"]
    for name in ("accuracy", "auc", "base_rate"):
        assert [score is None for score in known[name]] == [False, False, True]
    frame = visits()
    frame.assign(stay=frame["stay"].where(frame["site"] != "Cork", 7.0)).to_csv(table / "flat.csv")
    run(on(table, "flat", "--alpha 0.1", output="flat.mmtfl"), capsys)
    known = json.loads(run(["inspect", table / "flat.mmtfl", "--json"], capsys).out)["provenance"]["training"]
    assert [score is None for score in known["r2"]] == [False, True, False]


# -- progress ----------------------------------------------------------------------------------------------


def test_large_files_and_the_last_path_are_told(table, capsys, monkeypatch):
    monkeypatch.setattr("mmtfl.model_selection.progress._SECONDS_BETWEEN_LINES", 0.0)
    search = on(table, "visits", "--alphas 3 --folds 2 --force", command="cv")
    err = run(search, capsys).err
    assert "[reading]" not in err and "[all rows] 1 of 1 paths, done in" in err
    monkeypatch.setattr("mmtfl.cli.training._LARGE_FILE", 10)
    told = re.findall(r"^\[(\w+)\] visits.csv, 0 MB$", run(search, capsys).err, flags=re.M)
    assert told == ["reading", "fitting"]
    assert run([*search, "--quiet"], capsys).err == ""


# -- tables as they come -----------------------------------------------------------------------------------


def test_new_labels_are_counted_and_misspelt_ones_suspected(table, capsys):
    run(on(table, "visits", "--alpha 0.1"), capsys)
    new = visits(6, seed=1).assign(site=["Bern ", " Cork", "Berne", "Oslo", "Oslo", "Delft"])
    new.to_csv(table / "new.csv", index=False)
    tokens = ["predict", table / "m.mmtfl", table / "new.csv"]
    err = refusal(tokens, capsys)
    assert (
        "Task 'Berne' in data row 3 is not one the model knows "
        "(3 rows with new tasks, of tasks 'Berne', 'Oslo'): did you mean 'Bern'?" in err
    )
    err = run([*tokens, "--unknown-task mean"], capsys).err
    assert (
        "note: 3 rows of tasks the model does not know, predicted by the mean over its tasks: "
        "'Berne' 1 row, 'Oslo' 2 rows. Is 'Berne' meant to be 'Bern'?" in err
    )
    new.assign(site=["Bern", "", " ", "Oslo", "Oslo", "Delft"]).to_csv(table / "new.csv", index=False)
    err = refusal([*tokens, "--unknown-task mean"], capsys)
    assert "2 rows without a label (first in data row 2): no label is not a new task" in err
