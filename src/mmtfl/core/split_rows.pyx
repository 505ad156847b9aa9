"""Rows that are sums of two parts, one of them shared by the tasks; docs/additive.md section 3.

    minimise over p, q   sum_t L_t/2 (p_t + q_t)^2 - g_t (p_t + q_t) + alpha ||p|| + eps ||q||_1

Given p, q is a soft threshold, and p follows from one root in its norm. The numbers of a row are alpha and
eps.
"""

from libc.math cimport INFINITY, copysign, fabs, sqrt

from mmtfl.core.row_functions cimport Phi, copy, norm_p, sort_falling
from mmtfl.core.row_problems cimport Row
from mmtfl.core.searched_rows cimport SearchedRow


cdef class SplitRow(SearchedRow):
    """min over p + q = a of alpha ||p|| + eps ||q||_1; ||p|| is the 2-norm or the largest entry (inf).

    The search is for the norm of the shared part. At the 2-norm sum_t min(|g_t| / (L_t rho + alpha),
    eps / alpha)^2 = 1, at the largest entry sum_t min((|g_t| - L_t rho)+, eps) = alpha.
    """

    def __init__(self, double p):
        SearchedRow.__init__(self, p, 1.0)

    cdef double set_at(self, const Phi* phi, Row* row, double rho, double* following) noexcept nogil:
        cdef const double* L = row.curvature
        cdef double* out = row.out
        cdef double eps = row.numbers[1], most = eps / phi.alpha, size, share, rest
        cdef double total = 0.0, change = 0.0
        cdef Py_ssize_t t
        for t in range(row.n):
            size, share = fabs(row.slope[t]), 0.0
            if L[t] == 0.0:
                size = 0.0
            elif rho == INFINITY:
                share = size / L[t]
            elif self.p == 2.0:
                share = size / (L[t] * rho + phi.alpha)
                change += share * share * L[t] / (L[t] * rho + phi.alpha) if share < most else 0.0
                share = share if share < most else most
                total += share * share
                share = rho * share
            else:
                share = min(size / L[t], rho)
                rest = size - L[t] * rho
                change += L[t] if 0.0 < rest < eps else 0.0
                total += max(0.0, min(rest, eps))
            rest = size - L[t] * share - eps  # q is the soft threshold of what p leaves
            share += rest / L[t] if rest > 0.0 else 0.0
            out[t] = copysign(share, row.slope[t]) if share > 0.0 else 0.0
        if rho == INFINITY:
            return norm_p(out, row.n, self.p)
        if self.p != 2.0:
            if following != NULL and change > 0.0:
                following[0] = rho + (total - phi.alpha) / change
            return rho * total / phi.alpha
        if following != NULL and change > 0.0:  # on 1 / norm, which is nearly linear
            following[0] = rho - (1.0 - sqrt(total)) * total / change
        return rho * sqrt(total)

    cdef void set_zero(self, const Phi* phi, Row* row) noexcept nogil:
        """Set the row that is all of single tasks."""
        cdef Py_ssize_t t
        cdef double rest
        for t in range(row.n):
            rest = fabs(row.slope[t]) - row.numbers[1]
            row.out[t] = copysign(rest / row.curvature[t], row.slope[t]) if rest > 0.0 else 0.0

    cdef double norm(self, Row* row, const double* a) noexcept nogil:
        return norm_p(a, row.n, self.p)

    cdef double dual_norm(self, Row* row) noexcept nogil:
        """The dual norm of the slopes that are left where each task pays eps for its own part."""
        cdef double size, total = 0.0
        cdef Py_ssize_t t
        for t in range(row.n):
            size = min(fabs(row.slope[t]), row.numbers[1])
            total += size * size if self.p == 2.0 else size
        return sqrt(total) if self.p == 2.0 else total

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


# -- the split of a given row: p is clipped at the level from which q is equally cheap -----------------------


cdef double* sorted_sizes(Row* row) noexcept nogil:
    """The sizes in the room of the row, by falling value, elsewhere in the room."""
    copy(row.room, row.n, row.room + row.n)
    sort_falling(row.room + row.n, row.n)
    return row.room + row.n


cdef double bound_level(Row* row, double alpha, double eps) noexcept nogil:
    """The smallest level that at most alpha / eps entries exceed."""
    cdef double n_above = alpha / eps * (1.0 + 1e-14)
    if not n_above < row.n:
        return 0.0
    return sorted_sizes(row)[<Py_ssize_t> n_above]


cdef double euclidean_level(Row* row, double alpha, double eps) noexcept nogil:
    """The level c with c = eps / alpha ||row clipped at c||, or 0.

    With the k largest entries clipped, c^2 (1 - k (eps / alpha)^2) = (eps / alpha)^2 times the square sum of
    the others; the first k whose level is not below the next entry is the one.
    """
    cdef double ratio = (eps / alpha) * (eps / alpha), left = 1.0, level, tail
    cdef double* squares = row.room + 2 * row.n  # of the entries from each place on
    cdef double* falling = sorted_sizes(row)
    cdef Py_ssize_t k
    tail = 0.0
    for k in range(row.n - 1, -1, -1):
        tail += falling[k] * falling[k]
        squares[k] = tail
    for k in range(row.n):
        left = 1.0 - k * ratio if k > 0 else 1.0
        if left <= 0.0:
            return 0.0
        level = sqrt(ratio * squares[k] / left)
        if level >= falling[k]:
            return level
    return 0.0
