"""Intervals and probabilities: counted by hand, from errors of the folds' own fits, right for new rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from mmtfl import MMTFLClassifierCV, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.inference.heldout_errors import half_widths, reliability


def make_rows(n=120, seed=0, noise=(0.5, 2.0, 1.0)):
    """Three tasks with noise of their own; the last has few rows."""
    rng = np.random.default_rng(seed)
    task = np.repeat(["quiet", "loud", "small"], [n, n, 20])
    X = rng.normal(size=(len(task), 4))
    spread = np.repeat(noise, [n, n, 20])
    return X, X[:, 0] - X[:, 1] + spread * rng.normal(size=len(task)), task


@pytest.fixture(scope="module")
def model():
    X, y, task = make_rows()
    return MMTFLRegressorCV(pk=(2, 2), poolings=(0,), alphas=8, cv=4, levels="free", curves=False).fit(
        X, y, task=task
    )


def errors_of(*tasks):
    n = np.array([len(part) for part in tasks])
    return {"n_rows": n, "n_kept": n, "error": np.concatenate([np.sort(part) for part in tasks])}


def test_a_small_task_borrows_twenty_rows_from_all():
    errors = errors_of(np.full(10, 5.0), np.full(990, 1.0))
    # 19.8 rows of error 1 against 10.2 of error 5, and a third of a row more: 65.3 % of them have error 1
    assert half_widths(errors, 0.65)[0] == 1.0 and half_widths(errors, 0.66)[0] == 5.0
    assert half_widths(errors_of(np.ones(5)), 0.999)[0] == np.inf  # too few rows for this coverage


def test_new_rows_are_covered_in_every_task(model):
    X, y, task = make_rows(n=2000, seed=1)
    low, high = model.predict_interval(X, task=task, coverage=0.9).T
    inside = (low <= y) & (y <= high)
    for label in ("quiet", "loud"):
        assert abs(inside[task == label].mean() - 0.9) < 0.06
    width = high - low
    assert width[task == "loud"].mean() > 2.0 * width[task == "quiet"].mean()


def test_the_interval_is_about_the_prediction_and_grows_with_coverage(model):
    X, y, task = make_rows()
    some, more = (model.predict_interval(X, task=task, coverage=share) for share in (0.5, 0.95))
    assert_allclose(some.mean(axis=1), model.predict(X, task=task))
    assert (np.diff(more, axis=1) > np.diff(some, axis=1)).all()
    assert model.borrowing_tasks_.tolist() == ["small"]
    for coverage in (0.0, 1.0, 90):
        with pytest.raises(ValueError, match="coverage"):
            model.predict_interval(X, task=task, coverage=coverage)
    with pytest.raises(NotFittedError, match="calibrate"):
        MMTFLRegressor().fit(X, y, task=task).predict_interval(X, task=task)


def test_a_table_calibrates_a_copy_and_tasks_that_it_lacks_borrow_all_errors(tmp_path):
    X, y, task = make_rows()
    plain = MMTFLRegressor(alpha=0.1, unknown_task="mean").fit(X, y, task=task)
    X, y, task = make_rows(5000, seed=4)
    rows = task != "small"
    calibrated = plain.calibrate(X[rows], y[rows], task=task[rows])
    assert not hasattr(plain, "heldout_errors_")
    found, off = calibrated.heldout_errors_, np.abs(y - plain.predict(X, task=task))
    assert found["task"].tolist() == ["loud", "quiet", "small"]
    assert found["n_rows"].tolist() == [5000, 5000, 0]
    assert found["n_kept"].tolist() == [1000, 1000, 0]  # evenly spaced ones
    *widths, of_all = half_widths(found, 0.9)
    assert_allclose(widths[:2], [np.quantile(off[task == t], 0.9) for t in ("loud", "quiet")], rtol=0.01)
    assert widths[2] == pytest.approx(of_all, rel=0.05)
    again = plain.calibrate(*make_rows(seed=4)[:2], task=make_rows(seed=4)[2]).heldout_errors_
    X, y, task = make_rows(seed=4)
    off = np.abs(y - plain.predict(X, task=task))
    assert_allclose(again["error"], np.concatenate([np.sort(off[task == t]) for t in plain.tasks_]))
    with pytest.raises(ValueError, match="known tasks, not of 'elsewhere'"):
        plain.calibrate(X[:3], y[:3], task=["quiet", "elsewhere", "loud"])


def test_intervals_are_those_of_crepes_on_the_same_errors():
    crepes = pytest.importorskip("crepes", reason="crepes is another implementation, of the test extras")
    plain = MMTFLRegressor(alpha=0.1).fit(*make_rows()[:2], task=make_rows()[2])
    X, y, task = make_rows(100, seed=4)
    rows = task != "small"  # tasks that borrow have no counterpart there
    X, y, task = X[rows], y[rows], task[rows]
    calibrated, residuals = plain.calibrate(X, y, task=task), y - plain.predict(X, task=task)
    other = crepes.ConformalRegressor().fit(residuals=residuals, bins=task)
    for coverage in (0.5, 0.8, 0.9, 0.95):
        expected = other.predict_int(plain.predict(X, task=task), bins=task, confidence=coverage)
        assert_allclose(calibrated.predict_interval(X, task=task, coverage=coverage), expected)


# -- classes: log odds of held-out rows, and how right the probabilities are ---------------------------------


def make_class_rows(n=150, seed=0, sizes=(1.0, 1.0, 0.2)):
    """Three tasks with one law of classes; the last has few rows."""
    rng = np.random.default_rng(seed)
    task = np.repeat(["a", "b", "c"], [int(n * size) for size in sizes])
    X = rng.normal(size=(len(task), 5))
    z = 2.0 * X[:, 0] - 1.5 * X[:, 1] - 1.0
    return X, np.where(rng.uniform(size=len(z)) < 1.0 / (1.0 + np.exp(-z)), "yes", "no"), task


@pytest.fixture(scope="module")
def classifier():
    X, y, task = make_class_rows()
    return MMTFLClassifierCV(pk=(2, 2), poolings=(0,), alphas=6, cv=4, levels="free").fit(X, y, task=task)


def test_reliability_is_the_mean_and_the_share_of_equal_bins(classifier):
    errors = classifier.heldout_errors_
    curve = reliability(errors, 4)
    z = np.where(errors["is_second"], -errors["error"], errors["error"])
    lowest = np.argsort(z)[: len(z) // 4]
    assert_allclose(curve["probability"][0], np.mean(1.0 / (1.0 + np.exp(-z[lowest]))))
    assert_allclose(curve["share"][0], errors["is_second"][lowest].mean())
    assert_allclose(curve["n_rows"].sum(), len(z))
