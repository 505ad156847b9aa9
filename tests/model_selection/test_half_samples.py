"""Complementary pairs: halves of every task, and of every class, that share no row."""

import numpy as np
from numpy.testing import assert_array_equal

from mmtfl.model_selection.half_samples import complementary_pairs, too_small_to_halve
from mmtfl.tasks import Tasks


def pairs_of(tasks, n_pairs=5, seed=0, *, with_classes=False):
    return list(complementary_pairs(tasks, n_pairs, np.random.RandomState(seed), with_classes=with_classes))


def test_halves_are_disjoint_and_halve_every_task():
    tasks = Tasks.from_rows(np.zeros((24, 2)), np.arange(24.0), [0] * 5 + [1] * 8 + [2] * 11)
    for one, other in pairs_of(tasks):
        assert not np.intersect1d(one, other).size
        for half in (one, other):
            assert_array_equal(np.bincount(tasks.observation_task[half]), [2, 4, 5])


def test_every_class_is_halved():
    y = np.array([1.0] * 4 + [-1.0] * 6 + [1.0] * 2 + [-1.0] * 7)
    tasks = Tasks.from_rows(np.zeros((19, 1)), y, [0] * 10 + [1] * 9)
    for pair in pairs_of(tasks, with_classes=True):
        for half in pair:
            counts = np.bincount(2 * tasks.observation_task[half] + (tasks.y[half] > 0))
            assert_array_equal(counts, [3, 2, 3, 1])


def test_tasks_on_the_same_rows_are_halved_by_rows():
    tasks = Tasks.from_shared(np.arange(20.0).reshape(10, 2), np.arange(30.0).reshape(10, 3))
    one, other = pairs_of(tasks, 1)[0]
    for half in (one, other):
        rows = np.asarray(tasks.rows)[half].reshape(3, 5)
        assert_array_equal(rows[0], rows[1])
        assert_array_equal(rows[0], rows[2])
    assert not np.intersect1d(np.asarray(tasks.rows)[one], np.asarray(tasks.rows)[other]).size


def test_a_seed_gives_the_same_halves_and_another_seed_others():
    tasks = Tasks.from_rows(np.zeros((30, 1)), np.arange(30.0), [0] * 30)
    assert_array_equal(pairs_of(tasks, seed=1)[2][0], pairs_of(tasks, seed=1)[2][0])
    assert not np.array_equal(pairs_of(tasks, seed=1)[2][0], pairs_of(tasks, seed=2)[2][0])


def test_tasks_below_four_rows_or_two_of_a_class_cannot_be_halved():
    y = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0, -1.0, 1.0]
    tasks = Tasks.from_rows(np.zeros((11, 1)), y, [0] * 3 + [1] * 4 + [2] * 4)
    assert too_small_to_halve(tasks, with_classes=False).tolist() == [True, False, False]
    assert too_small_to_halve(tasks, with_classes=True).tolist() == [True, True, False]
