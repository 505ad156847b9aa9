"""Scores task by task, and their mean: what ``score`` of the estimators and ``task_scorer`` stand on.

Whether a task is scored depends on its true targets alone, never on the predictions, so that models
compared on the same rows are averaged over the same tasks.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn import metrics as skm

from mmtfl.tasks.checks import check_length, check_task_labels, n_classes
from mmtfl.tasks.frames import is_frame
from mmtfl.wording import abbreviate, suggest

FEW_ROWS = 5  # tasks with fewer held-out rows have scores that say little: they stay out of headlines
ALIASES = {"auc": "roc_auc"}

# undefined, or a mere convention, where the truth has one class only
_NEED_BOTH_CLASSES = (
    skm.average_precision_score,
    skm.balanced_accuracy_score,
    skm.f1_score,
    skm.fbeta_score,
    skm.jaccard_score,
    skm.matthews_corrcoef,
    skm.precision_score,
    skm.recall_score,
    skm.roc_auc_score,
)


@dataclass(frozen=True)
class Metric:
    """A score of predictions, greater is better, and the estimator methods that can feed it."""

    name: str
    function: Callable[..., Any]
    sign: int = 1
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    responses: tuple[str, ...] = ("predict",)

    def value(self, y_true: np.ndarray, y_pred: np.ndarray, weights: np.ndarray | None = None) -> float:
        """Score of one task; rows count by their weights where the function takes them."""
        options = dict(self.kwargs)
        if weights is not None and _takes(self.function, "sample_weight"):
            options["sample_weight"] = weights
        return self.sign * float(self.function(y_true, y_pred, **options))

    @property
    def kind(self) -> str | None:
        """What scikit-learn's own metrics are for, "numbers" or "classes"; None for others."""
        module = str(getattr(self.function, "__module__", ""))
        kinds = {"_regression": "numbers", "_classification": "classes", "_ranking": "classes"}
        return kinds.get(module.removeprefix("sklearn.metrics."))

    def about(self, label: Any) -> Metric:
        """The same metric of one class, unless it names a class itself or is not about one."""
        of_one = self.kwargs.get("average", "binary") == "binary" and _takes(self.function, "pos_label")
        if self.kind != "classes" or "pos_label" in self.kwargs or not of_one:
            return self
        return replace(self, kwargs={**self.kwargs, "pos_label": label})

    def with_classes(self, classes: Any) -> Metric:
        """The same metric with all classes named: log loss cannot infer them from a task that has one."""
        if (
            "predict_proba" not in self.responses
            or not _takes(self.function, "labels")
            or "labels" in self.kwargs
        ):
            return self
        return replace(self, kwargs={**self.kwargs, "labels": classes})


