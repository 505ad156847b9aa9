"""Passes over X, dense or sparse: some columns, centred columns, moments, and products task by task.

The rows of a task follow each other: those of task t are offsets[t] to offsets[t + 1]. X is as the user has
it; `x` is a block of gathered columns, each a row of x. Innermost loops take pointers where the compiler
would not vectorise a strided view.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t

ctypedef fused integer:
    int32_t
    int64_t

cdef double constant_share = 1e-20
CONSTANT = constant_share  # a column whose centred square sum is below this share of its raw one is constant


# -- gathered columns ----------------------------------------------------------------------------------------


def gather(
    const floating[:, :] X, const Py_ssize_t[:] rows, const Py_ssize_t[::1] index,
    const double[::1] scale, double[:, ::1] out,
):
    """out[a, i] = X[rows[i], index[a]] * scale[index[a]]; `rows` None means all rows in order."""
    cdef Py_ssize_t a, i, j, first, last, n = out.shape[1]
    cdef bint every_row = rows is None
    with nogil:
        for first in range(0, n, 64):  # rows visited together, so that whole cache lines are written
            last = min(first + 64, n)
            for a in range(index.shape[0]):
                j = index[a]
                if every_row:
                    for i in range(first, last):
                        out[a, i] = X[i, j] * scale[j]
                else:
                    for i in range(first, last):
                        out[a, i] = X[rows[i], j] * scale[j]


def centre(
    double[:, ::1] x, const Py_ssize_t[::1] offsets, const double[::1] weight, const double[::1] root,
    bint is_centred,
):
    """Centre the columns task by task and scale them by the roots of the weights, in place.

    Returns their means and their square sums afterwards, (columns, tasks). A constant column becomes zero.
    """
    cdef Py_ssize_t j, t, begin, n, n_tasks = offsets.shape[0] - 1
    means, curvatures = np.zeros((2, x.shape[0], n_tasks))
    cdef double[:, ::1] mean = means, curvature = curvatures
    cdef double size = 0.0
    with nogil:
        for j in range(x.shape[0]):
            for t in range(n_tasks):
                begin, n = offsets[t], offsets[t + 1] - offsets[t]
                if is_centred:
                    mean[j, t] = mean_of(&x[j, begin], &weight[begin], n, &size)
                curvature[j, t] = shift_and_scale(&x[j, begin], &root[begin], n, mean[j, t])
                if is_constant(curvature[j, t], mean[j, t], size):
                    curvature[j, t] = 0.0
                    x[j, begin : begin + n] = 0.0
    return means, curvatures


def weighted_moments(
    const double[:, ::1] x, const Py_ssize_t[::1] columns, const Py_ssize_t[::1] offsets,
    const double[::1] weight, bint is_centred,
):
    """Weighted means (0 if not centred) of some columns and the square sums about them, (columns, tasks).

    Where x has fewer rows than there are weights, all tasks share them.
    """
    cdef Py_ssize_t a, t, start, begin, n, n_tasks = offsets.shape[0] - 1
    cdef bint is_shared = x.shape[1] < weight.shape[0]
    means, curvatures = np.zeros((2, columns.shape[0], n_tasks))
    cdef double[:, ::1] mean = means, curvature = curvatures
    cdef double size = 0.0
    with nogil:
        for a in range(columns.shape[0]):
            for t in range(n_tasks):
                begin, n = offsets[t], offsets[t + 1] - offsets[t]
                start = 0 if is_shared else begin
                if is_centred:
                    mean[a, t] = mean_of(&x[columns[a], start], &weight[begin], n, &size)
                curvature[a, t] = square_about(&x[columns[a], start], &weight[begin], n, mean[a, t])
                if is_constant(curvature[a, t], mean[a, t], size):
                    curvature[a, t] = 0.0
    return means, curvatures


cdef inline double mean_of(const double* x, const double* weight, Py_ssize_t n, double* size) noexcept nogil:
    """Weighted mean of x; `size` receives the sum of the weights."""
    cdef double total = 0.0, weights = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        total += weight[i] * x[i]
        weights += weight[i]
    size[0] = weights
    return total / weights


cdef inline double square_about(
    const double* x, const double* weight, Py_ssize_t n, double mean
) noexcept nogil:
    cdef double square = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        square += weight[i] * (x[i] - mean) * (x[i] - mean)
    return square


cdef inline double shift_and_scale(double* x, const double* root, Py_ssize_t n, double mean) noexcept nogil:
    """x = (x - mean) * root, in place; the square sum of the result."""
    cdef double square = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        x[i] = (x[i] - mean) * root[i]
        square += x[i] * x[i]
    return square


cdef inline bint is_constant(double square, double mean, double size) noexcept nogil:
    """Whether a square sum about the mean is rounding beside that of the mean itself."""
    return square <= constant_share * size * mean * mean


# -- a dense X -----------------------------------------------------------------------------------------------


def moments(
    const floating[:, :] X, const Py_ssize_t[::1] offsets, const double[::1] weight, const double[::1] scale
):
    """Weighted square sum and sum of every column of X * scale in every task, (2, tasks, columns)."""
    found = np.zeros((2, offsets.shape[0] - 1, X.shape[1]))
    cdef double[:, ::1] squares = found[0], sums = found[1]
    cdef Py_ssize_t t, i, j, begin, end
    with nogil:
        for t in range(offsets.shape[0] - 1):
            begin, end = offsets[t], offsets[t + 1]
            if X.strides[1] == sizeof(floating):
                for i in range(begin, end):
                    add_row(&X[i, 0], weight[i], scale, &squares[t, 0], &sums[t, 0])
            else:
                for j in range(X.shape[1]):
                    add_column(X[begin:end, j], &weight[begin], scale[j], &squares[t, j], &sums[t, j])
    return found


cdef inline void add_row(
    const floating* x, double weight, const double[::1] scale, double* squares, double* sums
) noexcept nogil:
    cdef Py_ssize_t j
    cdef double value
    for j in range(scale.shape[0]):
        value = x[j] * scale[j]
        squares[j] += weight * value * value
        sums[j] += weight * value


cdef inline void add_column(
    const floating[:] x, const double* weight, double scale, double* square, double* total
) noexcept nogil:
    cdef Py_ssize_t i
    cdef double value, squares = 0.0, sums = 0.0
    for i in range(x.shape[0]):
        value = x[i] * scale
        squares += weight[i] * value * value
        sums += weight[i] * value
    square[0], total[0] = squares, sums


def extremes(const floating[:, :] X, const double[::1] share):
    """Least value, weighted sum and largest value of every column over the rows with a share, (3, columns).

    X is stored by rows.
    """
    found = np.zeros((3, X.shape[1]))
    found[0], found[2] = np.inf, -np.inf
    cdef double[:, ::1] out = found
    cdef Py_ssize_t i
    assert X.strides[1] == sizeof(floating)
    with nogil:
        for i in range(X.shape[0]):
            if share[i] > 0.0:
                widen(&X[i, 0], share[i], X.shape[1], &out[0, 0], &out[1, 0], &out[2, 0])
    return found


cdef inline void widen(
    const floating* x, double share, Py_ssize_t n, double* low, double* total, double* high
) noexcept nogil:
    cdef Py_ssize_t j
    cdef double value
    for j in range(n):
        value = x[j]
        low[j] = value if value < low[j] else low[j]
        high[j] = value if value > high[j] else high[j]
        total[j] += share * value


cdef double least_span = 1e-10  # share of the largest entry: a column that varies less is constant


def vary(
    const floating[:, :] X, const Py_ssize_t[:] rows, const Py_ssize_t[::1] offsets, bint about_zero
):
    """Whether a column has more than one value in a task, (tasks, columns); about zero that is one of them.

    Observation i is in row rows[i] of X; `rows` None means all rows in order.
    """
    found, ends = np.zeros((offsets.shape[0] - 1, X.shape[1]), dtype=bool), np.empty((2, X.shape[1]))
    cdef double[::1] low = ends[0], high = ends[1]
    cdef unsigned char[:, ::1] out = found.view(np.uint8)
    cdef bint every_row = rows is None
    cdef Py_ssize_t t, i, j, first, last
    with nogil:
        for t in range(out.shape[0]):
            first, last = offsets[t], offsets[t + 1] - 1
            i = first if every_row else rows[first]
            for j in range(low.shape[0]):
                low[j] = high[j] = 0.0 if about_zero else X[i, j]
            include_row(X, last if every_row else rows[last], low, high)  # two rows decide most columns
            if not tell_spans(low, high, out[t]):
                for i in range(first, last):
                    include_row(X, i if every_row else rows[i], low, high)
                tell_spans(low, high, out[t])
    return found


cdef inline void include_row(
    const floating[:, :] X, Py_ssize_t i, double[::1] low, double[::1] high
) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(low.shape[0]):
        low[j] = min(low[j], X[i, j])
        high[j] = max(high[j], X[i, j])


cdef inline bint tell_spans(
    const double[::1] low, const double[::1] high, unsigned char[::1] out
) noexcept nogil:
    """Set out where low and high differ; whether that is everywhere."""
    cdef Py_ssize_t j
    cdef bint everywhere = True
    for j in range(low.shape[0]):
        # the difference of halves cannot overflow
        out[j] = high[j] / 2 - low[j] / 2 > least_span / 2 * max(fabs(low[j]), fabs(high[j]))
        everywhere = everywhere and out[j]
    return everywhere


def predict_rows(const floating[:, :] X, const Py_ssize_t[::1] task, coef, intercept):
    """Linear predictor of every row i, with coef[task[i]] and intercept[task[i]]."""
    out = np.take(intercept, task)
    cdef double[::1] z = out
    cdef const double[:, ::1] a = np.ascontiguousarray(coef)
    cdef const double[:, :, ::1] fours = in_fours(coef)
    cdef Py_ssize_t i
    with nogil:
        if X.strides[1] == sizeof(floating):
            for i in range(z.shape[0]):
                z[i] += product(&X[i, 0], &a[task[i], 0], a.shape[1])
        else:
            add_columns(X, task, fours, z)
    return out


cdef inline double product(const floating* x, const double* a, Py_ssize_t n) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t j
    for j in range(n):
        total += x[j] * a[j]
    return total


def in_fours(coef):
    """Coefficients of four features at a time, (n_features / 4, n_tasks, 4); the last four end in zeros."""
    padded = np.pad(coef, ((0, 0), (0, -coef.shape[1] % 4)))
    return np.ascontiguousarray(padded.reshape(len(coef), -1, 4).transpose(1, 0, 2))


cdef void add_columns(
    const floating[:, :] X, const Py_ssize_t[::1] task, const double[:, :, ::1] a, double[::1] z
) noexcept nogil:
    """z[i] += X[i] @ (coefficients of task[i]), four columns at a time and rows that stay in the cache."""
    cdef Py_ssize_t i, j, k, l, m, f, t, first, last, n = z.shape[0], end = X.shape[1] - 1
    for first in range(0, n, 1024):
        last = min(first + 1024, n)
        for f in range(a.shape[0]):
            j = 4 * f
            k, l, m = min(j + 1, end), min(j + 2, end), min(j + 3, end)  # beyond the end a is zero
            for i in range(first, last):
                t = task[i]
                z[i] += X[i, j] * a[f, t, 0] + X[i, k] * a[f, t, 1]
                z[i] += X[i, l] * a[f, t, 2] + X[i, m] * a[f, t, 3]


# -- a sparse X, stored by rows or by columns ----------------------------------------------------------------


def products_by_row(
    const floating[::1] data, const integer[::1] indices, const integer[::1] indptr,
    const Py_ssize_t[::1] offsets, const double[::1] v, const double[::1] scale, double[:, ::1] out,
):
    """Write scale * X_t.T @ v_t to out[:, t] for every task of an X stored by rows."""
    cdef double[::1] own = np.empty(out.shape[0])  # of one task: it stays in the cache
    cdef Py_ssize_t t, i, j, k
    with nogil:
        for t in range(out.shape[1]):
            own[:] = 0.0
            for i in range(offsets[t], offsets[t + 1]):
                for k in range(indptr[i], indptr[i + 1]):
                    own[indices[k]] += data[k] * v[i]
            for j in range(out.shape[0]):
                out[j, t] = scale[j] * own[j]


def products_by_column(
    const floating[::1] data, const integer[::1] indices, const integer[::1] indptr,
    const Py_ssize_t[::1] task, const double[::1] v, const double[::1] scale, double[:, ::1] out,
):
    """The same for an X stored by columns; row i is of task[i]."""
    cdef Py_ssize_t j, k
    with nogil:
        for j in range(out.shape[0]):
            for k in range(indptr[j], indptr[j + 1]):
                out[j, task[indices[k]]] += scale[j] * data[k] * v[indices[k]]


def sparse_extremes(
    const floating[::1] data, const integer[::1] indices, const integer[::1] indptr, const double[::1] share,
    Py_ssize_t n_columns, bint by_row,
):
    """Least value, weighted sum and largest value of every column over rows with a share, (3, columns)."""
    found = np.zeros((n_columns, 4))  # and the number of entries; of one column side by side in memory
    found[:, 0], found[:, 2] = np.inf, -np.inf
    cdef double[:, ::1] out = found
    cdef double* own
    cdef Py_ssize_t a, i, j, k, n_rows = np.count_nonzero(share)
    with nogil:
        for a in range(indptr.shape[0] - 1):
            for k in range(indptr[a], indptr[a + 1]):
                i = a if by_row else indices[k]
                j = indices[k] if by_row else a
                if share[i] > 0.0:
                    own = &out[j, 0]
                    own[0] = min(own[0], data[k])
                    own[1] += share[i] * data[k]
                    own[2] = max(own[2], data[k])
                    own[3] += 1.0
        for j in range(n_columns):
            if out[j, 3] < n_rows:  # a zero that is not stored
                out[j, 0] = min(out[j, 0], 0.0)
                out[j, 2] = max(out[j, 2], 0.0)
    return np.ascontiguousarray(found[:, :3].T)


def sparse_vary(
    const floating[::1] data, const integer[::1] indices, const integer[::1] indptr,
    const Py_ssize_t[::1] offsets, Py_ssize_t n_columns, bint about_zero,
):
    """The same as `vary` for an X stored by rows."""
    found, ends = np.zeros((offsets.shape[0] - 1, n_columns), dtype=bool), np.empty((2, n_columns))
    cdef double[::1] low = ends[0], high = ends[1]
    cdef unsigned char[:, ::1] out = found.view(np.uint8)
    cdef Py_ssize_t[::1] seen = np.empty(n_columns, dtype=np.intp)
    cdef Py_ssize_t t, j, k, n_rows
    with nogil:
        for t in range(out.shape[0]):
            low[:] = INFINITY
            high[:] = -INFINITY
            seen[:] = 0
            for k in range(indptr[offsets[t]], indptr[offsets[t + 1]]):
                j = indices[k]
                low[j] = min(low[j], data[k])
                high[j] = max(high[j], data[k])
                seen[j] += 1
            n_rows = offsets[t + 1] - offsets[t]
            for j in range(n_columns):
                if about_zero or seen[j] < n_rows:
                    low[j] = min(low[j], 0.0)
                    high[j] = max(high[j], 0.0)
            tell_spans(low, high, out[t])
    return found


def gather_by_row(
    const floating[::1] data, const integer[::1] indices, const integer[::1] indptr,
    const Py_ssize_t[::1] place, const double[::1] scale, double[:, ::1] out,
):
    """Write column j of X * scale into row place[j] of out, which is zero, unless that is negative."""
    cdef Py_ssize_t i, j, k
    with nogil:
        for i in range(out.shape[1]):
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                if place[j] >= 0:
                    out[place[j], i] = data[k] * scale[j]


def gather_by_column(
    const floating[::1] data, const integer[::1] indices, const integer[::1] indptr,
    const Py_ssize_t[::1] index, const double[::1] scale, double[:, ::1] out,
):
    """out[a] = column index[a] of X * scale, for an out that is zero."""
    cdef Py_ssize_t a, j, k
    with nogil:
        for a in range(index.shape[0]):
            j = index[a]
            for k in range(indptr[j], indptr[j + 1]):
                out[a, indices[k]] = data[k] * scale[j]


# -- many small tasks, none of which is worth a call of a library --------------------------------------------


def adjoint(const floating[:, :] X, const Py_ssize_t[::1] offsets, const double[::1] v):
    """X_t.T @ v_t for the rows X_t of every task, (tasks, columns)."""
    out = np.zeros((offsets.shape[0] - 1, X.shape[1]))
    cdef double[:, ::1] sums = out
    cdef Py_ssize_t t, i, j
    with nogil:
        for t in range(sums.shape[0]):
            if X.strides[1] == sizeof(floating):
                for i in range(offsets[t], offsets[t + 1]):
                    add_multiple(&X[i, 0], v[i], sums[t])
            else:
                for j in range(X.shape[1]):
                    for i in range(offsets[t], offsets[t + 1]):
                        sums[t, j] += X[i, j] * v[i]
    return out


cdef inline void add_multiple(const floating* x, double factor, double[::1] out) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(out.shape[0]):
        out[j] += factor * x[j]


def forward_by_columns(const double[:, ::1] x, const Py_ssize_t[::1] offsets, const double[:, ::1] A):
    """Sum of the columns in x, each multiplied by its row of A (columns, tasks)."""
    out = np.zeros(x.shape[1])
    cdef double[::1] z = out
    cdef Py_ssize_t t, i, j
    with nogil:
        for j in range(x.shape[0]):
            for t in range(A.shape[1]):
                if A[j, t] != 0.0:
                    for i in range(offsets[t], offsets[t + 1]):
                        z[i] += x[j, i] * A[j, t]
    return out
