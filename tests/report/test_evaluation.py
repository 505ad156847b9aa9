"""Held-out predictions of a model and of its rivals, against ones written out by hand."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression

from mmtfl import MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.cli.main import main
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import TaskKFold
from mmtfl.report import evaluation as evaluation_module
from mmtfl.report.evaluation import evaluate
from mmtfl.report.rivals import Rows
from models import data_of, fitted

SIZE = {"n_tasks": 4, "n_samples": 30, "n_features": 8, "n_informative": 3, "noise": 0.5, "random_state": 0}


def regression(**options):
    return make_tasks(**{**SIZE, **options})


def classification():
    return regression(n_samples=60, classification=True)


def fit(model, data):
    return model.fit(data.X, data.y, task=data.task)


def test_predictions_are_those_of_models_that_did_not_see_the_row():
    """With next to no penalty and few features the model is least squares, which can be refitted here."""
    data = regression(n_samples=50, n_features=3)
    found = evaluate(fit(MMTFLRegressor(p=2, k=2, alpha=1e-9), data), data.X, data.y, data.task)
    held_out = np.full(len(data.y), np.nan)
    for train, test in TaskKFold(3, random_state=0).split(data.X, task=data.task):
        for label in np.unique(data.task):
            rows, asked = train[data.task[train] == label], test[data.task[test] == label]
            held_out[asked] = LinearRegression().fit(data.X[rows], data.y[rows]).predict(data.X[asked])
    assert_allclose(found.heldout.means["own"], held_out, atol=1e-4)
    assert found.rivals == ["separate", "pooled", "boosting"]
    assert_array_equal(found.n_rows, [50] * 4)


def test_a_search_is_made_again_in_every_training_part():
    data = regression()
    search = fit(MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=8, cv=5, standardize=True), data)
    found = evaluate(search, data.X, data.y, data.task)
    assert found.strength == "tuned"
    rows = Rows.of_model(search, data.X, data.y, data.task)
    held_out = np.full(len(data.y), np.nan)
    for train, test in rows.folds():
        again = MMTFLRegressorCV(pk=search.pk, alphas=8, cv=rows.select(train).folds(), standardize=True)
        again.fit(data.X[train], data.y[train], task=data.task[train])
        held_out[test] = again.predict(data.X[test], task=data.task[test])
    assert_allclose(found.heldout.means["own"], held_out, rtol=1e-6, atol=1e-6)


def test_a_search_on_a_large_table_keeps_its_choice(monkeypatch):
    data = regression()
    search = fit(MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=8, cv=3, standardize=True, poolings=(0,)), data)
    monkeypatch.setattr(evaluation_module, "MOST_TUNED", 10)
    assert evaluate(search, data.X, data.y, data.task).strength == "kept"
    monkeypatch.setattr(evaluation_module, "MOST_ENTRIES", 10)
    found = evaluate(search, data.X, data.y, data.task)
    assert "million" in found.reason and found.heldout is None


def test_one_model_wins_where_tasks_are_one():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(120, 6)), np.repeat(list("abcdefgh"), 15)
    y = X @ [2.0, -2.0, 1.0, 1.0, -1.0, 1.0] + rng.normal(size=120)
    found = evaluate(MMTFLRegressor(p=1, k=1, alpha=0.3).fit(X, y, task=task), X, y, task)
    assert found.best_rival == "pooled"
    assert found.heldout.beside("own", "pooled").outcome == "worse"


def test_targets_of_every_kind_are_compared():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(240, 3)), np.repeat(list("abcd"), 60)
    counts = rng.poisson(np.exp(0.5 * X[:, 0] + 0.3))
    model = MMTFLRegressor(alpha=0.01, loss="poisson").fit(X, counts, task=task)
    found = evaluate(model, X, counts, task)
    assert (found.kind, len(found.rivals)) == ("counts", 3)
    assert 0.05 < found.heldout.explained_within("own") < 0.6
    mixed = MMTFLRegressor(alpha=0.01, loss={"a": "squared", **dict.fromkeys("bcd", "poisson")}).fit(
        X, counts, task=task
    )
    assert evaluate(mixed, X, counts, task).heldout is None
    data = classification()
    named = evaluate(fit(MMTFLClassifier(alpha=0.02), data), data.X, data.y, data.task)
    assert named.kind == "classes" and named.heldout.concordance("own")[0] > 0.7


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("regressor", "log edge"),
        ("regressor", "dirty"),
        ("regressor", "separate"),
        ("classifier", "two strengths"),
    ],
)
def test_every_way_to_a_model_is_compared(kind, name):
    data = data_of(kind)
    found = evaluate(fitted(kind, name), data.X, data.y, data.task)
    assert found.reason is None and len(found.rivals) == 3
    alone = evaluate(MMTFLRegressor(alpha=0.1).fit(data.X[:40], data.X[:40, 0]), data.X[:40], data.X[:40, 0])
    assert len(alone.rivals) == 2  # one task
    assert all(np.isfinite(mean).all() for mean in found.heldout.means.values())


def test_several_targets_of_one_row_are_held_out_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = (X[:, :1] + 0.1 * rng.normal(size=(60, 3))) * [1.0, 100.0, 0.01]
    Y[::7, 1] = np.nan
    model = MMTFLRegressor(alpha=0.05, scale_targets=True).fit(X, Y)
    rows = Rows.of_model(model, X, Y)
    assert len(rows.y) == np.isfinite(Y).sum()
    for train, test in rows.folds():
        assert not set(rows.source[train]) & set(rows.source[test])
    found = evaluate(model, X, Y, seen=False)
    assert not found.heldout.one_unit and found.heldout.explained_within("own") > 0.8
    assert found.saved.explained_within("own") > 0.8


def test_groups_of_features_by_name_and_columns_of_tasks_are_kept():
    """Text columns of several levels are groups that name their features."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 4)), columns=["age", "ward=a", "ward=b", "ward=c"])
    frame["site"] = np.repeat(list("uvw"), 40)
    y = frame["age"] + frame["ward=b"] + 0.1 * rng.normal(size=120)
    groups = [["ward=a", "ward=b", "ward=c"]]
    model = MMTFLRegressor(2, 2, 0.01, feature_groups=groups, task_column="site").fit(frame, y)
    found = evaluate(model, frame, y)
    assert found.reason is None and found.heldout.explained_within("own") > 0.9


