"""How well a model predicts, task by task, beside one pooled model and one model per task.

Rows that a model was trained on flatter it. So the comparison is by cross-validation over the rows given: in
every fold the model is fitted again with the settings it has, and so are the two alternatives, which choose
their strength inside the training part.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from mmtfl.data.finite import check_finite_design
from mmtfl.data.labels import check_task_labels
from mmtfl.data.validation import check_length
from mmtfl.estimators.classification import MMTFLClassifier
from mmtfl.estimators.inputs import (
    locate_tasks,
    matrix_values,
    n_dimensions,
    single_column,
    take_task_column,
)
from mmtfl.estimators.metrics import per_task_scores
from mmtfl.estimators.regression import MMTFLRegressor
from mmtfl.selection.search import TaskSearch
from mmtfl.selection.single_task import SingleTaskClassifierCV, SingleTaskRegressorCV, SingleTaskSearch
from mmtfl.selection.splitting import TaskKFold

__all__ = ["Comparison", "Evaluation", "TaskScores", "evaluate"]

N_FOLDS = 3
MOST_ENTRIES = 1_000_000  # of X that the models are refitted on: about half a minute
ALTERNATIVES = ("pooled", "separate")
METRICS = {
    "regression": (
        "R²",
        "r2",
        "1 is perfect, 0 is no better than each task's mean, below 0 is worse than that",
    ),
    "classification": (
        "AUC",
        "roc_auc",
        "the chance that a row of the second class is ranked above one of the first: "
        "1 is perfect, 0.5 is a coin",
    ),
}


@dataclass(frozen=True)
class TaskScores:
    """Scores of one task; None where there is none.

    Attributes
    ----------
    label : str or int
        The task.
    n_rows : int
        Rows given.
    fitted : float or None
        The model as it is, on the rows given.
    own, pooled, separate : float or None
        On held-out rows: the model refitted, one model for all tasks, one model for each.
    """

    label: str | int
    n_rows: int
    fitted: float | None
    own: float | None = None
    pooled: float | None = None
    separate: float | None = None


@dataclass(frozen=True)
class Comparison:
    """The model beside an alternative, over the tasks that have a score of both.

    Attributes
    ----------
    difference : float
        Mean over tasks of the model's score minus the alternative's.
    error : float or None
        Standard error of that mean over tasks; None for fewer than three tasks.
    n_better, n_tasks : int
        In how many tasks the model has the larger score, and of how many.
    """

    difference: float
    error: float | None
    n_better: int
    n_tasks: int

    @property
    def is_chance(self) -> bool:
        """Whether the difference is within twice its standard error; not said of fewer than three tasks."""
        return self.error is not None and abs(self.difference) <= 2 * self.error


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` finds.

    Attributes
    ----------
    metric, meaning : str
        The score and what its values mean, in words; larger is better.
    tasks : list of TaskScores
        The tasks that the rows given belong to.
    n_rows : int
        Observations given.
    n_folds : int or None
        Folds of the comparison; None if there was none.
    reason : str or None
        Why there was no comparison.
    seen : bool or None
        Whether the model was trained on the rows given; None if that is not known.
    """

    metric: str
    meaning: str
    tasks: list[TaskScores]
    n_rows: int
    n_folds: int | None
    reason: str | None
    seen: bool | None

    def mean(self, name: str) -> float | None:
        """Mean over tasks of one column of scores, "fitted", "own", "pooled" or "separate"."""
        scores = [score for task in self.tasks if (score := getattr(task, name)) is not None]
        return float(np.mean(scores)) if scores else None

    def against(self, name: str) -> Comparison | None:
        """The model, refitted, beside "pooled" or "separate"; None where they were not compared."""
        pairs = [(task.own, getattr(task, name)) for task in self.tasks]
        gains = np.array([own - other for own, other in pairs if own is not None and other is not None])
        if not gains.size:
            return None
        error = float(gains.std(ddof=1) / math.sqrt(gains.size)) if gains.size > 2 else None
        return Comparison(float(gains.mean()), error, int(np.count_nonzero(gains > 0)), gains.size)


