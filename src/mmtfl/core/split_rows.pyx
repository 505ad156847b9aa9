"""Rows that are sums of two parts, one of them shared by the tasks; docs/additive.md section 3.

    minimise over p, q   sum_t L_t/2 (p_t + q_t)^2 - g_t (p_t + q_t) + alpha ||p|| + eps ||q||_1

Given p, q is a soft threshold, and p follows from one root in its norm. The numbers of a row are alpha and
eps.
"""

from libc.math cimport INFINITY, copysign, fabs, sqrt

import numpy as np

from mmtfl.core.row_functions cimport largest_size, norm_p
from mmtfl.core.row_problems cimport Row, RowProblem
from mmtfl.core.sorting cimport sort_falling


cdef class SplitRow(RowProblem):
    """min over p + q = a of alpha ||p|| + eps ||q||_1; ||p|| is the 2-norm or the largest entry (inf)."""

    cdef readonly double p

    def __init__(self, double p):
        self.p = p

    cdef void minimise(self, Row* row) noexcept nogil:
        if self.p == 2.0:
            set_euclidean(row, euclidean_size(row, norm_p(row.present, row.n, 2.0)))
        else:
            set_bounded(row, bound_size(row, largest_size(row.present, row.n)))

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef double alpha = row.numbers[0], eps = row.numbers[1], level, total = 0.0
        cdef double* size = row.room
        cdef Py_ssize_t t
        for t in range(row.n):
            size[t] = fabs(a[t])
        level = (euclidean_level if self.p == 2.0 else bound_level)(row, alpha, eps)
        for t in range(row.n):
            total += size[t] - level if size[t] > level else 0.0
            size[t] = size[t] if size[t] < level else level
        # an infinite strength costs nothing where its part is zero
        total = eps * total if total > 0.0 else 0.0
        return total + alpha * norm_p(size, row.n, self.p) if level > 0.0 else total


cdef void set_euclidean(Row* row, double size) noexcept nogil:
    """The row whose shared part has this Euclidean norm."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef double alpha = row.numbers[0], eps = row.numbers[1], shared, rest
    cdef double most = eps / alpha if size > 0.0 else 0.0
    cdef Py_ssize_t t
    for t in range(row.n):
        shared = fabs(g[t]) / (L[t] * size + alpha)
        shared = size * (shared if shared < most else most)
        rest = fabs(g[t]) - L[t] * shared - eps  # q is the soft threshold of what p leaves
        shared += rest / L[t] if rest > 0.0 else 0.0
        out[t] = copysign(shared, g[t]) if L[t] > 0.0 and shared > 0.0 else 0.0


cdef void set_bounded(Row* row, double size) noexcept nogil:
    """The row whose shared part has this largest entry."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef double eps = row.numbers[1], shared, rest
    cdef Py_ssize_t t
    for t in range(row.n):
        shared = fabs(g[t]) / L[t] if L[t] > 0.0 else 0.0
        shared = shared if shared < size else size
        rest = fabs(g[t]) - L[t] * shared - eps
        shared += rest / L[t] if rest > 0.0 else 0.0
        out[t] = copysign(shared, g[t]) if L[t] > 0.0 and shared > 0.0 else 0.0


# -- the size of the shared part -----------------------------------------------------------------------------


