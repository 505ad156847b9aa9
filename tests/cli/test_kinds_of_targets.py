"""Losses on the command line: counts, outliers, and a loss for each task or target, from table to report."""

import numpy as np
import pandas as pd
import pytest

import mmtfl
from cli.typed import refusal, run

KINDS = {"stay": "squared", "visits": "poisson", "died": "logistic"}
COUNTS = "--target visits --drop stay died --loss poisson"


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


def test_counts_from_table_to_report(records, capsys):
    model, table = records / "visits.mmtfl", records / "records.csv"
    out = run(["cv", table, COUNTS, "--pk 2,1 --alphas 5 --folds 3 -o", model], capsys).out
    assert "Held-out deviance explained" in out
    loaded = mmtfl.load(model)
    assert loaded.loss == "poisson" and not loaded.scale_targets
    assert (loaded.predict(pd.read_csv(table)) > 0.0).all()
    assert "deviance explained held out" in " ".join(run(["inspect", model], capsys).out.split())
    run(["report", model, table, "-o", records / "page.html"], capsys)
    page = (records / "page.html").read_text(encoding="utf-8")
    assert "eviance" in page and "R²" not in page
    assert "90 % of new counts are expected within the intervals" in page


def test_a_loss_for_each_target_and_for_each_task_give_the_same(records, capsys):
    one, other = records / "columns.mmtfl", records / "rows.mmtfl"
    common = ["--alpha 0.2 -q --loss", *(f"{name}={kind}" for name, kind in KINDS.items())]
    run(["fit", records / "records.csv", "--target", *KINDS, *common, "-o", one], capsys)
    run(["fit", records / "rows.csv", "--task kind --target y", *common, "-o", other], capsys)
    models = [mmtfl.load(path) for path in (one, other)]
    assert dict(models[0].loss) == dict(models[1].loss) == KINDS
    by_label = [dict(zip(model.tasks_.tolist(), model.coef_, strict=True)) for model in models]
    for name in KINDS:
        np.testing.assert_allclose(by_label[0][name], by_label[1][name], atol=1e-5)
    run(["predict", other, records / "rows.csv", "-q -o", records / "said.csv"], capsys)
    said = pd.read_csv(records / "said.csv").query("kind == 'died'")["prediction"]
    assert ((said > 0.0) & (said < 1.0)).all()


def test_targets_of_two_kinds_are_found_from_their_columns(records, capsys):
    table, model = records / "records.csv", records / "m.mmtfl"
    fit = ["fit", table, "--target died stay --drop visits --alpha 0.05 --force -o", model]
    assert "'died' has the values 0 and 1 only: fitted with the logistic loss" in run(fit, capsys).err
    assert mmtfl.load(model).loss == {"died": "logistic", "stay": "squared"}
    run(["predict", model, table, "-q -o", records / "p.csv"], capsys)
    chance, died = pd.read_csv(records / "p.csv")["prediction_died"], pd.read_csv(table)["died"]
    assert chance.between(0.0, 1.0).all()
    assert chance[died == 1].mean() > chance[died == 0].mean() + 0.2
    assert run([*fit, "--regress -q"], capsys).err == ""
    assert mmtfl.load(model).loss == "squared"
    pd.read_csv(table).replace({"died": {0: "no", 1: "yes"}}).to_csv(table, index=False)
    assert "write the classes as 0 and 1" in refusal(fit, capsys)


def test_the_default_strength_is_that_of_the_loss(records, capsys):
    run(["fit", records / "records.csv", COUNTS, "-q -o", records / "m.mmtfl"], capsys)
    table = pd.read_csv(records / "records.csv")
    options = {"loss": "poisson", "standardize": True, "alphas": 2}
    top = mmtfl.path(table[list("abcd")], table["visits"], **options).alphas[0]
    np.testing.assert_allclose(mmtfl.load(records / "m.mmtfl").alpha, 0.1 * top, rtol=0.01)


def test_what_was_typed_is_kept(records, capsys):
    words = "--target stay --drop visits died --loss huber --delta 0.5 --alpha 0.1 -q -o"
    run(["fit", records / "records.csv", words, records / "h.mmtfl"], capsys)
    model = mmtfl.load(records / "h.mmtfl")
    assert (model.loss, model.delta, model.scale_targets) == ("huber", 0.5, True)
    assert set(model.provenance_["training"]) == {"n_rows", "deviance_explained"}