def as_metric(metric: Any) -> Metric:
    """Turn a name, a function or a scorer into a `Metric`.

    Parameters
    ----------
    metric : str, callable or Metric
        A name of scikit-learn's scorers (``"r2"``, ``"neg_mean_squared_error"``, ...; ``"auc"`` is
        ``"roc_auc"``), a function
        ``metric(y_true, y_pred)``, or what ``sklearn.metrics.make_scorer`` returns.

    Returns
    -------
    Metric
        Its function, sign and options, and the estimator methods it wants.

    Examples
    --------
    >>> from mmtfl.model_selection.metrics import as_metric
    >>> as_metric("neg_mean_squared_error").value([1.0, 3.0], [1.0, 1.0])
    -2.0
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        name = ALIASES.get(metric, metric)
        return _from_scorer(_named_scorer(name), name)
    if hasattr(metric, "_score_func"):
        return _from_scorer(metric, getattr(metric._score_func, "__name__", repr(metric)))
    if callable(metric):
        return Metric(getattr(metric, "__name__", repr(metric)), metric)
    raise TypeError(
        f"metric={metric!r} is neither a name nor a function: give a name of "
        "sklearn.metrics.get_scorer_names(), or a function metric(y_true, y_pred)."
    )


def per_task_scores(
    y_true: Any, y_pred: Any, task: Any = None, metric: Any = "r2", sample_weight: Any = None
) -> dict[Any, float]:
    """Score of each task.

    Parameters
    ----------
    y_true : array-like of shape (n,) or (n, T)
        True targets. With two dimensions each column is a task, and NaN was not observed.
    y_pred : array-like of the shape of y_true
        What the metric is made for: predictions, decision values, or probabilities of the second class.
    task : array-like of shape (n,), default=None
        Task label of each row. None: one task labelled 0, or one for each column.
    metric : str or callable, default="r2"
        A name of scikit-learn's scorers, a function ``metric(y_true, y_pred)``, or what ``make_scorer``
        returns.
    sample_weight : array-like of shape (n,) or (n, T), default=None
        Weights of the rows, for metrics that take any; rows of weight zero are left out of all.

    Returns
    -------
    dict
        Label of the task (or name or number of the column) to score. A task with fewer than two rows, or
        with one class where the metric compares two, has no score: it is NaN, and a warning names it.

    Examples
    --------
    >>> from mmtfl.model_selection import per_task_scores
    >>> task = ["a", "a", "b", "b"]
    >>> per_task_scores([1.0, 2.0, 3.0, 5.0], [1.0, 2.0, 4.0, 4.0], task)
    {'a': 1.0, 'b': 0.0}
    >>> per_task_scores([0, 1, 1, 0], [0, 1, 1, 1], task, metric="accuracy")
    {'a': 1.0, 'b': 0.5}
    """
    metric = as_metric(metric)
    groups = _group(y_true, y_pred, task, sample_weight)
    if groups.is_single:
        return {0: _single_score(groups, metric)}
    scores, _ = _scores(groups, metric)
    return dict(zip(groups.labels, scores.tolist(), strict=True))


def mean_task_score(
    y_true: Any, y_pred: Any, task: Any = None, metric: Any = "r2", sample_weight: Any = None
) -> float:
    """Mean over tasks of each task's score.

    Tasks with fewer than two rows, or with one class where the metric compares two, are left out, and a
    warning names them; NaN if none is left. Without labels and with one column it is the plain metric.

    Parameters
    ----------
    y_true, y_pred, task, metric, sample_weight
        As in :func:`per_task_scores`.

    Returns
    -------
    float
        The mean.

    Examples
    --------
    >>> from mmtfl.model_selection.metrics import mean_task_score
    >>> mean_task_score([1.0, 2.0, 3.0, 5.0], [1.0, 2.0, 4.0, 4.0], ["a", "a", "b", "b"])
    0.5
    """
    metric = as_metric(metric)
    groups = _group(y_true, y_pred, task, sample_weight)
    if groups.is_single:
        return _single_score(groups, metric)
    scores, scored = _scores(groups, metric)
    return float(scores[scored].mean()) if scored.any() else float("nan")


def pooled_score(y_true: Any, y_pred: Any, metric: Any = "r2", sample_weight: Any = None) -> float:
    """Score over all rows (and all observed entries of all columns) at once, whatever their task.

    Parameters
    ----------
    y_true, y_pred, metric, sample_weight
        As in :func:`per_task_scores`.

    Returns
    -------
    float
        The score.

    Examples
    --------
    >>> from mmtfl.model_selection.metrics import pooled_score
    >>> round(pooled_score([1.0, 2.0, 3.0, 5.0], [1.0, 2.0, 4.0, 4.0]), 3)
    0.771
    """
    return _single_score(_group(y_true, y_pred, None, sample_weight), as_metric(metric))


# -- metrics ---------------------------------------------------------------------------------------------


def _named_scorer(name: str) -> Any:
    known = skm.get_scorer_names()
    if name not in known:
        hint = suggest(name.lower(), [*known, *ALIASES], "names")
        raise ValueError(f"metric={name!r} is not a name of scikit-learn's scorers{hint}")
    return skm.get_scorer(name)


def _from_scorer(scorer: Any, name: str) -> Metric:
    responses = scorer._response_method
    kwargs = dict(scorer._kwargs)
    if _takes(scorer._score_func, "zero_division"):
        # the value scikit-learn falls back to, without one warning per task
        kwargs.setdefault("zero_division", 0.0)
    return Metric(
        name,
        _r2 if scorer._score_func is skm.r2_score else scorer._score_func,
        scorer._sign,
        kwargs,
        (responses,) if isinstance(responses, str) else tuple(responses),
    )


def _r2(y_true: np.ndarray, y_pred: np.ndarray, *, sample_weight: np.ndarray | None = None) -> float:
    """R^2, whatever rounding does to the mean of a constant target: 1 if it is met exactly, else 0."""
    if y_true.dtype.kind == "f" and np.all(y_true == y_true[0]):
        y_true, y_pred = y_true - y_true[0], y_pred - y_true[0]
    return skm.r2_score(y_true, y_pred, sample_weight=sample_weight)


_r2.__module__ = skm.r2_score.__module__  # it is a metric of numbers


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some compiled functions have no signature
        return False


# -- tasks -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Groups:
    """Observations; the task of entry i of y_true and y_pred is ``labels[observation_task[i]]``."""

    y_true: np.ndarray
    y_pred: np.ndarray
    observation_task: np.ndarray
    labels: list[Any]
    weights: np.ndarray | None
    is_single: bool = False

    @property
    def sizes(self) -> np.ndarray:
        return np.bincount(self.observation_task, minlength=len(self.labels))


def _group(y_true: Any, y_pred: Any, task: Any, weights: Any) -> _Groups:
    names = list(nw.from_native(y_true, eager_only=True).columns) if is_frame(y_true) else None
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    check_length("y_pred", len(y_pred), len(y_true), of="y_true")
    if y_true.ndim not in (1, 2):
        raise ValueError(f"y_true has shape {y_true.shape}: expected one or two dimensions.")
    weights = None if weights is None else np.asarray(weights)
    if y_true.ndim == 2:
        return _group_columns(y_true, y_pred, task, names, weights)
    if y_pred.ndim == 2 and y_pred.shape[1] == 1:
        y_pred = y_pred[:, 0]
    labels, own = np.array([0]), np.zeros(len(y_true), dtype=np.intp)
    if task is not None:
        labels, own = np.unique(check_task_labels(task, len(y_true)), return_inverse=True)
    seen: Any = slice(None) if weights is None else weights > 0.0
    weights = None if weights is None else weights[seen]
    return _Groups(y_true[seen], y_pred[seen], own[seen], labels.tolist(), weights, task is None)


def _group_columns(y_true, y_pred, task, names, weights) -> _Groups:
    if task is not None:
        raise ValueError(
            f"y_true has {y_true.shape[1]} columns, one for each task, and task is given too: "
            "pass task=None, or stack the columns and pass one label per row."
        )
    if y_pred.size != y_true.size:
        raise ValueError(f"y_pred has shape {y_pred.shape}, but y_true {y_true.shape}: they must be equal.")
    y_pred, seen = y_pred.reshape(y_true.shape), y_true == y_true  # NaN differs from itself
    if weights is not None:
        weights = np.broadcast_to(weights if weights.ndim == 2 else weights[:, None], y_true.shape)
        seen = seen & (weights > 0.0)
    columns, rows = np.nonzero(seen.T)
    weights = None if weights is None else weights[rows, columns]
    labels = names or list(range(y_true.shape[1]))
    return _Groups(y_true[rows, columns], y_pred[rows, columns], columns, labels, weights)


# -- scores ----------------------------------------------------------------------------------------------


def _scores(groups: _Groups, metric: Metric) -> tuple[np.ndarray, np.ndarray]:
    """Score of each task, NaN where it has none, and whether it has one."""
    few = groups.sizes < 2
    alone = np.zeros_like(few)
    if metric.function in _NEED_BOTH_CLASSES:
        alone = ~few & (n_classes(groups.y_true, groups.observation_task, len(groups.labels)) < 2)
    _warn_left_out(groups.labels, few, alone, metric.name)
    scored, scores = ~(few | alone), np.full(len(few), np.nan)
    metric = metric.with_classes(np.unique(groups.y_true)) if "predict_proba" in metric.responses else metric
    order = np.argsort(groups.observation_task, kind="stable")
    parts = np.split(order, np.cumsum(groups.sizes)[:-1])
    for t in np.flatnonzero(scored):
        try:
            scores[t] = _value(groups, metric, parts[t])
        except ValueError as error:
            message = f"metric {metric.name!r} failed on task {groups.labels[t]!r}: {error}"
            raise ValueError(message) from error
    return scores, scored


def _single_score(groups: _Groups, metric: Metric) -> float:
    return _value(groups, metric.with_classes(np.unique(groups.y_true)), slice(None))


def _value(groups: _Groups, metric: Metric, rows: Any) -> float:
    weights = None if groups.weights is None else groups.weights[rows]
    return metric.value(groups.y_true[rows], groups.y_pred[rows], weights)


def _warn_left_out(labels: list[Any], few: np.ndarray, alone: np.ndarray, name: str) -> None:
    reasons = [
        f"task{'s' * (len(left) > 1)} {abbreviate(left)} ({reason})"
        for mask, reason in ((few, "fewer than two rows"), (alone, "one class only"))
        if (left := [labels[t] for t in np.flatnonzero(mask)])
    ]
    if reasons:
        warnings.warn(
            f"Left out of the {name!r} scores by task: {'; '.join(reasons)}. "
            "Score on more rows of these tasks, or pool the rows of all tasks.",
            UserWarning,
            stacklevel=4,
        )