cdef double euclidean_size(const Row* row, double start) noexcept nogil:
    """||p||_2: the root of sum_t min(|g_t| / (L_t rho + alpha), eps / alpha)^2 = 1, or 0, from a guess."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double alpha = row.numbers[0], eps = row.numbers[1], most = eps / alpha
    cdef double held = 0.0, low = 0.0, high = 0.0, rho, size, inverse, share, squares, change, trial
    cdef Py_ssize_t t
    cdef int _
    for t in range(row.n):
        size = fabs(g[t]) if L[t] > 0.0 else 0.0
        size = size if size < eps else eps
        held += size * size
    if held <= alpha * alpha:
        return 0.0
    for t in range(row.n):
        size = g[t] / L[t] if L[t] > 0.0 else 0.0
        high += size * size
    high = sqrt(high)
    rho = start if 0.0 < start < high else high
    for _ in range(100):
        squares, change = 0.0, 0.0
        for t in range(row.n):
            inverse = 1.0 / (L[t] * rho + alpha) if L[t] > 0.0 else 0.0
            share = fabs(g[t]) * inverse
            change += share * share * inverse * L[t] if share < most else 0.0
            share = share if share < most else most
            squares += share * share
        size = sqrt(squares)
        if size > 1.0:
            low = rho
        else:
            high = rho
        # Newton on 1 / size - 1, nearly linear in rho, inside the bracket
        trial = rho - (1.0 - size) * squares / change if change > 0.0 else -1.0
        if not low < trial < high:
            trial = 0.5 * (low + high)
        if fabs(trial - rho) <= 1e-15 * rho:
            return trial
        rho = trial
    return rho


def shrink_residuals(
    const double[::1] residual, const double[::1] eigenvalues, const Py_ssize_t[::1] offsets, double alpha,
    double[::1] lengths,
):
    """Residuals of tasks in the bases of their X X', after the best columns q of cost alpha ||q||.

    `lengths` has guesses of the lengths of these columns, and receives them.
    """
    cdef double[::1] out = np.empty(residual.shape[0])
    cdef double[2] strengths = [alpha, INFINITY]
    cdef Row row
    cdef Py_ssize_t t, i
    row.numbers = strengths
    with nogil:
        for t in range(lengths.shape[0]):
            row.n = offsets[t + 1] - offsets[t]
            if row.n == 0:
                continue
            row.slope, row.curvature = &out[offsets[t]], &eigenvalues[offsets[t]]
            for i in range(offsets[t], offsets[t + 1]):
                out[i] = sqrt(eigenvalues[i]) * residual[i]
            lengths[t] = euclidean_size(&row, lengths[t])
            for i in range(offsets[t], offsets[t + 1]):
                out[i] = residual[i] / (1.0 + eigenvalues[i] * lengths[t] / alpha)
    return np.asarray(out)


cdef double bound_size(const Row* row, double start) noexcept nogil:
    """max |p_t|: the root m of sum_t min((|g_t| - L_t m)+, eps) = alpha, or 0; `start` is a guess."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double alpha = row.numbers[0], eps = row.numbers[1]
    cdef double held = 0.0, slopes = 0.0, curvatures = 0.0, size, left, excess, change, trial, m
    cdef double low = 0.0, high = INFINITY
    cdef Py_ssize_t t
    cdef int _
    for t in range(row.n):
        size = fabs(g[t]) if L[t] > 0.0 else 0.0
        held += size if size < eps else eps
        slopes += size
        curvatures += L[t]
    if held <= alpha:
        return 0.0
    m = start if start > 0.0 else (slopes - alpha) / curvatures
    for _ in range(200):
        excess, change = -alpha, 0.0
        for t in range(row.n):
            left = fabs(g[t]) - L[t] * m if L[t] > 0.0 else 0.0
            change += L[t] if left > 0.0 and left < eps else 0.0
            left = left if left > 0.0 else 0.0
            excess += left if left < eps else eps
        if excess > 0.0:
            low = m
        else:
            high = m
        trial = m + excess / change if change > 0.0 else -1.0
        if fabs(trial - m) <= 1e-15 * m:
            return trial
        if not low < trial < high:
            trial = 0.5 * (low + high) if high < INFINITY else 2.0 * m
            if trial <= low or trial >= high:
                return trial
        m = trial
    return m


# -- the split of a given row: p is clipped at the level from which q is equally cheap -----------------------


cdef void sort_sizes(Row* row) noexcept nogil:
    """Order the entries by falling size."""
    cdef Py_ssize_t t
    for t in range(row.n):
        row.order[t] = t
    sort_falling(row.room, row.order, row.n)


cdef double bound_level(Row* row, double alpha, double eps) noexcept nogil:
    """The smallest level that at most alpha / eps entries exceed."""
    cdef double n_above = alpha / eps * (1.0 + 1e-14)
    if not n_above < row.n:
        return 0.0
    sort_sizes(row)
    return row.room[row.order[<Py_ssize_t> n_above]]


cdef double euclidean_level(Row* row, double alpha, double eps) noexcept nogil:
    """The level c with c = eps / alpha ||row clipped at c||, or 0.

    With the k largest entries clipped, c^2 (1 - k (eps / alpha)^2) = (eps / alpha)^2 times the square sum of
    the others; the first k whose level is not below the next entry is the one.
    """
    cdef double ratio = (eps / alpha) * (eps / alpha), left = 1.0, level, tail
    cdef double* squares = row.room + row.n  # of the entries from each place on
    cdef Py_ssize_t k
    sort_sizes(row)
    tail = 0.0
    for k in range(row.n - 1, -1, -1):
        tail += row.room[row.order[k]] * row.room[row.order[k]]
        squares[k] = tail
    for k in range(row.n):
        left = 1.0 - k * ratio if k > 0 else 1.0
        if left <= 0.0:
            return 0.0
        level = sqrt(ratio * squares[k] / left)
        if level >= row.room[row.order[k]]:
            return level
    return 0.0
