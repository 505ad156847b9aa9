"""How far off predictions may be, learned from errors on rows that were not fitted."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from mmtfl.estimators.base import TaskModel, predict_rows
from mmtfl.estimators.family import fit_part
from mmtfl.estimators.inputs import matrix_values, n_dimensions, single_column
from mmtfl.estimators.levels import error_of_new_tasks
from mmtfl.model_selection.folds import Fold, observations, take
from mmtfl.solvers.path import Start
from mmtfl.tasks.checks import check_length
from mmtfl.tasks.container import Tasks
from mmtfl.wording import abbreviate

ENOUGH_ROWS = 40  # of a task that has an interval of its own
_BORROWED = 20.0  # rows for which the errors of all tasks stand in a task with fewer
_MOST_KEPT = 1000  # errors of a task that are kept; beyond, evenly spaced ones


def heldout_errors(
    model: TaskModel, tasks: Tasks, folds: Sequence[Fold], found: Sequence[Start] | None = None
) -> dict[str, np.ndarray]:
    """Errors on held-out rows, sorted within each task: what intervals are made of.

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
        See `sorted_errors`.
    """
    tests = [observations(tasks, test) for _, test in folds]
    known = [None] * len(tests) if found is None else found
    parts = zip(folds, tests, known, strict=True)
    z = [_predict_without(model, tasks, train, test, start) for (train, _), test, start in parts]
    test = np.concatenate(tests)
    task, y = tasks.observation_task[test], tasks.y[test]
    return sorted_errors(model, y, np.concatenate(z), task, tasks.labels)


def fold_models(
    model: TaskModel, tasks: Tasks, folds: Sequence[Fold], found: Sequence[Start] | None = None
) -> dict[str, np.ndarray]:
    """Coefficients and intercepts of a model without each fold, in the units of the data.

    Parameters
    ----------
    model, tasks, folds, found
        As in `heldout_errors`; every task is in every training part.

    Returns
    -------
    models : dict of ndarrays
        coef (n_folds, n_tasks, n_columns) and intercept (n_folds, n_tasks).
    """
    known = [None] * len(folds) if found is None else found
    fits = [
        fit_part(model, take(tasks, train), known=start)
        for (train, _), start in zip(folds, known, strict=True)
    ]
    return {"coef": np.array([coef for coef, _ in fits]), "intercept": np.array([level for _, level in fits])}


def _predict_without(
    model: TaskModel, tasks: Tasks, train: np.ndarray, test: np.ndarray, known: Start | None
) -> np.ndarray:
    """Linear predictor of the test observations, by a fit to the others, or by the `known` one."""
    fitted = take(tasks, train)
    coef, intercept = fit_part(model, fitted, known=known)
    place = {label: t for t, label in enumerate(fitted.labels.tolist())}
    trained = np.array([place.get(label, -1) for label in tasks.labels.tolist()])
    rows = test if tasks.rows is None else tasks.rows[test]
    X = tasks.X[rows] if sparse.issparse(tasks.X) else np.asarray(tasks.X)[rows]
    z = predict_rows(X, coef, intercept, trained[tasks.observation_task[test]])
    return z if tasks.known is None else z + tasks.known[test]


def sorted_errors(
    model: TaskModel, y: np.ndarray, z: np.ndarray, task: np.ndarray, labels: np.ndarray
) -> dict[str, np.ndarray]:
    """The errors of rows that were not fitted, by task.

    The error of a number is its distance from the prediction, that of a count the distance of their roots,
    which has the same spread for small and large ones; that of a class is how far the log odds are on the
    wrong side, negative where they are on the right one.

    Returns
    -------
    errors : dict of ndarrays
        task and n_rows (n_tasks,), n_kept (n_tasks,), and error: those of all tasks, one after the other and
        sorted; of classes also is_second, whether the row is of the second class.
    """
    with_classes = is_classifier(model)
    error = -y * z if with_classes else np.abs(y - z)
    if has_counts(model):
        error = np.abs(roots(y) - roots(model._loss.mean(z)))  # type: ignore[union-attr]
    order = np.lexsort((error, task))
    n_rows = np.bincount(task, minlength=len(labels))
    starts = np.cumsum(n_rows) - n_rows
    own = [order[start : start + n][_evenly(int(n))] for start, n in zip(starts, n_rows, strict=True)]
    kept = np.concatenate(own)
    n_kept = np.array([len(part) for part in own])
    found = {"task": labels, "n_rows": n_rows, "n_kept": n_kept, "error": error[kept]}
    return {**found, "is_second": y[kept] > 0.0} if with_classes else found


def has_counts(model: Any) -> bool:
    """Whether the targets of all tasks are counts."""
    return getattr(getattr(model, "_loss", None), "name", None) == "poisson"


def roots(counts: np.ndarray) -> np.ndarray:
    """Anscombe's transform of counts: those of a Poisson distribution have a standard deviation near one."""
    return 2.0 * np.sqrt(counts + 0.375)


