"""Rows whose tasks scatter about a common part: the row problem with pooling; docs/model.md section 10.

    minimise over a   sum_t L_t/2 a_t^2 - g_t a_t + phi(rho),
    rho^p = S = min over m of   w |m|^p + sum_t |a_t - m|^p,      p = 1 or 2

Once phi'(rho) is known, so are m and the row: a linear system at p = 2, a lasso at p = 1. What remains is one
root in rho. A task in which the feature is constant (L_t = 0) says nothing, and its coefficient is m.

Rows of a group are one block, row by row: each has a common part of its own, and S is the sum of theirs.
"""

from libc.math cimport copysign, fabs, sqrt

from mmtfl.core.row_functions cimport TINY, Phi, fill, is_too_small, largest_norm, phi_slope, phi_value
from mmtfl.core.row_problems cimport Row, RowProblem, smooth_value
from mmtfl.core.sorting cimport sort_falling

cdef enum:
    GRID = 60  # norms that are tried for the concave members, down to 3e-8 of the largest
    NEAR = 4   # of these steps below the present row are close by

cdef double GRID_STEP = 0.75


cdef struct Pooling:
    Phi phi
    double w             # what a common part costs against one task's own part; eq. (10)
    Py_ssize_t n_tasks   # entries of each row of the block


cdef struct Bracket:
    double low, high, rho      # rho is tried first
    double last, last_excess   # a place where rho / norm - 1 is known; last < 0: there is none


cdef class PooledRow(RowProblem):
    """alpha rho^r, or the logarithm of eq. (6), for p = 1 or 2.

    Rows have `n_tasks` entries each; 0: there is one row, of any length.

    The answer is exact for convex members. For concave ones it is the best of zero and the local minima that
    steps of 25 % in the row's norm tell apart, or if not thorough the one next to the present row.
    """

    cdef readonly double p, r, pooling
    cdef readonly Py_ssize_t n_tasks
    cdef readonly bint logarithm

    def __init__(self, double p, double r, double pooling, Py_ssize_t n_tasks=0, *, bint logarithm=False):
        self.p, self.r, self.pooling, self.n_tasks, self.logarithm = p, r, pooling, n_tasks, logarithm
        self.has_short_cut = logarithm or r < 1.0

    cdef Pooling pooling_of(self, Row* row) noexcept nogil:
        cdef Pooling out
        out.phi = Phi(self.logarithm, self.p, self.r, row.numbers[0], row.numbers[1])
        out.n_tasks = self.n_tasks if self.n_tasks > 0 else row.n
        out.w = out.n_tasks * (1.0 - self.pooling) / self.pooling
        return out

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef double* g = row.slope
        cdef const double* L = row.curvature
        cdef Pooling pooled = self.pooling_of(row)
        cdef Py_ssize_t t
        cdef double top
        for t in range(row.n):
            g[t] = g[t] if L[t] > 0.0 else 0.0
        if self.r == self.p and not self.logarithm:  # phi is alpha S: nothing to search for
            set_rows(&pooled, row, pooled.phi.alpha * self.p)
            return
        top = set_rows(&pooled, row, 0.0)  # the norm without penalty, or more
        if top < TINY:
            fill(row.out, row.n, 0.0)
        elif self.has_short_cut:
            solve_concave(&pooled, row, top)
        else:
            solve_convex(&pooled, row, top)

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef Pooling pooled = self.pooling_of(row)
        return phi_value(&pooled.phi, norm_of(&pooled, row, a))


# -- the rows at a given phi'(rho) ---------------------------------------------------------------------------


