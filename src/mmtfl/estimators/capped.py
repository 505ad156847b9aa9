"""Capped-l1 rows: features that are found are fitted without a penalty."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmtfl.estimators.base import WarmModel
from mmtfl.estimators.classification import TaskClassifier
from mmtfl.estimators.declaration import restated
from mmtfl.estimators.parameters import CappedParameters
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.regression import TaskRegressor
from mmtfl.objective.problem import Problem
from mmtfl.solvers.capped import CappedGrid, CappedRows, solve_capped

__all__ = ["CappedClassifier", "CappedRegressor"]


class CappedModel(WarmModel, CappedParameters):
    """A model with the penalty alpha sum_j min(||a_j||_1, cap).

    Attributes
    ----------
    capped_ : ndarray of shape (n_features,)
        Whether a feature has passed the cap, so that its coefficients are not shrunk.
    """

    strength_names = ("alpha", "cap")

    def _solve(self, prepared: Prepared) -> tuple[Any, Any]:
        penalty = CappedRows(float(self.alpha), float(self.cap))
        problem = prepared.problem(self._loss, fit_intercept=self.fit_intercept)
        solution = solve_capped(problem, penalty, start=prepared.start, max_iter=self.max_iter, tol=self.tol)
        return solution, penalty

    def _grid(self, problem: Problem) -> CappedGrid:
        return CappedGrid(problem)

    def _name_parts(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        self.capped_ = penalty.past_cap(solution.A)

    def _sizes(self) -> dict[str, np.ndarray]:
        return {"size": np.abs(self.coef_).sum(axis=0)}


class CappedRegressor(CappedModel, TaskRegressor):
    r"""Multi-stage multitask regression: a feature whose coefficients are large is no longer shrunk.

    Descends by stages, from the lasso, on

    .. math:: \frac1n \sum_t \sum_i \tfrac12 (y_{ti} - x_{ti} \cdot a_t - b_t)^2
              + \alpha \sum_j \min(\|a_j\|_1, \theta),

    where a_j is the row of feature j over all tasks, n the mean number of rows of a task (Gong, Ye and Zhang
    2012, multi-stage multi-task feature learning). Each stage is a lasso that leaves the features past the
    cap without penalty, and never raises the objective; the problem is not convex, and the answer is a
    stationary point.

    Examples
    --------
    What passes the cap is not shrunk, as it would be by the lasso.

    >>> import numpy as np
    >>> from mmtfl import CappedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(200, 5)), np.repeat(["a", "b"], 100)
    >>> y = 2 * X[:, 0] + 0.01 * rng.normal(size=200)
    >>> model = CappedRegressor(alpha=0.3, cap=2.0).fit(X, y, task=task)
    >>> model.coef_.round(2) + 0.0
    array([[2., 0., 0., 0., 0.],
           [2., 0., 0., 0., 0.]])
    >>> model.capped_.tolist()
    [True, False, False, False, False]
    """


class CappedClassifier(CappedModel, TaskClassifier):
    r"""Multi-stage multitask classification: a feature whose coefficients are large is no longer shrunk.

    Descends by stages, from the lasso, on

    .. math:: \frac1n \sum_t \sum_i \log\big(1 + e^{-y_{ti} (x_{ti} \cdot a_t + b_t)}\big)
              + \alpha \sum_j \min(\|a_j\|_1, \theta),

    where n is the mean number of rows of a task and y is -1 or +1; see `CappedRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import CappedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(400, 4)), np.repeat(["a", "b"], 200)
    >>> y = X[:, 0] + 0.5 * rng.normal(size=400) > 0
    >>> model = CappedClassifier(alpha=0.05, cap=2.0).fit(X, y, task=task)
    >>> model.capped_.tolist()
    [True, False, False, False]
    """

    alpha: float = restated(default=0.02, kw_only=False)
    cap: float = restated(
        default=5.0,
        description="Sum of a feature's absolute coefficients over tasks from which it costs no more. "
        "Without a penalty classes that features separate have no finite coefficients: prefer a large cap.",
        kw_only=False,
    )
