cdef void sort_falling(const double* keys, Py_ssize_t* order, Py_ssize_t n) noexcept nogil
