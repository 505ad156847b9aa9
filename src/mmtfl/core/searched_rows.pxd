from mmtfl.core.row_functions cimport Phi
from mmtfl.core.row_problems cimport Row, RowProblem

cdef struct Bracket:
    double low, high, rho      # rho is tried first
    double last, last_excess   # a place where rho / norm - 1 is known; last < 0: there is none


cdef class SearchedRow(RowProblem):
    cdef readonly double p, r
    cdef readonly bint logarithm
    cdef Phi phi_of(self, Row* row) noexcept nogil
    cdef double set_at(self, const Phi* phi, Row* row, double rho, double* following) noexcept nogil
    cdef void set_zero(self, const Phi* phi, Row* row) noexcept nogil
    cdef double norm(self, Row* row, const double* a) noexcept nogil
    cdef double dual_norm(self, Row* row) noexcept nogil
    cdef double find_root(self, const Phi* phi, Row* row, Bracket at) noexcept nogil
    cdef void solve_convex(self, const Phi* phi, Row* row, double top, double dual) noexcept nogil
    cdef void solve_concave(self, const Phi* phi, Row* row, double top) noexcept nogil
    cdef double nearest_minimum(self, const Phi* phi, Row* row, double start, double top) noexcept nogil
    cdef double best_minimum(self, const Phi* phi, Row* row, double free) noexcept nogil
    cdef double smaller_minimum(
        self, const Phi* phi, Row* row, double rho, double best, double best_value
    ) noexcept nogil
