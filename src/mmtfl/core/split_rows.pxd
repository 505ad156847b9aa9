from mmtfl.core.row_problems cimport Row

cdef double euclidean_size(const Row* row, double start) noexcept nogil
