"""Rows whose tasks scatter about a common part: the row problem with pooling; docs/model.md section 10.

    minimise over a   sum_t L_t/2 a_t^2 - g_t a_t + phi(rho),
    rho^p = S = min over m of   w |m|^p + sum_t |a_t - m|^p,      p = 1 or 2

Once phi'(rho) is known, so are m and the row: a linear system at p = 2, a lasso at p = 1. What remains is one
root in rho. A task in which the feature is constant (L_t = 0) says nothing, and its coefficient is m.

Rows of a group are one block, row by row: each has a common part of its own, and S is the sum of theirs.
"""

from libc.math cimport INFINITY, copysign, fabs, sqrt

from mmtfl.core.row_functions cimport Phi, copy, phi_slope, sort_falling
from mmtfl.core.row_problems cimport Row
from mmtfl.core.searched_rows cimport SearchedRow


cdef class PooledRow(SearchedRow):
    """p = 1 or 2. Rows have `n_tasks` entries each; 0: there is one row, of any length."""

    cdef readonly double pooling
    cdef readonly Py_ssize_t n_tasks

    def __init__(self, double p, double r, double pooling, Py_ssize_t n_tasks=0, *, bint logarithm=False):
        SearchedRow.__init__(self, p, r, logarithm=logarithm)
        self.pooling, self.n_tasks = pooling, n_tasks

    cdef inline Py_ssize_t width(self, Row* row) noexcept nogil:
        """The number of entries of each row."""
        return self.n_tasks if self.n_tasks > 0 else row.n

    cdef inline double w(self, Row* row) noexcept nogil:
        """What a common part costs against one task's own part; eq. (10)."""
        return self.width(row) * (1.0 - self.pooling) / self.pooling

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef Py_ssize_t t
        if self.r != self.p or self.logarithm:
            SearchedRow.minimise(self, row)
            return
        for t in range(row.n):  # phi is alpha S: nothing to search for
            row.slope[t] = row.slope[t] if row.curvature[t] > 0.0 else 0.0
        self.set_rows(row, row.numbers[0] * self.p)

    cdef double set_at(self, const Phi* phi, Row* row, double rho, double* following) noexcept nogil:
        cdef double slope = phi_slope(phi, rho) if rho < INFINITY else 0.0
        return self.set_rows(row, slope if phi.p == 1.0 else slope / rho)

    cdef double set_rows(self, Row* row, double weight) noexcept nogil:
        """Set the rows at which phi'(rho), at p = 2 divided by rho, is the weight; their norm."""
        cdef Row one = row[0]
        cdef Py_ssize_t i, first
        cdef double total = 0.0
        one.n = self.width(row)
        for i in range(row.n // one.n):
            first = i * one.n
            one.slope, one.curvature, one.out = row.slope + first, row.curvature + first, row.out + first
            total += (set_sum if self.p == 1.0 else set_euclidean)(&one, self.w(row), weight)
        return total if self.p == 1.0 else sqrt(total)

    cdef double norm(self, Row* row, const double* a) noexcept nogil:
        """S^(1/p) of the rows of a block."""
        cdef Py_ssize_t i, n = self.width(row)
        cdef double total = 0.0
        for i in range(row.n // n):
            total += size_of(a + i * n, n, self.p, self.w(row), row.room)
        return total if self.p == 1.0 else sqrt(total)

    cdef double dual_norm(self, Row* row) noexcept nogil:
        """Dual of the norm of a block's rows at g; eq. (13)."""
        cdef const double* g = row.slope
        cdef Py_ssize_t i, t, n = self.width(row)
        cdef double common, squares = 0.0, largest = 0.0
        for i in range(row.n // n):
            common = 0.0
            for t in range(i * n, (i + 1) * n):
                common += g[t]
                squares += g[t] * g[t]
                largest = max(largest, fabs(g[t]))
            squares += common * common / self.w(row)
            largest = max(largest, fabs(common) / self.w(row))
        return largest if self.p == 1.0 else sqrt(squares)


# -- one row at a given phi'(rho), and its size --------------------------------------------------------------


cdef double set_euclidean(Row* row, double w, double ratio) noexcept nogil:
    """p = 2: set one row with phi'(rho) / rho = ratio; its S.

    With h = L + ratio: a_t = (g_t + ratio m) / h_t, where m (w + sum_t L_t / h_t) = sum_t g_t / h_t.
    """
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef double share, apart, m, total, above = 0.0, below = w
    for t in range(row.n):
        share = 1.0 / (L[t] + ratio) if L[t] > 0.0 else 0.0
        above += g[t] * share
        below += L[t] * share
        out[t] = share
    m = above / below
    total = w * m * m
    for t in range(row.n):
        apart = (g[t] - L[t] * m) * out[t]
        out[t] = m + apart
        total += apart * apart
    return total


cdef double set_sum(Row* row, double w, double threshold) noexcept nogil:
    """p = 1: set one row with phi'(rho) = threshold; its S."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef double own, apart, m = common_part(row, w, threshold), total = w * fabs(m)
    for t in range(row.n):
        own = g[t] - L[t] * m
        apart = (fabs(own) - threshold) / L[t] if fabs(own) > threshold else 0.0
        out[t] = m + copysign(apart, own)
        total += apart
    return total


cdef double common_part(Row* row, double w, double threshold) noexcept nogil:
    """p = 1: the m at which the tasks' slopes sum to w thresholds, or 0 if they sum to less there."""
    cdef double total, slope, wanted, m = 0.0, trial, near = 0.0, far
    cdef int _
    total, slope = pull(row, threshold, 0.0)
    wanted = copysign(w * threshold, total)
    if fabs(total) <= fabs(wanted):
        return 0.0
    far = farthest(row, total)  # the sum falls from `total` at m = 0 to no more than 0 there
    for _ in range(200):
        trial = m + (total - wanted) / slope if slope > 0.0 else far
        if not min(near, far) < trial < max(near, far):
            trial = 0.5 * (near + far)
        if fabs(trial - m) <= 1e-15 * fabs(trial):
            break
        m = trial
        total, slope = pull(row, threshold, m)
        if (total - wanted) * far > 0.0:
            near = m
        elif total == wanted:
            break
        else:
            far = m
    return m


cdef (double, double) pull(Row* row, double threshold, double m) noexcept nogil:
    """p = 1: the sum of the tasks' slopes at m, each within the threshold, and its derivative in -m."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double own, total = 0.0, slope = 0.0
    for t in range(row.n):
        own = g[t] - L[t] * m
        slope += L[t] if fabs(own) <= threshold else 0.0
        own = own if own > -threshold else -threshold
        total += own if own < threshold else threshold
    return total, slope


cdef double farthest(Row* row, double direction) noexcept nogil:
    """The g_t / L_t that is farthest from zero in a direction."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double z, out = 0.0
    for t in range(row.n):
        if g[t] * direction > 0.0:
            z = fabs(g[t]) / L[t]
            out = z if z > out else out
    return copysign(out, direction)


cdef double size_of(const double* a, Py_ssize_t n, double p, double w, double* room) noexcept nogil:
    """S of one row; eq. (12)."""
    cdef Py_ssize_t t
    cdef double m = 0.0, total = 0.0
    if p == 1.0:
        m = median_of(a, room, n, <Py_ssize_t> (0.5 * (n + w)))
        for t in range(n):
            total += fabs(a[t] - m)
        return total + w * fabs(m)
    for t in range(n):
        m += a[t]
    m /= n + w
    for t in range(n):
        total += (a[t] - m) * (a[t] - m)
    return total + w * m * m


cdef double median_of(const double* a, double* room, Py_ssize_t n, Py_ssize_t n_beyond) noexcept nogil:
    """The median of the entries and of a heavy zero: at most `n_beyond` entries are farther from zero."""
    cdef Py_ssize_t t, n_above = 0, n_below = 0
    for t in range(n):
        n_above += a[t] > 0.0
        n_below += a[t] < 0.0
    if n_above <= n_beyond and n_below <= n_beyond:
        return 0.0
    copy(a, n, room)
    sort_falling(room, n)
    return room[n_beyond if n_above > n_beyond else n - 1 - n_beyond]
