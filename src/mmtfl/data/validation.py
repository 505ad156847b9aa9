"""Checks of what people hand in: each returns clean arrays, or says what to do about it.

Functions that can name a task take ``task_index`` (the task of each row, as a position in ``labels``)
and ``labels``, so that containers and estimators word their errors alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.data.conversion import FLOATS, as_float, frame_design, is_missing, open_frame

__all__ = [
    "check_design",
    "check_feature_names",
    "check_finite_design",
    "check_finite_target",
    "check_length",
    "check_target",
    "check_task_labels",
    "check_task_weights",
    "check_two_classes",
    "check_weights",
]


# -- task labels ---------------------------------------------------------------------------------------


def check_task_labels(task: Any, n_rows: int | None, *, name: str = "task") -> np.ndarray:
    """Check one task label per row.

    Parameters
    ----------
    task : array-like of shape (n_rows,)
        Strings or integers: a list, an array, or a pandas, polars or pyarrow column.
    n_rows : int or None
        Number of rows the labels belong to; None if any number will do.
    name : str, default="task"
        What the argument is called in error messages.

    Returns
    -------
    labels : ndarray of shape (n_rows,)
        Unicode or int64.

    Examples
    --------
    >>> from mmtfl.data.validation import check_task_labels
    >>> check_task_labels(["b", "a"], 2)
    array(['b', 'a'], dtype='<U1')
    >>> check_task_labels(["b", None], 2)
    Traceback (most recent call last):
    ...
    ValueError: task has 1 missing label (first in row 1): every row needs a task. Drop ...
    """
    labels = _labels_array(task, name)
    if labels.ndim != 1:
        raise ValueError(
            f"{name} must be 1-D, one label per row, but has shape {labels.shape}: pass a single column."
        )
    if n_rows is not None:
        check_length(name, labels.size, n_rows)
    if labels.dtype.kind in "OT":
        return _labels_from_objects(labels.astype(object, copy=False), name)
    if labels.dtype.kind == "U":
        return labels.astype(labels.dtype.newbyteorder("="), copy=False)
    if labels.dtype.kind in "iu":
        return _labels_from_integers(labels, name)
    missing = _missing(labels)
    if missing.any():
        _raise_missing_labels(missing, name)
    raise _wrong_label_kind(name, str(labels.dtype), 0)


def _labels_array(task: Any, name: str) -> np.ndarray:
    if isinstance(task, np.ma.MaskedArray):
        labels = task.data.astype(object)
        labels[np.ma.getmaskarray(task)] = None
        return labels
    if isinstance(task, list | tuple):
        # as objects: numpy would turn [1, "a"] and ["a", nan] into strings without a word
        return np.fromiter(task, dtype=object, count=len(task))
    if hasattr(task, "collect"):
        raise TypeError(f"{name} is lazy ({type(task).__name__}): call .collect() first.")
    return np.asarray(task)


def _labels_from_objects(labels: np.ndarray, name: str) -> np.ndarray:
    kinds = set(map(type, labels.tolist()))
    if all(issubclass(kind, str) for kind in kinds):
        return _labels_from_strings(labels, name)
    if all(_is_integer_kind(kind) for kind in kinds):
        return _labels_from_integers(labels, name)
    missing = _missing(labels)
    if missing.any():
        _raise_missing_labels(missing, name)
    row = next(
        (i for i, v in enumerate(labels) if not (isinstance(v, str) or _is_integer_kind(type(v)))), None
    )
    if row is not None:
        raise _wrong_label_kind(name, type(labels[row]).__name__, row)
    other = next(i for i, v in enumerate(labels) if isinstance(v, str) != isinstance(labels[0], str))
    raise TypeError(
        f"{name} mixes strings and integers: row 0 is {labels[0]!r} and row {other} is {labels[other]!r}. "
        "Use one type for all labels, for example [str(label) for label in task]."
    )


def _labels_from_strings(labels: np.ndarray, name: str) -> np.ndarray:
    strings = labels.tolist()
    if "\0" in "".join(strings):  # numpy drops them at the end, which would merge two tasks
        row = next(i for i, label in enumerate(strings) if "\0" in label)
        raise ValueError(f"{name} label {strings[row]!r} in row {row} holds a NUL character: remove it.")
    return labels.astype(str)


def _labels_from_integers(labels: np.ndarray, name: str) -> np.ndarray:
    if labels.dtype.kind != "i" and labels.size:
        largest = max(labels.max(), -labels.min() - 1) if labels.dtype.kind == "O" else labels.max()
        if largest > np.iinfo(np.int64).max:
            raise ValueError(f"{name} has integer labels beyond 64 bits: use strings, or smaller integers.")
    return labels.astype(np.int64, copy=False)


def _is_integer_kind(kind: type) -> bool:
    return issubclass(kind, int | np.integer) and not issubclass(kind, bool)


def _missing(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind != "O":
        return labels != labels  # NaN and NaT
    return np.fromiter(map(is_missing, labels), dtype=bool, count=labels.size)


def _raise_missing_labels(missing: np.ndarray, name: str) -> None:
    raise ValueError(
        f"{name} has {_count(missing.sum(), 'missing label')} (first in row {missing.argmax()}): "
        "every row needs a task. Drop these rows or fill in a label."
    )


def _wrong_label_kind(name: str, found: str, row: int) -> TypeError:
    return TypeError(
        f"{name} labels must be strings or integers, but row {row} is of type {found}. "
        "Convert them first, for example with astype(str) or astype(int)."
    )


# -- the design and its columns --------------------------------------------------------------------------


def check_design(
    X: Any, *, name: str = "X", feature_names: Sequence[str] | None = None
) -> tuple[Any, tuple[str, ...] | None]:
    """Check a design matrix: two-dimensional, numeric, float32 or float64.

    Clean arrays and CSR or CSC matrices come back as they are, without a copy. Values are not looked at:
    see `check_finite_design`.

    Parameters
    ----------
    X : array-like, sparse matrix or frame of shape (n_rows, n_features)
        Dense, sparse, or a pandas, polars or pyarrow frame.
    name : str, default="X"
        What the argument is called in error messages.
    feature_names : sequence of str, optional
        Names of the columns; by default those of the frame, if they are strings.

    Returns
    -------
    X : ndarray or CSR or CSC matrix
        Of float32 or float64.
    feature_names : tuple of str, or None
        The names, if there are any.

    Examples
    --------
    >>> from mmtfl.data.validation import check_design
    >>> check_design([[True, False]])
    (array([[1., 0.]]), None)
    """
    names: Any = None
    if sparse.issparse(X):
        X = _sparse_design(X, name)
    elif isinstance(X, np.ndarray):
        X = as_float(X, name)
    else:
        if hasattr(X, "collect"):
            raise TypeError(f"{name} is a lazy frame ({type(X).__name__}): call .collect() first.")
        frame = open_frame(X, name)
        if frame is None:
            X = as_float(X, name)
        else:
            names = frame.columns
            X = frame_design(frame, name)
    _check_shape(X, name)
    if feature_names is None and names is not None and not any(isinstance(column, str) for column in names):
        names = None  # a frame with numbers for column names has no names
    return X, check_feature_names(names if feature_names is None else feature_names, X.shape[1])


def check_feature_names(feature_names: Any, n_features: int) -> tuple[str, ...] | None:
    """Check the names of the columns: strings, all different, one per column.

    Parameters
    ----------
    feature_names : sequence of str or None
        The names.
    n_features : int
        Number of columns.

    Returns
    -------
    feature_names : tuple of str, or None
        Plain strings.

    Examples
    --------
    >>> from mmtfl.data.validation import check_feature_names
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
    if X.ndim != 2:
        raise ValueError(f"Expected a 2D {name}, got a {X.ndim}D sparse array: reshape it.")
    given = X
    if X.format not in ("csr", "csc"):
        X = X.tocsr()
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is a sparse matrix of {X.dtype}.")
    if X.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold numbers, but is a sparse matrix of {X.dtype}.")
    if X.dtype not in FLOATS:
        X = X.astype(np.float64)
    return _canonical(X, own=X is not given)