def evaluate(model: Any, X: Any, y: Any, task: Any = None, *, seen: bool | None = None) -> Evaluation:
    """Score a fitted model by task, beside one pooled model and one model per task.

    The comparison is by 3-fold cross-validation over the rows given (`TaskKFold`): the model is refitted with
    the (p, k) and the strengths it has; the alternatives are the better of ridge and lasso, with a strength
    chosen inside the training part. The strengths of a model that was tuned on the same rows were chosen with
    the help of the held-out ones, which favours it a little. Where X has more than a million entries, the
    model is scored as it is and nothing is refitted.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, a search included.
    X, y, task
        Rows, as in ``predict`` and ``score`` of the model.
    seen : bool, optional
        Whether the model was trained on these rows; None if that is not known.

    Returns
    -------
    evaluation : Evaluation
        R² of each task, or the area under the ROC curve for classifiers.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.report.summary import evaluate
    >>> data = make_tasks(n_tasks=4, n_samples=30, n_features=20, n_informative=3, noise=1.0, random_state=0)
    >>> model = MMTFLRegressor(p=2, k=1, alpha=0.2).fit(data.X, data.y, task=data.task)
    >>> found = evaluate(model, data.X, data.y, data.task)
    >>> found.n_folds, len(found.tasks)
    (3, 4)
    >>> found.mean("own") > found.mean("pooled")
    True
    """
    check_is_fitted(model)
    inner = getattr(model, "best_estimator_", model)
    rows = _Rows.read(inner, X, y, task)
    kind = "classification" if is_classifier(inner) else "regression"
    name, metric, meaning = METRICS[kind]
    columns = {"fitted": rows.scores(_respond(inner, rows.X, rows.labels), metric)}
    reason, n_folds = _too_large(rows), None
    if reason is None:
        try:
            columns |= {
                who: rows.scores(response, metric) for who, response in _held_out(inner, rows).items()
            }
            n_folds = N_FOLDS
        except ValueError as error:  # too few rows, a class that is missing: the report goes on without
            reason = f"The models could not be refitted on parts of these rows: {error}"
    labels, sizes = np.unique(rows.labels, return_counts=True)
    tasks = [
        TaskScores(label, int(n), **{who: scores.get(label) for who, scores in columns.items()})
        for label, n in zip(labels.tolist(), sizes, strict=True)
    ]
    return Evaluation(name, meaning, tasks, len(rows.y), n_folds, reason, seen)


