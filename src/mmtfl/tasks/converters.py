"""Input of every layout as the fields of `Tasks`: stacked rows, lists of tasks, shared rows, frames.

Each function that reads a layout returns the arguments of ``Tasks(...)``. Those with `checked` in their name
take a design and labels that `check_design` and `check_task_labels` have returned, and check the rest.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.tasks.checks import (
    check_design,
    check_finite_design,
    check_finite_target,
    check_length,
    check_target,
    check_task_labels,
    check_task_weights,
    check_weights,
)
from mmtfl.tasks.frames import as_float, feature_columns, open_frame, pick_columns
from mmtfl.tasks.grouping import group_rows, offsets_of, take_rows
from mmtfl.wording import abbreviate, show

Names = tuple[str, ...] | None
Maybe = np.ndarray | None
# X, y, offsets, labels, weights, rows, feature_names, absent and the known part of the linear predictor
Fields = tuple[Any, np.ndarray, np.ndarray, np.ndarray, Maybe, Maybe, Names, Maybe, Maybe]


# -- stacked rows ----------------------------------------------------------------------------------------


def group_checked_rows(
    X: Any,
    y: Any,
    labels: np.ndarray | None,
    sample_weight: Any,
    names: Names,
    absent: str | None = None,
    offset: Any = None,
) -> Fields:
    """Group the rows of a checked design by their checked labels; without labels they are one task.

    With `absent` "allow" tasks may lack features; with "error" the error says that they might.
    """
    n_rows = X.shape[0]
    y = check_target(y, n_rows)
    known = None if offset is None else check_offset(offset, n_rows)
    groups = group_rows(np.zeros(n_rows, dtype=np.int64) if labels is None else labels)
    who: dict[str, Any] = {"observation_task": groups.observation_task, "labels": groups.labels}
    lacking = None
    if absent == "allow":
        X, lacking = take_absent(X, members_of(groups.observation_task, len(groups.labels)))
    remedy = ABSENT_REMEDY if absent == "error" else ""
    check_finite_design(X, **who, feature_names=names, remedy=remedy)
    check_finite_target(y, **who)
    weights = None
    if sample_weight is not None:
        weights = check_weights(sample_weight, n_rows)
        check_task_weights(weights, **who)
    if groups.order is not None:
        X, y = take_rows(X, groups.order), y[groups.order]
        weights, known = (None if part is None else part[groups.order] for part in (weights, known))
    return X, y, groups.offsets, groups.labels, weights, None, names, lacking, known


def check_offset(offset: Any, n_rows: int, n_tasks: int | None = None) -> np.ndarray:
    """Check a known part of the linear predictor, one finite number per row or one per row and task.

    It is returned as (n_rows,), or as (n_rows, n_tasks) where there is a number of tasks.

    Examples
    --------
    >>> from mmtfl.tasks.converters import check_offset
    >>> check_offset([1, 2], 2, n_tasks=2)
    array([[1., 1.],
           [2., 2.]])
    """
    found = as_float(offset, "offset")
    if n_tasks is not None and found.ndim == 1:
        found = np.repeat(found[:, None], n_tasks, axis=1)
    if n_tasks is None or found.shape[1:] != (n_tasks,):
        found = check_target(found, n_rows, name="offset", hint="pass one number per row, or per entry of y")
    check_length("offset", len(found), n_rows)
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found).reshape(n_rows, -1).all(axis=1)))
        raise ValueError(
            f"Input offset contains NaN or infinity, first in row {row}: an exposure of zero has no "
            "logarithm. Drop those rows or fill in the offset."
        )
    return found.astype(np.float64, copy=False)


# -- lists of pairs --------------------------------------------------------------------------------------


def stack_list(pairs: Iterable[Any], labels: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """Stack a list of (X, y), one pair per task: rows, targets and labels for ``Tasks.from_rows``."""
    pairs = list(pairs)
    if not pairs:
        raise ValueError("The list of tasks is empty: pass at least one (X, y).")
    labels = _check_distinct_labels(range(len(pairs)) if labels is None else labels, len(pairs))
    parts: list[tuple[Any, np.ndarray]] = []
    for t, (X, y) in enumerate(pairs):
        who = f"X of task {show(labels, t)}"
        X, _ = check_design(X, name=who)
        if t and X.shape[1] != parts[0][0].shape[1]:
            raise ValueError(
                f"{who} has {X.shape[1]} columns, but that of task {show(labels, 0)} has "
                f"{parts[0][0].shape[1]}. All tasks need the same columns in the same order: align them."
            )
        parts.append((X, check_target(y, X.shape[0], name=f"y of task {show(labels, t)}", of=who)))
    designs = [X for X, _ in parts]
    X = sparse.vstack(designs, format="csr") if sparse.issparse(designs[0]) else np.concatenate(designs)
    return X, np.concatenate([y for _, y in parts]), np.repeat(labels, [len(y) for _, y in parts])


def _check_distinct_labels(labels: Any, n_tasks: int) -> np.ndarray:
    """Check that there is one label per task, and that they differ."""
    labels = check_task_labels(labels, None, name="labels")
    if len(labels) != n_tasks:
        raise ValueError(f"labels has length {len(labels)}, but there are {n_tasks} tasks: pass one each.")
    values, counts = np.unique(labels, return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"Task label {show(values, counts.argmax())} occurs twice: labels must differ.")
    return labels


# -- one X, several targets ------------------------------------------------------------------------------


def observe_checked_rows(
    X: Any,
    Y: Any,
    labels: Any,
    sample_weight: Any,
    names: Names,
    absent: str | None = None,
    offset: Any = None,
) -> Fields:
    """The observed entries of Y, each with its row of a checked design; `absent` as in rows with labels."""
    Y, columns = _check_shared_target(Y, X.shape[0])
    if labels is None:
        labels = range(Y.shape[1]) if columns is None else columns
    labels = _check_distinct_labels(labels, Y.shape[1])
    observed, lacking = _observed_targets(Y, labels), None
    if absent == "allow":
        X, lacking = take_absent(X, sparse.csr_matrix(observed, dtype=float))
    check_finite_design(X, feature_names=names, remedy=ABSENT_REMEDY if absent == "error" else "")
    position, rows = np.nonzero(observed)
    weights = None
    if sample_weight is not None:
        weights = np.broadcast_to(check_weights(sample_weight, X.shape[0]), observed.shape)[observed]
        check_task_weights(weights, observation_task=position, labels=labels)
    known = None if offset is None else check_offset(offset, *Y.shape).T[observed]
    return X, Y.T[observed], offsets_of(observed.sum(axis=1)), labels, weights, rows, names, lacking, known


def _check_shared_target(Y: Any, n_rows: int) -> tuple[np.ndarray, Names]:
    """Check a target with one column per task; returns it with the names of its columns."""
    if sparse.issparse(Y):
        raise TypeError("Y must be dense, NaN for what is not observed, but is sparse: pass Y.toarray().")
    if getattr(Y, "ndim", 2) == 1:
        raise ValueError("Y must be 2-D, a column per task, but is 1-D: for one target, use Tasks.from_rows.")
    Y, columns = check_design(Y, name="Y")
    check_length("Y", Y.shape[0], n_rows)
    return Y.astype(np.float64, copy=False), columns


def _observed_targets(Y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Which entries of Y are observed, as (n_tasks, n_rows)."""
    infinite = np.argwhere(np.isinf(Y))
    if len(infinite):
        row, t = infinite[0]
        raise ValueError(
            f"Input Y contains infinity: {len(infinite)} in all, the first at task {show(labels, t)}, "
            f"row {row}. Use NaN for a target that was not observed."
        )
    observed = ~np.isnan(Y.T)
    seen = observed.any(axis=1)
    if not seen.all():
        raise ValueError(
            f"Task {show(labels, seen.argmin())} has no observed target, its column of Y is all NaN: "
            "leave the column out."
        )
    return observed


