"""Newton steps over all kept rows: fits at strengths next to nothing are exact in units of the objective."""

import numpy as np
import pytest

import mmtfl
from mmtfl.objective.row_sizes import power_derivatives

MEMBERS = [(2, 4), (3, 2), (1.5, 4), (2, np.inf), (3, np.inf)]


def hard_data(seed: int, *, classes: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tasks that can be fitted all but exactly, with two columns that are nearly equal."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(4), 14)
    X = rng.normal(size=(56, 8))
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 2]
    y = X[:, 0] - X[:, 3] + 1e-4 * rng.normal(size=56)
    if classes:
        y = np.where(y > np.median(y), "yes", "no")
    return X, y, task


def fitted(X, y, task, p, k, loss, *, share: float, solver: str):
    """A fit at a share of the largest strength."""
    kind = mmtfl.MMTFLClassifier if loss == "logistic" else mmtfl.MMTFLRegressor
    alpha = share * mmtfl.path(X, y, task, p=p, k=k, alphas=1, loss=loss).alphas[0]
    return kind(p=p, k=k, alpha=alpha, solver=solver).fit(X, y, task=task)


@pytest.mark.parametrize("p, r", [(2.0, 1.0), (3.0, 1.2), (1.5, 1.0), (1.5, 1.5), (4.0, 2.5)])
def test_derivatives_of_a_power_of_a_norm_are_its_differences(p, r):
    rng, h = np.random.default_rng(3), 1e-6
    A = rng.normal(size=(5, 4))
    first, second = power_derivatives(A, p, r)
    for t in range(4):
        shift = h * np.eye(4)[t]
        value = [np.sum(np.abs(A + sign * shift) ** p, axis=1) ** (r / p) for sign in (1, -1)]
        np.testing.assert_allclose(first[:, t], (value[0] - value[1]) / (2 * h), rtol=1e-7, atol=1e-8)
        slope = [power_derivatives(A + sign * shift, p, r)[0] for sign in (1, -1)]
        np.testing.assert_allclose(second[:, t], (slope[0] - slope[1]) / (2 * h), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("p, k", MEMBERS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_slopes_balance_the_penalty_at_strengths_next_to_nothing(p, k, loss):
    X, y, task = hard_data(5, classes=loss == "logistic")
    model = fitted(X, y, task, p, k, loss, share=1e-8, solver="block")
    alpha = model.alpha
    assert model.converged_
    z = np.einsum("ij,ij->i", X, model.coef_[task]) + model.intercept_[task]
    if loss == "logistic":
        slope_z = 1.0 / (1.0 + np.exp(-z)) - (y == "yes")
    else:
        slope_z = z - y
    weight = 1.0 / np.bincount(task)[task]  # every task has the weight one
    G = np.array([X[task == t].T @ (weight * slope_z)[task == t] for t in range(4)]).T
    A, r = model.coef_.T, p if np.isinf(k) else p * k / (p + k)
    rho = np.sum(np.abs(A) ** p, axis=1)[:, None] ** (1 / p)
    kept = rho[:, 0] > 1e-6 * rho.max()
    wanted = -alpha * r * rho ** (r - 1) * (np.abs(A) / rho) ** (p - 1) * np.sign(A)
    assert kept.sum() >= 3
    np.testing.assert_allclose(G[kept], wanted[kept], atol=1e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("p, k", MEMBERS)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_two_solvers_agree_in_units_of_a_small_objective(p, k, loss):
    data = hard_data(7, classes=loss == "logistic")
    solvers = ("block", "alternating")
    found = [fitted(*data, p, k, loss, share=1e-9, solver=solver) for solver in solvers]
    first, second = (model.objective_ for model in found)
    assert found[0].history_[0] > 10.0 * first  # small against that at zero
    assert first == pytest.approx(second, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("n_rows", [7, 16])
def test_two_solvers_agree_on_lassos_with_equal_columns(loss, n_rows):
    rng, task = np.random.default_rng(n_rows), np.repeat(np.arange(5), n_rows)
    X = rng.normal(size=(len(task), 11))
    X[:, 0] = X[:, -1]
    y = X @ rng.normal(size=11) + 1e-3 * rng.normal(size=len(task))
    if loss == "logistic":
        y = y > 0.0
        y[::n_rows], y[n_rows - 1 :: n_rows] = True, False
    first, second = (
        fitted(X, y, task, 1, np.inf, loss, share=1e-9, solver=solver).objective_
        for solver in ("block", "alternating")
    )
    assert first == pytest.approx(second, rel=1e-6)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_slopes_of_largest_entries_balance_the_penalty_at_strengths_next_to_nothing(k, loss):
    rng, task = np.random.default_rng(k), np.repeat(np.arange(5), 7)
    X = rng.normal(size=(35, 11))
    y = X @ rng.normal(size=11) + 1e-3 * rng.normal(size=35)
    if loss == "logistic":
        y = y > 0.0
        y[::7], y[6::7] = True, False
    model = fitted(X, y, task, np.inf, k, loss, share=1e-9, solver="block")
    z = np.einsum("ij,ij->i", X, model.coef_[task]) + model.intercept_[task]
    slope_z = (1.0 / (1.0 + np.exp(-z)) if loss == "logistic" else z) - y
    G = np.array([X[task == t].T @ slope_z[task == t] / 7.0 for t in range(5)]).T
    A = model.coef_.T
    size = np.abs(A).max(axis=1)
    wanted = model.alpha * k * size ** (k - 1.0)  # of the sum of the slopes of a row
    kept = size > 1e-3 * size.max()
    within = np.abs(A) < 0.999 * size[:, None]
    assert model.converged_ and kept.sum() >= 3
    np.testing.assert_allclose(np.abs(G).sum(axis=1)[kept], wanted[kept], rtol=1e-3)
    assert np.abs(G[kept] * within[kept]).max() < 1e-3 * wanted.max()
    assert (G[kept] * A[kept] <= 1e-3 * wanted.max() * size.max()).all()
