"""Regression: half the squared error of every task plus a penalty on features."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.metaestimators import available_if

from mmtfl.estimators.family import FamilyMember
from mmtfl.estimators.inputs import matrix_values, n_dimensions, single_column, stack_observed
from mmtfl.estimators.intervals import PredictsIntervals
from mmtfl.estimators.parameters import POSITIVE, parameter
from mmtfl.estimators.prediction import predict
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


class TaskRegressor(RegressorMixin, PredictsIntervals):
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
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, Metric]:
        """Return targets, rows that stand for their predictions, labels, and the metric of such rows."""
        X, observation_task, labels = self._locate(X, task)
        z = predict(self, X, observation_task)
        known = np.zeros_like(z) if offset is None else check_offset(offset, *z.shape)
        if n_dimensions(y) == 2:
            y = matrix_values(y) if z.ndim == 2 else single_column(y)
        weights = np.ones(len(z)) if sample_weight is None else sample_weight
        place = np.arange(z.size).reshape(z.shape)
        y, place, own, weights = stack_observed(y, place, labels, weights)
        of_rows = np.zeros(len(y), dtype=np.intp) if own is None else own
        names = self.tasks_[of_rows] if labels is None else of_rows
        z, known, y = z.ravel()[place], known.ravel()[place], y.astype(float)
        units = (
            {}
            if self.target_scale_ is None
            else dict(zip(self.tasks_.tolist(), self.target_scale_, strict=True))
        )

        def explained(_: np.ndarray, rows: np.ndarray) -> float:
            label = names[rows[0]].item()
            unit = units.get(label, 1.0)
            at = y[rows] / unit, z[rows] / unit, weights[rows], known[rows] / unit
            return deviance_explained(self._loss.for_task(label), *at)

        # so that weights and offsets come along
        return y, np.arange(len(y)), own, Metric("deviance explained", explained)


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
