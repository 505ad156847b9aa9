"""A task's answer depends on its arguments alone: whatever was asked of it before, the bits are the same."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mmtfl.objective.design import Design
from mmtfl.solvers.task_step import TaskStep
from oracles import LOSSES, make_problem


@pytest.mark.parametrize("shape", [(40, 12), (12, 40), (60, 300)])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
def test_what_was_asked_before_does_not_matter(p, loss, shape):
    n_rows, d = shape
    tasks = make_problem(0, loss=loss, sizes=(n_rows,), d=d).tasks
    rng = np.random.default_rng(1)
    weights = np.exp(rng.normal(size=(4, d)) - 4.0)
    weights[1, d // 2 :] = np.inf  # many features go,
    weights[2, : d // 3] = np.inf  # others go,
    # and in the last pass all are back
    veteran = TaskStep(Design(tasks), LOSSES[loss])
    last, answers = None, []
    for row in weights:
        answers.append((last, veteran.minimise(row, p, 1e-8, last)))
        last = answers[-1][1]
    for row, (before, answer) in zip(weights, answers, strict=True):
        fresh = TaskStep(Design(tasks), LOSSES[loss]).minimise(row, p, 1e-8, before)
        assert_array_equal(fresh.a, answer.a)
        assert (fresh.intercept, fresh.loss) == (answer.intercept, answer.loss)
    assert answers[0][1].a.any()
