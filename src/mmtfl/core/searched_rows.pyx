"""Rows that are known once the slope of their penalty is: what is left is a search for their norm rho.

A subclass sets the row at which the slope is phi'(rho), and measures it: its norm rises with rho, and the
rows that are stationary are those of norm rho. docs/model.md section 5
"""

from libc.math cimport INFINITY, copysign, fabs

from mmtfl.core.row_functions cimport (
    TINY, Phi, fill, is_too_small, largest_norm, norm_p, phi_slope, phi_value, power, power_root,
)
from mmtfl.core.row_problems cimport Row, RowProblem, smooth_value

cdef enum:
    GRID = 60  # norms that are tried for the concave members, down to 3e-8 of the largest

cdef double GRID_STEP = 0.75


cdef class SearchedRow(RowProblem):
    """alpha rho^r, or the logarithm of eq. (6), of a norm rho that a subclass knows.

    The answer is exact for convex members. For concave ones it is the best of zero and the local minima that
    steps of 25 % in the row's norm tell apart, or if not thorough the one next to the present row.
    """

    def __init__(self, double p, double r, *, bint logarithm=False):
        self.p, self.r, self.logarithm = p, r, logarithm
        self.has_short_cut = logarithm or r < 1.0

    cdef Phi phi_of(self, Row* row) noexcept nogil:
        return Phi(self.logarithm, self.p, self.r, row.numbers[0], row.numbers[1] if self.logarithm else 1.0)

    cdef double set_at(self, const Phi* phi, Row* row, double rho, double* following) noexcept nogil:
        """Set the row at phi'(rho), or without penalty if rho is infinite; its norm.

        `following`, if it is not NULL, receives where Newton's method leads from here, if that is known.
        """
        return 0.0

    cdef void set_zero(self, const Phi* phi, Row* row) noexcept nogil:
        """Set the row of norm zero."""
        fill(row.out, row.n, 0.0)

    cdef double norm(self, Row* row, const double* a) noexcept nogil:
        return 0.0

    cdef double dual_norm(self, Row* row) noexcept nogil:
        """Dual of the norm at the slopes g."""
        return 0.0

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef Phi phi = self.phi_of(row)
        return phi_value(&phi, self.norm(row, a))

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef double* g = row.slope
        cdef const double* L = row.curvature
        cdef Phi phi = self.phi_of(row)
        cdef Py_ssize_t t
        cdef double top, dual = 0.0
        for t in range(row.n):
            g[t] = g[t] if L[t] > 0.0 else 0.0
        if phi.r == 1.0 and not phi.logarithm:
            dual = self.dual_norm(row)
            if dual <= phi.alpha:
                self.set_zero(&phi, row)
                return
        top = self.set_at(&phi, row, INFINITY, NULL)
        if top < TINY:
            fill(row.out, row.n, 0.0)
        elif self.logarithm or self.r < 1.0:
            self.solve_concave(&phi, row, top)
        else:
            self.solve_convex(&phi, row, top, dual)

    cdef double find_root(self, const Phi* phi, Row* row, Bracket at) noexcept nogil:
        """Set the row at the rho in the bracket where its norm falls below rho; that rho.

        Newton's steps where the row knows them, else secant steps on rho / norm - 1, which is nearly linear
        at p = 2; both inside the bracket.
        """
        cdef double norm, excess, trial
        cdef int _
        for _ in range(200):
            trial = -1.0
            norm = self.set_at(phi, row, at.rho, &trial)
            if trial < 0.0 and norm > 0.0:
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
            if norm == at.rho or min(fabs(trial - at.rho), at.high - at.low) <= 1e-15 * at.rho:
                break
            at.rho = trial if at.low < trial < at.high else 0.5 * (at.low + at.high)
        return at.rho

    cdef void solve_convex(self, const Phi* phi, Row* row, double top, double dual) noexcept nogil:
        """r >= 1: there is one root. Of a norm (r = 1) the slopes have this dual norm, above alpha."""
        cdef double start = self.norm(row, row.present)
        cdef Bracket at = Bracket(0.0, top, start if 0.0 < start < top else top, 0.0, -1.0)
        if dual > 0.0:
            at.last_excess = power(phi.alpha / dual, 1.0 / (phi.p - 1.0) if phi.p < INFINITY else 1.0) - 1.0
        self.find_root(phi, row, at)

    cdef void solve_concave(self, const Phi* phi, Row* row, double top) noexcept nogil:
        """The best local minimum, or the one next to the present row if not thorough; never worse than it."""
        cdef double rho = 0.0, value = 0.0, current, start = self.norm(row, row.present)
        if TINY < start < top and not row.thorough:
            rho = self.nearest_minimum(phi, row, start, top)
        if rho == 0.0:
            rho = self.best_minimum(phi, row, top)
        if rho > 0.0:
            value = smooth_value(row, row.out) + phi_value(phi, rho)
        if not value < 0.0:
            fill(row.out, row.n, 0.0)
            value = 0.0
        if start > TINY:
            current = smooth_value(row, row.present) + phi_value(phi, start)
            # up to rounding: near a minimum both values agree, and the move must still be made
            if value > current + 1e-12 * fabs(current):
                # the best row for the tangent of phi in rho^p is no worse than the present one
                self.set_at(phi, row, start, NULL)

    cdef double nearest_minimum(self, const Phi* phi, Row* row, double start, double top) noexcept nogil:
        """Set the local minimum next to rows of norm `start`; its norm, 0 if there is none below."""
        cdef double low, high = start, norm = 0.0, guess, rho = start, trial
        cdef int _
        for _ in range(30):  # Newton's method, where the row knows it and the value bends upwards
            trial = -1.0
            norm = self.set_at(phi, row, rho, &trial)
            if fabs(trial - rho) <= 1e-13 * rho:
                return rho
            if trial <= 0.0:
                break
            rho = trial
        if rho != start:
            norm = self.set_at(phi, row, start, NULL)
        guess = norm
        if norm >= start:
            return self.find_root(phi, row, Bracket(start, top, min(norm, top), -1.0, 0.0))
        for _ in range(GRID):
            low = GRID_STEP * high
            if self.set_at(phi, row, low, NULL) >= low:
                guess = guess if low < guess < high else 0.5 * (low + high)
                return self.find_root(phi, row, Bracket(low, high, guess, -1.0, 0.0))
            high = low
        return 0.0

    cdef double best_minimum(self, const Phi* phi, Row* row, double free) noexcept nogil:
        """Set the best of the local minima that a grid of norms brackets, or zero; its norm.

        The norm of the row at phi'(rho) rises with rho, so there is no root between rho and a norm below it.
        Rows of norm rho have a value of at least -rho times the dual norm of g.
        """
        cdef double dual = self.dual_norm(row), best = 0.0, best_value = 0.0, rho, value, low
        # the slope of the logarithm is convex at p = 1 alone
        cdef double ratio = 0.0 if phi.logarithm and phi.p != 1.0 else free / dual
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
            norm = self.set_at(phi, row, low, NULL)
            if falls and norm > low:
                rho = self.find_root(phi, row, Bracket(low, high, 0.5 * (low + high), -1.0, 0.0))
                value = smooth_value(row, row.out) + phi_value(phi, rho)
                if value < best_value:
                    best, best_value = rho, value
            high, falls = low, norm <= low
        if phi.logarithm and falls and best_value > -dual * high:
            best = self.smaller_minimum(phi, row, high, best, best_value)
        if best > 0.0:
            self.set_at(phi, row, best, NULL)
        else:
            fill(row.out, row.n, 0.0)
        return best

    cdef double smaller_minimum(
        self, const Phi* phi, Row* row, double rho, double best, double best_value
    ) noexcept nogil:
        """The better of a minimum and the next one below rho: the logarithm has no barrier at zero."""
        cdef double norm = rho
        cdef int _
        for _ in range(500):
            norm = self.set_at(phi, row, rho, NULL)
            if norm < TINY or fabs(norm - rho) <= 1e-14 * rho:
                break
            rho = norm
        if norm >= TINY and smooth_value(row, row.out) + phi_value(phi, norm) < best_value:
            return norm
        return best


cdef class GeneralRow(SearchedRow):
    """The p-norm for 1 < p < inf: |a_t| is the root x of L_t x + phi'(rho) (x / rho)^(p - 1) = |g_t|."""

    cdef double set_at(self, const Phi* phi, Row* row, double rho, double* following) noexcept nogil:
        """Set a(rho), in units of rho so that no power overflows; its norm."""
        cdef const double* g = row.slope
        cdef const double* L = row.curvature
        cdef double* out = row.out
        cdef Py_ssize_t t
        cdef double size, slope = phi_slope(phi, rho) if rho < INFINITY else 0.0
        for t in range(row.n):
            size = 0.0
            if L[t] > 0.0:
                size = fabs(g[t]) / L[t]
                size = size if slope == 0.0 else rho * power_root(fabs(g[t]), L[t] * rho, slope, phi.p - 1.0)
            out[t] = copysign(size, g[t]) if size > 0.0 else 0.0
        return norm_p(out, row.n, phi.p)

    cdef double norm(self, Row* row, const double* a) noexcept nogil:
        return norm_p(a, row.n, self.p)

    cdef double dual_norm(self, Row* row) noexcept nogil:
        return norm_p(row.slope, row.n, self.p / (self.p - 1.0))
