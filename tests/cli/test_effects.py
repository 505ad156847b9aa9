"""`mmtfl inspect` on effects: the table, the tasks of one feature, files and JSON."""

import json

import numpy as np
import pandas as pd
import pytest

from cli.typed import refusal, run
from mmtfl import load
from mmtfl.report.sentences import with_interval


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("effects")
    rng = np.random.default_rng(2)
    table = pd.DataFrame(rng.normal(size=(480, 3)), columns=["age", "dose", "noise"])
    table["hospital"] = np.repeat([f"h{t}" for t in range(6)], 80)
    slope = np.repeat([0.0, 0.5, 1.5, 2.0, 2.5, 3.0], 80)
    table["stay"] = 2.0 * table["age"] + slope * table["dose"] + rng.normal(size=480)
    table["died"] = np.where(rng.uniform(size=480) < 1 / (1 + np.exp(-1.5 * table["age"])), "yes", "no")
    table.to_csv(place / "t.csv", index=False)
    for target, other in (("stay", "died"), ("died", "stay")):
        words = f"--task hospital --target {target} --drop {other} --alphas 12 --folds 3 --quiet -o"
        run(["cv", place / "t.csv", words, place / f"{target}.mmtfl"])
    return place


def shown(capsys, *arguments):
    return run(["inspect", *arguments], capsys).out


def test_the_table_has_averages_with_words_and_says_hospital(folder, capsys):
    text = shown(capsys, folder / "stay.mmtfl")
    table = text[text.index("Average effects over hospitals") :].splitlines()
    assert max(map(len, table[:9])) <= 100
    row = next(line for line in table if line.lstrip().startswith("age"))
    assert "everywhere" in row and "<0.001" in row
    assert "Holds in every hospital: age" in text and "Differs between hospitals: dose" in text
    assert "Not found: noise. For each of these an average effect above" in text


def test_one_feature_shows_the_hospitals(folder, capsys):
    text = shown(capsys, folder / "stay.mmtfl", "--feature", "dose")
    frame = load(folder / "stay.mmtfl").task_effects("dose")
    for task, *numbers in frame[["task", "effect", "lower", "upper"]].itertuples(index=False):
        row = next(line for line in text.splitlines() if line.lstrip().startswith(task))
        assert with_interval(*numbers).replace("−", "-") in row
    told = refusal(["inspect", folder / "stay.mmtfl", "--feature doze"], capsys)
    assert "did you mean 'dose'?" in told


def test_files_and_json_have_the_rows_of_the_model(folder, capsys):
    model = load(folder / "stay.mmtfl")
    shown(capsys, folder / "stay.mmtfl", "-o", folder / "effects.csv")
    written = pd.read_csv(folder / "effects.csv", keep_default_na=True)
    assert list(written.columns) == list(model.effects().columns)
    assert np.allclose(written["average"], model.effects()["average"])
    shown(capsys, folder / "stay.mmtfl", "--feature", "age", "-o", folder / "sites.csv")
    assert list(pd.read_csv(folder / "sites.csv").columns) == list(model.task_effects("age").columns)
    found = json.loads(shown(capsys, folder / "stay.mmtfl", "--json", "--feature", "age"))
    assert [row["word"] for row in found["effects"]] == model.effects()["word"].tolist()
    assert [row["task"] for row in found["task_effects"]] == model.tasks_.tolist()
    assert "task_effects" not in json.loads(shown(capsys, folder / "stay.mmtfl", "--json"))


def test_classes_are_odds_with_a_line_on_how_to_read_them(folder, capsys):
    text = shown(capsys, folder / "died.mmtfl")
    assert "odds ratio (90%)" in text and "An odds ratio of 1.5:" in text and "age odds x " in text


def test_a_single_fit_shows_its_coefficients(folder, capsys):
    words = "--task hospital --target stay --drop died --quiet -o"
    run(["fit", folder / "t.csv", words, folder / "fit.mmtfl"])
    assert "Features in use" in shown(capsys, folder / "fit.mmtfl")
    assert "Features in use" in shown(capsys, folder / "stay.mmtfl", "--coefficients")
    assert "mmtfl cv" in refusal(["inspect", folder / "fit.mmtfl", "--feature age"], capsys)
