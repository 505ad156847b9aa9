"""Splits that keep every task in every training part, at random or in time."""

from collections.abc import Iterator
from inspect import signature
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples

from mmtfl.model_selection.folds import (
    NEVER,
    Cells,
    check_classes,
    deal_groups,
    group_codes,
    keep_in_training,
)
from mmtfl.tasks.checks import check_length, n_classes
from mmtfl.tasks.grouping import own_folds

Parts = Iterator[tuple[np.ndarray, np.ndarray]]
MANY_ROWS = 10  # per fold: a task that has them is cut by its label alone


class TaskSplitter(BaseCrossValidator):
    """A splitter that knows the tasks of the rows, and groups of rows that must stay together."""

    # both doors are open without set_split_request
    __metadata_request__split = {"task": True, "groups": True}  # noqa: RUF012

    n_splits: int

    def as_dict(self) -> dict[str, Any]:
        """The arguments by name, so that a saved model keeps its folds."""
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    @classmethod
    def from_dict(cls, arguments: dict[str, Any]) -> Self:
        """The splitter of `as_dict`."""
        return cls(**arguments)

    def split(self, X: Any, y: Any = None, task: Any = None, groups: Any = None) -> Parts:
        """Indices of the training and the test part of each fold.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; only their number is used.
        y : array-like of shape (n,) or (n, T), default=None
            Classes, used with ``stratify=True`` only. With two dimensions each column is a task of all rows,
            NaN where it was not observed.
        task : array-like of shape (n,), default=None
            Task label of each row. None: all rows are one task, as in scikit-learn's ``KFold``.
        groups : array-like of shape (n,), default=None
            Groups of rows that must stay together, such as the patient of each row; a group may have rows in
            several tasks. Without ``task`` they are taken for the tasks, for tools that pass no other labels:
            pass ``task`` too where groups are meant.

        Yields
        ------
        train, test : ndarray of int
            Positions of the rows, ascending.
        """
        if task is None:
            task, groups = groups, None
        n_rows = _num_samples(X)
        return self.parts(n_rows, y, task, None if groups is None else group_codes(groups, n_rows))

    def parts(
        self, n_rows: int, y: Any, task: Any, group: np.ndarray | None, labels: np.ndarray | None = None
    ) -> Parts:
        """The folds of rows with these tasks (None: one) and numbered groups (None: every row is one).

        Where tasks are positions, `labels` names them.
        """
        raise TypeError("a splitter says how it splits")

    def get_n_splits(self, X: Any = None, y: Any = None, task: Any = None, groups: Any = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X, y, task, groups : object
            Ignored.

        Returns
        -------
        int
            ``n_splits``.
        """
        return self.n_splits


class TaskKFold(TaskSplitter):
    """K folds that keep every task in every training part.

    Each task is cut into ``n_splits`` parts of its own, as equal as possible, and so are the folds as a
    whole, but for a row of each task with at least ten rows per fold: how these are cut at random depends on
    the seed and their label alone, so that sites that keep their rows cut them alike. Hence

    - every task has rows in every training part;
    - every task with at least ``n_splits`` rows also has rows in every test part;
    - every row of a task with two rows or more is tested exactly once, a task with fewer rows than folds in
      as many folds as it has rows;
    - a task with a single row is always trained on and never tested, as it could not be predicted
      otherwise.

    With ``stratify=True`` the same holds for every class of every task: a class that has a single row in a
    task stays in training, and no training part of a task loses a class. Where the tasks are columns of a
    two-dimensional ``y``, a row has a class in each of them: then rows are split as without classes, and a
    row that would take the last of a class out of a training part is always trained on.

    Groups of rows that must stay together (the rows of a patient) are dealt to the folds whole, also where
    they span tasks, so that no group is ever on both sides. Folds are then as even in every task as whole
    groups allow; the only group of a task stays in training, and is never tested.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    shuffle : bool, default=True
        Draw the rows of each part at random. False: parts are consecutive rows of their task, as is right
        for rows ordered in time.
    random_state : int, RandomState or None, default=None
        Seed of the shuffling.
    stratify : bool, default=False
        Spread each class of each task over the folds; ``y`` must then be classes. Classifiers need it.

    Notes
    -----
    ``task`` and ``groups`` are requested by the class: with scikit-learn's metadata routing enabled,
    ``GridSearchCV(..., cv=TaskKFold()).fit(X, y, task=task)`` hands them over. Without routing, pass the
    labels of the tasks as ``groups``.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.model_selection import TaskKFold
    >>> task = np.array(["a", "a", "a", "a", "b", "b", "c"])
    >>> for train, test in TaskKFold(2, shuffle=False).split(np.zeros((7, 1)), task=task):
    ...     print(task[train], task[test])
    ['a' 'a' 'b' 'c'] ['a' 'a' 'b']
    ['a' 'a' 'b' 'c'] ['a' 'a' 'b']

    Each of three patients is in one fold, the last of them with rows in both tasks:

    >>> patient = np.array([1, 1, 2, 3, 3, 4, 4])
    >>> task = np.array(["a", "a", "a", "a", "b", "b", "b"])
    >>> for train, test in TaskKFold(2, shuffle=False).split(np.zeros((7, 1)), task=task, groups=patient):
    ...     print(patient[train], patient[test])
    [2 3 3] [1 1 4 4]
    [1 1 4 4] [2 3 3]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None, stratify: bool = False
    ) -> None:
        if not shuffle and random_state is not None:
            raise ValueError(
                f"random_state={random_state!r} has no effect with shuffle=False: leave it out, or shuffle."
            )
        self.n_splits = check_n_splits(n_splits)
        self.shuffle = shuffle
        self.random_state = random_state
        self.stratify = stratify

    def parts(
        self, n_rows: int, y: Any, task: Any, group: np.ndarray | None, labels: np.ndarray | None = None
    ) -> Parts:
        """The folds of rows with these tasks (None: one) and numbered groups (None: every row is one)."""
        if group is None:
            of_rows = self._fold_of_rows(n_rows, y, task, labels)
        else:
            of_rows = self._fold_of_groups(y, task, group)
        for k in range(self.n_splits):
            yield np.flatnonzero(of_rows != k), np.flatnonzero(of_rows == k)

    def _fold_of_groups(self, y: Any, task: Any, group: np.ndarray) -> np.ndarray:
        cells = Cells.of(len(group), y, task, stratify=self.stratify)
        rng = check_random_state(self.random_state) if self.shuffle else None
        shares = np.full(self.n_splits, 1.0 / self.n_splits)
        fold = deal_groups(group, cells, shares, rng, largest_first=True)
        keep_in_training(fold, group, cells)
        n_used = len(np.unique(fold[fold != NEVER]))
        if n_used < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits}, but the {int(group.max()) + 1} groups of rows fill only {n_used} "
                "folds (the only group of a task, or of a class of it, stays in training): use fewer folds, "
                "or smaller groups."
            )
        return fold

    def _fold_of_rows(self, n_rows: int, y: Any, task: Any, labels: np.ndarray | None) -> np.ndarray:
        rng = check_random_state(self.random_state)
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else rng.randint(2**31)
        by_label = self.shuffle and not self.stratify and task is not None
        fold = np.full(n_rows, NEVER)
        first = 0
        by_column = self.stratify and task is None and np.ndim(y) == 2
        for rows in Cells.of(n_rows, y, task, stratify=self.stratify and not by_column).lists():
            if len(rows) == 1:
                continue
            if by_label and len(rows) >= MANY_ROWS * self.n_splits:
                label = task[rows[0]] if labels is None else labels[task[rows[0]]]
                fold[rows] = own_folds(label, len(rows), self.n_splits, seed)
                continue
            if self.shuffle:
                rng.shuffle(rows)
            # the folds that get one row more take turns, so that folds are even over all tasks too
            fold[rows] = np.repeat(np.arange(self.n_splits), _even_parts(len(rows), self.n_splits, first))
            first = (first + len(rows)) % self.n_splits
        if by_column:
            keep_in_training(fold, np.arange(n_rows), Cells.of(n_rows, y, None, stratify=True))
        n_tested = int((fold != NEVER).sum())
        if n_tested < self.n_splits:
            raise ValueError(
                f"n_splits={self.n_splits}, but only {n_tested} of {n_rows} rows can be tested (the only "
                "row of a task stays in training): use fewer folds, or more rows per task."
            )
        return fold


