"""Effects of single tasks: generalised least squares with all matrices written out, and truth as oracle."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl import MMTFLRegressor
from mmtfl.inference.row_moments import TaskMoments
from mmtfl.inference.unshrunk_effects import FromAverages, noise_variance


@pytest.mark.parametrize("n", [8, 40])  # fewer rows than features, and more
def test_other_features_have_random_effects_about_their_averages(n):
    rng = np.random.default_rng(n)
    d, noise = 12, 1.7
    X, y, unit = rng.normal(size=(n, d)), rng.normal(size=n), rng.uniform(0.5, 2.0, size=d)
    X, y = X - X.mean(axis=0), y - y.mean()
    mean, sampling, spread = rng.normal(size=d), rng.uniform(0.0, 0.1, size=d), rng.uniform(0.1, 1.0, size=d)
    plan = FromAverages(unit, mean, np.diag(sampling), np.diag(spread), np.diag(1.0 / (sampling + spread)))
    a, ones = rng.normal(size=d), np.ones(n)  # where rows are seen does not matter
    own = TaskMoments.of_rows(X, y - X @ a, ones, ones, centred=True, residual=True)
    step = plan.step(own, a, noise)
    C = (sampling + spread) / unit**2
    for j in range(d):
        rest = np.delete(np.arange(d), j)
        V = noise * np.eye(n) + (X[:, rest] * C[rest]) @ X[:, rest].T
        weights = np.linalg.solve(V, X[:, j])
        assert_allclose(
            step.effect[j], weights @ (y - X[:, rest] @ mean[rest]) / (weights @ X[:, j]), rtol=1e-8
        )
        variance = noise * step.variance[j] + step.beside[j]
        assert_allclose(variance, 1.0 / (weights @ X[:, j]), rtol=1e-8)
    r, V = y - X @ mean, np.eye(n) + (X * C) @ X.T / noise
    assert_allclose(step.squares, r @ np.linalg.solve(V, r), rtol=1e-8)
    noise_part, beside = step.covariance(np.arange(d))
    assert_allclose(np.diag(noise_part), step.variance)
    assert_allclose(np.diag(beside), step.beside)


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
