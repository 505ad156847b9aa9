"""How far off predictions may be, learned from errors on rows that were not fitted."""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.inputs import matrix_values, n_dimensions, single_column
from mmtfl.estimators.prediction import error_of_new_tasks, predict_rows
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.shrunk_levels import free_levels
from mmtfl.inference.heldout_errors import ENOUGH_ROWS, counts_within, half_widths, has_counts, sorted_errors
from mmtfl.model_selection.folds import observations, take
from mmtfl.solvers.path import Start
from mmtfl.tasks.checks import check_length
from mmtfl.tasks.container import Tasks
from mmtfl.wording import abbreviate

# -- a chosen model fitted to its rows without each fold -----------------------------------------------------


def heldout_errors(
    model: TaskModel, prepared: Prepared, found: Sequence[Start] | None = None
) -> dict[str, np.ndarray]:
    """Errors on held-out rows, sorted within each task: what intervals are made of.

    Parameters
    ----------
    model : TaskModel
        With the strengths that were chosen.
    prepared : Prepared
        All rows with their folds.
    found : list of Start, or None
        What the model is on the rows of each fold, in the units of its problem; None where it must be fitted.

    Returns
    -------
    errors : dict of ndarrays
        See `sorted_errors`.
    """
    tasks, model = prepared.original_tasks(), _plain_copy(model)
    tests = [observations(tasks, test) for _, test in prepared.folds]
    known = [None] * len(tests) if found is None else found
    parts = zip(prepared.folds, tests, known, strict=True)
    z = [_predict_without(model, tasks, train, test, start) for (train, _), test, start in parts]
    test = np.concatenate(tests)
    task, y = tasks.observation_task[test], tasks.y[test]
    return sorted_errors(model._loss, y, np.concatenate(z), task, tasks.labels)


def fold_models(model: TaskModel, prepared: Prepared, found: Sequence[Start] | None) -> dict[str, np.ndarray]:
    """Coefficients and intercepts of a model without each fold, in the units of the data.

    Every task is in every training part.

    Returns
    -------
    models : dict of ndarrays
        coef (n_folds, n_tasks, n_columns) and intercept (n_folds, n_tasks).
    """
    tasks, model = prepared.original_tasks(), _plain_copy(model)
    known = [None] * len(prepared.folds) if found is None else found
    parts = zip(prepared.folds, known, strict=True)
    fits = [_fit_part(model, take(tasks, train), start) for (train, _), start in parts]
    return {"coef": np.array([coef for coef, _ in fits]), "intercept": np.array([level for _, level in fits])}


def _predict_without(
    model: TaskModel, tasks: Tasks, train: np.ndarray, test: np.ndarray, known: Start | None
) -> np.ndarray:
    """Linear predictor of the test observations, by a fit to the others, or by the `known` one."""
    fitted = take(tasks, train)
    coef, intercept = _fit_part(model, fitted, known)
    place = {label: t for t, label in enumerate(fitted.labels.tolist())}
    trained = np.array([place.get(label, -1) for label in tasks.labels.tolist()])
    rows = test if tasks.rows is None else tasks.rows[test]
    X = tasks.X[rows] if sparse.issparse(tasks.X) else np.asarray(tasks.X)[rows]
    z = predict_rows(X, coef, intercept, trained[tasks.observation_task[test]])
    return z if tasks.known is None else z + tasks.known[test]


_TOL = 1e-4  # whether a row is zero is known long before its last digits


def _plain_copy(estimator: TaskModel) -> TaskModel:
    """An unfitted copy of a model for many fits to parts of its rows: local, silent, of loose tolerance."""
    model = clone(estimator)
    here = {"tol": max(model.tol, _TOL), "verbose": 0, "n_jobs": None, "engine": None, "checkpoint": None}
    known = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in here.items() if name in known})
    model._check_parameters()
    return model


def _fit_part(model: Any, part: Tasks, known: Start | None) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (n_tasks, n_features) and intercepts of a model on some rows, in the units of the data.

    Where the solution is known, in the units of the model's problem, only the units change.
    """
    prepared = model._with_prior(Prepared.of(model, part))
    if known is None:
        solution, penalty = model._solve(prepared)
        A, intercept = solution.A, solution.intercept
    else:
        (A, intercept), penalty = known, model._penalty(prepared.known)
    if part.absent is not None:
        A = np.where(part.absent.T, 0.0, A)
    free = free_levels(model, prepared, _Found(A, intercept), penalty)
    if free is not None:
        of_tasks, found, loss, n_parameters = free
        intercept = of_tasks.intercepts([found], np.array([loss]), np.array([n_parameters]))[0]
    scale = 1.0 if prepared.target_scale is None else prepared.target_scale
    return prepared.to_original(A), intercept * scale


class _Found(NamedTuple):
    A: np.ndarray
    intercept: np.ndarray


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
        z = self._linear_predictor(X, place, offset)
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
        calibrated.heldout_errors_ = sorted_errors(self._loss, y[seen], z[seen], place[seen], self.tasks_)
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
        return self._loss.on_residuals or has_counts(self._loss)

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
        predicted = self._linear_predictor(X, place, offset)
        if place is not None and (place >= len(self.tasks_)).any():
            if has_counts(self._loss):
                raise ValueError("Intervals of counts are for tasks of the fit: leave rows of others out.")
            width = self._with_new_tasks(width, X, place, coverage)
        if has_counts(self._loss):
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
