"""Random-effects meta-analysis: statsmodels as oracle, limits that are known, and simulated coverage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.multitest import multipletests

from mmtfl.inference.meta_analysis import MetaAnalysis, holm, joint_p, least_same_direction, q_values

KNOWN = np.inf


def draws(seed, n_tasks=9, n_features=40, tau=0.4):
    rng = np.random.default_rng(seed)
    error = rng.uniform(0.1, 1.0, size=(n_tasks, n_features))
    theta = (
        rng.normal(size=n_features)
        + tau * rng.normal(size=error.shape)
        + error * rng.normal(size=error.shape)
    )
    return theta, error**2


def test_average_and_spread_are_those_of_statsmodels():
    theta, variance = draws(0)
    found = MetaAnalysis(theta, variance, np.full(9, KNOWN))
    spread_seen = 0
    for j in range(theta.shape[1]):
        oracle = combine_effects(
            theta[:, j], variance[:, j], method_re="iterated", atol=1e-12, maxiter=200, alpha=0.1
        )
        tau2 = max(oracle.tau2, 0.0)
        if tau2 == 0.0 and oracle.q > 8.0:
            continue  # its iteration has ended at zero, where Q is not what it is looking for
        assert_allclose(found.spread[j] ** 2, tau2, atol=1e-6)
        spread_seen += tau2 > 0.0
        if tau2 > 1e-6:
            assert_allclose(found.average[j], oracle.mean_effect_re, atol=1e-6)
            # Hartung and Knapp, whose factor is 1 at the spread of Paule and Mandel
            assert_allclose(found.error[j], oracle.sd_eff_w_re_hksj, rtol=1e-4)
        assert_allclose(found.p_spread[j], stats.chi2.sf(oracle.q, 8), rtol=1e-8)
    assert 0 < spread_seen < theta.shape[1]


def test_tasks_without_the_feature_do_not_count():
    theta, variance = draws(1)
    with_gaps, n_tasks = theta.copy(), np.arange(40) % 9 + 1
    for j, k in enumerate(n_tasks):
        with_gaps[k:, j] = np.nan
    found = MetaAnalysis(with_gaps, variance, np.full(9, KNOWN))
    assert_allclose(found.n_tasks, n_tasks)
    for j in (5, 7, 16):
        alone = MetaAnalysis(
            theta[: n_tasks[j], [j]], variance[: n_tasks[j], [j]], np.full(n_tasks[j], KNOWN)
        )
        assert_allclose(
            [found.average[j], found.error[j], found.spread[j], found.p[j], found.p_any[j]],
            [alone.average[0], alone.error[0], alone.spread[0], alone.p[0], alone.p_any[0]],
        )
    single = n_tasks == 1
    assert_allclose(found.average[single], theta[0, single])
    assert np.isnan(found.spread[single]).all() and np.isnan(found.new_task_interval(0.9)[0][single]).all()


def test_a_task_that_tells_nothing_has_the_interval_of_a_new_task():
    theta, variance = draws(3)
    theta[0], variance[0] = np.nan, np.nan
    found = MetaAnalysis(theta, variance, np.full(9, KNOWN))
    value, lower, upper = found.shrunk(0.9)
    assert_allclose(value[0], found.average, rtol=1e-12)
    assert_allclose([lower[0], upper[0]], found.new_task_interval(0.9), rtol=1e-9)


def test_units_of_a_feature_do_not_matter():
    theta, variance = draws(2)
    unit = np.geomspace(1e-12, 1e12, 40)
    one, other = (MetaAnalysis(theta * u, variance * u**2, np.full(9, 20.0)) for u in (1.0, unit))
    assert_allclose(other.average, one.average * unit)
    assert_allclose(other.spread_interval(0.9)[1], one.spread_interval(0.9)[1] * unit, rtol=1e-8)
    assert_allclose(other.p, one.p, rtol=1e-7)


def test_spread_interval_is_where_q_is_not_unusual():
    theta, variance = draws(3, tau=1.0)
    found = MetaAnalysis(theta, variance, np.full(9, KNOWN))
    low, high = found.spread_interval(0.9)
    for tail, end in ((0.05, low), (0.95, high)):
        w = 1.0 / (variance + end**2)
        q = (w * (theta - (w * theta).sum(axis=0) / w.sum(axis=0)) ** 2).sum(axis=0)
        inside = end > 0.0
        assert_allclose(stats.chi2.sf(q[inside], 8), tail, rtol=1e-6)
        assert inside.any()


@pytest.mark.parametrize(("n_tasks", "least"), [(8, 0.88), (30, 0.88)])
def test_intervals_cover_what_they_promise(n_tasks, least):
    rng = np.random.default_rng(4)
    error = rng.uniform(0.2, 0.8, size=(n_tasks, 4000))
    mu, tau = 0.7, np.repeat([0.0, 0.5], 2000)
    truth = mu + tau * rng.normal(size=error.shape)
    found = MetaAnalysis(truth + error * rng.normal(size=error.shape), error**2, np.full(n_tasks, KNOWN))
    new = mu + tau * rng.normal(size=4000)
    shrunk = found.shrunk(0.9)
    held = {
        "average": (found.interval(0.9), mu),
        "spread": (found.spread_interval(0.9), tau),
        "single": (found.single_interval(0.9), truth),
        "shrunk": (shrunk[1:], truth),
        "new": (found.new_task_interval(0.9), new),
    }
    for name, ((low, high), value) in held.items():
        covered = (low <= value) & (value <= high)
        for part in (slice(0, 2000), slice(2000, None)):
            assert covered[..., part].mean() > least, (name, part)
    assert ((shrunk[0] - truth) ** 2).mean() < 0.6 * ((found.theta - truth) ** 2).mean()


def test_noisy_errors_are_no_spread():
    rng = np.random.default_rng(5)
    noise = rng.chisquare(12, size=(100, 300)) / 12
    found = MetaAnalysis(rng.normal(size=(100, 300)), noise, np.full(100, 12.0))
    assert (found.p_spread <= 0.05).mean() < 0.1
    naive = MetaAnalysis(found.theta, noise, np.full(100, KNOWN))
    assert (naive.p_spread <= 0.05).mean() > 0.2


def test_correlated_errors_widen_the_average():
    rng = np.random.default_rng(6)
    correlation = np.full((6, 6), 0.7) + 0.3 * np.eye(6)
    theta = np.linalg.cholesky(correlation) @ rng.normal(size=(6, 3000))
    known, ignored = (
        MetaAnalysis(theta, np.ones_like(theta), np.full(6, KNOWN), c) for c in (correlation, None)
    )
    inside = [np.mean(found.p > 0.1) for found in (known, ignored)]
    assert inside[0] > 0.88 > 0.7 > inside[1]
    assert np.mean(known.p_any < 0.1) < 0.11


def test_joint_test_holds_its_level_and_finds_what_single_ones_miss():
    rng = np.random.default_rng(7)
    within = 0.04 * (np.full((3, 3), 0.5) + 0.5 * np.eye(3))
    root, p = np.linalg.cholesky(within), {0.0: [], 0.3: []}
    for size, found in p.items():
        for _ in range(300):
            shared = 0.2 * rng.normal(size=(12, 3)) @ np.linalg.cholesky(within / 0.04).T
            theta = size + shared + rng.normal(size=(12, 3)) @ root.T
            analysis = MetaAnalysis(theta, np.full((12, 3), 0.04), np.full(12, KNOWN))
            found.append(joint_p(analysis, np.arange(3), np.broadcast_to(within, (12, 3, 3))))
    assert np.mean(np.array(p[0.0]) < 0.1) < 0.14
    assert np.mean(np.array(p[0.3]) < 0.1) > 0.9


def test_corrections_are_those_of_statsmodels():
    p = np.random.default_rng(8).uniform(size=30) ** 3
    with_gap = np.append(p, np.nan)
    assert_allclose(q_values(with_gap)[:-1], multipletests(p, method="fdr_bh")[1])
    assert_allclose(holm(with_gap)[:-1], multipletests(p, method="holm")[1])
    assert np.isnan(q_values(with_gap)[-1]) and np.isnan(holm(with_gap)[-1])
    with_others = np.append(p, np.ones(270))  # features that were not looked at count as not significant
    assert_allclose(q_values(p, 300), multipletests(with_others, method="fdr_bh")[1][:30])


def test_least_direction_is_one_half_if_the_interval_holds_zero():
    share = least_same_direction(np.array([-1.0, 2.0, -3.0]), np.array([1.0, 3.0, -2.0]), np.full(3, 1.0))
    assert_allclose(share, [0.5, stats.norm.cdf(2.0), stats.norm.cdf(2.0)])
