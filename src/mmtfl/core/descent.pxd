from mmtfl.core.row_problems cimport Row, RowProblem, Workspace
from mmtfl.core.storage cimport Buffer, Storage


cdef struct Moves:
    double slope   # the largest move of a slope
    double energy  # the largest square of a block's move, in the metric of the loss
    double total   # the sum of these squares


cdef struct Goal:
    double slope    # stop where no slope moves by more than this,
    double energy   # or where no block's square does
    double relative  # or where no slope moves by more than this share of what the first sweep moved one
    Py_ssize_t max_sweeps
    bint by_support  # between full sweeps only blocks that are not zero are replaced


cdef class Blocks:
    """Rows that are replaced together, in the order of their sweeps."""
    cdef Py_ssize_t n, n_members, largest
    cdef Py_ssize_t* members   # the rows, block by block
    cdef Py_ssize_t* starts    # where the rows of each block begin, and the last ones end
    cdef Py_ssize_t* places    # where the numbers of each block begin
    cdef const double* numbers    # what the penalty knows of the blocks
    cdef const double* curvature  # of the entries, block by block
    cdef object _owner


cdef class Descent:
    """Sweeps over blocks of rows, with extrapolation."""
    cdef Storage storage
    cdef RowProblem problem
    cdef Blocks blocks
    cdef double* A
    cdef Workspace work
    cdef Buffer iterates, states, origin, mixed
    cdef Py_ssize_t n_sweeps
    cdef double first, gain
    cdef Py_ssize_t work_done
    cdef object error
    cdef object _owner
    cdef void use(self, double* A) noexcept nogil
    cdef bint settle(self, Goal goal) noexcept nogil
    cdef bint settle_and_compare(self, Goal goal) noexcept nogil
    cdef double value_here(self) noexcept nogil
    cdef bint make_room(self) noexcept nogil
    cdef bint is_interrupted(self) noexcept nogil
    cdef Moves sweep(self, bint thorough, bint kept_only) noexcept nogil
    cdef void replace(self, Py_ssize_t b, bint thorough, Moves* moves) noexcept nogil
    cdef bint is_zero(self, Py_ssize_t b) noexcept nogil
    cdef void store(self, Py_ssize_t k) noexcept nogil
    cdef void go_to(self, const double* place, const double* state) noexcept nogil
    cdef double value(self, const double* place, const double* state) noexcept nogil
    cdef bint extrapolate(self) noexcept nogil
    cdef bint try_place(self, double* place, double* state, double* value) noexcept nogil
