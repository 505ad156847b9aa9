"""Checks of the input: each returns clean arrays, or raises an error that says what to do.

Functions that can name a task take ``observation_task`` (the task of each row, as a position in ``labels``)
and ``labels``; `name` and `of` are what the argument and the rows are called in error messages.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from mmtfl.tasks.frames import FLOATS, as_float, check_not_lazy, frame_design, is_missing, open_frame
from mmtfl.wording import count, not_finite_kind, show

MOST_WEIGHT = 1e50  # of a row; the least one is 1e-50, so that squares and sums of weights are floats
NEXT_TO_NOTHING = 1e-12  # share of a task's weight at which a class counts as absent

# -- the design and its columns --------------------------------------------------------------------------


def check_design(
    X: Any, *, name: str = "X", feature_names: Sequence[str] | None = None
) -> tuple[Any, tuple[str, ...] | None]:
    """Check a design matrix and return it in float32 or float64, with the names of its columns (or None).

    X may be dense, sparse, or a pandas, polars or pyarrow frame. Clean arrays and CSR or CSC matrices are
    returned without a copy. NaN and infinity pass: see `check_finite_design`.

    Examples
    --------
    >>> from mmtfl.tasks.checks import check_design
    >>> check_design([[True, False]])
    (array([[1., 0.]]), None)
    """
    names: Any = feature_names
    check_not_lazy(X, name)
    if sparse.issparse(X):
        X = _sparse_design(X, name)
    elif isinstance(X, np.ndarray) or (frame := open_frame(X, name)) is None:
        X = as_float(X, name)
    else:
        if names is None and any(isinstance(column, str) for column in frame.columns):
            names = frame.columns  # a frame with numbers for column names has no names
        X = frame_design(frame, name)
    if X.ndim != 2 or 0 in X.shape:
        check_array(X, accept_sparse=True, ensure_all_finite=False, input_name=name)  # words the error
    return X, check_feature_names(names, X.shape[1])


def check_feature_names(feature_names: Any, n_features: int) -> tuple[str, ...] | None:
    """Check that the names of the columns are distinct strings, one per column.

    Examples
    --------
    >>> from mmtfl.tasks.checks import check_feature_names
    >>> check_feature_names(["age", "dose"], 2)
    ('age', 'dose')
    """
    if feature_names is None:
        return None
    if isinstance(feature_names, str):
        raise TypeError(f"feature_names must be a sequence of strings, not the string {feature_names!r}.")
    names = tuple(feature_names)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"Feature names must be strings, but {name!r} is of type {type(name).__name__}: "
                "rename the columns, for example with frame.columns = frame.columns.astype(str)."
            )
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} names, but X has {n_features} columns.")
    if len(set(names)) != len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"Feature name {repeated!r} occurs more than once: rename or drop one of the columns."
        )
    return tuple(map(str, names))


def _sparse_design(X: Any, name: str) -> Any:
    given = X
    X = check_array(X, accept_sparse=("csr", "csc"), dtype=FLOATS, ensure_all_finite=False, input_name=name)
    # column norms would square duplicated entries one by one, and slicing needs sorted ones
    if not X.has_canonical_format or X.data.size != X.nnz:
        X = X.copy() if X is given else X
        X.sum_duplicates()
        X.prune()
    return X


# -- targets, weights, lengths ---------------------------------------------------------------------------


def check_length(name: str, found: int, n_rows: int, *, of: str = "X") -> None:
    """Check that an argument has one entry per row.

    Examples
    --------
    >>> from mmtfl.tasks.checks import check_length
    >>> check_length("y", 3, 4)
    Traceback (most recent call last):
    ...
    ValueError: Inconsistent numbers of samples: X has 4 rows, but y has 3. Pass one entry per row.
    """
    if found != n_rows:
        raise ValueError(
            f"Inconsistent numbers of samples: {of} has {n_rows} rows, but {name} has {found}. "
            "Pass one entry per row."
        )


def check_target(
    y: Any,
    n_rows: int,
    *,
    name: str = "y",
    of: str = "X",
    hint: str = "for one column per task, use Tasks.from_shared",
) -> np.ndarray:
    """Check a target and return it in float64. NaN and infinity pass: see `check_finite_target`.

    `hint` says what to do about a target that is not 1-D.

    Examples
    --------
    >>> from mmtfl.tasks.checks import check_target
    >>> check_target([1, 2], 2)
    array([1., 2.])
    """
    if sparse.issparse(y):
        raise TypeError(f"{name} must be dense, but is a sparse matrix: pass {name}.toarray().ravel().")
    check_not_lazy(y, name)
    if y is None:
        raise ValueError(f"{name} is None, but one number per row of {of} is required.")
    column = as_float(y, name)
    if column.ndim != 1:
        raise ValueError(f"{name} must be 1-D, but has shape {column.shape}: {hint}.")
    check_length(name, column.size, n_rows, of=of)
    return column.astype(np.float64, copy=False)


def check_weights(w: Any, n_rows: int, *, name: str = "sample_weight", of: str = "X") -> np.ndarray:
    """Check that sample weights are finite, not negative and not all zero, and return them in float64.

    Examples
    --------
    >>> from mmtfl.tasks.checks import check_weights
    >>> check_weights([1, -2], 2)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight is negative, -2.0 in row 1: weights must be finite and not negative. Use ...
    """
    w = check_target(w, n_rows, name=name, of=of, hint="pass one weight per row")
    wrong = ~((w >= 0) & (w < np.inf))
    if wrong.any():
        row = int(wrong.argmax())
        found = f"negative, {w[row]}" if w[row] < 0 else not_finite_kind(w[row])
        raise ValueError(
            f"{name} is {found} in row {row}: weights must be finite and not negative. "
            "Use 0 to leave a row out."
        )
    if not (w > 0).any():
        raise ValueError(f"{name} is zero in every row: at least one row must have a positive weight.")
    least, most = w[w > 0].min(), w.max()
    if least < 1.0 / MOST_WEIGHT or most > MOST_WEIGHT:
        raise ValueError(
            f"{name} goes from {least:.3g} to {most:.3g}, but a weight is a number of rows, which may be "
            f"{1.0 / MOST_WEIGHT:g} to {MOST_WEIGHT:g}: divide all by a constant, or use 0 to leave one out."
        )
    return w


def check_task_weights(weights: np.ndarray, *, observation_task: np.ndarray, labels: np.ndarray) -> None:
    """Check that every task has a positive total weight.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.checks import check_task_weights
    >>> weights, position = np.array([1.0, 0.0]), np.array([0, 1])
    >>> check_task_weights(weights, observation_task=position, labels=np.array(["a", "b"]))
    Traceback (most recent call last):
    ...
    ValueError: Task 'b' has zero total weight: give one of its rows a positive weight, or leave the task out.
    """
    counts = np.bincount(observation_task[weights > 0], minlength=len(labels))
    if not counts.all():
        raise ValueError(
            f"Task {show(labels, counts.argmin())} has zero total weight: give one of its rows a positive "
            "weight, or leave the task out."
        )


# -- task labels and classes ---------------------------------------------------------------------------


def check_task_labels(
    task: Any, n_rows: int | None, *, name: str = "task", remedy: str = "Drop these rows or fill in a label."
) -> np.ndarray:
    """Check one task label per row (any number of rows if `n_rows` is None); returns strings or int64.

    The remedy is for labels that are missing.

    Examples
    --------
    >>> from mmtfl.tasks.checks import check_task_labels
    >>> check_task_labels(["b", "a"], 2)
    array(['b', 'a'], dtype='<U1')
    >>> check_task_labels(["b", None], 2)
    Traceback (most recent call last):
    ...
    ValueError: task has 1 missing label (first in row 1): every row needs a task. Drop ...
    """
    check_not_lazy(task, name)
    if isinstance(task, np.ma.MaskedArray):
        labels = task.data.astype(object)
        labels[np.ma.getmaskarray(task)] = None
    elif isinstance(task, list | tuple):
        # as objects: numpy would silently turn [1, "a"] and ["a", nan] into strings
        labels = np.fromiter(task, dtype=object, count=len(task))
    else:
        labels = np.asarray(task)
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must be 1-D, one label per row, but has shape {labels.shape}: pass a single column."
        )
    if n_rows is not None:
        check_length(name, labels.size, n_rows)
    if labels.dtype.kind in "OT":
        return _labels_from_objects(labels.astype(object, copy=False), name, remedy)
    if labels.dtype.kind == "U":
        return labels.astype(labels.dtype.newbyteorder("="), copy=False)
    if labels.dtype.kind == "i":
        return labels.astype(np.int64, copy=False)
    if labels.dtype.kind == "u":
        return _labels_from_objects(labels.astype(object), name, remedy)
    raise _wrong_label(labels, name, 0, remedy)


def _labels_from_objects(labels: np.ndarray, name: str, remedy: str) -> np.ndarray:
    values = labels.tolist()
    kinds = set(map(type, values))
    if all(issubclass(kind, str) for kind in kinds):
        if "\0" in "".join(values):  # numpy drops them at the end, which would merge two tasks
            row = next(i for i, label in enumerate(values) if "\0" in label)
            raise ValueError(f"{name} label {values[row]!r} in row {row} holds a NUL character: remove it.")
        return labels.astype(str)
    valid = {kind for kind in kinds if issubclass(kind, str | int | np.integer) and kind is not bool}
    if kinds > valid:
        row = next(i for i, v in enumerate(values) if type(v) not in valid)
        raise _wrong_label(labels, name, row, remedy)
    other = next((i for i, v in enumerate(values) if isinstance(v, str) != isinstance(values[0], str)), None)
    if other is not None:
        raise TypeError(
            f"{name} mixes strings and integers: row 0 is {values[0]!r} and row {other} is "
            f"{values[other]!r}. Use one type for all labels, for example [str(label) for label in task]."
        )
    if not -(2**63) <= min(values) <= max(values) < 2**63:
        raise ValueError(f"{name} has integer labels beyond 64 bits: use strings, or smaller integers.")
    return labels.astype(np.int64)


def missing_labels(labels: np.ndarray) -> np.ndarray:
    """Which labels are None, NaN or NaT."""
    if labels.dtype.kind != "O":
        return labels != labels  # NaN and NaT
    return np.fromiter(map(is_missing, labels), dtype=bool, count=labels.size)


def _wrong_label(labels: np.ndarray, name: str, row: int, remedy: str) -> Exception:
    """The error for labels that are missing, or of which the one in `row` is of a wrong type."""
    missing = missing_labels(labels)
    if missing.any():
        return ValueError(
            f"{name} has {count(missing.sum(), 'missing label')} (first in row {missing.argmax()}): "
            f"every row needs a task. {remedy}"
        )
    found = type(labels[row]).__name__ if labels.dtype == object else labels.dtype
    return TypeError(
        f"{name} labels must be strings or integers, but row {row} is of type {found}. "
        "Convert them first, for example with astype(str) or astype(int)."
    )


def check_two_classes(
    y: np.ndarray, *, observation_task: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> None:
    """Check that every task has rows of two classes with positive weight; the classes must be sortable.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.checks import check_two_classes
    >>> y, index = np.array(["no", "yes", "no"]), np.array([0, 0, 1])
    >>> check_two_classes(y, observation_task=index, labels=np.array(["a", "b"]))
    Traceback (most recent call last):
    ...
    ValueError: Task 'b' has only one class, 'no' (1 row): a classifier needs rows of both classes ...
    """
    y = np.asarray(y)
    if weights is not None:
        counting = _has_weight(y, observation_task, weights)
        y, observation_task = y[counting], observation_task[counting]
    classes = np.unique(y)
    table = class_counts(y, observation_task, len(labels))
    single = (table > 0).sum(axis=1) < 2
    if single.any():
        t = int(single.argmax())
        if not table[t].any():
            raise ValueError(f"Task {show(labels, t)} has no row of any class with positive weight.")
        raise ValueError(
            f"Task {show(labels, t)} has only one class, {show(classes, table[t].argmax())} "
            f"({count(table[t].sum(), 'row')}): a classifier needs rows of both classes in every task. "
            "Use levels='shrunk', with which it borrows its level from the others, add rows of the other "
            "class, or leave the task out."
        )


def _has_weight(y: np.ndarray, observation_task: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Which rows are of a class that has some part of its task's weight, and not next to none."""
    codes = np.unique(y, return_inverse=True)[1]
    group = observation_task * (int(codes.max(initial=0)) + 1) + codes
    total = np.bincount(observation_task, weights)[observation_task]
    return (weights > 0) & (np.bincount(group, weights)[group] > NEXT_TO_NOTHING * total)


