"""Tasks that a model has not seen, and its common part, on the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import mmtfl
from cli.typed import refusal, run


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Rows of eight sites, and of a ninth."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    rng = np.random.default_rng(0)
    code = np.repeat(np.arange(9), 20)
    coef = np.array([1.0, -0.5, 0.0]) + 0.2 * rng.normal(size=(9, 3))
    X = rng.normal(size=(180, 3))
    y = np.einsum("ij,ij->i", X, coef[code]) + rng.normal(size=9)[code] + 0.5 * rng.normal(size=180)
    frame = pd.DataFrame(X, columns=list("abc")).assign(site=[f"site {t}" for t in code], y=y)
    frame["colour"] = rng.choice(["red", "blue"], 180)
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    frame[code < 8].to_csv(old, index=False)
    frame[code == 8].to_csv(new, index=False)
    return old, new


def fitted(old, words=""):
    model = old.parent / "model.mmtfl"
    run(["fit", old, "--task site --target y --k 2 --alpha 0.1 -q --force -o", model, words])
    return model


def test_a_task_is_added_as_in_python(tables, tmp_path, capsys):
    old, new = tables
    model, wider = fitted(old, "--pooling 0.9"), tmp_path / "wider.mmtfl"
    out = run(["add-task", model, new, "-o", wider], capsys).out
    assert "Task site 8: 4 of 4 features used, intercept" in out
    before, after = mmtfl.load(model), mmtfl.load(wider)
    rows = pd.read_csv(new)
    expected = before.add_task(before.encoder_.transform(rows), rows["y"], task="site 8")
    assert np.array_equal(after.coef_, expected.coef_)
    assert np.array_equal(after.coef_[:8], before.coef_)
    assert after.provenance_["added"] == ["site 8 (20 rows of new.csv)"]
    for command in (["inspect", wider], ["predict", wider, new]):
        run(command, capsys)
    run(["report", wider, "-q -o", tmp_path / "page.html"], capsys)
    assert "site 8 (20 rows of new.csv)" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_name_of_the_new_task_is_given_where_the_table_does_not_have_it(tables, tmp_path, capsys):
    old, new = tables
    model, bare, both = fitted(old), tmp_path / "bare.csv", tmp_path / "both.csv"
    rows = pd.read_csv(new)
    rows.drop(columns="site").to_csv(bare, index=False)
    pd.concat([rows.assign(site="Ghent"), rows.assign(site="Oslo", y=0.0)]).to_csv(both, index=False)
    output = ["--force -q --json -o", tmp_path / "wider.mmtfl"]
    for table in (bare, both):
        found = json.loads(run(["add-task", model, table, "--task-name Ghent", *output], capsys).out)
        assert (found["task"], found["rows"]) == ("Ghent", 20)
        assert found["coefficients"]["a"] > 0.3
    for table, said in ((bare, "name the task by --task-name"), (both, "choose one of them by --task-name")):
        assert said in refusal(["add-task", model, table, *output], capsys)
    rows.assign(site="site 3").to_csv(both, index=False)
    assert "has a task 'site 3' already" in refusal(["add-task", model, both, *output], capsys)


def test_a_new_task_is_predicted_by_the_common_part(tables, capsys):
    old, new = tables
    model = fitted(old, "--pooling 0.9 --levels free")
    assert "use --unknown-task common" in refusal(["predict", model, new], capsys)
    out, err = run(["predict", model, new, "--unknown-task common --json"], capsys)
    assert "20 rows of tasks the model does not know, predicted by what is common to its tasks" in err
    learned = mmtfl.load(model)
    X = learned.encoder_.transform(pd.read_csv(new))
    expected = X.to_numpy() @ learned.common_ + learned.common_intercept_
    np.testing.assert_allclose(json.loads(out)["prediction"], expected)
    plain = fitted(old, "--levels free")
    assert "has no common part" in refusal(["predict", plain, new, "--unknown-task common"], capsys)


def test_ways_to_predict_a_new_task_are_compared_on_tasks_left_out(tables, capsys):
    words = "--task site --target y --leave-task-out --repeats 4 --jobs 1 --json -q"
    found = json.loads(run(["compare", tables[0], words], capsys).out)
    assert {standing["method"] for standing in found["standings"]} == {"common", "mean", "pooled", "boosting"}
    assert [task["held_out"] for task in found["tasks"]] == [20] * 8
    assert max(standing["overall"] for standing in found["standings"]) > 0.3
