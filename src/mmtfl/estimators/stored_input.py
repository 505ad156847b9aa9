"""Fitting tasks whose rows stay in files: `model.fit(Tasks.from_parquet(...))`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmtfl.estimators.inputs import first_few
from mmtfl.estimators.prepared import Prepared
from mmtfl.solvers.distributed.opened import OpenTasks
from mmtfl.tasks.stored import StoredTasks
from mmtfl.tasks.wording import count


@dataclass(frozen=True)
class StoredPrepared(Prepared):
    """Tasks opened for a solver; `tasks` has their labels."""

    def could_use(self, *, fit_intercept: bool) -> np.ndarray:
        """Which tasks could use which features."""
        return self.tasks.could_use

    def spread(self, columns: np.ndarray) -> np.ndarray:
        """Standard deviation of some features over all rows; 1 for a constant one."""
        return self.tasks.spreads()[0][columns]


def prepare_stored(model: Any, stored: StoredTasks, *others: Any) -> StoredPrepared:
    """Open stored tasks for a model, with the scales that it asks for."""
    if any(other is not None for other in others) or model.task_column is not None:
        raise ValueError(
            "Stored tasks bring their targets, labels and weights along: call fit(stored) with nothing else, "
            "and leave task_column None."
        )
    model.n_features_in_ = stored.n_features
    model.feature_names_in_ = np.array(stored.feature_names, dtype=object)
    model._predicts_matrix, model._backend = False, None
    stored = model._encode_stored(stored)
    opened = OpenTasks(stored, model._loss, fit_intercept=model.fit_intercept, engine=model.engine)
    column_scale = target_scale = None
    scale_targets = getattr(model, "scale_targets", False)
    if model.standardize or scale_targets:
        columns, targets = opened.spreads()
        column_scale = columns if model.standardize else None
        target_scale = targets if scale_targets else None
    start = model._warm_start(opened, column_scale, target_scale)
    problem = opened.problem(column_scale=column_scale, target_scale=target_scale)
    return StoredPrepared(opened, column_scale, target_scale, start, placed=problem)


def with_two_classes(stored: StoredTasks) -> StoredTasks:
    """The stored tasks with their target read as -1 and +1; every task needs both."""
    counts = stored.class_counts()
    classes = sorted(counts)
    if len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported: column {stored.target!r} has "
            f"{count(len(classes), 'value')} ({first_few(np.array(classes))})."
        )
    for value in classes:
        if not counts[value].all():
            label = stored.labels[int(np.argmin(counts[value]))].item()
            raise ValueError(
                f"Task {label!r} has no row of class {value!r}: every task needs both classes. Leave it out."
            )
    return replace(stored, classes=(classes[0], classes[1]))
