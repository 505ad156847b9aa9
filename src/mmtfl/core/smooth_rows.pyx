"""Rows of the Euclidean norm and of any other p-norm with 1 < p < inf; docs/model.md section 5.

Once the norm rho of the row is known, every task obeys a scalar equation: the solvers search for rho.
"""

from libc.math cimport INFINITY, copysign, fabs, sqrt

from mmtfl.core.row_functions cimport (
    SAFE, Phi, copy, fill, is_too_small, largest_norm, largest_size, norm_p, phi_bend, phi_slope, phi_value,
    power_root,
)
from mmtfl.core.row_problems cimport Row, RowProblem, present_is_better, smooth_value
from mmtfl.core.sum_and_max_rows cimport set_soft, solve_sum

cdef enum:
    GRID = 60  # norms that are tried for the concave members, down to 3e-8 of the largest

cdef double GRID_STEP = 0.75
cdef double LEAST_NORM = 3e-8
cdef double NEAR = 1e-4  # first step from a present row, as a share of its norm
cdef double MOST_OF_THE_DIGITS = 1e-10  # what a step of this size leaves is less than rounding
cdef double NEGLIGIBLE = 1e-14


# -- p = 2 ---------------------------------------------------------------------------------------------------
#
# a_t = g_t / (L_t + phi'(rho) / rho), and rho solves ||g / (L rho + phi'(rho))|| = 1. A task without
# curvature has its slope set to zero first. 1 / ||.|| is concave in rho, nearly linear, and linear if all L
# are equal.


cdef class GroupLassoRow(RowProblem):
    """p = 2, r = 1: alpha ||a||."""

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef const double* g = row.slope
        cdef const double* L = row.curvature
        cdef double* out = row.out
        cdef double alpha = max(row.numbers[0], 1e-300)  # at zero, tasks without curvature would divide by it
        cdef double rho = group_lasso_norm(row, alpha)
        cdef Py_ssize_t t
        for t in range(row.n):
            out[t] = g[t] * rho / (L[t] * rho + alpha) if rho > 0.0 else 0.0

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef double norm = norm_p(a, row.n, 2.0)
        return row.numbers[0] * norm if norm > 0.0 else 0.0


cdef double group_lasso_norm(Row* row, double alpha) noexcept nogil:
    """The rho with ||g / (L rho + alpha)|| = 1, or 0: Newton on 1 / ||.||, or close by its Chebyshev form.

    As 1 / ||.|| is concave, Newton's steps lead to the left of the root, from where they do not pass it. The
    step from rho = 0 ends at `low`: with the mean of the L_t for weights g_t^2, the answer if all L are
    equal.
    """
    cdef double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double squares = 0.0, weighted = 0.0, present = 0.0, size, mean, low, rho
    cdef double inverse, square, first, second, step, turn
    cdef int _
    for t in range(row.n):
        g[t] = g[t] if L[t] > 0.0 else 0.0
        squares += g[t] * g[t]
        weighted += g[t] * g[t] * L[t]
        present += row.present[t] * row.present[t]
    size = sqrt(squares)
    if not size > alpha:
        return 0.0
    mean = weighted / squares if 1.0 / SAFE < weighted < SAFE else largest_size(row.curvature, row.n)
    low, rho = (size - alpha) / mean, sqrt(present)
    rho = rho if rho > low else low
    for _ in range(100):
        squares, first, second = 0.0, 0.0, 0.0
        for t in range(row.n):
            inverse = 1.0 / (L[t] * rho + alpha)
            square = g[t] * inverse * (g[t] * inverse)
            squares += square
            first += square * (inverse * L[t])
            second += square * (inverse * L[t]) * (inverse * L[t])
        step = (1.0 - sqrt(squares)) * squares / first
        # the step times half the second derivative over the first
        turn = 1.5 * step * (first / squares - second / first)
        step = step * (1.0 + turn) if fabs(turn) < 0.1 else step
        rho = rho - step if rho - step > low else low
        if fabs(step) * turn * turn <= 1e-16 * rho or fabs(step) <= 1e-15 * rho:
            break  # the next step would be as small as that
    return rho


cdef class EuclideanRow(RowProblem):
    """p = 2, r != 1: alpha ||a||^r. Concave members (r < 1) take the largest stationary row, or zero."""

    cdef readonly double r

    def __init__(self, double r):
        self.r = r

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef Phi phi = Phi(False, 2.0, self.r, row.numbers[0], 1.0)
        cdef double rho
        if self.r >= 1.0:
            set_euclidean(&phi, row, euclidean_norm(&phi, row))
            return
        rho = largest_euclidean_norm(&phi, row)
        set_euclidean(&phi, row, rho)
        if present_is_better(&phi, row, rho):
            # for the quadratic that lies above phi and touches it at the present row
            set_euclidean(&phi, row, norm_p(row.present, row.n, 2.0))

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef Phi phi = Phi(False, 2.0, self.r, row.numbers[0], 1.0)
        return phi_value(&phi, norm_p(a, row.n, 2.0))


