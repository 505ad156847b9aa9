"""Effects of single tasks: generalised least squares with all matrices written out, and truth as oracle."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from mmtfl import MMTFLRegressor
from mmtfl.inference.learn_effects import over_tasks
from mmtfl.inference.mixed_model import MixedModel
from mmtfl.inference.row_moments import TaskMoments
from mmtfl.inference.unshrunk_effects import noise_variance


# fewer rows than features, alone and beside another task, and more rows
@pytest.mark.parametrize(("n", "several"), [(8, False), (8, True), (40, False)])
def test_other_features_have_random_effects_about_their_averages(n, several):
    rng = np.random.default_rng(n)
    d, usual, noise = 12, 0.6, 1.7  # residual variance of all tasks, and of this one
    X, y, unit = rng.normal(size=(n, d)), rng.normal(size=n), rng.uniform(0.5, 2.0, size=d)
    X, y = X - X.mean(axis=0), y - y.mean()
    mean, square = rng.normal(size=d), rng.uniform(0.0, 1.0, size=d) * (np.arange(d) > 2)
    sampling = np.diag(rng.uniform(0.01, 0.1, size=d)) + 0.005
    plan = MixedModel(unit, mean, usual, square / usual, sampling / usual, ((0, 5),))
    a, ones = rng.normal(size=d), np.ones(n)  # where rows are seen does not matter
    own = TaskMoments.of_rows(X, y - X @ a, ones, ones, centred=True, residual=True)
    assert (own.rows is None) == (n > d)
    tasks = [TaskMoments.of_rows(X[::2], y[::2], ones[::2], ones[::2], centred=True, residual=True), own]
    tasks = tasks[-1 - several :]
    *_, step = plan.steps(tasks, np.array([mean, a])[-len(tasks) :], np.array([usual, noise])[-len(tasks) :])
    D, errors, r = np.diag(square / unit**2), sampling / np.outer(unit, unit), y - X @ mean
    V = noise * np.eye(n) + X @ D @ X.T
    W = X.T @ np.linalg.solve(V, X)
    for j in range(d):
        rest = np.delete(np.arange(d), j)
        V_rest = noise * np.eye(n) + X[:, rest] @ D[np.ix_(rest, rest)] @ X[:, rest].T
        weights = np.linalg.solve(V_rest, X[:, j]) / (X[:, j] @ np.linalg.solve(V_rest, X[:, j]))
        effect = weights @ (y - X[:, rest] @ mean[rest])
        assert_allclose(step.effect[j], effect, rtol=1e-8)
        assert_allclose(noise * step.variance[j], noise * weights @ weights, rtol=1e-8)
        leak = weights @ X[:, rest]
        assert_allclose(step.others[j], leak**2 @ np.diag(D)[rest], rtol=1e-8)
        # the error of the averages, and what it has in common with that of the effect
        own_error = noise * weights @ np.linalg.solve(V, X) @ errors[:, rest] @ leak
        own_error += (leak * np.diag(D)[rest]) @ (W @ errors[:, rest] @ leak)[rest]
        shared = leak @ errors[np.ix_(rest, rest)] @ leak - 2.0 * own_error
        assert_allclose(step.shared[j], shared, rtol=1e-6, atol=1e-10)
    assert_allclose(step.squares, noise * (r @ np.linalg.solve(V, r)), rtol=1e-8)
    assert_allclose(step.taken, 1.0 + np.trace(W @ errors), rtol=1e-8)
    assert_allclose(step.correlation[0][0, 1], W[0, 5] / np.sqrt(W[0, 0] * W[5, 5]), rtol=1e-8)


@pytest.mark.parametrize("n", [8, 40])
def test_noise_lost_in_rounding_leaves_numbers(n):
    rng, d, ones = np.random.default_rng(n), 12, np.ones(n)
    X = np.outer(rng.normal(size=n), np.ones(d))  # one direction, so that products of rows are singular
    own = TaskMoments.of_rows(X, X[:, 0], ones, ones, centred=True, residual=True)
    plan = MixedModel(np.ones(d), np.zeros(d), 1e-40, np.full(d, 1e40), np.eye(d))
    (step,) = plan.steps([own], np.zeros((1, d)), np.array([1e-40]))
    assert np.isfinite([step.squares, step.taken, step.fitted]).all()


def test_errors_of_small_tasks_are_neither_too_large_nor_too_small():
    rng = np.random.default_rng(12)
    T, n, d = 500, 7, 4
    X, task = rng.normal(size=(T, n, d)), np.repeat(np.arange(T), n)
    coef = np.array([0.4, 0.0, 0.4, 0.0]) + np.array([0.0, 0.0, 0.3, 0.4]) * rng.normal(size=(T, d))
    y = np.einsum("tnd,td->tn", X, coef) + rng.normal(size=(T, n))
    model = MMTFLRegressor(alpha=0.05, pooling=0.9, effects=True).fit(X.reshape(-1, d), y.ravel(), task=task)
    effect, error = model.effects_["effect"], model.effects_["error"]
    apart = np.mean(((effect - coef) / error) ** 2)
    assert 0.93 < apart < 1.07
    frame = model.effects().set_index("feature")
    assert_allclose(frame["spread"][["x2", "x3"]], [0.3, 0.4], rtol=0.25)
    assert frame["spread"][["x0", "x1"]].max() < 0.15


def test_noise_is_drawn_to_that_of_all_tasks_as_far_as_tasks_are_alike():
    rng = np.random.default_rng(0)
    spare = np.full(400, 6.0)
    alike, rows = noise_variance(rng.chisquare(6.0, size=400), spare)
    assert rows >= 100.0 and alike.std() < 0.1 and abs(alike.mean() - 1.0) < 0.1
    sizes = 5.0 / rng.chisquare(5.0, size=400)
    apart, rows = noise_variance(sizes * rng.chisquare(6.0, size=400), spare)
    assert 3.0 <= rows <= 10.0
    degrees = 6.0 + rows
    assert np.mean(apart) * degrees / (degrees - 2.0) == pytest.approx(sizes.mean(), rel=0.15)


@pytest.mark.parametrize(("of_x", "of_y"), [(1.0, 1e-150), (1e-150, 1.0), (1e-100, 1e100), (1e100, 1e-100)])
def test_effects_are_the_same_in_other_units(of_x, of_y):
    rng = np.random.default_rng(3)
    X, task = rng.normal(size=(240, 4)), np.repeat(np.arange(8), 30)
    coef = 0.5 + np.array([0.0, 0.5, 0.0, 0.5]) * rng.normal(size=(8, 4))
    y = np.einsum("ij,ij->i", X, coef[task]) + rng.normal(size=240)
    model, other = (
        MMTFLRegressor(alpha=alpha, standardize=True, scale_targets=True, effects=True).fit(*rows, task=task)
        for alpha, *rows in ((0.1, X, y), (0.1, of_x * X, of_y * y))
    )
    expected, found = (
        one.effects().set_index("feature").loc[["x0", "x1", "x2", "x3"]] for one in (model, other)
    )
    assert (expected["spread"] > 0.0).any()
    for name in ("average", "upper", "spread", "spread_upper", "new_task_upper"):
        assert_allclose(found[name] * (of_x / of_y), expected[name], rtol=1e-10)
    assert_allclose(found["per_sd"] / of_y, expected["per_sd"], rtol=1e-10)
    shrunk, expected = (one.task_effects("x1")["shrunk_upper"] for one in (other, model))
    assert_allclose(shrunk * (of_x / of_y), expected, rtol=1e-10)


def test_targets_without_noise_have_effects_of_their_size():
    rng = np.random.default_rng(4)
    X, task = rng.normal(size=(90, 3)), np.repeat(np.arange(3), 30)
    for y, size in ((np.full(90, 0.1), 0.0), (X @ [2.0, 0.0, 0.0], 2.0)):
        model = MMTFLRegressor(alpha=1e-9, effects=True).fit(X, y, task=task)
        assert_allclose(model.task_effects("x0")["effect"], size, atol=1e-8)


def test_averages_and_spreads_are_those_of_the_restricted_likelihood():
    rng = np.random.default_rng(6)
    T, n, d = 50, 12, 3
    X, task = rng.normal(size=(T, n, d)), np.repeat(np.arange(T), n)
    X[..., 1] += X[..., 0]
    coef = np.array([1.0, 0.0, -0.5]) + np.array([0.5, 0.7, 0.3]) * rng.normal(size=(T, d))
    y = np.einsum("tnd,td->tn", X, coef) + rng.normal(size=(T, n))
    level = np.eye(n)[:, :-1] - 1.0 / n
    level = np.linalg.qr(level)[0].T  # contrasts that no level moves
    Z, z = level @ X, y @ level.T

    def averages(variances):
        V = variances[-1] * np.eye(n - 1) + np.einsum("tnd,d,tmd->tnm", Z, variances[:-1], Z)
        weighted = np.linalg.solve(V, Z)
        H = np.einsum("tnd,tne->de", Z, weighted)
        mean = np.linalg.solve(H, np.einsum("tnd,tn->d", weighted, z))
        left = z - Z @ mean
        fit = np.einsum("tn,tn->", left, np.linalg.solve(V, left[..., None])[..., 0])
        return mean, H, 0.5 * (fit + np.linalg.slogdet(V)[1].sum() + np.linalg.slogdet(H)[1])

    best = np.exp(minimize(lambda logs: averages(np.exp(logs))[2], np.log([0.2, 0.2, 0.2, 1.0])).x)
    mean, H, _ = averages(best)
    error = np.sqrt(np.diag(np.linalg.inv(H)))
    model = MMTFLRegressor(alpha=0.02, pooling=0.9, effects=True).fit(X.reshape(-1, d), y.ravel(), task=task)
    unit, found = over_tasks(model.effects_)
    assert_allclose(unit * found.average, mean, atol=0.1 * error.min())
    assert_allclose(unit * found.error, error, rtol=0.06)
    assert_allclose(
        unit * found.spread, np.sqrt(best[:-1]), rtol=0.2
    )  # by Paule and Mandel, another estimator


def counted(step, rises):
    """A step of the scoring that keeps how much each one may raise the likelihood."""

    def taken(model, *arguments):
        found, rise = step(model, *arguments)
        rises.append(rise)
        return found, rise

    return taken


def test_variances_settle_where_a_few_effects_lie_far_apart_among_many_that_do_not(monkeypatch):
    rng, rises, step = np.random.default_rng(0), [], MixedModel.updated
    monkeypatch.setattr(MixedModel, "updated", counted(step, rises))
    T, n, d = 8, 200, 50
    X, task = rng.normal(size=(T, n, d)), np.repeat(np.arange(T), n)
    coef = np.where(np.arange(d) < 8, 0.3 * rng.normal(size=(T, d)), 0.0)
    y = np.einsum("tnd,td->tn", X, coef) + rng.normal(size=(T, n))
    MMTFLRegressor(alpha=0.05, effects=True).fit(X.reshape(-1, d), y.ravel(), task=task)
    assert len(rises) <= 8  # by expected information alone two values alternate
    assert rises[-1] < 0.005 * d


def test_columns_that_no_task_varies_in_change_no_effect_of_others():
    rng, T, n, d = np.random.default_rng(1), 30, 12, 3
    X, task = rng.normal(size=(T * n, d)), np.repeat(np.arange(T), n)
    y = X @ [1.0, 0.0, -0.5] + (X[:, 0] * rng.normal(size=T)[task]) + rng.normal(size=T * n)
    of_task = rng.uniform(1e3, 2e3, size=(T, 4))[task]  # centred within tasks, rounding is left of them
    plain, beside = (
        MMTFLRegressor(alpha=0.1, effects=True).fit(columns, y, task=task).effects()
        for columns in (X, np.hstack([X, of_task]))
    )
    for name in ("average", "lower", "upper", "spread", "spread_upper"):
        assert_allclose(beside[name][:d], plain[name], rtol=1e-6, atol=1e-9)
