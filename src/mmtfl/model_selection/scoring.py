"""A scorer that knows tasks, for every scikit-learn tool that takes ``scoring=``; scores on unseen tasks."""

from __future__ import annotations

import inspect
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, LeaveOneGroupOut
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object
from sklearn.utils.validation import _num_samples

from mmtfl.model_selection.metrics import Metric, as_metric, mean_task_score, per_task_scores, pooled_score
from mmtfl.tasks.checks import check_task_labels

AVERAGES = ("macro", "pooled")


def task_scorer(metric: Any = "r2", *, average: str = "macro") -> TaskScorer:
    """Make a scorer that scores task by task.

    The scorer is called as ``scorer(estimator, X, y, task=None)`` and returns a float. It asks for ``task``
    by itself, so with metadata routing enabled it can be passed as ``scoring=`` without further ado. It
    finds the tasks in ``task``; else in the column that the estimator's ``task_column`` names; else in the
    columns of a two-dimensional ``y``. Estimators that know no tasks can be scored too: each row's
    prediction counts for the task of that row.

    Parameters
    ----------
    metric : str or callable, default="r2"
        A name of scikit-learn's scorers such as ``"r2"``, ``"accuracy"``, ``"roc_auc"`` (or ``"auc"``),
        ``"f1"``, ``"neg_log_loss"``; a function ``metric(y_true, y_pred)`` of the predictions where greater
        is better; or what ``sklearn.metrics.make_scorer`` returns.
    average : {"macro", "pooled"}, default="macro"
        ``"macro"``: the mean of the scores of the tasks. Tasks with fewer than two rows, or with one class
        where the metric compares two, are left out with a warning that names them; NaN if none is left.
        ``"pooled"``: the score of all rows at once, whatever their task.

    Returns
    -------
    callable
        ``scorer(estimator, X, y, task=None) -> float``.

    See Also
    --------
    per_task_scores : The scores of the single tasks.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.model_selection import task_scorer
    >>> data = make_tasks(3, 50, 10, n_informative=5, random_state=0)
    >>> pooled_model = Ridge().fit(data.X, data.y)
    >>> scorer = task_scorer("r2")
    >>> scorer
    task_scorer('r2', average='macro')
    >>> round(scorer(pooled_model, data.X, data.y, task=data.task), 2)
    0.37
    """
    if average not in AVERAGES:
        raise ValueError(
            f"average={average!r} is unknown: choose 'macro' or 'pooled'; "
            "for the scores of the single tasks call per_task_scores."
        )
    _check_arguments(metric)
    resolved = as_metric(metric)
    _check_direction(metric, resolved)
    return TaskScorer(resolved, average)


def _check_arguments(metric: Any) -> None:
    """Refuse a function of an estimator: a search scores predictions."""
    if not callable(metric) or hasattr(metric, "_score_func"):
        return
    try:
        parameters = inspect.signature(metric).parameters
    except (TypeError, ValueError):  # some compiled functions have no signature
        return
    positional = [p for p in parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if sum(p.default is p.empty for p in positional) > 2 or next(iter(parameters), "") == "estimator":
        raise TypeError(
            f"{getattr(metric, '__name__', repr(metric))}({', '.join(parameters)}) is not a metric of two "
            "arguments: a search predicts held-out rows itself. Give a name such as 'r2', a function "
            "metric(y_true, y_pred), or task_scorer(metric, average='pooled') of one."
        )


def _check_direction(metric: Any, resolved: Metric) -> None:
    """Refuse a bare loss function of scikit-learn, whose maximum is the worst model."""
    bare = inspect.isfunction(metric) and metric.__module__.startswith("sklearn.metrics")
    if bare and resolved.name.endswith(("_error", "_loss", "_deviance")):
        raise ValueError(
            f"metric={resolved.name} is a loss, smaller is better, but scorers are maximised: use its 'neg_' "
            f"name, or sklearn.metrics.make_scorer({resolved.name}, greater_is_better=False)."
        )


class TaskScorer:
    """What `task_scorer` makes: a metric, and how the tasks' scores become one."""

    def __init__(self, metric: Metric, average: str) -> None:
        self.metric, self.average = metric, average

    def __repr__(self) -> str:
        return f"task_scorer({self.metric.name!r}, average={self.average!r})"

    def __call__(self, estimator: Any, X: Any, y: Any, task: Any = None) -> float:
        estimator = getattr(estimator, "best_estimator_", estimator)
        metric, y_pred = _respond(estimator, X, y, task, self.metric)
        if self.average == "pooled":
            return pooled_score(y, y_pred, metric)
        return mean_task_score(y, y_pred, _labels(estimator, X, task), metric)

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask for ``task``, so that nobody has to call ``set_score_request``."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="task", alias=True)
        return request

    def _accept_sample_weight(self) -> bool:  # asked by scikit-learn's searches
        return False


# -- what the estimator says about X ---------------------------------------------------------------------


def _labels(estimator: Any, X: Any, task: Any) -> Any:
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    column = getattr(last, "task_column", None)
    if task is not None or column is None:
        return task
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame) or column not in frame.columns:
        raise ValueError(
            f"task_column={column!r} names no column of X ({type(X).__name__}): pass a frame that has it."
        )
    return frame.get_column(column).to_native()


