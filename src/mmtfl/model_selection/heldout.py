"""How well each task is predicted in the rows held out of the fits: sums over every fold, then scores.

The sums of a fold are a few numbers per task, so that they are kept for every candidate of a search, and the
scores of the chosen one need no further fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mmtfl.model_selection.folds import Fold, observations
from mmtfl.objective.losses import Loss, best_shifts
from mmtfl.objective.losses.by_rows import TaskLoss, on_rows, target_units
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.scaling import target_spread

if TYPE_CHECKING:
    from mmtfl.model_selection.cross_validation import Settings

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


def deviance_explained(
    loss: Loss, y: np.ndarray, z: np.ndarray, weights: np.ndarray, known: np.ndarray
) -> float:
    """1 - (loss at z plus the known part) / (loss at the best constant plus the known part), of one task.

    Where the best constant leaves nothing to explain, 1 if z does so too, and 0 otherwise.
    """
    total = null_loss(loss, y, weights, known)
    left = loss.value(y, z + known, weights)
    return 1.0 - left / total if total > 0.0 else float(left <= 0.0)


def null_loss(loss: Loss, y: np.ndarray, weights: np.ndarray, known: np.ndarray) -> float:
    """Loss of one task at its best constant beside a known part; zero where that is rounding."""
    rows = np.array([0, len(y)])
    best = best_shifts(loss, y, known, weights, rows)[0] if known.any() else loss.null_intercept(y, weights)
    found = loss.value(y, best + known, weights)
    return found if found > _ROUNDING**2 * loss.value(y, np.zeros_like(y), weights) else 0.0


def deviances(
    loss: TaskLoss,
    rows: Tasks,
    Z: np.ndarray,
    weights: np.ndarray,
    observation_task: np.ndarray,
    unit: np.ndarray,
) -> np.ndarray:
    """Loss of each task in its unit at each row of Z: (n, 1, n_tasks)."""
    on, scale = on_rows(loss, rows), unit[observation_task]
    out = np.zeros((len(Z), 1, len(unit)))
    for i, z in enumerate(Z / scale):
        out[i, 0, observation_task[rows.offsets[:-1]]] = on.task_values(
            rows.y / scale, z, weights, rows.offsets
        )
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


def error_unit(tasks: Tasks, settings: Settings) -> np.ndarray:
    """The unit of each task's errors: of squares its spread over all rows, so that none overflows."""
    if settings.classes is None and settings.loss.is_quadratic:
        return target_spread(tasks)
    return target_units(tasks, settings.loss) if settings.scale_targets else np.ones(tasks.n_tasks)


def heldout_scores(
    tasks: Tasks,
    folds: Sequence[Fold],
    sums: np.ndarray,
    settings: Settings,
    row_counts: np.ndarray | None = None,
) -> dict[str, Any]:
    """Scores of each task over the held-out rows of all folds: the columns of ``heldout_scores_``.

    Parameters
    ----------
    tasks : Tasks
        All rows, with targets in their own units.
    folds : list of Fold
        Of the search.
    sums : ndarray of shape (n_folds, n_sums, n_tasks)
        Of `squared_errors`, `deviances` or `class_sums`, of the choice.
    settings : Settings
        Of the search.
    row_counts : ndarray of shape (n_tasks,), optional
        Number of observations, where few rows stand for many.
    """
    tested = [observations(tasks, test) for _, test in folds]
    unit, classify, loss = error_unit(tasks, settings), settings.classes is not None, settings.loss
    rows = np.concatenate(tested)
    task, y = tasks.observation_task[rows], tasks.y[rows]
    weights = np.ones(len(rows)) if tasks.weights is None else tasks.weights[rows]
    n_rows = np.bincount(task, minlength=tasks.n_tasks) if row_counts is None else row_counts
    table = {"task": tasks.labels, "n_rows": np.asarray(n_rows)}
    if not classify and not loss.is_quadratic:
        of_tasks = [
            tasks.select(rows[task == t]) if np.any(task == t) else None for t in range(tasks.n_tasks)
        ]
        return {**table, **_explained(loss, of_tasks, tasks.labels, unit, sums.sum(axis=0)[0])}
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


def _explained(
    loss: TaskLoss, of_tasks: Sequence[Tasks | None], labels: np.ndarray, unit: np.ndarray, left: np.ndarray
) -> dict[str, np.ndarray]:
    """Each task's kind of loss, and the share of its deviance that is explained; NaN where there is none."""
    total = np.full(len(labels), np.nan)
    for t, own in enumerate(of_tasks):
        if own is not None and own.n_samples > 1:
            weights = np.ones(own.n_samples) if own.weights is None else own.weights
            known = np.zeros(own.n_samples) if own.known is None else own.known
            own_loss = loss.for_task(labels[t].item())
            total[t] = null_loss(own_loss, own.y / unit[t], weights, known) or np.nan
    names = [loss.for_task(label).name for label in labels.tolist()]
    return {"loss": np.array(names), "deviance_explained": 1.0 - left / total}


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
