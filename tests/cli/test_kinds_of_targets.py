"""Losses on the command line: counts, outliers, and a loss for each task or target, from table to report."""

import numpy as np
import pandas as pd
import pytest

import mmtfl
from mmtfl.cli import main as cli

KINDS = {"stay": "squared", "visits": "poisson", "died": "logistic"}


@pytest.fixture
def records(tmp_path):
    """Sixty patients with three targets, and the same as rows of three tasks."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    z = X["a"] - 0.5 * X["b"]
    stay, died = 24.0 * (z + rng.normal(size=60)), (rng.random(60) < 1 / (1 + np.exp(-2 * z))).astype(int)
    targets = pd.DataFrame({"stay": stay, "visits": rng.poisson(np.exp(0.3 + 0.5 * z)), "died": died})
    pd.concat([X, targets], axis=1).to_csv(tmp_path / "records.csv", index=False)
    rows = [X.assign(kind=name, y=targets[name]) for name in KINDS]
    pd.concat(rows).to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path


def run(*words):
    return cli.main([str(word) for word in words])


def mixed():
    return [f"{name}={kind}" for name, kind in KINDS.items()]


def test_counts_from_table_to_report(records, capsys):
    model = records / "visits.mmtfl"
    words = ["--target", "visits", "--drop", "stay", "died", "--loss", "poisson"]
    quick = ["--pk", "2,1", "--alphas", 5, "--folds", 3]
    assert run("cv", records / "records.csv", *words, *quick, "-o", model) == 0
    assert "Held-out deviance explained" in capsys.readouterr().out
    loaded = mmtfl.load(model)
    assert loaded.loss == "poisson" and not loaded.scale_targets
    frame = pd.read_csv(records / "records.csv")
    assert (loaded.predict(frame) > 0.0).all()
    assert run("inspect", model) == 0
    assert "deviance explained held out" in " ".join(capsys.readouterr().out.split())
    assert run("report", model, records / "records.csv", "-o", records / "page.html") == 0
    page = (records / "page.html").read_text(encoding="utf-8")
    assert "eviance" in page and "R²" not in page
    assert "90 % of new counts are expected within the intervals" in page


def test_a_loss_for_each_target_and_for_each_task_give_the_same(records, capsys):
    one, other = records / "columns.mmtfl", records / "rows.mmtfl"
    common = ["--alpha", 0.2, "--loss", *mixed()]
    assert run("fit", records / "records.csv", "--target", *KINDS, *common, "-o", one, "-q") == 0
    words = ["--task", "kind", "--target", "y", *common, "-o", other, "-q"]
    assert run("fit", records / "rows.csv", *words) == 0
    models = [mmtfl.load(path) for path in (one, other)]
    assert dict(models[0].loss) == dict(models[1].loss) == KINDS
    by_label = [dict(zip(model.tasks_.tolist(), model.coef_, strict=True)) for model in models]
    for name in KINDS:
        np.testing.assert_allclose(by_label[0][name], by_label[1][name], atol=1e-5)
    assert run("predict", other, records / "rows.csv", "-o", records / "said.csv", "-q") == 0
    said = pd.read_csv(records / "said.csv")
    died = said.loc[said["kind"] == "died", "prediction"]
    assert ((died > 0.0) & (died < 1.0)).all()
    capsys.readouterr()


def test_the_default_strength_is_that_of_the_loss(records, capsys):
    words = ["--target", "visits", "--drop", "stay", "died", "--loss", "poisson", "-o"]
    assert run("fit", records / "records.csv", *words, records / "m.mmtfl", "-q") == 0
    X, y = pd.read_csv(records / "records.csv")[list("abcd")], pd.read_csv(records / "records.csv")["visits"]
    top = mmtfl.path(X, y, loss="poisson", standardize=True, alphas=2).alphas[0]
    np.testing.assert_allclose(mmtfl.load(records / "m.mmtfl").alpha, 0.1 * top, rtol=0.01)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "visits", "--loss", "poison"], "there is no loss 'poison'"),
        (["--target", "visits", "--loss", "visits:poisson", "died"], "is neither a loss nor LABEL=LOSS"),
        (["--target", "died", "--classify", "--loss", "huber"], "--classify makes them classes"),
        (["--target", "stay", "--loss", "poisson"], "the poisson loss needs counts"),
        (["--target", "stay", "visits", "--loss", "stay=squared"], "names no loss for task 'visits'"),
    ],
)
def test_losses_that_do_not_go_are_told_in_one_line(records, words, said, capsys):
    assert run("fit", records / "records.csv", *words, "-o", records / "m.mmtfl") != 0
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_what_was_typed_is_kept(records, capsys):
    path = records / "h.mmtfl"
    words = [
        "--target",
        "stay",
        "--drop",
        "visits",
        "died",
        "--loss",
        "huber",
        "--delta",
        0.5,
        "--alpha",
        0.1,
    ]
    assert run("fit", records / "records.csv", *words, "-o", path, "-q") == 0
    model = mmtfl.load(path)
    assert (model.loss, model.delta, model.scale_targets) == ("huber", 0.5, True)
    assert set(model.provenance_["training"]) == {"n_rows", "deviance_explained"}
    capsys.readouterr()
