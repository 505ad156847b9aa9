"""How well each task is predicted in the rows held out of the fits: sums over every fold, then scores.

The sums of a fold are a few numbers per task, so that they are kept for every candidate of a search, and the
scores of the chosen one need no further fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmtfl.tasks.container import Tasks

__all__ = ["class_sums", "heldout_scores", "squared_errors"]

_ROUNDING = 64 * np.finfo(float).eps  # a target that varies less than this, relative to its size, is constant


def squared_errors(
    y: np.ndarray, Z: np.ndarray, weights: np.ndarray, observation_task: np.ndarray, unit: np.ndarray
):
    """Weighted sum of each task's squared errors in its unit, of each row of Z: (n, 1, n_tasks).

    Observations are grouped by task.
    """
    first = np.flatnonzero(np.diff(observation_task, prepend=-1))
    out = np.zeros((len(Z), 1, len(unit)))
    with np.errstate(over="ignore", invalid="ignore"):  # predictions beyond all measure
        error = (y - Z) / unit[observation_task]
        out[:, 0, observation_task[first]] = np.add.reduceat(weights * error * error, first, axis=1)
    return out


def class_sums(y: np.ndarray, z: np.ndarray, weights: np.ndarray, observation_task: np.ndarray, n_tasks: int):
    """Weight of the rows classified right, and of the pairs of a task in the right order, (2, n_tasks).

    Every pair is one row of each class; with equal predictions it counts one half.
    """
    positive = y > 0.0
    right = np.bincount(observation_task, weights * (positive == (z > 0.0)), minlength=n_tasks)
    order = np.lexsort((z, observation_task))
    z, task, positive, weights = z[order], observation_task[order], positive[order], weights[order]
    new = np.ones(len(z), dtype=bool)
    new[1:] = (np.diff(task) != 0) | (z[1:] != z[:-1])
    tie = np.cumsum(new) - 1  # rows of one task with the same prediction
    above, below = np.bincount(tie, weights * positive), np.bincount(tie, weights * ~positive)
    task = task[new]
    passed = np.cumsum(below) - below  # the negative rows before each tie, those of earlier tasks included
    earlier = np.zeros(n_tasks)
    np.add.at(earlier, task, below)
    earlier = np.cumsum(earlier) - earlier
    pairs = above * (passed - earlier[task] + 0.5 * below)
    return np.array([right, np.bincount(task, pairs, minlength=n_tasks)])


def heldout_scores(
    tasks: Tasks,
    tested: Sequence[np.ndarray],
    sums: np.ndarray,
    *,
    unit: np.ndarray,
    classify: bool,
    row_counts: np.ndarray | None = None,
) -> dict[str, Any]:
    """Scores of each task over the held-out rows of all folds: the columns of ``heldout_scores_``.

    Parameters
    ----------
    tasks : Tasks
        All rows, with targets in their own units.
    tested : list of ndarray
        Observations held out in each fold.
    sums : ndarray of shape (n_folds, n_sums, n_tasks)
        Of `squared_errors`, or of `class_sums`.
    unit : ndarray of shape (n_tasks,)
        In which the errors were measured.
    classify : bool
        Whether targets are classes.
    row_counts : ndarray of shape (n_tasks,), optional
        Number of observations, where few rows stand for many.
    """
    rows = np.concatenate(tested)
    task, y = tasks.observation_task[rows], tasks.y[rows]
    weights = np.ones(len(rows)) if tasks.weights is None else tasks.weights[rows]
    n_rows = np.bincount(task, minlength=tasks.n_tasks) if row_counts is None else row_counts
    table = {"task": tasks.labels, "n_rows": np.asarray(n_rows)}
    if not classify:
        total = np.where(n_rows > 1, _total_squares(y, weights, task, unit), np.nan)
        return {**table, "r2": 1.0 - sums.sum(axis=0)[0] / total}
    fold = np.repeat(np.arange(len(tested)), [len(part) for part in tested])
    negative, positive = (
        _weight_in_folds(weights * of_class, task, fold, sums) for of_class in (y <= 0, y > 0)
    )
    right, in_order = sums.sum(axis=0)
    weight = (negative + positive).sum(axis=0)
    return {
        **table,
        "accuracy": _ratio(right, weight),
        "auc": _ratio(in_order, (negative * positive).sum(axis=0)),
        "base_rate": _ratio(np.maximum(negative.sum(axis=0), positive.sum(axis=0)), weight),
    }


def _total_squares(y: np.ndarray, weights: np.ndarray, task: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Squared deviations from each task's mean, in its unit; NaN for a constant target."""
    n_tasks = len(unit)
    y = y / unit[task]
    mean = _ratio(
        np.bincount(task, weights * y, minlength=n_tasks), np.bincount(task, weights, minlength=n_tasks)
    )
    apart, spread, size = y - mean[task], np.zeros(n_tasks), np.zeros(n_tasks)
    np.maximum.at(spread, task, np.abs(apart))
    np.maximum.at(size, task, np.abs(y))
    squares = np.bincount(task, weights * apart * apart, minlength=n_tasks)
    return np.where(spread > _ROUNDING * size, squares, np.nan)


def _weight_in_folds(weights: np.ndarray, task: np.ndarray, fold: np.ndarray, sums: np.ndarray) -> np.ndarray:
    n_folds, _, n_tasks = sums.shape
    return np.bincount(fold * n_tasks + task, weights, minlength=n_folds * n_tasks).reshape(n_folds, n_tasks)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole; NaN where there is nothing to divide by."""
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0.0)
