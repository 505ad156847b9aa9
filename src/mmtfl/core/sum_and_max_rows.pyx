"""Rows whose norm is a sum or a largest entry, and rows whose tasks are independent; docs/model.md section 5.

For concave members the tasks that are kept, or clipped, are the first ones of a sorted list.
"""

from libc.math cimport INFINITY, copysign, fabs

from mmtfl.core.row_functions cimport (
    TINY, Phi, copy, fill, largest_norm, largest_size, phi_bend, phi_slope, phi_value, power, power_root,
    size_sum,
)
from mmtfl.core.row_problems cimport Row, RowProblem, present_is_better
from mmtfl.core.searched_rows cimport SearchedRow
from mmtfl.core.sorting cimport sort_falling

cdef enum:
    FALLS = 20  # steps that may show that a row is zero

cdef double SLOWLY = 0.9  # of the size that is left, more than which ends these steps
cdef double ROUNDING = 1e-12  # relative: slopes that differ by less may change places


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
# |a_t| = max(|g_t| - tau, 0) / L_t with tau = phi'(s), s = ||a||_1. Functions below find the sizes |g_t| and
# the inverse curvatures in the room of the row, both zero in tasks without curvature.


cdef class SumNormRow(RowProblem):
    """p = 1, r < 1: alpha (sum_t |a_t|)^r, or the logarithm of eq. (6)."""

    cdef readonly double r
    cdef readonly bint logarithm

    def __init__(self, double r, *, bint logarithm=False):
        self.r, self.logarithm, self.has_short_cut = r, logarithm, True

    cdef Phi phi_of(self, Row* row) noexcept nogil:
        return Phi(self.logarithm, 1.0, self.r, row.numbers[0], row.numbers[1] if self.logarithm else 1.0)

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef Phi phi = self.phi_of(row)
        cdef double norm = solve_sum(&phi, row)
        if present_is_better(&phi, row, norm):
            copy(row.present, row.n, row.out)

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef Phi phi = self.phi_of(row)
        return phi_value(&phi, size_sum(a, row.n))


cdef double solve_sum(const Phi* phi, Row* row) noexcept nogil:
    """The best local minimum if thorough, else the one next to the present row; its norm."""
    cdef double largest, norm, start
    cdef double free = measure(row, &largest)
    start = 0.0 if row.thorough else size_sum(row.present, row.n)
    if start > 0.0:
        norm = nearest_minimum(phi, row, start)
        if norm > 0.0:
            return norm
    return best_minimum(phi, row, largest_norm(phi, free, free / largest) if free > 0.0 else 0.0)


cdef double measure(Row* row, double* largest) noexcept nogil:
    """Write |g_t| and 1 / L_t to the room; the norm without penalty, and the largest |g_t|."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double* size = row.room
    cdef double* inverse = row.room + row.n
    cdef double total = 0.0
    for t in range(row.n):
        inverse[t] = 1.0 / L[t] if L[t] > 0.0 else 0.0
        size[t] = fabs(g[t]) if L[t] > 0.0 else 0.0
        total += size[t] * inverse[t]
    largest[0] = largest_size(size, row.n)
    return total


cdef (double, double) soft_sums(Row* row, double threshold) noexcept nogil:
    """||a||_1 at a threshold, and what it loses per unit of it: the sum of 1 / L_t over the kept tasks."""
    cdef Py_ssize_t t
    cdef const double* size = row.room
    cdef const double* inverse = row.room + row.n
    cdef double total = 0.0, weight = 0.0
    for t in range(row.n):
        total += (size[t] - threshold) * inverse[t] if size[t] > threshold else 0.0
        weight += inverse[t] if size[t] > threshold else 0.0
    return total, weight


cdef double set_soft(Row* row, double threshold) noexcept nogil:
    """Set the row at a threshold; its norm."""
    cdef const double* g = row.slope
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef const double* size = row.room
    cdef const double* inverse = row.room + row.n
    cdef double kept, total = 0.0
    for t in range(row.n):
        kept = (size[t] - threshold) * inverse[t] if size[t] > threshold else 0.0
        out[t] = copysign(kept, g[t]) if kept > 0.0 else 0.0
        total += kept
    return total


cdef double nearest_minimum(const Phi* phi, Row* row, double s) noexcept nogil:
    """Newton on the norm s from a start; the norm of the local minimum that it sets, or 0."""
    cdef double slope, total, weight, bend, step
    cdef int _
    for _ in range(30):
        slope = phi_slope(phi, s)
        total, weight = soft_sums(row, slope)
        bend = 1.0 + phi_bend(phi, s, slope) * weight
        if bend <= 0.0:
            return 0.0
        step = (s - total) / bend
        if fabs(step) <= 1e-13 * s:
            return set_soft(row, slope)
        s -= step
        if s <= 0.0:
            return 0.0
    return 0.0


cdef double fall(const Phi* phi, Row* row, double s) noexcept nogil:
    """A bound of the norms of stationary rows, from one of them; 0 if zero is the only one.

    The map s -> ||a(s)||_1 rises with s, so its iterates from above pass no stationary row on their way down.
    """
    cdef double total, _weight
    cdef int _
    for _ in range(FALLS):
        if s < TINY:
            return 0.0
        total, _weight = soft_sums(row, phi_slope(phi, s))
        if total > SLOWLY * s:
            return total
        s = total
    return s


cdef double norm_at_slope(const Phi* phi, double slope) noexcept nogil:
    """The norm at which phi' has fallen to a slope, p = 1."""
    if slope <= 0.0:
        return INFINITY
    if phi.logarithm:
        return phi.alpha / slope - phi.eps if slope * phi.eps < phi.alpha else 0.0
    return power(slope / (phi.alpha * phi.r), 1.0 / (phi.r - 1.0))


