"""Stored tasks as the input of a fit: `model.fit(Tasks.from_parquet(...))`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mmtfl.estimators.inputs import first_few
from mmtfl.solvers.distributed.opened import check_room
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.stored import StoredTasks
from mmtfl.tasks.wording import count

_REMEDY = (
    "Raise memory_limit, or fit a sample of the rows. MMTFLRegressor and MMTFLClassifier read some tasks at "
    "a time, unless solver='block', p=inf, or p=1 with pooling above 0.5; MMTFLRegressorCV keeps few rows in "
    "the place of many."
)


def check_nothing_else(*others: Any) -> None:
    """Refuse targets, labels or weights beside stored tasks, which have their own."""
    if any(other is not None for other in others):
        raise ValueError(
            "Stored tasks bring their targets, labels and weights along: call fit(stored) with nothing else, "
            "and leave task_column None."
        )


def load_tasks(stored: StoredTasks, who: str) -> Tasks:
    """All rows in memory, if they fit there beside what a model makes of them."""
    needed = float(stored.bytes_held(compress=False).sum())
    check_room(stored, needed, f"{who}, which needs all rows in memory,", _REMEDY)
    return stored.load()


def as_classes(stored: StoredTasks) -> StoredTasks:
    """The stored tasks with their target, which has two values, read as -1 and +1."""
    first, second = _rows_of_classes(stored)
    return replace(stored, classes=(first, second))


def with_two_classes(stored: StoredTasks) -> StoredTasks:
    """The stored tasks with their target read as -1 and +1; every task needs both."""
    counts = _rows_of_classes(stored)
    for value, of_task in counts.items():
        if not of_task.all():
            label = stored.labels[int(np.argmin(of_task))].item()
            raise ValueError(
                f"Task {label!r} has no row of class {value!r}: every task needs both classes. Leave it out."
            )
    first, second = counts
    return replace(stored, classes=(first, second))


def _rows_of_classes(stored: StoredTasks) -> dict[Any, np.ndarray]:
    """Number of rows of each task in each of the two classes, in their order."""
    counts = stored.class_counts()
    if len(counts) != 2:
        raise ValueError(
            f"Only binary classification is supported: column {stored.target!r} has "
            f"{count(len(counts), 'value')} ({first_few(np.array(sorted(counts)))})."
        )
    return {value: counts[value] for value in sorted(counts)}
