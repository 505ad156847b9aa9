"""Task labels: strings or integers, one per row."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmtfl.tasks.checks import check_length
from mmtfl.tasks.frames import is_missing
from mmtfl.tasks.wording import count


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
    >>> from mmtfl.tasks.labels import check_task_labels
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
    missing = missing_labels(labels)
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
    missing = missing_labels(labels)
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


def missing_labels(labels: np.ndarray) -> np.ndarray:
    """Which labels are None, NaN or NaT."""
    if labels.dtype.kind != "O":
        return labels != labels  # NaN and NaT
    return np.fromiter(map(is_missing, labels), dtype=bool, count=labels.size)


def _raise_missing_labels(missing: np.ndarray, name: str) -> None:
    raise ValueError(
        f"{name} has {count(missing.sum(), 'missing label')} (first in row {missing.argmax()}): "
        "every row needs a task. Drop these rows or fill in a label."
    )


def _wrong_label_kind(name: str, found: str, row: int) -> TypeError:
    return TypeError(
        f"{name} labels must be strings or integers, but row {row} is of type {found}. "
        "Convert them first, for example with astype(str) or astype(int)."
    )
