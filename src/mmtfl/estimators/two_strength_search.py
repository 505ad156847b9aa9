"""Choosing two strengths by cross-validation, for every model that has two.

One class around a model serves them all: what a model needs to be told (its norms, scaling, task column) is
told to the model, once, and a new pair of norms is searched without a class of its own.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import wraps
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, InvalidParameterError
from sklearn.utils.metaestimators import available_if

from mmtfl.estimators.classification import TaskClassifier
from mmtfl.estimators.cross_validated import CV, Search, heldout_errors, read_grid, search_settings
from mmtfl.estimators.feature_use import Results
from mmtfl.estimators.parameters import COUNT, LEVELS, RATIO, parameter
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.regression import TaskRegressor
from mmtfl.estimators.two_strengths import AdditiveModel, TwoStrengthModel
from mmtfl.model_selection.cross_validation import Linear
from mmtfl.model_selection.staged import grown_scores
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.solvers.path import Paths
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.solve import one_blas_thread

_REFIT = 1e-5  # the last fit goes further than asked, so that equal problems have equal predictions


# -- pairs of strengths --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StrengthPairs:
    """A model at the pairs of a grid of strengths, the largest first.

    Attributes
    ----------
    model : TaskModel
        With two strengths.
    strengths : tuple of two ndarrays
        Their values, the largest first.
    known : KnownFeatures or None
        What is known of the features.
    size : tuple of two int, or None
        How many values of each strength are tried; None: all of them.
    without : tuple of two int
        As many of each were tried before.
    borders : dict
        For each fold the solutions from which weaker pairs start.
    """

    model: Any
    strengths: tuple[np.ndarray, np.ndarray]
    known: KnownFeatures | None = None
    size: tuple[int, int] | None = None
    without: tuple[int, int] = (0, 0)
    borders: dict[int, dict[tuple[int, int], Solution]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of values of each strength."""
        return self.strengths[0].size, self.strengths[1].size

    @property
    def effort(self) -> tuple:
        """Sort key by expected computing time."""
        return (len(self.pairs()),)

    def grown(self, size: tuple[int, int]) -> StrengthPairs:
        """The pairs that a grid of this size adds to the pairs tried so far."""
        return replace(self, size=size, without=(0, 0) if self.size is None else self.size)

    def pairs(self) -> np.ndarray:
        """Positions of the pairs in the grid, (n_pairs, 2), row by row."""
        i, j = np.indices(self.size or self.shape)
        return np.argwhere((i >= self.without[0]) | (j >= self.without[1]))

    def columns(self) -> dict[str, np.ndarray]:
        """The two strengths by name."""
        values = (part[at] for part, at in zip(self.strengths, self.pairs().T, strict=True))
        return dict(zip(self.model.strength_names, values, strict=True))

    def solve(
        self, paths: Paths, fold: int, *, report: Callable[[float], None] | None = None, **options: Any
    ) -> Iterator[Linear]:
        """Coefficients and intercepts at all pairs, each solved from its neighbours in both strengths."""
        grid, (first, second) = self.model._grid(paths.problem, paths.known_here(self.known)), self.strengths
        (n, m), goes_on = self.size or self.shape, (self.size or self.shape)[1] < self.shape[1]
        found, pairs = self.borders.pop(fold, {}), self.pairs().tolist()
        for done, (i, j) in enumerate(pairs, start=1):
            starts = [found[at] for at in ((i, j - 1), (i - 1, j)) if at in found]
            found[i, j] = solution = grid.solve(float(first[i]), float(second[j]), starts, **options)
            if not (goes_on and j == m - 1):
                found.pop((i - 1, j), None)  # both pairs that start from it are solved
            kept = np.flatnonzero(solution.A.any(axis=1))
            loss = paths.problem.loss_value(paths.problem.predict(solution.A, solution.intercept))
            yield Linear(kept, solution.A[kept], solution.intercept, loss)
            if report is not None:
                report(done / len(pairs))
        if (n, m) != self.shape:
            self.borders[fold] = {at: found[at] for at in found if at[0] == n - 1 or at[1] == m - 1}


# -- the search ----------------------------------------------------------------------------------------------

_DELEGATED = """Call the method of this name of the best model.

Parameters
----------
{}
    As in the model's own method.

Returns
-------
found
    What that method returns.
"""


def _of_best(method: Any) -> Any:
    """The best model's method of that name, with the same signature; only where the model has it."""

    @wraps(method)
    def call(self: TwoStrengthCV, *rows: Any, **options: Any) -> Any:
        return getattr(self._fitted(), method.__name__)(*rows, **options)

    call.__doc__ = _DELEGATED.format(", ".join(list(inspect.signature(method).parameters)[1:]))
    return available_if(lambda self: hasattr(self.estimator, method.__name__))(call)


