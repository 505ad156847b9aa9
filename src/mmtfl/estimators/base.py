"""What the estimators share: from rows and labels to `Tasks`, from a `Solution` to coefficients."""

from __future__ import annotations

import sys
import warnings
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from mmtfl.estimators.base_rates import BaseRates
from mmtfl.estimators.cautions import cautions
from mmtfl.estimators.declaration import check_parameters
from mmtfl.estimators.inputs import (
    check_targets,
    column_names,
    first_few,
    frame_backend,
    is_frame,
    locate_tasks,
    make_frame,
    matrix_values,
    n_dimensions,
    read_weights,
    single_column,
    stack_observed,
    take_task_column,
)
from mmtfl.estimators.notebook import ShowsSharing
from mmtfl.estimators.parameters import CommonParameters, WarmStart
from mmtfl.estimators.prediction import predict_all, predict_rows
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.saving import Savable
from mmtfl.estimators.stored_input import check_nothing_else, load_tasks
from mmtfl.estimators.usage import feature_use
from mmtfl.model_selection.metrics import Metric, mean_task_score
from mmtfl.objective.losses import Loss
from mmtfl.tasks.checks import check_design, check_finite_design, check_task_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.converters import group_checked_rows, observe_checked_rows
from mmtfl.tasks.stored import StoredTasks

__all__ = ["TaskModel", "WarmModel"]