def test_tasks_are_judged_without_the_features_they_lack():
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(120, 4)) + 5.0, np.repeat(["u", "v", "w"], 40)
    y = 2.0 * X[:, 0] + np.where(site == "w", 0.0, X[:, 1]) + 0.1 * rng.normal(size=120)
    X[site == "w", 1] = np.nan
    model = MMTFLRegressor(2, 2, alpha=0.01, absent_features="allow").fit(X, y, task=site)
    found = evaluate(model, X, y, site)
    assert found.heldout.score_by_task("own").min() > 0.95


def test_an_offset_goes_along():
    rng = np.random.default_rng(0)
    X, task, offset = rng.normal(size=(120, 2)), np.repeat([0, 1], 60), 5.0 * rng.normal(size=120)
    y = X[:, 0] + offset + 0.1 * rng.normal(size=120)
    model = MMTFLRegressor(2, 2, 0.01).fit(X, y, task=task, offset=offset)
    found = evaluate(model, X, y, task, offset=offset)
    assert min(found.heldout.explained_within(who) for who in ("own", "separate", "pooled")) > 0.99
    counts = rng.poisson(np.exp(np.clip(0.5 * X[:, 0] + 0.2 * offset, None, 3.0)))
    model = MMTFLRegressor(2, 2, 0.01, loss="poisson").fit(X, counts, task=task, offset=0.2 * offset)
    found = evaluate(model, X, counts, task, offset=0.2 * offset)
    assert found.rivals == [] and found.heldout.explained_within("own") > 0.2


@pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
def test_a_task_with_one_row_has_no_score_and_does_not_stop_the_others():
    data = regression()
    task = data.task.astype(object)
    task[0] = "alone"
    model = MMTFLRegressor(alpha=0.1).fit(data.X, data.y, task=task.astype(str))
    found = evaluate(model, data.X, data.y, task.astype(str))
    scores = dict(zip(found.labels, found.heldout.score_by_task("own"), strict=False))
    assert np.isnan(scores.pop("alone", np.nan)) and np.isfinite(list(scores.values())).all()


def test_the_model_is_left_as_it_was():
    data = regression()
    model = fit(MMTFLRegressorCV(pk=(2, 1), alphas=4, cv=3), data)
    before = {name: np.copy(value) for name, value in vars(model).items() if isinstance(value, np.ndarray)}
    evaluate(model, data.X, data.y, data.task)
    assert before
    for name, value in before.items():
        assert_array_equal(getattr(model, name), value)


@pytest.fixture(scope="module")
def raw():
    rng = np.random.default_rng(0)
    n = 360
    frame = pd.DataFrame({"school": rng.choice(list("abcdef"), n), "age": rng.uniform(20, 80, n).round(1)})
    frame["livch"] = rng.choice(["0", "1", "2", "3+"], n)
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    frame["income"] = np.where(rng.uniform(size=n) < 0.1, np.nan, rng.lognormal(size=n).round(2))
    z = ((frame["age"] - 50) / 15) ** 2 + (frame["livch"] == "3+")
    frame["score"] = (z + 0.5 * rng.normal(size=n)).round(3)
    frame["passed"] = np.where(z + rng.logistic(size=n) > 1.5, "yes", "no")
    frame["visits"] = rng.poisson(np.exp(0.3 * z))
    frame.loc[frame["school"] == "f", ["passed", "visits"]] = "no", 0  # one class, and nothing but zeros
    return frame


KINDS = {
    "score": (["--curves", "yes"], "of all differences in score between rows are explained"),
    "passed": ([], "chance that a row with passed = yes is ranked above one without it"),
    "visits": (["--loss", "poisson"], "of all differences in visits between rows are explained"),
}


@pytest.mark.parametrize("target", KINDS)
def test_a_raw_table_makes_a_page_without_raw_warnings(raw, target, tmp_path, capfd):
    table, model, page = (tmp_path / name for name in ("t.csv", "m.mmtfl", "r.html"))
    raw.drop(columns=[name for name in KINDS if name != target]).to_csv(table, index=False)
    options, figure = KINDS[target]
    words = ["--task", "school", "--target", target, *options, "-o", str(model)]
    assert main(["cv", str(table), *words]) == 0
    assert main(["report", str(model), str(table), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert figure in text and ("within a school are" in text or "two rows of one school" in text)
    assert "best of 3 rivals" in text and "could not be refitted" not in text
    assert "Levels are compared with: livch" in text
    assert target != "score" or "Effect of age against its values" in text
    err = capfd.readouterr().err
    assert "Warning" not in err and "Traceback" not in err
