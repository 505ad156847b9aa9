"""Validation on tasks that the fit has not seen, which says what to expect at the next hospital."""

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples

from mmtfl.model_selection.metrics import per_task_scores
from mmtfl.tasks.checks import check_task_labels


class LeaveTaskOut(BaseCrossValidator):
    """Folds that leave whole tasks out: each task is tested once, by a fit without any of its rows.

    scikit-learn's ``LeaveOneGroupOut`` with the tasks as groups, or with ``n_splits`` a ``GroupKFold`` that
    deals tasks, not rows, evenly. The estimator must predict tasks that it has not seen:
    ``unknown_task="mean"`` or "common".

    Parameters
    ----------
    n_splits : int, optional
        Number of groups of tasks, each left out together; None leaves out one task at a time.
    random_state : int, RandomState or None, default=0
        Seed of the deal of tasks to groups.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.model_selection import LeaveTaskOut
    >>> task = np.array(["a", "a", "b", "c", "c"])
    >>> [task[test].tolist() for _, test in LeaveTaskOut().split(np.zeros((5, 1)), task=task)]
    [['a', 'a'], ['b'], ['c', 'c']]
    >>> LeaveTaskOut(2).get_n_splits(task=task)
    2
    """

    __metadata_request__split = {"task": True, "groups": True}  # noqa: RUF012

    def __init__(self, n_splits: int | None = None, *, random_state: Any = 0) -> None:
        if n_splits is not None and not (isinstance(n_splits, Integral) and n_splits >= 2):
            raise ValueError(f"n_splits={n_splits!r}: use None for one task at a time, or 2 groups or more.")
        self.n_splits, self.random_state = n_splits, random_state

    def split(
        self, X: Any, y: Any = None, task: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indices of the training and the test part of each fold.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; only their number is used.
        y : object
            Ignored.
        task : array-like of shape (n,)
            Task label of each row.
        groups : array-like of shape (n,)
            The same under scikit-learn's name, for tools that pass no other; give one of the two.

        Yields
        ------
        train, test : ndarray of int
            Positions of the rows, ascending; those of a task are in one test part.
        """
        code, n_tasks = self._tasks(task, groups, _num_samples(X))
        group = np.arange(n_tasks)
        if self.n_splits is not None:
            group = check_random_state(self.random_state).permutation(n_tasks) % min(self.n_splits, n_tasks)
        for g in range(int(group.max()) + 1):
            is_test = group[code] == g
            yield np.flatnonzero(~is_test), np.flatnonzero(is_test)

    def get_n_splits(self, X: Any = None, y: Any = None, task: Any = None, groups: Any = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X, y : object
            Ignored.
        task, groups : array-like of shape (n,)
            Task labels, as in `split`.

        Returns
        -------
        int
            The number of tasks, or ``n_splits`` if that is smaller.
        """
        n_tasks = self._tasks(task, groups, None)[1]
        return n_tasks if self.n_splits is None else min(self.n_splits, n_tasks)

    def _tasks(self, task: Any, groups: Any, n_rows: int | None) -> tuple[np.ndarray, int]:
        """Return the position of each row's task, and the number of tasks."""
        if (task is None) == (groups is None):
            raise ValueError("LeaveTaskOut needs the task of each row: pass task= or groups=, one of them.")
        labels = check_task_labels(groups if task is None else task, n_rows)
        found, code = np.unique(labels, return_inverse=True)
        if len(found) < 2:
            raise ValueError(f"LeaveTaskOut needs two tasks or more, found {len(found)}.")
        return code, len(found)


def leave_task_out_scores(
    estimator: Any, X: Any, y: Any, task: Any, *, metric: Any = None, cv: LeaveTaskOut | None = None
) -> dict[str, np.ndarray]:
    """Score every task by a fit that has not seen it: what to expect of the next task.

    Parameters
    ----------
    estimator : estimator of mmtfl
        With ``unknown_task="mean"`` or "common"; it is cloned and fitted once per fold.
    X : array-like, sparse matrix or frame of shape (n_rows, n_features)
        Rows of all tasks.
    y : array-like of shape (n_rows,)
        Targets.
    task : array-like of shape (n_rows,)
        Task label of each row; also where the estimator has a ``task_column``.
    metric : str or callable, optional
        As in ``task_scorer``; None is R^2, or accuracy for classifiers.
    cv : LeaveTaskOut, optional
        How tasks are left out; None is one at a time.

    Returns
    -------
    table : dict of ndarrays
        One row per task, ready for a frame: task, n_rows and score. R^2 is beside the mean of the task
        itself, which a model that has not seen the task does not know: it is often negative where intercepts
        differ.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.model_selection import leave_task_out_scores
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X @ [2.0, -1.0, 0.0] + 0.1 * rng.normal(size=90)
    >>> model = MMTFLRegressor(p=2, k=2, alpha=0.01, pooling=0.9, unknown_task="common")
    >>> table = leave_task_out_scores(model, X, y, task)
    >>> table["task"].tolist(), bool(table["score"].min() > 0.97)
    (['a', 'b', 'c'], True)
    """
    if getattr(estimator, "unknown_task", None) == "error":
        raise ValueError(
            "The estimator refuses tasks it has not seen: set unknown_task='common' (with pooling) or 'mean'."
        )
    labels = check_task_labels(task, _num_samples(X))
    in_column = getattr(estimator, "task_column", None) is not None
    y = np.asarray(y)
    predicted = np.empty(len(labels), dtype=y.dtype if y.dtype.kind in "UO" else float)
    for train, test in (cv or LeaveTaskOut()).split(X, task=labels):
        known, new = ({} if in_column else {"task": labels[rows]} for rows in (train, test))
        model = clone(estimator).fit(_safe_indexing(X, train), y[train], **known)
        predicted[test] = model.predict(_safe_indexing(X, test), **new)
    scores = per_task_scores(y, predicted, labels, estimator._metric if metric is None else metric)
    tasks, sizes = np.unique(labels, return_counts=True)
    return {"task": tasks, "n_rows": sizes, "score": np.array([scores[label] for label in tasks.tolist()])}
