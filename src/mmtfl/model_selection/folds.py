"""The folds of a search, as positions in `Tasks`: made, translated from rows as given, and checked."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.model_selection._split import GroupsConsumerMixin

from mmtfl.model_selection.splitting import TaskSplitter
from mmtfl.tasks.checks import n_classes
from mmtfl.tasks.container import Tasks

Fold = tuple[np.ndarray, np.ndarray]


def usual_number(rows_per_task: float, n_features: int) -> int:
    """Number of folds where none is given: 5, or 10 where tasks have less than two rows per feature.

    There the rows taken away can change which model is best; docs/benchmarks.md has what more folds gain.
    """
    return 10 if rows_per_task < 2 * n_features else 5


def folds_of_tasks(splitter: TaskSplitter, tasks: Tasks) -> list[Fold]:
    """Folds of a splitter that knows tasks: of rows with all their targets, or of observations.

    Groups stay together. Observations of no weight are in neither part.
    """
    if by_rows(tasks):
        columns = tasks.y.reshape(tasks.n_tasks, -1).T
        together = None if tasks.groups is None else _numbered(tasks.groups[: len(columns)])
        return list(splitter.parts(len(columns), columns, None, together))
    kept = np.arange(tasks.n_samples) if tasks.weights is None else np.flatnonzero(tasks.weights)
    together = None if tasks.groups is None else _numbered(tasks.groups[kept])
    task = tasks.observation_task[kept]
    splits = splitter.parts(len(kept), tasks.y[kept], task, together, tasks.labels)
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