# -- rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """Observations one below the other, whichever way they came, and the row of the table behind each."""

    X: Any
    y: np.ndarray
    labels: np.ndarray
    source: np.ndarray

    @classmethod
    def read(cls, model: Any, X: Any, y: Any, task: Any) -> _Rows:
        X, labels, name = take_task_column(X, task, model.task_column)
        X, names = model._read_design(X, reset=False)
        check_finite_design(X, feature_names=names)
        n_rows = X.shape[0]
        source = np.arange(n_rows)
        if n_dimensions(y) == 2 and labels is None:
            values = matrix_values(y)
            if values.shape[1] != len(model.tasks_):
                raise ValueError(
                    f"y has {values.shape[1]} columns, but the model has {len(model.tasks_)} tasks: pass one "
                    "column for each, NaN where it was not observed."
                )
            column, source = np.nonzero(values.T == values.T)  # NaN differs from itself
            return cls(X[source], values[source, column], model.tasks_[column], source)
        y = single_column(y) if n_dimensions(y) == 2 else np.asarray(y)
        check_length("y", len(y), n_rows)
        if labels is None:
            labels = model.tasks_[model._only_task(n_rows)]
        labels = check_task_labels(labels, n_rows, name=name)
        return cls(X, y, labels, source)

    def folds(self, stratify: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """Parts of the table: several targets of one row are held out together."""
        splitter = TaskKFold(N_FOLDS, random_state=0, stratify=stratify)
        if len(np.unique(self.source)) == len(self.source):
            return list(splitter.split(self.y, self.y, self.labels))
        n_rows = int(self.source.max()) + 1
        columns, task = np.unique(self.labels, return_inverse=True)
        matrix = np.full((n_rows, len(columns)), np.nan)
        matrix[self.source, task] = np.unique(self.y, return_inverse=True)[1]
        splits = splitter.split(matrix, matrix)
        return [
            (np.flatnonzero(np.isin(self.source, train)), np.flatnonzero(np.isin(self.source, test)))
            for train, test in splits
        ]

    def scores(self, response: np.ndarray, metric: str) -> dict[Any, float]:
        """Score of each task over the rows that have a response; no entry for a task without a score."""
        known = ~np.isnan(response)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # tasks without a score are told in the report
            scores = per_task_scores(self.y[known], response[known], self.labels[known], metric)
        return {label: score for label, score in scores.items() if math.isfinite(score)}


def _too_large(rows: _Rows) -> str | None:
    n_entries = rows.X.nnz if sparse.issparse(rows.X) else rows.X.shape[0] * rows.X.shape[1]
    if n_entries <= MOST_ENTRIES:
        return None
    return (
        f"The table has {n_entries / 1e6:.0f} million entries, and fitting three models again on parts of it "
        f"is done up to {MOST_ENTRIES / 1e6:.0f} million only. Give fewer rows to compare models on."
    )


# -- models --------------------------------------------------------------------------------------------------


def _respond(model: Any, X: Any, labels: np.ndarray | None) -> np.ndarray:
    """What the metric is fed with: predictions, or log odds."""
    if labels is None:
        return model._predict_at(X, np.zeros(X.shape[0], dtype=np.intp))
    return model._predict_at(X, locate_tasks(labels, model.tasks_, unknown=model.unknown_task))


def _held_out(model: Any, rows: _Rows) -> dict[str, np.ndarray]:
    """Responses of the three models to rows they were not fitted on; NaN for rows that are never held out."""
    out = {who: np.full(len(rows.y), np.nan) for who in ("own", *ALTERNATIVES)}
    with warnings.catch_warnings():
        # a held-out score does not see the last digits, and tasks of one class were told in the fit
        warnings.simplefilter("ignore", UserWarning)
        for train, test in rows.folds(is_classifier(model)):
            X, y, labels = rows.X[train], rows.y[train], rows.labels[train]
            fitted = {
                "own": _with_settings_of(model).fit(X, y, task=labels),
                "pooled": _best_single(model, X, y, None),
                "separate": _best_single(model, X, y, labels),
            }
            for who, refitted in fitted.items():
                held_out = None if who == "pooled" else rows.labels[test]
                out[who][test] = _respond(refitted, rows.X[test], held_out)
    return out


def _with_settings_of(model: Any) -> Any:
    """An unfitted model at the strengths that this one has; a search is not made again."""
    if isinstance(model, TaskSearch) and not isinstance(model, SingleTaskSearch):
        Member = MMTFLClassifier if is_classifier(model) else MMTFLRegressor
        known = {name: value for name, value in model.get_params().items() if name in Member().get_params()}
        model = Member(**{**known, "p": model.best_p_, "k": model.best_k_, "alpha": model.alpha_})
    return clone(model).set_params(task_column=None, verbose=0)


def _best_single(model: Any, X: Any, y: np.ndarray, labels: np.ndarray | None) -> Any:
    """The better of ridge and lasso, on all rows as one task or on each task alone."""
    Search = SingleTaskClassifierCV if is_classifier(model) else SingleTaskRegressorCV
    names = ("fit_intercept", "standardize", "scale_targets", "on_degenerate_task")
    options = {name: getattr(model, name) for name in names if hasattr(model, name)}
    searches = [
        Search(p, alphas=12, alpha_ratio=ratio, cv=N_FOLDS, tol=1e-4, **options).fit(X, y, task=labels)
        for p, ratio in ((2, 1e-5), (1, 1e-2))
    ]
    return max(searches, key=lambda search: search.best_score_)
