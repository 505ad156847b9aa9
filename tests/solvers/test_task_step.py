"""A task's answer depends on its arguments alone: whatever was asked of it before, the bits are the same."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special

from mmtfl import MMTFLClassifier, MMTFLRegressor, Tasks
from mmtfl.engines.threads import Threads
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Logistic, Squared
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers import solve, task_step
from mmtfl.solvers.algorithm1 import run_passes
from mmtfl.solvers.task_step import TaskStep
from oracles import LOSSES, make_problem


def test_slopes_balance_the_ridge_where_the_classes_are_all_but_certain():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 4))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)  # a plane parts them
    step = TaskStep(Design(Tasks.from_rows(X, y, ["one"] * 30)), LOSSES["logistic"])
    weights = np.full(4, 1e-13)
    answer = step.minimise(weights, 2.0, 1e-13)
    slope_z = -y * special.expit(-y * (X @ answer.a + answer.intercept))
    wanted = -2.0 * weights * answer.a
    assert_allclose(X.T @ (slope_z / 30), wanted, atol=1e-2 * np.abs(wanted).max())


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(40, 12), (12, 40)])
@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_columns_give_the_answer_of_dense_ones(loss, shape, fit_intercept, pooled):
    n_rows, d = shape
    rng = np.random.default_rng(1)
    tasks = make_problem(0, loss=loss, sizes=(n_rows,), d=d).tasks
    X = np.where(rng.random(size=(n_rows, d)) < 0.3, tasks.X, 0.0)
    X[:, 0], X[:, 1] = 3.0, 0.0  # constant columns
    weights, scale = np.exp(rng.normal(size=d) - 4.0), rng.uniform(0.5, 2.0, size=d)
    weights[2] = np.inf
    common = rng.normal(size=d) if pooled else None
    dense, other = (
        TaskStep(
            Design(replace(tasks, X=one), column_scale=scale, fit_intercept=fit_intercept), LOSSES[loss]
        ).minimise(weights, 2.0, 1e-9, common=common)
        for one in (X, sparse.csr_array(X))
    )
    # Newton steps end where the objective no longer falls: that tells their end to the root of rounding
    atol = 1e-9 if loss == "squared" else 5e-8
    assert_allclose(other.a, dense.a, rtol=1e-7, atol=atol)
    assert_allclose([other.intercept, other.loss], [dense.intercept, dense.loss], rtol=1e-7, atol=atol)
    assert dense.a.any() and dense.a[2] == other.a[2] == 0.0


@pytest.mark.parametrize("model", [MMTFLRegressor, MMTFLClassifier])
def test_algorithm_1_leaves_a_sparse_design_sparse(model):
    rng = np.random.default_rng(0)
    X = sparse.random_array((160, 6000), density=0.005, format="csr", rng=rng, data_sampler=rng.normal)
    y, task = 10.0 * np.asarray(X[:, :2000].sum(axis=1)).ravel(), np.repeat(np.arange(4), 40)
    y = y if model is MMTFLRegressor else (y > np.quantile(y, 0.7)).astype(int)
    model = model(alpha=0.02, solver="alternating")
    model.fit(X[:, :8], y, task=task)  # compiles
    tracemalloc.start()
    try:
        model.fit(X, y, task=task)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert model.coef_.any() and most < 0.5 * X.shape[0] * X.shape[1] * 8


def ragged(weighted, seed=0, n_tasks=30, d=8, largest=30):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_tasks), rng.integers(1, largest, n_tasks))
    X = rng.normal(size=(len(labels), d))
    X[:, 3] = 2.0
    y = X[:, 0] + 0.3 * labels + rng.normal(size=len(labels))
    weights = rng.uniform(0.1, 2.0, len(labels)) if weighted else None
    return Tasks.from_rows(X, y, labels, weights), rng.uniform(0.5, 2.0, d)


def in_classes(tasks):
    """Two classes in every task; those of one row are left out."""
    y = np.where(tasks.y > np.repeat([np.median(view.y) for view in tasks], tasks.sizes), 1.0, -1.0)
    first = tasks.offsets[:-1][tasks.sizes > 1]
    y[first], y[first + 1] = 1.0, -1.0
    many = np.flatnonzero(np.repeat(tasks.sizes > 1, tasks.sizes))
    return tasks.with_y(y).select(many)


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("p", "pooling"), [(1.0, 0.0), (1.5, 0.0), (2.0, 0.0), (2.0, 0.9)])
@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=lambda loss: loss.name)
def test_passes_are_those_of_every_task_alone(loss, p, pooling, fit_intercept, weighted, monkeypatch):
    tasks, scale = ragged(weighted)
    tasks = in_classes(tasks) if loss.has_classes else tasks
    problem = Problem(Design(tasks, column_scale=scale, fit_intercept=fit_intercept), loss)
    penalty, found = make_penalty(p, 1, 0.1 if loss.has_classes else 0.3, pooling=pooling), {}
    for few in (0, 16):
        monkeypatch.setattr(task_step, "FEW_ROWS", few)
        options = {"max_iter": 6, "tol": 1e-10, "accelerate": p == 2.0 and not loss.has_classes}
        found[few] = run_passes(problem, penalty, Threads(2), **options)
    assert 0 < task_step.are_small(tasks, 1.0).sum() < tasks.n_tasks
    assert np.count_nonzero(found[0][0]) > 0
    exact = p == 2.0 and not loss.has_classes  # other tasks are solved to a tolerance
    for together, alone in zip(found[16], found[0], strict=True):
        assert_allclose(together, alone, rtol=1e-9 if exact else 1e-6, atol=1e-12 if exact else 1e-7)


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
