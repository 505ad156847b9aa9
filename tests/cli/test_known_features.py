"""What is known of the columns, on the command line: groups of levels, weights, signs and absent columns."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mmtfl
from cli.test_tables import refusal, run


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 3)).round(3), columns=["age", "dose", "iron"])
    frame["site"] = np.repeat(["a", "b", "c"], 50)
    frame["ward"] = rng.choice(["x", "y", "z", "w"], 150)
    effect = (frame["ward"] == "x") * 2.0 - (frame["ward"] == "y")
    frame["y"] = (effect + frame["age"] - frame["dose"] + 0.5 * rng.normal(size=150)).round(3)
    return frame


def fit(table, folder, *words, command="fit"):
    table.to_csv(folder / "t.csv", index=False)
    own = ["--alpha", "0.15"] if command == "fit" else ["--pk", "2,1", "--alphas", "8", "--folds", "3"]
    own += ["--task", "site", "--target", "y", "-o", folder / "m.mmtfl", "--force", "-q"]
    return [command, folder / "t.csv", *own, *words]


def kept(path):
    model = mmtfl.load(path)
    return {name for name, c in zip(model.feature_names_in_, model.c_, strict=True) if c > 0}


@pytest.mark.parametrize("command", ["fit", "cv"])
def test_the_levels_of_a_column_come_in_or_stay_out_together(table, tmp_path, capsys, command):
    run(fit(table, tmp_path, command=command), capsys)
    levels = {"ward=w", "ward=x", "ward=y", "ward=z"} - {f"ward={table['ward'].mode()[0]}"}
    assert kept(tmp_path / "m.mmtfl") & levels in (set(), levels)


def test_a_search_tries_pooling_with_groups(table, tmp_path, capsys):
    words = [word for word in fit(table, tmp_path, command="cv") if word not in ("--pk", "2,1")]
    run(words, capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    assert model.feature_groups and {0.0, 0.9, 0.99} < set(model.cv_results_["pooling"])


def test_a_pooled_fit_keeps_levels_together(table, tmp_path, capsys):
    run(fit(table, tmp_path, "--pooling", "0.9"), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    assert model.feature_groups and model.common_.any()


def test_weights_and_signs_are_those_of_the_estimator_by_column(table, tmp_path, capsys):
    words = ["--penalty-weight", "iron=0", "ward=inf", "--positive", "dose"]
    run(fit(table, tmp_path, *words), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    names, reference = model.feature_names_in_.tolist(), f"ward={table['ward'].mode()[0]}"
    levels = [f"ward={level}" for level in "wxyz" if f"ward={level}" != reference]
    assert not model.coef_[:, [names.index(level) for level in levels]].any()
    assert model.coef_[:, names.index("iron")].all()
    assert (model.coef_[:, names.index("dose")] >= 0).all()
    X = pd.get_dummies(table[["age", "dose", "iron", "ward"]], prefix_sep="=", dtype=float)
    X, weight = X.drop(columns=reference), {"iron": 0.0, **dict.fromkeys(levels, np.inf)}
    by_hand = mmtfl.MMTFLRegressor(
        alpha=0.15, standardize=True, penalty_weight=weight, positive=["dose"],
        feature_groups=[levels],
    ).fit(X, table["y"], task=table["site"])  # fmt: skip
    assert_allclose(model.coef_, by_hand.coef_, atol=1e-6)


def test_a_column_that_a_task_lacks_is_no_feature_of_it_on_request(table, tmp_path, capsys):
    table = table.assign(
        iron=table["iron"].where(table["site"] != "c"), ward=table["ward"].where(table["site"] != "b")
    )
    run(fit(table, tmp_path, "--absent-features", "allow", "--penalty-weight", "iron=0"), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    names = model.feature_names_in_.tolist()
    assert (model.coef_[:, names.index("iron")] != 0).tolist() == [True, True, False]
    assert not model.coef_[1, names.index("ward=x")]
    run(["predict", tmp_path / "m.mmtfl", tmp_path / "t.csv", "-o", tmp_path / "p.csv", "-q"], capsys)
    assert pd.read_csv(tmp_path / "p.csv")["prediction"].notna().all()
    table.loc[3, "age"] = np.nan
    run(fit(table, tmp_path, "--absent-features", "allow"), capsys)  # single cells are filled


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--penalty-weight", "iorn=0"), "--penalty-weight names the column 'iorn', which is no feature"),
        (("--penalty-weight", "iron"), "--penalty-weight 'iron' is not COLUMN=W"),
        (("--positive", "ages"), "--positive names the column 'ages', which is no feature"),
        (("--penalty-weight", "iron=-1"), "weights are positive"),
    ],
)
def test_bad_knowledge_is_told_in_one_line(table, tmp_path, capsys, words, told):
    assert told in refusal(fit(table, tmp_path, *words), capsys)


def test_methods_without_weights_say_so(table, tmp_path, capsys):
    words = fit(table, tmp_path, "--method", "robust", "--positive", "all", command="cv")
    words = [word for word in words if word not in ("--pk", "2,1")]
    assert "--positive does not go with --method robust" in refusal(words, capsys)
