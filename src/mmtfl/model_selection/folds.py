"""Folds: how rows and groups are dealt to them, and those of a search, as positions in `Tasks`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.model_selection._split import GroupsConsumerMixin
from sklearn.utils.multiclass import type_of_target

from mmtfl.tasks.checks import check_length, check_task_labels, class_counts, n_classes
from mmtfl.tasks.container import Tasks

if TYPE_CHECKING:
    from mmtfl.model_selection.splitting import TaskSplitter

Fold = tuple[np.ndarray, np.ndarray]


def usual_number(rows_per_task: float, n_features: int) -> int:
    """Number of folds where none is given: 5, or 10 where tasks have less than two rows per feature.

    There the rows taken away can change which model is best; docs/benchmarks.md has what more folds gain.
    """
    return 10 if rows_per_task < 2 * n_features else 5


def folds_of_tasks(splitter: TaskSplitter, tasks: Tasks, *, every_row: bool = False) -> list[Fold]:
    """Folds of a splitter that knows tasks: of rows with all their targets, or of observations.

    Groups stay together. Observations of no weight are in neither part. With `every_row` a task that has a
    single row of some class is dealt as if it had no classes: that row is tested too.
    """
    if by_rows(tasks):
        columns = tasks.y.reshape(tasks.n_tasks, -1).T
        together = None if tasks.groups is None else _numbered(tasks.groups[: len(columns)])
        return list(splitter.parts(len(columns), columns, None, together))
    kept = np.arange(tasks.n_samples) if tasks.weights is None else np.flatnonzero(tasks.weights)
    together = None if tasks.groups is None else _numbered(tasks.groups[kept])
    task, y = tasks.observation_task[kept], tasks.y[kept]
    if every_row:
        alone = np.any(class_counts(y > 0, task, tasks.n_tasks) == 1, axis=1)
        y = np.where(alone[task], 1.0, y)
    splits = splitter.parts(len(kept), y, task, together, tasks.labels)
    return [(kept[train], kept[test]) for train, test in splits]


def _numbered(groups: np.ndarray) -> np.ndarray:
    return np.unique(groups, return_inverse=True)[1]


def folds_of_rows(cv: Any, y: Any, labels: np.ndarray | None, tasks: Tasks, groups: Any = None) -> list[Fold]:
    """Folds of another splitter, or a list of them, from rows as they were given to positions in tasks.

    A splitter that asks for groups gets those given, or the labels of the tasks.
    """
    n_rows = tasks.X.shape[0] if labels is None else len(labels)
    splits = cv
    if hasattr(cv, "split"):
        # scikit-learn's own splitters warn of labels they have no use for
        ignores = type(cv).__module__.startswith("sklearn.") and not isinstance(cv, GroupsConsumerMixin)
        splits = cv.split(np.zeros(n_rows), y, None if ignores else labels if groups is None else groups)
    place = np.arange(n_rows)
    if labels is not None:
        known = np.flatnonzero(np.isin(labels, tasks.labels))  # some tasks may have no part in the fit
        place[:] = -1
        place[known[np.argsort(labels[known], kind="stable")]] = np.arange(len(known))
    parts = [[place[part] for part in _check_split(f, split, n_rows)] for f, split in enumerate(splits)]
    folds = [[part[part >= 0] for part in fold] for fold in parts]
    if tasks.rows is not None and not by_rows(tasks):
        folds = [[np.flatnonzero(np.isin(tasks.rows, part)) for part in fold] for fold in folds]
    return [(np.sort(train), np.sort(test)) for train, test in folds]


def _check_split(fold: int, split: Any, n_rows: int) -> list[np.ndarray]:
    """The training and the test rows of one fold, as indices."""
    try:
        parts = [np.asarray(part) for part in split]
        parts = [
            np.flatnonzero(one) if one.dtype == bool and one.shape == (n_rows,) else one for one in parts
        ]
    except TypeError:
        parts = []
    if len(parts) != 2 or any(part.ndim != 1 for part in parts):
        raise ValueError(f"Fold {fold} of cv is not a pair (train, test) of row numbers.")
    for name, part in zip(("training", "test"), parts, strict=True):
        if part.size == 0:
            raise ValueError(f"Fold {fold} of cv has no {name} row: use fewer folds.")
        if part.dtype.kind not in "iu" or part.min() < 0 or part.max() >= n_rows:
            raise ValueError(f"Fold {fold} of cv has {name} rows that are not row numbers below {n_rows}.")
    return parts


def check_folds(folds: list[Fold], tasks: Tasks, *, with_classes: bool) -> list[Fold]:
    """Leave out what has no weight; every tested task must have been trained, with both classes."""
    if not folds:
        raise ValueError("cv has no folds: give a number, a splitter, or a list of (train, test) rows.")
    checked = folds
    if not by_rows(tasks):
        checked = [_check_observations(f, tasks, *fold) for f, fold in enumerate(folds)]
    if tasks.groups is not None:
        for f, fold in enumerate(checked):
            _check_groups(f, tasks, *fold)
    if with_classes:
        for f, (train, _) in enumerate(checked):
            _check_classes(f, tasks, train)
    return checked


def _check_groups(fold: int, tasks: Tasks, train: np.ndarray, test: np.ndarray) -> None:
    trained, tested = (tasks.groups[observations(tasks, part)] for part in (train, test))  # type: ignore[index]
    both = np.intersect1d(trained, tested)
    if both.size:
        raise ValueError(
            f"Fold {fold} of cv trains and tests rows of the same group ({both.size} of the groups are on "
            "both sides). Use cv=TaskKFold() or another splitter that keeps groups together, such as "
            "scikit-learn's GroupKFold."
        )


def _check_observations(fold: int, tasks: Tasks, train: np.ndarray, test: np.ndarray) -> Fold:
    if tasks.weights is not None:
        train, test = train[tasks.weights[train] > 0], test[tasks.weights[test] > 0]
    if test.size == 0:
        raise ValueError(f"Fold {fold} of cv has no row of positive weight to test: use fewer folds.")
    missing = np.setdiff1d(tasks.observation_task[test], tasks.observation_task[train])
    if missing.size:
        label = tasks.labels[missing[0]].item()
        raise ValueError(
            f"Fold {fold} of cv tests task {label!r}, but trains no row of it. Use cv=TaskKFold(), "
            "which keeps every task in every training part."
        )
    return train, test


def _check_classes(fold: int, tasks: Tasks, train: np.ndarray) -> None:
    if by_rows(tasks):
        train = np.flatnonzero(np.isin(np.asarray(tasks.rows), train))
    found = n_classes(tasks.y[train] > 0, tasks.observation_task[train], tasks.n_tasks)
    alone = np.flatnonzero(found == 1)
    if alone.size:
        raise ValueError(
            f"Fold {fold} of cv has one class only of task {tasks.labels[alone[0]].item()!r} in its "
            "training part. Use fewer folds, TaskKFold(stratify=True), or more rows of that task."
        )


# -- parts of the tasks -------------------------------------------------------------------------------------


def by_rows(tasks: Tasks) -> bool:
    """Whether folds split the rows of X (several targets, all observed) and not the observations."""
    if not tasks.is_complete or tasks.n_tasks == 1:
        return False
    weights = None if tasks.weights is None else tasks.weights.reshape(tasks.n_tasks, -1)
    return weights is None or bool(np.all(weights > 0.0))


def take(tasks: Tasks, part: np.ndarray) -> Tasks:
    """The observations of a fold; where folds split rows, those rows with all their targets."""
    chosen = tasks.select(observations(tasks, part))
    if not by_rows(tasks):
        return chosen
    return replace(chosen, X=tasks.X[part], rows=np.tile(np.arange(len(part)), tasks.n_tasks))


def observations(tasks: Tasks, part: np.ndarray) -> np.ndarray:
    """The part of a fold as positions of observations."""
    if not by_rows(tasks):
        return part
    return (np.arange(tasks.n_tasks)[:, None] * tasks.X.shape[0] + part).ravel()


# -- rows and groups dealt to folds ----------------------------------------------------------------------

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
    >>> from mmtfl.model_selection.folds import with_groups
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
    >>> from mmtfl.model_selection.folds import Cells, deal_groups
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
