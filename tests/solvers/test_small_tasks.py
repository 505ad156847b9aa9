"""Tasks of few rows are solved together, and their answers are those of each task alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.engines.threads import Threads
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Logistic, Squared
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers import solve, task_step
from mmtfl.solvers.algorithm1 import run_passes
from mmtfl.tasks import Tasks


def ragged(weighted, seed=0, n_tasks=30, d=8, largest=30):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_tasks), rng.integers(1, largest, n_tasks))
    X = rng.normal(size=(len(labels), d))
    X[:, 3] = 2.0
    y = X[:, 0] + 0.3 * labels + rng.normal(size=len(labels))
    weights = rng.uniform(0.1, 2.0, len(labels)) if weighted else None
    return Tasks.from_rows(X, y, labels, weights), rng.uniform(0.5, 2.0, d)


@pytest.mark.parametrize("pooling", [0.0, 0.9])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_passes_are_those_of_every_task_alone(weighted, fit_intercept, pooling, monkeypatch):
    tasks, scale = ragged(weighted)
    problem = Problem(Design(tasks, column_scale=scale, fit_intercept=fit_intercept), Squared())
    found = {}
    for few in (0, 16):
        monkeypatch.setattr(task_step, "FEW_ROWS", few)
        penalty = make_penalty(2, 1, 0.3, pooling=pooling)
        found[few] = run_passes(problem, penalty, Threads(2), max_iter=10, tol=1e-7)
    assert 0 < task_step.are_small(tasks, 1.0).sum() < tasks.n_tasks
    for together, alone in zip(found[16], found[0], strict=True):
        assert_allclose(together, alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("p", [1.0, 1.5])
@pytest.mark.parametrize("weighted", [True, False])
def test_passes_at_other_p_are_those_of_every_task_alone(weighted, p, monkeypatch):
    tasks, scale = ragged(weighted)
    problem = Problem(Design(tasks, column_scale=scale), Squared())
    found = {}
    for few in (0, 16):
        monkeypatch.setattr(task_step, "FEW_ROWS", few)
        options = {"max_iter": 6, "tol": 1e-10, "accelerate": False}
        found[few] = run_passes(problem, make_penalty(p, 1, 0.3), Threads(2), **options)
    assert np.count_nonzero(found[0][0]) > 0
    for together, alone in zip(found[16], found[0], strict=True):
        assert_allclose(together, alone, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("p", "pooling"), [(1.0, 0.0), (1.5, 0.0), (2.0, 0.0), (2.0, 0.9)])
def test_passes_of_the_logistic_loss_are_those_of_every_task_alone(p, pooling, fit_intercept, monkeypatch):
    tasks, scale = ragged(weighted=True)
    y = np.where(tasks.y > np.repeat([np.median(view.y) for view in tasks], tasks.sizes), 1.0, -1.0)
    first = tasks.offsets[:-1][tasks.sizes > 1]
    y[first], y[first + 1] = 1.0, -1.0  # both classes in every task, but for those of one row
    many = np.flatnonzero(np.repeat(tasks.sizes > 1, tasks.sizes))
    labels = np.repeat(np.arange(tasks.n_tasks), tasks.sizes)[many]
    tasks = Tasks.from_rows(tasks.X[many], y[many], labels, tasks.weights[many])
    problem, found = Problem(Design(tasks, column_scale=scale, fit_intercept=fit_intercept), Logistic()), {}
    for few in (0, 16):
        monkeypatch.setattr(task_step, "FEW_ROWS", few)
        options = {"max_iter": 6, "tol": 1e-10, "accelerate": False}
        found[few] = run_passes(problem, make_penalty(p, 1, 0.1, pooling=pooling), Threads(2), **options)
    assert np.count_nonzero(found[0][0]) > 0
    for together, alone in zip(found[16], found[0], strict=True):
        assert_allclose(together, alone, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("alpha", [1.0, 5.0])
def test_very_many_small_tasks_are_solved_as_low_as_from_several_starts(alpha):
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(task_step.MANY_TASKS + 1), 4)
    X, share = rng.normal(size=(len(labels), 6)), rng.random((6, 1))
    A = rng.normal(size=(6, task_step.MANY_TASKS + 1)) * (rng.random((6, task_step.MANY_TASKS + 1)) < share)
    y = np.einsum("ij,ji->i", X, A[:, labels]) + rng.normal(size=len(labels))
    problem = Problem(Design(Tasks.from_rows(X, y, labels)), Squared())
    penalty = make_penalty(2, 1, alpha)
    auto, block = solve(problem, penalty), solve(problem, penalty, solver="block")
    assert auto.solver == "alternating"
    assert auto.A.any()
    assert auto.objective <= 1.001 * block.objective


def test_slopes_of_many_small_tasks_are_those_of_each():
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(1200), rng.integers(1, 8, 1200))
    X, v = rng.normal(size=(len(labels), 3)), rng.normal(size=len(labels))
    design = Design(Tasks.from_rows(X, v, labels))
    by_hand = np.array([X[labels == t].T @ v[labels == t] for t in range(1200)]).T
    assert_allclose(design.correlate(v), by_hand, atol=1e-12)
