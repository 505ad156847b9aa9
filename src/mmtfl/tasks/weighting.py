"""Weights of whole tasks: factors on the weights of their rows that leave the sum of all weights as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from mmtfl.tasks.container import Tasks
from mmtfl.tasks.stored import StoredTasks
from mmtfl.tasks.wording import abbreviate


def task_totals(tasks: Tasks | StoredTasks) -> np.ndarray:
    """Sum of the weights of each task's rows, (n_tasks,)."""
    if isinstance(tasks, StoredTasks):
        return tasks.weight_sums
    if tasks.weights is None:
        return tasks.sizes.astype(float)
    return np.bincount(tasks.observation_task, tasks.weights, tasks.n_tasks)


def balanced(totals: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Factors that make totals proportional to what is wanted, and leave their sum as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.weighting import balanced
    >>> balanced(np.array([30.0, 10.0]), np.array([1.0, 1.0])).round(3).tolist()
    [0.667, 2.0]
    """
    return wanted / wanted.sum() * totals.sum() / totals


def task_factors(tasks: Tasks | StoredTasks, task_weight: Any) -> np.ndarray | None:
    """What the weights of each task's rows are multiplied by, (n_tasks,); None if nothing is asked.

    Parameters
    ----------
    tasks : Tasks or StoredTasks
        The tasks.
    task_weight : None, "equal" or dict
        As in the estimators. Labels of other tasks are passed over: these may be a part of all tasks.

    Examples
    --------
    >>> from mmtfl.tasks import Tasks
    >>> from mmtfl.tasks.weighting import task_factors
    >>> tasks = Tasks.from_rows([[1.0], [2.0], [3.0], [4.0]], [1, 2, 3, 4], ["a", "b", "b", "b"])
    >>> task_factors(tasks, "equal").round(3).tolist(), task_factors(tasks, {"a": 3}).round(3).tolist()
    ([2.0, 0.667], [2.0, 0.667])
    """
    if task_weight is None:
        return None
    totals = task_totals(tasks)
    if isinstance(task_weight, str):
        return balanced(totals, np.ones(len(totals)))
    own = np.array([float(task_weight.get(label, 1.0)) for label in tasks.labels.tolist()])
    return balanced(totals, totals * own)


def with_task_factors(tasks: Any, factors: np.ndarray | None) -> Any:
    """Tasks, or stored tasks, with the weights of their rows multiplied by a factor for each task."""
    if factors is None:
        return tasks
    if isinstance(tasks, StoredTasks):
        return replace(tasks, weight_sums=tasks.weight_sums * factors, task_factors=factors)
    own = factors[tasks.observation_task]
    return replace(tasks, weights=own if tasks.weights is None else own * tasks.weights)


def check_task_weight(task_weight: Any, labels: np.ndarray) -> None:
    """Refuse weights of tasks that do not exist, and weights that are no positive numbers."""
    if not isinstance(task_weight, Mapping):
        return
    known = labels.tolist()
    for label, weight in task_weight.items():
        if label not in known:
            raise ValueError(
                f"task_weight names the task {label!r}, which the data do not have: its tasks are "
                f"{abbreviate(known)}."
            )
        is_number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not is_number or not 0.0 < float(weight) < np.inf:
            raise ValueError(
                f"task_weight of task {label!r} is {weight!r}, expected a positive number: 2 counts every "
                "row of the task twice. Leave out the rows of a task that is to have no part."
            )
