"""Folds and splits keep every task in training, test every row that can be, and keep the type of the data."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mmtfl.model_selection import TaskKFold, tasks_train_test_split
from mmtfl.model_selection.folds import folds_of_tasks
from mmtfl.tasks.container import Tasks


def labels(sizes, seed=0):
    """Labels of tasks of these sizes, in random order."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


def folds(splitter, task, y=None):
    return list(splitter.split(np.zeros((len(task), 1)), y, task=task))


# -- TaskKFold -------------------------------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    n_splits=st.integers(2, 5),
    shuffle=st.booleans(),
    seed=st.integers(0, 99),
)
def test_folds_keep_the_promises(sizes, n_splits, shuffle, seed):
    task = labels(sizes, seed)
    splitter = TaskKFold(n_splits, shuffle=shuffle, random_state=seed if shuffle else None)
    testable = sum(size for size in sizes if size > 1)
    if testable < n_splits:
        with pytest.raises(ValueError, match="use fewer folds"):
            folds(splitter, task)
        return
    tested = np.zeros(len(task), dtype=int)
    test_sizes = []
    for train, test in folds(splitter, task):
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(task)))
        assert set(task[train]) == set(range(len(sizes)))
        assert {t for t, size in enumerate(sizes) if size >= n_splits} <= set(task[test])
        by_task = np.bincount(task[test], minlength=len(sizes))
        for size, count in zip(sizes, by_task, strict=True):
            assert size == 1 or size // n_splits <= count <= -(-size // n_splits)
        tested[test] += 1
        test_sizes.append(len(test))
    assert_array_equal(tested, np.array(sizes)[task] > 1)
    assert len(test_sizes) == n_splits
    assert min(test_sizes) > 0
    assert max(test_sizes) - min(test_sizes) <= 1


@settings(max_examples=80, deadline=None)
@given(
    counts=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=6),
    n_splits=st.integers(2, 4),
    seed=st.integers(0, 99),
)
def test_stratified_folds_keep_them_for_every_class_of_every_task(counts, n_splits, seed):
    cell = labels(np.ravel(counts), seed)
    task, y = cell // 2, np.array(["no", "yes"])[cell % 2]
    sizes = np.ravel(counts)
    splitter = TaskKFold(n_splits, random_state=seed, stratify=True)
    if sizes[sizes > 1].sum() < n_splits:
        with pytest.raises(ValueError, match="use fewer folds"):
            folds(splitter, task, y)
        return
    tested = np.zeros(len(task), dtype=int)
    for train, test in folds(splitter, task, y):
        assert set(cell[train]) == set(range(len(sizes)))
        assert {c for c, size in enumerate(sizes) if size >= n_splits} <= set(cell[test])
        tested[test] += 1
    assert_array_equal(tested, sizes[cell] > 1)


@settings(max_examples=60, deadline=None)
@given(
    n_rows=st.integers(8, 40),
    n_tasks=st.integers(1, 5),
    share=st.floats(0.03, 0.6),
    seed=st.integers(0, 99),
    missing=st.booleans(),
)
def test_classes_of_all_columns_stay_in_every_training_part(n_rows, n_tasks, share, seed, missing):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_rows, n_tasks)) < share).astype(float)
    Y[0] = 1.0  # one positive at least, and in some columns no other
    if missing:
        Y[1:][rng.random((n_rows - 1, n_tasks)) < 0.2] = np.nan
    classes = [set(column[~np.isnan(column)]) for column in Y.T]
    plain = TaskKFold(3, random_state=seed).split(Y)
    n_trained = np.zeros(n_rows, dtype=int)
    for (train, test), (_, tested) in zip(
        TaskKFold(3, random_state=seed, stratify=True).split(Y, Y), plain, strict=True
    ):
        assert [set(column[~np.isnan(column)]) for column in Y[train].T] == classes
        assert set(test) <= set(tested)
        n_trained[train] += 1
    # only what has to is never tested: at most one row for a class of a column
    assert np.sum(n_trained == 3) <= 2 * n_tasks
    assert np.all(n_trained >= 2)


