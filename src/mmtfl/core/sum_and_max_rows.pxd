from mmtfl.core.row_functions cimport Phi
from mmtfl.core.row_problems cimport Row

cdef double solve_sum(const Phi* phi, Row* row) noexcept nogil
cdef double set_soft(Row* row, double threshold) noexcept nogil
