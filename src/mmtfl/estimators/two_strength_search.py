"""Choosing two strengths by cross-validation, for every model that has two.

One class around a model serves them all: what a model needs to be told (its norms, scaling, task column) is
told to the model, once, and a new pair of norms is searched without a class of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.declaration import restated
from mmtfl.estimators.feature_use import ShowsSharing
from mmtfl.estimators.inputs import check_nothing_else
from mmtfl.estimators.intervals import heldout_errors
from mmtfl.estimators.parameters import TwoStrengthParameters
from mmtfl.estimators.part_fits import plain_copy
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.saving import Savable
from mmtfl.estimators.search import Search, search_settings
from mmtfl.estimators.strength_pairs import StrengthPairs
from mmtfl.estimators.two_strengths import AdditiveModel, CappedModel
from mmtfl.model_selection.cross_validation import FoldScores
from mmtfl.model_selection.grown_grid import grown_scores
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.solve import one_blas_thread
from mmtfl.tasks.stored import StoredTasks

__all__ = ["TwoStrengthCV"]

_REFIT = 1e-5  # the last fit goes further than asked, so that equal problems have equal predictions


def _has(name: str) -> Any:
    """For `available_if`: the wrapped model has this method."""

    def check(self: TwoStrengthCV) -> bool:
        getattr(self.estimator, name)
        return True

    return check


class TwoStrengthCV(Search, TwoStrengthParameters, Savable, ShowsSharing, MetaEstimatorMixin, BaseEstimator):
    """Choose the two strengths of a model by cross-validation, and fit it with them.

    Serves `DirtyRegressor`, `RobustRegressor`, `LowRankRegressor`, `CappedRegressor` and their classifiers.
    On each fold's training part the model is solved on a grid of both strengths, every solution started from
    its neighbour, and scored on the test part, in stages (see ``search``); the best pair is fitted on all
    rows.

    Attributes
    ----------
    best_estimator_ : model
        Fitted on all rows with the best strengths; `predict`, `score` and `summary` are its own.
    best_params_ : dict
        The two strengths chosen, by name.
    best_score_ : float
        Mean held-out score of the choice: of ``scoring``, or with None minus half the mean squared error (in
        units of each task's spread with ``scale_targets``), or minus the mean logistic loss.
    heldout_scores_ : dict of ndarrays
        Scores of each task on held-out rows, as in `MMTFLRegressorCV`: task, n_rows, and r2, or accuracy, auc
        and base_rate.
    best_index_ : int
        Its row in ``cv_results_``.
    strengths_ : tuple of two ndarrays
        Values of the grid, largest first.
    cv_results_ : dict of ndarrays
        One row per pair of strengths: the two by name, mean_test_score, std_test_score, rank_test_score and
        a column per fold, ready for a frame. Scores of pairs that were not tried are NaN, and their ranks
        come last.
    n_splits_ : int
        Number of folds.

    Examples
    --------
    >>> from mmtfl import DirtyRegressor, TwoStrengthCV
    >>> from mmtfl.datasets import make_tasks
    >>> data = make_tasks(n_tasks=4, n_samples=40, n_features=12, n_informative=3, noise=0.5, random_state=0)
    >>> search = TwoStrengthCV(DirtyRegressor(), strengths=6, cv=3).fit(data.X, data.y, task=data.task)
    >>> sorted(search.best_params_), len(search.cv_results_["mean_test_score"])
    (['alpha_shared', 'alpha_specific'], 36)
    >>> search.score(data.X, data.y, task=data.task) > 0.9
    True
    """

    # metadata routing: labels go wherever rows go, without set_*_request
    __metadata_request__fit: ClassVar = {"task": True, "groups": True, "offset": True}
    __metadata_request__predict: ClassVar = {"task": True, "offset": True}
    __metadata_request__predict_proba: ClassVar = {"task": True, "offset": True}
    __metadata_request__predict_log_proba: ClassVar = {"task": True, "offset": True}
    __metadata_request__decision_function: ClassVar = {"task": True, "offset": True}
    __metadata_request__score: ClassVar = {"task": True, "offset": True}

    n_jobs: int | None = restated(
        default=None,
        description="Threads over folds; -1 for all processors. The result is the same for any number.",
    )

    def fit(
        self,
        X: Any,
        y: Any = None,
        task: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        groups: Any = None,
    ) -> TwoStrengthCV:
        """Choose the strengths and fit the model with them.

        Parameters
        ----------
        X, y, task, sample_weight, offset
            Data, as in the ``fit`` of the model.
        groups : array-like of shape (n_rows,), optional
            Groups of rows that must stay together, as in ``MMTFLRegressorCV.fit``.

        Returns
        -------
        self : estimator
            Fitted.
        """
        model = self._check_parameters()
        if isinstance(X, StoredTasks):
            check_nothing_else(groups)
        prepared = model._prepare(X, y, task, sample_weight, offset)
        prepared = self._with_folds(model, prepared, X, y, task, groups)
        settings = search_settings(model, prepared, self.scoring)
        with one_blas_thread():
            problem = prepared.problem(model._loss, fit_intercept=model.fit_intercept)
            self.strengths_ = self._grid_values(model._grid(problem, prepared.known).largest())
            pairs = StrengthPairs(model, self.strengths_, prepared.known)
            _, self.best_index_ = self._choose(prepared, [pairs], settings, verbose=model.verbose)
        if prepared.left_out is not None:
            self.heldout_scores_ = prepared.left_out.widen_scores(self.heldout_scores_)
        self.n_splits_ = len(prepared.folds)
        self.best_params_ = {
            name: float(values[self.best_index_]) for name, values in pairs.columns().items()
        }
        model.set_params(**self.best_params_)
        model._learn(prepared, *_solve_further(model, prepared))
        if model._errors_tell:
            errors = heldout_errors(plain_copy(model), prepared.original_tasks(), prepared.folds)
            model.heldout_errors_ = (
                errors if prepared.left_out is None else prepared.left_out.widen_errors(errors)
            )
        self.best_estimator_ = model
        return self

    def _chosen_model(self) -> Any:
        """The model that was chosen; `stability` makes a copy of it."""
        return self._fitted()

    # -- the steps of fit ----------------------------------------------------------------------------------

    def _check_parameters(self) -> Any:
        """Check the parameters; an unfitted copy of the model."""
        super()._check_parameters()
        if not isinstance(self.estimator, AdditiveModel | CappedModel):
            raise InvalidParameterError(
                f"estimator={self.estimator!r} does not have two strengths: use a Dirty, Robust, LowRank or "
                "Capped model; MMTFLRegressorCV and MMTFLClassifierCV choose alpha, p and k of the others."
            )
        model = clone(self.estimator)
        model._check_parameters()
        model.set_params(warm_start=False)
        self._wanted()
        return model

    def _scored(
        self, score: Callable[..., FoldScores], candidates: Sequence[Any], n_folds: int
    ) -> tuple[Sequence[Any], FoldScores]:
        if self.search == "full":
            return super()._scored(score, candidates, n_folds)
        (pairs,) = candidates
        return candidates, grown_scores(score, pairs, n_folds)

    def _wanted(self) -> list[Any]:
        """Number of values, or the values, of each strength."""
        wanted = [self.strengths] * 2 if isinstance(self.strengths, Integral) else list(self.strengths)
        if len(wanted) == 2 and all(_is_grid(part) for part in wanted):
            return wanted
        raise InvalidParameterError(
            f"strengths must be a number, or a pair whose parts are numbers or positive finite values, got "
            f"{self.strengths!r}. Use strengths=10, (10, 5), or ([1.0, 0.1], [0.5, 0.05])."
        )

    def _grid_values(self, largest: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
        ratio = 1e-3 if self.ratio is None else self.ratio
        first, second = (
            top * np.geomspace(1.0, ratio, int(part))
            if isinstance(part, Integral)
            else np.sort(np.asarray(part, dtype=float))[::-1]
            for part, top in zip(self._wanted(), largest, strict=True)
        )
        return first, second

    # -- what the fitted model says ------------------------------------------------------------------------

    def _fitted(self) -> Any:
        check_is_fitted(self)
        return self.best_estimator_

    def predict(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict with the best model.

        Parameters
        ----------
        X, task, offset
            As in the model's own method.

        Returns
        -------
        y : ndarray
            Predictions.
        """
        return self._fitted().predict(X, task=task, offset=offset)

    @available_if(_has("predict_interval"))
    def predict_interval(
        self, X: Any, task: Any = None, coverage: float = 0.9, offset: Any = None
    ) -> np.ndarray:
        """Predict an interval for each row with the best model.

        Parameters
        ----------
        X, task, coverage, offset
            As in the model's own method.

        Returns
        -------
        interval : ndarray of shape (n_rows, 2)
            Lower and upper end.
        """
        return self._fitted().predict_interval(X, task=task, coverage=coverage, offset=offset)

    @available_if(_has("predict_set"))
    def predict_set(self, X: Any, task: Any = None, coverage: float = 0.9, offset: Any = None) -> np.ndarray:
        """Predict a set of classes for each row with the best model.

        Parameters
        ----------
        X, task, coverage, offset
            As in the model's own method.

        Returns
        -------
        is_in : ndarray of bool, shape (n_rows, 2)
            Whether each class is in the set.
        """
        return self._fitted().predict_set(X, task=task, coverage=coverage, offset=offset)

    @available_if(_has("calibrated_proba"))
    def calibrated_proba(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the calibrated probability of each class with the best model.

        Parameters
        ----------
        X, task, offset
            As in the model's own method.

        Returns
        -------
        probability : ndarray
            As in the model's own method.
        """
        return self._fitted().calibrated_proba(X, task=task, offset=offset)

    def calibrate(self, X: Any, y: Any, task: Any = None, offset: Any = None) -> Any:
        """Learn from rows that were not fitted how far off the best model's predictions are.

        Parameters
        ----------
        X, y, task, offset
            As in the model's own method.

        Returns
        -------
        search : TwoStrengthCV
            A copy whose best model has errors of these rows.
        """
        calibrated = copy.copy(self)
        calibrated.best_estimator_ = self._fitted().calibrate(X, y, task=task, offset=offset)
        return calibrated

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the probability of each class with the best model.

        Parameters
        ----------
        X, task, offset
            As in the model's own method.

        Returns
        -------
        probability : ndarray
            In the order of ``classes_``.
        """
        return self._fitted().predict_proba(X, task=task, offset=offset)

    @available_if(_has("predict_log_proba"))
    def predict_log_proba(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the logarithm of `predict_proba` with the best model.

        Parameters
        ----------
        X, task, offset
            As in the model's own method.

        Returns
        -------
        log_probability : ndarray
            Logarithms.
        """
        return self._fitted().predict_log_proba(X, task=task, offset=offset)

    @available_if(_has("decision_function"))
    def decision_function(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Log odds of the second class with the best model.

        Parameters
        ----------
        X, task, offset
            As in the model's own method.

        Returns
        -------
        z : ndarray
            Positive for ``classes_[1]``.
        """
        return self._fitted().decision_function(X, task=task, offset=offset)

    def score(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, offset: Any = None) -> float:
        """Score of the best model: the mean over tasks of each task's R^2, deviance explained, or accuracy.

        Parameters
        ----------
        X, y, task, sample_weight, offset
            As in the model's own method.

        Returns
        -------
        score : float
            Larger is better.
        """
        return self._fitted().score(X, y, task=task, sample_weight=sample_weight, offset=offset)

    def summary(self) -> Any:
        """Tell which features are used by all tasks, by some, by one or by none, and which way.

        Returns
        -------
        frame : frame
            As in the model's own method.
        """
        return self._fitted().summary()

    def __getattr__(self, name: str) -> Any:
        # what the fitted model has learned: coef_, intercept_, tasks_, shared_, classes_, ...
        best = vars(self).get("best_estimator_")
        if best is None or not name.endswith("_") or name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(best, name)

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        return tags


def _solve_further(model: Any, prepared: Prepared) -> tuple[Solution, Any]:
    """The model's solution, beyond its tolerance where a minimum is sure to exist."""
    if not isinstance(model, AdditiveModel):
        return model._solve(prepared)
    solution, penalty = clone(model).set_params(tol=_REFIT * model.tol)._solve(prepared)
    return replace(solution, converged=solution.violation <= model.tol), penalty


def _is_grid(part: Any) -> bool:
    if isinstance(part, Integral):
        return int(part) >= 1
    try:
        values = np.asarray(part, dtype=float)
    except (TypeError, ValueError):
        return False
    return values.ndim == 1 and values.size > 0 and bool(np.all((values > 0.0) & (values < np.inf)))
