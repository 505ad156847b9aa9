"""Pictures of half samples: the numbers drawn are those of the table."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mmtfl import MMTFLRegressor, MMTFLRegressorCV, stability
from mmtfl.model_selection.evidence import mean_over_tasks
from mmtfl.plots import EffectDisplay, IntervalDisplay, SupportDisplay


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(180, 6)), np.repeat(["a", "b", "c"], 60)
    y = 2.0 * X[:, 3] + np.where(task == "b", 2.0 * X[:, 1], 0.0) + 0.5 * rng.normal(size=180)
    return X, y, task


@pytest.fixture(scope="module")
def found(rows):
    return stability(MMTFLRegressor(p=1, k=1, alpha=0.3), *rows, n_pairs=4, random_state=0)


def test_the_map_has_the_shares_and_a_cross_where_the_rows_support_an_effect(found):
    display = SupportDisplay.from_estimator(found, max_features=4)
    assert display.features_[:2].tolist() == [3, 1] and len(display.features_) == 4
    shown = np.asarray(display.image_.get_array())
    assert_allclose(shown, found.entry_frequency_[:, display.features_].T)
    assert display.supported_[:2].tolist() == [[True, True, True], [False, True, False]]
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names[:2] == ["x3: all", "x1: one"]


def test_the_effects_and_their_mean_have_their_intervals(found):
    display = EffectDisplay.from_estimator(found, "x1", coverage=0.8)
    points, _, (bars,) = display.intervals_
    assert_allclose(points.get_xdata(), found.effect_[:, 1])
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    reach = stats.t.isf(0.1, found.effect_spare_[:, 1]) * found.effect_error_[:, 1]
    assert_allclose(np.diff(ends, axis=1)[:, 0], 2.0 * reach)

    parts = (part[:, 1] for part in (found.effect_, found.effect_error_, found.effect_spare_))
    assert_allclose((display.mean_, display.mean_reach_), mean_over_tasks(*parts, 0.8))


def test_a_search_is_drawn_by_what_its_half_samples_found(rows):
    X, y, task = rows
    search = MMTFLRegressorCV(pk=(2, 2), alphas=4, cv=3, stability=2).fit(X, y, task=task)
    display = SupportDisplay.from_estimator(search)
    assert_array_equal(display.found.entry_frequency_, search.stability_.entry_frequency_)
    plain = MMTFLRegressor().fit(X, y, task=task)
    with pytest.raises(ValueError, match="stability=50"):
        SupportDisplay.from_estimator(plain)


def test_an_unknown_feature_is_named(found):
    with pytest.raises(ValueError, match="no feature 'age'"):
        EffectDisplay.from_estimator(found, "age")


def test_rows_outside_their_interval_are_crosses_and_all_rows_are_counted(rows):
    X, y, task = rows
    model = MMTFLRegressor(alpha=0.3).fit(X, y, task=task)
    model = model.calibrate(X, y + np.random.default_rng(1).normal(size=180), task=task)
    display = IntervalDisplay.from_estimator(model, X, y, task, coverage=0.5)
    low, high = model.predict_interval(X, task=task, coverage=0.5).T
    inside = (low <= y) & (y <= high)
    assert display.labels_ == ["a", "b", "c"]
    assert_allclose(display.covered_, [inside[task == label].mean() for label in "abc"])
    dots, crosses = display.axes_[1].collections[1:]
    assert len(dots.get_offsets()) == inside[task == "b"].sum() > 0
    assert len(crosses.get_offsets()) == (~inside)[task == "b"].sum() > 0


def test_several_targets_have_a_panel_each(rows):
    X = rows[0]
    Y = X[:, :2] + np.random.default_rng(0).normal(size=(180, 2))
    Y[::5, 0] = np.nan
    model = MMTFLRegressor(alpha=0.1).fit(X[:90], Y[:90]).calibrate(X[90:], Y[90:])
    display = IntervalDisplay.from_estimator(model, X, Y)
    assert len(display.axes_) == 2 and "144 rows" in display.axes_[0].get_title()
