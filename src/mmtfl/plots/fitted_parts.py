"""A fitted model as arrays, under the same names for every kind of model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.inputs import matrix_values, n_dimensions, take_task_column
from mmtfl.estimators.usage import KINDS, feature_use
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.scaling import column_spread, target_spread

_SIZES = {
    "c": "c, the part common to all tasks",
    "size": "size of the coefficients (sum over tasks)",
}


@dataclass(frozen=True)
class Learned:
    """A fitted model as arrays.

    Attributes
    ----------
    A : ndarray of shape (n_features, n_tasks)
        Coefficients.
    features, tasks : ndarray
        Names of the features, labels of the tasks.
    counts : ndarray of shape (n_tasks,)
        Which tasks count as users of a feature: all but those that the model sets apart.
    n_using : ndarray of shape (n_features,)
        How many of these tasks use each feature.
    kind : ndarray of shape (n_features,)
        Position of each feature's kind in the KINDS of the summary.
    size : ndarray of shape (n_features,)
        How large each feature is, as the model's summary has it; of two parts, the sum.
    size_label : str
        What the size is, in words.
    """

    A: np.ndarray
    features: np.ndarray
    tasks: np.ndarray
    counts: np.ndarray
    n_using: np.ndarray
    kind: np.ndarray
    size: np.ndarray
    size_label: str

    @property
    def uses(self) -> np.ndarray:
        """Which feature is used by which task, (n_features, n_tasks)."""
        return self.A != 0.0


def learned(model: Any) -> Learned:
    """Read a fitted model; a search is read through the model it chose."""
    model = fitted(model)
    names = np.array(model._feature_names(), dtype=object)
    use = feature_use(model)
    kind = np.array([KINDS.index(word) for word in use.kind.tolist()])
    sizes = model._sizes()
    size = np.sum(list(sizes.values()), axis=0)
    label = _SIZES.get(" + ".join(sizes), f"size of the {' + '.join(sizes)} parts")
    if "c" in sizes and getattr(model, "best_k_", getattr(model, "k", None)) == np.inf:
        # tasks are fitted apart, and c is one for every feature that is kept
        size, label = np.linalg.norm(model.coef_, axis=0), "size of the coefficients (norm over tasks)"
    return Learned(model.coef_.T, names, model.tasks_, model._counted(), use.n_tasks, kind, size, label)


def fitted(model: Any) -> TaskModel:
    """The fitted model of mmtfl in a search, or the model itself; anything else is refused."""
    inner = model
    while not isinstance(inner, TaskModel) and hasattr(inner, "best_estimator_"):
        inner = inner.best_estimator_
    if not isinstance(inner, TaskModel):
        if hasattr(inner, "estimator"):
            check_is_fitted(inner)
        raise TypeError(
            f"{type(model).__name__} is not a model of mmtfl: pass an MMTFL, Dirty, Robust, LowRank, Capped "
            "or SingleTask model, fitted (of a pipeline, its last step: pipeline[-1])."
        )
    check_is_fitted(inner)
    return inner


def spreads(model: Any, X: Any, y: Any = None, task: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Standard deviation of each feature over all rows, and of each task's target (one without y)."""
    model = fitted(model)
    if y is None:
        X = model._read_design(take_task_column(X, task, model.task_column)[0], reset=False)[0]
        return column_spread(Tasks.from_rows(X, np.zeros(X.shape[0]))), np.ones(len(model.tasks_))
    X, _, labels = model._locate(X, task)
    if n_dimensions(y) == 2 and labels is None:
        data = Tasks.from_shared(X, matrix_values(y), labels=model.tasks_)
    else:
        data = Tasks.from_rows(X, np.asarray(y, dtype=float).ravel(), labels)
    if labels is None:
        return column_spread(data), target_spread(data)
    found = dict(zip(data.labels.tolist(), target_spread(data).tolist(), strict=True))
    missing = [label for label in model.tasks_.tolist() if label not in found]
    if missing:
        raise ValueError(
            f"Task {missing[0]!r} has no rows here, so the spread of its target is not known: pass rows of "
            f"all {len(model.tasks_)} tasks, or leave y out."
        )
    return column_spread(data), np.array([found[label] for label in model.tasks_.tolist()])