cdef double best_minimum(const Phi* phi, Row* row, double bound) noexcept nogil:
    """Set the best local minimum, or zero; its norm, which is not above the bound.

    The kept tasks are those of the largest |g_t|. Each number of them has at most one local minimum: with D
    the sum of their 1 / L_t and Z that of their |g_t| / L_t, it is the larger root of s + D phi'(s) = Z, if
    there phi'(s) lies between the last kept |g_t| and the next.
    """
    cdef const double* size = row.room
    cdef const double* inverse = row.room + row.n
    cdef double best = 0.0, best_value = 0.0  # zero is always a candidate
    cdef double s, slope, value, following, low, high
    cdef double least, D = 0.0, Z = 0.0, squares = 0.0
    cdef Py_ssize_t t, m, n
    s = fall(phi, row, bound)
    least = phi_slope(phi, s) * (1.0 - ROUNDING) if s > 0.0 else INFINITY
    n = sort_above(row, least)
    high = norm_at_slope(phi, size[row.order[0]]) if n > 0 else 0.0
    for m in range(n):
        t = row.order[m]
        D += inverse[t]
        Z += size[t] * inverse[t]
        squares += size[t] * size[t] * inverse[t]
        following = size[row.order[m + 1]] if m + 1 < n else least
        low, high = high, norm_at_slope(phi, following)
        if high + D * following < Z:
            continue  # the root lies where more tasks are kept
        if low + D * size[t] > Z * (1.0 + ROUNDING) and 1.0 + D * phi_bend(phi, low, size[t]) >= 0.0:
            continue  # where fewer are
        s = larger_root(phi, D, Z, 0.0, min(high, Z))
        if s <= 0.0:
            continue
        slope = phi_slope(phi, s)
        if slope > size[t] * (1.0 + ROUNDING) or slope < following * (1.0 - ROUNDING):
            continue
        value = 0.5 * (slope * slope * D - squares) + phi_value(phi, s)
        if value < best_value:
            best, best_value = s, value
    if best > 0.0:
        return set_soft(row, phi_slope(phi, best))
    fill(row.out, row.n, 0.0)
    return 0.0


cdef Py_ssize_t sort_above(Row* row, double least) noexcept nogil:
    """Sort the tasks whose |g_t| is above the least, by falling |g_t|; their number."""
    cdef const double* L = row.curvature
    cdef Py_ssize_t t, n = 0
    for t in range(row.n):
        if row.room[t] > least and L[t] > 0.0:
            row.order[n] = t
            n += 1
    sort_falling(row.room, row.order, n)
    return n


cdef double larger_root(const Phi* phi, double D, double Z, double low, double s) noexcept nogil:
    """The larger root of s + D phi'(s) = Z, or -1 if it is not above `low`.

    Newton comes from the right, at s: where phi' is convex, so is the left side, and no step passes the root.
    """
    cdef double slope, bend, step
    cdef int _
    for _ in range(100):
        slope = phi_slope(phi, s)
        bend = 1.0 + D * phi_bend(phi, s, slope)
        if bend <= 0.0:
            return -1.0  # it rises to the left of here: no crossing below
        step = (s + D * slope - Z) / bend
        s -= step
        if s <= low:
            return -1.0
        if step <= 1e-15 * s:
            break
    return s


# -- p = inf -------------------------------------------------------------------------------------------------
#
# |a_t| = min(|g_t| / L_t, m) with phi'(m) = sum_t max(|g_t| - L_t m, 0).


cdef class MaxNormRow(SearchedRow):
    """p = inf: alpha (max_t |a_t|)^r; r = 1 is the l1,inf norm."""

    def __init__(self, double r):
        SearchedRow.__init__(self, INFINITY, r)
        self.has_short_cut = False

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef Phi phi = self.phi_of(row)
        cdef double bound
        if self.r >= 1.0:
            SearchedRow.minimise(self, row)
            return
        bound = best_bound(&phi, row)
        set_clip(row, bound)
        if present_is_better(&phi, row, bound):
            copy(row.present, row.n, row.out)

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


cdef double best_bound(const Phi* phi, Row* row) noexcept nogil:
    """r < 1: the m of the best local minimum, or 0.

    The clipped tasks are those of the largest |g_t| / L_t. With G the sum of their |g_t| and D that of their
    L_t, each number of them has at most one local minimum: the larger root of D m + phi'(m) = G, if it is in
    place.
    """
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* limit = row.room
    cdef double G = 0.0, D = 0.0, largest = 0.0, size, low, high, m, value, best = 0.0, best_value = 0.0
    cdef double free = 0.0  # what the tasks that are not clipped add to the value
    cdef Py_ssize_t t, k, n = 0
    for t in range(row.n):
        if L[t] > 0.0 and g[t] != 0.0:
            size = fabs(g[t])
            limit[t] = size / L[t]
            free -= 0.5 * size * limit[t]
            G += size
            largest = limit[t] if limit[t] > largest else largest
            row.order[n] = t
            n += 1
    if n == 0 or largest_norm(phi, largest, largest / G) == 0.0:
        return 0.0
    sort_falling(limit, row.order, n)
    G = 0.0
    for k in range(n):
        t = row.order[k]
        size = fabs(g[t])
        G += size
        D += L[t]
        free += 0.5 * size * limit[t]
        high, low = limit[t], (limit[row.order[k + 1]] if k + 1 < n else 0.0)
        if D * high + phi_slope(phi, high) < G * (1.0 - ROUNDING):
            continue  # the root lies above
        m = larger_root(phi, 1.0 / D, G / D, low * (1.0 - ROUNDING), high)
        if m <= 0.0:
            continue
        value = (0.5 * D * m - G) * m + free + phi_value(phi, m)
        if value < best_value:
            best, best_value = m, value
    return best
