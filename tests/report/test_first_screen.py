"""The first screen of the report: every answer on cases with a known one."""

from types import SimpleNamespace

import numpy as np
import pytest

from mmtfl import MMTFLClassifierCV, MMTFLRegressor
from mmtfl.estimators.intervals import reliability
from mmtfl.report.first_screen import first_answers
from mmtfl.report.html import render_report
from mmtfl.report.pictures import calibration_picture
from mmtfl.report.sentences import calibration


def model(errors=None, borrowing=()):
    """What the first screen reads of a model."""
    known = {} if errors is None else {"heldout_errors_": errors, "borrowing_tasks_": np.array(borrowing)}
    return SimpleNamespace(**known)


def errors_of(*tasks, **more):
    n = np.array([len(part) for part in tasks])
    return {"n_rows": n, "n_kept": n, "error": np.concatenate(tasks), **more}


def test_effects_are_said_in_three_answers(shy):
    answers = dict(first_answers(shy, ["Well."]))
    assert answers["How well does it predict?"] == ["Well."]
    assert answers["What holds everywhere?"][0].startswith("Holds in every task: x0 odds x ")
    assert answers["What was not found?"][0].startswith("Not found: ")
    assert "What matters?" not in answers and "What differs?" in answers


def test_what_was_not_asked_is_said_with_the_remedy():
    answers = dict(first_answers(model(), []))
    assert "not tuned" in answers["How well does it predict?"][0]
    assert "mmtfl calibrate" in answers["How far off may it be?"][0]
    assert "effects=True" in answers["What matters?"][0]


def test_counts_have_no_interval_and_the_page_says_why():
    counts = MMTFLRegressor(alpha=0.1, loss="poisson").fit([[0.0], [1.0], [2.0]], [1.0, 1.0, 3.0])
    assert (
        "intervals for the squared and the huber loss"
        in dict(first_answers(counts, []))["How far off may it be?"][0]
    )


def test_the_width_of_intervals_is_that_of_the_middle_task():
    # 99 errors 1, ..., 99: nine in ten new rows are within 90; twice, and half of it
    tasks = [factor * np.arange(1.0, 100.0) for factor in (0.5, 1.0, 2.0)]
    text = dict(first_answers(model(errors=errors_of(*tasks), borrowing=["a"]), []))[
        "How far off may it be?"
    ][0]
    assert text.startswith(
        "90% of new rows are expected within 90 of the prediction (median over 3 tasks; from 45"
    )
    assert text.endswith("to 180). 1 task with few held-out rows borrows from all.")


@pytest.fixture(scope="module")
def shy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = rng.uniform(size=1200) < 1.0 / (1.0 + np.exp(-3.0 * X[:, 0]))
    task = np.tile([0, 1], 600)
    return MMTFLClassifierCV(pk=(2, 2), alphas=[0.2], cv=3, poolings=(0,)).fit(X, y, task=task)


def test_probabilities_that_are_off_are_said_to_be(shy):
    curve = reliability(shy.heldout_errors_)
    gap = np.abs(curve["probability"] - curve["share"]) @ curve["n_rows"] / 1200.0
    told = f"off by {gap:.3f} on average over 10 bins"
    assert gap > 0.05 and told in calibration(curve)
    assert told in dict(first_answers(shy, []))["How far off may it be?"][0]
    assert "10 bins" in calibration_picture(curve).alt


def test_the_page_has_the_curve_of_a_classifier_alone(shy):
    assert "Are its probabilities right?" in render_report(shy)
    plain = MMTFLRegressor(alpha=0.1).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 3.0])
    assert "Are its probabilities right?" not in render_report(plain)
