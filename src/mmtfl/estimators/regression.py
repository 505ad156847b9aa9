"""Regression: half the squared error of every task plus a penalty on features."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from mmtfl.estimators.family import FamilyMember
from mmtfl.estimators.intervals import PredictsIntervals
from mmtfl.estimators.parameters import TargetScaling
from mmtfl.objective.losses import Loss, Squared

__all__ = ["MMTFLRegressor", "TaskRegressor"]


class TaskRegressor(RegressorMixin, TargetScaling, PredictsIntervals):
    """Models whose targets are numbers."""

    _metric = "r2"

    @property
    def _loss(self) -> Loss:
        return Squared()

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows, with the columns of `fit`.
        task : array-like of shape (n_rows,), optional
            Task label of each row; needed if there are several tasks, unless ``task_column`` names them.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Predictions; after a fit with a 2-D y and without labels of shape (n_rows, n_tasks).
        """
        return self._loss.mean(self._linear_predictor(X, task))

    def score(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> float:
        """Mean over tasks of each task's R^2; tasks with a single row are left out with a warning.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows.
        y : array-like of shape (n_rows,) or (n_rows, n_tasks)
            True targets; NaN in two dimensions was not observed.
        task : array-like of shape (n_rows,), optional
            Task label of each row.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        score : float
            1 is perfect, 0 is as good as predicting each task's mean.
        """
        X, observation_task, labels = self._locate(X, task)
        y_pred = self._loss.mean(self._predict_at(X, observation_task))
        return self._mean_score(y, y_pred, labels, sample_weight)


class MMTFLRegressor(FamilyMember, TaskRegressor):
    r"""Multitask regression that tells which features are shared.

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
