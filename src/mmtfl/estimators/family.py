"""The family of the paper: coefficients A = diag(c) B, with a penalty on each of the two parts."""

import math
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.inputs import feature_constraints
from mmtfl.estimators.new_task import with_new_task
from mmtfl.estimators.parameters import FamilyParameters, parameter, strength
from mmtfl.estimators.prepared import Prepared, StoredPrepared
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.penalties import RowPenalty, make_penalty
from mmtfl.objective.row_sizes import task_part
from mmtfl.persistence.content_hash import fingerprint
from mmtfl.solvers import solve
from mmtfl.solvers.checkpoint import Checkpoint, FitCheckpoint
from mmtfl.solvers.placed import OpenTasks
from mmtfl.solvers.solve import Reporter
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.scaling import task_factors, with_task_factors
from mmtfl.tasks.stored import StoredTasks


class ProductForm(TaskModel):
    """A model whose coefficients are diag(c) B.

    Attributes
    ----------
    c_ : ndarray of shape (n_features,)
        What the tasks share: zero for a feature that no task uses, equal for features of a group, 1 for
        those that are never penalised.
    B_ : ndarray of shape (n_features, n_tasks)
        What is each task's own: ``coef_.T == c_[:, None] * B_``.
    common_ : ndarray of shape (n_features,)
        What the tasks' coefficients scatter about, on the original scale; zeros without ``pooling``. With
        ``scale_targets`` every task has a unit of its own, and this is in the mean of these units.
    common_intercept_ : float
        Only with a common part: the intercept with which ``common_`` is right in the mean of all rows. They
        predict tasks that were never seen, with ``unknown_task="common"``.
    mean_size_ : float
        n of the loss: the mean over tasks of the sum of their rows' weights.
    penalty_weight_ : ndarray of shape (n_features,)
        Only if something was said of the features: the weight of every coefficient in the penalty.
    positive_ : ndarray of bool of shape (n_features,)
        Only with ``penalty_weight_``: features whose coefficients are not negative.
    feature_group_ : ndarray of shape (n_features,), or None
        Only with ``penalty_weight_``: features with the same number are one group; None without groups.
    added_tasks_ : ndarray of shape (n_added,)
        Only after `add_task`: labels of the tasks that were added to the fitted ones.
    """

    @property
    def B_(self) -> np.ndarray:
        """What is each task's own, (n_features, n_tasks), computed from ``coef_`` and ``c_``."""
        return task_part(np.ascontiguousarray(self.coef_.T), self.c_)

    def add_task(
        self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> Self:
        """Add a task with a few rows, without fitting the others again.

        What is shared is held: the new task's coefficients are penalised by how far they are from
        ``common_`` (from zero without ``pooling``), each in units of ``c_``, with the strength of the fit;
        features that no fitted task uses stay unused. The intercept is drawn to the mean of the fitted
        tasks' intercepts as strongly as these, and the noise, suggest: by a row's weight times (variance of
        the noise) / (variance of the intercepts), which many rows outweigh.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows of the new task, with the columns of `fit`; with ``task_column`` that column too.
        y : array-like of shape (n_rows,)
            Their targets.
        task : str or int
            The new task's label; None takes it from ``task_column``.
        sample_weight : float or array-like of shape (n_rows,), optional
            Weights of the rows, as in `fit`.
        offset : array-like of shape (n_rows,), optional
            Known part of the linear predictor, as in `fit`.

        Returns
        -------
        model : estimator
            A copy with one more task, the last. All that was learned of the others has the same bits.
            ``heldout_scores_`` has NaN for the new task, and ``path_`` no coefficients.

        Examples
        --------
        >>> import numpy as np
        >>> from mmtfl import MMTFLRegressor
        >>> rng = np.random.default_rng(0)
        >>> X, task = rng.normal(size=(70, 3)), np.repeat(["a", "b", "c", "d"], [20, 20, 20, 10])
        >>> y = X @ [2.0, -1.0, 0.0] + 0.1 * rng.normal(size=70)
        >>> model = MMTFLRegressor(p=2, k=1, alpha=0.01, pooling=0.9).fit(X[:60], y[:60], task=task[:60])
        >>> more = model.add_task(X[60:], y[60:], task="d")
        >>> more.tasks_.tolist(), more.coef_[-1].round(1).tolist()
        (['a', 'b', 'c', 'd'], [2.0, -1.0, 0.0])
        """
        check_is_fitted(self)
        return with_new_task(self, X, y, task, sample_weight, offset)

    def _fitted_penalty(self) -> RowPenalty:
        """Return the penalty that the coefficients minimise."""
        learned = {"p": "best_p_", "k": "best_k_", "alpha": "alpha_", "pooling": "best_pooling_"}
        numbers: dict[str, Any] = {
            name: getattr(self, found, getattr(self, name, 0.0)) for name, found in learned.items()
        }
        known = None
        if "penalty_weight_" in vars(self):  # in the tasks that were fitted together
            fitted = ~np.isin(self.tasks_, getattr(self, "added_tasks_", self.tasks_[:0]))
            weight = np.repeat(self.penalty_weight_[:, None], int(fitted.sum()), axis=1)
            known = KnownFeatures(weight, self.positive_, self.feature_group_)
        return make_penalty(**numbers, eps=self.eps, known=known)

    def _solve_again(self, prepared: Prepared, penalty: Any, last: Any) -> Any:
        return solve(prepared.problem(), penalty, start=last.A, **self._solver_options())

    def _solver_options(self) -> dict[str, Any]:
        """Return the options that the solver takes as they are."""
        names = ("solver", "max_iter", "tol", "engine", "n_jobs")
        options = {name: getattr(self, name) for name in names}
        return {**options, "report": Reporter(type(self).__name__) if self.verbose else None}

    def _open_checkpoint(self, prepared: Prepared, *others: Any) -> Checkpoint | None:
        """Open the checkpoint file of this fit of these data, if the parameters name one."""
        if self.checkpoint is None:
            return None
        # where the work is done, and what is told of it, do not change the answer
        aside = ("checkpoint", "n_jobs", "verbose", "unknown_task", "engine", "warm_start", "cv")
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in aside}
        elsewhere = self.engine is not None and not self.engine.is_here
        if self.solver == "auto" and (elsewhere or not isinstance(prepared.tasks, Tasks)):
            params["solver"] = "alternating"
        data = prepared.tasks, prepared.column_scale, prepared.target_scale, prepared.start
        return Checkpoint(self.checkpoint, fingerprint(type(self).__name__, params, *data, *others))

    def _name_parts(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        used = np.flatnonzero(penalty.whole(solution.A.any(axis=1)))
        rows, common = penalty.of_rows(used), np.zeros(len(solution.A))
        common[used] = rows.common_part(solution.A[used])
        self.common_ = prepared.common_to_original(common)
        c = rows.shared_part(solution.A[used])
        self.c_ = np.zeros(len(solution.A))
        self.c_[used] = np.where(c == 0.0, 1.0, c)  # what is free of penalty has no c
        if prepared.known is not None:
            self.penalty_weight_ = prepared.known.scale[:, 0].copy()
            self.positive_, self.feature_group_ = prepared.known.positive, prepared.known.groups
        self.mean_size_ = float(prepared.task_weights.mean())
        if penalty.is_centred and "levels_" in vars(self):
            at_reference = self.levels_["common"][0] - self.levels_["reference"] @ self.common_
            self.common_intercept_ = float(at_reference)
        elif penalty.is_centred:
            beyond = prepared.task_means(self.coef_.T - self.common_[:, None]) + self.intercept_
            self.common_intercept_ = float(np.average(beyond, weights=prepared.task_weights))

    def _sizes(self) -> dict[str, np.ndarray]:
        return {"c": self.c_}

    def _common_columns(self) -> dict[str, np.ndarray]:
        if "common_intercept_" not in vars(self):
            return {}
        beside = self.coef_[self._counted()] - self.common_
        return {"common": self.common_, "scatter": np.sqrt(np.mean(beside**2, axis=0))}


class FamilyMember(FamilyParameters, ProductForm):
    """The member (p, k) with the strength alpha.

    Parameters
    ----------
    p : float >= 1 or inf
        Norm within a row of task parts: 2 shares a feature among all tasks, 1 lets each task choose.
    k : float > 0, inf or "log"
        Power of the shared part c: the smaller, the fewer features are kept. The model is convex where 1/p +
        1/k <= 1. ``inf`` gives one model per task (the lasso for p = 1, ridge for p = 2), "log" the limit at
        k = 0.
    alpha : float > 0
        Strength of the penalty.
    pooling : float in [0, 1)
        How freely the tasks share values, for p = 1 and p = 2: a row of coefficients scatters about a common
        part, ``common_``, which costs less the larger this number is. 0 has no common part and is the
        paper's family; towards 1 the common part is free. At p = 1 nothing is common up to 0.5.
    warm_start : bool
        Whether `fit` starts from the coefficients of the last `fit`, if tasks and features are the same.
    """

    p: float = parameter(
        Interval(Real, 1, math.inf, closed="both"),
        default=2,
        remedy="Use p=1 for few tasks per feature, p=2 for all tasks alike, or float('inf') for l1,inf with "
        "k=1.",
        kw_only=False,
    )
    k: float | str = parameter(
        Interval(Real, 0, math.inf, closed="right"),
        StrOptions({"log"}),
        default=1,
        remedy="Use k=1 or k=2, float('inf') for one model per task, or 'log' for the limit at k = 0.",
        kw_only=False,
    )
    alpha: float = strength(1.0, "Use a small positive alpha, such as 1e-6, for almost no penalty.")
    pooling: float = parameter(
        Interval(Real, 0, 1, closed="left"),
        default=0.0,
        remedy="Use 0 for no common part, or 0.5, 0.9 or 0.98 for tasks that agree more and more.",
    )
    warm_start: bool = parameter("boolean", default=False)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        try:
            self._penalty(None)
        except ValueError as error:  # what p, k and pooling must be together
            raise InvalidParameterError(str(error)) from None

    def _prepare_stored(self, stored: StoredTasks) -> Prepared:
        """Leave stored tasks in their files for Algorithm 1, which works on some of them at a time."""
        by_rows = (
            np.isinf(self.p)
            or (self.p == 1.0 and self.pooling > 0.5)
            or feature_constraints(self) is not None
        )
        if self.solver == "block" or by_rows or self._wants_curves():
            return super()._prepare_stored(stored)
        encoded = self._encode_stored(stored, stays=True)
        encoded = with_task_factors(encoded, task_factors(encoded, self.task_weight))
        opened = OpenTasks(encoded, self._loss, fit_intercept=self.fit_intercept, engine=self.engine)
        return StoredPrepared.of(self, opened)

    def _penalty(self, known: KnownFeatures | None) -> RowPenalty:
        return make_penalty(self.p, self.k, self.alpha, eps=self.eps, pooling=self.pooling, known=known)

    def _solve(self, prepared: Prepared) -> tuple[Any, Any]:
        penalty = self._penalty(prepared.known)
        kept = self._open_checkpoint(prepared, penalty)
        checkpoint = None if kept is None else FitCheckpoint(kept)
        problem = prepared.problem()
        return solve(
            problem, penalty, start=prepared.start, checkpoint=checkpoint, **self._solver_options()
        ), penalty
