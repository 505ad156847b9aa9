"""Rows with targets as models are compared on them: the tasks of a table, with folds and predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.base import is_classifier

from mmtfl.estimators import inputs
from mmtfl.model_selection.folds import folds_of_tasks, with_groups
from mmtfl.model_selection.splitting import TaskKFold, TaskSplitter, TaskTimeSplit
from mmtfl.report.judging import HeldOut
from mmtfl.tasks.checks import check_task_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.converters import group_checked_rows, observe_checked_rows
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

    Other models need a number there; in rows of such a task it is the same for all.
    """
    absent = vars(model).get("absent_")
    if absent is None or sparse.issparse(X):
        return X
    some = absent.any(axis=0)
    means = np.where(some, np.nanmean(np.where(np.isfinite(X), X, np.nan), axis=0), np.nan)
    return np.where(np.isnan(X) & some, means, X)


@dataclass(frozen=True, eq=False)
class Rows:
    """Observations of all tasks, task by task.

    Attributes
    ----------
    tasks : Tasks
        The observations with their groups and offset; targets are numbers, 0 and 1 for classes.
    labels : ndarray of shape (n_tasks,)
        The tasks of the whole table.
    kind : {"numbers", "classes", "counts"} or None
        What the targets are.
    classes : ndarray, optional
        The two classes as models are given them.
    backend : str, optional
        Library of frames, if X has names.
    in_time : bool
        Whether the rows of a task are in time order.
    """

    tasks: Tasks
    labels: np.ndarray
    kind: str | None
    classes: np.ndarray | None = None
    backend: str | None = None
    in_time: bool = False

    @classmethod
    def of_model(cls, model: Any, X: Any, y: Any, task: Any = None, **structure: Any) -> Rows:
        """Rows as a fitted model reads them; their structure is as in `of_table`."""
        X, labels, name = inputs.take_task_column(X, task, model.task_column)
        X, names = model._read_design(X, labels, reset=False)
        if inputs.n_dimensions(y) != 2 or labels is not None:
            y = inputs.single_column(y) if inputs.n_dimensions(y) == 2 else np.asarray(y)
            labels = model.tasks_[model._only_task(X.shape[0])] if labels is None else labels
            labels = check_task_labels(labels, X.shape[0], name=name)
            inputs.locate_tasks(labels, model.tasks_, unknown="error")
        else:
            y = inputs.matrix_values(y)
        return cls.of_table(
            _without_gaps(model, X),
            y,
            labels,
            kind=kind_of_targets(model),
            tasks=model.tasks_,
            classes=model.classes_ if is_classifier(model) else None,
            names=getattr(model, "feature_names_in_", names),
            backend=getattr(model, "_backend", None),
            **structure,
        )

    @classmethod
    def of_table(
        cls, X: Any, y: Any, labels: Any, *, kind: str | None, tasks: Any = None, classes: Any = None,
        names: Any = None, groups: Any = None, offset: Any = None, **more: Any,
    ) -> Rows:  # fmt: skip
        """Rows with the label of their task; without, y has a column for each of the tasks."""
        names = None if names is None else tuple(names)
        if classes is not None:
            y = np.where(y == y, y == classes[1], np.nan)  # NaN, which differs from itself, was not observed
        if labels is None:
            rows = Tasks(*observe_checked_rows(X, y, tasks, None, names, None, offset))
        else:
            rows = Tasks(*group_checked_rows(X, y, labels, None, names, None, offset))
        if groups is not None:
            rows = with_groups(rows, groups, labels)
        return cls(rows, rows.labels if tasks is None else np.asarray(tasks), kind, classes, **more)

    # -- one entry for each observation ----------------------------------------------------------------------

    @cached_property
    def X(self) -> Any:
        """The features."""
        return self.tasks.to_rows()[0]

    @property
    def value(self) -> np.ndarray:
        """The targets as numbers."""
        return self.tasks.y

    @property
    def y(self) -> np.ndarray:
        """The targets as a model is given them."""
        return self.value if self.classes is None else self.classes[self.value.astype(int)]

    @cached_property
    def task(self) -> np.ndarray:
        """Position of the task."""
        place = {label: t for t, label in enumerate(self.labels.tolist())}
        return np.array([place[label] for label in self.tasks.labels.tolist()])[self.tasks.observation_task]

    @property
    def source(self) -> np.ndarray:
        """Row of X."""
        return np.arange(len(self.value)) if self.tasks.rows is None else self.tasks.rows

    @property
    def shift(self) -> Any:
        """The offset of numbers, which other models are given by taking it off the targets."""
        return 0.0 if self.tasks.known is None else self.tasks.known

    # -- what a model is given, and what it says -------------------------------------------------------------

    @property
    def design(self) -> Any:
        """X as the model is fitted to it: a frame where its features have names."""
        names = self.tasks.feature_names
        if names is None or sparse.issparse(self.X):
            return self.X
        return make_frame(dict(zip(names, self.X.T, strict=True)), self.backend)

    @property
    def known(self) -> dict[str, Any]:
        """Labels and offset, as `fit` and `predict` take them."""
        offset = {} if self.tasks.known is None else {"offset": self.tasks.known}
        return {"task": self.labels[self.task], **offset}

    def means(self, model: Any) -> np.ndarray:
        """Predicted means of a fitted model: of classes, the probability of the second one."""
        answer = model.decision_function if self.kind == "classes" else model.predict
        known = self.known
        if model._fitted()._predicts_matrix:
            del known["task"]
        found = np.asarray(answer(self.design, **known), dtype=float)
        if found.ndim == 2:  # tasks that are columns of y
            found = found[np.arange(len(found)), self.task]
        return expit(found) if self.kind == "classes" else found

    def judged(
        self, means: dict[str, np.ndarray], row: np.ndarray | None = None, split: np.ndarray | None = None
    ) -> HeldOut:
        """Predictions for the rows with these numbers; several targets in units of their own spread."""
        row = np.arange(len(self.value)) if row is None else row
        y, task = self.value, self.task
        if self.tasks.rows is not None and self.kind == "numbers":
            spread = np.array([y[task == t].std() or 1.0 for t in range(len(self.labels))])[task]
            y, means = y / spread, {who: mean / spread[row] for who, mean in means.items()}
        return HeldOut(self.kind or "", y[row], task[row], means, len(self.labels), split, row)

    # -- parts -----------------------------------------------------------------------------------------------

    def select(self, rows: np.ndarray) -> Rows:
        """Some of the rows, by ascending numbers."""
        return replace(self, tasks=self.tasks.select(rows))

    def folds(self, n_folds: int = N_FOLDS) -> list[Fold]:
        """Folds of the table: several targets of one row are held out together, and so are groups."""
        stratify = self.kind == "classes"
        if self.in_time:
            return self.split(TaskTimeSplit(n_folds, stratify=stratify))
        return self.split(TaskKFold(n_folds, random_state=0, stratify=stratify))

    def split(self, splitter: TaskSplitter) -> list[Fold]:
        """Parts of the table to train and to test on."""
        tasks = self.tasks
        if tasks.rows is None:
            return folds_of_tasks(splitter, tasks)
        units, first, source = np.unique(tasks.rows, return_index=True, return_inverse=True)
        matrix = np.full((len(units), tasks.n_tasks), np.nan)
        matrix[source, tasks.observation_task] = tasks.y
        group = None if tasks.groups is None else np.unique(tasks.groups[first], return_inverse=True)[1]
        return [
            (np.flatnonzero(np.isin(source, train)), np.flatnonzero(np.isin(source, test)))
            for train, test in splitter.parts(len(matrix), matrix, None, group)
        ]
