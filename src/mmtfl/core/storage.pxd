cdef class Buffer:
    """Room for numbers that grows and is freed with its owner."""
    cdef double* at
    cdef Py_ssize_t size
    cdef bint reserve(self, Py_ssize_t n) noexcept nogil


cdef class Storage:
    """A least-squares model of some columns, and a state that is affine in its coefficients."""
    cdef readonly Py_ssize_t n_tasks
    cdef Py_ssize_t n_state
    cdef double* state
    cdef const Py_ssize_t* features  # the columns behind rows 0, 1, ...; NULL: those of the same number
    cdef void look(self, Py_ssize_t j, double* slopes) noexcept nogil
    cdef void move(self, Py_ssize_t j, const double* change) noexcept nogil
    cdef double fit(
        self, const double* state, const double* change, const Py_ssize_t* rows, Py_ssize_t n
    ) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef bint products(self, Py_ssize_t j, const Py_ssize_t* others, Py_ssize_t n, double* out) noexcept nogil


cdef class GramStorage(Storage):
    """Gram matrices of the tasks; the state are the slopes of all columns, task by task."""
    cdef const double* gram
    cdef Py_ssize_t size, room, n_grams
    cdef Buffer first
    cdef object _owner
    cdef void use(self, const double* gram, double* slopes, Py_ssize_t size, Py_ssize_t room) noexcept nogil


cdef class ColumnStorage(Storage):
    """Columns of the tasks; the state are the residuals, times the weights of a weighted model."""
    cdef const double[:, ::1] x
    cdef const Py_ssize_t[::1] start, begin_at, length
    cdef const double[::1] weight
    cdef const double[:, ::1] means
    cdef bint is_weighted
    cdef object _owner


cdef class SparseStorage(Storage):
    """Sparse columns; the state are residuals beside a shift of each task, which follows the means."""
    cdef const double[::1] data, weight, total
    cdef const Py_ssize_t[::1] indices, indptr, task
    cdef const double[:, ::1] means
    cdef Py_ssize_t n_rows
    cdef object _owner
