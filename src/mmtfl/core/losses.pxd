cdef class RowLoss:
    """The losses of the rows of a problem, as functions of their linear predictors z."""
    cdef readonly bint is_quadratic
    cdef readonly object error  # of a loss that is written in Python
    cdef const double[::1] y, weight
    cdef double value(self, const double[::1] z) noexcept nogil
    cdef void slopes(self, const double[::1] z, double[::1] out) noexcept nogil
    cdef void bends(self, const double[::1] z, double share, double[::1] out) noexcept nogil
