"""The data as the solvers see it: columns in chosen units, rows with weights, whatever the storage.

Storage is hidden behind two questions: `correlate` (X_t.T @ v for all tasks: one pass over the data) and
`columns` (a few columns as a dense block). X itself is never copied, centred or scaled.
"""

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dgemm

from mmtfl.tasks.container import Tasks

_CHUNK = 1 << 21  # elements converted at once when X is not float64
_MODERATE = 1e90  # beyond this, squares of the columns may leave the range of floats
CONSTANT = 1e-20  # a column whose centred square sum is below this share of its raw one is constant


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
        self.tasks = tasks
        self.fit_intercept = fit_intercept
        self.n_tasks, self.n_features = tasks.n_tasks, tasks.n_features
        self.offsets = tasks.offsets
        weights = np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
        self.mean_size = float(weights.sum()) / self.n_tasks if mean_size is None else mean_size
        self.row_weight = weights / self.mean_size
        scale = np.ones(self.n_features) if column_scale is None else np.asarray(column_scale, dtype=float)
        self.inverse_scale = 1.0 / scale

    @property
    def y(self) -> np.ndarray:
        """Targets of all tasks, stacked."""
        return self.tasks.y

    @property
    def is_complete(self) -> bool:
        """One design shared by all tasks, every target observed."""
        return self.tasks.is_complete

    @cached_property
    def task_weight(self) -> np.ndarray:
        """Sum of the row weights of each task."""
        return np.add.reduceat(self.row_weight, self.offsets[:-1])

    def can_gather(self, n_columns: int) -> bool:
        """Whether that many columns may be gathered here: with X in memory, always."""
        return True

    def segments(self):
        """(t, slice of task t's rows) for all t."""
        for t in range(self.n_tasks):
            yield t, slice(self.offsets[t], self.offsets[t + 1])

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
        return np.ascontiguousarray(self._raw_correlate(v) * self.inverse_scale[:, None])

    def _raw_correlate(self, v: np.ndarray) -> np.ndarray:
        X, tasks = self.tasks.X, self.tasks
        if tasks.rows is not None:
            return np.asarray(_transpose_times(X, self._by_row_and_task(v)))
        if sparse.issparse(X):
            return (X.T @ self._indicator(v)).toarray()
        out = np.empty((self.n_tasks, self.n_features))
        for t, rows in self.segments():
            out[t] = _transpose_times(X[rows], v[rows])
        return out.T

    def _by_row_and_task(self, v: np.ndarray) -> np.ndarray:
        """v as a matrix (rows of the shared X, tasks), zero where a task has no observation."""
        if self.is_complete:
            return v.reshape(self.n_tasks, -1).T
        out = np.zeros((self.n_tasks, self.tasks.X.shape[0]))
        out[self.tasks.observation_task, self.tasks.rows] = v
        return out.T

    def _indicator(self, v: np.ndarray):
        """Sparse (rows, tasks) matrix with v_i in the column of row i's task."""
        n_rows = len(v)
        place = self.tasks.observation_task
        return sparse.csr_array((v, place, np.arange(n_rows + 1)), shape=(n_rows, self.n_tasks))

    @cached_property
    def curvature(self) -> np.ndarray:
        """Weighted square sum of every (centred) column in every task, (n_features, n_tasks)."""
        X, weight = self.tasks.X, self.row_weight
        if self.tasks.rows is not None:
            W = self._by_row_and_task(weight)
            squares, sums = _squares_transpose_times(X, W, self.inverse_scale), _transpose_times(X, W)
        elif sparse.issparse(X):
            W = self._indicator(weight)
            squares = (_squared(X, self.inverse_scale).T @ W).toarray()
            sums = (X.T @ W).toarray()
        else:
            from mmtfl.kernels import columns

            squares, sums = np.empty((2, self.n_tasks, self.n_features))
            by_column = X.flags.f_contiguous and not X.flags.c_contiguous
            moments = columns.moments_by_column if by_column else columns.moments_by_row
            moments(X, self.offsets, weight, self.inverse_scale, squares, sums)
            squares, sums = np.ascontiguousarray(squares.T), sums.T / self.inverse_scale[:, None]
        if not self.fit_intercept:
            return np.ascontiguousarray(squares)
        sums = sums * self.inverse_scale[:, None]
        centred = squares - sums**2 / self.task_weight
        # cancellation leaves noise of either sign in a constant column; 1e-12 is what float64 sums resolve
        return np.where(centred > 1e-12 * squares, centred, 0.0)

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
        from mmtfl.kernels import columns

        X, rows = self.tasks.X, np.empty(0, dtype=np.intp)
        if self.tasks.rows is not None and (expand or not self.is_complete):
            rows = self.tasks.rows
        if sparse.issparse(X):
            block = X[:, index].toarray().T
            np.multiply(block if rows.size == 0 else block[:, rows], self.inverse_scale[index, None], out=out)
        else:
            columns.gather(X, rows, np.asarray(index, dtype=np.intp), self.inverse_scale, out)

    def predict(self, A: np.ndarray) -> np.ndarray:
        """Linear predictor of every observation, without intercept."""
        kept = np.flatnonzero(np.any(A != 0.0, axis=1))
        block = self.columns(kept, expand=False)
        if self.is_complete:
            return (block @ A[kept]).T.ravel()
        out = np.empty(len(self.row_weight))
        for t, rows in self.segments():
            out[rows] = block[rows] @ A[kept, t]
        return out

    def moderated(self, null_gradient: np.ndarray) -> "tuple[Design, np.ndarray | None]":
        """This design, or one whose columns are brought to moderate size when squaring them is unsafe.

        Also the factors f with (columns here) = f * (columns there), powers of two, or None.
        """
        if is_moderate(float(np.abs(null_gradient).max(initial=0.0))):
            return self, None
        factor = nearest_powers_of_two(_column_maxima(self.tasks.X) * self.inverse_scale)
        design = Design(
            self.tasks,
            column_scale=factor / self.inverse_scale,
            fit_intercept=self.fit_intercept,
            mean_size=self.mean_size,
        )
        return design, factor


