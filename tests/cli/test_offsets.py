"""--offset and --exposure: known parts of the linear predictor, in fit, cv, predict, report and add-task."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mmtfl
from cli.typed import refusal, run


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=200).round(3), "years": rng.uniform(0.5, 8.0, 200).round(2)})
    frame["site"] = np.repeat(["a", "b"], 100)
    rate = np.exp(0.5 * frame["age"] + (frame["site"] == "b"))
    return frame.assign(visits=rng.poisson(rate * frame["years"]))


def fitted(folder, frame, words, capsys=None, command="fit"):
    """The command on the table of visits; the model with ``capsys``."""
    frame.to_csv(folder / "v.csv", index=False)
    own = "--task site --target visits --loss poisson -q --force -o"
    tokens = [command, folder / "v.csv", own, folder / "m.mmtfl", words]
    if capsys is None:
        return tokens
    run(tokens, capsys)
    return mmtfl.load(folder / "m.mmtfl")


def test_an_exposure_is_the_offset_of_its_logarithm(visits, tmp_path, capsys):
    model = fitted(tmp_path, visits, "--exposure years --alpha 0.001", capsys)
    X, known = visits[["age"]], {"task": visits["site"], "offset": np.log(visits["years"])}
    by_hand = mmtfl.MMTFLRegressor(alpha=0.001, loss="poisson", standardize=True, levels="shrunk")
    by_hand.fit(X, visits["visits"], **known)
    assert_allclose(model.coef_, by_hand.coef_, atol=1e-6)
    assert_allclose(model.coef_[:, 0], 0.5, atol=0.1)  # the effect on the rate
    run(["predict", tmp_path / "m.mmtfl", tmp_path / "v.csv", "-q -o", tmp_path / "p.csv"], capsys)
    assert_allclose(pd.read_csv(tmp_path / "p.csv")["prediction"], by_hand.predict(X, **known), rtol=1e-5)
    logged = visits.assign(years=np.log(visits["years"]))
    again = fitted(tmp_path, logged, "--offset years --alpha 0.001", capsys)
    assert_allclose(again.coef_, model.coef_, atol=1e-6)


def test_a_search_a_default_strength_and_the_report_take_the_exposure_along(visits, tmp_path, capsys):
    fitted(tmp_path, visits, "--exposure years", capsys)
    run(["report", tmp_path / "m.mmtfl", tmp_path / "v.csv", "-o", tmp_path / "r.html"], capsys)
    search = "--exposure years --pk 2,1 --alphas 6 --folds 3 --poolings 0"
    model = fitted(tmp_path, visits, search, capsys, command="cv")
    assert_allclose(model.coef_[:, 0], 0.5, atol=0.1)
    assert "years" not in model.feature_names_in_
    words = ["predict", tmp_path / "m.mmtfl", tmp_path / "v.csv", "--interval 0.9 -q -o", tmp_path / "i.csv"]
    run(words, capsys)
    found = pd.read_csv(tmp_path / "i.csv")
    assert 0.85 <= found["visits"].between(found["lower"], found["upper"]).mean() <= 0.99
    assert (found["upper"] - found["lower"]).corr(found["prediction"]) > 0.5  # wider where more is expected


def test_an_absent_exposure_is_told(visits, tmp_path, capsys):
    fitted(tmp_path, visits, "--exposure years --alpha 0.01", capsys)
    visits.drop(columns="years").to_csv(tmp_path / "lost.csv", index=False)
    assert "no column 'years'" in refusal(["predict", tmp_path / "m.mmtfl", tmp_path / "lost.csv"], capsys)


def test_new_tasks_take_the_exposure_along(visits, tmp_path, capsys):
    known = fitted(tmp_path, visits, "--exposure years --alpha 0.001", capsys)
    new = visits.assign(site="c", visits=visits["visits"] // 2)
    new.to_csv(tmp_path / "new.csv", index=False)
    run(["add-task", tmp_path / "m.mmtfl", tmp_path / "new.csv", "-q -o", tmp_path / "more.mmtfl"], capsys)
    own = known.add_task(new[["age"]], new["visits"], task="c", offset=np.log(new["years"].to_numpy()))
    assert_allclose(mmtfl.load(tmp_path / "more.mmtfl").coef_, own.coef_, rtol=1e-6)
