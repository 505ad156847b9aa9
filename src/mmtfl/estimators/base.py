"""`TaskModel`, the base class of the estimators: reads the data, learns from a `Solution`, and predicts."""

from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from mmtfl.estimators import inputs
from mmtfl.estimators.feature_use import Results
from mmtfl.estimators.fit_warnings import warn_of_fit, warn_of_one_value
from mmtfl.estimators.fitted_curves import split_curves
from mmtfl.estimators.parameters import CommonParameters
from mmtfl.estimators.prediction import averaged_over_levels, predict
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.shrunk_levels import HasLevels
from mmtfl.inference.learn_effects import learn_effects
from mmtfl.model_selection.metrics import mean_task_score
from mmtfl.objective.losses import Loss
from mmtfl.objective.losses.by_rows import TaskLoss, check_targets, with_known_in_targets
from mmtfl.solvers.placed import check_room
from mmtfl.tables.agreement import Agreement
from mmtfl.tables.encoder import TableEncoder
from mmtfl.tasks.checks import check_design, check_task_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.converters import check_offset, fill_absent, group_checked_rows, observe_checked_rows
from mmtfl.tasks.frames import frame_backend, is_frame
from mmtfl.tasks.scaling import check_task_weight
from mmtfl.tasks.stored import StoredTasks
from mmtfl.tasks.summaries import SummarisedTasks
from mmtfl.wording import abbreviate

_OF_TABLES = ("encoder_", "columns_", "agreement_", "fold_models_")