def class_counts(y: np.ndarray, observation_task: np.ndarray, n_tasks: int) -> np.ndarray:
    """Number of rows of each class in each task, (n_tasks, n_classes), the classes in sorted order.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.checks import class_counts
    >>> class_counts(np.array(["no", "yes", "no"]), np.array([0, 0, 1]), 2).tolist()
    [[1, 1], [1, 0]]
    """
    classes, codes = np.unique(y, return_inverse=True)
    n = max(len(classes), 1)
    return np.bincount(observation_task * n + codes, minlength=n_tasks * n).reshape(n_tasks, n)


def n_classes(y: np.ndarray, observation_task: np.ndarray, n_tasks: int) -> np.ndarray:
    """Number of classes that each task has rows of, (n_tasks,)."""
    return (class_counts(y, observation_task, n_tasks) > 0).sum(axis=1)


# -- finite values -------------------------------------------------------------------------------------


def check_finite_design(
    X: Any,
    *,
    observation_task: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    feature_names: Sequence[str] | None = None,
    offsets: np.ndarray | None = None,
    name: str = "X",
    remedy: str = "",
) -> None:
    """Check that a design has neither NaN nor infinity; clean data cost one pass.

    Without `observation_task` no task is named; with `offsets` rows are counted from their task's first row.
    `remedy` ends the error.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.checks import check_finite_design
    >>> check_finite_design(np.array([[1.0, np.nan]]), feature_names=["age", "dose"])
    Traceback (most recent call last):
    ...
    ValueError: Input X contains NaN: 1 value in column 'dose' (first in row 0). Impute it, or drop ...
    """
    if _all_finite(X.data if sparse.issparse(X) else X):
        return
    found, n_alike, n_all = _first_not_finite(X, name, observation_task, labels, offsets, feature_names)
    others = "" if n_alike == n_all else f" {n_all} values of {name} are not finite."
    it = "it" if n_all == 1 else "them"
    raise ValueError(f"{found}{others} Impute {it}, or drop those rows or columns.{remedy}")