def is_moderate(steepest: float) -> bool:
    """Whether columns whose largest slope is this can be squared without leaving the floats."""
    return steepest == 0.0 or 1.0 / _MODERATE < steepest < _MODERATE


def nearest_powers_of_two(sizes: np.ndarray) -> np.ndarray:
    """A power of two near each size; 1 for zero. Dividing by them is exact."""
    return np.exp2(np.round(np.log2(np.where(sizes > 0.0, sizes, 1.0))))


def _transpose_times(X, v: np.ndarray) -> np.ndarray:
    if sparse.issparse(X):
        return X.T @ v
    if X.dtype == np.float64:
        if v.ndim == 1 or not (X.flags.c_contiguous or X.flags.f_contiguous):
            return X.T @ v
        # straight to BLAS in its own column order: numpy's product of a transpose takes three times as long
        return dgemm(1.0, X.T, v) if X.flags.c_contiguous else dgemm(1.0, X, v, trans_a=1)
    # float32: convert in slices, so that sums are exact to float64 and no second X exists
    out = np.empty((X.shape[1], *v.shape[1:]))
    step = max(1, _CHUNK // max(1, X.shape[0]))
    for start in range(0, X.shape[1], step):
        out[start : start + step] = X[:, start : start + step].T.astype(float) @ v
    return out


def _squares_transpose_times(X, v: np.ndarray, inverse_scale: np.ndarray) -> np.ndarray:
    if sparse.issparse(X):
        return _squared(X, inverse_scale).T @ v
    out = np.empty((X.shape[1], *v.shape[1:]))
    step = max(1, _CHUNK // max(1, X.shape[0]))
    for start in range(0, X.shape[1], step):
        part = X[:, start : start + step] * inverse_scale[start : start + step]
        out[start : start + step] = (part * part).T @ v
    return out


def _squared(X, scale: np.ndarray):
    """(X * scale)^2 of a sparse X, which keeps X's own indices."""
    factor = scale[X.indices] if X.format == "csr" else np.repeat(scale, np.diff(X.indptr))
    factor *= X.data
    factor *= factor
    return type(X)((factor, X.indices, X.indptr), shape=X.shape)


def _column_maxima(X) -> np.ndarray:
    if sparse.issparse(X):
        return np.asarray(abs(X).max(axis=0).toarray(), dtype=float).ravel()
    return np.maximum(X.max(axis=0), -X.min(axis=0)).astype(float)