cdef void set_euclidean(const Phi* phi, Row* row, double rho) noexcept nogil:
    """The row at which phi' is that of rho."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef double ratio = phi_slope(phi, rho) / rho if rho > 0.0 else INFINITY
    for t in range(row.n):
        out[t] = g[t] / (L[t] + ratio) if L[t] > 0.0 and ratio < INFINITY else 0.0


cdef (double, double) euclidean_sizes(Row* row) noexcept nogil:
    """||g|| and ||g / L||, the norm without penalty; slopes of tasks without curvature become zero."""
    cdef double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double free, slopes = 0.0, frees = 0.0
    for t in range(row.n):
        g[t] = g[t] if L[t] > 0.0 else 0.0
        free = g[t] / L[t] if L[t] > 0.0 else 0.0
        slopes += g[t] * g[t]
        frees += free * free
    return sqrt(slopes), sqrt(frees)


cdef double euclidean_norm(const Phi* phi, Row* row) noexcept nogil:
    """A root rho, at r >= 1 the only one, or 0: bracketed Newton steps on 1 / ||.|| from the present norm."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double size, top, low, high, rho, slope, bend, inverse, share, squares, change, trial
    cdef int _
    size, top = euclidean_sizes(row)
    if top == 0.0 or (not phi.logarithm and phi.r == 1.0 and size <= phi.alpha):
        return 0.0
    low, high, rho = 0.0, top, norm_p(row.present, row.n, 2.0)
    rho = rho if 0.0 < rho < top else top
    for _ in range(200):
        slope = phi_slope(phi, rho)
        bend = phi_bend(phi, rho, slope)
        squares, change = 0.0, 0.0
        for t in range(row.n):
            inverse = 1.0 / (L[t] * rho + slope) if L[t] > 0.0 else 0.0
            share = g[t] * inverse
            squares += share * share
            change += share * share * inverse * (L[t] + bend)
        size = sqrt(squares)
        if size > 1.0:
            low = rho
        else:
            high = rho
        trial = rho - (1.0 - size) * squares / change if change > 0.0 else -1.0
        if not low < trial < high:
            # the logarithm may have several roots: the map rho -> ||a(rho)|| passes none of them
            trial = 0.5 * (low + high) if low > 0.0 or not phi.logarithm else rho * size
        if fabs(trial - rho) <= 1e-15 * rho:
            return trial
        rho = trial
        if rho <= NEGLIGIBLE * top:
            return 0.0
    return rho


cdef double largest_euclidean_norm(const Phi* phi, Row* row) noexcept nogil:
    """r < 1: the largest rho with ||g / (L rho + phi'(rho))|| = 1, or 0.

    The iterates come from the right and never pass a root. phi' is convex, so its tangent at rho bounds it
    from below; with the tangent in place of phi', 1 / ||.|| is concave in rho, and a chord of a concave
    function meets zero to the right of its root. With equal curvatures this is Newton's method.
    """
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double size, top, rho, slope, bend, inverse, share, squares, change, here, there, left, trial
    cdef int _
    size, top = euclidean_sizes(row)
    rho = largest_norm(phi, top, top / size) if top > 0.0 else 0.0
    if rho == 0.0:
        return 0.0
    for _ in range(500):
        slope = phi_slope(phi, rho)
        bend = phi_bend(phi, rho, slope)
        squares, change = 0.0, 0.0
        for t in range(row.n):
            inverse = 1.0 / (L[t] * rho + slope) if L[t] > 0.0 else 0.0
            share = g[t] * inverse
            squares += share * share
            change += share * share * inverse * (L[t] + bend)
        if squares < 1e-300:
            return 0.0  # ||a(rho)|| is negligible against rho, here and for every smaller rho
        here = 1.0 / sqrt(squares) - 1.0
        if here <= 0.0:
            return rho
        left = rho - here * squares * sqrt(squares) / change if change > 0.0 else 0.0
        left = left if left > 0.0 else 0.0
        there = excess_of_tangent(row, bend, slope - bend * rho, left)
        trial = left if there > 0.0 else rho - here * (rho - left) / (here - there)
        if trial >= rho * (1.0 - MOST_OF_THE_DIGITS):
            return trial
        rho = trial
        if rho <= NEGLIGIBLE * top:
            return 0.0
    return rho


