"""How well a model predicts, task by task, beside one pooled model and one model per task.

Rows that a model was trained on flatter it. So the comparison is by cross-validation over the rows given: in
every fold the model is fitted again, and so are the two alternatives. All of them choose their strength
inside the training part; a strength that was given is kept.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from mmtfl.estimators import inputs, single_task
from mmtfl.estimators.search import Search, TaskSearch
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.model_selection.dealing import group_codes
from mmtfl.model_selection.metrics import per_task_scores
from mmtfl.model_selection.splitting import TaskKFold, TaskSplitter, TaskTimeSplit
from mmtfl.report import paired_tests as paired
from mmtfl.report.paired_tests import HeldOutErrors, Paired
from mmtfl.report.pooled import Fold, fit_pooled
from mmtfl.tasks.checks import check_finite_design, check_length, check_task_labels

N_FOLDS = 3
MOST_ENTRIES = 1_000_000  # of X that the models are refitted on: about half a minute
MOST_TUNED = 200_000  # of X that a search is made again on: about half a minute too
MOST_TUNED_CLASSES = 80_000  # and of a classifier's, which takes longer
N_STRENGTHS, N_PAIRS = 20, 6  # that such a search goes over
ALTERNATIVES = ("pooled", "separate")
# whether targets are classes: the score, its name as a metric, and what its values mean
METRICS = {
    False: ("R²", "r2", "1 is perfect, 0 is no better than each task's mean, below 0 is worse than that"),
    True: (
        *("AUC", "roc_auc"),
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
    accuracy, base_rate : float or None
        For classes: how many of the held-out rows (of the rows given, if none was held out) the model gets
        right, and how many are of the task's commoner class.
    """

    label: str | int
    n_rows: int
    fitted: float | None
    own: float | None = None
    pooled: float | None = None
    separate: float | None = None
    accuracy: float | None = None
    base_rate: float | None = None


