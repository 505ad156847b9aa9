# core: exact
"""Sorting inside of compiled loops: without memory of its own, and without Python."""


cdef void sort_falling(const double* keys, Py_ssize_t* order, Py_ssize_t n) noexcept nogil:
    """Heapsort: reorder the first n entries of `order` so that keys[order[0]] >= keys[order[1]] >= ..."""
    cdef Py_ssize_t root, last
    for root in range(n // 2 - 1, -1, -1):
        sift_down(keys, order, root, n)
    for last in range(n - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        sift_down(keys, order, 0, last)


cdef void sift_down(const double* keys, Py_ssize_t* order, Py_ssize_t root, Py_ssize_t n) noexcept nogil:
    """Restore the heap of n entries below `root`, the smallest key on top."""
    cdef Py_ssize_t child = 2 * root + 1
    while child < n:
        if child + 1 < n and keys[order[child + 1]] < keys[order[child]]:
            child += 1
        if keys[order[root]] <= keys[order[child]]:
            return
        order[root], order[child] = order[child], order[root]
        root = child
        child = 2 * root + 1


def falling_order(const double[::1] keys, Py_ssize_t[::1] order):
    """Sort the whole of `order` in place; for tests."""
    if order.shape[0] > 0:
        sort_falling(&keys[0], &order[0], order.shape[0])
