"""Rows that are sums of two parts, one of them shared by the tasks; docs/additive.md section 3.

    minimise over p, q   sum_t L_t/2 (p_t + q_t)^2 - g_t (p_t + q_t) + alpha ||p|| + eps ||q||_1

Given p, q is a soft threshold, and p follows from one root in its norm. The numbers of a row are alpha and eps.
"""

from libc.math cimport INFINITY, copysign, fabs, sqrt

from mmtfl.core.row_functions cimport largest_size, norm_p
from mmtfl.core.row_problems cimport Row, RowProblem
from mmtfl.core.sorting cimport sort_falling


cdef class SplitRow(RowProblem):
    """min over p + q = a of alpha ||p|| + eps ||q||_1, the first norm Euclidean (p = 2) or the largest entry (inf)."""

    cdef readonly double p

    def __init__(self, double p):
        self.p = p

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef Py_ssize_t t
        cdef double alpha = row.numbers[0], eps = row.numbers[1], size, L, shared, rest
        if self.p == 2.0:
            size = euclidean_size(row, norm_p(row.present, row.n, 2.0))
        else:
            size = bound_size(row, largest_size(row.present, row.n))
        for t in range(row.n):
            L = row.curvature[t] if row.curvature[t] > 0.0 else INFINITY
            if size == 0.0:
                shared = 0.0
            elif self.p == 2.0:
                shared = size * min(fabs(row.slope[t]) / (L * size + alpha), eps / alpha)
            else:
                shared = min(fabs(row.slope[t]) / L, size)
            rest = fabs(row.slope[t]) - L * shared - eps  # q is the soft threshold of what p leaves
            row.out[t] = copysign(shared + (rest / L if rest > 0.0 else 0.0), row.slope[t])

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
        return (alpha * norm_p(size, row.n, self.p) if level > 0.0 else 0.0) + (eps * total if total > 0.0 else 0.0)


# -- the size of the shared part ---------------------------------------------------------------------------------


cdef double euclidean_size(const Row* row, double start) noexcept nogil:
    """||p||_2: the root of sum_t min(|g_t| / (L_t rho + alpha), eps / alpha)^2 = 1, or 0; `start` is a guess."""
    cdef double alpha = row.numbers[0], eps = row.numbers[1], most = eps / alpha
    cdef double held = 0.0, top = 0.0, low = 0.0, high, rho, size, clipped, below, share, squares, change, trial
    cdef Py_ssize_t t
    cdef int k
    for t in range(row.n):
        size = fabs(row.slope[t]) if row.curvature[t] > 0.0 else 0.0
        clipped = size if size < eps else eps
        held += clipped * clipped
        size = size / row.curvature[t] if row.curvature[t] > 0.0 else 0.0
        top += size * size
    if held <= alpha * alpha:
        return 0.0
    high = sqrt(top)
    rho = start if 0.0 < start < high else high
    for k in range(100):
        squares, change = 0.0, 0.0
        for t in range(row.n):
            below = row.curvature[t] * rho + alpha
            share = fabs(row.slope[t]) / below if row.curvature[t] > 0.0 else 0.0
            change += share * share * row.curvature[t] / below if share < most else 0.0
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


cdef double bound_size(const Row* row, double start) noexcept nogil:
    """max |p_t|: the root m of sum_t min((|g_t| - L_t m)+, eps) = alpha, or 0; `start` is a guess."""
    cdef double alpha = row.numbers[0], eps = row.numbers[1]
    cdef double held = 0.0, top = 0.0, low = 0.0, high, m, size, left, excess, change, trial
    cdef Py_ssize_t t
    cdef int k
    for t in range(row.n):
        size = fabs(row.slope[t]) if row.curvature[t] > 0.0 else 0.0
        held += size if size < eps else eps
        size = size / row.curvature[t] if row.curvature[t] > 0.0 else 0.0
        top = size if size > top else top
    if held <= alpha:
        return 0.0
    high = top
    m = start if 0.0 < start < high else 0.5 * high
    for k in range(200):
        excess, change = -alpha, 0.0
        for t in range(row.n):
            left = fabs(row.slope[t]) - row.curvature[t] * m if row.curvature[t] > 0.0 else 0.0
            change += row.curvature[t] if 0.0 < left < eps else 0.0
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
            trial = 0.5 * (low + high)
            if trial <= low or trial >= high:
                return trial
        m = trial
    return m


# -- the split of a given row: p is clipped at the level from which q is equally cheap ---------------------------


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

    With the k largest entries clipped, c^2 (1 - k (eps / alpha)^2) = (eps / alpha)^2 times the square sum of the
    others; the first k whose level is not below the next entry is the one.
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