@dataclass(frozen=True, eq=False)
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
    strength : {"tuned", "kept", "given"}
        Whether the strength of the model was chosen again in every training part; or was chosen before, and
        kept; or was never chosen.
    errors : HeldOutErrors or None
        Errors of "own", "pooled" and "separate" on held-out rows, from which they are judged.
    accuracy, base_rate : float or None
        As in `TaskScores`, over the rows of all tasks.
    kept_together, in_time : bool
        Whether groups of rows were held out together, and whether held-out rows come later in their task.
    """

    metric: str
    meaning: str
    tasks: list[TaskScores]
    n_rows: int
    n_folds: int | None
    reason: str | None
    seen: bool | None
    strength: str = "given"
    errors: HeldOutErrors | None = None
    accuracy: float | None = None
    base_rate: float | None = None
    kept_together: bool = False
    in_time: bool = False

    def mean(self, name: str) -> float | None:
        """Mean over tasks of one column of scores, "fitted", "own", "pooled" or "separate"."""
        scores = self._scores(name)
        return float(np.mean(scores)) if scores else None

    def median(self, name: str) -> float | None:
        """Median over tasks of one column of scores; of held-out ones, over the tasks that are judged by."""
        if name != "fitted":
            return None if self.errors is None else self.errors.median(name)
        scores = self._scores(name)
        return float(np.median(scores)) if scores else None

    def against(self, name: str, *, who: str = "own") -> Paired | None:
        """The model, refitted, beside "pooled" or "separate"; None where they cannot be compared."""
        return None if self.errors is None else self.errors.beside(who, name)

    def _scores(self, name: str) -> list[float]:
        return [score for task in self.tasks if (score := getattr(task, name)) is not None]


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    task: Any = None,
    *,
    seen: bool | None = None,
    groups: Any = None,
    in_time: bool = False,
) -> Evaluation:
    """Score a fitted model by task, beside one pooled model and one model per task.

    The comparison is by 3-fold cross-validation over the rows given (`TaskKFold`). A search is made again in
    every training part, over 20 strengths and with 3 folds; another model keeps the strengths it was given.
    The pooled model, with an intercept for each task, and the separate models are the better of ridge and
    lasso, with a strength chosen inside the training part. Where X has more than 200 000 entries (80 000 for
    classes) a search is not made again: its choice is kept, which favours it if it was made with these rows.
    Where X has more than a million entries, the model is scored as it is and nothing is refitted.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, a search included.
    X, y, task
        Rows, as in ``predict`` and ``score`` of the model.
    seen : bool, optional
        Whether the model was trained on these rows; None if that is not known.
    groups : array-like of shape (n_rows,), optional
        Groups of rows that are held out together, also inside the training parts.
    in_time : bool
        Whether the rows are in time order: then `TaskTimeSplit` tests rows that come later in their task.

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
    >>> found.median("own") > found.median("pooled")
    True
    >>> found.against("pooled").unit  # four tasks are too few to be judged by
    'row'
    """
    inner = model._fitted()
    rows = _Rows.read(inner, X, y, task, groups, in_time)
    classify = is_classifier(inner)
    if not classify and not inner._loss.on_residuals:
        return _without_others(inner, rows, seen)
    name, metric, meaning = METRICS[classify]
    fitted = _respond(inner, rows.X, rows.labels)
    n_entries = rows.X.nnz if sparse.issparse(rows.X) else rows.X.shape[0] * rows.X.shape[1]
    responses, reason, strength = {"own": fitted}, None, "given"
    if isinstance(model, Search):
        strength = "tuned" if n_entries <= (MOST_TUNED_CLASSES if classify else MOST_TUNED) else "kept"
    if n_entries > MOST_ENTRIES:
        reason = (
            f"The table has {n_entries / 1e6:.0f} million entries, and fitting three models again on parts "
            f"of it is done up to {MOST_ENTRIES / 1e6:.0f} million only. "
            "Give fewer rows to compare models on."
        )
    else:
        try:
            responses = _held_out(model, rows, strength)
        except ValueError as error:  # too few rows, a class that is missing: the report goes on without
            reason = f"The models could not be refitted on parts of these rows: {error}"
    columns = {"fitted": rows.scores(fitted, metric)}
    if reason is None:
        columns |= {who: rows.scores(response, metric) for who, response in responses.items()}
    overall: tuple[float | None, float | None] = None, None
    if classify:
        shares, overall = rows.shares(responses["own"], inner.classes_[1])
        columns |= shares
    labels, sizes = np.unique(rows.labels, return_counts=True)
    tasks = [
        TaskScores(label, int(n), **{who: scores.get(label) for who, scores in columns.items()})
        for label, n in zip(labels.tolist(), sizes, strict=True)
    ]
    n_folds, errors = (N_FOLDS, rows.errors(responses, inner)) if reason is None else (None, None)
    size = len(rows.y), n_folds
    found = Evaluation(name, meaning, tasks, *size, reason, seen, strength, errors, *overall)
    return replace(found, kept_together=groups is not None, in_time=in_time)


def _without_others(model: Any, rows: _Rows, seen: bool | None) -> Evaluation:
    """Scores of a model whose targets are counts or of several kinds, which is not compared with others."""
    with warnings.catch_warnings(action="ignore"):  # a task with one row has no score, which the table shows
        scores = model._scores_by_task(_respond(model, rows.X, rows.labels), rows.y, rows.labels)
    sizes = Counter(rows.labels.tolist())
    tasks = [
        TaskScores(label, sizes[label], fitted=None if np.isnan(score) else float(score))
        for label, score in scores.items()
    ]
    reason = (
        "Other models are fitted to compare with where targets are classes, or numbers under the squared or "
        "the huber loss; this model has another loss."
    )
    meaning = "1 is perfect, 0 is no better than each task's best constant, below 0 is worse than that"
    return Evaluation("Deviance explained", meaning, tasks, len(rows.y), None, reason, seen)


# -- rows ----------------------------------------------------------------------------------------------------


def _without_gaps(model: Any, X: Any) -> Any:
    """X with the means of features that some tasks do not have in the place of missing values.

    A task that lacks a feature has no use for it, whatever stands there; a model of all rows takes the mean.
    """
    absent = vars(model).get("absent_")
    if absent is None or sparse.issparse(X):
        return X
    some = absent.any(axis=0)
    means = np.where(some, np.nanmean(np.where(np.isfinite(X), X, np.nan), axis=0), np.nan)
    return np.where(np.isnan(X) & some, means, X)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Observations of all tasks as one list, and the row of the table that each comes from."""

    X: Any
    y: np.ndarray
    labels: np.ndarray
    source: np.ndarray
    group: np.ndarray | None = None  # of each observation
    in_time: bool = False

    @classmethod
    def read(cls, model: Any, X: Any, y: Any, task: Any, groups: Any, in_time: bool) -> _Rows:
        found = cls._observations(model, X, y, task)
        n_rows = X.shape[0]
        group = None if groups is None else group_codes(groups, n_rows)[found.source]
        return replace(found, group=group, in_time=in_time)

    @classmethod
    def _observations(cls, model: Any, X: Any, y: Any, task: Any) -> _Rows:
        X, labels, name = inputs.take_task_column(X, task, model.task_column)
        X, names = model._read_design(X, labels, reset=False)
        X = _without_gaps(model, X)
        check_finite_design(X, feature_names=names)
        n_rows = X.shape[0]
        source = np.arange(n_rows)
        if inputs.n_dimensions(y) == 2 and labels is None:
            values = inputs.matrix_values(y)
            if values.shape[1] != len(model.tasks_):
                raise ValueError(
                    f"y has {values.shape[1]} columns, but the model has {len(model.tasks_)} tasks: pass one "
                    "column for each, NaN where it was not observed."
                )
            column, source = np.nonzero(values.T == values.T)  # NaN differs from itself
            return cls(X[source], values[source, column], model.tasks_[column], source)
        y = inputs.single_column(y) if inputs.n_dimensions(y) == 2 else np.asarray(y)
        check_length("y", len(y), n_rows)
        if labels is None:
            labels = model.tasks_[model._only_task(n_rows)]
        labels = check_task_labels(labels, n_rows, name=name)
        return cls(X, y, labels, source)

    @property
    def has_several_targets(self) -> bool:
        """Whether rows of the table have a target in several tasks."""
        return len(np.unique(self.source)) < len(self.source)

    def select(self, rows: np.ndarray) -> _Rows:
        """Some of the rows."""
        group = None if self.group is None else self.group[rows]
        return _Rows(self.X[rows], self.y[rows], self.labels[rows], self.source[rows], group, self.in_time)

    def folds(self, stratify: bool) -> list[Fold]:
        """Folds of the table: several targets of one row are held out together, and so are groups."""
        splitter: TaskSplitter = TaskKFold(N_FOLDS, random_state=0, stratify=stratify)
        if self.in_time:
            splitter = TaskTimeSplit(N_FOLDS, stratify=stratify)
        group = None if self.group is None else np.unique(self.group, return_inverse=True)[1]
        if not self.has_several_targets:
            return list(splitter.parts(len(self.y), self.y, self.labels, group))
        units, source = np.unique(self.source, return_inverse=True)
        columns, observation_task = np.unique(self.labels, return_inverse=True)
        matrix = np.full((len(units), len(columns)), np.nan)
        matrix[source, observation_task] = np.unique(self.y, return_inverse=True)[1]
        of_unit = None if group is None else group[np.unique(source, return_index=True)[1]]
        splits = splitter.parts(len(matrix), matrix, None, of_unit)
        return [
            (np.flatnonzero(np.isin(source, train)), np.flatnonzero(np.isin(source, test)))
            for train, test in splits
        ]

    def scores(self, response: np.ndarray, metric: str) -> dict[Any, float]:
        """Score of each task over the rows that have a response; none where the target is constant."""
        known = ~np.isnan(response)
        # tasks without a score are told in the report
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            scores = per_task_scores(self.y[known], response[known], self.labels[known], metric)
        values = set(zip(self.labels.tolist(), self.y.tolist(), strict=True))
        varied = {label for label, n in Counter(label for label, _ in values).items() if n > 1}
        return {label: value for label, value in scores.items() if math.isfinite(value) and label in varied}

    def shares(
        self, response: np.ndarray, second: Any
    ) -> tuple[dict[str, dict[Any, float]], tuple[float, float]]:
        """How many rows of each task the response gets right, and how many the commoner class; and of all."""
        known = ~np.isnan(response)
        found: dict[str, dict[Any, float]] = {"accuracy": {}, "base_rate": {}}
        sizes = Counter(self.labels[known].tolist())
        for label in sizes:
            mine = known & (self.labels == label)
            is_second = self.y[mine] == second
            found["accuracy"][label] = float(np.mean((response[mine] > 0) == is_second))
            found["base_rate"][label] = float(max(is_second.mean(), 1.0 - is_second.mean()))
        right, common = (sum(n * share[t] for t, n in sizes.items()) for share in found.values())
        return found, (right / sizes.total(), common / sizes.total())

    def errors(self, responses: dict[str, np.ndarray], model: Any) -> HeldOutErrors:
        """Errors of held-out rows and their tasks, by model."""
        labels, observation_task = np.unique(self.labels, return_inverse=True)
        known = ~np.isnan(responses["own"])
        task, n_tasks = observation_task[known], len(labels)
        second = (self.y == model.classes_[1])[known] if is_classifier(model) else None
        y = np.asarray(self.y, dtype=float)[known] if second is None else np.empty(0)
        rows = {
            who: paired.relative_errors(y, response[known], task, paired.task_spread(y, task))
            if second is None
            else paired.class_errors(second, response[known], task)
            for who, response in responses.items()
        }
        return HeldOutErrors(
            "r2" if second is None else "auc",
            {who: paired.errors_by_task(errors, task, n_tasks, second) for who, errors in rows.items()},
            np.bincount(task, minlength=n_tasks),
            rows,
            task,
            second,
        )