def tasks_train_test_split(
    X: Any,
    y: Any,
    task: Any,
    *,
    groups: Any = None,
    test_size: float | int | None = None,
    train_size: float | int | None = None,
    stratify: bool = False,
    random_state: Any = None,
) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Split rows at random into a training and a test part, each task in proportion.

    Every task with two rows or more is in both parts; a task with one row is in training only. With
    ``stratify=True`` the same holds for every class of every task.

    Parameters
    ----------
    X : array-like, sparse matrix or frame of shape (n, d)
        Features.
    y : array-like of shape (n,)
        Targets.
    task : array-like of shape (n,)
        Task label of each row; None: all rows are one task.
    groups : array-like of shape (n,), default=None
        Groups of rows that must stay together, which may span tasks; shares of the tasks are then met as
        nearly as whole groups allow. The only group of a task is in training.
    test_size : float or int, default=None
        Share (float) or number (int) of the rows *of each task* to test on. None: what ``train_size``
        leaves, or 0.25.
    train_size : float or int, default=None
        Share or number of the rows of each task to train on. None: all that are not tested.
    stratify : bool, default=False
        Split each class of each task in proportion (numbers then count rows of each class); ``y`` must
        then be classes.
    random_state : int, RandomState or None, default=None
        Seed of the drawing.

    Returns
    -------
    X_train, X_test, y_train, y_test, task_train, task_test
        Parts of the arguments, of the same type, with rows in their old order.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.model_selection import tasks_train_test_split
    >>> data = make_tasks(3, [4, 8, 40], random_state=0)
    >>> parts = tasks_train_test_split(data.X, data.y, data.task, random_state=0)
    >>> X_train, X_test, y_train, y_test, task_train, task_test = parts
    >>> import numpy as np
    >>> np.bincount(task_train), np.bincount(task_test)
    (array([ 3,  6, 30]), array([ 1,  2, 10]))
    """
    test_size, train_size = _check_sizes(test_size, train_size)
    n_rows = _num_samples(X)
    check_length("y", _num_samples(y), n_rows)
    rng, cells = check_random_state(random_state), Cells.of(n_rows, y, task, stratify=stratify)
    if groups is None:
        parts = _split_cells(cells, rng, train_size, test_size)
    else:
        parts = _split_groups(group_codes(groups, n_rows), cells, rng, train_size, test_size)
    if not len(parts[1]):
        what = "row" if groups is None else "group"
        raise ValueError(f"No row can be tested: every task has a single {what}, which stays in training.")
    X_train, X_test = (_safe_indexing(X, rows) for rows in parts)
    y_train, y_test = (_safe_indexing(y, rows) for rows in parts)
    task_train, task_test = (None if task is None else _safe_indexing(task, rows) for rows in parts)
    return X_train, X_test, y_train, y_test, task_train, task_test


def _split_cells(cells: Cells, rng: Any, train_size: Any, test_size: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows to train and to test on, of each cell in proportion."""
    train, test = [], []
    for rows in cells.lists():
        rng.shuffle(rows)
        n_train, n_test = _part_sizes(len(rows), train_size, test_size)
        test.append(rows[:n_test])
        train.append(rows[n_test : n_test + n_train])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def _split_groups(
    group: np.ndarray, cells: Cells, rng: Any, train_size: Any, test_size: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Whole groups to train and to test on."""
    for name, size in (("test_size", test_size), ("train_size", train_size)):
        if isinstance(size, int):
            raise ValueError(f"{name}={size} is a number of rows, which groups cannot meet: give a share.")
    tested = 1.0 - train_size if test_size is None else test_size
    trained = 1.0 - tested if train_size is None else train_size
    shares = np.array([trained, tested, 1.0 - trained - tested])
    part = deal_groups(group, cells, shares[shares > 1e-9], rng, largest_first=False)
    fold = np.where(part == 1, 0, NEVER)
    keep_in_training(fold, group, cells)
    return np.flatnonzero((fold == NEVER) & (part != 2)), np.flatnonzero(fold != NEVER)


# -- sizes of the parts -----------------------------------------------------------------------------------


def _even_parts(n_rows: int, n_parts: int, first: int) -> np.ndarray:
    """Sizes of the parts, equal up to one; part ``first`` and those after it get the larger ones."""
    sizes = np.full(n_parts, n_rows // n_parts)
    sizes[(first + np.arange(n_rows % n_parts)) % n_parts] += 1
    return sizes


def check_n_splits(n_splits: Any) -> int:
    """Check a number of folds."""
    if not isinstance(n_splits, Integral) or isinstance(n_splits, bool):
        raise TypeError(f"n_splits={n_splits!r}: expected an int, got {type(n_splits).__name__}.")
    if int(n_splits) < 2:
        raise ValueError(f"n_splits={n_splits}: expected 2 or more.")
    return int(n_splits)


def _check_sizes(test_size: Any, train_size: Any) -> tuple[Any, Any]:
    test_size, train_size = _check_size("test_size", test_size), _check_size("train_size", train_size)
    if test_size is None and train_size is None:
        test_size = 0.25
    if isinstance(test_size, float) and isinstance(train_size, float) and test_size + train_size > 1:
        raise ValueError(
            f"test_size={test_size} and train_size={train_size} add up to more than 1: lower one."
        )
    return test_size, train_size


def _check_size(name: str, size: Any) -> int | float | None:
    if size is None:
        return None
    if not isinstance(size, Real) or isinstance(size, bool):
        raise TypeError(f"{name}={size!r}: expected a share (float) or a number of rows (int).")
    if isinstance(size, Integral) and int(size) >= 1:
        return int(size)
    if not isinstance(size, Integral) and 0.0 < float(size) < 1.0:
        return float(size)
    raise ValueError(f"{name}={size!r}: expected a share between 0 and 1, or a number of rows from 1.")


def _part_sizes(
    n_rows: int, train_size: int | float | None, test_size: int | float | None
) -> tuple[int, int]:
    """Rows of one cell to train and to test on; both parts get one as soon as there are two."""
    if n_rows == 1:
        return 1, 0
    n_train, n_test = (
        None
        if size is None
        else min(max(size if isinstance(size, int) else round(size * n_rows), 1), n_rows - 1)
        for size in (train_size, test_size)
    )
    if n_test is None:
        assert n_train is not None
        return n_train, n_rows - n_train
    return n_rows - n_test if n_train is None else min(n_train, n_rows - n_test), n_test


# -- splits in time ------------------------------------------------------------------------------------------


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

    def parts(
        self, n_rows: int, y: Any, task: Any, group: np.ndarray | None, labels: np.ndarray | None = None
    ) -> Parts:
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
    return np.flatnonzero(n_classes(classes[is_train], code[is_train], n_tasks) < 2)
