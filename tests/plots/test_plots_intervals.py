"""Pictures of prediction intervals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl import MMTFLRegressor
from mmtfl.plots import IntervalDisplay


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(180, 6)), np.repeat(["a", "b", "c"], 60)
    y = 2.0 * X[:, 3] + np.where(task == "b", 2.0 * X[:, 1], 0.0) + 0.5 * rng.normal(size=180)
    return X, y, task


def test_rows_outside_their_interval_are_crosses_and_all_rows_are_counted(rows):
    X, y, task = rows
    model = MMTFLRegressor(alpha=0.3).fit(X, y, task=task)
    model = model.calibrate(X, y + np.random.default_rng(1).normal(size=180), task=task)
    display = IntervalDisplay.from_estimator(model, X, y, task, coverage=0.5)
    low, high = model.predict_interval(X, task=task, coverage=0.5).T
    inside = (low <= y) & (y <= high)
    assert display.labels_ == ["a", "b", "c"]
    assert_allclose(display.covered_, [inside[task == label].mean() for label in "abc"])
    assert len(display.inside_.get_offsets()) == inside.sum() > 0
    assert len(display.outside_.get_offsets()) == (~inside).sum() > 0


def test_several_targets_are_drawn_where_they_were_observed(rows):
    X = rows[0]
    Y = X[:, :2] + np.random.default_rng(0).normal(size=(180, 2))
    Y[::5, 0] = np.nan
    model = MMTFLRegressor(alpha=0.1).fit(X[:90], Y[:90]).calibrate(X[90:], Y[90:])
    display = IntervalDisplay.from_estimator(model, X, Y)
    assert ["144 rows" in name.get_text() for name in display.ax_.get_xticklabels()] == [True, False]
