"""Groups of rows dealt whole to the parts of a split, so that every part has its share of every task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.multiclass import type_of_target

from mmtfl.tasks.checks import check_length, check_task_labels
from mmtfl.tasks.container import Tasks

NEVER = -1  # fold of a row that is always trained on


class Cells(NamedTuple):
    """Which rows are in which cell, pair by pair; a cell is a task, or a class of a task."""

    rows: np.ndarray
    cells: np.ndarray

    @classmethod
    def of(cls, n_rows: int, y: Any, task: Any, *, stratify: bool) -> Cells:
        """Cells of rows by their labels; with a 2-D y and classes a row has a class in every column."""
        if stratify and task is None and np.ndim(y) == 2:
            Y = np.asarray(y)
            check_length("y", len(Y), n_rows)
            column, rows = np.nonzero((Y == Y).T)  # NaN differs from itself
            for j in range(Y.shape[1]):
                check_classes(Y[rows[column == j], j], int(np.count_nonzero(column == j)))
            label = np.unique(Y[rows, column], return_inverse=True)[1]
            return cls(rows, np.unique(column * (label.max() + 1) + label, return_inverse=True)[1])
        code = np.zeros(n_rows, dtype=np.intp)
        if task is not None:
            code = np.unique(check_task_labels(task, n_rows), return_inverse=True)[1]
        if stratify:
            classes, label = np.unique(check_classes(y, n_rows), return_inverse=True)
            code = np.unique(code * len(classes) + label, return_inverse=True)[1]
        return cls(np.arange(n_rows), code)

    def lists(self) -> list[np.ndarray]:
        """The rows of each cell, ascending."""
        order = np.argsort(self.cells, kind="stable")
        ends = np.flatnonzero(np.diff(self.cells[order])) + 1
        return np.split(self.rows[order], ends)


def check_classes(y: Any, n_rows: int) -> np.ndarray:
    """Check that y has one class per row."""
    if y is None:
        raise ValueError("stratify=True spreads the classes of y, but y is None: pass y.")
    y = np.asarray(y)
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass") or y.ndim != 1:
        raise ValueError(
            f"stratify=True needs one class per row, but y is {kind} of shape {y.shape}: use stratify=False."
        )
    check_length("y", len(y), n_rows)
    return y


def group_codes(groups: Any, n_rows: int | None) -> np.ndarray:
    """Groups as numbers from 0; a missing one is refused."""
    return np.unique(check_task_labels(groups, n_rows, name="groups"), return_inverse=True)[1]


def with_groups(tasks: Tasks, groups: Any, labels: np.ndarray | None = None) -> Tasks:
    """The tasks with the groups of their rows.

    Parameters
    ----------
    tasks : Tasks
        Made of rows.
    groups : array-like of shape (n_rows,)
        Group of each row as it was given, of rows of X where tasks share it.
    labels : ndarray of shape (n_rows,), optional
        Task label of each row; rows of other tasks than these are passed over.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import Tasks
    >>> from mmtfl.model_selection.dealing import with_groups
    >>> site = np.array(["b", "a", "b"])
    >>> tasks = Tasks.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], site)
    >>> with_groups(tasks, ["Ann", "Ann", "Bo"], site).groups
    array([0, 0, 1])
    """
    code = group_codes(groups, tasks.X.shape[0] if labels is None else len(labels))
    if labels is not None:
        order = np.argsort(labels, kind="stable")
        code = code[order[np.isin(labels[order], tasks.labels)]]
    return replace(tasks, groups=code if tasks.rows is None else code[tasks.rows])


def deal_groups(
    group: np.ndarray, cells: Cells, shares: np.ndarray, rng: Any, *, largest_first: bool
) -> np.ndarray:
    """Assign rows to parts greedily: each group goes whole to the part that lacks its cells most.

    Parameters
    ----------
    group : ndarray of int of shape (n_rows,)
        Groups, numbered from 0; they may span tasks.
    cells : Cells
        What is to be spread over the parts.
    shares : ndarray of shape (n_parts,)
        How much of each cell a part is to get.
    rng : RandomState or None
        Draws the order in which groups are dealt; None keeps that of their numbers.
    largest_first : bool
        Whether large groups are dealt first, which evens the parts.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.model_selection.dealing import Cells, deal_groups
    >>> patient = np.array([0, 0, 0, 1, 2, 2, 3, 3])
    >>> cells = Cells.of(8, None, None, stratify=False)
    >>> deal_groups(patient, cells, np.array([0.5, 0.5]), None, largest_first=True).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    n_groups, n_cells = int(group.max()) + 1, int(cells.cells.max()) + 1
    keys, counts = np.unique(group[cells.rows] * n_cells + cells.cells, return_counts=True)
    of_group, of_cell = np.divmod(keys, n_cells)
    totals = np.bincount(of_cell, counts, n_cells)
    ends = np.searchsorted(of_group, np.arange(n_groups + 1))
    order = np.arange(n_groups) if rng is None else rng.permutation(n_groups)
    if largest_first:
        order = order[np.argsort(-np.bincount(group, minlength=n_groups)[order], kind="stable")]
    load, taken, part = np.zeros((len(shares), n_cells)), np.zeros(len(shares)), np.zeros(n_groups, dtype=int)
    for g in order:
        own, n = of_cell[ends[g] : ends[g + 1]], counts[ends[g] : ends[g + 1]]
        full = (load[:, own] / totals[own]) @ n + 1e-9 * taken  # equally full ones by their rows
        part[g] = np.argmin(full / shares)
        load[part[g], own] += n
        taken[part[g]] += n.sum()
    return part[group]


def keep_in_training(fold: np.ndarray, group: np.ndarray, cells: Cells) -> None:
    """Move one group to training, in place, of every cell that would otherwise be tested as a whole."""
    for rows in cells.lists():
        first = fold[rows[0]]
        if first != NEVER and np.all(fold[rows] == first):
            found, sizes = np.unique(group[rows], return_counts=True)
            fold[group == found[np.argmin(sizes)]] = NEVER
