"""Classification: the logistic loss of every task plus a penalty on features."""

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.family import FamilyMember
from mmtfl.estimators.fit_warnings import warn_of_one_value
from mmtfl.estimators.inputs import matrix_values, n_dimensions, with_two_classes
from mmtfl.estimators.parameters import parameter
from mmtfl.objective.losses import Logistic, Loss
from mmtfl.tasks.checks import check_finite_target, check_length, check_two_classes, missing_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.stored import StoredTasks
from mmtfl.wording import abbreviate


class TaskClassifier(ClassifierMixin, TaskModel):
    """Models whose targets are two classes, the same two in every task.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The two classes, sorted; the same in every task.
    heldout_errors_ : dict of ndarrays
        After a search: the log odds of rows that were not fitted, and their classes, by task.
    """

    _metric = "accuracy"

    __metadata_request__predict_proba: ClassVar = {"task": True, "offset": True}
    __metadata_request__predict_log_proba: ClassVar = {"task": True, "offset": True}
    __metadata_request__decision_function: ClassVar = {"task": True, "offset": True}
    _errors_tell = True  # a search keeps the log odds of held-out rows

    @property
    def _loss(self) -> Loss:
        return Logistic()

    def decision_function(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Log odds of the second class, ``classes_[1]``.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows, with the columns of `fit`.
        task : array-like of shape (n_rows,), optional
            Task label of each row; needed if there are several tasks, unless ``task_column`` names them.
        offset : array-like of shape (n_rows,) or (n_rows, n_tasks), optional
            Known part of the log odds, as in `fit`; without it there is none.

        Returns
        -------
        z : ndarray of shape (n_rows,)
            Positive for ``classes_[1]``; after a fit with a 2-D y and without labels of shape
            (n_rows, n_tasks).
        """
        return self._linear_predictor(*self._locate(X, task)[:2], offset)

    def predict(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the class of each row.

        Parameters
        ----------
        X, task, offset
            As in `decision_function`.

        Returns
        -------
        y : ndarray of the shape of `decision_function`
            Labels out of ``classes_``.
        """
        return self._class_of(self.decision_function(X, task, offset))

    def predict_proba(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the probability of each class.

        Parameters
        ----------
        X, task, offset
            As in `decision_function`.

        Returns
        -------
        probability : ndarray of shape (n_rows, 2)
            In the order of ``classes_``; after a fit with a 2-D y and without labels the probability of
            ``classes_[1]`` in each task, of shape (n_rows, n_tasks).
        """
        return _both_classes(self.decision_function(X, task, offset), expit)

    def predict_log_proba(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the logarithm of `predict_proba`, without losing small probabilities.

        Parameters
        ----------
        X, task, offset
            As in `decision_function`.

        Returns
        -------
        log_probability : ndarray of the shape of `predict_proba`
            Logarithms.
        """
        return _both_classes(self.decision_function(X, task, offset), log_expit)

    def score(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Mean over tasks of each task's accuracy; tasks with a single row are left out with a warning.

        Parameters
        ----------
        X, y, task, sample_weight, offset
            Rows and their true classes, as in `fit`.

        Returns
        -------
        score : float
            Share of rows that are right, averaged over tasks.
        """
        X, observation_task, labels = self._locate(X, task)
        y_pred = self._class_of(self._linear_predictor(X, observation_task, offset))
        if n_dimensions(y) == 1:
            y = _plain_classes(y, labels, len(y_pred))
        return self._mean_score(y, y_pred, labels, sample_weight)

    def _class_of(self, z: np.ndarray) -> np.ndarray:
        return self.classes_[(z > 0).astype(np.intp)]

    def _read_targets(
        self, y: Any, labels: np.ndarray | None, n_rows: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        if n_dimensions(y) == 2:
            return _read_class_columns(y)
        y = _plain_classes(y, labels, n_rows)
        check_classification_targets(y)
        names, codes = np.unique(y, return_inverse=True)
        return codes, names

    def _encode_targets(self, tasks: Tasks, names: np.ndarray | None) -> Tasks:
        """Encode the two classes of the rows with weight as -1 and +1."""
        assert names is not None  # codes always come with what they stand for
        codes = np.unique(tasks.y if tasks.weights is None else tasks.y[tasks.weights > 0])
        classes = names[codes.astype(np.intp)]
        if len(codes) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: y has "
                f"{len(codes)} classes ({abbreviate(classes)}). Make one task per class (that class against "
                "the others), with a column of y for each."
            )
        positive = tasks.y == codes[-1] if len(codes) == 2 else np.zeros(tasks.n_samples, dtype=bool)
        if len(codes) < 2 or not self._has_prior(tasks):
            check_two_classes(
                classes[positive.astype(np.intp)],
                observation_task=tasks.observation_task,
                labels=tasks.labels,
                weights=tasks.weights,
            )
        else:
            warn_of_one_value(tasks, classes[positive.astype(np.intp)])
        self.classes_ = classes
        return tasks.with_y(np.where(positive, 1.0, -1.0))

    def _encode_stored(self, stored: StoredTasks, *, stays: bool) -> StoredTasks:
        stored = with_two_classes(stored, in_each_task=stays)
        if stays:
            self.classes_ = np.array(stored.classes)
        return stored

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags


def _both_classes(z: np.ndarray, link: Any) -> np.ndarray:
    return link(z) if z.ndim == 2 else np.column_stack([link(-z), link(z)])


def _plain_classes(y: Any, labels: np.ndarray | None, n_rows: int) -> np.ndarray:
    """Check that no class is missing, and return the classes as an array that can be sorted."""
    y = column_or_1d(np.asarray(y))
    check_length("y", len(y), n_rows)
    who: dict[str, Any] = {}
    if labels is not None:
        who["labels"], who["observation_task"] = np.unique(labels, return_inverse=True)
    if y.dtype.kind == "f":
        check_finite_target(y, **who)
    if y.dtype.kind != "O":
        return y
    check_finite_target(np.where(missing_labels(y), np.nan, 0.0), **who)
    n_strings = sum(isinstance(value, str) for value in y)
    if 0 < n_strings < len(y):
        raise TypeError("y mixes strings with other classes: use one type, for example y.astype(str).")
    return y if n_strings else np.array(y.tolist())


def _read_class_columns(y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Encode classes, a column for each task, as 0, 1, ...; NaN, where none was observed, is kept."""
    values = matrix_values(y)
    observed = np.isfinite(values)
    names, codes = np.unique(values[observed], return_inverse=True)
    Y = np.full(values.shape, np.nan)
    Y[observed] = codes
    Y[np.isinf(values)] = np.inf  # for the check of finite targets to name
    return Y, names


class MMTFLClassifier(FamilyMember, TaskClassifier):
    r"""Multitask classification that learns which features are shared.

    Minimises over the coefficients A (features by tasks) and one intercept per task

    .. math:: \frac1n \sum_t \sum_i \log\big(1 + e^{-y_{ti} (x_{ti} \cdot a_t + b_t)}\big)
              + \alpha \sum_j \Big(\sum_t |a_{jt}|^p\Big)^{k/(p+k)},

    where n is the mean number of rows of a task and y is -1 for ``classes_[0]`` and +1 for ``classes_[1]``.
    It is the product form A = diag(c) B with the penalties ||B||_p^p and ||c||_k^k, after c has been
    eliminated: ``c_`` is what the tasks share, ``B_`` what is their own.

    Parameters
    ----------
    alpha : float > 0
        Strength of the penalty. The gradient of the logistic loss never exceeds the mean size of a feature,
        so useful values are smaller than in regression.

    Examples
    --------
    Two tasks with their own rows; only the first feature matters, in both.

    >>> import numpy as np
    >>> from mmtfl.estimators import MMTFLClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(80, 3)), np.repeat(["north", "south"], 40)
    >>> y = np.where(np.where(task == "north", 1, -1) * X[:, 0] > 0, "yes", "no")
    >>> model = MMTFLClassifier(p=2, k=1, alpha=0.05).fit(X, y, task=task)
    >>> model.classes_.tolist(), np.flatnonzero(model.c_).tolist()
    (['no', 'yes'], [0])
    >>> model.predict([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], task=["north", "south"]).tolist()
    ['yes', 'no']
    """

    alpha: float = parameter(default=0.1, kw_only=False)
