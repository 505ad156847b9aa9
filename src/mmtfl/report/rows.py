"""Rows with targets as models are compared on them: all tasks as one list, with folds and predictions."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.base import is_classifier

from mmtfl.estimators import inputs
from mmtfl.model_selection.folds import group_codes
from mmtfl.model_selection.splitting import TaskKFold, TaskSplitter, TaskTimeSplit
from mmtfl.report.judging import HeldOut
from mmtfl.tasks.checks import check_finite_design, check_length, check_task_labels
from mmtfl.tasks.frames import make_frame

Fold = tuple[np.ndarray, np.ndarray]
N_FOLDS = 3


def kind_of_targets(model: Any) -> str | None:
    """Numbers, classes or counts; None where tasks differ, or where the loss is another one."""
    if is_classifier(model):
        return "classes"
    if model._loss.on_residuals:
        return "numbers"
    return "counts" if getattr(model._loss, "name", None) == "poisson" else None


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
class Rows:
    """Observations of all tasks as one list, and the row of the table that each comes from.

    Attributes
    ----------
    X, y, labels : array-like
        Features, targets and task labels as an estimator takes them.
    value : ndarray (n,)
        Targets as numbers: 0 and 1 for classes.
    task : ndarray (n,) of int
        Position of the task of each observation.
    source : ndarray (n,) of int
        Its row of the table.
    kind : {"numbers", "classes", "counts"} or None
        What the targets are; None for losses that scikit-learn has no models for.
    """

    X: Any
    y: np.ndarray
    value: np.ndarray
    task: np.ndarray
    labels: np.ndarray
    source: np.ndarray
    kind: str | None
    names: tuple[str, ...] | None = None
    group: np.ndarray | None = None
    in_time: bool = False
    offset: np.ndarray | None = None
    backend: str | None = None

    @classmethod
    def of_model(cls, model: Any, X: Any, y: Any, task: Any = None, **structure: Any) -> Rows:
        """Rows as a fitted model reads them; their structure is as in `of_table`."""
        X, labels, name = inputs.take_task_column(X, task, model.task_column)
        X, names = model._read_design(X, labels, reset=False)
        X = _without_gaps(model, X)
        check_finite_design(X, feature_names=names)
        n_rows, position = X.shape[0], None
        if inputs.n_dimensions(y) != 2 or labels is not None:
            y = inputs.single_column(y) if inputs.n_dimensions(y) == 2 else np.asarray(y)
            check_length("y", len(y), n_rows)
            if labels is None:
                labels = model.tasks_[model._only_task(n_rows)]
            labels = check_task_labels(labels, n_rows, name=name)
            position = inputs.locate_tasks(labels, model.tasks_, unknown="error")
        return cls.of_table(
            X,
            y,
            position,
            model.tasks_,
            kind=kind_of_targets(model),
            classes=model.classes_ if is_classifier(model) else None,
            names=getattr(model, "feature_names_in_", names),
            backend=getattr(model, "_backend", None),
            **structure,
        )

    @classmethod
    def of_table(
        cls,
        X: Any,
        y: Any,
        task: np.ndarray | None,
        tasks: np.ndarray,
        *,
        kind: str | None,
        names: Any = None,
        classes: Any = None,
        groups: Any = None,
        offset: Any = None,
        **more: Any,
    ) -> Rows:
        """Rows with the position of their task among `tasks`; without, y has a column for each of them."""
        n_rows = X.shape[0]
        source = np.arange(n_rows)
        if task is None:
            y, task, source = _observed_targets(y, len(tasks))
        return cls(
            X[source],
            y,
            (y == classes[1]).astype(float) if classes is not None else y.astype(float),
            task,
            tasks[task],
            source,
            kind,
            names=None if names is None else tuple(names),
            group=None if groups is None else group_codes(groups, n_rows)[source],
            offset=None if offset is None else np.broadcast_to(np.asarray(offset, float), n_rows)[source],
            **more,
        )

    @property
    def has_several_targets(self) -> bool:
        """Whether rows of the table have a target in several tasks."""
        return len(np.unique(self.source)) < len(self.source)

    @property
    def design(self) -> Any:
        """X as the model is fitted to it: a frame where its features have names."""
        if self.names is None or sparse.issparse(self.X):
            return self.X
        return make_frame(dict(zip(self.names, self.X.T, strict=True)), self.backend)

    @property
    def known(self) -> dict[str, Any]:
        """The offset, as `fit` and `predict` take it."""
        return {} if self.offset is None else {"offset": self.offset}

    @property
    def shift(self) -> Any:
        """The offset of numbers, which other models are given by taking it off the targets."""
        return 0.0 if self.offset is None else self.offset

    def select(self, rows: np.ndarray) -> Rows:
        """Some of the rows."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        per_row = ("X", "y", "value", "task", "labels", "source", "group", "offset")
        return replace(self, **{name: parts[name][rows] for name in per_row if parts[name] is not None})

    def means(self, model: Any) -> np.ndarray:
        """Predicted means of a fitted model: of classes, the probability of the second one."""
        answer = model.decision_function if self.kind == "classes" else model.predict
        task = {} if model._fitted()._predicts_matrix else {"task": self.labels}
        found = np.asarray(answer(self.design, **task, **self.known), dtype=float)
        if found.ndim == 2:  # tasks that are columns of y
            found = found[np.arange(len(found)), self.task]
        return expit(found) if self.kind == "classes" else found

    def judged(
        self, means: dict[str, np.ndarray], row: np.ndarray | None = None, split: np.ndarray | None = None
    ) -> HeldOut:
        """Predictions for the rows with these numbers; several targets in units of their own spread."""
        row = np.arange(len(self.value)) if row is None else row
        y, task, n_tasks = self.value, self.task, int(self.task.max()) + 1
        if self.has_several_targets and self.kind == "numbers":
            spread = np.array([y[task == t].std() or 1.0 for t in range(n_tasks)])[task]
            y, means = y / spread, {who: mean / spread[row] for who, mean in means.items()}
        return HeldOut(self.kind or "", y[row], task[row], means, n_tasks, split, row)

    def folds(self, n_folds: int = N_FOLDS) -> list[Fold]:
        """Folds of the table: several targets of one row are held out together, and so are groups."""
        stratify = self.kind == "classes"
        splitter: TaskSplitter = TaskKFold(n_folds, random_state=0, stratify=stratify)
        if self.in_time:
            splitter = TaskTimeSplit(n_folds, stratify=stratify)
        return self.split(splitter)

    def split(self, splitter: TaskSplitter) -> list[Fold]:
        """Parts of the table to train and to test on."""
        group = None if self.group is None else np.unique(self.group, return_inverse=True)[1]
        if not self.has_several_targets:
            return list(splitter.parts(len(self.y), self.y, self.labels, group))
        units, source = np.unique(self.source, return_inverse=True)
        columns, observation_task = np.unique(self.task, return_inverse=True)
        matrix = np.full((len(units), len(columns)), np.nan)
        matrix[source, observation_task] = np.unique(self.y, return_inverse=True)[1]
        of_unit = None if group is None else group[np.unique(source, return_index=True)[1]]
        splits = splitter.parts(len(matrix), matrix, None, of_unit)
        return [
            (np.flatnonzero(np.isin(source, train)), np.flatnonzero(np.isin(source, test)))
            for train, test in splits
        ]


def _observed_targets(y: Any, n_tasks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets that were observed, with the position of their column and their row."""
    values = inputs.matrix_values(y)
    if values.shape[1] != n_tasks:
        raise ValueError(
            f"y has {values.shape[1]} columns, but the model has {n_tasks} tasks: pass one column for each, "
            "NaN where it was not observed."
        )
    column, source = np.nonzero(values.T == values.T)  # NaN differs from itself
    return values[source, column], column, source
