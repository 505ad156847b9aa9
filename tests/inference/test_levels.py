"""Levels of tasks: estimates against the truth of simulated tasks, and against plain formulas."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

from mmtfl.inference.levels import Factor, NormalLevels, TaskColumns
from mmtfl.inference.marginal_levels import NODES, QUICK_NODES, Marginal, TaskRows, fit_levels
from mmtfl.objective.losses import Logistic, Poisson

SIGMA = 2.0


def told_levels(seed, n_tasks, gamma, tau):
    """Columns, numbers of rows, true levels, and levels as the rows tell them."""
    rng = np.random.default_rng(seed)
    W = TaskColumns.of(rng.normal(size=(n_tasks, len(gamma)))).values
    n = rng.integers(3, 20, n_tasks).astype(float)
    levels = 5.0 + W @ gamma + tau * rng.normal(size=n_tasks)
    return W, n, levels, levels + SIGMA * rng.normal(size=n_tasks) / np.sqrt(n)


def covariance(W, n, model, found):
    eta2 = found.prior_spread**2 * model.q
    return eta2 * W @ W.T / model.q + np.diag(found.spread**2 + SIGMA**2 / n)


@pytest.mark.parametrize(("n_tasks", "q"), [(30, 4), (6, 9), (2, 1)])
def test_posterior_means_are_those_of_the_joint_normal_distribution(n_tasks, q):
    W, n, _, told = told_levels(0, n_tasks, np.full(q, 1.0), 1.0)
    model = NormalLevels(W, n)
    found = model.fit(told, SIGMA**2)
    V = covariance(W, n, model, found)
    ones = np.ones(n_tasks)
    common = ones @ np.linalg.solve(V, told) / (ones @ np.linalg.solve(V, ones))
    rest = np.linalg.solve(V, told - common)
    assert_allclose(found.common, common, rtol=1e-8)
    assert_allclose(found.levels, common + (V - np.diag(SIGMA**2 / n)) @ rest, rtol=1e-8)
    assert_allclose(found.effects, found.prior_spread**2 * W.T @ rest, rtol=1e-6, atol=1e-10)
    # the posterior covariance of gamma, b_0 being unknown
    P = np.linalg.inv(V) - np.outer(np.linalg.solve(V, ones), np.linalg.solve(V, ones)) / (
        ones @ np.linalg.solve(V, ones)
    )
    expected = found.prior_spread**2 * np.eye(q) - found.prior_spread**4 * W.T @ P @ W
    assert_allclose(found.prior_spread**2 * (np.eye(q) - found.factor.T @ found.factor), expected, atol=1e-8)


@pytest.mark.parametrize("q", [2, 9])
def test_restricted_likelihood_is_that_of_contrasts_between_tasks(q):
    W, n, _, told = told_levels(2, 5, np.ones(q), 1.0)
    d, kappas = 0.3 + 1.0 / n, np.array([0.0, 0.4, 3.0])
    contrasts = np.linalg.svd(np.ones((1, 5)))[2][1:]  # all that is free of the common level
    expected = [
        multivariate_normal(np.zeros(4), SIGMA**2 * contrasts @ (kappa * W @ W.T + np.diag(d)) @ contrasts.T)
        for kappa in kappas
    ]
    expected = np.array([one.logpdf(contrasts @ told) for one in expected])
    found = Factor.of(W, d).restricted(told[:, None], np.array([SIGMA**2]), kappas)[:, 0]
    assert_allclose(found - found[0], expected - expected[0], rtol=1e-9)


@pytest.mark.parametrize(("gamma", "tau"), [((1.5, 0, 0), 1.0), ((0, 0, 0), 1.0), ((1, 1, 0), 0.0)])
def test_spread_and_effects_are_found_and_levels_are_better_than_free_ones(gamma, tau):
    found, gains = [], []
    for seed in range(10):
        W, n, levels, told = told_levels(seed, 200, np.array(gamma, dtype=float), tau)
        model = NormalLevels(W, n)
        one = model.fit(told, SIGMA**2)
        found.append([one.spread, *one.effects])
        gains.append(np.mean((told - levels) ** 2) / np.mean((one.levels - levels) ** 2))
        on_grid = model.shrunk(told[:, None], np.array([SIGMA**2]))[:, 0]
        assert np.mean((on_grid - one.levels) ** 2) < 0.05 * np.mean((told - levels) ** 2)
    # errors of a mean of ten estimates are near .03 here
    assert_allclose(np.mean(found, axis=0), [tau, *gamma], atol=0.15)
    assert np.mean(gains) > 1.3


def test_tests_of_columns_keep_their_rate_and_find_what_moves_levels():
    false, right = [], []
    for seed in range(60):
        W, n, _, told = told_levels(seed, 40, np.array([1.2, 0.0, 0.0, 0.0]), 1.0)
        p = NormalLevels(W, n).fit(told, SIGMA**2).p
        right.append(p[0] < 0.05)
        false += list(p[1:] < 0.05)
    assert np.mean(right) > 0.9
    assert np.mean(false) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(false))


@pytest.mark.parametrize("n_tasks", [1, 2, 3])
def test_few_tasks_have_finite_levels(n_tasks):
    told = np.arange(float(n_tasks))
    shrunk = NormalLevels(np.empty((n_tasks, 0)), np.full(n_tasks, 5.0)).shrunk(
        told[:, None], np.array([0.1])
    )
    assert np.isfinite(shrunk).all() and np.ptp(shrunk) <= np.ptp(told)


def test_levels_without_noise_stay_and_equal_ones_stay_equal():
    told = np.array([1.0, 4.0, 2.0])
    model = NormalLevels(np.empty((3, 0)), np.full(3, 5.0))
    assert_allclose(model.shrunk(told[:, None], np.zeros(1))[:, 0], told, rtol=1e-6)
    assert_allclose(model.shrunk(np.full((3, 1), 7.0), np.zeros(1)), 7.0)


def test_shrunk_levels_do_not_depend_on_units():
    W, n, _, told = told_levels(2, 25, np.array([1.0, 0.0]), 0.5)
    one = NormalLevels(W, n).shrunk(told[:, None], np.array([SIGMA**2]))
    other = NormalLevels(W, n).shrunk(1e6 * told[:, None] + 3e7, np.array([1e12 * SIGMA**2]))
    assert_allclose(other, 1e6 * one + 3e7, rtol=1e-9)


def test_columns_that_are_the_same_in_all_tasks_or_absent_say_nothing():
    means = np.array([[1.0, 0.1, 3.0], [2.0, 0.1, 0.0], [6.0, 0.1, 5.0]])
    absent = np.array([[False, False, False], [False, False, True], [False, False, False]])
    columns = TaskColumns.of(means, absent)
    assert columns.kept.tolist() == [0, 2] and abs(columns.values[1, 1]) < 1e-12
    assert_allclose(columns.place(means[:1]), columns.values[:1])


# -- classes and counts --------------------------------------------------------------------------------------


def simulated_rows(seed, kind, common, tau, n_tasks=200, shift=0.0):
    rng = np.random.default_rng(seed)
    n = rng.integers(5, 11, n_tasks)
    levels = common + shift + tau * rng.normal(size=n_tasks)
    beside = rng.normal(size=n.sum())
    z = beside + np.repeat(levels, n)
    if kind == "classes":
        loss, y = Logistic(), np.where(rng.uniform(size=len(z)) < expit(z), 1.0, -1.0)
    else:
        loss, y = Poisson(), rng.poisson(np.exp(z)).astype(float)
    return TaskRows(loss, y, np.ones(len(y)), beside, np.append(0, np.cumsum(n)))


@pytest.mark.parametrize(
    ("kind", "common", "tau"),
    [("classes", -0.5, 1.0), ("classes", 0.0, 1.0), ("classes", -2.5, 1.5), ("counts", -1.0, 1.0)],
)
def test_marginal_likelihood_finds_the_spread_of_tasks_of_a_few_rows(kind, common, tau):
    found = [
        fit_levels(simulated_rows(seed, kind, common, tau), np.empty((200, 0)), n_nodes=NODES)
        for seed in range(5)
    ]
    # single estimates scatter by .05 to .1 about a mean that is short by .03
    assert_allclose(np.mean([one.spread for one in found]), tau, atol=0.12)
    assert_allclose(np.mean([one.common for one in found]), common, atol=0.2)


@pytest.mark.parametrize("kind", ["classes", "counts"])
def test_quadrature_is_the_integral(kind):
    rows = simulated_rows(0, kind, -0.5, 1.0, n_tasks=4)

    def of_task(lo, hi):
        y, beside, one = rows.y[lo:hi], rows.beside[lo:hi], np.ones(hi - lo)
        prior = norm(0.3, 0.8).pdf
        return quad(lambda b: np.exp(-rows.loss.value(y, beside + b, one)) * prior(b), -8, 8)[0]

    expected = -sum(np.log(of_task(lo, hi)) for lo, hi in pairwise(rows.offsets))
    point = np.array([0.3, np.log(0.8)])
    for n_nodes, close in ((NODES, 1e-4), (QUICK_NODES, 5e-3)):
        value, slope, bend = Marginal(rows, np.zeros(4), n_nodes)(point)
        assert_allclose(value, expected, atol=close)
        ends = [[Marginal(rows, np.zeros(4), 31)(point + by) for by in (-h, h)] for h in 1e-4 * np.eye(2)]
        assert_allclose(slope, [(high[0] - low[0]) / 2e-4 for low, high in ends], atol=5.0 * close)
        assert_allclose(bend, [(high[1] - low[1]) / 2e-4 for low, high in ends], atol=50.0 * close)


def test_columns_explain_levels_of_classes():
    W = TaskColumns.of(np.random.default_rng(5).normal(size=(200, 3))).values
    found = fit_levels(simulated_rows(1, "classes", -0.5, 0.5, shift=W @ [1.0, 0.0, -0.5]), W, n_nodes=NODES)
    assert_allclose(found.effects, [1.0, 0.0, -0.5], atol=0.25)
    assert found.p[0] < 1e-3 and found.p[2] < 0.05 < found.p[1]
    assert_allclose(found.spread, 0.5, atol=0.25)


def test_tasks_of_one_class_and_of_zeros_have_levels():
    offsets, y = np.array([0, 4, 8, 12]), np.array([1.0, 1, 1, 1, -1, 1, -1, 1, -1, -1, -1, -1])
    found = fit_levels(TaskRows(Logistic(), y, np.ones(12), np.zeros(12), offsets), np.empty((3, 0)))
    assert np.all(np.diff(found.levels) < 0.0) and np.abs(found.levels).max() < 6.0
    counts = TaskRows(Poisson(), np.where(y > 0, 0.0, 3.0), np.ones(12), np.zeros(12), offsets)
    assert np.isfinite(fit_levels(counts, np.empty((3, 0))).levels).all()


def test_levels_of_slopes_that_have_run_away_are_finite():
    rng = np.random.default_rng(0)
    y, offsets = rng.poisson(3.0, size=60).astype(float), np.arange(0, 61, 5)
    rows = TaskRows(Poisson(), y, np.ones(60), 150.0 * rng.normal(size=60), offsets)
    found = fit_levels(rows, rng.normal(size=(12, 2)))
    assert np.isfinite([found.common, found.spread, *found.levels, *found.effects]).all()


def test_levels_that_are_told_by_far_more_than_others_are_finite():
    columns = np.array(
        [[-0.088, -0.228, -1.0, 0.714], [1.266, 1.323, 1.366, 0.7], [-1.178, -1.095, -0.366, -1.414]]
    )
    told = np.array([2e8, 1.4e12, 4e-8])
    found = NormalLevels(columns, told).fit(np.array([-0.1, 1.09, 0.15]), 1e-4)
    assert np.isfinite([found.common, found.common_error, found.spread, *found.levels]).all()