def counts_within(mean: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The smallest and the largest count whose root is so near to that of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> counts_within(np.array([4.0, 100.0]), 1.645)
    array([[  2.,   8.],
           [ 85., 117.]])
    """
    ends = [np.maximum(roots(mean) + sign * width, 0.0) ** 2 / 4.0 - 0.375 for sign in (-1.0, 1.0)]
    return np.stack([np.maximum(np.ceil(ends[0]), 0.0), np.floor(np.maximum(ends[1], 0.0))], axis=-1)


def _evenly(n: int) -> np.ndarray:
    """Positions of evenly spaced errors to keep, out of n sorted ones."""
    if n <= _MOST_KEPT:
        return np.arange(n)
    return ((np.arange(_MOST_KEPT) + 0.5) * n / _MOST_KEPT).astype(np.intp)


def row_weights(errors: dict[str, np.ndarray]) -> np.ndarray:
    """Number of rows that each kept error represents."""
    n_rows, n_kept = errors["n_rows"], errors["n_kept"]
    return np.repeat(n_rows / np.maximum(n_kept, 1), n_kept)


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
    weight = row_weights(errors)
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
    """A regressor that says how far off its predictions may be, once it was tuned or calibrated.

    Attributes
    ----------
    heldout_errors_ : dict of ndarrays
        After a search or `calibrate`: errors on rows that were not fitted, by task.
    """

    def calibrate(self, X: Any, y: Any, task: Any = None, offset: Any = None) -> Any:
        """Learn from rows that were not fitted how far off the predictions are.

        The coefficients stay as they are. The errors on these rows take the place of those of a search, if
        there are any. Tasks of which the table has fewer than 40 rows borrow from all tasks.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows that the model was not fitted to, of tasks that it knows.
        y : array-like of shape (n_rows,) or (n_rows, n_tasks)
            Targets; NaN in two dimensions was not observed.
        task : array-like of shape (n_rows,), optional
            Task label of each row.
        offset : array-like of shape (n_rows,) or (n_rows, n_tasks), optional
            As in `predict`.

        Returns
        -------
        model : estimator
            A copy that knows its errors: `predict_interval` needs them.

        Examples
        --------
        >>> from mmtfl import MMTFLRegressor
        >>> from mmtfl.datasets import make_tasks
        >>> data = make_tasks(n_tasks=2, n_samples=90, n_features=3, n_informative=2, random_state=0)
        >>> model = MMTFLRegressor(alpha=0.1).fit(data.X[::2], data.y[::2], task=data.task[::2])
        >>> model = model.calibrate(data.X[1::2], data.y[1::2], task=data.task[1::2])
        >>> model.predict_interval(data.X[:1], task=data.task[:1]).shape
        (1, 2)
        """
        X, place, labels = self._locate(X, task)
        self._check_errors_tell()
        z = self._predict_with(offset, X, place)
        y = self._calibration_targets(y, z)
        if place is None:
            place = np.broadcast_to(np.arange(len(self.tasks_)), z.shape)
        elif (place >= len(self.tasks_)).any():
            unknown: Any = [] if labels is None else labels[place >= len(self.tasks_)]
            raise ValueError(f"Rows to calibrate with must be of known tasks, not of {abbreviate(unknown)}.")
        seen = np.isfinite(y)
        if not seen.any():
            raise ValueError("There is no row to calibrate with: y has no value.")
        calibrated = copy.copy(self)
        calibrated.heldout_errors_ = sorted_errors(self, y[seen], z[seen], place[seen], self.tasks_)
        return calibrated

    def _calibration_targets(self, y: Any, z: np.ndarray) -> np.ndarray:
        """Targets in the shape of the linear predictor; NaN if not observed."""
        if n_dimensions(y) == 2:
            y = matrix_values(y) if z.ndim == 2 else single_column(y)
        y = np.asarray(y)
        check_length("y", len(y), len(z))
        if y.shape != z.shape:
            raise ValueError(f"y has {y.shape[1]} columns, but the model has {z.shape[1]} targets.")
        return y.astype(float)

    def _reach(self, coverage: float, place: np.ndarray | None) -> np.ndarray:
        """The error that this share of the rows not fitted does not exceed: of each row, or of each task."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}.")
        self._check_errors_tell()
        self._check_calibrated()
        reach = half_widths(self.heldout_errors_, coverage)
        return reach[:-1] if place is None else reach[np.minimum(place, len(self.tasks_))]

    @property
    def _errors_tell(self) -> bool:
        """Whether held-out errors give intervals: those of losses of y - z, and of counts."""
        return self._loss.on_residuals or has_counts(self)

    def _check_errors_tell(self) -> None:
        if not self._errors_tell:
            raise TypeError(
                "Intervals add held-out errors to predictions, which suits the squared, the huber and the "
                "poisson loss alone, if it is that of all tasks."
            )

    def _check_calibrated(self) -> None:
        if not hasattr(self, "heldout_errors_"):
            raise NotFittedError(
                f"{type(self).__name__} has no errors on held-out rows: fit a search, such as "
                "MMTFLRegressorCV, to rows in memory, or give rows that were not fitted to calibrate()."
            )

    @property
    def borrowing_tasks_(self) -> np.ndarray:
        """Labels of the tasks whose intervals borrow from the errors of all tasks."""
        self._check_calibrated()
        return self.tasks_[self.heldout_errors_["n_rows"] < ENOUGH_ROWS]

    def predict_interval(
        self, X: Any, task: Any = None, coverage: float = 0.9, offset: Any = None
    ) -> np.ndarray:
        """Predict, for each row, an interval that holds the target with this probability.

        The interval is the prediction plus and minus an error that the share ``coverage`` of the task's
        held-out rows does not exceed. It holds for new rows of the same tasks that come like the old ones, on
        average over the rows of a task, not for every kind of row. Tasks with fewer than 40 held-out rows
        borrow from all tasks; ``borrowing_tasks_`` names them.

        The interval of a count is that of its root, so it is wider where more is expected, and its ends are
        counts.

        A task never seen (``unknown_task="common"``, and shrunk levels) has wider intervals: beside the
        errors of all tasks they hold how far its level and its slopes may be from what the tasks have in
        common.

        Parameters
        ----------
        X, task
            As in `predict`.
        coverage : float, default=0.9
            Share of new rows whose target is to be within its interval.
        offset : array-like of shape (n_rows,) or (n_rows, n_tasks), optional
            As in `predict`.

        Returns
        -------
        interval : ndarray of shape (n_rows, 2)
            Lower and upper end; (n_rows, n_tasks, 2) where `predict` gives (n_rows, n_tasks). Infinite where
            there are too few held-out rows for this coverage.
        """
        X, place, _ = self._locate(X, task)
        width = self._reach(coverage, place)
        predicted = self._predict_with(offset, X, place)
        if place is not None and (place >= len(self.tasks_)).any():
            if has_counts(self):
                raise ValueError("Intervals of counts are for tasks of the fit: leave rows of others out.")
            width = self._with_new_tasks(width, X, place, coverage)
        if has_counts(self):
            return counts_within(self._mean_of(predicted, place), width)
        return np.stack([predicted - width, predicted + width], axis=-1)

    def _with_new_tasks(self, width: np.ndarray, X: Any, place: np.ndarray, coverage: float) -> np.ndarray:
        """The widths, with what level and slopes of tasks never seen may add to the errors of all tasks."""
        if "levels_" not in vars(self):
            raise ValueError(
                "Intervals for tasks never seen need the spread of the tasks' levels: fit with "
                "levels='shrunk', the default of the searches."
            )
        new = place >= len(self.tasks_)
        width[new] = np.hypot(width[new], error_of_new_tasks(self, X, place, coverage))
        return width


