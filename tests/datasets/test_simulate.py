"""Simulated tasks have the sharing pattern, the noise and the correlation they promise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl.datasets import make_d1, make_d2, make_tasks

PATTERNS = ["shared", "partial", "staircase", "outlier"]


def test_d1_has_60_features_used_by_all_and_40_by_none():
    data = make_d1(random_state=0)
    assert data.X.shape == (2000, 100)
    assert_array_equal(np.bincount(data.task), np.full(10, 200))
    assert_array_equal(data.support.sum(axis=0), [10] * 60 + [0] * 40)
    assert_array_equal(data.coef != 0, data.support)


def test_d2_is_a_staircase_of_six_groups():
    data = make_d2(random_state=0)
    support, group = data.support, data.group
    assert data.X.shape == (4000, 100)
    assert_array_equal(support.sum(axis=1), np.full(20, 30))
    assert all(np.ptp(np.flatnonzero(used)[10:]) == 19 for used in support)  # steps are consecutive
    assert sorted(np.bincount(group)) == [3, 3, 3, 3, 4, 4]
    assert_array_equal(data.coef != 0, support)
    used_by = np.array([len(set(group[support[:, j]])) for j in range(100)])
    assert (used_by == 6).sum() == 10
    assert (used_by == 0).sum() == 5
    assert set(used_by[(used_by > 0) & (used_by < 6)]) == {1, 2}
    for s in range(20):
        for t in range(20):
            shared = (support[s] & support[t]).sum() - 10
            apart = abs(group[s] - group[t])
            assert shared == (20, 7)[apart] if apart < 2 else shared == 0


@pytest.mark.parametrize("make", [make_d1, make_d2])
def test_noise_has_the_standard_deviation_asked_for(make):
    data = make(n_samples=300, noise=0.5, random_state=0)
    residual = data.y - np.einsum("ij,ij->i", data.X, data.coef[data.task])
    assert_allclose(residual.std(), 0.5, rtol=0.05)
    assert abs(residual.mean()) < 0.05


@pytest.mark.parametrize("make", [make_d1, make_d2, make_tasks])
def test_the_seed_decides_everything(make):
    one, same, other = make(random_state=3), make(random_state=3), make(random_state=4)
    assert_array_equal(one.X, same.X)
    assert_array_equal(one.y, same.y)
    assert_array_equal(one.coef, same.coef)
    assert not np.array_equal(one.X, other.X)
    assert not np.array_equal(one.coef, other.coef)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("classification", [False, True])
def test_each_task_uses_n_informative_features(pattern, classification):
    data = make_tasks(
        12, 8, 40, pattern=pattern, n_informative=9, classification=classification, random_state=0
    )
    assert_array_equal(data.support.sum(axis=1), np.full(12, 9))
    assert_array_equal(data.coef != 0, data.support)
    assert len(data.feature_names) == 40
    assert len(data.task_names) == 12


def test_patterns_share_as_described():
    def support(pattern, **options):
        return make_tasks(20, 3, 60, pattern=pattern, n_informative=10, random_state=0, **options).support

    assert np.all(support("shared") == support("shared")[0])
    partial = support("partial")
    assert_array_equal(partial.all(axis=0), np.arange(60) < 5)
    assert len(np.unique(partial, axis=0)) == 20
    stairs = support("staircase")
    first = stairs.argmax(axis=1)
    assert first[0] == 0
    assert first[-1] == 50
    assert np.all(np.diff(first) > 0)
    assert np.all([np.diff(np.flatnonzero(row)).max() == 1 for row in stairs])


def test_outlying_tasks_use_none_of_the_shared_features():
    data = make_tasks(20, 3, 30, pattern="outlier", n_informative=10, random_state=0)
    assert data.outlier.sum() == 2
    usual, odd = data.support[~data.outlier], data.support[data.outlier]
    assert np.all(usual == usual[0])
    assert not (odd & usual[0]).any()


def test_sizes_come_from_a_number_or_a_list():
    def sizes(n_samples, n_tasks=50):
        return np.bincount(make_tasks(n_tasks, n_samples, 10, n_informative=2, random_state=0).task)

    assert_array_equal(sizes(4), np.full(50, 4))
    assert_array_equal(sizes([2, 5], 2), [2, 5])
    assert_array_equal(sizes(np.array([1, 2, 3]), 3), [1, 2, 3])


def test_neighbouring_features_have_the_correlation_asked_for():
    X = make_tasks(2, 4000, 6, n_informative=2, correlation=-0.6, random_state=0).X
    distance = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    # no entry of a sample covariance has a standard error above that of a variance, sqrt(2 / n)
    assert_allclose(np.cov(X.T), (-0.6) ** distance, atol=5 * np.sqrt(2 / len(X)))


def test_labels_follow_the_logistic_model():
    data = make_tasks(4, 4000, 5, n_informative=5, classification=True, random_state=0)
    z = np.einsum("ij,ij->i", data.X, data.coef[data.task])
    assert set(data.y) == {0, 1}
    sure = make_tasks(3, 50, 5, n_informative=5, noise=0.0, classification=True, random_state=0)
    assert_array_equal(sure.y, np.einsum("ij,ij->i", sure.X, sure.coef[sure.task]) > 0)
    for low, high in [(-3, -1), (-0.5, 0.5), (1, 3)]:
        near = (z > low) & (z < high)
        assert_allclose(data.y[near].mean(), np.mean(1 / (1 + np.exp(-z[near]))), atol=0.03)


def test_small_classification_tasks_have_both_classes():
    data = make_tasks(200, [2, 3] * 100, 5, n_informative=3, classification=True, random_state=0)
    counts = np.bincount(data.task * 2 + data.y, minlength=400)
    assert counts.min() >= 1


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"pattern": "ring"}, ValueError, "'staircase'"),
        ({"n_informative": 51}, ValueError, "n_features=50"),
        ({"n_informative": 26, "pattern": "outlier"}, ValueError, "52"),
        ({"noise": -1.0}, ValueError, "noise"),
        ({"correlation": 1.0}, ValueError, "correlation"),
        ({"n_tasks": 2.0}, TypeError, "n_tasks"),
        ({"n_samples": 0}, ValueError, "n_samples"),
        ({"n_samples": [3, 4]}, ValueError, "or 10 of them"),
    ],
)
def test_wrong_options_are_named(options, error, words):
    with pytest.raises(error, match=words):
        make_tasks(**options)