def _canonical(X: Any, *, own: bool) -> Any:
    # duplicated entries would be squared one by one in column norms; unsorted ones defeat slicing
    if X.has_canonical_format and X.data.size == X.nnz:
        return X
    if not own:
        X = X.copy()
    X.sum_duplicates()
    X.prune()
    return X


def _check_shape(X: Any, name: str) -> None:
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead: {name} has shape {X.shape}. Reshape your data "
            "with reshape(-1, 1) if it is one feature, or reshape(1, -1) if it is one row."
        )
    if X.shape[0] == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape={X.shape}): {name} needs at least one row.")
    if X.shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required: {name} "
            "needs at least one column."
        )


# -- targets, weights, lengths ---------------------------------------------------------------------------


def check_length(name: str, found: int, n_rows: int, *, of: str = "X") -> None:
    """Check that an argument has one entry per row.

    Parameters
    ----------
    name : str
        What the argument is called.
    found : int
        Its length.
    n_rows : int
        The number of rows.
    of : str, default="X"
        What the rows belong to.

    Examples
    --------
    >>> from mmtfl.data.validation import check_length
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


def check_target(y: Any, n_rows: int, *, name: str = "y", of: str = "X") -> np.ndarray:
    """Check a target: one number per row. Values are not looked at, see `check_finite_target`.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        The target.
    n_rows : int
        Number of rows it belongs to.
    name, of : str
        What the target and the rows are called in error messages.

    Returns
    -------
    y : ndarray of shape (n_rows,)
        Of float64.

    Examples
    --------
    >>> from mmtfl.data.validation import check_target
    >>> check_target([1, 2], 2)
    array([1., 2.])
    """
    return _check_column(y, n_rows, name=name, of=of, hint="for one column per task, use Tasks.from_shared")


def check_weights(w: Any, n_rows: int, *, name: str = "sample_weight", of: str = "X") -> np.ndarray:
    """Check sample weights: finite, not negative, not all zero, one per row.

    Parameters
    ----------
    w : array-like of shape (n_rows,)
        The weights.
    n_rows : int
        Number of rows they belong to.
    name, of : str
        What the weights and the rows are called in error messages.

    Returns
    -------
    w : ndarray of shape (n_rows,)
        Of float64.

    Examples
    --------
    >>> from mmtfl.data.validation import check_weights
    >>> check_weights([1, -2], 2)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight is negative, -2.0 in row 1: weights must be finite and not negative. Use ...
    """
    w = _check_column(w, n_rows, name=name, of=of, hint="pass one weight per row")
    wrong = ~((w >= 0) & (w < np.inf))
    if wrong.any():
        row = int(wrong.argmax())
        found = f"negative, {w[row]}" if w[row] < 0 else _kind(w[row])
        raise ValueError(
            f"{name} is {found} in row {row}: weights must be finite and not negative. "
            "Use 0 to leave a row out."
        )
    if not (w > 0).any():
        raise ValueError(f"{name} is zero in every row: at least one row must have a positive weight.")
    with np.errstate(over="ignore"):
        total = w.sum()
    if not np.isfinite(total):
        raise ValueError(f"The sum of {name} exceeds the largest float64: divide the weights by a constant.")
    return w


def check_task_weights(weights: np.ndarray, *, task_index: np.ndarray, labels: np.ndarray) -> None:
    """Check that every task has a positive total weight.

    Parameters
    ----------
    weights : ndarray of shape (n_rows,)
        Checked weights.
    task_index : ndarray of shape (n_rows,)
        Task of each row, as a position in ``labels``.
    labels : ndarray of shape (n_tasks,)
        Task labels.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.data.validation import check_task_weights
    >>> check_task_weights(np.array([1.0, 0.0]), task_index=np.array([0, 1]), labels=np.array(["a", "b"]))
    Traceback (most recent call last):
    ...
    ValueError: Task 'b' has zero total weight: give one of its rows a positive weight, or leave the task out.
    """
    counts = np.bincount(task_index[weights > 0], minlength=len(labels))
    if not counts.all():
        raise ValueError(
            f"Task {show(labels, counts.argmin())} has zero total weight: give one of its rows a positive "
            "weight, or leave the task out."
        )


def check_two_classes(
    y: np.ndarray, *, task_index: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None
) -> None:
    """Check that every task has rows of two classes, counting rows of positive weight only.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Class of each row, of any type that sorts.
    task_index : ndarray of shape (n_rows,)
        Task of each row, as a position in ``labels``.
    labels : ndarray of shape (n_tasks,)
        Task labels.
    weights : ndarray of shape (n_rows,), optional
        Checked weights.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.data.validation import check_two_classes
    >>> y, index = np.array(["no", "yes", "no"]), np.array([0, 0, 1])
    >>> check_two_classes(y, task_index=index, labels=np.array(["a", "b"]))
    Traceback (most recent call last):
    ...
    ValueError: Task 'b' has only one class, 'no' (1 row): a classifier needs rows of both classes ...
    """
    y = np.asarray(y)
    if weights is not None:
        y, task_index = y[weights > 0], task_index[weights > 0]
    classes, codes = np.unique(y, return_inverse=True)
    n_tasks, n_classes = len(labels), max(len(classes), 1)
    table = np.bincount(task_index * n_classes + codes, minlength=n_tasks * n_classes)
    table = table.reshape(n_tasks, n_classes)
    single = (table > 0).sum(axis=1) < 2
    if single.any():
        t = int(single.argmax())
        if not table[t].any():
            raise ValueError(f"Task {show(labels, t)} has no row of any class with positive weight.")
        raise ValueError(
            f"Task {show(labels, t)} has only one class, {show(classes, table[t].argmax())} "
            f"({_count(table[t].sum(), 'row')}): a classifier needs rows of both classes in every task. "
            "Add rows of the other class, or leave the task out."
        )


def _check_column(values: Any, n_rows: int, *, name: str, of: str, hint: str) -> np.ndarray:
    if sparse.issparse(values):
        raise TypeError(f"{name} must be dense, but is a sparse matrix: pass {name}.toarray().ravel().")
    if hasattr(values, "collect"):
        raise TypeError(f"{name} is lazy ({type(values).__name__}): call .collect() first.")
    if values is None:
        raise ValueError(f"{name} is None, but one number per row of {of} is required.")
    column = as_float(values, name)
    if column.ndim != 1:
        raise ValueError(f"{name} must be 1-D, but has shape {column.shape}: {hint}.")
    check_length(name, column.size, n_rows, of=of)
    return column.astype(np.float64, copy=False)


# -- finite values ---------------------------------------------------------------------------------------


def check_finite_design(
    X: Any,
    *,
    task_index: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    feature_names: Sequence[str] | None = None,
    offsets: np.ndarray | None = None,
    name: str = "X",
) -> None:
    """Check that a design has neither NaN nor infinity; one pass over clean data.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_rows, n_features)
        The design.
    task_index : ndarray of shape (n_rows,), optional
        Task of each row, as a position in ``labels``; None when the rows belong to all tasks.
    labels : ndarray of shape (n_tasks,), optional
        Task labels.
    feature_names : sequence of str, optional
        Names of the columns.
    offsets : ndarray of shape (n_tasks + 1,), optional
        Where each task begins, to count its rows from there.
    name : str, default="X"
        What the argument is called in error messages.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.data.validation import check_finite_design
    >>> check_finite_design(np.array([[1.0, np.nan]]), feature_names=["age", "dose"])
    Traceback (most recent call last):
    ...
    ValueError: Input X contains NaN: 1 value in column 'dose' (first in row 0). Impute it, or drop ...
    """
    if _all_finite(X.data if sparse.issparse(X) else X):
        return
    rows, columns, values = _not_finite_entries(X)
    first = np.lexsort((columns, rows))[0]
    same = (columns == columns[first]) & (np.isnan(values) == np.isnan(values[first]))
    where, row = f" in column {show(feature_names, columns[first])}", rows[first]
    if task_index is not None and labels is not None:
        t = task_index[row]
        same &= task_index[rows] == t
        where, row = f"{where} of task {show(labels, t)}", row if offsets is None else row - offsets[t]
    others = "" if same.all() else f" {values.size} values of {name} are not finite."
    raise ValueError(
        f"{_found(name, values[first], same.sum(), where, row)}{others} "
        f"Impute {'it' if values.size == 1 else 'them'}, or drop those rows or columns."
    )


def check_finite_target(
    y: np.ndarray,
    *,
    task_index: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    offsets: np.ndarray | None = None,
    name: str = "y",
) -> None:
    """Check that a target has neither NaN nor infinity.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        The target.
    task_index : ndarray of shape (n_rows,), optional
        Task of each row, as a position in ``labels``.
    labels : ndarray of shape (n_tasks,), optional
        Task labels.
    offsets : ndarray of shape (n_tasks + 1,), optional
        Where each task begins, to count its rows from there.
    name : str, default="y"
        What the target is called in error messages.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.data.validation import check_finite_target
    >>> check_finite_target(np.array([1.0, np.inf]), task_index=np.zeros(2, int), labels=np.array(["a"]))
    Traceback (most recent call last):
    ...
    ValueError: Input y contains infinity: 1 value of task 'a' (first in row 1). Drop those rows or ...
    """
    if _all_finite(y):
        return
    bad = np.flatnonzero(~np.isfinite(y))
    same, where, row = np.isnan(y[bad]) == np.isnan(y[bad[0]]), "", bad[0]
    if task_index is not None and labels is not None:
        t = task_index[row]
        same &= task_index[bad] == t
        where, row = f" of task {show(labels, t)}", row if offsets is None else row - offsets[t]
    found = _found(name, y[bad[0]], same.sum(), where, row)
    raise ValueError(f"{found} Drop those rows or fill in the target.")


def _all_finite(values: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        total = values.sum()
    # the sum of finite values may overflow: only a finite sum is proof
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())


def _not_finite_entries(X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if sparse.issparse(X):
        entries = X.tocoo(copy=False)
        bad = ~np.isfinite(entries.data)
        return entries.row[bad], entries.col[bad], entries.data[bad]
    rows, columns = np.nonzero(~np.isfinite(X))
    return rows, columns, X[rows, columns]


# -- words -----------------------------------------------------------------------------------------------


def _kind(value: float) -> str:
    return "NaN" if np.isnan(value) else "infinity"


def _found(name: str, value: float, count: int, where: str, row: int) -> str:
    return f"Input {name} contains {_kind(value)}: {_count(count, 'value')}{where} (first in row {row})."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def show(names: Any, index: Any) -> str:
    """Show one of some labels or names as Python would write it, without numpy's type around it.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.data.validation import show
    >>> show(np.array([7, 8]), 1), show(["age"], 0), show(None, 3)
    ('8', "'age'", '3')
    """
    if names is None:
        return str(index)
    name = names[index]
    return repr(name.item() if isinstance(name, np.generic) else name)
