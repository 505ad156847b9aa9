"""Rows whose norm is a sum or a largest entry, and rows whose tasks are independent; docs/model.md section 5.
"""

from libc.math cimport INFINITY, copysign, fabs

from mmtfl.core.row_functions cimport Phi, largest_size, phi_bend, phi_slope, power, power_root, size_sum
from mmtfl.core.row_problems cimport Row, RowProblem
from mmtfl.core.searched_rows cimport SearchedRow


cdef class SeparableRow(RowProblem):
    """k = inf: alpha sum_t |a_t|^p, so every task is solved on its own."""

    cdef readonly double p

    def __init__(self, double p):
        self.p = p

    cdef void minimise(self, Row* row) noexcept nogil:
        if self.p == 1.0:
            set_lasso(row)
        elif self.p == 2.0:
            set_ridge(row)
        else:
            set_roots(row, self.p)

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef Py_ssize_t t
        cdef double total = 0.0
        for t in range(row.n):
            if a[t] != 0.0:
                total += power(fabs(a[t]), self.p)
        return row.numbers[0] * total if total > 0.0 else 0.0


cdef void set_lasso(Row* row) noexcept nogil:
    """Soft thresholds."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef double kept, alpha = row.numbers[0]
    for t in range(row.n):
        kept = fabs(g[t]) - alpha
        out[t] = copysign(kept / L[t], g[t]) if kept > 0.0 and L[t] > 0.0 else 0.0


cdef void set_ridge(Row* row) noexcept nogil:
    """Ridge shrinkage."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    for t in range(row.n):
        out[t] = g[t] / (L[t] + 2.0 * row.numbers[0]) if L[t] > 0.0 else 0.0


cdef void set_roots(Row* row, double p) noexcept nogil:
    """One root for each task."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef double size
    for t in range(row.n):
        size = fabs(g[t]) if L[t] > 0.0 else 0.0
        size = power_root(size, L[t], row.numbers[0] * p, p - 1.0)
        out[t] = copysign(size, g[t]) if size > 0.0 else 0.0


# -- p = 1 ---------------------------------------------------------------------------------------------------
#
# |a_t| = max(|g_t| - tau, 0) / L_t with tau = phi'(s), s = ||a||_1.


cdef class SumNormRow(SearchedRow):
    """p = 1, r < 1: alpha (sum_t |a_t|)^r, or the logarithm of eq. (6)."""

    def __init__(self, double r, *, bint logarithm=False):
        SearchedRow.__init__(self, 1.0, r, logarithm=logarithm)

    cdef double set_at(self, const Phi* phi, Row* row, double rho, double* following) noexcept nogil:
        cdef const double* g = row.slope
        cdef const double* L = row.curvature
        cdef Py_ssize_t t
        cdef double kept, slope = phi_slope(phi, rho) if rho < INFINITY else 0.0, total = 0.0, weight = 0.0
        for t in range(row.n):
            kept = fabs(g[t]) - slope
            kept = kept / L[t] if kept > 0.0 and L[t] > 0.0 else 0.0
            row.out[t] = copysign(kept, g[t]) if kept > 0.0 else 0.0
            total += kept
            weight += 1.0 / L[t] if kept > 0.0 else 0.0
        if following != NULL and rho < INFINITY:
            weight = 1.0 + weight * phi_bend(phi, rho, slope)
            following[0] = rho - (rho - total) / weight if weight > 0.0 else -1.0
        return total

    cdef double norm(self, Row* row, const double* a) noexcept nogil:
        return size_sum(a, row.n)

    cdef double dual_norm(self, Row* row) noexcept nogil:
        return largest_size(row.slope, row.n)


# -- p = inf -------------------------------------------------------------------------------------------------
#
# |a_t| = min(|g_t| / L_t, m) with phi'(m) = sum_t max(|g_t| - L_t m, 0).


cdef class MaxNormRow(SearchedRow):
    """p = inf: alpha (max_t |a_t|)^r; r = 1 is the l1,inf norm."""

    def __init__(self, double r):
        SearchedRow.__init__(self, INFINITY, r)

    cdef double set_at(self, const Phi* phi, Row* row, double rho, double* following) noexcept nogil:
        """Clip the row at rho; rho times what the clipped tasks pay, as a share of phi'(rho)."""
        cdef const double* g = row.slope
        cdef const double* L = row.curvature
        cdef Py_ssize_t t
        cdef double left, slope, total = 0.0, weight = 0.0
        if rho == INFINITY:
            set_clip(row, rho)
            return largest_size(row.out, row.n)
        for t in range(row.n):
            left = fabs(g[t]) - L[t] * rho
            row.out[t] = copysign(rho, g[t]) if left > 0.0 else g[t] / L[t] if L[t] > 0.0 else 0.0
            total += left if left > 0.0 else 0.0
            weight += L[t] if left > 0.0 else 0.0
        slope = phi_slope(phi, rho)
        weight += phi_bend(phi, rho, slope)
        if following != NULL and weight > 0.0:
            following[0] = rho + (total - slope) / weight
        return rho * total / slope

    cdef double norm(self, Row* row, const double* a) noexcept nogil:
        return largest_size(a, row.n)

    cdef double dual_norm(self, Row* row) noexcept nogil:
        return size_sum(row.slope, row.n)


cdef void set_clip(Row* row, double bound) noexcept nogil:
    """g / L, clipped at the bound."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef double size
    for t in range(row.n):
        size = fabs(g[t]) / L[t] if L[t] > 0.0 else 0.0
        size = size if size < bound else bound
        out[t] = copysign(size, g[t]) if size > 0.0 else 0.0