# -- classes: are their probabilities right?


def log_odds(errors: dict[str, np.ndarray]) -> np.ndarray:
    """The log odds of the second class that the held-out rows were given."""
    return np.where(errors["is_second"], -errors["error"], errors["error"])


def reliability(errors: dict[str, np.ndarray], n_bins: int = 10) -> dict[str, np.ndarray]:
    """How often held-out rows are of the second class, by the probability that they were given.

    Rows are cut into bins of equal size by the probability.

    Parameters
    ----------
    errors : dict of ndarrays
        ``heldout_errors_`` of a search over classifiers.
    n_bins : int, default=10
        Number of bins.

    Returns
    -------
    curve : dict of ndarrays of shape (n_bins,)
        probability: its mean within the bin; share: of the second class; n_rows.
    """
    z, weight = log_odds(errors), row_weights(errors)
    values = {"probability": expit(z), "share": errors["is_second"].astype(float)}
    order = np.argsort(z, kind="stable")
    reached = np.cumsum(weight[order]) - 0.5 * weight[order]
    of_row = np.empty(len(z), dtype=np.intp)
    of_row[order] = np.minimum(n_bins * reached / weight.sum(), n_bins - 1).astype(np.intp)
    n = np.bincount(of_row, weight, minlength=n_bins)
    filled = n > 0.0
    curve = {
        name: np.bincount(of_row, weight * value, minlength=n_bins)[filled] / n[filled]
        for name, value in values.items()
    }
    return {**curve, "n_rows": n[filled]}
