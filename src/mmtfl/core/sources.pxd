from mmtfl.core.losses cimport RowLoss
from mmtfl.core.storage cimport Storage

cdef void* compiled_function(module, name)


cdef class Source:
    """The data of a path: slopes of all features where the path stands, and Gram matrices of some of them."""
    cdef readonly Py_ssize_t n_features, n_tasks, n_grams
    cdef readonly bint is_quadratic
    cdef Storage storage  # whose state follows the path, or None where Gram matrices do the work
    cdef double[:, ::1] A          # (n_features, n_tasks)
    cdef double[:, ::1] slopes     # (n_tasks, n_features)
    cdef double[:, ::1] curvature  # (n_features, n_tasks)
    cdef double[::1] intercept
    cdef bint renew(self) noexcept nogil
    cdef void fill_gram(
        self, const Py_ssize_t* rows, Py_ssize_t known, Py_ssize_t m, double* gram, Py_ssize_t room
    ) noexcept nogil
    cdef bint advance(
        self, const Py_ssize_t* rows, Py_ssize_t m, const double* goal, double gain
    ) noexcept nogil
    cdef void keep_pace(self, double moved) noexcept nogil
    cdef double loss(self) noexcept nogil
    cdef object error(self)
    cdef bint has_failed(self) noexcept nogil


cdef class GramSource(Source):
    cdef const double[:, :, ::1] gram
    cdef const double[:, ::1] first_slopes
    cdef double null_loss


cdef class ResidualSource(Source):
    cdef double[::1] row


cdef class ColumnSource(Source):
    cdef const double[::1] x
    cdef const Py_ssize_t[::1] start, begin, length
    cdef RowLoss row_loss
    cdef bint is_centred, is_stale, is_old, is_known
    cdef double constant, value, last_move
    cdef int damping
    cdef double[::1] z, trial, slope_z, weight, pull, shift, totals, scaled
    cdef double[:, ::1] means
    cdef const double* column(self, Py_ssize_t t, Py_ssize_t j) noexcept nogil
    cdef void weigh(self, Py_ssize_t t) noexcept nogil
    cdef void look(self, Py_ssize_t t) noexcept nogil
    cdef double value_after(self, double share) noexcept nogil
    cdef bint is_above(self, double reached, double rise) noexcept nogil
    cdef void step_to(self, const Py_ssize_t* rows, Py_ssize_t m, const double* goal) noexcept nogil
