"""What is known of columns and tasks, on the command line: groups of levels, weights, signs, gaps."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mmtfl
from cli.typed import run


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 3)).round(3), columns=["age", "dose", "iron"])
    frame["site"] = np.repeat(["a", "b", "c"], 50)
    frame["ward"] = rng.choice(["x", "y", "z", "w"], 150)
    effect = (frame["ward"] == "x") * 2.0 - (frame["ward"] == "y")
    return frame.assign(y=(effect + frame["age"] - frame["dose"] + 0.5 * rng.normal(size=150)).round(3))


def fit(table, folder, words="", command="fit"):
    table.to_csv(folder / "t.csv", index=False)
    own = "--alpha 0.15" if command == "fit" else "--alphas 8 --folds 3"
    common = [folder / "t.csv", "--task site --target y --force -q -o", folder / "m.mmtfl"]
    return [command, *common, own, words]


def levels(table):
    return [f"ward={level}" for level in "wxyz" if level != table["ward"].mode()[0]]


@pytest.mark.parametrize("command", ["fit", "cv"])
def test_the_levels_of_a_column_come_in_or_stay_out_together(table, tmp_path, capsys, command):
    run(fit(table, tmp_path, command=command), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    kept = {name for name, c in zip(model.feature_names_in_, model.c_, strict=True) if c > 0}
    assert kept & set(levels(table)) in (set(), set(levels(table)))
    assert command == "fit" or {0.0, 0.9, 0.99} < set(model.cv_results_["pooling"])  # pooled groups too


def test_weights_and_signs_are_those_of_the_estimator_by_column_and_task(table, tmp_path, capsys):
    words = "--penalty-weight iron=0 ward=inf --positive dose --task-weight b=3 c=0.5"
    run(fit(table, tmp_path, words), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    names = model.feature_names_in_.tolist()
    assert not model.coef_[:, [names.index(level) for level in levels(table)]].any()
    assert model.coef_[:, names.index("iron")].all()
    X = pd.get_dummies(table[["age", "dose", "iron", "ward"]], prefix_sep="=", dtype=float)[names]
    options = {"penalty_weight": {"iron": 0.0, **dict.fromkeys(levels(table), np.inf)}, "positive": ["dose"]}
    options |= {"standardize": True, "feature_groups": [levels(table)], "task_weight": {"b": 3.0, "c": 0.5}}
    by_hand = mmtfl.MMTFLRegressor(alpha=0.15, **options).fit(X, table["y"], task=table["site"])
    assert_allclose(model.coef_, by_hand.coef_, atol=1e-6)


@pytest.mark.parametrize(("word", "weight"), [("equal", "equal"), ("2=4", {2: 4.0})])
def test_labels_that_are_numbers_are_weighted_by_their_number(table, tmp_path, capsys, word, weight):
    numbered = table.assign(site=np.repeat([0, 1, 2], 50))
    run(fit(numbered, tmp_path, f"--task-weight {word}"), capsys)
    assert mmtfl.load(tmp_path / "m.mmtfl").task_weight == weight


def test_a_column_that_a_task_lacks_is_no_feature_of_it_on_request(table, tmp_path, capsys):
    table = table.assign(
        iron=table["iron"].where(table["site"] != "c"), ward=table["ward"].where(table["site"] != "b")
    )
    run(fit(table, tmp_path, "--absent-features allow --penalty-weight iron=0"), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    names = model.feature_names_in_.tolist()
    assert (model.coef_[:, names.index("iron")] != 0).tolist() == [True, True, False]
    assert not model.coef_[1, names.index("ward=x")]
    run(["predict", tmp_path / "m.mmtfl", tmp_path / "t.csv", "-q -o", tmp_path / "p.csv"], capsys)
    assert pd.read_csv(tmp_path / "p.csv")["prediction"].notna().all()
    table.loc[3, "age"] = np.nan
    run(fit(table, tmp_path, "--absent-features allow"), capsys)  # single cells are filled