# -- frames ----------------------------------------------------------------------------------------------


def read_frame(
    frame: Any,
    task: str | None,
    target: str | Sequence[str],
    features: Sequence[str] | None,
    weight: str | None,
) -> tuple[Any, Any, Any, Any]:
    """Take X, targets, labels and weights from a frame; see ``Tasks.from_frame``."""
    table = open_frame(frame, "frame")
    if table is None:
        raise TypeError(
            f"frame must be a pandas, polars or pyarrow table in memory, not {type(frame).__name__}: "
            "collect a lazy frame first, or use Tasks.from_rows for arrays."
        )
    single = isinstance(target, str | int)  # pandas columns may be called 0, 1, ...
    if task is not None and not single:
        raise ValueError(
            f"Both a task column ({task!r}) and a list of targets were given, but a list means one task "
            "per target: pass task=None, or a single target."
        )
    targets: list[Any] = [target] if single else list(target)
    special = [*targets, *(name for name in (task, weight) if name is not None)]
    X = pick_columns(table, feature_columns(table.columns, special, features))
    column = {name: table.get_column(name).to_native() for name in special}
    y = column[targets[0]] if single else pick_columns(table, targets)
    return X, y, column.get(task), column.get(weight)


# -- features that some tasks do not have: columns that are missing in all rows of a task --------------------