class TaskModel(CommonParameters, Savable, ShowsSharing, BaseEstimator):
    """A linear model per task, learned together.

    A kind of model says how it gets from data to a solution (`_solve`), and what its coefficients are made of
    (`_name_parts`, `_sizes`). A kind of target says which loss it has (`_loss`), and how targets are read
    (`_read_targets`, `_encode_targets`).

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
        Coefficients of each task, on the original scale.
    intercept_ : ndarray of shape (n_tasks,)
        Intercept of each task.
    tasks_ : ndarray of shape (n_tasks,)
        Task labels, in the order of the rows of ``coef_``.
    objective_ : float
        Value of the objective, in the units the penalty sees.
    violation_ : float
        Distance to stationarity, relative to the largest gradient at zero.
    dual_gap_ : float or None
        Bound on how far ``objective_`` is from its minimum; None where the model is not convex.
    n_iter_ : int
        Passes over the data.
    history_ : ndarray
        Objective after each pass.
    converged_ : bool
        Whether the fit came below ``tol``.
    column_scale_ : ndarray of shape (n_features,), or None
        What the columns of X were divided by before the penalty saw them.
    target_scale_ : ndarray of shape (n_tasks,), or None
        What each task's targets were divided by before the penalty saw them.
    task_sizes_ : ndarray of shape (n_tasks,)
        Number of observations of each task.
    feature_spread_ : ndarray of shape (n_features,)
        Standard deviation over all rows of each feature that some task uses, 0 for the others.
    usable_ : ndarray of bool, shape (n_tasks, n_features), or None
        Whether a task could use a feature: not where it is constant within the task's rows. None if all
        could.
    n_features_in_ : int
        Number of features, the task column not counted.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X was a frame with names.
    """

    # metadata routing: labels go wherever rows go, without set_*_request
    __metadata_request__fit: ClassVar = {"task": True}
    __metadata_request__predict: ClassVar = {"task": True}
    __metadata_request__score: ClassVar = {"task": True}

    _metric: ClassVar[str]

    @property
    def _loss(self) -> Loss:
        """The loss that the parameters ask for."""
        raise TypeError("a kind of target says which loss it has")

    def fit(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None):
        """Fit all tasks together.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows of all tasks; a frame may hold the labels too, see ``task_column``. Or what
            ``Tasks.from_parquet`` or ``Tasks.from_dask`` gives, and nothing else.
        y : array-like of shape (n_rows,) or (n_rows, n_tasks)
            Targets. With two dimensions each column is a task on the same rows, NaN where it was
            not observed.
        task : array-like of shape (n_rows,), optional
            Task label of each row, strings or integers. None: one task, or one per column of y.
        sample_weight : float or array-like of shape (n_rows,), optional
            Weights: 2 counts as a repeated row, 0 as an absent one.

        Returns
        -------
        self : estimator
            Fitted.
        """
        self._check_parameters()
        prepared = self._prepare(X, y, task, sample_weight)
        solution, penalty = self._solve(prepared)
        self._learn(prepared, solution, penalty)
        return self

    # -- the steps of fit ------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _prepare(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Prepared:
        if isinstance(X, StoredTasks):
            check_nothing_else(y, task, sample_weight, self.task_column)
            self._know_columns_of(X)
            return self._prepare_stored(X)
        return Prepared.of(self, *self._leave_out(self._read_tasks(X, y, task, sample_weight)))

    def _prepare_stored(self, stored: StoredTasks) -> Prepared:
        """All stored rows in memory, unless a kind of model works on some tasks at a time."""
        tasks = self._load_targets(stored)
        check_targets(tasks, self._loss)
        return Prepared.of(self, *self._leave_out(tasks))

    def _know_columns_of(self, stored: StoredTasks) -> None:
        self.n_features_in_ = stored.n_features
        self.feature_names_in_ = np.array(stored.feature_names, dtype=object)
        self._predicts_matrix = False
        self._backend: str | None = None

    def _encode_stored(self, stored: StoredTasks) -> StoredTasks:
        """Stored targets as the loss wants them."""
        return stored

    def _load_targets(self, stored: StoredTasks) -> Tasks:
        """All stored rows in memory, with targets as the loss wants them."""
        return load_tasks(stored, type(self).__name__)

    def _read_tasks(self, X: Any, y: Any, task: Any, sample_weight: Any) -> Tasks:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: pass one target "
                "per row of X."
            )
        backend = frame_backend(X)
        X, labels, name = take_task_column(X, task, self.task_column)
        X, feature_names = self._read_design(X, reset=True)
        n_rows = X.shape[0]
        sample_weight = read_weights(sample_weight, n_rows)
        is_matrix = n_dimensions(y) == 2
        if labels is not None:
            labels = check_task_labels(labels, n_rows, name=name)
            if is_matrix:
                y, is_matrix = single_column(y), False
        columns = column_names(y)
        y, names = self._read_targets(y, labels, n_rows)
        if is_matrix:
            tasks = Tasks(*observe_checked_rows(X, y, sample_weight, columns, feature_names))
        else:
            tasks = Tasks(*group_checked_rows(X, y, labels, sample_weight, feature_names))
        self._predicts_matrix, self._backend = is_matrix, backend
        tasks = self._encode_targets(tasks, names)
        check_targets(tasks, self._loss)
        return tasks

    def _read_design(self, X: Any, *, reset: bool) -> tuple[Any, tuple[str, ...] | None]:
        named = is_frame(X)
        if named and not reset:  # columns that do not belong are told by name, before their type matters
            validate_data(self, X, reset=False, skip_check_array=True)
        design, feature_names = check_design(X)
        if reset or not named:
            validate_data(self, X if named else design, reset=reset, skip_check_array=True)
        return design, feature_names

    def _read_targets(self, y: Any, labels: np.ndarray | None, n_rows: int) -> tuple[Any, np.ndarray | None]:
        """Targets as numbers (NaN kept), and what the numbers stand for."""
        return y, None

    def _encode_targets(self, tasks: Tasks, names: np.ndarray | None) -> Tasks:
        """Targets as the loss wants them."""
        return tasks

    def _leave_out(self, tasks: Tasks) -> tuple[Tasks, BaseRates | None]:
        """The tasks that are fitted, and what predicts the others."""
        return tasks, None

    def _warm_start(
        self, tasks: Tasks, column_scale: np.ndarray | None, target_scale: np.ndarray | None
    ) -> np.ndarray | None:
        """Coefficients to begin from, in the units of this fit."""
        return None

    def _solve(self, prepared: Prepared) -> tuple[Any, Any]:
        """From prepared data to a `Solution` and the penalty it minimises."""
        raise TypeError("a kind of model says how it is solved")

    def _learn(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        A = prepared.to_original(solution.A)
        scale = 1.0 if prepared.target_scale is None else prepared.target_scale
        self.coef_ = np.ascontiguousarray(A.T)
        self.intercept_ = solution.intercept * scale
        self.tasks_ = prepared.tasks.labels
        self._name_parts(prepared, solution, penalty)
        self.objective_, self.violation_ = solution.objective, solution.violation
        self.dual_gap_, self.history_ = solution.dual_gap, solution.history
        self.n_iter_ = max(int(solution.n_iter), 1)  # finding zero optimal takes a pass too
        self.converged_ = bool(solution.converged)
        self.column_scale_, self.target_scale_ = prepared.column_scale, prepared.target_scale
        self.task_sizes_ = prepared.sizes
        self._look_at_features(prepared)
        found = list(cautions(self, prepared))
        if prepared.left_out is not None:
            prepared.left_out.add_to(self)
        if self.verbose:
            print(
                f"[{type(self).__name__}] {solution.solver}: {self.n_iter_} passes, objective "
                f"{self.objective_:.6g}, violation {self.violation_:.2e}, "
                f"{np.count_nonzero(self.coef_.any(axis=0))} of {len(A)} features kept",
                file=sys.stderr,
            )
        if not solution.converged:
            self._warn_not_converged()
        for caution in found:
            warnings.warn(caution, stacklevel=3)

    def _look_at_features(self, prepared: Prepared) -> None:
        """Which tasks could use which features, and how far the features in use spread."""
        usable = prepared.could_use(fit_intercept=self.fit_intercept)
        self.usable_ = None if usable.all() else usable
        used = np.flatnonzero(self.coef_.any(axis=0))
        self.feature_spread_ = np.zeros(self.coef_.shape[1])
        self.feature_spread_[used] = prepared.spread(used)

    def _name_parts(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        """Learn what the coefficients are made of."""
        raise TypeError("a kind of model says what its coefficients are made of")

    def _warn_not_converged(self) -> None:
        gap = "" if self.dual_gap_ is None else f" and a dual gap of {self.dual_gap_:.2e}"
        warnings.warn(
            f"{type(self).__name__} stopped after {self.n_iter_} passes at a violation of "
            f"{self.violation_:.2e}{gap}, short of tol={self.tol:g}. Raise max_iter (now {self.max_iter}), "
            "loosen tol, or put the features on one scale with standardize=True.",
            ConvergenceWarning,
            stacklevel=4,
        )

    # -- prediction ------------------------------------------------------------------------------------------

    def _linear_predictor(self, X: Any, task: Any = None) -> np.ndarray:
        """Linear predictor: (n_rows,), or (n_rows, n_tasks) after a 2-D y and without labels."""
        return self._predict_at(*self._locate(X, task)[:2])

    def _locate(self, X: Any, task: Any) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
        """Rows as an array, the position of each one's task (None: all tasks), and its label."""
        check_is_fitted(self)
        X, task = self._encoded(X, task)
        X, labels, name = take_task_column(X, task, self.task_column)
        X, feature_names = self._read_design(X, reset=False)
        observation_task = None
        if labels is not None:
            labels = check_task_labels(labels, X.shape[0], name=name)
            observation_task = locate_tasks(labels, self.tasks_, unknown=self.unknown_task)
        elif not self._predicts_matrix:
            observation_task = self._only_task(X.shape[0])
        names = feature_names or getattr(self, "feature_names_in_", None)
        # an unknown task has no label
        known = observation_task is not None and (observation_task < len(self.tasks_)).all()
        who = {"observation_task": observation_task if known else None, "labels": self.tasks_}
        check_finite_design(X, **who, feature_names=names)
        return X, observation_task, labels

    def _encoded(self, X: Any, task: Any) -> tuple[Any, Any]:
        """A table as it was before the fit, by the recipe that a model of the command line keeps."""
        recipe = vars(self).get("recipe_")
        if recipe is None or task is not None or self.task_column is not None or not is_frame(X):
            return X, task
        if nw.from_native(X, eager_only=True).columns == self._feature_names():
            return X, task  # encoded already
        return recipe.rows(X, used=self._features_in_use())

    def _features_in_use(self) -> set[str]:
        """Names of the features that some task uses."""
        names = self._feature_names()
        return {names[j] for j in np.flatnonzero(self.coef_.any(axis=0))}

    def _only_task(self, n_rows: int) -> np.ndarray:
        if len(self.tasks_) > 1:
            raise ValueError(
                f"The model has {len(self.tasks_)} tasks ({first_few(self.tasks_)}), so each row needs a "
                "label: pass task=, or name a column of the frame with task_column. Inside scikit-learn's "
                "tools, labels are routed after sklearn.set_config(enable_metadata_routing=True)."
            )
        return np.zeros(n_rows, dtype=np.intp)

    def _predict_at(self, X: Any, observation_task: np.ndarray | None) -> np.ndarray:
        if observation_task is None:
            return predict_all(X, self.coef_, self.intercept_)
        if len(self.tasks_) == 1:  # the mean over one task is that task
            return predict_all(X, self.coef_, self.intercept_)[:, 0]
        coef, intercept = self.coef_, self.intercept_
        if (observation_task == len(self.tasks_)).any():
            fitted = self._has_part()
            coef = np.vstack([coef, coef[fitted].mean(axis=0)])
            intercept = np.append(intercept, intercept[fitted].mean())
        return predict_rows(X, coef, intercept, observation_task)

    def _mean_score(self, y: Any, y_pred: np.ndarray, labels: np.ndarray | None, weights: Any) -> float:
        if n_dimensions(y) == 2:
            y = matrix_values(y) if labels is None else single_column(y)
        if weights is None:
            return mean_task_score(y, y_pred, labels, self._metric)
        y, y_pred, labels, weights = stack_observed(y, y_pred, labels, weights)

        def weighted(_: np.ndarray, rows: np.ndarray) -> float:
            return self._weighted_metric(y[rows], y_pred[rows], weights[rows])

        # the rows of a task stand for its predictions, so that their weights come along
        return mean_task_score(y, np.arange(len(y)), labels, Metric(self._metric, weighted))

    @staticmethod
    def _weighted_metric(y: np.ndarray, y_pred: np.ndarray, weights: np.ndarray) -> float:
        raise TypeError("a kind of model says how it scores with weights")

    # -- a look at it ----------------------------------------------------------------------------------------

    def summary(self) -> Any:
        """Tell which features are used by all tasks, by some, by one or by none, and which way.

        A task could use a feature if the feature varies within its rows. With p > 1 a kept feature is used by
        every task that could use it by construction: the table says which features the model keeps, not in
        which tasks they matter.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            One row per feature, largest ``c`` first:

            - feature, c;
            - n_tasks: how many tasks use it;
            - kind: "shared" (used by all tasks that could use it), "partial" (by at least two, but not all),
              "single" (by one) or "none";
            - mean_coef, min_coef, max_coef: mean, smallest and largest coefficient over the tasks that could
              use it, in the units of the data;
            - mean_coef_per_sd: the mean for one standard deviation of the feature over all rows;
            - n_possible: how many tasks could use it;
            - supported, frequency: with ``stability``, in which tasks the data support the feature ("all",
              "some", "one", "none" or "undecided"), and the share of the half samples that keep it.
        """
        check_is_fitted(self)
        sizes, use = self._sizes(), feature_use(self)
        order = np.argsort(-next(iter(sizes.values())), kind="stable")
        names = self._feature_names()
        per_sd = np.full(len(order), np.nan) if use.per_sd is None else use.per_sd.mean
        columns = {
            "feature": [names[j] for j in order],
            **{name: size[order] for name, size in sizes.items()},
            "n_tasks": use.n_tasks[order],
            "kind": use.kind[order].tolist(),
            "mean_coef": use.coef.mean[order],
            "min_coef": use.coef.low[order],
            "max_coef": use.coef.high[order],
            "mean_coef_per_sd": per_sd[order],
            "n_possible": use.n_possible[order],
        }
        found = getattr(self, "stability_", None)
        if found is not None:
            columns["supported"] = found.supported_[order].tolist()
            columns["frequency"] = found.feature_frequency_[order]
        return make_frame(columns, self._backend)

    def _sizes(self) -> dict[str, np.ndarray]:
        """Columns of the summary that say how large a feature is; the first one orders it."""
        raise TypeError("a kind of model says how large a feature is")

    def _counted(self) -> np.ndarray:
        """Which tasks count when it is told how many use a feature, (n_tasks,)."""
        return self._has_part()

    def _has_part(self) -> np.ndarray:
        """Which tasks have a part in the fit: all but those that are predicted by their base rate."""
        left_out = getattr(self, "base_rate_tasks_", self.tasks_[:0])
        return ~np.isin(self.tasks_, left_out)

    def _feature_spread(self) -> np.ndarray | None:
        """Standard deviation of each feature that is used; models of earlier versions may not know it."""
        known = getattr(self, "feature_spread_", None)
        return getattr(self, "column_scale_", None) if known is None else known

    def _feature_names(self) -> list[str]:
        """Names of the columns of X, or x0, x1, ... where it had none."""
        names = getattr(self, "feature_names_in_", None)
        return (
            [f"x{j}" for j in range(self.n_features_in_)] if names is None else [str(name) for name in names]
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


class WarmModel(WarmStart, TaskModel):
    """A model that can start from its last coefficients."""

    def _warm_start(
        self, tasks: Tasks, column_scale: np.ndarray | None, target_scale: np.ndarray | None
    ) -> np.ndarray | None:
        """The last coefficients in the units of this fit, if they are of the same tasks and features."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        if self.coef_.shape != (tasks.n_tasks, tasks.n_features) or not np.array_equal(
            self.tasks_, tasks.labels
        ):
            return None
        A = self.coef_.T if column_scale is None else self.coef_.T * column_scale[:, None]
        return np.array(A if target_scale is None else A / target_scale)
