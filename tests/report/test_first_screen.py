"""The first screen and the table of effects: every answer on cases with a known one."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from mmtfl import MMTFLClassifier, MMTFLClassifierCV, MMTFLRegressor
from mmtfl.inference.heldout_errors import reliability
from mmtfl.report.html import calibration_picture, render_report
from mmtfl.report.sentences import EffectPage, calibration, first_answers, p_value, with_interval

CITY = ("city", "cities")


def errors_of(*tasks, **more):
    n = np.array([len(part) for part in tasks])
    return {"n_rows": n, "n_kept": n, "error": np.concatenate(tasks), **more}


def answers(model=None, verdict=(), levels=""):
    return dict(first_answers(model or SimpleNamespace(), list(verdict), levels, CITY))


def test_what_is_not_known_is_said_with_the_remedy():
    found = answers()
    assert "not tuned" in found["How well does it predict?"][0]
    assert "mmtfl calibrate" in found["How far off may it be?"][0]
    assert "effects=True" in found["What matters?"][0]


def test_the_width_of_intervals_is_that_of_the_middle_task():
    # 99 errors 1, ..., 99: nine in ten new rows are within 90; twice, and half of it
    tasks = [factor * np.arange(1.0, 100.0) for factor in (0.5, 1.0, 2.0)]
    model = SimpleNamespace(heldout_errors_=errors_of(*tasks), borrowing_tasks_=np.array(["a"]))
    text = answers(model)["How far off may it be?"][0]
    assert text == (
        "90 % of new rows are expected within 90 of the prediction (median over 3 cities; from 45 to 180). "
        "1 city with few held-out rows has the errors of all."
    )


def test_decimals_follow_from_the_width_of_the_interval():
    assert with_interval(0.0834, 0.0727, 0.0941) == "0.083 (0.073 to 0.094)"
    assert with_interval(-12.3, -20.0, -4.0) == "−12 (−20 to −4)"
    assert with_interval(1.05, 1.03, 1.07) == "1.050 (1.030 to 1.070)"
    assert with_interval(3.0, float("nan"), float("nan")) == "3"
    assert with_interval(2e7, 1e7, 3e7) == "2e7 (1e7 to 3e7)"


def test_p_values_are_short():
    assert [p_value(p) for p in (1e-9, 0.0123, 0.5, float("nan"))] == ["< 0.001", "0.012", "0.5", "–"]


# -- effects of a model --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(400, 3)), np.repeat(list("abcde"), 80)
    return X, X[:, 0] + rng.normal(size=400), task


def test_the_table_has_the_numbers_of_the_model(rows):
    X, y, task = rows
    model = MMTFLRegressor(alpha=0.01, effects=True).fit(X, y, task=task)
    table, frame = EffectPage.of(model), model.effects(0.9)
    first = table.table(10)[0]
    row = frame.iloc[0]
    assert (first["name"], first["word"]) == ("x0", "everywhere")
    assert first["average"] == with_interval(row["average"], row["lower"], row["upper"])
    drawn = table.embedded(CITY)["features"][0]
    np.testing.assert_allclose(drawn["effect"], model.task_effects("x0")["effect"], rtol=1e-3)
    np.testing.assert_allclose(
        drawn["new"], row[["new_task_lower", "new_task_upper"]].astype(float), rtol=1e-3
    )
    assert table.reading("stay").startswith("An effect is the change of stay for each unit")
    assert EffectPage.of(MMTFLRegressor().fit(X, y, task=task)) is None


@pytest.mark.parametrize(("kind", "ratio"), [("classes", "Odds ratio"), ("counts", "Rate ratio")])
def test_classes_and_counts_are_read_as_ratios(rows, kind, ratio):
    X, y, task = rows
    if kind == "classes":
        model = MMTFLClassifier(alpha=0.01, effects=True).fit(X, y > 0, task=task)
    else:
        counts = np.random.default_rng(1).poisson(np.exp(0.5 * X[:, 0]))
        model = MMTFLRegressor(alpha=0.01, effects=True, loss="poisson").fit(X, counts, task=task)
    table = EffectPage.of(model)
    name = ratio.lower().replace(" ", "_")
    own = model.effects(0.9).iloc[0]
    expected = with_interval(own[name], own[f"{name}_lower"], own[f"{name}_upper"])
    assert table.title == ratio and table.table(1)[0]["average"] == expected
    assert f"{ratio.lower()} of 1.5" in table.reading("died = 1")
    page = render_report(model)
    assert f"{ratio} per unit" in page and f"{ratio.lower()} of 1.5" in page


def test_levels_of_words_name_what_they_are_compared_with():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"age": rng.normal(size=120), "ward": rng.choice(["a", "b", "c"], 120, p=[0.2, 0.5, 0.3])}
    )
    model = MMTFLRegressor(alpha=0.01, effects=True, categorical_features="from_dtype")
    model.fit(X, X["age"] + rng.normal(size=120), task=np.repeat([0, 1, 2], 40))
    assert "Levels are compared with: ward b." in render_report(model)


def test_curves_are_drawn(rows):
    X, _, task = rows
    y = X[:, 0] ** 2 + 0.1 * np.random.default_rng(0).normal(size=400)
    model = MMTFLRegressor(2, 2, 0.001, curves=True).fit(X, y, task=task)
    page = render_report(model)
    assert "Effect of x0 against its values" in page and 'data-curve="x0"' in page
    beside_names = render_report(model.set_params(effects=True).fit(X, y, task=task))
    assert '<svg class="small-curve"' in beside_names


# -- probabilities -------------------------------------------------------------------------------------------


def test_probabilities_that_are_off_are_said_to_be():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = rng.uniform(size=1200) < 1.0 / (1.0 + np.exp(-3.0 * X[:, 0]))
    search = MMTFLClassifierCV(pk=(2, 2), poolings=(0,), alphas=[0.2], cv=3)
    search.fit(X, y, task=np.tile([0, 1], 600))
    curve = reliability(search.heldout_errors_)
    gap = np.abs(curve["probability"] - curve["share"]) @ curve["n_rows"] / 1200.0
    told = f"off by {gap:.3f} on average over 10 bins"
    assert gap > 0.05 and told in calibration(curve)
    assert told in answers(search)["How far off may it be?"][0]
    assert "10 bins" in calibration_picture(curve).alt
    assert "Are its probabilities right?" in render_report(search)