class TaskModel(CommonParameters, HasLevels, Results, BaseEstimator):
    """A linear model per task, learned together.

    A kind of model defines how it is solved (`_solve`), what its coefficients are made of (`_name_parts`) and
    how large a feature is (`_sizes`). A kind of target defines its loss (`_loss`), and how targets are read
    (`_read_targets`, `_encode_targets`, `_encode_stored`).

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
        Coefficients of each task, on the original scale.
    intercept_ : ndarray of shape (n_tasks,)
        Intercept of each task.
    tasks_ : ndarray of shape (n_tasks,)
        Task labels, in the order of the rows of ``coef_``.
    objective_ : float
        Value of the objective at these coefficients and intercepts, in the units the penalty sees. With
        shrunk levels it is a little above the last value of ``history_``, which is that of free levels.
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
    curves_ : Curves or None
        Knots and coefficients of curves beside the lines of ``coef_``; None without ``curves``.
    feature_range_ : ndarray of shape (3, n_features), or None
        Smallest value, mean and largest value of every feature over all rows; of summaries of sites two
        standard deviations below and above the mean; None for stored tasks.
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
    absent_ : ndarray of bool, shape (n_tasks, n_features)
        Only if there are any: features that a task does not have, see ``absent_features``.
    effects_ : dict of ndarrays
        Only with ``effects=True``: what `effects` and `task_effects` are made of, for the features at the
        positions ``features``: effect and error (n_tasks, n_features), degrees of freedom of the errors
        (n_tasks,), and of each feature its standard deviation and quartiles, the joint test of its column,
        and the features that explain it.
    n_features_in_ : int
        Number of features, the task column not counted.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X was a frame with names; of categories those of their indicators.
    encoder_ : TableEncoder
        Only with ``categorical_features``, and in models of the command line: how raw tables become features.
    columns_ : list of str
        Only with ``encoder_``: the column of the table that each feature comes from.
    agreement_ : dict
        Only after a fit to summaries of sites: what the sites agreed on.
    """

    # metadata routing: labels go wherever rows go, without set_*_request
    __metadata_request__fit: ClassVar = {"task": True, "offset": True}
    __metadata_request__predict: ClassVar = {"task": True, "offset": True}
    __metadata_request__score: ClassVar = {"task": True, "offset": True}

    _metric: ClassVar[str]

    @property
    def _loss(self) -> TaskLoss:
        """The loss that the parameters ask for."""
        raise TypeError("a kind of target says which loss it has")

    def fit(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None, offset: Any = None):
        """Fit all tasks together.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows of all tasks; a frame may hold the labels too, see ``task_column``. Or what
            ``Tasks.from_parquet``, ``from_dask`` or ``from_summaries`` gives, and nothing else.
        y : array-like of shape (n_rows,) or (n_rows, n_tasks)
            Targets. With two dimensions each column is a task on the same rows, NaN where it was
            not observed.
        task : array-like of shape (n_rows,), optional
            Task label of each row, strings or integers. None: one task, or one per column of y.
        sample_weight : float or array-like of shape (n_rows,), optional
            Weights: 2 counts as a repeated row, 0 as an absent one.
        offset : array-like of shape (n_rows,) or (n_rows, n_tasks), optional
            Known part of each row's linear predictor, which has no coefficient: for Poisson rates the
            logarithm of the exposure.

        Returns
        -------
        self : estimator
            Fitted.
        """
        self._check_parameters()
        prepared = self._with_prior(self._prepare(X, y, task, sample_weight, offset))
        self._finish_fit(prepared, *self._solve(prepared))
        return self

    # -- the steps of fit ------------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any = None) -> Prepared:
        """Read what was passed to `fit`, and scale it as the parameters ask."""
        if isinstance(X, StoredTasks | SummarisedTasks):
            inputs.check_nothing_else(y, task, sample_weight, offset, self.task_column)
            if isinstance(X, SummarisedTasks):
                inputs.check_moments_suffice(self, X)
            self._forget(*_OF_TABLES)
            self.n_features_in_ = X.n_features
            self.feature_names_in_ = np.array(X.feature_names, dtype=object)
            self._predicts_matrix = False
            self._backend: str | None = None
            check_task_weight(self.task_weight, X.labels)
            return self._prepare_stored(X) if isinstance(X, StoredTasks) else self._prepare_summarised(X)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: pass one target "
                "per row of X."
            )
        return Prepared.of(self, self._read_tasks(X, y, task, sample_weight, offset))

    def _prepare_stored(self, stored: StoredTasks) -> Prepared:
        """Load all stored rows into memory; a kind of model may read some tasks at a time instead."""
        stored = self._encode_stored(stored, stays=False)
        needed = float(stored.bytes_held(compress=False).sum())
        check_room(stored, needed, f"{type(self).__name__}, which needs all rows in memory,", inputs.REMEDY)
        tasks, names = stored.load(), None
        if stored.classes is not None:
            tasks, names = tasks.with_y((tasks.y > 0).astype(float)), np.array(stored.classes)
        return Prepared.of(self, self._encode_targets(tasks, names))

    def _prepare_summarised(self, summarised: SummarisedTasks) -> Prepared:
        """Few rows with the moments of those that stay at their sites."""
        self.agreement_ = summarised.agreement
        if "format" in summarised.agreement:  # else the features are numbers, and have no other coding
            self.encoder_ = Agreement.from_dict(summarised.agreement).encoder()
            self.columns_ = self.encoder_.columns_
        return Prepared.of(self, self._encode_targets(summarised.tasks(), None), summarised)

    def _read_tasks(self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any) -> Tasks:
        """Return the tasks to fit."""
        X, labels, name = inputs.take_task_column(X, task, self.task_column)
        X, feature_names = self._read_design(X, labels, reset=True)
        n_rows = X.shape[0]
        if sample_weight is not None:
            sample_weight = inputs.read_weights(sample_weight, n_rows)
        is_matrix = inputs.n_dimensions(y) == 2
        if labels is not None:
            labels = check_task_labels(labels, n_rows, name=name)
            if is_matrix:
                y, is_matrix = inputs.single_column(y), False
        read: Any = observe_checked_rows if is_matrix else group_checked_rows
        of_tasks = inputs.column_names(y) if is_matrix else labels
        y, names = self._read_targets(y, labels, n_rows)
        tasks = Tasks(*read(X, y, of_tasks, sample_weight, feature_names, self.absent_features, offset))
        self._predicts_matrix = is_matrix
        check_task_weight(self.task_weight, tasks.labels)
        return self._encode_targets(tasks, names)

    def _read_design(self, X: Any, labels: Any = None, *, reset: bool) -> tuple[Any, tuple[str, ...] | None]:
        """Return X as an array with its names; ``reset`` for those of `fit`, which are kept."""
        X, named = self._as_features(X, labels, reset=reset), is_frame(X)
        if named and not reset:  # columns that do not belong are told by name, before their type matters
            validate_data(self, X, reset=False, skip_check_array=True)
        design, feature_names = check_design(X)
        if reset or not named:
            validate_data(self, X if named else design, reset=reset, skip_check_array=True)
        if reset:
            self._backend = frame_backend(X) if named else None
        return design, feature_names

    def _as_features(self, X: Any, labels: Any, *, reset: bool) -> Any:
        """Return a frame of numbers in the place of a raw table, if that is to be encoded."""
        if reset:
            self._forget(*_OF_TABLES)  # of an earlier fit
            if self.categorical_features is None or not is_frame(X):
                return X
            absent = "allow" if self.absent_features == "allow" else "fill"
            self.encoder_ = TableEncoder(absent_features=absent)
            X = self.encoder_.fit_transform(X, task=labels)
            self.columns_ = self.encoder_.columns_
            return X
        encoder = vars(self).get("encoder_")
        if encoder is None or not is_frame(X):
            return X
        if nw.from_native(X, eager_only=True).columns == self._feature_names():
            return X  # encoded already
        return encoder.features(X, labels, used=self._features_in_use())

    def _forget(self, *names: str) -> None:
        for name in names:
            self.__dict__.pop(name, None)

    def _read_targets(self, y: Any, labels: np.ndarray | None, n_rows: int) -> tuple[Any, np.ndarray | None]:
        """Return the targets as numbers (NaN is kept), and the classes that these stand for, if any."""
        return y, None

    def _encode_targets(self, tasks: Tasks, names: np.ndarray | None) -> Tasks:
        """Check or encode the targets for the loss."""
        has_prior = self._has_prior(tasks)
        check_targets(self._loss, tasks, fit_intercept=self.fit_intercept and not has_prior)
        if has_prior:
            warn_of_one_value(tasks, tasks.y)
        return with_known_in_targets(self._loss, tasks)

    def _encode_stored(self, stored: StoredTasks, *, stays: bool) -> StoredTasks:
        """Encode stored targets for the loss; ``stays`` says whether the rows stay in their files."""
        return stored

    def _solve(self, prepared: Prepared) -> tuple[Any, Any]:
        """Return a `Solution`, and the penalty that it minimises."""
        raise TypeError("a kind of model says how it is solved")

    def _learn(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        """Set the learned attributes, and warn of what the user should look at."""
        scale = 1.0 if prepared.target_scale is None else prepared.target_scale
        self.coef_ = prepared.to_original(solution.A)
        self.intercept_ = solution.intercept * scale
        self.tasks_, self.task_sizes_ = prepared.tasks.labels, prepared.sizes
        self.column_scale_, self.target_scale_ = prepared.column_scale, prepared.target_scale
        self._learn_levels(prepared, solution, penalty)
        self._name_parts(prepared, solution, penalty)
        self.objective_, self.violation_ = self._objective_at_levels(prepared, solution), solution.violation
        self.dual_gap_, self.history_ = solution.dual_gap, solution.history
        self.n_iter_ = max(int(solution.n_iter), 1)  # finding zero optimal takes a pass too
        self.converged_ = bool(solution.converged)
        self._keep_absent(getattr(prepared.tasks, "absent", None))
        usable = prepared.could_use()
        self.usable_ = None if usable.all() else usable
        used = np.flatnonzero(self.coef_.any(axis=0))
        self.feature_spread_ = np.zeros(self.coef_.shape[1])
        self.feature_spread_[used] = prepared.spread(used)
        if vars(self)["effects"]:
            self.effects_ = learn_effects(self, prepared)
        basis = getattr(prepared.tasks, "curves", None)
        split_curves(self, basis)
        self.feature_range_ = prepared.feature_range()
        warn_of_fit(self, prepared, solution.solver)

    def _keep_absent(self, absent: np.ndarray | None) -> None:
        """Record the features that tasks lack, with zero coefficients: the fit leaves them undetermined."""
        if absent is None:
            return
        self.absent_ = absent
        for name in ("coef_", "shared_", "specific_", "outlier_"):
            if name in vars(self):
                getattr(self, name)[absent] = 0.0

    def _name_parts(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        """Set the attributes that the coefficients are made of."""
        raise TypeError("a kind of model says what its coefficients are made of")

    # -- prediction ------------------------------------------------------------------------------------------

    def _linear_predictor(
        self, X: Any, observation_task: np.ndarray | None, offset: Any = None
    ) -> np.ndarray:
        """Return the linear predictor of rows and places from `_locate`: (n_rows,) or (n_rows, n_tasks)."""
        z = predict(self, X, observation_task)
        z = z if offset is None else z + check_offset(offset, *z.shape)
        return averaged_over_levels(self, z, X, observation_task)

    def _mean_of(self, z: np.ndarray, observation_task: np.ndarray | None) -> np.ndarray:
        """Return the expected target at z, each row by the loss of its task."""
        loss = self._loss
        if isinstance(loss, Loss):
            return loss.mean(z)
        task = np.arange(len(self.tasks_)) if observation_task is None else observation_task
        if (task >= len(self.tasks_)).any():
            raise ValueError(
                "Tasks of this model have losses of their own, so that nothing is known of the targets of a "
                "new task: leave its rows out."
            )
        out = np.empty_like(z)
        for t in np.unique(task):
            out[..., task == t] = loss.for_task(self.tasks_[t].item()).mean(z[..., task == t])
        return out

    def _locate(self, X: Any, task: Any) -> tuple[Any, np.ndarray | None, np.ndarray | None]:
        """Return the rows as an array, the position of each row's task (None: all tasks), and its label."""
        check_is_fitted(self)
        X, task = self._with_labels(X, task)
        X, labels, name = inputs.take_task_column(X, task, self.task_column)
        X = self._read_design(X, labels, reset=False)[0]
        observation_task = None
        if labels is not None:
            labels = check_task_labels(labels, X.shape[0], name=name, remedy=self._of_missing_labels())
            observation_task = inputs.locate_tasks(labels, self.tasks_, unknown=self.unknown_task)
        elif not self._predicts_matrix:
            observation_task = self._only_task(X.shape[0])
        absent = vars(self).get("absent_")
        if absent is not None:
            X = fill_absent(X, absent, observation_task, getattr(self, "feature_names_in_", None))
        return X, observation_task, labels

    def _with_labels(self, X: Any, task: Any) -> tuple[Any, Any]:
        """Take the task labels out of a raw table, by the recipe that models of the command line keep."""
        recipe = vars(self).get("recipe_")
        if recipe is None or task is not None or self.task_column is not None or not is_frame(X):
            return X, task
        frame = nw.from_native(X, eager_only=True)
        if frame.columns == self._feature_names():
            return X, task  # encoded already
        own = [name for name in frame.columns if name == recipe.task_column]
        return X, recipe.labels(frame.select(own).to_pandas() if own else frame.to_pandas())

    def _features_in_use(self) -> set[str]:
        """Return the names of the features that some task uses."""
        names = self._feature_names()
        return {names[j] for j in np.flatnonzero(self._uses().any(axis=0))}

    def _of_missing_labels(self) -> str:
        """The remedy for rows to predict that have no label."""
        if self.unknown_task == "error":
            return "Drop these rows or fill in a label."
        return (
            "Fill in a label. A missing one is not taken for a new task: if it is one, give it a name, and "
            f"unknown_task={self.unknown_task!r} predicts it."
        )

    def _only_task(self, n_rows: int) -> np.ndarray:
        """Return the position of the task of rows without labels, if there is one task."""
        if len(self.tasks_) > 1:
            raise ValueError(
                f"The model has {len(self.tasks_)} tasks ({abbreviate(self.tasks_)}), so each row needs a "
                "label: pass task=, or name a column of the frame with task_column. Inside scikit-learn's "
                "tools, labels are routed after sklearn.set_config(enable_metadata_routing=True)."
            )
        return np.zeros(n_rows, dtype=np.intp)

    def _mean_slopes(self) -> np.ndarray:
        """Return the mean of the tasks' coefficients, over the tasks that have the feature."""
        absent = vars(self).get("absent_")
        have = len(self.coef_) if absent is None else np.maximum((~absent).sum(axis=0), 1)
        return self.coef_.sum(axis=0) / have

    def _common_slopes(self) -> np.ndarray:
        """Return what the tasks' coefficients scatter about: the common part, or their mean without one."""
        return self.common_ if "common_intercept_" in vars(self) else self._mean_slopes()

    def _pooled_slopes(self) -> np.ndarray:
        """Return the common part of a model with pooling; others are refused."""
        if "common_intercept_" not in vars(self):
            raise ValueError(
                "This model has no common part: fit MMTFLRegressor or MMTFLClassifier with pooling above 0 "
                "(above 0.5 for p = 1). New tasks can also be predicted with levels='shrunk', or by the mean "
                "of all tasks, with unknown_task='mean'."
            )
        return self.common_

    def _mean_score(self, y: Any, y_pred: np.ndarray, labels: np.ndarray | None, weights: Any) -> float:
        y = inputs.targets_like(y_pred, y)
        return mean_task_score(y, y_pred, labels, self._metric, inputs.score_weights(weights, y))

    # -- a look at it ----------------------------------------------------------------------------------------

    def _sizes(self) -> dict[str, np.ndarray]:
        """Return the measures of a feature's size that the summary shows; it is sorted by the first one."""
        raise TypeError("a kind of model says how large a feature is")

    def _wants_curves(self) -> bool:
        """Whether features have curves from the start of a fit."""
        return bool(self.curves)

    def _uses(self) -> np.ndarray:
        """Which tasks use which features, by a line or a curve, (n_tasks, n_features)."""
        lines = self.coef_ != 0.0
        return lines if self.curves_ is None else lines | self.curves_.used()

    def _common_columns(self) -> dict[str, np.ndarray]:
        """Return what the tasks scatter about and how far, for the summary; empty without a common part."""
        return {}

    def _counted(self) -> np.ndarray:
        """Return a mask of the tasks that count when the users of a feature are counted, (n_tasks,)."""
        return np.ones(len(self.tasks_), dtype=bool)

    def _feature_names(self) -> list[str]:
        """Return the names of the columns of X, or x0, x1, ... if it had none."""
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
