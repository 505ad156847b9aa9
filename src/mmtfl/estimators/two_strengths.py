"""The models with two strengths: those whose coefficients are a sum of two parts, and those with a cap."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Options

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.classification import TaskClassifier
from mmtfl.estimators.parameters import FeatureParameters, parameter, strength
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.regression import TaskRegressor
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.norms import ColumnNorm, EntryNorm, RowNorm, TraceNorm, TwoNorms
from mmtfl.objective.problem import Problem
from mmtfl.solvers.strengths import AdditiveGrid, CappedGrid, CappedRows, solve_additive, solve_capped

# -- kinds of models ---------------------------------------------------------------------------------


class TwoStrengthModel(TaskModel):
    """A model with two strengths: a kind of model names them, and solves grids of both."""

    strength_names: ClassVar[tuple[str, str]]

    def _grid(self, problem: Problem, known: KnownFeatures | None = None) -> AdditiveGrid | CappedGrid:
        raise TypeError("a kind of model says how pairs of strengths are solved")


class AdditiveModel(TwoStrengthModel):
    """A model whose coefficients are P + Q; a kind of model defines the norms, and names the second part.

    Parameters
    ----------
    alpha_shared : float > 0
        Strength of the penalty on P.
    """

    alpha_shared: float = strength(0.1, "Use a large alpha_shared, such as 1e6, to drop the shared part.")
    _second_part: ClassVar[str]

    def _norms(self) -> TwoNorms:
        raise TypeError("a kind of model says which norms its parts have")

    def _solve(self, prepared: Prepared) -> tuple[Any, Any]:
        norms = replace(self._norms(), known=prepared.known)
        return solve_additive(prepared.problem(), norms, max_iter=self.max_iter, tol=self.tol), None

    def _grid(self, problem: Problem, known: KnownFeatures | None = None) -> AdditiveGrid:
        return AdditiveGrid(problem, replace(self._norms(), known=known))

    def _name_parts(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        # adding zero turns -0 into 0
        self.shared_, second = (
            prepared.to_original(part) + 0.0 for part in (solution.shared, solution.specific)
        )
        setattr(self, self._second_part, second)
        # the sum of the parts to the last bit, whatever scaling back has rounded
        self.coef_ = self.shared_ + second

    def _sizes(self) -> dict[str, np.ndarray]:
        names = "shared_", self._second_part
        return {name.rstrip("_"): np.linalg.norm(getattr(self, name), axis=0) for name in names}


class DirtyModel(FeatureParameters, AdditiveModel):
    """A model with a norm of the rows of P, and of the entries of Q.

    Parameters
    ----------
    alpha_specific : float > 0
        Strength of the penalty on Q.
    p : {2, inf}
        Norm of a row of P: inf is the dirty model, 2 its variant with the l2,1 norm.

    Attributes
    ----------
    shared_ : ndarray of shape (n_tasks, n_features)
        The part of ``coef_`` that features share over tasks.
    specific_ : ndarray of shape (n_tasks, n_features)
        The part of single entries: ``coef_ == shared_ + specific_``.
    """

    alpha_specific: float = strength(
        0.05, "Use a large alpha_specific, such as 1e6, to drop the task-specific part."
    )
    p: float = parameter(
        Options(Real, {2, math.inf}),
        default=math.inf,
        remedy="Use p=float('inf') for the dirty model, or p=2.",
    )

    strength_names = ("alpha_shared", "alpha_specific")
    _second_part = "specific_"

    def _norms(self) -> TwoNorms:
        return TwoNorms(RowNorm(self.alpha_shared, float(self.p)), EntryNorm(self.alpha_specific))


class OutlierModel(AdditiveModel):
    """A model with a norm of the columns of Q, the tasks that are set apart.

    Parameters
    ----------
    alpha_outlier : float > 0
        Strength of the penalty on Q.

    Attributes
    ----------
    shared_ : ndarray of shape (n_tasks, n_features)
        The part of ``coef_`` that the tasks share.
    outlier_ : ndarray of shape (n_tasks, n_features)
        The part of tasks that are set apart: ``coef_ == shared_ + outlier_``.
    outlier_tasks_ : ndarray of shape (n_outliers,)
        Labels of the tasks with an outlier part.
    """

    alpha_outlier: float = strength(0.5, "Use a large alpha_outlier, such as 1e6, to set no task apart.")

    strength_names = ("alpha_shared", "alpha_outlier")
    _second_part = "outlier_"
    _shared_norm: ClassVar[type]

    def _norms(self) -> TwoNorms:
        return TwoNorms(self._shared_norm(self.alpha_shared), ColumnNorm(self.alpha_outlier))

    def _name_parts(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        super()._name_parts(prepared, solution, penalty)
        self.outlier_tasks_ = self.tasks_[self.outlier_.any(axis=1)]

    def _counted(self) -> np.ndarray:
        # a task set apart uses every feature, which says nothing of the features, unless all tasks are
        fitted = super()._counted()
        alike = fitted & ~self.outlier_.any(axis=1)
        return alike if alike.any() else fitted


class CappedModel(TwoStrengthModel):
    """A model with the penalty alpha sum_j min(||a_j||_1, cap).

    Parameters
    ----------
    alpha : float > 0
        Strength of the penalty on features below the cap.
    cap : float > 0
        Sum of a feature's absolute coefficients over tasks from which it costs no more.

    Attributes
    ----------
    capped_ : ndarray of shape (n_features,)
        Whether a feature has passed the cap, so that its coefficients are not shrunk.
    """

    alpha: float = strength(0.1, "Use a small positive alpha, such as 1e-6, for almost no penalty.")
    cap: float = strength(
        1.0, "Use the size from which a feature counts as found, such as 1; a large one gives the lasso."
    )

    strength_names = ("alpha", "cap")

    def _solve(self, prepared: Prepared) -> tuple[Any, Any]:
        penalty = CappedRows(float(self.alpha), float(self.cap))
        return solve_capped(prepared.problem(), penalty, max_iter=self.max_iter, tol=self.tol), penalty

    def _grid(self, problem: Problem, known: KnownFeatures | None = None) -> CappedGrid:
        return CappedGrid(problem)

    def _name_parts(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        self.capped_ = penalty.past_cap(solution.A)

    def _sizes(self) -> dict[str, np.ndarray]:
        return {"size": np.abs(self.coef_).sum(axis=0)}


# -- the models --------------------------------------------------------------------------------------------


class DirtyRegressor(DirtyModel, TaskRegressor):
    r"""Dirty multitask regression: features for all tasks, and exceptions for single ones.

    Minimises over P, Q (features by tasks) and one intercept per task

    .. math:: \frac1n \sum_t \sum_i \tfrac12 (y_{ti} - x_{ti} \cdot (p_t + q_t) - b_t)^2
              + \alpha_1 \sum_j \|p_j\|_\infty + \alpha_2 \sum_{j,t} |q_{jt}|,

    where n is the mean number of rows of a task (Jalali, Ravikumar, Sanghavi and Ruan 2010). Both parts are
    used while alpha_specific < alpha_shared < n_tasks * alpha_specific; below, Q is zero and this is the
    l1,inf norm, above, P is zero and this is one lasso per task.

    Examples
    --------
    Three tasks share the first feature; the last one uses the second feature too.

    >>> import numpy as np
    >>> from mmtfl import DirtyRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(150, 4)), np.repeat(["a", "b", "c"], 50)
    >>> y = 2 * X[:, 0] + np.where(task == "c", 3.0, 0.0) * X[:, 1] + 0.1 * rng.normal(size=150)
    >>> model = DirtyRegressor(alpha_shared=0.1, alpha_specific=0.05).fit(X, y, task=task)
    >>> np.flatnonzero(model.shared_.any(axis=0)).tolist()
    [0]
    >>> np.argwhere(np.abs(model.specific_) > 0.1).tolist()          # task, feature
    [[2, 1]]
    """


class DirtyClassifier(DirtyModel, TaskClassifier):
    r"""Dirty multitask classification: features for all tasks, and exceptions for single ones.

    Minimises over P, Q (features by tasks) and one intercept per task

    .. math:: \frac1n \sum_t \sum_i \log\big(1 + e^{-y_{ti} (x_{ti} \cdot (p_t + q_t) + b_t)}\big)
              + \alpha_1 \sum_j \|p_j\|_\infty + \alpha_2 \sum_{j,t} |q_{jt}|,

    where n is the mean number of rows of a task and y is -1 or +1; see `DirtyRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import DirtyClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(200, 4)), np.repeat(["a", "b"], 100)
    >>> y = np.where(X[:, 0] + np.where(task == "b", 2.0, 0.0) * X[:, 1] > 0, "yes", "no")
    >>> model = DirtyClassifier(alpha_shared=0.1, alpha_specific=0.06).fit(X, y, task=task)
    >>> np.flatnonzero(model.shared_.any(axis=0)).tolist()
    [0]
    >>> np.flatnonzero(model.specific_[1]).tolist()                  # what task b has for itself
    [1]
    """

    alpha_shared: float = parameter(default=0.02, kw_only=False)
    alpha_specific: float = parameter(default=0.01, kw_only=False)


class RobustRegressor(OutlierModel, TaskRegressor):
    r"""Robust multitask feature learning (rMTFL): shared features, and tasks unlike the others.

    Minimises over P, Q (features by tasks) and one intercept per task

    .. math:: \frac1n \sum_t \sum_i \tfrac12 (y_{ti} - x_{ti} \cdot (p_t + q_t) - b_t)^2
              + \alpha_1 \sum_j \|p_j\|_2 + \alpha_2 \sum_t \|q_t\|_2,

    where p_j is a row of P, q_t a column of Q and n the mean number of rows of a task (Gong, Ye and Zhang
    2012). A task with a column of its own is an outlier. Both parts can be used only while
    alpha_shared / sqrt(n_tasks) < alpha_outlier < sqrt(n_features) * alpha_shared.

    Examples
    --------
    Four tasks use the first two features; the last one uses all the others instead.

    >>> import numpy as np
    >>> from mmtfl import RobustRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(250, 10)), np.repeat(list("abcde"), 50)
    >>> y = np.where(task == "e", X[:, 2:].sum(axis=1), X[:, 0] - X[:, 1]) + 0.1 * rng.normal(size=250)
    >>> model = RobustRegressor(alpha_shared=0.3, alpha_outlier=0.6).fit(X, y, task=task)
    >>> model.outlier_tasks_.tolist()
    ['e']
    >>> np.flatnonzero(model.shared_.any(axis=0)).tolist()
    [0, 1]
    """

    _shared_norm = RowNorm


class RobustClassifier(OutlierModel, TaskClassifier):
    r"""Robust multitask classification: shared features, and tasks unlike the others.

    Minimises over P, Q (features by tasks) and one intercept per task

    .. math:: \frac1n \sum_t \sum_i \log\big(1 + e^{-y_{ti} (x_{ti} \cdot (p_t + q_t) + b_t)}\big)
              + \alpha_1 \sum_j \|p_j\|_2 + \alpha_2 \sum_t \|q_t\|_2,

    where n is the mean number of rows of a task and y is -1 or +1; see `RobustRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import RobustClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(500, 10)), np.repeat(list("abcde"), 100)
    >>> y = np.where(task == "e", X[:, 2:].sum(axis=1), X[:, 0] - X[:, 1]) > 0
    >>> model = RobustClassifier(alpha_shared=0.1, alpha_outlier=0.2).fit(X, y, task=task)
    >>> model.outlier_tasks_.tolist()
    ['e']
    """

    alpha_shared: float = parameter(default=0.02, kw_only=False)
    alpha_outlier: float = parameter(default=0.1, kw_only=False)

    _shared_norm = RowNorm


class LowRankRegressor(OutlierModel, TaskRegressor):
    r"""Robust low-rank multitask regression: a few shared directions, and tasks unlike the others.

    Minimises over P, Q (features by tasks) and one intercept per task

    .. math:: \frac1n \sum_t \sum_i \tfrac12 (y_{ti} - x_{ti} \cdot (p_t + q_t) - b_t)^2
              + \alpha_1 \|P\|_* + \alpha_2 \sum_t \|q_t\|_2,

    where the trace norm sums the singular values and n is the mean number of rows of a task (Chen, Zhou and
    Ye 2011). The coefficients of the tasks that join in lie in a space of few dimensions; no feature is
    dropped. Both parts can be used only while alpha_shared / sqrt(n_tasks) < alpha_outlier < alpha_shared.

    Examples
    --------
    Five tasks are multiples of one direction; the last one has its own.

    >>> import numpy as np
    >>> from mmtfl import LowRankRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(300, 8)), np.repeat(list("abcdef"), 50)
    >>> slope = np.outer([1.0, 2.0, -1.0, 1.5, -2.0, 0.0], np.ones(8))
    >>> slope[5] = [3, -3, 3, -3, 3, -3, 3, -3]
    >>> y = np.einsum("ij,ij->i", X, np.repeat(slope, 50, axis=0)) + 0.1 * rng.normal(size=300)
    >>> model = LowRankRegressor(alpha_shared=1.0, alpha_outlier=0.8).fit(X, y, task=task)
    >>> model.outlier_tasks_.tolist(), int(np.linalg.matrix_rank(model.shared_, tol=1e-6))
    (['f'], 1)
    """

    alpha_outlier: float = parameter(default=0.08, kw_only=False)

    _shared_norm = TraceNorm


class LowRankClassifier(OutlierModel, TaskClassifier):
    r"""Robust low-rank multitask classification: a few shared directions, and tasks unlike the others.

    Minimises over P, Q (features by tasks) and one intercept per task

    .. math:: \frac1n \sum_t \sum_i \log\big(1 + e^{-y_{ti} (x_{ti} \cdot (p_t + q_t) + b_t)}\big)
              + \alpha_1 \|P\|_* + \alpha_2 \sum_t \|q_t\|_2,

    where n is the mean number of rows of a task and y is -1 or +1; see `LowRankRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import LowRankClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(400, 8)), np.repeat(list("abcd"), 100)
    >>> sign = np.repeat([1.0, -1.0, 1.0, -1.0], 100)
    >>> y = sign * X.sum(axis=1) > 0
    >>> model = LowRankClassifier(alpha_shared=0.2, alpha_outlier=0.16).fit(X, y, task=task)
    >>> int(np.linalg.matrix_rank(model.shared_, tol=1e-6))
    1
    """

    alpha_shared: float = parameter(default=0.02, kw_only=False)
    alpha_outlier: float = parameter(default=0.016, kw_only=False)

    _shared_norm = TraceNorm


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

    Parameters
    ----------
    cap : float > 0
        Sum of a feature's absolute coefficients over tasks from which it costs no more. Without a penalty
        classes that features separate have no finite coefficients: prefer a large cap.

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

    alpha: float = parameter(default=0.02, kw_only=False)
    cap: float = parameter(default=5.0, kw_only=False)
