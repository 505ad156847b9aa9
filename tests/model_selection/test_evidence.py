"""Evidence within tasks: effects against least squares, probabilities against sums over all sets of tasks."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from mmtfl.model_selection import evidence as module
from mmtfl.model_selection.evidence import KINDS, entry_effects, mean_over_tasks, weigh_evidence
from mmtfl.objective.losses import Huber, Logistic, Poisson, Squared
from mmtfl.tasks import Tasks


@pytest.fixture
def tasks():
    rng = np.random.default_rng(3)
    X, task = rng.normal(size=(90, 4)) * [1.0, 5.0, 0.2, 1.0], np.repeat([0, 1], [40, 50])
    return Tasks.from_rows(X, X @ [1.0, 0.3, 0.0, 0.0] + rng.normal(size=90) + task, task)


def least_squares(X, y):
    """Coefficients, standard errors and degrees of freedom, written out."""
    design = np.column_stack([np.ones(len(y)), X])
    coef, dof = np.linalg.lstsq(design, y, rcond=None)[0], len(y) - design.shape[1]
    residual = y - design @ coef
    error = np.sqrt(residual @ residual / dof * np.diag(np.linalg.inv(design.T @ design)))
    return coef[1:], error[1:], dof


def test_effects_are_those_of_least_squares_on_the_kept_features_and_the_one_tested(tasks):
    kept = np.array([True, True, False, False])
    found = entry_effects(tasks, kept, np.ones((2, 4), dtype=bool), Squared())
    for t, view in enumerate(tasks):
        for features, tested in (([0, 1], [0, 1]), ([0, 1, 2], [2]), ([0, 1, 3], [3])):
            coef, error, dof = least_squares(view.X[:, features], view.y)
            place = [features.index(j) for j in tested]
            assert_allclose(found.effect[t, tested], coef[place], rtol=1e-8)
            p = 2.0 * stats.t.sf(np.abs(coef / error)[place], dof)
            assert_allclose(
                2.0 * stats.norm.sf(np.abs(found.effect / found.normal_error)[t, tested]), p, rtol=1e-6
            )


def test_weight_two_is_a_repeated_row_for_the_effect(tasks):
    weights = np.where(np.arange(90) % 3 == 0, 2.0, 1.0)
    repeated = tasks.select(np.repeat(np.arange(90), weights.astype(int)))
    kept, usable = np.array([True, True, False, False]), np.ones((2, 4), dtype=bool)
    one = entry_effects(tasks.with_weights(weights), kept, usable, Squared())
    other = entry_effects(repeated, kept, usable, Squared())
    assert_allclose(one.effect, other.effect, rtol=1e-8)


def test_targets_without_noise_have_finite_errors(tasks):
    exact = tasks.with_y(tasks.X @ np.array([2.0, 0.0, 0.0, 0.0]))
    found = entry_effects(exact, np.eye(4, dtype=bool)[0], np.ones((2, 4), dtype=bool), Squared())
    assert_allclose(found.effect[:, 0], 2.0)
    assert (found.normal_error[:, 0] > 0.0).all() and (
        np.abs(found.effect / found.normal_error)[:, 0] > 30.0
    ).all()


def test_a_task_with_too_few_rows_is_not_tested(tasks):
    few = tasks.select(np.r_[0:7, 40:90])
    kept = np.array([True, True, False, False])
    found = entry_effects(few, kept, np.ones((2, 4), dtype=bool), Squared())
    assert np.isnan(found.effect[0]).all() and np.isfinite(found.effect[1]).all()


def test_effects_of_classes_are_near_the_true_log_odds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = np.where(rng.uniform(size=6000) < 1.0 / (1.0 + np.exp(-X[:, 0])), 1.0, -1.0)
    kept = np.array([True, False, False])
    found = entry_effects(Tasks.from_rows(X, y), kept, np.ones((1, 3), dtype=bool), Logistic())
    assert_allclose(found.effect[0], [1.0, 0.0, 0.0], atol=0.1)
    # the information of one observation at the true coefficients, by simulation
    chance = 1.0 / (1.0 + np.exp(-X[:, 0]))
    assert_allclose(found.error[0, 1], 1.0 / np.sqrt((chance * (1.0 - chance)).sum()), rtol=0.05)


def test_effects_of_counts_have_the_errors_of_a_poisson_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3))
    mean = np.exp(0.5 * X[:, 0] - 0.2)
    tasks = Tasks.from_rows(X, rng.poisson(mean).astype(float))
    found = entry_effects(tasks, np.array([True, False, False]), np.ones((1, 3), dtype=bool), Poisson())
    assert_allclose(found.effect[0], [0.5, 0.0, 0.0], atol=0.05)
    assert_allclose(found.error[0, 1:], 1.0 / np.sqrt(mean @ X[:, 1:] ** 2), rtol=0.06)


def test_effects_under_the_huber_loss_do_not_follow_outliers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    noise = rng.normal(size=2000)
    noise[::20] += 100.0 * np.sign(X[::20, 1])  # which would pull the second feature
    tasks = Tasks.from_rows(X, X[:, 0] + noise)
    usable, kept = np.ones((1, 2), dtype=bool), np.array([True, True])
    robust, plain = (entry_effects(tasks, kept, usable, loss) for loss in (Huber(1.35), Squared()))
    assert_allclose(robust.effect[0], [1.0, 0.0], atol=0.25)
    assert plain.effect[0, 1] > 2.0 and plain.error[0, 0] > 5.0 * robust.error[0, 0]


def test_the_interval_of_the_mean_of_tasks_is_that_of_welch():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=12), rng.normal(2.0, 3.0, size=9)
    effect = np.array([one.mean(), -other.mean(), np.nan])
    error = np.array([one.std(ddof=1) / np.sqrt(12.0), other.std(ddof=1) / 3.0, np.nan])
    mean, reach = mean_over_tasks(effect, error, np.array([11.0, 8.0, np.nan]), 0.9)
    interval = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.9)
    # the mean of a and -b is half the difference of a and b
    assert_allclose((mean - reach, mean + reach), (interval.low / 2.0, interval.high / 2.0))


def test_the_mean_of_one_task_has_its_own_interval():
    mean, reach = mean_over_tasks(np.array([2.0, np.nan]), np.array([1.0, 1.0]), np.array([7.0, 7.0]), 0.9)
    assert_allclose((mean, reach), (2.0, stats.t.isf(0.05, 7)))
    assert np.isnan(mean_over_tasks(np.full(2, np.nan), np.ones(2), np.ones(2), 0.9)).all()


def test_the_sums_over_sets_are_those_over_all_sets_of_tasks(n_tasks=5):
    rng = np.random.default_rng(1)
    ratio = rng.normal(size=(n_tasks, 1))
    products = {
        c: [np.exp(ratio[list(users), 0].sum()) for users in combinations(range(n_tasks), c)]
        for c in range(n_tasks + 1)
    }
    means = [np.mean(products[c]) for c in range(n_tasks + 1)]
    expected = [1.0, means[1], means[2], np.mean(means[2:n_tasks]), means[n_tasks - 1], means[n_tasks]]
    assert_allclose(np.exp(module._of_parts(ratio)[:, 0]), expected, rtol=1e-10)


def test_the_probability_of_an_entry_is_that_of_all_sets_with_it(n_tasks=4):
    rng = np.random.default_rng(2)
    ratio, parts = rng.normal(size=(n_tasks, 1)), np.array([0.3, 0.2, 0.1, 0.15, 0.05, 0.2])
    prior = module._set_prior(n_tasks, parts)
    total, with_task = 0.0, np.zeros(n_tasks)
    for c in range(n_tasks + 1):
        for users in combinations(range(n_tasks), c):
            weight = prior[c] * np.exp(ratio[list(users), 0].sum())
            total += weight
            with_task[list(users)] += weight
    assert_allclose(module._inclusion(ratio, np.ones(1), parts), with_task / total, rtol=1e-10)


def clear_case(n_tasks=6, n_features=30):
    """Effects of ten standard errors in all tasks, in three, in one, and nowhere; noise of one."""
    rng = np.random.default_rng(0)
    effect = rng.normal(size=(n_tasks, n_features))
    effect[:, 0] += 10.0
    effect[:3, 1] -= 10.0
    effect[4, 2] += 10.0
    return effect, np.ones_like(effect)


def test_clear_cases_get_their_words():
    found = weigh_evidence(*clear_case())
    assert [KINDS[kind] for kind in found.kinds[:3].argmax(axis=1)] == ["all", "some", "one"]
    assert (found.kinds[[0, 1, 2], [3, 2, 1]] > 0.9).all()
    assert (found.kinds[3:, 0] > 0.5).mean() > 0.8
    assert_allclose(found.kinds.sum(axis=1), 1.0)
    assert (found.entries[:, 1] > 0.9).tolist() == [True] * 3 + [False] * 3


def test_words_do_not_depend_on_units_or_on_the_order_of_tasks():
    effect, error = clear_case()
    found = weigh_evidence(effect, error)
    assert_allclose(weigh_evidence(1e3 * effect, 1e3 * error).kinds, found.kinds, atol=1e-8)
    assert_allclose(weigh_evidence(effect[::-1], error[::-1]).kinds, found.kinds, atol=1e-8)


def test_noise_alone_supports_no_feature():
    rng = np.random.default_rng(5)
    effect = rng.normal(size=(10, 100))
    found = weigh_evidence(effect, np.ones_like(effect))
    assert (found.kinds[:, 1:].max(axis=1) < 0.9).all()


def test_what_was_not_tested_has_no_probability():
    effect, error = clear_case()
    effect[:, 7], effect[0, 0] = np.nan, np.nan
    found = weigh_evidence(effect, error)
    assert np.isnan(found.kinds[7]).all() and np.isnan(found.entries[0, 0])
    assert np.isfinite(found.kinds[0]).all() and np.isfinite(found.entries[1:, 0]).all()