cdef double set_rows(const Pooling* pooled, Row* row, double weight) noexcept nogil:
    """Set the rows of the block at which phi'(rho), at p = 2 divided by rho, is the weight; their norm."""
    cdef Row one = row[0]
    cdef Py_ssize_t i, first
    cdef double total = 0.0
    one.n = pooled.n_tasks
    for i in range(row.n // pooled.n_tasks):
        first = i * pooled.n_tasks
        one.slope, one.curvature, one.out = row.slope + first, row.curvature + first, row.out + first
        total += (set_sum if pooled.phi.p == 1.0 else set_euclidean)(&one, pooled.w, weight)
    return total if pooled.phi.p == 1.0 else sqrt(total)


cdef double set_at(const Pooling* pooled, Row* row, double rho) noexcept nogil:
    """Set the rows of the block at phi'(rho); their norm."""
    cdef double slope = phi_slope(&pooled.phi, rho)
    return set_rows(pooled, row, slope if pooled.phi.p == 1.0 else slope / rho)


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


# -- norms ---------------------------------------------------------------------------------------------------


cdef double norm_of(const Pooling* pooled, Row* row, const double* a) noexcept nogil:
    """S^(1/p) of the rows of a block."""
    cdef Py_ssize_t i
    cdef double total = 0.0
    for i in range(row.n // pooled.n_tasks):
        total += size_of(pooled, a + i * pooled.n_tasks, row.order)
    return total if pooled.phi.p == 1.0 else sqrt(total)


cdef double size_of(const Pooling* pooled, const double* a, Py_ssize_t* order) noexcept nogil:
    """S of one row; eq. (12)."""
    cdef Py_ssize_t t, n = pooled.n_tasks
    cdef double m = 0.0, total = 0.0
    if pooled.phi.p == 1.0:
        m = median_of(a, order, n, <Py_ssize_t> (0.5 * (n + pooled.w)))
        for t in range(n):
            total += fabs(a[t] - m)
        return total + pooled.w * fabs(m)
    for t in range(n):
        m += a[t]
    m /= n + pooled.w
    for t in range(n):
        total += (a[t] - m) * (a[t] - m)
    return total + pooled.w * m * m


cdef double median_of(const double* a, Py_ssize_t* order, Py_ssize_t n, Py_ssize_t n_beyond) noexcept nogil:
    """The median of the entries and of a heavy zero: at most `n_beyond` entries are farther from zero."""
    cdef Py_ssize_t t, n_above = 0, n_below = 0
    for t in range(n):
        n_above += a[t] > 0.0
        n_below += a[t] < 0.0
    if n_above <= n_beyond and n_below <= n_beyond:
        return 0.0
    for t in range(n):
        order[t] = t
    sort_falling(a, order, n)
    return a[order[n_beyond if n_above > n_beyond else n - 1 - n_beyond]]


cdef double dual_norm(const Pooling* pooled, Row* row) noexcept nogil:
    """Dual of the norm of a block's rows at g; eq. (13)."""
    cdef const double* g = row.slope
    cdef Py_ssize_t i, t
    cdef double common, squares = 0.0, largest = 0.0
    for i in range(row.n // pooled.n_tasks):
        common = 0.0
        for t in range(i * pooled.n_tasks, (i + 1) * pooled.n_tasks):
            common += g[t]
            squares += g[t] * g[t]
            largest = fabs(g[t]) if fabs(g[t]) > largest else largest
        squares += common * common / pooled.w
        largest = max(largest, fabs(common) / pooled.w)
    return largest if pooled.phi.p == 1.0 else sqrt(squares)


# -- the search for rho --------------------------------------------------------------------------------------


cdef double find_root(const Pooling* pooled, Row* row, Bracket at) noexcept nogil:
    """Set the rows at the rho in the bracket where their norm falls below rho; that rho.

    Secant steps on rho / norm - 1, which is nearly linear at p = 2, inside the bracket.
    """
    cdef double norm, excess, trial
    cdef int _
    for _ in range(200):
        norm = set_at(pooled, row, at.rho)
        trial = -1.0
        if norm > 0.0:
            excess = at.rho / norm - 1.0
            if at.last < 0.0:
                trial = norm
            elif excess != at.last_excess:
                trial = at.rho - excess * (at.rho - at.last) / (excess - at.last_excess)
            at.last, at.last_excess = at.rho, excess
        if norm < at.rho:
            at.high = at.rho
        else:
            at.low = at.rho
        if norm == at.rho or at.high - at.low <= 1e-15 * at.high:
            break
        trial = trial if at.low < trial < at.high else 0.5 * (at.low + at.high)
        if fabs(trial - at.rho) <= 1e-15 * at.rho:
            break
        at.rho = trial
    return at.rho


cdef void solve_convex(const Pooling* pooled, Row* row, double top) noexcept nogil:
    """p = 2, r >= 1: there is one root, or the rows are zero."""
    cdef double dual, start = norm_of(pooled, row, row.present)
    cdef Bracket at = Bracket(0.0, top, start if 0.0 < start < top else top, 0.0, -1.0)
    if pooled.phi.r == 1.0:
        dual = dual_norm(pooled, row)
        if dual <= pooled.phi.alpha:
            fill(row.out, row.n, 0.0)
            return
        at.last_excess = pooled.phi.alpha / dual - 1.0
    find_root(pooled, row, at)


cdef void solve_concave(const Pooling* pooled, Row* row, double top) noexcept nogil:
    """The best local minimum or, if not thorough, the one next to the present rows; never worse than they."""
    cdef double rho = 0.0, value = 0.0, current, start = norm_of(pooled, row, row.present)
    if TINY < start < top and not row.thorough:
        rho = nearest_minimum(pooled, row, start, top)
    if rho == 0.0:
        rho = best_minimum(pooled, row, top)
    if rho > 0.0:
        value = smooth_value(row, row.out) + phi_value(&pooled.phi, rho)
    if not value < 0.0:
        fill(row.out, row.n, 0.0)
        value = 0.0
    if start > TINY:
        current = smooth_value(row, row.present) + phi_value(&pooled.phi, start)
        # up to rounding: near a minimum both values agree, and the move must still be made
        if value > current + 1e-12 * fabs(current):
            # the best rows for the tangent of phi in S are no worse than the present ones
            set_at(pooled, row, start)


cdef double nearest_minimum(const Pooling* pooled, Row* row, double start, double top) noexcept nogil:
    """Set the local minimum next to rows of norm `start`; its norm, 0 if there is none close by."""
    cdef double low, high = start, norm = set_at(pooled, row, start), guess = norm
    cdef int _
    if norm >= start:
        return find_root(pooled, row, Bracket(start, top, min(norm, top), -1.0, 0.0))
    for _ in range(NEAR):
        low = GRID_STEP * high
        if set_at(pooled, row, low) >= low:
            guess = guess if low < guess < high else 0.5 * (low + high)
            return find_root(pooled, row, Bracket(low, high, guess, -1.0, 0.0))
        high = low
    return 0.0


cdef double best_minimum(const Pooling* pooled, Row* row, double free) noexcept nogil:
    """Set the best of the local minima that a grid of norms brackets, or zero; its norm.

    The norm of the rows at phi'(rho) rises with rho, so there is no root between rho and a norm below it.
    Rows of norm rho have a value of at least -rho times the dual norm of g.
    """
    cdef const Phi* phi = &pooled.phi
    cdef double dual = dual_norm(pooled, row), best = 0.0, best_value = 0.0, rho, value, low
    cdef double ratio = 0.0 if phi.logarithm and phi.p == 2.0 else free / dual
    cdef double high = largest_norm(phi, free, ratio), norm = high
    cdef bint falls = True
    cdef int _
    for _ in range(GRID):
        low = min(GRID_STEP * high, norm) if falls else GRID_STEP * high
        if low <= TINY or best_value <= -dual * low:
            break
        if is_too_small(phi, low, free, ratio):
            high = 0.0
            break
        norm = set_at(pooled, row, low)
        if falls and norm > low:
            rho = find_root(pooled, row, Bracket(low, high, 0.5 * (low + high), -1.0, 0.0))
            value = smooth_value(row, row.out) + phi_value(phi, rho)
            if value < best_value:
                best, best_value = rho, value
        high, falls = low, norm <= low
    if phi.logarithm and falls and best_value > -dual * high:
        best = smaller_minimum(pooled, row, high, best, best_value)
    if best > 0.0:
        set_at(pooled, row, best)
    else:
        fill(row.out, row.n, 0.0)
    return best


cdef double smaller_minimum(
    const Pooling* pooled, Row* row, double rho, double best, double best_value
) noexcept nogil:
    """The better of a minimum and the next one below rho: the logarithm has no barrier at zero."""
    cdef double norm = rho
    cdef int _
    for _ in range(500):
        norm = set_at(pooled, row, rho)
        if norm < TINY or fabs(norm - rho) <= 1e-14 * rho:
            break
        rho = norm
    if norm >= TINY and smooth_value(row, row.out) + phi_value(&pooled.phi, norm) < best_value:
        return norm
    return best