def check_finite_target(
    y: np.ndarray,
    *,
    observation_task: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    offsets: np.ndarray | None = None,
    name: str = "y",
) -> None:
    """Check that a target has neither NaN nor infinity; arguments as in `check_finite_design`.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.checks import check_finite_target
    >>> y, position = np.array([1.0, np.inf]), np.zeros(2, int)
    >>> check_finite_target(y, observation_task=position, labels=np.array(["a"]))
    Traceback (most recent call last):
    ...
    ValueError: Input y contains infinity: 1 value of task 'a' (first in row 1). Drop those rows or ...
    """
    if not _all_finite(y):
        found = _first_not_finite(y, name, observation_task, labels, offsets, None)[0]
        raise ValueError(f"{found} Drop those rows or fill in the target.")


def _all_finite(values: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        total = values.sum()
    # the sum of finite values may overflow: only a finite sum is proof
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


def _first_not_finite(
    values: Any, name: str, observation_task: Any, labels: Any, offsets: Any, feature_names: Any
) -> tuple[str, int, int]:
    """Name the first value that is not finite; count those of its kind, column and task, and all of them."""
    if sparse.issparse(values):
        entries = values.tocoo(copy=False)
        bad = ~np.isfinite(entries.data)
        rows, columns, found = entries.row[bad], entries.col[bad], entries.data[bad]
    else:
        table = values.reshape(len(values), -1)
        rows, columns = np.nonzero(~np.isfinite(table))
        found = table[rows, columns]
    first = np.lexsort((columns, rows))[0]
    row, same = rows[first], (columns == columns[first]) & (np.isnan(found) == np.isnan(found[first]))
    where = f" in column {show(feature_names, columns[first])}" if values.ndim == 2 else ""
    if observation_task is not None and labels is not None:
        t = observation_task[row]
        same &= observation_task[rows] == t
        where, row = f"{where} of task {show(labels, t)}", row if offsets is None else row - offsets[t]
    what = f"{not_finite_kind(found[first])}: {count(same.sum(), 'value')}"
    return f"Input {name} contains {what}{where} (first in row {row}).", same.sum(), same.size
