"""A task's answer depends on its arguments alone: whatever was asked of it before, the bits are the same."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, special

from mmtfl import MMTFLClassifier, MMTFLRegressor, Tasks
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
