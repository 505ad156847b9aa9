"""Tasks that a model has not seen, and its common part, on the command line."""

import json

import numpy as np
import pytest

import mmtfl
from mmtfl.cli.main import main

pd = pytest.importorskip("pandas")


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


def fitted(old, *more):
    model = old.parent / "model.mmtfl"
    words = ["--task", "site", "--target", "y", "--k", "2", "--alpha", "0.1", "-o", str(model), "-q", *more]
    assert main(["fit", str(old), *words]) == 0
    return model


def test_a_task_is_added_as_in_python(tables, tmp_path, capsys):
    old, new = tables
    model, wider = fitted(old, "--pooling", "0.9"), tmp_path / "wider.mmtfl"
    capsys.readouterr()
    assert main(["add-task", str(model), str(new), "-o", str(wider)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Task site 8: 4 of 4 features used, intercept")
    before, after = mmtfl.load(model), mmtfl.load(wider)
    rows = pd.read_csv(new)
    X = before.encoder_.transform(rows)
    expected = before.add_task(X, rows["y"], task="site 8")
    assert np.array_equal(after.coef_, expected.coef_)
    assert np.array_equal(after.coef_[:8], before.coef_)
    assert after.provenance_["added"] == ["site 8 (20 rows of new.csv)"]
    for command in (["inspect", str(wider)], ["predict", str(wider), str(new)]):
        assert main(command) == 0
    assert main(["report", str(wider), "-o", str(tmp_path / "page.html"), "-q"]) == 0
    assert "site 8 (20 rows of new.csv)" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_name_of_the_new_task_is_given_where_the_table_does_not_have_it(tables, tmp_path, capsys):
    old, new = tables
    model, wider = fitted(old), tmp_path / "wider.mmtfl"
    bare, both = tmp_path / "bare.csv", tmp_path / "both.csv"
    rows = pd.read_csv(new)
    rows.drop(columns="site").to_csv(bare, index=False)
    pd.concat([rows, rows.assign(site="site 9", y=0.0)]).to_csv(both, index=False)
    for table, name in ((bare, "Ghent"), (both, "site 8")):
        words = ["--task-name", name, "-o", str(wider), "--force", "-q", "--json"]
        capsys.readouterr()
        assert main(["add-task", str(model), str(table), *words]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["task"], found["rows"]) == (name, 20)
        assert found["coefficients"]["a"] > 0.3
    for table, said in ((bare, "name the task by --task-name"), (both, "choose one of them by --task-name")):
        assert main(["add-task", str(model), str(table), "-o", str(wider), "--force"]) == 2
        assert said in capsys.readouterr().err
    assert main(["add-task", str(model), str(old), "--task-name", "site 3", "-o", str(wider), "--force"]) == 2
    assert "has a task 'site 3' already" in capsys.readouterr().err


def test_a_new_task_is_predicted_by_the_common_part(tables, capsys):
    old, new = tables
    model = fitted(old, "--pooling", "0.9", "--levels", "free")
    capsys.readouterr()
    assert main(["predict", str(model), str(new)]) == 2
    assert "use --unknown-task common" in capsys.readouterr().err
    assert main(["predict", str(model), str(new), "--unknown-task", "common", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "20 rows of tasks the model does not know, predicted by what is common to its tasks" in err
    learned = mmtfl.load(model)
    X = learned.encoder_.transform(pd.read_csv(new))
    expected = X.to_numpy() @ learned.common_ + learned.common_intercept_
    np.testing.assert_allclose(json.loads(out)["prediction"], expected)
    plain = fitted(old, "--force", "--levels", "free")
    capsys.readouterr()
    assert main(["predict", str(plain), str(new), "--unknown-task", "common"]) == 2
    assert "has no common part" in capsys.readouterr().err


def test_inspect_shows_the_common_part_and_how_far_tasks_scatter(tables, capsys):
    old, _ = tables
    model = fitted(old, "--pooling", "0.9")
    capsys.readouterr()
    assert main(["inspect", str(model)]) == 0
    out = capsys.readouterr().out
    assert "alpha 0.1, pooling 0.9" in out and "common (scatter)" in out
    learned = mmtfl.load(model)
    scatter = np.sqrt(np.mean((learned.coef_ - learned.common_) ** 2, axis=0))
    kept = learned.common_ != 0
    ratio = np.median(scatter[kept] / np.abs(learned.common_[kept]))
    assert f"not zero for {kept.sum()} features" in out and f"is {ratio:.2g} times its size" in out
    fitted(old, "--force")
    capsys.readouterr()
    assert main(["inspect", str(model)]) == 0
    assert "common" not in capsys.readouterr().out


def test_ways_to_predict_a_new_task_are_compared_on_tasks_left_out(tables, capsys):
    old, _ = tables
    words = ["--task", "site", "--target", "y", "--leave-task-out", "--repeats", "4", "--jobs", "1"]
    assert main(["compare", str(old), *words, "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {standing["method"] for standing in found["standings"]} == {"common", "mean", "pooled", "boosting"}
    assert [task["held_out"] for task in found["tasks"]] == [20] * 8
    assert max(standing["overall"] for standing in found["standings"]) > 0.3