cdef double excess_of_tangent(Row* row, double bend, double intercept, double rho) noexcept nogil:
    """1 / ||g / ((L + bend) rho + intercept)|| - 1."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double share, squares = 0.0
    for t in range(row.n):
        share = g[t] / ((L[t] + bend) * rho + intercept) if L[t] > 0.0 else 0.0
        squares += share * share
    return 1.0 / sqrt(squares) - 1.0


# -- other p -------------------------------------------------------------------------------------------------
#
# |a_t| is the root x of L_t x + phi'(rho) (x / rho)^(p - 1) = |g_t|, and rho is a fixed point of
# rho -> ||a(rho)||_p. The excess rho - ||a(rho)||_p is negative where a stationary row is larger than rho.


cdef class GeneralRow(RowProblem):
    """1 < p < inf: alpha ||a||_p^r. Concave members (r < 1) take the best stationary row of a grid."""

    cdef readonly double p, r

    def __init__(self, double p, double r):
        self.p, self.r, self.has_short_cut = p, r, r < 1.0

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef Phi phi = Phi(False, self.p, self.r, row.numbers[0], 1.0)
        cdef double rho = solve_general(&phi, row)
        if self.r < 1.0 and present_is_better(&phi, row, rho):
            # for the multiple of ||a||_p^p that lies above phi and touches it at the present row
            set_general(&phi, row, norm_p(row.present, row.n, self.p))

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef Phi phi = Phi(False, self.p, self.r, row.numbers[0], 1.0)
        return phi_value(&phi, norm_p(a, row.n, self.p))


cdef double set_general(const Phi* phi, Row* row, double rho) noexcept nogil:
    """Set a(rho), in units of rho so that no power overflows; rho - ||a(rho)||_p."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef double size, slope = phi_slope(phi, rho)
    for t in range(row.n):
        size = 0.0
        if L[t] > 0.0:
            size = rho * power_root(fabs(g[t]), L[t] * rho, slope, phi.p - 1.0)
        out[t] = copysign(size, g[t]) if size > 0.0 else 0.0
    return rho - norm_p(row.out, row.n, phi.p)


cdef double solve_general(const Phi* phi, Row* row) noexcept nogil:
    """Set the stationary row next to the present one, or if thorough the best; its norm."""
    cdef double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef double free, dual, start, rho
    cdef Py_ssize_t t
    for t in range(row.n):
        g[t] = g[t] if L[t] > 0.0 else 0.0
        out[t] = g[t] / L[t] if L[t] > 0.0 else 0.0
    free, start = norm_p(row.out, row.n, phi.p), norm_p(row.present, row.n, phi.p)
    if free == 0.0:
        return 0.0
    dual = INFINITY if phi.logarithm else norm_p(row.slope, row.n, phi.p / (phi.p - 1.0))
    if phi.r == 1.0 and dual <= phi.alpha:
        fill(row.out, row.n, 0.0)
        return 0.0
    if phi.r >= 1.0 and not phi.logarithm:
        return general_root(phi, row, 0.0, free, start if 0.0 < start < free else free)
    if start > 0.0 and not row.thorough:
        rho = nearest_general(phi, row, start, free)
        if rho > 0.0:
            return rho
    return best_general(phi, row, free, free / dual)


cdef double general_root(const Phi* phi, Row* row, double low, double high, double rho) noexcept nogil:
    """Set the row of the rho in (low, high] where the excess turns positive, by bracketed secant steps."""
    cdef double trial, excess, last_rho = -1.0, last_excess = 0.0
    cdef int _
    for _ in range(200):
        excess = set_general(phi, row, rho)
        if fabs(excess) <= 1e-14 * rho or high - low <= 1e-15 * high:
            break
        if excess > 0.0:
            high = rho
        else:
            low = rho
        trial = -1.0
        if last_rho > 0.0 and excess != last_excess:
            trial = rho - excess * (rho - last_rho) / (excess - last_excess)
        last_rho, last_excess = rho, excess
        rho = trial if low < trial < high else 0.5 * (low + high)
    return rho


cdef double nearest_general(const Phi* phi, Row* row, double start, double top) noexcept nogil:
    """Set the stationary row that rho -> ||a(rho)||_p leads to from `start`; its norm, 0 if that is zero."""
    cdef double rho = min(start, top), share = NEAR, last
    cdef bint rises = set_general(phi, row, rho) < 0.0
    while rho > LEAST_NORM * top:
        last = rho
        rho = min(rho / (1.0 - share), top) if rises else rho * (1.0 - share)
        if rho == top or (set_general(phi, row, rho) < 0.0) != rises:
            return general_root(phi, row, min(last, rho), max(last, rho), max(last, rho))
        share = min(4.0 * share, 1.0 - GRID_STEP)
    return 0.0


