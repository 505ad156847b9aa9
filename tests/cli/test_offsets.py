"""--offset and --exposure: known parts of the linear predictor, in fit, cv and predict."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mmtfl
from cli.test_tables import refusal, run


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=200).round(3), "years": rng.uniform(0.5, 8.0, 200).round(2)})
    frame["site"] = np.repeat(["a", "b"], 100)
    rate = np.exp(0.5 * frame["age"] + (frame["site"] == "b"))
    frame["visits"] = rng.poisson(rate * frame["years"])
    return frame


def words(folder, frame, *more, command="fit"):
    frame.to_csv(folder / "v.csv", index=False)
    own = ["--task", "site", "--target", "visits", "--loss", "poisson", "-o", folder / "m.mmtfl"]
    own += ["-q", "--force"]
    return [command, folder / "v.csv", *own, *more]


def test_an_exposure_is_the_offset_of_its_logarithm(visits, tmp_path, capsys):
    run(words(tmp_path, visits, "--exposure", "years", "--alpha", "0.001"), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    X = visits[["age"]]
    by_hand = mmtfl.MMTFLRegressor(alpha=0.001, loss="poisson", standardize=True, levels="shrunk")
    by_hand.fit(X, visits["visits"], task=visits["site"], offset=np.log(visits["years"]))
    assert_allclose(model.coef_, by_hand.coef_, atol=1e-6)
    assert_allclose(model.coef_[:, 0], 0.5, atol=0.1)  # the effect on the rate
    run(["predict", tmp_path / "m.mmtfl", tmp_path / "v.csv", "-o", tmp_path / "p.csv", "-q"], capsys)
    expected = by_hand.predict(X, task=visits["site"], offset=np.log(visits["years"]))
    assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], expected, rtol=1e-5)
    logged = visits.assign(years=np.log(visits["years"]))
    run(words(tmp_path, logged, "--offset", "years", "--alpha", "0.001"), capsys)
    assert_allclose(mmtfl.load(tmp_path / "m.mmtfl").coef_, model.coef_, atol=1e-6)


def test_a_search_and_a_default_strength_take_the_exposure_along(visits, tmp_path, capsys):
    run(words(tmp_path, visits, "--exposure", "years"), capsys)
    more = ["--pk", "2,1", "--alphas", "6", "--folds", "3", "--poolings", "0"]
    run(words(tmp_path, visits, "--exposure", "years", *more, command="cv"), capsys)
    model = mmtfl.load(tmp_path / "m.mmtfl")
    assert_allclose(model.coef_[:, 0], 0.5, atol=0.1)
    assert "years" not in model.feature_names_in_
    table = tmp_path / "i.csv"
    run(["predict", tmp_path / "m.mmtfl", tmp_path / "v.csv", "--interval", "0.9", "-o", table, "-q"], capsys)
    found = pd.read_csv(table)
    assert 0.85 <= found["visits"].between(found["lower"], found["upper"]).mean() <= 0.99
    assert (found["upper"] - found["lower"]).corr(found["prediction"]) > 0.5  # wider where more is expected


def test_what_does_not_take_offsets_says_so_and_bad_exposures_are_told(visits, tmp_path, capsys):
    run(words(tmp_path, visits, "--exposure", "years", "--alpha", "0.01"), capsys)
    page = ["report", tmp_path / "m.mmtfl", tmp_path / "v.csv", "-o", tmp_path / "r.html"]
    run(page, capsys)
    bad = visits.assign(years=visits["years"].where(visits.index != 4, 0.0))
    told = refusal(words(tmp_path, bad, "--exposure", "years", "--alpha", "0.01"), capsys)
    assert "Exposure 'years' is 0 in data row 5" in told
    lost = pd.read_csv(tmp_path / "v.csv").drop(columns="years")
    lost.to_csv(tmp_path / "lost.csv", index=False)
    assert "no column 'years'" in refusal(["predict", tmp_path / "m.mmtfl", tmp_path / "lost.csv"], capsys)


def test_targets_of_two_kinds_are_found_from_their_columns(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 3)).round(3), columns=["a", "b", "c"])
    frame["stay"] = (5 * frame["a"] + rng.normal(size=150)).round(2)
    frame["death"] = (frame["a"] + rng.normal(size=150) > 0).astype(int)
    frame.to_csv(tmp_path / "m.csv", index=False)
    fit = ["fit", tmp_path / "m.csv", "--target", "death", "--target", "stay", "--alpha", "0.05", "--force"]
    told = run([*fit, "-o", tmp_path / "m.mmtfl"], capsys).err
    assert "'death' has the values 0 and 1 only: fitted with the logistic loss" in told
    model = mmtfl.load(tmp_path / "m.mmtfl")
    assert model.loss == {"death": "logistic", "stay": "squared"}
    run(["predict", tmp_path / "m.mmtfl", tmp_path / "m.csv", "-o", tmp_path / "p.csv", "-q"], capsys)
    chance = pd.read_csv(tmp_path / "p.csv")["prediction_death"]
    assert chance.between(0.0, 1.0).all()
    assert chance[frame["death"] == 1].mean() > chance[frame["death"] == 0].mean() + 0.2
    assert run([*fit, "-o", tmp_path / "m.mmtfl", "--regress", "-q"], capsys).err == ""
    assert mmtfl.load(tmp_path / "m.mmtfl").loss == "squared"
    frame.assign(death=np.where(frame["death"], "yes", "no")).to_csv(tmp_path / "m.csv", index=False)
    assert "write the classes as 0 and 1" in refusal([*fit, "-o", tmp_path / "m.mmtfl"], capsys)


def test_new_tasks_take_the_exposure_along(visits, tmp_path, capsys):
    run(words(tmp_path, visits, "--exposure", "years", "--alpha", "0.001"), capsys)
    visits.assign(site="c", visits=visits["visits"] // 2).to_csv(tmp_path / "new.csv", index=False)
    added = ["add-task", tmp_path / "m.mmtfl", tmp_path / "new.csv", "-o", tmp_path / "more.mmtfl", "-q"]
    run(added, capsys)
    wider, known = mmtfl.load(tmp_path / "more.mmtfl"), mmtfl.load(tmp_path / "m.mmtfl")
    own = known.add_task(
        visits[["age"]], visits["visits"] // 2, task="c", offset=np.log(visits["years"].to_numpy())
    )
    assert_allclose(wider.coef_, own.coef_, rtol=1e-6)
