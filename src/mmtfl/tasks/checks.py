"""Checks of what people hand in: each returns clean arrays, or says what to do about it.

Functions that can name a task take ``task_index`` (the task of each row, as a position in ``labels``)
and ``labels``, so that containers and estimators word their errors alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.tasks.frames import FLOATS, as_float, frame_design, open_frame
from mmtfl.tasks.wording import count, not_finite_kind, show

__all__ = [
    "check_design",
    "check_feature_names",
    "check_length",
    "check_target",
    "check_task_weights",
    "check_two_classes",
    "check_weights",
    "class_counts",
]


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
    >>> from mmtfl.tasks.checks import check_design
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
    >>> from mmtfl.tasks.checks import check_target
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
    >>> from mmtfl.tasks.checks import check_weights
    >>> check_weights([1, -2], 2)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight is negative, -2.0 in row 1: weights must be finite and not negative. Use ...
    """
    w = _check_column(w, n_rows, name=name, of=of, hint="pass one weight per row")
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
    >>> from mmtfl.tasks.checks import check_task_weights
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
    >>> from mmtfl.tasks.checks import check_two_classes
    >>> y, index = np.array(["no", "yes", "no"]), np.array([0, 0, 1])
    >>> check_two_classes(y, task_index=index, labels=np.array(["a", "b"]))
    Traceback (most recent call last):
    ...
    ValueError: Task 'b' has only one class, 'no' (1 row): a classifier needs rows of both classes ...
    """
    y = np.asarray(y)
    if weights is not None:
        y, task_index = y[weights > 0], task_index[weights > 0]
    classes = np.unique(y)
    table = class_counts(y, task_index, len(labels))
    single = (table > 0).sum(axis=1) < 2
    if single.any():
        t = int(single.argmax())
        if not table[t].any():
            raise ValueError(f"Task {show(labels, t)} has no row of any class with positive weight.")
        raise ValueError(
            f"Task {show(labels, t)} has only one class, {show(classes, table[t].argmax())} "
            f"({count(table[t].sum(), 'row')}): a classifier needs rows of both classes in every task. "
            "Add rows of the other class, leave the task out, or have it predicted by its base rate with "
            "on_degenerate_task='base_rate'."
        )


def class_counts(y: np.ndarray, task_index: np.ndarray, n_tasks: int) -> np.ndarray:
    """Number of rows of each class in each task.

    Parameters
    ----------
    y : ndarray of shape (n_rows,)
        Class of each row, of any type that sorts.
    task_index : ndarray of shape (n_rows,)
        Task of each row, as a position.
    n_tasks : int
        Number of tasks.

    Returns
    -------
    counts : ndarray of shape (n_tasks, n_classes)
        Classes in sorted order.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.checks import class_counts
    >>> class_counts(np.array(["no", "yes", "no"]), np.array([0, 0, 1]), 2).tolist()
    [[1, 1], [1, 0]]
    """
    classes, codes = np.unique(y, return_inverse=True)
    n_classes = max(len(classes), 1)
    counts = np.bincount(task_index * n_classes + codes, minlength=n_tasks * n_classes)
    return counts.reshape(n_tasks, n_classes)


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