cdef double best_general(const Phi* phi, Row* row, double free, double ratio) noexcept nogil:
    """Set the best of the stationary rows between which steps of 25 % in the norm tell, or zero; its norm."""
    cdef double rho, value, low, high = largest_norm(phi, free, ratio), best = 0.0, best_value = 0.0
    cdef double excess, excess_above = 0.0  # not negative at first, but for rounding
    cdef int _
    for _ in range(GRID if high > 0.0 else 0):
        low = GRID_STEP * high
        if is_too_small(phi, low, free, ratio):
            break
        excess = set_general(phi, row, low)
        if excess < 0.0 <= excess_above:
            rho = general_root(phi, row, low, high, high)
            value = smooth_value(row, row.out) + phi_value(phi, rho)
            if value < best_value:
                best, best_value = rho, value
        high, excess_above = low, excess
    if best > 0.0:
        set_general(phi, row, best)
    else:
        fill(row.out, row.n, 0.0)
    return best


# -- the logarithm -------------------------------------------------------------------------------------------


cdef class LogarithmRow(RowProblem):
    """alpha log(1 + sum_t |a_t|^p / eps), 1 <= p < inf; eq. (6)."""

    cdef readonly double p

    def __init__(self, double p):
        self.p, self.has_short_cut = p, p != 2.0

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef Phi phi = Phi(True, self.p, 1.0, row.numbers[0], row.numbers[1])
        cdef double* found = row.room + 2 * row.n  # before it is what p = 1 measures
        cdef double rho = solve_logarithm(&phi, row)
        cdef double value = smooth_value(row, row.out) + phi_value(&phi, rho)
        copy(row.out, row.n, found)
        rho = set_smallest(&phi, row)
        if not smooth_value(row, row.out) + phi_value(&phi, rho) < value:
            copy(found, row.n, row.out)
        if present_is_better(&phi, row, norm_p(row.out, row.n, self.p)):
            if self.p == 1.0:
                copy(row.present, row.n, row.out)
            else:
                set_at_norm(&phi, row, norm_p(row.present, row.n, self.p))

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef Phi phi = Phi(True, self.p, 1.0, row.numbers[0], row.numbers[1])
        return phi_value(&phi, norm_p(a, row.n, self.p))


cdef double solve_logarithm(const Phi* phi, Row* row) noexcept nogil:
    """Set a stationary row as the powers do; its norm."""
    cdef double rho
    if phi.p == 1.0:
        return solve_sum(phi, row)
    if phi.p == 2.0:
        rho = euclidean_norm(phi, row)
        set_euclidean(phi, row, rho)
        return rho
    return solve_general(phi, row)


cdef double set_at_norm(const Phi* phi, Row* row, double rho) noexcept nogil:
    """Set the row at which phi' is that of rho; its norm."""
    if phi.p == 1.0:
        return set_soft(row, phi_slope(phi, rho))
    if phi.p == 2.0:
        set_euclidean(phi, row, rho)
        return norm_p(row.out, row.n, 2.0)
    return rho - set_general(phi, row, rho)


cdef double set_near_zero(const Phi* phi, Row* row) noexcept nogil:
    """Set the row at the slopes that phi has near zero, where it is alpha / eps sum_t |a_t|^p; its norm."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef double* out = row.out
    cdef Py_ssize_t t
    cdef double size
    if phi.p == 1.0:
        return set_soft(row, phi.alpha / phi.eps)
    for t in range(row.n):
        size = 0.0
        if L[t] > 0.0:
            size = power_root(fabs(g[t]), L[t], phi.alpha * phi.p / phi.eps, phi.p - 1.0)
        out[t] = copysign(size, g[t]) if size > 0.0 else 0.0
    return norm_p(row.out, row.n, phi.p)


cdef double set_smallest(const Phi* phi, Row* row) noexcept nogil:
    """Set the smallest stationary row, to which rho -> ||a(rho)||_p leads upwards from zero; its norm."""
    cdef double rho = 0.0, norm = set_near_zero(phi, row)
    cdef int _
    for _ in range(500):
        if norm == 0.0 or fabs(norm - rho) <= NEGLIGIBLE * norm:
            break
        rho = norm
        norm = set_at_norm(phi, row, rho)
    return norm
