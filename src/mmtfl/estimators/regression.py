"""Regression: half the squared error of every task plus a penalty on features."""

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.metaestimators import available_if

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.family import FamilyMember
from mmtfl.estimators.inputs import score_weights, targets_like
from mmtfl.estimators.parameters import POSITIVE, parameter
from mmtfl.estimators.prediction import error_of_new_tasks, predict
from mmtfl.inference.heldout_errors import ENOUGH_ROWS, counts_within, half_widths, has_counts, sorted_errors
from mmtfl.model_selection.heldout import deviance_explained
from mmtfl.model_selection.metrics import Metric, mean_task_score
from mmtfl.objective.losses import KINDS, Loss, make_loss
from mmtfl.objective.losses.by_rows import LossPerTask, TaskLoss
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.converters import check_offset
from mmtfl.tasks.stored import StoredTasks
from mmtfl.wording import abbreviate, meant


def _has_probabilities(model: Any) -> bool:
    """Whether some task has targets 0 and 1."""
    return not isinstance(model.loss, str) and any(
        KINDS[name].has_classes for name in model.loss.values() if name in KINDS
    )


class TaskRegressor(RegressorMixin, TaskModel):
    """Models whose targets are numbers.

    Parameters
    ----------
    scale_targets : bool
        Whether each task's target is divided by its standard deviation, so that tasks in different units do
        not compete. Coefficients and intercepts come back on the original scale; `objective_` does not.
    loss : str or dict of label to str
        What is minimised on the rows: "squared"; "huber", which outlying targets hardly move; "poisson" for
        counts, with predictions exp(X @ coef); or another loss of ``mmtfl.objective.losses``. A dict names
        the loss of each task (of each column of a 2-D y), among them "logistic" for targets 0 and 1, whose
        predictions are probabilities. Then targets of squared and huber tasks are measured in units of their
        spread, and every task's loss is divided by the size of its gradient at zero, so that no kind of
        target comes first because of its units.
    delta : float > 0
        Only for "huber": the size of a residual from which it counts by its absolute value, in units of y,
        or of each task's spread with ``scale_targets`` or with a loss for each task.

    Attributes
    ----------
    heldout_errors_ : dict of ndarrays
        After a search or `calibrate`: errors on rows that were not fitted, by task.
    """

    scale_targets: bool = parameter("boolean", default=False)
    loss: str | Mapping[Any, str] = parameter(
        str,
        Mapping,
        default="squared",
        remedy="Use 'squared', 'huber' or 'poisson', or a dict such as {'stay': 'squared', 'visits': "
        "'poisson'}.",
    )
    delta: float = parameter(
        POSITIVE, default=1.35, remedy="Use about 1.35 times the standard deviation of the noise."
    )

    _metric = "r2"

    __metadata_request__predict_proba: ClassVar = {"task": True, "offset": True}

    @property
    def _loss(self) -> TaskLoss:
        numbers = {"delta": self.delta, "from_zero": True}
        if isinstance(self.loss, str):
            return make_loss(self.loss, numbers)
        losses = {label: make_loss(name, numbers) for label, name in self.loss.items()}
        alike = len(set(losses.values())) == 1
        balanced = not isinstance(getattr(self, "task_weight", None), Mapping)
        return next(iter(losses.values())) if alike else LossPerTask(losses, balanced)

    def _check_parameters(self) -> Any:
        checked = super()._check_parameters()
        try:
            loss = self._loss
        except (ValueError, TypeError) as error:
            raise self._refused(str(error)) from None
        if not self.loss:
            raise self._refused("it names no task.")
        if isinstance(self.loss, str) and KINDS[self.loss].has_classes:
            raise self._refused("classes are for MMTFLClassifier and the other classifiers.")
        if self.scale_targets and isinstance(loss, Loss) and not loss.on_residuals:
            raise InvalidParameterError(
                f"scale_targets=True does not go with loss={self.loss!r}, whose targets have no unit: use "
                "scale_targets=False."
            )
        return checked

    def _refused(self, why: str) -> InvalidParameterError:
        remedy = self._parameters["loss"].remedy
        return InvalidParameterError(
            f"The 'loss' parameter of {type(self).__name__} is {self.loss!r}: {why} {remedy}"
        )

    def _encode_targets(self, tasks: Tasks, names: Any) -> Tasks:
        if not isinstance(self.loss, str):
            self._check_named(tasks.labels)
        return super()._encode_targets(tasks, names)

    def _encode_stored(self, stored: StoredTasks, *, stays: bool) -> StoredTasks:
        if not isinstance(self.loss, str):
            self._check_named(stored.labels)
        return super()._encode_stored(stored, stays=stays)

    def _check_named(self, labels: np.ndarray) -> None:
        """Refuse a dict of losses that leaves a task out, or names one that does not exist."""
        known, named = labels.tolist(), list(self.loss)
        absent = [label for label in known if label not in named]
        if absent:
            raise ValueError(
                f"loss names no loss for task {abbreviate(absent)}: name one for each task, or give one loss "
                "for all of them."
            )
        unknown = [
            label for label in named if label not in known and label not in getattr(self, "tasks_", ())
        ]
        if unknown:
            raise ValueError(
                f"loss names task {abbreviate(unknown)}, which the data do not have: they have "
                f"{abbreviate(labels)}.{meant(unknown, labels)}"
            )

    def predict(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows, with the columns of `fit`.
        task : array-like of shape (n_rows,), optional
            Task label of each row; needed if there are several tasks, unless ``task_column`` names them.
        offset : array-like of shape (n_rows,) or (n_rows, n_tasks), optional
            Known part of the linear predictor, as in `fit`; without it there is none.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Expected targets: of counts their mean, of targets 0 and 1 the probability of 1. After a fit with
            a 2-D y and without labels of shape (n_rows, n_tasks).
        """
        return self._expect(*self._locate(X, task)[:2], offset)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the probabilities of 0 and 1, for rows of tasks with the logistic loss.

        Parameters
        ----------
        X, task, offset
            As in `predict`.

        Returns
        -------
        probability : ndarray of shape (n_rows, 2)
            Of 0 and 1; where `predict` gives (n_rows, n_tasks) that of 1, in this shape.
        """
        X, observation_task, _ = self._locate(X, task)
        asked = self.tasks_ if observation_task is None else self.tasks_[np.unique(observation_task)]
        others = [t for t in asked.tolist() if not self._loss.for_task(t).has_classes]
        if others:
            raise ValueError(
                f"Task {abbreviate(others)} has no classes: predict_proba is for rows of tasks with the "
                "logistic loss, predict for the others."
            )
        second = self._expect(X, observation_task, offset)
        return second if observation_task is None else np.column_stack([1.0 - second, second])

    def _expect(self, X: Any, observation_task: np.ndarray | None, offset: Any) -> np.ndarray:
        return self._mean_of(self._linear_predictor(X, observation_task, offset), observation_task)

    def score(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Mean over tasks of the share of each task's deviance that is explained: R^2 for the squared loss.

        The deviance is twice the loss of the task, without the penalty; it is compared with that of the best
        constant (beside the offset) on these rows. Tasks with a single row are left out with a warning.

        Parameters
        ----------
        X, y, task, sample_weight, offset
            Rows and their true targets, as in `fit`.

        Returns
        -------
        score : float
            1 is perfect, 0 is as good as predicting each task's best constant.
        """
        if offset is None and self._loss.is_quadratic:
            X, observation_task, labels = self._locate(X, task)
            return self._mean_score(y, predict(self, X, observation_task), labels, sample_weight)
        return mean_task_score(*self._explained(X, y, task, sample_weight, offset))

    def _explained(
        self, X: Any, y: Any, task: Any, sample_weight: Any = None, offset: Any = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, Metric, np.ndarray]:
        """Return targets, places that stand for predictions, labels, the metric of places, and weights."""
        X, observation_task, labels = self._locate(X, task)
        z = predict(self, X, observation_task)
        place = np.arange(z.size).reshape(z.shape)
        known = np.zeros(z.size) if offset is None else check_offset(offset, *z.shape).ravel()
        y = targets_like(z, y).astype(float)
        weights = score_weights(sample_weight, y)
        spread = np.ones(len(self.tasks_)) if self.target_scale_ is None else self.target_scale_
        units = dict(zip(self.tasks_.tolist(), spread, strict=True))
        z = z.ravel()

        def explained(y: np.ndarray, at: np.ndarray, sample_weight: np.ndarray) -> float:
            label = (self.tasks_[at[0] % len(self.tasks_)] if labels is None else labels[at[0]]).item()
            unit = units.get(label, 1.0)
            rows = y / unit, z[at] / unit, sample_weight, known[at] / unit
            return deviance_explained(self._loss.for_task(label), *rows)

        metric = Metric("deviance explained", explained)
        return y, place, labels, metric, np.ones(len(y)) if weights is None else weights

    # -- intervals -------------------------------------------------------------------------------------------

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
        y = targets_like(z, y).astype(float)
        if y.shape != z.shape:
            raise ValueError(f"y has {y.shape[1]} columns, but the model has {z.shape[1]} targets.")
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

    def _known_errors(self) -> dict[str, np.ndarray]:
        """The errors on held-out rows."""
        if not hasattr(self, "heldout_errors_"):
            raise NotFittedError(
                f"{type(self).__name__} has no errors on held-out rows: fit a search, such as "
                "MMTFLRegressorCV, to rows in memory, or give rows that were not fitted to calibrate()."
            )
        return self.heldout_errors_

    @property
    def borrowing_tasks_(self) -> np.ndarray:
        """Labels of the tasks whose intervals borrow from the errors of all tasks."""
        return self.tasks_[self._known_errors()["n_rows"] < ENOUGH_ROWS]

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
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}.")
        self._check_errors_tell()
        width, n_tasks = half_widths(self._known_errors(), coverage), len(self.tasks_)
        width = width[:-1] if place is None else width[np.minimum(place, n_tasks)]
        z = self._linear_predictor(X, place, offset)
        new = np.zeros(1, dtype=bool) if place is None else place >= n_tasks
        if has_counts(self._loss):
            if new.any():
                raise ValueError("Intervals of counts are for tasks of the fit: leave rows of others out.")
            return counts_within(self._mean_of(z, place), width)
        if place is not None and new.any():
            if "levels_" not in vars(self):
                raise ValueError(
                    "Intervals for tasks never seen need the spread of the tasks' levels: fit with "
                    "levels='shrunk', the default of the searches."
                )
            width[new] = np.hypot(width[new], error_of_new_tasks(self, X, place, coverage))
        return np.stack([z - width, z + width], axis=-1)


class MMTFLRegressor(FamilyMember, TaskRegressor):
    r"""Multitask regression that learns which features are shared.

    Minimises over the coefficients A (features by tasks) and one intercept per task

    .. math:: \frac1n \sum_t \sum_i \tfrac12 (y_{ti} - x_{ti} \cdot a_t - b_t)^2
              + \alpha \sum_j \Big(\sum_t |a_{jt}|^p\Big)^{k/(p+k)},

    where n is the mean number of rows of a task. It is the product form A = diag(c) B with the penalties
    ||B||_p^p and ||c||_k^k, after c has been eliminated: ``c_`` is what the tasks share, ``B_`` what is their
    own. (2, 2) is scikit-learn's MultiTaskLasso for tasks with their own rows.

    Examples
    --------
    Two tasks with their own rows; only the first feature matters, in both.

    >>> import numpy as np
    >>> from mmtfl.estimators import MMTFLRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(60, 3)), np.repeat(["north", "south"], 30)
    >>> y = np.where(task == "north", 2.0, -3.0) * X[:, 0] + 0.1 * rng.normal(size=60)
    >>> model = MMTFLRegressor(p=2, k=1, alpha=0.05).fit(X, y, task=task)
    >>> model.tasks_.tolist(), np.flatnonzero(model.c_).tolist()
    (['north', 'south'], [0])
    >>> model.coef_.round(1) + 0.0
    array([[ 2.,  0.,  0.],
           [-3.,  0.,  0.]])
    >>> model.predict([[1.0, 0.0, 0.0]], task=["south"]).round(1)
    array([-3.])
    """
