"""Sentences about support: the counts and promises of cases written by hand."""

from types import SimpleNamespace

import numpy as np

from mmtfl.estimators.supported_features import in_which_tasks, support_sentences


def found(words, *, selected, bound=0.4, promises=True):
    """What the sentences read of a `Stability`."""
    tasks = {"all": ["a", "b", "c"], "some": ["a", "c"], "several": ["a", "b"], "one": ["b"]}
    return SimpleNamespace(
        supported_=np.array(words),
        feature_frequency_=np.linspace(0.1, 1.0, len(words)),
        feature_names_=tuple("tuvwxyz"[: len(words)]),
        selected_=np.arange(len(words)) < selected,
        n_pairs_=50,
        level_=0.25,
        probability_=np.where(np.isin(words, ["none", "undecided"]), 0.1, 0.9),
        threshold_=0.8,
        bound_=bound,
        promises_=promises,
        supporting_tasks=lambda j: np.array(tasks.get(words[j], [])),
        untested_tasks=lambda j: np.array([]),
    )


def test_no_half_samples_no_sentence():
    assert support_sentences(None) == [] and in_which_tasks(None, 0) is None


def test_every_word_is_counted_and_the_bound_is_told():
    words = ["all", "some", "several", "one", "none", "undecided", "some"]
    first, names, second = support_sentences(found(words, selected=4))
    assert "1 feature in all tasks, 2 in some, 1 in several (two or more, perhaps all), 1 in one" in first
    assert "1 in none, 1 undecided" in first
    assert names == "In all tasks: 't'; in some: 'z', 'u'; in several: 'v'; in one: 'w'."
    assert "50 pairs" in first and "at least 75%, 90% on average" in first
    assert "4 features are kept by at least 80%" in second and "at most 0.4" in second


def test_nothing_found_is_said_plainly():
    first, second = support_sentences(found(["none", "undecided"], selected=0))
    assert first.startswith("Nothing was found") and "undecided: 1" in first
    assert second == "No feature is selected: none is kept by at least 80% of the half samples."


def test_no_promise_is_made_where_there_is_no_bound():
    second = support_sentences(found(["all"], selected=1, bound=100.0, promises=False))[-1]
    assert "nothing can be promised" in second and "100" not in second


def test_tasks_are_named():
    of = found(["all", "some", "several", "one", "none", "undecided"], selected=3)
    assert [in_which_tasks(of, j) for j in range(6)] == [
        *("all tasks", "some tasks ('a', 'c')", "two or more tasks, perhaps all ('a', 'b')"),
        *("one task (b)", "none", "undecided"),
    ]


def test_all_tasks_are_those_that_could_be_tested():
    of = found(["all"], selected=1)
    of.untested_tasks = lambda j: np.array(["d"])
    assert in_which_tasks(of, 0) == "all tasks that could be tested (not 'd')"
