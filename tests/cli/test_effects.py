"""`mmtfl inspect` on effects: the table, the tasks of one feature, files and JSON."""

import json

import numpy as np
import pandas as pd
import pytest

from mmtfl import load
from mmtfl.cli.main import main
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
        words = f"--task hospital --target {target} --drop {other} --alphas 12 --folds 3 --quiet".split()
        assert main(["cv", str(place / "t.csv"), *words, "-o", str(place / f"{target}.mmtfl")]) == 0
    return place


def shown(capsys, *arguments):
    assert main(["inspect", *map(str, arguments)]) == 0
    return capsys.readouterr().out


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
    assert main(["inspect", str(folder / "stay.mmtfl"), "--feature", "doze"]) == 2
    assert "did you mean 'dose'?" in capsys.readouterr().err


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
    fit = ["fit", str(folder / "t.csv"), "--task", "hospital", "--target", "stay", "--drop", "died"]
    assert main([*fit, "--quiet", "-o", str(folder / "fit.mmtfl")]) == 0
    assert "Features in use" in shown(capsys, folder / "fit.mmtfl")
    assert "Features in use" in shown(capsys, folder / "stay.mmtfl", "--coefficients")
    assert main(["inspect", str(folder / "fit.mmtfl"), "--feature", "age"]) == 2
    assert "mmtfl cv" in capsys.readouterr().err
