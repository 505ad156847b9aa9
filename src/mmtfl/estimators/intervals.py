"""Prediction intervals of tuned regressors, from the errors of rows held out of the search's fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from mmtfl.estimators.base import TaskModel, predict_rows
from mmtfl.estimators.part_fits import fit_part
from mmtfl.model_selection.folds import Fold, observations, take
from mmtfl.solvers.path import Start
from mmtfl.tasks.container import Tasks

__all__ = ["PredictsIntervals", "half_widths", "heldout_errors"]

ENOUGH_ROWS = 40  # of a task that has an interval of its own
_BORROWED = 20.0  # rows for which the errors of all tasks stand in a task with fewer
_MOST_KEPT = 1000  # errors of a task that are kept; beyond, quantiles


def heldout_errors(
    model: TaskModel, tasks: Tasks, folds: Sequence[Fold], found: Sequence[Start] | None = None
) -> dict[str, np.ndarray]:
    """Absolute errors on held-out rows, sorted within each task: what intervals are made of.

    Parameters
    ----------
    model : TaskModel
        With the strengths that were chosen.
    tasks : Tasks
        All rows, targets in their own units.
    folds : list of pairs of ndarrays
        Rows to fit and rows to predict.
    found : list of Start, or None
        What the model is on the rows of each fold, in the units of its problem; None where it must be fitted.

    Returns
    -------
    errors : dict of ndarrays
        task and n_rows (n_tasks,), n_kept (n_tasks,), and error: those of all tasks, one after the other.
    """
    sizes = [len(observations(tasks, test)) for _, test in folds]
    error, task = np.empty(sum(sizes)), np.empty(sum(sizes), dtype=np.intp)
    ends = np.cumsum(sizes)
    for f, ((train, test), size, end) in enumerate(zip(folds, sizes, ends, strict=True)):
        part, known = slice(end - size, end), None if found is None else found[f]
        error[part], task[part] = _errors_of(model, tasks, train, observations(tasks, test), known)
    own = [_kept(np.sort(error[task == t])) for t in range(tasks.n_tasks)]
    return {
        "task": tasks.labels,
        "n_rows": np.bincount(task, minlength=tasks.n_tasks),
        "n_kept": np.array([len(errors) for errors in own]),
        "error": np.concatenate(own),
    }


def _errors_of(
    model: TaskModel, tasks: Tasks, train: np.ndarray, test: np.ndarray, known: Start | None
) -> tuple[np.ndarray, np.ndarray]:
    """Absolute errors of the test observations, and the position of each one's task."""
    fitted = take(tasks, train)
    coef, intercept = fit_part(model, fitted, known=known)
    place = {label: t for t, label in enumerate(fitted.labels.tolist())}
    trained = np.array([place.get(label, -1) for label in tasks.labels.tolist()])
    rows = test if tasks.rows is None else tasks.rows[test]
    X = tasks.X[rows] if sparse.issparse(tasks.X) else np.asarray(tasks.X)[rows]
    task = tasks.observation_task[test]
    predicted = model._loss.mean(predict_rows(X, coef, intercept, trained[task]))
    return np.abs(tasks.y[test] - predicted), task


def _kept(errors: np.ndarray) -> np.ndarray:
    if len(errors) <= _MOST_KEPT:
        return errors
    return np.quantile(errors, (np.arange(_MOST_KEPT) + 0.5) / _MOST_KEPT)


def half_widths(errors: dict[str, np.ndarray], coverage: float) -> np.ndarray:
    """Half the width of the interval of each task, and at the end that of a task that is not known.

    It is the error that the share ``coverage`` of the task's held-out rows does not exceed, with one row more
    than there are (as in split conformal prediction). A task with fewer than 40 rows borrows: the errors of
    all tasks together count as 20 rows of its own, and the one row more as its own share of all these.

    Examples
    --------
    >>> import numpy as np
    >>> errors = {"n_rows": np.array([99]), "n_kept": np.array([99]), "error": np.arange(1.0, 100.0)}
    >>> half_widths(errors, 0.9)
    array([90., 90.])
    """
    n_rows, n_kept, error = errors["n_rows"], errors["n_kept"], errors["error"]
    weight = np.repeat(n_rows / np.maximum(n_kept, 1), n_kept)
    of_all = weight * (_BORROWED / max(weight.sum(), 1.0))
    widths = []
    for n, end, kept in zip(n_rows, np.cumsum(n_kept), n_kept, strict=True):
        own = slice(end - kept, end)
        if n >= ENOUGH_ROWS:
            widths.append(_quantile(error[own], weight[own], coverage))
        else:
            both = np.concatenate([error[own], error]), np.concatenate([weight[own], of_all])
            widths.append(_quantile(*both, coverage, new=n / (n + _BORROWED)))
    return np.array([*widths, _quantile(error, weight, coverage)])


def _quantile(values: np.ndarray, weight: np.ndarray, coverage: float, new: float = 1.0) -> float:
    """The smallest value with this share of the weight, that of the new row included; inf if none has it."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    wanted = coverage * (reached[-1] + new) if len(reached) else 1.0
    i = int(np.searchsorted(reached, wanted * (1.0 - 1e-12)))
    return float(values[order[i]]) if i < len(values) else np.inf


class PredictsIntervals(TaskModel):
    """A regressor that says how far off its predictions may be, once it was tuned.

    Attributes
    ----------
    heldout_errors_ : dict of ndarrays
        Of searches: absolute errors on rows held out of their fits, by task, of which ``predict_interval`` is
        made.
    """

    def predict_interval(self, X: Any, task: Any = None, coverage: float = 0.9) -> np.ndarray:
        """Predict, for each row, an interval that holds the target with this probability.

        The interval is the prediction plus and minus an error that the share ``coverage`` of the task's
        held-out rows does not exceed. It holds for new rows of the same tasks that come like the old ones, on
        average over the rows of a task, not for every kind of row. Tasks with fewer than 40 held-out rows
        borrow from all tasks; ``borrowing_tasks_`` names them.

        Parameters
        ----------
        X, task
            As in `predict`.
        coverage : float, default=0.9
            Share of new rows whose target is to be within its interval.

        Returns
        -------
        interval : ndarray of shape (n_rows, 2)
            Lower and upper end; (n_rows, n_tasks, 2) where `predict` gives (n_rows, n_tasks). Infinite where
            there are too few held-out rows for this coverage.
        """
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}.")
        X, observation_task, _ = self._locate(X, task)
        if not hasattr(self, "heldout_errors_"):
            raise NotFittedError(
                f"{type(self).__name__} has no held-out errors, from which intervals are made: fit a search, "
                "such as MMTFLRegressorCV, to rows in memory."
            )
        width = half_widths(self.heldout_errors_, coverage)
        width = width[:-1] if observation_task is None else width[observation_task]
        predicted = self._loss.mean(self._predict_at(X, observation_task))
        return np.stack([predicted - width, predicted + width], axis=-1)

    @property
    def borrowing_tasks_(self) -> np.ndarray:
        """Labels of the tasks whose intervals borrow from the errors of all tasks."""
        return self.tasks_[self.heldout_errors_["n_rows"] < ENOUGH_ROWS]
