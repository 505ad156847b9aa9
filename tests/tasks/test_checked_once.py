"""Input is checked once, at the door: what is inside trusts it."""

import sys

import numpy as np
import pytest

import mmtfl
from mmtfl.tasks.checks import check_design, check_finite_design, check_task_labels


def calls_of(functions, run):
    """How often each function is called in this thread, wherever it was imported."""
    counts = dict.fromkeys((function.__code__ for function in functions), 0)

    def count_call(frame, event, argument):
        if event == "call" and frame.f_code in counts:
            counts[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(counts.values())


@pytest.mark.parametrize(
    "Model", [mmtfl.MMTFLRegressor, mmtfl.MMTFLClassifier, mmtfl.DirtyRegressor, mmtfl.CappedRegressor]
)
def test_a_fit_checks_the_design_and_the_labels_once(Model):
    X = np.random.default_rng(0).normal(size=(40, 3))
    y, task = (X[:, 0] > 0).astype(int), np.repeat(["a", "b"], 20)
    checks = [check_design, check_task_labels, check_finite_design]
    assert calls_of(checks, lambda: Model().fit(X, y, task)) == [1, 1, 1]
