"""Rows of the Euclidean norm, for the members that fits and searches meet most; docs/model.md section 5."""

from libc.math cimport INFINITY, sqrt

import numpy as np

from mmtfl.core.row_functions cimport Phi, norm_p, phi_bend, phi_slope
from mmtfl.core.row_problems cimport Row, Workspace
from mmtfl.core.searched_rows cimport SearchedRow


cdef class EuclideanRow(SearchedRow):
    """The 2-norm: a_t = g_t / (L_t + phi'(rho) / rho), and rho solves ||g / (L rho + phi'(rho))|| = 1.

    1 / ||.|| is nearly linear in rho, and linear if all L are equal.
    """

    def __init__(self, double r):
        SearchedRow.__init__(self, 2.0, r)
        self.has_short_cut = False  # the best row is as quick as the nearest

    cdef double set_at(self, const Phi* phi, Row* row, double rho, double* following) noexcept nogil:
        cdef const double* g = row.slope
        cdef const double* L = row.curvature
        cdef double* out = row.out
        cdef double slope = phi_slope(phi, rho) if rho < INFINITY else 0.0
        cdef double bend, share, inverse, ratio = slope / rho, squares = 0.0, change = 0.0
        cdef Py_ssize_t t
        if following == NULL or rho == INFINITY:
            for t in range(row.n):
                out[t] = g[t] / (L[t] + ratio) if L[t] > 0.0 else 0.0
            return norm_p(out, row.n, 2.0)
        bend = phi_bend(phi, rho, slope)
        for t in range(row.n):
            inverse = 1.0 / (L[t] * rho + slope) if L[t] > 0.0 else 0.0
            share = g[t] * inverse
            squares += share * share
            change += share * share * inverse * (L[t] + bend)
            out[t] = rho * share
        if change > 0.0:  # on 1 / norm, which is nearly linear
            following[0] = rho - (1.0 - sqrt(squares)) * squares / change
        return rho * sqrt(squares)

    cdef double norm(self, Row* row, const double* a) noexcept nogil:
        return norm_p(a, row.n, 2.0)

    cdef double dual_norm(self, Row* row) noexcept nogil:
        return norm_p(row.slope, row.n, 2.0)


def shrink_residuals(
    const double[::1] residual, const double[::1] eigenvalues, const Py_ssize_t[::1] offsets, double alpha,
    double[::1] lengths,
):
    """Residuals of tasks in the bases of their X X', after the best columns q of cost alpha ||q||.

    `lengths` has guesses of the lengths of these columns, and receives them.
    """
    cdef double[::1] out = np.empty(residual.shape[0])
    cdef Workspace work = Workspace(np.diff(offsets).max(initial=1))
    cdef EuclideanRow problem = EuclideanRow(1.0)
    cdef Row* row = &work.row
    cdef Py_ssize_t t, i
    row.numbers = &alpha
    with nogil:
        for t in range(lengths.shape[0]):
            row.n = offsets[t + 1] - offsets[t]
            if row.n == 0:
                continue
            row.curvature, work.present[0] = &eigenvalues[offsets[t]], lengths[t]
            for i in range(row.n):
                row.slope[i] = sqrt(row.curvature[i]) * residual[offsets[t] + i]
            problem.minimise(row)
            lengths[t] = norm_p(row.out, row.n, 2.0)
            for i in range(offsets[t], offsets[t + 1]):
                out[i] = residual[i] / (1.0 + eigenvalues[i] * lengths[t] / alpha)
    return np.asarray(out)