# -- models --------------------------------------------------------------------------------------------------


def _respond(model: Any, X: Any, labels: np.ndarray) -> np.ndarray:
    """Predictions, or log odds for classes: what the metric scores."""
    return model._predict_at(X, inputs.locate_tasks(labels, model.tasks_, unknown=model.unknown_task))


def _held_out(model: Any, rows: _Rows, strength: str) -> dict[str, np.ndarray]:
    """Responses of the three models to rows they were not fitted on; NaN for rows that are never held out."""
    out = {who: np.full(len(rows.y), np.nan) for who in ("own", *ALTERNATIVES)}
    inner = model._fitted()
    classify = is_classifier(inner)
    kept = np.arange(len(rows.y))
    if classify:  # rows of tasks in which a model of classes can be fitted
        several = [label for label in np.unique(rows.labels) if len(set(rows.y[rows.labels == label])) > 1]
        kept = np.flatnonzero(np.isin(rows.labels, several))
    rows = rows.select(kept)
    unfitted = _searched_again(model) if strength == "tuned" else _with_settings_of(inner)
    # a held-out score does not see the last digits, and what is told of the data was told by the fit
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        for train, test in rows.folds(classify):
            part, asked = rows.select(train), rows.select(test)
            folds = part.folds(classify)  # the same for all, inside the training part
            tuning = {"cv": folds} if strength == "tuned" else {}
            own = clone(unfitted).set_params(**tuning).fit(part.X, part.y, task=part.labels)
            out["own"][kept[test]] = _respond(own._fitted(), asked.X, asked.labels)
            out["separate"][kept[test]] = _respond(_best_single(inner, part, folds), asked.X, asked.labels)
            out["pooled"][kept[test]] = _pooled_response(inner, part, folds, asked)
    return out


