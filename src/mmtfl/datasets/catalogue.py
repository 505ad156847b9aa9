"""The datasets of the command line: names, titles and sizes, and any of them as one table."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl import datasets
from mmtfl.errors import require

SIMULATED = ("seed", "samples", "noise")
_NAMES = {"seed": "random_state", "samples": "n_samples", "tasks": "n_tasks", "features": "n_features"}


@dataclass(frozen=True)
class Entry:
    """One dataset: its name on the command line, how it is made, and how large it is by default."""

    name: str
    title: str
    make: Any  # a function that returns a Bunch
    rows: int
    tasks: int
    features: int
    options: tuple[str, ...] = SIMULATED  # what the command line may choose

    def bunch(self, **options: Any) -> Any:
        """Make the data with these options."""
        return self.make(**{_NAMES.get(name, name): value for name, value in options.items()})


def as_table(bunch: Any) -> tuple[Any, str, list[str]]:
    """Write a dataset as one table.

    Parameters
    ----------
    bunch : Bunch
        What `make_*` return.

    Returns
    -------
    frame : pandas.DataFrame
        The task, the features, y; or the table that the dataset came as.
    task : str
        The task column.
    targets : list of str
        The target columns.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.datasets.catalogue import as_table
    >>> frame, task, targets = as_table(make_tasks(2, 3, 2, n_informative=1, random_state=0))
    >>> frame.columns.tolist(), task, targets
    (['task', 'x0', 'x1', 'y'], 'task', ['y'])
    >>> frame["task"].tolist()
    ['task0', 'task0', 'task0', 'task1', 'task1', 'task1']
    """
    if "frame" in bunch:
        return bunch.frame, bunch.task_column, bunch.targets
    frame = require("pandas", "frames").DataFrame(bunch.X, columns=bunch.feature_names)
    frame.insert(0, "task", np.array(bunch.task_names)[bunch.task])
    frame["y"] = bunch.y
    return frame, "task", ["y"]


_MANY = "any number of tasks, in several patterns of sharing"
_MORE = (*SIMULATED, "tasks", "features", "pattern", "classification")
_ENTRIES = [
    Entry("d1", "the paper's D1: 60 features shared by all", datasets.make_d1, 2000, 10, 100),
    Entry("d2", "the paper's D2: a staircase of features", datasets.make_d2, 4000, 20, 100),
    Entry("hospitals", "patients of 8 hospitals", datasets.make_hospitals, 720, 8, 12, ("seed",)),
    Entry("tasks", _MANY, datasets.make_tasks, 1000, 10, 50, _MORE),
]
CATALOGUE = {entry.name: entry for entry in _ENTRIES}
