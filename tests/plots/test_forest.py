"""Forest plots and curves: what is drawn are the numbers of `effects`, `task_effects` and `curve`."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from mmtfl import MMTFLClassifier, MMTFLRegressor
from mmtfl.plots import CurveDisplay, ForestDisplay, IntervalDisplay


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-2, 2, size=(600, 3)), columns=["age", "dose", "noise"])
    X["city"] = np.repeat(list("abcdef"), 100)
    z = X["age"] + 0.5 * X["dose"] ** 2 + rng.normal(size=600)
    return X, z


@pytest.fixture(scope="module")
def model(rows):
    return MMTFLRegressor(2, 2, 0.01, effects=True, task_column="city", curves=True).fit(*rows)


def test_the_forest_of_a_feature_has_tasks_average_and_band(model):
    display = ForestDisplay.from_estimator(model, "age", coverage=0.8)
    own, all_ = model.task_effects("age", 0.8), model.effects(0.8).set_index("feature").loc["age"]
    assert_allclose(display.squares_.get_offsets()[:, 0], own["effect"])
    ends = np.array([segment[:, 0] for segment in display.intervals_.get_segments()])
    assert_allclose(ends, own[["lower", "upper"]])
    assert_allclose(display.ticks_.get_offsets()[:, 0], own["shrunk"])
    diamond = display.diamond_.get_xy()[:4, 0]
    assert_allclose(diamond, all_[["lower", "average", "upper", "average"]].astype(float))
    band = display.band_.get_extents().transformed(display.ax_.transData.inverted())
    assert_allclose([band.x0, band.x1], all_[["new_task_lower", "new_task_upper"]].astype(float))
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == [*"abcdef", "average"]
    assert "a new city" in display.ax_.get_title(loc="left") and "80 %" in display.ax_.get_xlabel()


def test_the_averages_of_all_features_are_of_quartiles_with_words(model):
    display, table = ForestDisplay.from_estimator(model), model.effects()
    assert_allclose(display.squares_.get_offsets()[:, 0], table["quartiles"])
    expected = [f"{row.feature}: {row.word}" for row in table.itertuples()]
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == expected
    assert display.diamond_ is None and display.band_ is None


def test_classes_have_odds_ratios_on_a_logarithmic_axis(rows):
    X, z = rows
    model = MMTFLClassifier(2, 2, 0.01, effects=True, task_column="city").fit(X, z > 0)
    display = ForestDisplay.from_estimator(model, "age")
    assert_allclose(display.squares_.get_offsets()[:, 0], np.exp(model.task_effects("age")["effect"]))
    assert display.ax_.get_xscale() == "log" and display.ax_.get_xlabel().startswith("odds ratio of age")


def test_what_cannot_be_drawn_is_said(rows, model):
    with pytest.raises(ValueError, match="no feature 'height'"):
        ForestDisplay.from_estimator(model, "height")
    with pytest.raises(NotFittedError, match="effects=True"):
        ForestDisplay.from_estimator(MMTFLRegressor(task_column="city").fit(*rows))


def test_a_curve_is_drawn_for_every_task_with_the_common_one(model):
    display = CurveDisplay.from_estimator(model, "dose")
    assert display.by_task.shape == (6, 101)
    assert_allclose(display.common_.get_ydata(), model.curve("dose")["effect"])
    of_c = model.curve("dose", task="c")["effect"]
    assert_allclose(display.lines_.get_segments()[2][:, 1], of_c)
    low, high = display.band_.get_paths()[0].get_extents().intervaly
    assert_allclose([low, high], [display.by_task.min(), display.by_task.max()])
    assert display.common[0] > 1.0 > display.common[50]  # a bowl


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(180, 6)), np.repeat(["a", "b", "c"], 60)
    y = 2.0 * X[:, 3] + np.where(task == "b", 2.0 * X[:, 1], 0.0) + 0.5 * rng.normal(size=180)
    return X, y, task


def test_rows_outside_their_interval_are_crosses_and_all_rows_are_counted(three):
    X, y, task = three
    model = MMTFLRegressor(alpha=0.3).fit(X, y, task=task)
    model = model.calibrate(X, y + np.random.default_rng(1).normal(size=180), task=task)
    display = IntervalDisplay.from_estimator(model, X, y, task, coverage=0.5)
    low, high = model.predict_interval(X, task=task, coverage=0.5).T
    inside = (low <= y) & (y <= high)
    assert display.labels_ == ["a", "b", "c"]
    assert_allclose(display.covered_, [inside[task == label].mean() for label in "abc"])
    assert len(display.inside_.get_offsets()) == inside.sum() > 0
    assert len(display.outside_.get_offsets()) == (~inside).sum() > 0


def test_several_targets_are_drawn_where_they_were_observed(three):
    X = three[0]
    Y = X[:, :2] + np.random.default_rng(0).normal(size=(180, 2))
    Y[::5, 0] = np.nan
    model = MMTFLRegressor(alpha=0.1).fit(X[:90], Y[:90]).calibrate(X[90:], Y[90:])
    display = IntervalDisplay.from_estimator(model, X, Y)
    assert ["144 rows" in name.get_text() for name in display.ax_.get_xticklabels()] == [True, False]
