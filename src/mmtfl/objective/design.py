"""The data as the solvers see it: columns in chosen units, rows with weights, whatever the storage.

Storage is hidden behind two questions: `correlate` (X_t.T @ v for all tasks: one pass over the data) and
`columns` (a few columns as a dense block). X itself is never copied, centred or scaled.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dgemm

from mmtfl.core import columns
from mmtfl.core.columns import CONSTANT as CONSTANT
from mmtfl.objective.units import Units, column_levels, target_levels, without_levels
from mmtfl.tasks.container import Tasks

FEW_ROWS, MANY_TASKS = 16, 1000  # tasks of less rows, if they are more than these, are not worth a call each
_CHUNK = 1 << 21  # elements converted at once when X is not float64
_COPIED = 1 << 18  # elements of some rows that are copied at once
_LEAST_TASK, _LEAST_ROW = 1e-60, 1e-40  # weights: of a task, and of a row against the largest of its task
_WIDE = 10_000  # features from which on empty columns are left out, if they are more than the others
_SIZE = 1e20  # targets within this size and its inverse keep their units


class Design:
    """X of all tasks in units of `column_scale`, with row weights that sum to T.

    Parameters
    ----------
    tasks : Tasks
        Rows of weight zero are left out.
    column_scale : ndarray (n_features,) or None
        The solvers work on X / column_scale.
    fit_intercept : bool
        Whether each task has a constant of its own.
    mean_size : float or None
        n of eq. (1), the mean task size; None takes it from these tasks.
    """

    placed: Any = None  # where the rows are, if they are not here

    def __init__(self, tasks: Tasks, *, column_scale=None, fit_intercept=True, mean_size=None):
        if tasks.weights is not None and np.any(tasks.weights == 0.0):
            tasks = tasks.select(np.flatnonzero(tasks.weights))
        self.tasks, self.y, self.offsets, self.fit_intercept = tasks, tasks.y, tasks.offsets, fit_intercept
        self.n_tasks, self.n_features = tasks.n_tasks, tasks.n_features
        self.labels, self.known = tasks.labels, tasks.known
        self.is_complete = tasks.is_complete  # one X for all tasks, every target observed
        weights = np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
        self.mean_size = float(weights.sum()) / self.n_tasks if mean_size is None else mean_size
        self.row_weight = weights / self.mean_size
        if self.row_weight.min() < _LEAST_TASK:
            self.row_weight = self._raised(weights)
        scale = np.ones(self.n_features) if column_scale is None else np.asarray(column_scale, dtype=float)
        self.inverse_scale = 1.0 / scale

    def _raised(self, weights: np.ndarray) -> np.ndarray:
        """Row weights without any that could vanish: tasks, and rows within them, that all but weigh nothing.

        What they add to the objective is below its rounding before and after.
        """
        largest = np.maximum.reduceat(weights, self.offsets[:-1])
        within = np.maximum(weights / self.spread(largest), _LEAST_ROW)
        total = np.maximum(largest / self.mean_size, _LEAST_TASK)
        return within * self.spread(total)

    def can_gather(self, n_columns: int) -> bool:
        """Whether that many columns may be gathered here: with X in memory, always."""
        return True

    def segments(self):
        """(t, slice of task t's rows) for all t."""
        return ((t, slice(lo, hi)) for t, (lo, hi) in enumerate(pairwise(self.offsets)))

    def task_sums(self, v: np.ndarray) -> np.ndarray:
        """Sum of v over the rows of each task."""
        return np.add.reduceat(v, self.offsets[:-1])

    def task_means(self, v: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Weighted mean of v over the rows of each task."""
        return self.task_sums(weight * v) / self.task_sums(weight)

    def spread(self, per_task: np.ndarray) -> np.ndarray:
        """One value per task, repeated on the task's rows."""
        return np.repeat(per_task, np.diff(self.offsets))

    def correlate(self, v: np.ndarray) -> np.ndarray:
        """X_t.T @ v_t for every task, as (n_features, n_tasks)."""
        X = self.tasks.X
        if self.tasks.rows is not None:
            out = _transpose_times(X, self._by_row_and_task(v))
        elif sparse.issparse(X):
            return self._sparse_products(X.data, v, self.inverse_scale)
        elif self.has_small_tasks:
            out = columns.adjoint(X, self.offsets, v).T
        else:
            return self._dense_products(v)
        out *= self.inverse_scale[:, None]
        return np.ascontiguousarray(out)

    def _dense_products(self, v: np.ndarray) -> np.ndarray:
        """X_t.T @ v_t for every task of stacked rows."""
        out = np.empty((self.n_features, self.n_tasks))
        for t, rows in self.segments():
            np.multiply(_transpose_times(self.tasks.X[rows], v[rows]), self.inverse_scale, out=out[:, t])
        return out

    def _sparse_products(self, data: np.ndarray, v: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """X_t.T @ v_t * scale for every task of stacked rows; `data` are the entries of a sparse X."""
        X, out = self.tasks.X, np.zeros((self.n_features, self.n_tasks))
        if X.format == "csr":
            columns.products_by_row(data, X.indices, X.indptr, self.offsets, v, scale, out)
        else:
            task = self.tasks.observation_task
            columns.products_by_column(data, X.indices, X.indptr, task, v, scale, out)
        return out

    def _by_row_and_task(self, v: np.ndarray) -> np.ndarray:
        """v as a matrix (rows of the shared X, tasks), zero where a task has no observation."""
        tasks = self.tasks
        if self.is_complete:
            return v.reshape(self.n_tasks, -1).T
        out = np.zeros((self.n_tasks, tasks.X.shape[0]))
        out[tasks.observation_task, tasks.rows] = v
        return out.T

    @cached_property
    def curvature(self) -> np.ndarray:
        """Weighted square sum of every (centred) column in every task, (n_features, n_tasks)."""
        X, weight, scale = self.tasks.X, self.row_weight, self.inverse_scale
        if self.tasks.rows is not None:
            W = self._by_row_and_task(weight)
            squares, sums = _squares_transpose_times(X, W, scale), _transpose_times(X, W) * scale[:, None]
        elif sparse.issparse(X):
            squares = self._sparse_products(_squared_entries(X, scale), weight, np.ones_like(scale))
            sums = self._sparse_products(X.data, weight, scale)
        else:
            return self._dense_curvature()
        return np.ascontiguousarray(self._centred(squares, sums))

    def _dense_curvature(self) -> np.ndarray:
        """The curvature of stacked rows; where X is stored by columns, of some at a time, to spare memory."""
        X, out = self.tasks.X, np.empty((self.n_features, self.n_tasks))
        by_column = X.flags.f_contiguous and not X.flags.c_contiguous
        step = max(1, _CHUNK // (8 * self.n_tasks)) if by_column else self.n_features
        for first in range(0, self.n_features, step):
            part = slice(first, first + step)
            moments = columns.moments(X[:, part], self.offsets, self.row_weight, self.inverse_scale[part])
            out[part] = self._centred(*moments.transpose(0, 2, 1))
        return out

    def _centred(self, squares: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Square sums about the means; both arrays are written to."""
        if not self.fit_intercept:
            return squares
        with np.errstate(over="ignore", invalid="ignore"):  # see below
            sums = np.square(sums, out=sums)
            sums /= self.task_sums(self.row_weight)
            centred = np.subtract(squares, sums, out=sums)
        # cancellation leaves noise of either sign in a constant column; 1e-12 is what float64 sums resolve
        squares *= 1e-12
        np.copyto(centred, 0.0, where=~(centred > squares))  # NaN where squares have left the floats, too
        return centred

    def columns(self, index: np.ndarray, *, expand: bool) -> np.ndarray:
        """Some columns as a dense float64 Fortran block in the design's units.

        Rows are the observations; for a complete shared design they are X's own rows unless `expand`.
        """
        n_rows = len(self.row_weight) if expand or not self.is_complete else self.tasks.X.shape[0]
        out = np.empty((len(index), n_rows))
        self.gather(index, out, expand=expand)
        return out.T

    def gather(self, index: np.ndarray, out: np.ndarray, *, expand: bool) -> None:
        """Write some columns into the rows of out; see `columns`."""
        X, rows = self.tasks.X, self.tasks.rows if expand or not self.is_complete else None
        index = np.asarray(index, dtype=np.intp)
        if sparse.issparse(X):
            self._gather_sparse(index, rows, out)
        else:
            columns.gather(X, rows, index, self.inverse_scale, out)

    def _gather_sparse(self, index: np.ndarray, rows: np.ndarray | None, out: np.ndarray) -> None:
        X = self.tasks.X
        block = out if rows is None else np.empty((len(index), X.shape[0]))
        block.fill(0.0)
        matrix = X.data, X.indices, X.indptr
        if X.format == "csr":
            place = np.full(self.n_features, -1, dtype=np.intp)
            place[index] = np.arange(len(index))
            columns.gather_by_row(*matrix, place, self.inverse_scale, block)
        else:
            columns.gather_by_column(*matrix, index, self.inverse_scale, block)
        if rows is not None:
            np.take(block, rows, axis=1, out=out, mode="clip")

    def predict(self, A: np.ndarray) -> np.ndarray:
        """Linear predictor of every observation, without intercept."""
        kept = np.flatnonzero(np.any(A != 0.0, axis=1))
        block = self.columns(kept, expand=False)
        if self.is_complete:
            return (block @ A[kept]).T.ravel()
        if self.has_small_tasks:
            return columns.predict_rows(block, self.tasks.observation_task, A[kept].T, np.zeros(self.n_tasks))
        out = np.empty(len(self.row_weight))
        for t, rows in self.segments():
            out[rows] = block[rows] @ A[kept, t]
        return out

    @property
    def has_small_tasks(self) -> bool:
        """Whether tasks are many, and of few rows: not worth a call of a library each."""
        return self.n_tasks > MANY_TASKS and len(self.row_weight) < FEW_ROWS * self.n_tasks

    def column_maxima(self) -> np.ndarray:
        """The largest absolute entry of every column."""
        return _column_maxima(self.tasks.X) * self.inverse_scale

    def first_rows_maximum(self) -> float:
        """The largest absolute entry in the first rows of the tasks."""
        tasks, first = self.tasks, self.offsets[:-1]
        rows = first if tasks.rows is None else tasks.rows[first]
        return float((_column_maxima(tasks.X, rows) * self.inverse_scale).max(initial=0.0))

    def rescaled(self, factor: np.ndarray) -> "Design":
        """The same rows, with columns divided by the factors."""
        return self._of(self.tasks, factor / self.inverse_scale)

    def _of(self, tasks: Tasks, column_scale: np.ndarray) -> "Design":
        return Design(
            tasks, column_scale=column_scale, fit_intercept=self.fit_intercept, mean_size=self.mean_size
        )

    def levelled(self, *, scale_targets: bool) -> "tuple[Design, Units | None]":
        """The same rows without far levels of columns; and of targets, in units of moderate size, if asked.

        A wide sparse X also loses its empty columns if they are many. Also the units, or None where this
        design is the answer.
        """
        present = _many_empty(self.tasks.X)
        if present is not None:
            tasks = replace(self.tasks, X=_narrowed(self.tasks.X, present), feature_names=None)
            narrow = self._of(tasks, 1.0 / self.inverse_scale[present])
            scaled, units = narrow.levelled(scale_targets=scale_targets)
            return scaled, replace(units or Units(np.ones(narrow.n_features)), present=present)
        tasks, columns, targets, unit = self.tasks, None, None, 1.0
        if self.fit_intercept:
            columns = column_levels(tasks)
            targets = target_levels(tasks) if scale_targets else None
            tasks = without_levels(tasks, columns, targets)
        if scale_targets:
            unit = target_unit(float(np.abs(tasks.y).max(initial=0.0)))
        if columns is None and targets is None and unit == 1.0:
            return self, None
        tasks = tasks if unit == 1.0 else replace(tasks, y=tasks.y / unit)
        if columns is not None:
            columns = columns.T * self.inverse_scale[:, None]
        units = Units(np.ones(self.n_features), unit, columns, targets)
        return self._of(tasks, 1.0 / self.inverse_scale), units


def target_unit(largest: float) -> float:
    """The unit of targets up to this size: 1, or a power of four where squares could leave the floats."""
    return 1.0 if largest == 0.0 or 1.0 / _SIZE < largest < _SIZE else 4.0 ** round(np.log2(largest) / 2.0)


def _column_maxima(X, rows: np.ndarray | None = None) -> np.ndarray:
    """The largest absolute entry of every column, in some rows or in all."""
    if sparse.issparse(X):
        X = X if rows is None else X[rows]
        return np.asarray(abs(X).max(axis=0).toarray(), dtype=float).ravel()
    if rows is None:
        return np.maximum(X.max(axis=0), -X.min(axis=0)).astype(float)
    out = np.empty(X.shape[1])
    step = max(1, _COPIED // max(1, len(rows)))
    for start in range(0, len(out), step):
        out[start : start + step] = _column_maxima(X[rows, start : start + step])
    return out


def _many_empty(X: Any) -> np.ndarray | None:
    """Which columns of a wide sparse X have entries, if most have none; else None."""
    if not sparse.issparse(X) or X.shape[1] < _WIDE:
        return None
    stored = np.diff(X.indptr) if X.format == "csc" else np.bincount(X.indices, minlength=X.shape[1])
    present = stored > 0
    return present if 0 < 2 * np.count_nonzero(present) < len(present) else None


def _narrowed(X: Any, present: np.ndarray) -> Any:
    """A sparse X without its empty columns; the entries are not copied."""
    shape = X.shape[0], int(np.count_nonzero(present))
    if X.format == "csc":
        starts = np.append(X.indptr[:-1][present], X.indptr[-1])
        return type(X)((X.data, X.indices, starts), shape=shape)
    place = np.cumsum(present, dtype=X.indices.dtype) - 1
    return type(X)((X.data, place[X.indices], X.indptr), shape=shape)


def _transpose_times(X, v) -> np.ndarray:
    if sparse.issparse(X):
        return X.T @ v
    if X.dtype == np.float64:
        if v.ndim == 1 or not (X.flags.c_contiguous or X.flags.f_contiguous):
            return X.T @ v
        # straight to BLAS in its own column order: numpy's product of a transpose takes three times as long
        return dgemm(1.0, X.T, v) if X.flags.c_contiguous else dgemm(1.0, X, v, trans_a=1)
    # float32: convert in slices, so that sums are exact to float64 and no second X exists
    return _by_slices(X, v, lambda part, which: part.astype(float))


def _squares_transpose_times(X, v, scale: np.ndarray) -> np.ndarray:
    """(X * scale)^2 transposed, times v."""
    if not sparse.issparse(X):
        return _by_slices(X, v, lambda part, which: (part * scale[which]) ** 2)
    return _transpose_times(type(X)((_squared_entries(X, scale), X.indices, X.indptr), shape=X.shape), v)


def _squared_entries(X, scale: np.ndarray) -> np.ndarray:
    """The stored entries of (X * scale)^2, for a sparse X."""
    factor = scale[X.indices] if X.format == "csr" else np.repeat(scale, np.diff(X.indptr))
    factor *= X.data
    factor *= factor
    return factor


def _by_slices(X: np.ndarray, v: np.ndarray, convert: Callable) -> np.ndarray:
    """X.T @ v, where some columns of X at a time are converted first."""
    out = np.empty((X.shape[1], *v.shape[1:]))
    step = max(1, _CHUNK // max(1, X.shape[0]))
    for start in range(0, X.shape[1], step):
        part = slice(start, start + step)
        out[part] = _transpose_times(convert(X[:, part], part), v)
    return out
