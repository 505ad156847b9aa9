"""Lists of tasks, and targets that share their rows, brought into the one stack that `Tasks` holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.tasks.checks import check_design, check_length, check_target, check_weights
from mmtfl.tasks.frames import abbreviate
from mmtfl.tasks.labels import check_task_labels
from mmtfl.tasks.wording import show

# -- lists of pairs --------------------------------------------------------------------------------------


def check_pairs(pairs: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Check a list of (X, y)."""
    pairs = list(pairs)
    if not pairs:
        raise ValueError("The list of tasks is empty: pass at least one (X, y).")
    for t, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"Entry {t} of the list is of type {type(pair).__name__}, not a pair (X, y).")
    return pairs


def check_distinct_labels(labels: Any, n_tasks: int) -> np.ndarray:
    """Check one label per task, all different."""
    labels = check_task_labels(labels, None, name="labels")
    if len(labels) != n_tasks:
        raise ValueError(
            f"labels has length {len(labels)}, but there are {n_tasks} tasks: pass one label per task."
        )
    values, counts = np.unique(labels, return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"Task label {show(values, counts.argmax())} occurs twice: labels must differ.")
    return labels


def stack_designs(
    designs: Sequence[Any], shown: Sequence[str], feature_names: Sequence[str] | None
) -> tuple[Any, list[int], tuple[str, ...] | None]:
    """Stack the rows of all tasks: X, rows of each, names; ``shown`` is how to call a task in an error."""
    checked = [check_design(X, name=f"X of task {label}") for X, label in zip(designs, shown, strict=True)]
    parts = [X for X, _ in checked]
    _check_same_columns(parts, shown)
    if feature_names is None:
        feature_names = _common_names([names for _, names in checked], shown)
    X, names = check_design(_concatenate(parts), feature_names=feature_names)
    return X, [part.shape[0] for part in parts], names


def _concatenate(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if not sparse.issparse(parts[0]):
        return np.concatenate(parts)
    all_csc = {X.format for X in parts} == {"csc"}
    return sparse.vstack(parts, format="csc" if all_csc else "csr")


def _check_same_columns(parts: Sequence[Any], shown: Sequence[str]) -> None:
    first = parts[0]
    for X, label in zip(parts, shown, strict=True):
        if X.shape[1] != first.shape[1]:
            raise ValueError(
                f"Task {label} has {X.shape[1]} features, but task {shown[0]} has {first.shape[1]}. "
                "All tasks need the same columns in the same order: align them."
            )
        if sparse.issparse(X) != sparse.issparse(first):
            found, expected = ("sparse" if sparse.issparse(part) else "dense" for part in (X, first))
            raise TypeError(
                f"X of task {label} is {found}, but that of task {shown[0]} is {expected}: "
                "pass all of them dense, or all sparse."
            )


def _common_names(names: Sequence[tuple[str, ...] | None], shown: Sequence[str]) -> tuple[str, ...] | None:
    named = [(found, label) for found, label in zip(names, shown, strict=True) if found is not None]
    for found, label in named:
        expected, first = named[0]
        if found != expected:
            raise ValueError(
                f"Task {label} has columns {abbreviate(found)}, but task {first} has {abbreviate(expected)}. "
                "All tasks need the same columns in the same order: align them."
            )
    return named[0][0] if named else None


def stack_targets(targets: Sequence[Any], sizes: Sequence[int], shown: Sequence[str]) -> np.ndarray:
    """Concatenate the targets of all tasks."""
    of = [f"X of task {label}" for label in shown]
    names = [f"y of task {label}" for label in shown]
    return np.concatenate(
        [check_target(y, n, name=name, of=x) for y, n, name, x in zip(targets, sizes, names, of, strict=True)]
    )


def stack_weights(weights: Iterable[Any], sizes: Sequence[int], shown: Sequence[str]) -> np.ndarray:
    """Concatenate the weights of all tasks."""
    weights = list(weights)
    if len(weights) != len(sizes):
        raise ValueError(
            f"sample_weight has length {len(weights)}, but there are {len(sizes)} tasks: "
            "pass a list with one array of weights per task."
        )
    of = [f"X of task {label}" for label in shown]
    names = [f"sample_weight of task {label}" for label in shown]
    return np.concatenate(
        [
            check_weights(w, n, name=name, of=x)
            for w, n, name, x in zip(weights, sizes, names, of, strict=True)
        ]
    )


# -- one X, several targets ------------------------------------------------------------------------------


def check_shared_target(Y: Any, n_rows: int) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Check a target with a column per task, and give the names of its columns."""
    if sparse.issparse(Y):
        raise TypeError(
            "Y must be dense, with NaN for what is not observed, but is sparse: pass Y.toarray()."
        )
    if getattr(Y, "ndim", 2) == 1:
        raise ValueError(
            "Y must be 2-D, one column per task, but is 1-D: for a single target, use Tasks.from_rows."
        )
    Y, columns = check_design(Y, name="Y")
    check_length("Y", Y.shape[0], n_rows)
    return Y.astype(np.float64, copy=False), columns


def observed_targets(Y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mark the observed entries of Y, as (n_tasks, n_rows)."""
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


def observed_weights(sample_weight: Any, observed: np.ndarray) -> np.ndarray:
    """Give the weight of each observed entry, from weights of rows or of single entries."""
    n_rows = observed.shape[1]
    if np.ndim(sample_weight) < 2:
        return np.broadcast_to(check_weights(sample_weight, n_rows), observed.shape)[observed]
    weights, _ = check_design(sample_weight, name="sample_weight")
    if weights.shape != observed.T.shape:
        raise ValueError(
            f"sample_weight has shape {weights.shape}, but Y has shape {observed.T.shape}: "
            "pass one weight per row, or one per entry of Y."
        )
    return weights.T[observed]
