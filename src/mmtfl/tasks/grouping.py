"""Group rows by task, and take rows of a dense or sparse design."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse


class RowsElsewhere:
    """What can be told of tasks whose rows are not here: they have labels, sizes and feature_names."""

    labels: np.ndarray
    sizes: Any
    feature_names: tuple[str, ...]

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    n_lines = n_features

    @property
    def n_samples(self) -> int:
        """Number of rows, over all tasks."""
        return int(self.sizes.sum())

    def _described(self, more: str) -> str:
        sizes = f"n_tasks={self.n_tasks}, n_samples={self.n_samples}, n_features={self.n_features}"
        return f"{type(self).__name__}({sizes}, {more})"


class Groups(NamedTuple):
    """Rows grouped by their task label."""

    labels: np.ndarray  # the distinct labels, sorted
    offsets: np.ndarray
    observation_task: np.ndarray  # position of each row's label, in the order given
    order: np.ndarray | None  # the rows in grouped order; None if they are given in it


def group_rows(keys: np.ndarray) -> Groups:
    """Group rows by label; labels are sorted, rows of a task stay in the order given."""
    if (keys[1:] >= keys[:-1]).all():
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        offsets = np.append(starts, len(keys)).astype(np.intp)
        return Groups(keys[starts], offsets, np.repeat(np.arange(len(starts)), np.diff(offsets)), None)
    if keys.dtype.kind != "U":
        labels, index = np.unique(keys, return_inverse=True)
    else:  # sorting every string is slower than hashing them and sorting the distinct ones
        strings = keys.tolist()
        labels = np.array(sorted(set(strings)))
        position = {key: t for t, key in enumerate(labels.tolist())}
        index = np.fromiter(map(position.__getitem__, strings), dtype=np.intp, count=len(strings))
    # numpy sorts small integers by radix
    order = np.argsort(index.astype(np.min_scalar_type(len(labels))), kind="stable")
    return Groups(labels, offsets_of(np.bincount(index)), index, order)


def offsets_of(sizes: Any) -> np.ndarray:
    """First row of each task, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)


def observation_task_of(offsets: np.ndarray) -> np.ndarray:
    """Task of each row, as a position, for rows in grouped order."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def own_folds(label: Any, n_rows: int, n_folds: int, seed: int) -> np.ndarray:
    """Fold of every row of a task, by its label alone: the same whatever other tasks there are.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.grouping import own_folds
    >>> np.bincount(own_folds("Aker", 52, 5, seed=0)).tolist()
    [10, 10, 10, 11, 11]
    """
    of_label = int.from_bytes(blake2b(str(label).encode(), digest_size=8).digest(), "little")
    rng = np.random.default_rng([seed, of_label])
    return rng.permutation((rng.integers(n_folds) + np.arange(n_rows)) % n_folds)


def take_rows(X: Any, rows: slice | np.ndarray) -> Any:
    """Take rows of X in its own format and memory order, consecutive rows as a view where possible."""
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
    # attributes are set because slicing and the constructor copy short parts of long arrays
    taken.data, taken.indices = X.data[lo:hi], X.indices[lo:hi]
    taken.indptr = X.indptr[part.start : part.stop + 1] - lo
    if X.has_canonical_format:
        taken.has_canonical_format = True  # saves a pass over the entries
    return taken


def split_rows(X: Any, offsets: np.ndarray) -> Iterator[Any]:
    """Yield the rows of each task in turn, in the format of X."""
    parts = [slice(int(a), int(b)) for a, b in pairwise(offsets)]
    if sparse.issparse(X) and X.format == "csc" and len(parts) > 1:
        # taking rows of CSC costs a pass over all entries per task: convert to CSR once
        by_rows = X.tocsr()
        return (_slice_rows(by_rows, part).tocsc() for part in parts)
    return (take_rows(X, part) for part in parts)


def some_tasks(tasks: Any, lo: int, hi: int, X: Any = None) -> Any:
    """The tasks from position lo up to hi, as views where storage allows it; X if it is at hand already."""
    own = slice(int(tasks.offsets[lo]), int(tasks.offsets[hi]))
    return replace(
        tasks,
        X=X if X is not None else tasks.X if tasks.rows is not None else tasks.X[own],
        offsets=tasks.offsets[lo : hi + 1] - tasks.offsets[lo],
        labels=tasks.labels[lo:hi],
        absent=None if tasks.absent is None else tasks.absent[lo:hi],
        **by_observation(tasks, own),
    )


def by_observation(tasks: Any, index: Any) -> dict[str, Any]:
    """Those fields of tasks that have an entry per observation, at some observations."""
    fields = {name: getattr(tasks, name) for name in ("y", "weights", "rows", "known", "groups")}
    return {name: None if values is None else values[index] for name, values in fields.items()}