def _respond(estimator: Any, X: Any, y: Any, task: Any, metric: Metric) -> tuple[Metric, Any]:
    """The metric, told the estimator's classes, and what it is fed with."""
    response = next((name for name in metric.responses if hasattr(estimator, name)), None)
    if response is None:
        raise TypeError(
            f"metric {metric.name!r} needs {' or '.join(metric.responses)}, which {type(estimator).__name__} "
            "does not have: choose another metric, or another estimator."
        )
    method = getattr(estimator, response)
    values = (
        method(X, task=task) if task is not None and _wants_task(estimator, method, response) else method(X)
    )
    if response == "predict":
        return metric, values
    classes = _classes(estimator)
    if response == "predict_proba":
        metric = metric if classes is None else metric.with_classes(classes)
        return metric, _positive_probability(values, y, classes, metric)
    return metric, -values if _positive_class(classes, metric) == 0 else values


def _wants_task(estimator: Any, method: Any, name: str) -> bool:
    parameters = inspect.signature(method).parameters
    if "task" in parameters:
        return True
    forwards = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return forwards and "task" in get_routing_for_object(estimator).consumes(name, ["task"])


def _classes(estimator: Any) -> np.ndarray | None:
    """The classes of a classifier, unless each task has its own."""
    classes = getattr(estimator, "classes_", None)
    return classes if isinstance(classes, np.ndarray) and classes.ndim == 1 else None


def _positive_class(classes: np.ndarray | None, metric: Metric) -> int:
    """Position of the class the metric is about: the last one, unless it names another."""
    wanted = metric.kwargs.get("pos_label")
    if wanted is None or classes is None:
        return -1
    return classes.tolist().index(wanted) if len(classes) == 2 else -1


def _positive_probability(values: Any, y: Any, classes: np.ndarray | None, metric: Metric) -> np.ndarray:
    """Probability of the positive class, one column per task where y has several."""
    if np.ndim(y) == 2:
        if isinstance(values, list):  # scikit-learn's way with several targets
            return np.column_stack([column[:, -1] for column in values])
        return values[..., -1] if values.ndim == 3 else values
    return values[:, _positive_class(classes, metric)] if values.shape[1] == 2 else values


# -- tasks that the fit has not seen -------------------------------------------------------------------------


def leave_task_out_scores(
    estimator: Any, X: Any, y: Any, task: Any, *, metric: Any = None, cv: BaseCrossValidator | None = None
) -> dict[str, np.ndarray]:
    """Score every task by a fit that has not seen it: what to expect of the next task.

    Parameters
    ----------
    estimator : estimator of mmtfl
        With ``unknown_task="mean"`` or "common"; it is cloned and fitted once per fold.
    X : array-like, sparse matrix or frame of shape (n_rows, n_features)
        Rows of all tasks.
    y : array-like of shape (n_rows,)
        Targets.
    task : array-like of shape (n_rows,)
        Task label of each row; also where the estimator has a ``task_column``.
    metric : str or callable, optional
        As in ``task_scorer``; None is R^2, or accuracy for classifiers.
    cv : splitter of scikit-learn, optional
        How tasks are left out, with the tasks as groups; None is ``LeaveOneGroupOut()``, one at a time, and
        ``GroupKFold(10)`` leaves out a tenth of them.

    Returns
    -------
    table : dict of ndarrays
        One row per task, ready for a frame: task, n_rows and score. R^2 is beside the mean of the task
        itself, which a model that has not seen the task does not know: it is often negative where intercepts
        differ.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.model_selection import leave_task_out_scores
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X @ [2.0, -1.0, 0.0] + 0.1 * rng.normal(size=90)
    >>> model = MMTFLRegressor(p=2, k=2, alpha=0.01, pooling=0.9, unknown_task="common")
    >>> table = leave_task_out_scores(model, X, y, task)
    >>> table["task"].tolist(), bool(table["score"].min() > 0.97)
    (['a', 'b', 'c'], True)
    """
    if getattr(estimator, "unknown_task", None) == "error":
        raise ValueError(
            "The estimator refuses tasks it has not seen: set unknown_task='common' (with pooling) or 'mean'."
        )
    labels = check_task_labels(task, _num_samples(X))
    in_column = getattr(estimator, "task_column", None) is not None
    y = np.asarray(y)
    predicted = np.empty(len(labels), dtype=y.dtype if y.dtype.kind in "UO" else float)
    for train, test in (cv or LeaveOneGroupOut()).split(X, y, labels):
        known, new = ({} if in_column else {"task": labels[rows]} for rows in (train, test))
        model = clone(estimator).fit(_safe_indexing(X, train), y[train], **known)
        predicted[test] = model.predict(_safe_indexing(X, test), **new)
    scores = per_task_scores(y, predicted, labels, estimator._metric if metric is None else metric)
    tasks, sizes = np.unique(labels, return_counts=True)
    return {"task": tasks, "n_rows": sizes, "score": np.array([scores[label] for label in tasks.tolist()])}