class TwoStrengthCV(Search, Results, MetaEstimatorMixin, BaseEstimator):
    """Choose the two strengths of a model by cross-validation, and fit it with them.

    Serves `DirtyRegressor`, `RobustRegressor`, `LowRankRegressor`, `CappedRegressor` and their classifiers.
    On each fold's training part the model is solved on a grid of both strengths, every solution started from
    its neighbour, and scored on the test part, in stages (see ``search``); the best pair is fitted on all
    rows.

    Parameters
    ----------
    estimator : model with two strengths
        The model to tune; its own two strengths are not used.
    strengths : int, or pair of int or array-like
        How many values of each strength, from the smallest that gives zero down to ``ratio`` times it; or
        the values themselves.
    ratio : float
        Smallest over largest value of a strength; None is 1e-3.
    search : {"staged", "full"}
        "staged" scores the pairs of the largest strengths, and goes on to smaller values until scores have
        fallen twice; "full" scores all pairs. With fewer than three folds all are scored.
    levels : {"shrunk", "free"}
        As in the model; the model's own is not used.
    effects : bool
        Whether `fit` also estimates unshrunk effects of all features, with errors, for the methods `effects`
        and `task_effects`.

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

    estimator: Any = parameter(HasMethods(["fit", "predict"]), kw_only=False)
    strengths: Any = parameter(COUNT, "array-like", default=10, kw_only=False)
    cv: Any = CV
    ratio: float | None = parameter(RATIO, default=None)
    levels: str = replace(LEVELS, default="shrunk")
    effects: bool = parameter("boolean", default=True)

    # metadata routing: labels go wherever rows go, without set_*_request
    __metadata_request__fit: ClassVar = {"task": True, "groups": True, "offset": True}
    __metadata_request__predict: ClassVar = {"task": True, "offset": True}
    __metadata_request__predict_proba: ClassVar = {"task": True, "offset": True}
    __metadata_request__predict_log_proba: ClassVar = {"task": True, "offset": True}
    __metadata_request__decision_function: ClassVar = {"task": True, "offset": True}
    __metadata_request__score: ClassVar = {"task": True, "offset": True}

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
        prepared = self._prepare_folds(model, X, y, task, sample_weight, offset, groups)
        prepared = model._with_prior(prepared)
        settings = search_settings(model, prepared, self.scoring)
        with one_blas_thread():
            problem = prepared.problem()
            self.strengths_ = self._grid_values(model._grid(problem, prepared.known).largest())
            pairs = StrengthPairs(model, self.strengths_, prepared.known)
            score, n_folds = self._scorer(prepared, settings, verbose=model.verbose), len(prepared.folds)
            found = score([pairs]) if self.search == "full" else grown_scores(score, pairs, n_folds)
            _, self.best_index_, _ = self._decide(prepared, [pairs], found, settings)
        self.n_splits_ = len(prepared.folds)
        self.best_params_ = {
            name: float(values[self.best_index_]) for name, values in pairs.columns().items()
        }
        model.set_params(**self.best_params_, effects=vars(self)["effects"])
        model._finish_fit(prepared, *_solve_further(model, prepared))
        if model._errors_tell and prepared.row_counts is None:  # few rows that stand for many have no errors
            model.heldout_errors_ = heldout_errors(model, prepared)
        self.best_estimator_ = model
        return self

    def _chosen_model(self) -> Any:
        """The model that was chosen."""
        return self._fitted()

    # -- the steps of fit ----------------------------------------------------------------------------------

    def _check_parameters(self) -> Any:
        """Check the parameters; an unfitted copy of the model."""
        super()._check_parameters()
        if not isinstance(self.estimator, TwoStrengthModel):
            raise InvalidParameterError(
                f"estimator={self.estimator!r} does not have two strengths: use a Dirty, Robust, LowRank or "
                "Capped model; MMTFLRegressorCV and MMTFLClassifierCV choose alpha, p and k of the others."
            )
        model = clone(self.estimator)
        model._check_parameters()
        model.set_params(levels=self.levels)
        self._grids()
        return model

    def _grids(self) -> list[int | np.ndarray]:
        """The number of values of each strength, or the values."""
        given = [self.strengths] * 2 if isinstance(self.strengths, Integral) else list(self.strengths)
        grids = [grid for grid in map(read_grid, given) if grid is not None]
        if len(given) != 2 or len(grids) != 2:
            raise InvalidParameterError(
                "strengths must be a number, or a pair whose parts are numbers or positive finite values, "
                f"got {self.strengths!r}. Use strengths=10, (10, 5), or ([1.0, 0.1], [0.5, 0.05])."
            )
        return grids

    def _grid_values(self, largest: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
        ratio = 1e-3 if self.ratio is None else self.ratio
        first, second = (
            top * np.geomspace(1.0, ratio, grid) if isinstance(grid, int) else np.sort(grid)[::-1]
            for grid, top in zip(self._grids(), largest, strict=True)
        )
        return first, second

    # -- what the fitted model says ------------------------------------------------------------------------

    predict = _of_best(TaskRegressor.predict)
    predict_interval = _of_best(TaskRegressor.predict_interval)
    predict_proba = _of_best(TaskClassifier.predict_proba)
    predict_log_proba = _of_best(TaskClassifier.predict_log_proba)
    decision_function = _of_best(TaskClassifier.decision_function)
    score = _of_best(TaskRegressor.score)

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