ABSENT_REMEDY = (
    " Where a task has no value of a feature at all, absent_features='allow' leaves the feature out for it."
)


def members_of(observation_task: np.ndarray, n_tasks: int) -> Any:
    """Which task has which row, (n_tasks, n_rows) sparse; a row whose task has no such number is in none."""
    rows = np.flatnonzero(observation_task < n_tasks)
    place = (observation_task[rows], rows)
    return sparse.csr_matrix((np.ones(len(rows)), place), shape=(n_tasks, len(observation_task)))


def take_absent(X: Any, members: Any) -> tuple[Any, np.ndarray | None]:
    """Return X with zeros in columns that are missing in all rows of a task, and which these are.

    `members` tells which task has which row. Scattered missing values stay, and so do those of a row that
    another task has too, which does have the feature. Without such columns X is returned as it is, with None.

    Examples
    --------
    >>> import numpy as np
    >>> X, absent = take_absent(np.array([[1.0, 2.0], [3.0, np.nan]]), members_of(np.array([0, 1]), 2))
    >>> X, absent
    (array([[1., 2.],
           [3., 0.]]), array([[False, False],
           [False,  True]]))
    """
    rows, columns = _missing(X)
    if not rows.size:
        return X, None
    missing = sparse.csr_matrix((np.ones(rows.size), (rows, columns)), shape=X.shape)
    absent = (members @ missing).toarray() == members.sum(axis=1).A1[:, None]
    if not absent.any():
        return X, None
    return _filled(X, rows, columns, absent, members), absent


def fill_absent(X: Any, absent: np.ndarray, observation_task: np.ndarray | None, names: Any) -> Any:
    """X to predict, with zeros where a row's task does not have a feature; None: rows of all tasks.

    A position beyond those of `absent` is an unknown task, of which nothing is known.
    """
    rows, columns = _missing(X)
    if not rows.size:
        return X
    if observation_task is None:
        lacking = np.unique(columns[np.any(absent, axis=0)[columns]])
        if lacking.size:
            told = abbreviate([str(j) if names is None else str(names[j]) for j in lacking])
            raise ValueError(
                f"Input X contains NaN in {told}, which some tasks have and others do not: pass task= to "
                "predict each row by its own task."
            )
        return X
    return _filled(X, rows, columns, absent, members_of(observation_task, len(absent)))


def _filled(X: Any, rows: np.ndarray, columns: np.ndarray, absent: np.ndarray, members: Any) -> Any:
    """X with zeros at those of its missing values that no task of the row has the feature of."""
    lacking = (members.T @ sparse.csr_matrix(absent, dtype=float))[rows, columns].A1
    n_tasks = members.sum(axis=0).A1[rows]
    fill = (n_tasks > 0.0) & (lacking == n_tasks)
    if not fill.any():
        return X
    X = X.copy()
    X[rows[fill], columns[fill]] = 0.0
    if sparse.issparse(X):
        X.eliminate_zeros()
    return X


def _missing(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of missing values; clean data cost one pass."""
    if sparse.issparse(X):
        entries = X.tocoo(copy=False)
        missing = np.isnan(entries.data)
        return entries.row[missing], entries.col[missing]
    with np.errstate(all="ignore"):
        if not np.isnan(X.sum()):
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    rows, columns = np.nonzero(np.isnan(X))
    return rows, columns
