"""Splits in time: every task is tested on rows that come after those it is trained on."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from mmtfl.model_selection.dealing import Cells, check_classes
from mmtfl.model_selection.splitting import Parts, TaskSplitter, check_n_splits


class TaskTimeSplit(TaskSplitter):
    """Folds in time order within tasks: each trains on the first rows of every task and tests the next ones.

    scikit-learn's ``TimeSeriesSplit`` for every task. Rows must be in time order within their tasks; the
    tasks may be mixed, and need not cover the same time. In fold k every task is trained on its rows up to a
    point and tested on those that follow, up to the point of fold k + 1: no row is predicted by rows of its
    task that come after it. Tasks with fewer rows than folds are tested in the last folds; the first row of a
    task is never tested.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    first : float, optional
        Share of each task's rows that is only ever trained on; None is 1 / (n_splits + 1).
    stratify : bool, default=False
        For classes: leave a task out of the folds in which its training rows are all of one class.

    Notes
    -----
    Groups of rows that must stay together are possible too: rows before the point whose group is tested in
    the same fold are then left out of training.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.model_selection import TaskTimeSplit
    >>> task = np.array(["a", "b", "a", "a", "b", "a", "a", "b", "a"])
    >>> for train, test in TaskTimeSplit(2).split(np.zeros((9, 1)), task=task):
    ...     print(train, test)
    [0 1 2] [3 4 5]
    [0 1 2 3 4 5] [6 7 8]
    """

    def __init__(self, n_splits: int = 5, *, first: float | None = None, stratify: bool = False) -> None:
        if first is not None and not (isinstance(first, Real) and 0.0 < first < 1.0):
            raise ValueError(f"first={first!r}: expected a share between 0 and 1, or None.")
        self.n_splits = check_n_splits(n_splits)
        self.first, self.stratify = first, stratify

    def parts(self, n_rows: int, y: Any, task: Any, group: np.ndarray | None) -> Parts:
        """The folds of rows with these tasks (None: one) and numbered groups (None: every row is one)."""
        code = np.empty(n_rows, dtype=np.intp)
        fold = np.empty(n_rows, dtype=np.intp)  # in which a row is tested; -1 before the first point
        for t, rows in enumerate(Cells.of(n_rows, None, task, stratify=False).lists()):
            code[rows] = t
            fold[rows] = np.searchsorted(self._points(len(rows)), np.arange(len(rows)), side="right") - 1
        classes = check_classes(y, n_rows) if self.stratify and np.ndim(y) != 2 else None
        for k in range(self.n_splits):
            is_train, is_test = fold < k, fold == k
            if group is not None:
                is_train &= ~np.isin(group, group[is_test])
            lacking = _tasks_lacking(code, is_train, classes)
            train, test = (np.flatnonzero(part & ~np.isin(code, lacking)) for part in (is_train, is_test))
            if not len(test):
                raise ValueError(
                    f"Fold {k} of {self.n_splits} in time order has no row to test: tasks have too few "
                    "rows, or too few of a class or a group, before its point. Use fewer folds, or a larger "
                    "first share."
                )
            yield train, test

    def _points(self, n_rows: int) -> np.ndarray:
        """Where the test part of each fold begins, for a task of so many rows."""
        share = 1.0 / (self.n_splits + 1) if self.first is None else float(self.first)
        later = n_rows - max(1, int(np.ceil(n_rows * share)))
        size = max(1, later // self.n_splits)
        return np.maximum(1, n_rows - size * np.arange(self.n_splits, 0, -1))


def _tasks_lacking(code: np.ndarray, is_train: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Tasks without a training row, or with training rows of a single class."""
    n_tasks = int(code.max()) + 1
    if classes is None:
        return np.flatnonzero(np.bincount(code[is_train], minlength=n_tasks) == 0)
    label = np.unique(classes, return_inverse=True)[1]
    found = np.zeros((n_tasks, int(label.max()) + 1), dtype=bool)
    found[code[is_train], label[is_train]] = True
    return np.flatnonzero(found.sum(axis=1) < 2)


def time_blocks(observation_task: np.ndarray, n_blocks: int = 10) -> np.ndarray:
    """Blocks of consecutive rows of each task, numbered: what half samples of rows in time are made of.

    Tasks have at least four blocks, if they have four rows.
    """
    block = np.empty(len(observation_task), dtype=np.intp)
    for rows in Cells(np.arange(len(observation_task)), observation_task).lists():
        n = max(1, min(n_blocks, max(4, len(rows) // 4), len(rows)))
        block[rows] = np.arange(len(rows)) * n // len(rows)
    return np.unique(observation_task * n_blocks + block, return_inverse=True)[1]
