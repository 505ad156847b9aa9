"""Rows of the Euclidean norm, for the members that fits and searches meet most; docs/model.md section 5.

Once the norm rho of the row is known, every task obeys a scalar equation: the solvers search for rho.
"""

from libc.math cimport INFINITY, fabs, sqrt

import numpy as np

from mmtfl.core.row_functions cimport (
    SAFE, Phi, largest_norm, largest_size, norm_p, phi_bend, phi_slope, phi_value,
    square_sum,
)
from mmtfl.core.row_problems cimport Row, RowProblem, present_is_better

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
        cdef double rho = group_lasso_norm(row, alpha, sqrt(square_sum(row.present, row.n)))
        cdef Py_ssize_t t
        for t in range(row.n):
            out[t] = g[t] * rho / (L[t] * rho + alpha) if rho > 0.0 else 0.0

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef double norm = norm_p(a, row.n, 2.0)
        return row.numbers[0] * norm if norm > 0.0 else 0.0


cdef double group_lasso_norm(Row* row, double alpha, double rho) noexcept nogil:
    """The rho with ||g / (L rho + alpha)|| = 1, or 0: Newton on 1 / ||.||, or close by its Chebyshev form.

    It begins at the rho that is given.

    As 1 / ||.|| is concave, Newton's steps lead to the left of the root, from where they do not pass it. The
    step from rho = 0 ends at `low`: with the mean of the L_t for weights g_t^2, the answer if all L are
    equal.
    """
    cdef double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double squares = 0.0, weighted = 0.0, size, mean, low
    cdef double inverse, square, first, second, step, turn
    cdef int _
    for t in range(row.n):
        g[t] = g[t] if L[t] > 0.0 else 0.0
        squares += g[t] * g[t]
        weighted += g[t] * g[t] * L[t]
    size = sqrt(squares)
    if not size > alpha:
        return 0.0
    mean = weighted / squares if 1.0 / SAFE < weighted < SAFE else largest_size(row.curvature, row.n)
    low = (size - alpha) / mean
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


def shrink_residuals(
    const double[::1] residual, const double[::1] eigenvalues, const Py_ssize_t[::1] offsets, double alpha,
    double[::1] lengths,
):
    """Residuals of tasks in the bases of their X X', after the best columns q of cost alpha ||q||.

    `lengths` has guesses of the lengths of these columns, and receives them.
    """
    cdef double[::1] out = np.empty(residual.shape[0])
    cdef Row row
    cdef Py_ssize_t t, i
    with nogil:
        for t in range(lengths.shape[0]):
            row.n = offsets[t + 1] - offsets[t]
            if row.n == 0:
                continue
            row.slope, row.curvature = &out[offsets[t]], &eigenvalues[offsets[t]]
            for i in range(offsets[t], offsets[t + 1]):
                out[i] = sqrt(eigenvalues[i]) * residual[i]
            lengths[t] = group_lasso_norm(&row, alpha, lengths[t])
            for i in range(offsets[t], offsets[t + 1]):
                out[i] = residual[i] / (1.0 + eigenvalues[i] * lengths[t] / alpha)
    return np.asarray(out)


cdef class EuclideanRow(RowProblem):
    """p = 2, r < 1: alpha ||a||^r. The answer is the largest stationary row, or zero."""

    cdef readonly double r

    def __init__(self, double r):
        self.r = r

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef Phi phi = Phi(False, 2.0, self.r, row.numbers[0], 1.0)
        cdef double rho = largest_euclidean_norm(&phi, row)
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
