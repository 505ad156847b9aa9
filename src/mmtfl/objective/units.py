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
            # one strength of all rows is a plain number
            return there.at(alpha if alpha.ndim else float(alpha))

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


# -- levels: columns and targets that lie far from zero against their range ---------------------------------


_FAR = 30.0  # half ranges from zero at which a level is taken off; fits of counts ran away from 120 on
_ROUNDING = 1e-13  # share of its level below which the range of values is rounding
_CHUNK = 1 << 18  # entries looked at together


def column_levels(tasks: Tasks) -> np.ndarray | None:
    """The middle of each task's columns, (n_tasks, n_features), zero where it is not far; None: nowhere far.

    Of a sparse X only columns without any zero can be far.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import Tasks
    >>> X = np.array([[1e6, 0.0], [1e6 + 2, 1.0], [5.0, 1.0], [3.0, 1.0]])
    >>> column_levels(Tasks.from_rows(X, np.zeros(4), [0, 0, 1, 1])).tolist()
    [[1000001.0, 0.0], [0.0, 0.0]]
    """
    X, (n_rows, n_columns) = tasks.X, tasks.X.shape
    # a shared X has one level per column
    starts = tasks.offsets[:-1] if tasks.rows is None else np.zeros(1, dtype=np.intp)
    ends = np.append(starts[1:], n_rows) - 1
    candidates = np.arange(n_columns)
    if sparse.issparse(X):
        stored = np.diff(X.indptr) if X.format == "csc" else np.bincount(X.indices, minlength=n_columns)
        candidates = np.flatnonzero(stored >= n_rows)
        X = X.tocsc()
    # a far column is far from the first row of a task to the last
    three = np.concatenate([starts, (starts + ends) // 2, ends])
    levels, step = np.zeros((len(starts), n_columns)), max(1, _CHUNK // len(three))
    for part in (candidates[first : first + step] for first in range(0, len(candidates), step)):
        few = _dense(X[:, part][three]).reshape(3, len(starts), -1) / 2
        low, high = few.min(axis=0), few.max(axis=0)
        part = part[_where_far(low + high, high - low).any(axis=0)]
        for some in np.array_split(part, -(-len(part) * n_rows // _CHUNK) or 1):
            values = _dense(X[:, some]) / 2
            low, high = (extreme.reduceat(values, starts, axis=0) for extreme in (np.minimum, np.maximum))
            varies = high - low > _ROUNDING * np.abs(high)  # a constant column has no slope wherever it is
            levels[:, some] = np.where(varies, _where_far(low + high, high - low), 0.0)
    if not levels.any():
        return None
    levels = levels.astype(tasks.X.dtype).astype(float)  # as they are taken off, which intercepts make good
    return np.repeat(levels, tasks.n_tasks, axis=0) if tasks.rows is not None else levels


def target_levels(tasks: Tasks, *, each: bool = False) -> np.ndarray | None:
    """The middle of each task's targets, zero where it is not far; None if none is.

    It is far against the largest range within a task, or with `each` against that of the task itself.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import Tasks
    >>> target_levels(Tasks.from_rows(np.eye(4), [1e9, 1e9 + 2, -3.0, 3.0], [0, 0, 1, 1])).tolist()
    [1000000001.0, 0.0]
    """
    low, high = (extreme.reduceat(tasks.y, tasks.offsets[:-1]) for extreme in (np.minimum, np.maximum))
    half = high / 2 - low / 2
    levels = _where_far(low / 2 + high / 2, half if each else half.max())
    return levels if levels.any() else None


def _where_far(middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    """The middles of ranges that are far against half of their lengths; else zero."""
    return np.where(half * _FAR < np.abs(middle), middle, 0.0)


def _dense(X: Any) -> np.ndarray:
    return (X.toarray() if sparse.issparse(X) else X).astype(float, copy=False)


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