TWO, CONTINUOUS = {"task": [0, 0, 1, 1]}, [0.1, 0.2, 0.3, 0.5]


@pytest.mark.parametrize(
    ("options", "y", "task", "words"),
    [
        ({"n_splits": 1}, None, TWO, "2 or more"),
        ({"n_splits": 2.5}, None, TWO, "n_splits"),
        ({"shuffle": False, "random_state": 0}, None, TWO, "no effect"),
        ({}, None, {"task": [0, 0, 1]}, "task has 3"),
        ({"stratify": True}, None, TWO, "y is None"),
        ({"stratify": True}, CONTINUOUS, TWO, "continuous"),
        ({"stratify": True}, np.column_stack([CONTINUOUS, CONTINUOUS]), {}, "continuous"),
        ({"stratify": True}, np.eye(3, 2), {}, "y has 3"),
        ({}, None, {"task": [0, 1, 2, 3]}, "0 of 4 rows"),
    ],
)
def test_wrong_options_and_data_are_named(options, y, task, words):
    with pytest.raises((TypeError, ValueError), match=words):
        next(TaskKFold(**{"n_splits": 2, **options}).split(np.zeros((4, 1)), y, **task))


# -- tasks_train_test_split ------------------------------------------------------------------------------


def split(sizes, **options):
    task = labels(sizes)
    n = len(task)
    parts = tasks_train_test_split(np.arange(n)[:, None], np.arange(n), task, random_state=0, **options)
    return (task, *parts)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8).filter(lambda sizes: max(sizes) > 1),
    test_size=st.floats(0.01, 0.99),
)
def test_every_task_is_in_both_parts_once_it_has_two_rows(sizes, test_size):
    task, X_train, X_test, y_train, y_test, task_train, task_test = split(sizes, test_size=test_size)
    assert_array_equal(np.sort(np.concatenate([y_train, y_test])), np.arange(len(task)))
    assert_array_equal(X_train[:, 0], y_train)
    assert_array_equal(X_test[:, 0], y_test)
    assert_array_equal(task_train, task[y_train])
    assert_array_equal(task_test, task[y_test])
    assert set(task_train) == set(range(len(sizes)))
    assert set(task_test) == {t for t, size in enumerate(sizes) if size > 1}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_keep_their_type_and_names(frame):
    X = frame({"a": np.arange(12.0), "b": np.arange(12.0)})
    column = {pd.DataFrame: pd.Series, pl.DataFrame: pl.Series, pa.table: pa.array}[frame]
    y, task = column(list(range(12))), column(["u", "v", "w"] * 4)
    parts = tasks_train_test_split(X, y, task, random_state=0)
    for part, whole in zip(parts, [X, X, y, y, task, task], strict=True):
        assert type(part) is type(whole)
    rows = np.asarray(parts[3])
    assert_array_equal(np.asarray(parts[1]["a"]), rows)
    assert sorted(np.asarray(parts[5]).tolist()) == ["u", "v", "w"]


def test_searches_with_shrunk_levels_test_the_only_row_of_a_class():
    task = np.repeat(["a", "b"], [4, 9])
    y = np.array([0, 0, 0, 1, *[0, 1] * 4, 1], dtype=float)
    tasks = Tasks.from_rows(np.arange(13.0)[:, None], y, task)
    splitter = TaskKFold(3, random_state=0, stratify=True)
    bound, every = (folds_of_tasks(splitter, tasks, every_row=all_rows) for all_rows in (False, True))
    assert 3 not in np.concatenate([test for _, test in bound])
    assert_array_equal(np.sort(np.concatenate([test for _, test in every])), np.arange(13))
    for train, test in every:  # the other task has both classes in every part
        assert set(y[train[train > 3]]) == set(y[test[test > 3]]) == {0.0, 1.0}


def test_wrong_sizes_are_named():
    for size in ({"test_size": 0.0}, {"test_size": 1.0}, {"train_size": "half"}, {"train_size": True}):
        with pytest.raises((TypeError, ValueError), match=next(iter(size))):
            split([5, 5], **size)
    with pytest.raises(ValueError, match="more than 1"):
        split([5, 5], test_size=0.6, train_size=0.6)
