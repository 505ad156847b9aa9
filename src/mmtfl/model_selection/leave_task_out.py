"""Validation on tasks that the fit has not seen, which says what to expect at the next hospital."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, LeaveOneGroupOut
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from mmtfl.model_selection.metrics import per_task_scores
from mmtfl.tasks.checks import check_task_labels


def leave_task_out_scores(
    estimator: Any, X: Any, y: Any, task: Any, *, metric: Any = None, cv: BaseCrossValidator | None = None
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
    cv : splitter of scikit-learn, optional
        How tasks are left out, with the tasks as groups; None is ``LeaveOneGroupOut()``, one at a time, and
        ``GroupKFold(10)`` leaves out a tenth of them.

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
    for train, test in (cv or LeaveOneGroupOut()).split(X, y, labels):
        known, new = ({} if in_column else {"task": labels[rows]} for rows in (train, test))
        model = clone(estimator).fit(_safe_indexing(X, train), y[train], **known)
        predicted[test] = model.predict(_safe_indexing(X, test), **new)
    scores = per_task_scores(y, predicted, labels, estimator._metric if metric is None else metric)
    tasks, sizes = np.unique(labels, return_counts=True)
    return {"task": tasks, "n_rows": sizes, "score": np.array([scores[label] for label in tasks.tolist()])}
