"""The command line says what is supported, and how far off predictions may be."""

import io

import numpy as np
import pandas as pd
import pytest

import mmtfl
from mmtfl.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table whose first feature matters everywhere and whose second in the north only, and its models."""
    folder = tmp_path_factory.mktemp("how_sure")
    rng = np.random.default_rng(0)
    site, X = np.repeat(["north", "south", "east"], [80, 80, 15]), rng.normal(size=(175, 6))
    y = 2.0 * X[:, 0] + np.where(site == "north", 2.0 * X[:, 1], 0.0) + rng.normal(size=175)
    pd.DataFrame(X, columns=list("abcdef")).assign(site=site, y=y).to_csv(folder / "rows.csv", index=False)
    rows = [str(folder / "rows.csv"), "--task", "site", "--target", "y", "-q"]
    search = ["--pk", "2,1", "--alphas", "10", "--folds", "3", "--stability", "5"]
    assert main(["cv", *rows, *search, "-o", str(folder / "searched.mmtfl")]) == 0
    assert main(["fit", *rows, "-o", str(folder / "fitted.mmtfl")]) == 0
    frame = pd.read_csv(folder / "rows.csv")
    frame.assign(y=frame["y"] + rng.normal(size=175)).to_csv(folder / "more.csv", index=False)
    frame.assign(y=np.where(frame["y"] > 0.0, "high", "low")).to_csv(folder / "classes.csv", index=False)
    rows[0] = str(folder / "classes.csv")
    assert main(["cv", *rows, *search[:-2], "-o", str(folder / "classes.mmtfl")]) == 0
    return folder


def test_inspect_tells_what_is_used_from_what_is_supported(folder, capsys):
    assert main(["inspect", str(folder / "searched.mmtfl")]) == 0
    told = capsys.readouterr().out
    assert "In all tasks: 'a'; in one: 'b'." in told
    row = next(line for line in told.splitlines() if line.split()[:1] == ["b"])
    assert "all 3 tasks" in row and "one task (north)" in row and "100%" in row
    assert "by construction" in told


def test_the_report_says_it_on_its_first_screen(folder):
    page = folder / "report.html"
    assert main(["report", str(folder / "searched.mmtfl"), "-o", str(page), "-q"]) == 0
    text = page.read_text()
    first = text[: text.index('id="predictions"')]
    for words in ("What matters everywhere?", "<bdi>a.</bdi>", "<bdi>b: one task (north).</bdi>", "5 pairs"):
        assert words in first
    assert "90% of new rows are expected within" in first and "Supported in" in text


def test_a_model_without_half_samples_says_nothing_of_support(folder, capsys):
    assert main(["inspect", str(folder / "fitted.mmtfl")]) == 0
    assert "upported" not in capsys.readouterr().out


def test_predict_adds_the_ends_of_intervals(folder, capsys):
    model, rows = folder / "searched.mmtfl", folder / "rows.csv"
    assert main(["predict", str(model), str(rows), "--interval", "0.8"]) == 0
    told = capsys.readouterr()
    out = pd.read_csv(io.StringIO(told.out))
    assert out.columns.tolist()[-3:] == ["prediction", "lower", "upper"]
    frame = pd.read_csv(rows)
    expected = mmtfl.load(model).predict_interval(frame[list("abcdef")], task=frame["site"], coverage=0.8)
    np.testing.assert_allclose(out[["lower", "upper"]], expected)
    assert "1 task with fewer than 40 held-out rows" in told.err and "'east'" in told.err


def test_calibrate_gives_a_given_model_intervals(folder, capsys):
    made = folder / "calibrated.mmtfl"
    assert main(["calibrate", str(folder / "fitted.mmtfl"), str(folder / "more.csv"), "-o", str(made)]) == 0
    assert "'east'" in capsys.readouterr().err
    frame, before = pd.read_csv(folder / "more.csv"), mmtfl.load(folder / "fitted.mmtfl")
    rows = {"X": frame[list("abcdef")], "task": frame["site"]}
    expected = before.calibrate(**rows, y=frame["y"]).predict_interval(**rows, coverage=0.8)
    assert main(["predict", str(made), str(folder / "more.csv"), "--interval", "0.8"]) == 0
    out = pd.read_csv(io.StringIO(capsys.readouterr().out))
    np.testing.assert_allclose(out[["lower", "upper"]], expected)


@pytest.mark.parametrize(
    ("tokens", "word"),
    [
        (["calibrate", "fitted.mmtfl", "rows.csv", "-o", "x.mmtfl"], "was fitted to"),
        (["predict", "fitted.mmtfl", "rows.csv", "--interval", "0.9"], "mmtfl cv"),
        (["predict", "searched.mmtfl", "rows.csv", "--interval", "90"], "between 0 and 1"),
        (["predict", "classes.mmtfl", "classes.csv", "--interval", "0.9"], "column probability"),
        (["calibrate", "classes.mmtfl", "more.csv", "-o", "x.mmtfl"], "predicts classes"),
        (
            ["cv", "rows.csv", "--task", "site", "--target", "y", "--stability", "-1", "-o", "x"],
            "--stability",
        ),
    ],
)
def test_bad_requests_end_with_one_clear_line(folder, capsys, monkeypatch, tokens, word):
    monkeypatch.chdir(folder)
    assert main(tokens) == 2
    assert word in capsys.readouterr().err
