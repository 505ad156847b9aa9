"""Splits that keep every task in every training part."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _num_samples

from mmtfl.tasks.checks import check_length, check_task_labels

__all__ = ["TaskKFold", "tasks_train_test_split"]

NEVER = -1  # fold of a row that is always trained on


class TaskKFold(BaseCrossValidator):
    """K folds that keep every task in every training part.

    Each task is cut into ``n_splits`` parts of its own, as equal as possible, and so are the folds as a
    whole. Hence

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
    ``task`` is requested by the class: with scikit-learn's metadata routing enabled,
    ``GridSearchCV(..., cv=TaskKFold()).fit(X, y, task=task)`` hands it over. Without routing, pass the
    labels as ``groups``.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.model_selection import TaskKFold
    >>> task = np.array(["a", "a", "a", "a", "b", "b", "c"])
    >>> for train, test in TaskKFold(2, shuffle=False).split(np.zeros((7, 1)), task=task):
    ...     print(task[train], task[test])
    ['a' 'a' 'b' 'c'] ['a' 'a' 'b']
    ['a' 'a' 'b' 'c'] ['a' 'a' 'b']
    """

    # both doors are open without set_split_request
    __metadata_request__split = {"task": True, "groups": True}  # noqa: RUF012

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None, stratify: bool = False
    ) -> None:
        if not shuffle and random_state is not None:
            raise ValueError(
                f"random_state={random_state!r} has no effect with shuffle=False: leave it out, or shuffle."
            )
        self.n_splits = _check_n_splits(n_splits)
        self.shuffle = shuffle
        self.random_state = random_state
        self.stratify = stratify

    def as_dict(self) -> dict[str, Any]:
        """The arguments by name, so that a saved model keeps its folds."""
        return {name: getattr(self, name) for name in ("n_splits", "shuffle", "random_state", "stratify")}

    @classmethod
    def from_dict(cls, arguments: dict[str, Any]) -> TaskKFold:
        """The splitter of `as_dict`."""
        return cls(**arguments)

    def split(
        self, X: Any, y: Any = None, task: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
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
            The same under scikit-learn's name, for tools that pass no other; give one of the two.

        Yields
        ------
        train, test : ndarray of int
            Positions of the rows, ascending.
        """
        fold = self._fold_of_rows(_num_samples(X), y, _one_of(task, groups))
        for k in range(self.n_splits):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

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

    def _fold_of_rows(self, n_rows: int, y: Any, task: Any) -> np.ndarray:
        rng = check_random_state(self.random_state)
        fold = np.full(n_rows, NEVER)
        first = 0
        by_column = self.stratify and task is None and np.ndim(y) == 2
        for rows in _cells(n_rows, y, task, self.stratify and not by_column):
            if len(rows) == 1:
                continue
            if self.shuffle:
                rng.shuffle(rows)
            # the folds that get one row more take turns, so that folds are even over all tasks too
            fold[rows] = np.repeat(np.arange(self.n_splits), _even_parts(len(rows), self.n_splits, first))
            first = (first + len(rows)) % self.n_splits
        if by_column:
            _keep_classes_of_columns(fold, y)
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
    rng = check_random_state(random_state)
    train, test = [], []
    for rows in _cells(n_rows, y, task, stratify):
        rng.shuffle(rows)
        n_train, n_test = _part_sizes(len(rows), train_size, test_size)
        test.append(rows[:n_test])
        train.append(rows[n_test : n_test + n_train])
    parts = np.sort(np.concatenate(train)), np.sort(np.concatenate(test))
    if not len(parts[1]):
        raise ValueError("No row can be tested: every task has a single row, which stays in training.")
    X_train, X_test = (_safe_indexing(X, rows) for rows in parts)
    y_train, y_test = (_safe_indexing(y, rows) for rows in parts)
    task_train, task_test = (None if task is None else _safe_indexing(task, rows) for rows in parts)
    return X_train, X_test, y_train, y_test, task_train, task_test


# -- cells: the rows of one task, or of one class of one task ----------------------------------------------


def _one_of(task: Any, groups: Any) -> Any:
    if task is not None and groups is not None:
        raise ValueError(
            "task and groups are both given, and both mean the task of each row: give one of them."
        )
    return task if task is not None else groups


def _cells(n_rows: int, y: Any, task: Any, stratify: bool) -> list[np.ndarray]:
    """Rows that are to be spread evenly, in ascending order; the classes of one task follow each other."""
    code = np.zeros(n_rows, dtype=np.intp)
    if task is not None:
        code = np.unique(check_task_labels(task, n_rows), return_inverse=True)[1]
    if stratify:
        classes, label = np.unique(_check_classes(y, n_rows), return_inverse=True)
        code = code * len(classes) + label
    order = np.argsort(code, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(code[order])) + 1)


def _keep_classes_of_columns(fold: np.ndarray, y: Any) -> None:
    """Take one row of every class that is tested all at once out of the folds, in place."""
    Y = np.asarray(y)
    check_length("y", len(Y), len(fold))
    for column in Y.T:
        observed = np.flatnonzero(column == column)  # NaN differs from itself
        for rows in _cells(len(observed), column[observed], None, True):
            own = observed[rows]
            if fold[own[0]] != NEVER and np.all(fold[own] == fold[own[0]]):
                fold[own[0]] = NEVER


def _check_classes(y: Any, n_rows: int) -> np.ndarray:
    if y is None:
        raise ValueError("stratify=True spreads the classes of y, but y is None: pass y.")
    y = np.asarray(y)
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass") or y.ndim != 1:
        raise ValueError(
            f"stratify=True needs one class per row, but y is {kind} of shape {y.shape}: use stratify=False."
        )
    check_length("y", len(y), n_rows)
    return y


def _even_parts(n_rows: int, n_parts: int, first: int) -> np.ndarray:
    """Sizes of the parts, equal up to one; part ``first`` and those after it get the larger ones."""
    sizes = np.full(n_parts, n_rows // n_parts)
    sizes[(first + np.arange(n_rows % n_parts)) % n_parts] += 1
    return sizes


def _check_n_splits(n_splits: Any) -> int:
    if not isinstance(n_splits, Integral) or isinstance(n_splits, bool):
        raise TypeError(f"n_splits={n_splits!r}: expected an int, got {type(n_splits).__name__}.")
    if int(n_splits) < 2:
        raise ValueError(f"n_splits={n_splits}: expected 2 or more.")
    return int(n_splits)


# -- sizes of the two parts --------------------------------------------------------------------------------


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
    if test_size is None:
        n_train = _count(train_size, n_rows)
        return n_train, n_rows - n_train
    n_test = _count(test_size, n_rows)
    left = n_rows - n_test
    return left if train_size is None else min(_count(train_size, n_rows), left), n_test


def _count(size: Any, n_rows: int) -> int:
    wanted = size if isinstance(size, int) else round(size * n_rows)
    return min(max(wanted, 1), n_rows - 1)
