"""Calibrated probabilities and sets of classes: lines against other fits, sets by hand, new rows covered."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import mmtfl
from mmtfl import DirtyClassifier, MMTFLClassifier, MMTFLClassifierCV, SingleTaskClassifierCV, TwoStrengthCV
from mmtfl.estimators.intervals import calibration_lines, half_widths, reliability
from mmtfl.model_selection import TaskKFold


def make_rows(n=150, seed=0, sizes=(1.0, 1.0, 0.2)):
    """Three tasks with one law of classes; the last has few rows."""
    rng = np.random.default_rng(seed)
    task = np.repeat(["a", "b", "c"], [int(n * size) for size in sizes])
    X = rng.normal(size=(len(task), 5))
    z = 2.0 * X[:, 0] - 1.5 * X[:, 1] - 1.0
    return X, np.where(rng.uniform(size=len(z)) < 1.0 / (1.0 + np.exp(-z)), "yes", "no"), task


@pytest.fixture(scope="module")
def model():
    X, y, task = make_rows()
    return MMTFLClassifierCV(pk=(2, 2), poolings=(0,), alphas=6, cv=4).fit(X, y, task=task)


def errors_of(*tasks):
    """What is kept of tasks that are pairs of log odds and classes."""
    n = np.array([len(z) for z, _ in tasks])
    z, second = (np.concatenate(parts) for parts in zip(*tasks, strict=True))
    return {"n_rows": n, "n_kept": n, "error": np.where(second, -z, z), "is_second": second}


def draw(n, slope, shift, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    return z, rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-(slope * z + shift)))


def test_the_line_of_many_rows_is_that_of_a_logistic_regression():
    z, second = draw(5000, 2.5, -0.7)
    line = calibration_lines(errors_of((z, second)))[0]
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(z[:, None], second)
    assert_allclose(line, [plain.coef_[0, 0], plain.intercept_[0]], rtol=5e-3)


def test_a_task_without_rows_has_the_line_of_all_and_a_small_one_is_between():
    large, small = draw(3000, 1.0, 0.0), draw(30, 3.0, 2.0, seed=1)
    lines = calibration_lines(errors_of(large, small, (np.empty(0), np.empty(0, dtype=bool))))
    alone = calibration_lines(errors_of(small))[0]
    assert_allclose(lines[2], lines[3])
    assert lines[3, 1] < lines[1, 1] < alone[1]


def test_log_odds_that_are_wrong_way_round_are_not_turned():
    z, second = draw(400, -2.0, 0.5)
    slope, shift = calibration_lines(errors_of((z, second)))[0]
    assert slope == pytest.approx(0.0, abs=1e-9)
    assert shift == pytest.approx(np.log(second.mean() / (1.0 - second.mean())), abs=0.02)


def test_separated_classes_have_a_finite_line():
    z = np.linspace(-1.0, 1.0, 50)
    assert np.isfinite(calibration_lines(errors_of((z, z > 0.0)))).all()


def test_probabilities_that_are_too_cautious_become_right():
    X, y, task = make_rows(400)
    shy = MMTFLClassifier(alpha=0.15).fit(X, y, task=task).calibrate(*make_rows(400, seed=1))
    X, y, task = make_rows(3000, seed=2)
    before, after = shy.predict_proba(X, task=task), shy.calibrated_proba(X, task=task)
    assert log_loss(y, after) < log_loss(y, before) - 0.02
    assert_allclose(after.sum(axis=1), 1.0)
    for label in "abc":  # the order of the rows of a task stays
        rows = task == label
        assert_array_equal(np.argsort(before[rows, 1]), np.argsort(after[rows, 1]))


def test_the_set_leaves_out_what_enough_held_out_rows_do_not_need(model):
    X, _, task = make_rows(seed=3)
    z, reach = model.decision_function(X, task=task), half_widths(model.heldout_errors_, 0.9)
    is_in = model.predict_set(X, task=task, coverage=0.9)
    own = reach[np.searchsorted(model.tasks_, task)]
    assert (own > 0.0).all() and 0.1 < is_in.all(axis=1).mean() < 0.9
    assert_array_equal(is_in[:, 0], z <= own)
    assert_array_equal(is_in[:, 1], z >= -own)


def test_the_predicted_class_is_in_every_set(model):
    X, _, task = make_rows(seed=3)
    is_in = model.predict_set(X, task=task, coverage=0.3)
    assert (is_in.sum(axis=1) == 1).all()
    assert_array_equal(model.classes_[is_in.argmax(axis=1)], model.predict(X, task=task))


def test_new_rows_are_covered_in_every_task(model):
    X, y, task = make_rows(4000, seed=1)
    is_in = model.predict_set(X, task=task, coverage=0.9)
    covered = is_in[np.arange(len(y)), (y == "yes").astype(int)]
    for label in "ab":
        assert abs(covered[task == label].mean() - 0.9) < 0.06
    assert model.borrowing_tasks_.tolist() == ["c"]


def test_errors_are_those_of_the_fits_without_the_fold(model):
    X, y, task = make_rows()
    found = model.heldout_errors_
    wrong = {label: [] for label in "abc"}
    for train, test in TaskKFold(4, random_state=0, stratify=True).split(X, y, task):
        fitted = MMTFLClassifier(p=2, k=2, alpha=model.alpha_).fit(X[train], y[train], task=task[train])
        z = fitted.decision_function(X[test], task=task[test])
        for label, error in zip(task[test], np.where(y[test] == "yes", -z, z), strict=True):
            wrong[label].append(error)
    assert_allclose(found["error"], np.concatenate([np.sort(wrong[label]) for label in "abc"]), atol=5e-3)


def test_reliability_is_the_mean_and_the_share_of_equal_bins(model):
    curve, errors = reliability(model, 4), model.heldout_errors_
    z = np.where(errors["is_second"], -errors["error"], errors["error"])
    lowest = np.argsort(z)[: len(z) // 4]
    assert_allclose(curve["probability"][0], np.mean(1.0 / (1.0 + np.exp(-z[lowest]))))
    assert_allclose(curve["share"][0], errors["is_second"][lowest].mean())
    assert_allclose(curve["n_rows"].sum(), len(z))


def test_a_table_calibrates_a_copy(model):
    X, y, task = make_rows()
    plain = MMTFLClassifier(alpha=0.02).fit(X, y, task=task)
    X, y, task = make_rows(seed=4)
    calibrated = plain.calibrate(X, y, task=task)
    z = plain.decision_function(X, task=task)
    expected = [np.sort(np.where(y == "yes", -z, z)[task == label]) for label in "abc"]
    assert_allclose(calibrated.heldout_errors_["error"], np.concatenate(expected))
    assert_array_equal(calibrated.coef_, plain.coef_)
    with pytest.raises(NotFittedError, match="calibrate"):
        plain.predict_set(X, task=task)
    with pytest.raises(ValueError, match="perhaps"):
        plain.calibrate(X, np.where(y == "yes", "perhaps", y), task=task)


def test_several_targets_have_lines_and_sets_of_their_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    Y = (X[:, :3] + rng.normal(size=(200, 3)) > 0.0).astype(float)
    Y[::7, 0] = np.nan
    plain = MMTFLClassifier(alpha=0.02).fit(X[:100], Y[:100])
    found = plain.calibrate(X[100:], Y[100:])
    assert found.heldout_errors_["n_rows"].tolist() == [np.isfinite(Y[100:, 0]).sum(), 100, 100]
    assert found.predict_set(X[:5]).shape == (5, 3, 2)
    assert found.calibrated_proba(X[:5]).shape == plain.predict_proba(X[:5]).shape == (5, 3)


def test_tasks_of_one_class_keep_their_base_rate():
    X, y, task = make_rows()
    X, y, task = np.vstack([X, X[:6]]), np.append(y, ["no"] * 6), np.append(task, ["z"] * 6)
    search = MMTFLClassifierCV(pk=(2, 2), poolings=(0,), alphas=4, cv=3, on_degenerate_task="base_rate")
    with pytest.warns(UserWarning):
        search.fit(X, y, task=task)
    assert search.heldout_errors_["task"].tolist() == search.tasks_.tolist() == ["a", "b", "c", "z"]
    last = {"X": X[-2:], "task": task[-2:]}
    assert_allclose(search.calibrated_proba(**last), search.predict_proba(**last))
    assert search.borrowing_tasks_.tolist() == ["c", "z"]


@pytest.mark.parametrize("per_task", [False, True])
def test_single_tasks_have_sets_too(per_task):
    X, y, task = make_rows(60, sizes=(1.0, 1.0, 1.0))
    search = SingleTaskClassifierCV(p=2, alphas=3, cv=3, per_task=per_task).fit(X, y, task=task)
    assert search.predict_set(X, task=task).any(axis=1).all()


def test_two_strengths_have_sets_too():
    X, y, task = make_rows(60, sizes=(1.0, 1.0, 1.0))
    search = TwoStrengthCV(DirtyClassifier(), strengths=2, cv=3).fit(X, y, task=task)
    assert search.predict_set(X, task=task).any(axis=1).all()
    calibrated = search.calibrate(*make_rows(60, seed=1))
    assert not np.array_equal(
        calibrated.calibrated_proba(X, task=task), search.calibrated_proba(X, task=task)
    )


def test_sets_are_those_of_crepes_on_the_same_rows():
    crepes = pytest.importorskip("crepes", reason="crepes is another implementation, of the test extras")
    plain = MMTFLClassifier(alpha=0.02).fit(*make_rows()[:2], task=make_rows()[2])
    X, y, task = make_rows(100, seed=1, sizes=(1.0, 1.0, 1.0))
    calibrated, z = plain.calibrate(X, y, task=task), plain.decision_function(X, task=task)
    alphas = np.column_stack([z, -z])  # how far the log odds are on the wrong side of each class
    own = alphas[np.arange(len(y)), (y == "yes").astype(int)]
    other = crepes.ConformalClassifier().fit(own, bins=task)
    for coverage in (0.9, 0.95):
        expected = other.predict_set(alphas, bins=task, confidence=coverage, smoothing=False)
        assert expected.any(axis=1).all() and expected.all(axis=1).any()
        assert_array_equal(calibrated.predict_set(X, task=task, coverage=coverage), expected)


def test_sets_and_probabilities_are_saved(model, tmp_path):
    X, _, task = make_rows(seed=5)
    model.save(tmp_path / "model.mmtfl")
    again = mmtfl.load(tmp_path / "model.mmtfl")
    assert_array_equal(again.calibrated_proba(X, task=task), model.calibrated_proba(X, task=task))
    assert_array_equal(again.predict_set(X, task=task), model.predict_set(X, task=task))