def _searched_again(model: Any) -> Any:
    """The unfitted search with a coarser grid, in this process and without output."""
    search = clone(model)
    if isinstance(model, TwoStrengthCV):
        quiet = {"estimator__task_column": None, "estimator__verbose": 0}
        return search.set_params(strengths=_coarse(model.strengths, N_PAIRS), n_jobs=None, **quiet)
    alone = {"engine": None, "checkpoint": None, "n_jobs": None, "task_column": None, "verbose": 0}
    options = {name: value for name, value in alone.items() if name in search.get_params(deep=False)}
    return search.set_params(alphas=_coarse(model.alphas, N_STRENGTHS), **options)


def _coarse(values: Any, most: int) -> Any:
    """At most `most` strengths, from a number of them, a list, or a pair of either."""
    if isinstance(values, Integral):
        return min(int(values), most)
    if len(values) == 2 and most == N_PAIRS and not all(isinstance(value, float) for value in values):
        return tuple(_coarse(value, most) for value in values)
    return np.sort(values)[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))]


def _with_settings_of(model: Any) -> Any:
    """An unfitted model at the strengths that this one has; a search is not made again."""
    if isinstance(model, TaskSearch) and not isinstance(model, single_task.SingleTaskSearch):
        model = model._chosen_model()
    return clone(model).set_params(task_column=None, verbose=0)


def _best_single(model: Any, rows: _Rows, folds: list[Fold]) -> Any:
    """The better of ridge and lasso, on each task alone."""
    Search = single_task.SingleTaskClassifierCV if is_classifier(model) else single_task.SingleTaskRegressorCV
    names = ("fit_intercept", "standardize", "scale_targets", "on_degenerate_task")
    options = {name: getattr(model, name) for name in names if hasattr(model, name)}

    def search(p: int) -> tuple[float, Any]:
        ratio = {2: 1e-5, 1: 1e-2}[p]
        found = Search(p, alphas=12, alpha_ratio=ratio, cv=folds, tol=1e-4, **options)
        found.fit(rows.X, rows.y, task=rows.labels)
        return found.best_score_, found

    return single_task.better_of_ridge_and_lasso(search)


def _pooled_response(model: Any, rows: _Rows, folds: list[Fold], asked: _Rows) -> np.ndarray:
    """What one model for all tasks, fitted on some rows, says of others."""
    classify = is_classifier(model)
    labels, observation_task = np.unique(rows.labels, return_inverse=True)
    y = rows.y == model.classes_[1] if classify else rows.y
    options = {"classify": classify, "standardize": model.standardize, "fit_intercept": model.fit_intercept}
    # one column of targets is in one unit, several are not
    options["scale_tasks"] = getattr(model, "scale_targets", False) and rows.has_several_targets
    pooled = fit_pooled(rows.X, y, observation_task, folds, **options, n_strengths=12)
    return pooled.decision(asked.X, np.searchsorted(labels, asked.labels))
