"""The command `mmtfl compare`: the methods on somebody's table."""

import json

import numpy as np
import pytest

from mmtfl.cli.compare import _sentence
from mmtfl.cli.main import main
from mmtfl.datasets.simulate import make_tasks
from mmtfl.report.paired_tests import HeldOutErrors
from mmtfl_lab.paper.table_comparison import Comparison, standings

pd = pytest.importorskip("pandas")


@pytest.fixture
def table(tmp_path, monkeypatch):
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    data = make_tasks(4, 40, 5, n_informative=2, noise=0.3, random_state=0)
    frame = pd.DataFrame(data.X, columns=list("abcde"))
    frame["site"] = np.array(["Aker", "Bern", "Cork", "Dijon"])[data.task]
    frame["y"] = data.y
    frame["sick"] = np.where(data.y > np.median(data.y), "yes", "no")
    frame["z"] = frame["y"] + frame["a"]
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


SHORT = ["--repeats", "3", "--jobs", "1"]


def test_it_names_the_winner_and_what_cannot_be_told_apart(table, capsys):
    words = ["--task", "site", "--target", "y", "--drop", "sick", "z", "--methods", "stl", "mmtfl21"]
    assert main(["compare", str(table), *words, "pooled", "--repeats", "6", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert "R², 6 random splits, 50 % for training" in out
    lines = [line for line in out.splitlines() if line.strip().startswith(("STL", "MMTFL", "Pooled"))]
    assert "best" in lines[0]
    assert "worse" in next(line for line in lines if line.strip().startswith("Pooled"))
    assert out.splitlines()[-1].startswith("MMTFL(2,1) comes first. ")
    assert "Worse: Pooled, own intercepts (judged by" in out and "rows, as six tasks are needed)." in out
    assert "of 18 cells" in err


@pytest.mark.parametrize("more", [["--target", "same"], ["--target", "y", "--fraction", "0.98"]])
def test_what_cannot_be_scored_is_told_in_one_line(table, tmp_path, capsys, more):
    pd.read_csv(table).assign(same=3.0).to_csv(tmp_path / "same.csv", index=False)
    words = ["--task", "site", "--features", "a", "b", "--methods", "stl", "-q", *SHORT]
    assert main(["compare", str(tmp_path / "same.csv"), *words, *more]) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert out == "" and len(lines) == 1
    assert lines[0].startswith("mmtfl: Nothing can be scored: no task has two different targets")


def test_one_model_wins_where_one_model_is_right(tmp_path, capsys):
    """Tasks with the same coefficients and other spreads: rows of one column are pooled in its unit."""
    rng = np.random.default_rng(0)
    site = np.repeat(["Aker", "Bern", "Cork", "Dijon"], 16)
    X = rng.normal(size=(64, 3)) * np.repeat([1.0, 2.0, 4.0, 8.0], 16)[:, None]
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["y"] = X.sum(axis=1) + 0.5 * rng.normal(size=64)
    frame.assign(site=site).to_csv(tmp_path / "table.csv", index=False)
    words = ["--task", "site", "--target", "y", "--methods", "stl", "mmtfl21", "pooled", "-q", "--json"]
    assert main(["compare", str(tmp_path / "table.csv"), *words, *SHORT]) == 0
    standings = json.loads(capsys.readouterr().out)["standings"]
    assert standings[0]["method"] == "pooled"
    assert standings[0]["mean"] > 0.95


def test_classes_and_several_targets(table, capsys):
    words = ["--drop", "y", "z", "--methods", "stl", "mmtfl22", "-q", "--json", *SHORT]
    assert main(["compare", str(table), "--task", "site", "--target", "sick", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metric"] == "auc"
    assert found["standings"][0]["mean"] > 0.8
    words = ["--target", "y", "--target", "z", "--drop", "sick", "site", "--methods", "stl", "mmtfl22"]
    assert main(["compare", str(table), *words, "-q", "--json", *SHORT]) == 0
    assert len(json.loads(capsys.readouterr().out)["splits"]) == 6


def test_a_folder_keeps_the_cells_and_refuses_another_table(table, tmp_path, capsys):
    words = ["--task", "site", "--target", "y", "--drop", "sick", "--methods", "stl", *SHORT]
    folder = tmp_path / "out"
    assert main(["compare", str(table), *words, "-o", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {
        *("cells", "settings.json", "comparison.md", "results.csv", "results.json"),
    }
    rows, found = pd.read_csv(folder / "results.csv"), json.loads((folder / "results.json").read_text())
    assert rows["repeat"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(rows["mean"].mean(), found["standings"][0]["mean"])
    assert "of 3 cells" in capsys.readouterr().err
    assert main(["compare", str(table), *words, "-o", str(folder)]) == 0
    assert "of 3 cells" not in capsys.readouterr().err
    table.write_text(table.read_text().replace("Aker", "Oslo"))
    assert main(["compare", str(table), *words, "-o", str(folder)]) == 2
    assert "sha256" in capsys.readouterr().err


def comparison(scores, *, n_rows=20):
    """What compare finds where methods have these scores by task."""
    errors = HeldOutErrors(
        "r2",
        {name: 1.0 - np.asarray(own) for name, own in scores.items()},
        np.full(len(scores["stl"]), n_rows),
    )
    splits = {name: np.array([np.mean(own)]) for name, own in scores.items()}
    tasks = [{"judged": bool(judged)} for judged in errors.counted]
    rows = [{"repeat": 0, "method": name} for name in scores]
    return Comparison("r2", "mean", 0.5, rows, standings(errors, splits), tasks)


LEVEL = np.linspace(0.5, 0.8, 12)


def test_the_winner_is_told_by_tasks_and_not_by_a_mean_that_explodes():
    exploded = LEVEL + 0.1
    exploded[0] = -1e4  # one task of twelve
    found = comparison({"stl": LEVEL, "mmtfl21": exploded, "pooled": LEVEL - 0.3})
    assert [standing.method for standing in found.standings] == ["mmtfl21", "stl", "pooled"]
    assert _sentence(found) == (
        "MMTFL(2,1) wins: every other method is worse by more than chance explains (judged by 12 tasks)."
    )


def test_every_verdict_has_its_clause():
    wave = np.where(np.arange(12) % 2, 1.0, -1.0)
    found = comparison(
        {
            "stl": LEVEL,
            "mmtfl21": LEVEL,
            "mmtfl22": LEVEL + 0.002 * wave - 0.001,
            "mmtfl12": LEVEL - 0.003,
            "mmtfl11": LEVEL + 0.1 * wave - 0.05,
            "pooled": LEVEL - 0.3,
        }
    )
    assert _sentence(found) == (
        "STL comes first. It cannot be told apart from MMTFL(1,1). The same as it: MMTFL(2,1). About as "
        "good: MMTFL(2,2). Slightly worse: MMTFL(1,2). Worse: Pooled, own intercepts (judged by 12 tasks)."
    )


def test_tasks_that_are_too_small_are_counted_apart():
    scores = {"stl": LEVEL, "pooled": LEVEL - 0.3}
    assert "cannot be judged" in _sentence(comparison(scores, n_rows=4))
    some = comparison({"stl": [*LEVEL, np.nan], "pooled": [*(LEVEL - 0.3), np.nan]})
    assert _sentence(some).endswith(
        "(judged by 12 tasks). 1 task with fewer than 5 test rows, or whose target does not vary, is left "
        "out of this."
    )


@pytest.mark.parametrize(
    ("tokens", "line"),
    [
        (["--target", "y"], "compare needs tasks"),
        (["--task", "site", "--target", "y", "--weights", "a"], "does not use row weights"),
        (
            ["--task", "site", "--target", "y", "--metric", "auc"],
            "--metric auc does not suit targets that are numbers",
        ),
        (["--task", "site", "--target", "y", "--methods", "nope"], "--methods has no 'nope'"),
        (["--task", "site", "--target", "y", "--fraction", "1"], "--fraction must lie between 0 and 1"),
        (["--task", "nope", "--target", "y"], "nope"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tokens, line, table, capsys):
    assert main(["compare", str(table), *tokens, "-q", *SHORT]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert line in err
