"""A model of the command line predicts a table as people have it: how it is encoded is in its file."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mmtfl
from mmtfl.cli.main import main
from mmtfl.tables.reading import TableError


def visits(n=90, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"site": rng.choice(["Bern", "Cork", "Delft"], n)})
    frame = frame.assign(age=rng.normal(50, 10, n).round(1), ward=rng.choice(["east", "north", "west"], n))
    frame = frame.assign(noise=rng.normal(size=n).round(2))
    stay = 0.3 * frame["age"] + 3 * (frame["ward"] == "west") + 0.1 * rng.normal(size=n)
    return frame.assign(stay=stay.round(3), long=np.where(stay > stay.median(), "yes", "no"))


COMMANDS = {
    "stay": "fit --target stay --drop long --alpha 0.1",
    "long": "fit --target long --drop stay --alpha 0.05",
    "searched": "cv --target long --drop stay --alphas 6 --folds 3",
    "dirty": "cv --target long --drop stay --method dirty --alphas 3 --folds 3",
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    visits().to_csv(folder / "visits.csv", index=False)
    for name, words in COMMANDS.items():
        command, *options = words.split()
        output = str(folder / f"{name}.mmtfl")
        tokens = [command, str(folder / "visits.csv"), "--task", "site", *options, "-q", "-o", output]
        assert main(tokens) == 0
    return {name: mmtfl.load(folder / f"{name}.mmtfl") for name in COMMANDS}


def encoded(frame):
    """The features without our encoder; west is the most frequent ward of the fit."""
    X = pd.get_dummies(frame[["age", "ward", "noise"]], prefix_sep="=", dtype=float)
    return X[["age", "ward=east", "ward=north", "noise"]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_raw_frame_is_predicted_as_the_encoded_one(models, make, name):
    model, frame = models[name], visits(30, seed=1)
    X, task, raw = encoded(frame), frame["site"].to_numpy(), make(frame)
    methods = ["predict"] if name == "stay" else ["predict", "predict_proba", "decision_function"]
    for method in methods:
        found, expected = getattr(model, method)(raw), getattr(model, method)(X, task=task)
        same = assert_array_equal if found.dtype.kind == "U" else partial(assert_allclose, rtol=1e-9)
        same(found, expected)
        same(getattr(model, method)(raw, task=task), expected)
    y = frame["stay" if name == "stay" else "long"].to_numpy()
    assert_allclose(model.score(raw, y), model.score(X, y, task=task))
    assert model.score(raw, y) > 0.7
    with pytest.raises(ValueError, match="each row needs a label"):
        model.predict(X)


def test_columns_no_task_uses_may_be_absent_or_spoilt(models):
    model, frame = models["stay"], visits(30, seed=1)
    assert not model.coef_[:, 3].any() and model.coef_[:, 0].all()
    assert_array_equal(model.predict(frame.drop(columns=["noise", "stay", "long"])), model.predict(frame))
    assert_array_equal(model.predict(frame.assign(noise="?")), model.predict(frame))
    with pytest.raises(ValueError, match="no column 'age', which the model needs"):
        model.predict(frame.drop(columns=["age"]))
    with pytest.raises(TableError, match="no column 'site'"):
        model.predict(frame.drop(columns=["site"]))


def test_labels_are_read_without_spaces_and_unknown_ones_told(models):
    model, frame = models["stay"], visits(30, seed=1)
    padded = frame.assign(site=" " + frame["site"] + " ")
    assert_array_equal(model.predict(padded), model.predict(frame))
    with pytest.raises(ValueError, match=r"Unknown task 'Berne' .*Is 'Berne' meant to be 'Bern'\?"):
        model.predict(frame.assign(site="Berne"))
    with pytest.raises(TableError, match="3 rows without a label"):
        model.predict(frame.assign(site=["", " ", None, *frame["site"][3:]]))
    with pytest.warns(UserWarning, match="'ward' has 'south'"):
        model.predict(frame.assign(ward="south"))
