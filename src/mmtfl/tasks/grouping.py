"""Grouping rows by task, and taking rows of a design in whatever way it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class Groups(NamedTuple):
    """Rows grouped by a key."""

    labels: np.ndarray  # the distinct keys, sorted
    offsets: np.ndarray
    task_index: np.ndarray  # group of each row, in the order given
    order: np.ndarray | None  # rows in grouped order; None if they already are


def group_rows(keys: np.ndarray) -> Groups:
    """Group rows by key, keys in sorted order, rows of a group in the order given."""
    if (keys[1:] >= keys[:-1]).all():
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        offsets = np.append(starts, len(keys)).astype(np.intp)
        return Groups(keys[starts], offsets, group_index(offsets), None)
    labels, index = _factorize(keys)
    # few tasks fit small integers, which numpy sorts by radix
    order = np.argsort(index.astype(np.min_scalar_type(len(labels))), kind="stable")
    return Groups(labels, offsets_of(np.bincount(index)), index, order)


def _factorize(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if keys.dtype.kind != "U":
        labels, index = np.unique(keys, return_inverse=True)
        return labels, index
    # sorting every string is slower than hashing them and sorting the distinct ones
    strings = keys.tolist()
    distinct = sorted(set(strings))
    position = {key: t for t, key in enumerate(distinct)}
    index = np.fromiter(map(position.__getitem__, strings), dtype=np.intp, count=len(strings))
    return np.array(distinct), index


def offsets_of(sizes: Any) -> np.ndarray:
    """Where each group begins, and the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def group_index(offsets: np.ndarray) -> np.ndarray:
    """Group of each row, for rows in grouped order."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def take_rows(X: Any, rows: slice | np.ndarray) -> Any:
    """Take rows of X in its own format and memory order; consecutive rows as a view, if possible."""
    if not isinstance(rows, slice) and (rows[1:] - rows[:-1] == 1).all():
        rows = slice(int(rows[0]), int(rows[-1]) + 1)
    if isinstance(rows, slice):
        return X if rows == slice(0, X.shape[0]) else _slice_rows(X, rows)
    if sparse.issparse(X):
        taken = X[rows]
        taken.sort_indices()  # scipy leaves the rows of CSC in the order they were asked for
        return taken
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        return np.take(X.T, rows, axis=1).T  # stays in column order
    return X[rows]


def _slice_rows(X: Any, part: slice) -> Any:
    if not (sparse.issparse(X) and X.format == "csr"):
        return X[part]
    lo, hi = X.indptr[part.start], X.indptr[part.stop]
    taken = type(X)((part.stop - part.start, X.shape[1]), dtype=X.dtype)
    # set, not passed in: slicing and the constructor both copy short pieces of long arrays
    taken.data, taken.indices = X.data[lo:hi], X.indices[lo:hi]
    taken.indptr = X.indptr[part.start : part.stop + 1] - lo
    if X.has_canonical_format:
        taken.has_canonical_format = True  # known already: spares a pass over the entries
    return taken


def split_rows(X: Any, offsets: np.ndarray) -> Iterator[Any]:
    """Yield the rows of each group in turn, in the format of X."""
    parts = [slice(int(a), int(b)) for a, b in pairwise(offsets)]
    if sparse.issparse(X) and X.format == "csc" and len(parts) > 1:
        # rows of CSC cost a pass over all entries per group: go through CSR once
        by_rows = X.tocsr()
        return (_slice_rows(by_rows, part).tocsc() for part in parts)
    return (take_rows(X, part) for part in parts)
