"""The pooled model with an intercept per task, against optima found by other means."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import Lasso, Ridge

from mmtfl.model_selection import TaskKFold
from mmtfl.report import pooled
from mmtfl_lab.paper.pooled import fit_pooled


@pytest.fixture
def rows():
    """Six tasks with the same coefficients and other intercepts; the last column tells tasks only."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), [8, 12, 15, 20, 9, 11])
    X = rng.normal(size=(len(task), 5)) + 2.0 * rng.normal(size=(6, 5))[task]
    X[:, 4] = np.array([61.7, 70.3, 55.1, 80.9, 66.6, 71.2])[task]
    z = X @ [1.0, -0.8, 0.5, 0.0, 0.0] + 3.0 * rng.normal(size=6)[task]
    return X, z, task, rng


def folds(X, task):
    return list(TaskKFold(3, random_state=0).split(X, task=task))


def only(monkeypatch, p):
    monkeypatch.setattr(pooled, "better_of_ridge_and_lasso", lambda search: search(p)[1])
    monkeypatch.setattr(pooled, "TOL", 1e-9)


@pytest.mark.parametrize("p", [2, 1])
def test_the_squared_model_is_least_squares_with_a_free_indicator_of_each_task(rows, monkeypatch, p):
    X, z, task, rng = rows
    y = z + rng.normal(size=len(z))
    only(monkeypatch, p)
    found = fit_pooled(X, y, task, folds(X, task))
    # indicator columns a hundred thousand long have next to no penalty
    wide = np.hstack([X, 1e5 * np.eye(6)[task]])
    n = len(y)
    model = (
        Ridge(2 * n * found.alpha, fit_intercept=False)
        if p == 2
        else Lasso(found.alpha, fit_intercept=False, tol=1e-10, max_iter=10**6)
    )
    keep = [
        0,
        1,
        2,
        3,
        *range(5, 11),
    ]  # the column that is constant within tasks says nothing beside indicators
    model.fit(wide[:, keep], y)
    assert found.p == p and found.coef[4] == 0.0
    assert_allclose(found.coef[:4], model.coef_[:4], atol=1e-5)
    assert_allclose(found.intercept, 1e5 * model.coef_[4:], atol=1e-3)


def logistic_optimum(X, y, task, alpha, p):
    """The optimum by a general optimiser: u - v with u, v >= 0 for the lasso; intercepts are free."""
    n, d, sign = len(y), X.shape[1], np.where(y > 0, 1.0, -1.0)
    split = d if p == 1 else 0

    def value(v):
        w = v[:d] - v[d : 2 * d] if p == 1 else v[:d]
        b = v[d + split :]
        margin = sign * (X @ w + b[task])
        slope = -sign / (1.0 + np.exp(margin)) / n
        gw, gb = X.T @ slope, np.bincount(task, slope)
        loss = np.logaddexp(0.0, -margin).mean()
        if p == 1:
            return loss + alpha * v[: 2 * d].sum(), np.concatenate([gw + alpha, alpha - gw, gb])
        return loss + alpha * w @ w, np.concatenate([gw + 2 * alpha * w, gb])

    n_free = task.max() + 1
    bounds = [(0, None)] * (2 * d) + [(None, None)] * n_free if p == 1 else None
    start = np.zeros(d + split + n_free)
    options = {"maxiter": 10**5, "maxfun": 10**6, "ftol": 1e-16, "gtol": 1e-10}
    v = minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return (v[:d] - v[d : 2 * d], v[2 * d :]) if p == 1 else (v[:d], v[d:])


@pytest.mark.parametrize("p", [2, 1])
def test_the_logistic_model_is_the_optimum_with_free_intercepts(rows, monkeypatch, p):
    X, z, task, rng = rows
    X = X[:, :4]
    centre = np.array([z[task == t].mean() for t in range(6)])[task]
    y = (rng.random(len(z)) < 1.0 / (1.0 + np.exp(centre - z))).astype(float)
    assert all(0 < y[task == t].mean() < 1 for t in range(6))
    only(monkeypatch, p)
    found = fit_pooled(X, y, task, folds(X, task), classify=True)
    coef, intercept = logistic_optimum(X, y, task, found.alpha, p)
    assert np.abs(coef).max() > 0.05
    assert_allclose(found.coef, coef, atol=1e-3)
    assert_allclose(found.intercept, intercept, atol=5e-3)


@pytest.mark.parametrize("classify", [False, True])
def test_a_sparse_table_gives_the_same_model(rows, monkeypatch, classify):
    X, z, task, rng = rows
    X = X[:, :4] * (rng.random(X[:, :4].shape) < 0.7)
    z = 2.0 * X @ [1.0, -0.8, 0.5, 0.0] + rng.normal(size=6)[task] + rng.normal(size=len(z))
    y = (z > 0).astype(float) if classify else z
    only(monkeypatch, 1)
    # indicators of length 1e4 beside columns of length 1: the rounding of slopes leaves a gap of up to 5e-9
    monkeypatch.setattr(pooled, "TOL", 1e-7)
    dense = fit_pooled(X, y, task, folds(X, task), classify=classify, n_strengths=8)
    thin = fit_pooled(sparse.csr_matrix(X), y, task, folds(X, task), classify=classify, n_strengths=8)
    assert dense.coef.any()
    assert thin.alpha == pytest.approx(dense.alpha)
    assert_allclose(thin.coef, dense.coef, atol=1e-3)
    assert_allclose(thin.intercept, dense.intercept, atol=1e-2)


def test_shifted_tasks_are_predicted_as_if_they_were_not(rows):
    X, z, task, rng = rows
    y = z + rng.normal(size=len(z))
    shift = 1000.0 * np.arange(6)[task]
    one, other = (fit_pooled(X, target, task, folds(X, task), standardize=True) for target in (y, y + shift))
    assert_allclose(other.decision(X, task) - shift, one.decision(X, task), atol=1e-2)


def test_targets_in_other_units_have_the_same_model_in_their_units(rows):
    X, z, task, rng = rows
    y = z + rng.normal(size=len(z))
    unit = np.geomspace(1e-3, 1e3, 6)[task]
    one, other = (fit_pooled(X, target, task, folds(X, task), scale_tasks=True) for target in (y, y * unit))
    assert_allclose(other.decision(X, task) / unit, one.decision(X, task), rtol=1e-3, atol=1e-3)


def test_without_intercepts_there_are_none(rows):
    X, z, task, _ = rows
    for classify in (False, True):
        y = (z > 0).astype(float) if classify else z
        found = fit_pooled(X, y, task, folds(X, task), classify=classify, fit_intercept=False)
        assert not found.intercept.any()
