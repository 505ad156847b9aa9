"""Bounds on false selections: published numbers, the extreme laws by brute force, and what they must obey."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from mmtfl.model_selection.half_samples import (
    expected_false,
    r_concave_tail,
    smallest_threshold,
    unimodal_bound,
)


def test_the_unimodal_bound_is_that_of_the_r_package_stabs():
    # stabsel_parameters(p = 88, q = 20, cutoff = 0.8), B = 50: PFER 3.743316
    assert_allclose(expected_false(0.8, 20, 88, 50, "unimodal"), 3.743316, atol=5e-7)


@pytest.mark.parametrize("threshold", [0.75, 0.750001])
def test_the_two_branches_of_the_unimodal_bound_nearly_meet(threshold):
    # at 3/4: 1 / (2 (1/2 - 1/(2B))) and 4 (1/4 + 1/(2B)) / (1 + 1/B), both about theta^2
    assert_allclose(unimodal_bound(threshold, 0.1, 50), 0.01, rtol=0.03)


def extreme_by_search(mean: float, n_steps: int, r: float, t: int) -> float:
    """Largest tail over r-concave laws: f^r is convex, so its second differences are not negative."""

    def law(free):
        # f^r = a + b i + sum of hinges with weights >= 0, all decided by logs
        i = np.arange(n_steps + 1)
        hinges = np.maximum(i[:, None] - np.arange(n_steps), 0.0) @ np.exp(np.clip(free[2:], -30.0, 8.0))
        f = (np.exp(np.clip(free[0], -8.0, 8.0)) + np.exp(np.clip(free[1], -30.0, 8.0)) * i + hinges) ** (
            1.0 / r
        )
        return f / f.sum()

    def loss(free):
        f = law(free)
        excess = max(f @ np.arange(n_steps + 1) / n_steps - mean, 0.0)
        return -f[t:].sum() + 1e3 * excess

    best, rng = 0.0, np.random.default_rng(0)
    for _ in range(3):
        start = np.concatenate([[0.0, 0.0], rng.uniform(-8.0, 0.0, n_steps)])
        found = minimize(loss, start, method="Nelder-Mead", options={"maxfev": 2000}).x
        f = law(found)
        if f @ np.arange(n_steps + 1) / n_steps <= mean + 1e-9:
            best = max(best, f[t:].sum())
    return best


@pytest.mark.parametrize(("mean", "r"), [(0.1, -0.5), (0.15, -0.25)])
def test_no_r_concave_law_has_a_larger_tail(mean, r, n_steps=6):
    tails = r_concave_tail(mean, n_steps, r)
    for t in (3, 6):
        found = extreme_by_search(mean, n_steps, r, t)
        assert 0.5 * tails[t] < found <= tails[t] * (1.0 + 1e-6)


def test_tails_fall_and_grow_with_the_mean():
    small, large = r_concave_tail(0.05, 50, -0.25), r_concave_tail(0.1, 50, -0.25)
    assert np.all(np.diff(small) <= 0.0)
    assert np.all(small[12:] < large[12:])
    # Markov's inequality holds for every law, so it must hold for these
    assert np.all(large[12:] <= 0.1 * 50 / np.arange(12, 51))


def test_the_last_bound_before_there_is_none_is_not_zero():
    last = [r_concave_tail(mean, 50, -0.5)[-1] for mean in (0.40, 0.45, 0.487)]
    assert 0.0 < last[0] < last[1] < last[2] < 0.1
    assert r_concave_tail(0.51, 50, -0.5)[-1] == 1.0


def test_the_r_concave_bound_is_never_above_the_unimodal_one():
    for q in (5, 20, 40):
        for threshold in (0.6, 0.75, 0.9, 1.0):
            assert expected_false(threshold, q, 100, 50) <= expected_false(threshold, q, 100, 50, "unimodal")


def test_the_smallest_threshold_is_the_first_that_keeps_the_promise():
    threshold = smallest_threshold(1.0, 20, 100, 50)
    assert 0.5 < threshold < 1.0
    assert expected_false(threshold, 20, 100, 50) <= 1.0 < expected_false(threshold - 0.01, 20, 100, 50)


def test_a_model_that_keeps_most_features_has_no_bound():
    assert smallest_threshold(1.0, 80, 100, 50) is None
    assert expected_false(1.0, 80, 100, 50) == 100.0
