"""The study of how sure: its truth is what it says, and its tables count right."""

from collections import Counter

import numpy as np

from mmtfl_lab.bench.how_sure import draw, judge, print_words, shuffled, true_words


def test_a_problem_has_features_of_every_kind_over_the_seeds():
    kinds = Counter()
    for seed in range(8):
        X, y, task, used = draw(seed)
        assert X.shape == (len(y), used.shape[1]) and len(np.unique(task)) == len(used)
        kinds.update(true_words(used).tolist())
    assert set(kinds) == {"all", "some", "one", "none"}


def test_true_words_count_the_tasks():
    used = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]], dtype=bool)
    assert true_words(used).tolist() == ["all", "some", "one", "none"]


def test_shuffling_stays_within_tasks():
    y, task = np.arange(20.0), np.repeat([0, 1], 10)
    mixed = shuffled(y, task, 0)
    assert not np.array_equal(mixed, y)
    assert np.array_equal(np.sort(mixed[:10]), y[:10]) and np.array_equal(np.sort(mixed[10:]), y[10:])


def test_wrong_and_power_are_shares_of_what_was_said_and_of_what_is_true(capsys):
    print_words(Counter({("all", "all"): 3, ("all", "some"): 1, ("undecided", "all"): 3}))
    line = capsys.readouterr().out.splitlines()[1].split()
    assert line == ["all", "4", "3", "1", "0", "0", "0.250", "0.50"]


def test_a_small_study_runs(capsys):
    judge(1, 10_006, 2, null=True)
    assert "false rows per problem" in capsys.readouterr().out
