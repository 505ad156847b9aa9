"""Units in which a problem is well scaled: nothing overflows, underflows or cancels; and the way back.

A column near 1e7 with a spread of 1 loses seven digits whenever it is summed, and all when it is squared. A
task's intercept takes up any constant, so such a level may be subtracted before a solver sees the data.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mmtfl.objective.penalties import RowPenalty

if TYPE_CHECKING:
    from mmtfl.objective.norms import TwoNorms
from scipy import sparse

from mmtfl.tasks.container import Tasks
from mmtfl.tasks.grouping import observation_task_of


@dataclass(frozen=True)
class Units:
    """(X here) = column * (X there) + column_level, and y in the same way, task by task.

    Attributes
    ----------
    column : ndarray (n_features,)
        Powers of four, so that dividing by them and by their roots is exact.
    target : float
        A power of four.
    column_level : ndarray (n_features, n_tasks), or None
        What was taken off the columns; the intercepts take it up.
    target_level : ndarray (n_tasks,), or None
        What was taken off the targets.
    present : ndarray of bool (n_features here,), or None
        The columns that are there; the others have no entries, and so no coefficients. None: all of them.
    """

    column: np.ndarray
    target: float = 1.0
    column_level: np.ndarray | None = None
    target_level: np.ndarray | None = None
    present: np.ndarray | None = None

    def penalty(self, penalty: RowPenalty) -> RowPenalty:
        """The penalty there that costs as much as this one here."""
        penalty = penalty if self.present is None else penalty.of_rows(self.present)
        root = np.sqrt(self.target / self.column)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            # in extended precision, and half a step at a time: what is on the way may leave the floats
            alpha = np.asarray(penalty.alpha, dtype=np.longdouble)
            half = penalty.at(alpha / self.target).rescaled(root)
            there = half.at(half.alpha / self.target).rescaled(root)
            alpha = np.asarray(there.alpha, dtype=float)
            return there.at(
                alpha if alpha.ndim else float(alpha)
            )  # one strength of all rows is a plain number

    def norms(self, norms: "TwoNorms") -> "TwoNorms":
        """The same for two norms; all columns have one unit."""
        unit = float(self.column[0])
        if norms.known is not None and self.present is not None:
            norms = replace(norms, known=norms.known.of_rows(self.present))
        return norms.at(*(norm.alpha / self.target / unit for norm in (norms.shared, norms.specific)))

    def start(self, A: np.ndarray) -> np.ndarray:
        """Coefficients there, from those here."""
        return self._present(A) * (self.column / self.target)[:, None]

    def _present(self, A: np.ndarray) -> np.ndarray:
        return A if self.present is None else A[self.present]

    def place(self, A: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts there, from those here."""
        if self.column_level is not None:
            intercept = intercept + np.einsum("jt,jt->t", self.column_level, self._present(A))
        if self.target_level is not None:
            intercept = intercept - self.target_level
        return self.start(A), intercept / self.target

    def coefficients(self, A: np.ndarray) -> np.ndarray:
        """Coefficients here, from those there."""
        factor = (self.target / self.column)[:, None]
        if self.present is None:
            return A * factor
        kept = np.flatnonzero(A.any(axis=1))
        # zeros that are never written take no memory
        out = np.zeros((A.shape[1], len(self.present))).T
        out[np.flatnonzero(self.present)[kept]] = A[kept] * factor[kept]
        return out

    def intercept(self, intercept: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Intercepts here, from those there and coefficients here."""
        intercept = intercept * self.target
        if self.target_level is not None:
            intercept = intercept + self.target_level
        if self.column_level is not None:
            intercept = intercept - np.einsum("jt,jt->t", self.column_level, self._present(A))
        return intercept

    def solution(self, solution: Any) -> Any:
        """A `Solution` here, from one there."""
        A, square = self.coefficients(solution.A), self.target * self.target  # inf, and no error
        changes = {"A": A, "intercept": self.intercept(solution.intercept, A)}
        with np.errstate(over="ignore", invalid="ignore"):
            changes["objective"] = solution.objective * square
            changes["history"] = solution.history * square
        if not math.isfinite(changes["objective"]):
            raise ValueError(
                "y has values so large that their squares leave the range of floats: measure it in other "
                "units, or use scale_targets=True."
            )
        if solution.dual_gap is not None:
            changes["dual_gap"] = solution.dual_gap * square
        if hasattr(solution, "shared"):
            parts = (self.coefficients(part) for part in (solution.shared, solution.specific))
            changes["shared"], changes["specific"] = parts
            changes["loss"] = solution.loss * square
        return replace(solution, **changes)


# -- levels: columns and targets that lie far from zero against their spread ---------------------------------


_FAR_COLUMN = 30.0  # a level is worth taking off when it is this many times the spread
_FAR_TARGET = 1e3
_ROUNDING = 1e-13  # share of its level below which the spread of a task's targets is rounding
_CONSTANT = 1e-14  # share of its level below which the spread of a column is rounding
_BESIDE = 1e-6  # share of a task's weight that all rows but one have, below which that row is the level
_CHUNK = 1 << 18  # entries looked at together


def column_levels(tasks: Tasks) -> np.ndarray | None:
    """The level of each task's columns, (n_tasks, n_features), zero where it is not far; None: nowhere far.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import Tasks
    >>> X = np.array([[1e6, 0.0], [1e6 + 2, 1.0], [5.0, 1.0], [3.0, 1.0]])
    >>> column_levels(Tasks.from_rows(X, np.zeros(4), [0, 0, 1, 1])).tolist()
    [[1000001.0, 0.0], [0.0, 0.0]]
    """
    X, n_rows = tasks.X, tasks.X.shape[0]
    if min(X.shape) == 0:
        return None
    # a shared X has one level per column
    offsets = tasks.offsets if tasks.rows is None else np.array([0, n_rows])
    if sparse.issparse(X):
        stored = np.diff(X.indptr) if X.format == "csc" else np.bincount(X.indices, minlength=X.shape[1])
        full = np.flatnonzero(stored >= np.diff(offsets).min())  # the others are full in no task
        if full.size < X.shape[1]:
            levels = column_levels(replace(tasks, X=X[:, full])) if full.size else None
            return None if levels is None else _widened(levels, full, X.shape[1])
        X = X.tocsr()
    levels_of = _sparse_levels if sparse.issparse(X) else _dense_levels
    out = None
    step = max(1, _CHUNK // (3 * (len(offsets) - 1)))
    for start in range(0, X.shape[1], step):
        looks_far = _look_far(X, offsets, slice(start, start + step))
        columns = np.flatnonzero(looks_far.any(axis=0))
        for some in np.array_split(columns, -(-len(columns) * n_rows // _CHUNK) or 1):
            if len(some):
                levels = levels_of(X[:, start + some], offsets)
                levels = np.where(looks_far[:, some], levels, 0.0).astype(X.dtype)
                if levels.any():
                    out = np.zeros((len(levels), X.shape[1])) if out is None else out
                    out[:, start + some] = levels
    if tasks.rows is not None:
        return None if out is None else np.repeat(out, tasks.n_tasks, axis=0)
    return _with_heavy_rows(tasks, out)


def _with_heavy_rows(tasks: Tasks, levels: np.ndarray | None) -> np.ndarray | None:
    """The levels, where tasks in which one row has nearly all of the weight have that row.

    By weight they hardly vary about it: what it adds to a slope is rounding, and may be all that is seen.
    """
    if tasks.weights is None or sparse.issparse(tasks.X):
        return levels
    starts, sizes = tasks.offsets[:-1], tasks.sizes
    largest = np.repeat(np.maximum.reduceat(tasks.weights, starts), sizes)
    share = np.divide(tasks.weights, largest, out=np.zeros(len(largest)), where=largest > 0.0)
    rest = np.add.reduceat(share, starts) - 1.0
    heavy = np.flatnonzero((share == 1.0) & np.repeat((rest < _BESIDE) & (sizes > 1), sizes))
    if heavy.size == 0:
        return levels
    levels = np.zeros((tasks.n_tasks, tasks.n_features)) if levels is None else levels
    levels[observation_task_of(tasks.offsets)[heavy]] = tasks.X[heavy]
    return levels


def _widened(levels: np.ndarray, columns: np.ndarray, n_columns: int) -> np.ndarray:
    """Levels of some columns among those of all, which are zero."""
    out = np.zeros((len(levels), n_columns))
    out[:, columns] = levels
    return out


def target_levels(tasks: Tasks, weight: np.ndarray, *, each: bool = False) -> np.ndarray | None:
    """The mean of each task's targets, if the largest is far against the spread within tasks; else None.

    With `each`, every task is judged by its own spread, and the level of a task that is not far is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import Tasks
    >>> tasks = Tasks.from_rows(np.eye(4), [1e9, 1e9 + 2, -3.0, 3.0], [0, 0, 1, 1])
    >>> target_levels(tasks, np.ones(4)).tolist()
    [1000000001.0, 0.0]
    """
    starts, sizes = tasks.offsets[:-1], tasks.sizes
    first = tasks.y[starts]
    # in units of the largest target, so that neither sums nor squares leave the floats
    unit = float(np.abs(tasks.y).max(initial=0.0)) or 1.0
    rest = tasks.y / unit - np.repeat(first / unit, sizes)
    total = np.add.reduceat(weight, starts)
    mean = np.add.reduceat(weight * rest, starts) / total
    squares = np.add.reduceat(weight * (rest - np.repeat(mean, sizes)) ** 2, starts)
    levels = first + unit * mean
    if each:
        levels = np.where(np.abs(levels) > _FAR_TARGET * unit * np.sqrt(squares / total), levels, 0.0)
        return levels if levels.any() else None
    spread = unit * np.sqrt(squares.sum() / total.sum())
    return levels if np.abs(levels).max() > _FAR_TARGET * spread else None


def without_levels(tasks: Tasks, columns: np.ndarray | None, targets: np.ndarray | None) -> Tasks:
    """The tasks with levels taken off; X is copied only if some of its columns have one."""
    if targets is not None:
        y = tasks.y - np.repeat(targets, tasks.sizes)
        largest = np.maximum.reduceat(np.abs(y), tasks.offsets[:-1])
        y[np.repeat(largest <= _ROUNDING * np.abs(targets), tasks.sizes)] = 0.0
        tasks = replace(tasks, y=y)
    if columns is None:
        return tasks
    if tasks.rows is not None:
        columns, offsets = columns[:1], np.array([0, tasks.X.shape[0]])
    else:
        offsets = tasks.offsets
    return replace(tasks, X=_shifted(tasks.X, offsets, columns))


def _shifted(X: Any, offsets: np.ndarray, levels: np.ndarray) -> Any:
    some = np.flatnonzero(levels.any(axis=0))
    levels = levels.astype(X.dtype)
    if not sparse.issparse(X):
        X = X.copy(order="K")
        for t in range(len(offsets) - 1):
            X[offsets[t] : offsets[t + 1], some] -= levels[t, some]
        return X
    X = X.copy()
    X.sum_duplicates()
    entries = X.tocoo()
    # a far column is full, so that its entries are all stored, and no others are to be shifted
    X.data = X.data - levels[observation_task_of(offsets)[entries.row], entries.col]
    return X


def _look_far(X: Any, offsets: np.ndarray, columns: slice) -> np.ndarray:
    """Which columns may have a level in which task, (n_tasks, n_columns), by three rows of each."""
    begin, last = offsets[:-1], offsets[1:] - 1
    rows = np.concatenate([begin, (begin + last) // 2, last])
    if sparse.issparse(X):
        part = X[rows][:, columns].toarray()
    else:
        part = X[rows, columns]
    three = part.astype(float, copy=False).reshape(3, len(begin), -1)
    low, high = three.min(axis=0), three.max(axis=0)
    far = (high / 2 - low / 2) * _FAR_COLUMN < np.abs(high) / 2
    return far & (begin < last)[:, None]  # a single row has no spread


def _dense_levels(X: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Levels of some columns, (n_tasks, n_columns), zero where they are not far."""
    starts, sizes = offsets[:-1], np.diff(offsets)
    size = np.abs(X).max(axis=0).astype(float)
    size[size == 0.0] = 1.0
    X = X / size  # so that no square overflows
    first = X[starts]
    rest = X - np.repeat(first, sizes, axis=0)
    mean = np.add.reduceat(rest, starts, axis=0) / sizes[:, None]
    rest -= np.repeat(mean, sizes, axis=0)
    spread = np.sqrt(np.add.reduceat(rest**2, starts, axis=0) / sizes[:, None])
    level = first + mean
    far = (np.abs(level) > _far(sizes)[:, None] * spread) & (spread > _CONSTANT * np.abs(level))
    return np.where(far, level * size, 0.0)


def _far(sizes: np.ndarray) -> np.ndarray:
    """How many spreads are far, by the number of rows: a few random rows are close together by chance."""
    by_chance = 10.0 ** np.minimum(9.0 / np.maximum(sizes - 1, 1), 4.0)  # in one of a billion columns
    return np.maximum(_FAR_COLUMN, by_chance)


def _sparse_levels(X: Any, offsets: np.ndarray) -> np.ndarray:
    counts = np.add.reduceat((X != 0).toarray(), offsets[:-1], axis=0, dtype=np.intp)
    return np.where(counts == np.diff(offsets)[:, None], _dense_levels(X.toarray(), offsets), 0.0)
