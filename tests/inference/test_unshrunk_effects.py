"""Unshrunk effects: their errors are those of the noise, also where effects differ between tasks."""

import numpy as np
import pytest

from mmtfl.inference.effects import TaskMoments, estimate_effects


@pytest.mark.parametrize(("n_tasks", "n", "d"), [(200, 10, 6), (60, 20, 10), (8, 60, 10)])
def test_effects_that_differ_more_than_the_fit_says_do_not_count_as_noise(n_tasks, n, d):
    rng = np.random.default_rng(n)
    effect = rng.normal(size=d) + 0.5 * rng.normal(size=(n_tasks, d))
    X = rng.normal(size=(n_tasks, n, d))
    y = np.einsum("tnd,td->tn", X, effect) + rng.normal(size=(n_tasks, n))
    fit = np.tile(effect.mean(axis=0), (n_tasks, 1))  # one for all tasks
    scatter = [n * np.cov(np.column_stack([X[t], y[t]]).T, bias=True) for t in range(n_tasks)]
    moments = [TaskMoments.of_scatter(n, *both) for both in zip(scatter, fit, strict=True)]
    found = estimate_effects(moments, fit, np.ones((n_tasks, d), dtype=bool))
    # errors are those of the noise alone: what the other features' effects differ by comes on top
    own = [np.sqrt(np.diag(np.linalg.inv(one.scatter))) for one in moments]
    assert np.median(found.error / own) <= 1.05
    missed = np.mean(((found.effect - effect) / found.error) ** 2)
    assert 0.85 < missed < 2.0
