"""The problem of one row: one feature in all tasks, or several features that are penalised together.

    minimise over a   sum_t (L_t/2 a_t^2 - g_t a_t) + penalty(a)        docs/model.md section 5
"""

cimport cython
from libc.math cimport INFINITY

from mmtfl.core.row_functions cimport fill

cdef struct Row:
    Py_ssize_t n             # entries: one per task; of a block of rows, row by row
    double* slope            # g; may be overwritten
    const double* curvature  # L >= 0; 0: the feature is constant in that task, and its coefficient is 0
    const double* present    # the row as it is now
    const double* numbers    # what the penalty knows of this row; the strength alpha first
    double* out              # the answer
    double* room             # at least 8 n doubles to work in
    bint thorough            # False: concave members may look for the nearest minimum only


cdef class RowProblem:
    cdef readonly bint has_short_cut  # whether `thorough` makes a difference
    cdef void minimise(self, Row* row) noexcept nogil
    cdef double cost(self, Row* row, const double* a) noexcept nogil

    @cython.final
    cdef inline void solve(self, Row* row) noexcept nogil:
        """Write the answer to row.out: zero if the strength is infinite."""
        if row.numbers[0] < INFINITY:
            self.minimise(row)
        else:
            fill(row.out, row.n, 0.0)


cdef class Workspace:
    cdef Row row
    cdef double* curvature  # where row.curvature and row.present point to at first
    cdef double* present
    cdef double[::1] memory


cdef inline double smooth_value(const Row* row, const double* a) noexcept nogil:
    """sum_t L_t/2 a_t^2 - g_t a_t."""
    cdef const double* g = row.slope
    cdef const double* L = row.curvature
    cdef Py_ssize_t t
    cdef double total = 0.0
    for t in range(row.n):
        total += (0.5 * L[t] * a[t] - g[t]) * a[t]
    return total
