# core: exact
"""Sorting inside of compiled loops: without memory of its own, and without Python."""

cdef enum:
    SHORT = 128  # up to here ranks are quicker, which need no branches


cdef void sort_falling(const double* keys, Py_ssize_t* order, Py_ssize_t n) noexcept nogil:
    """Reorder the first n entries of `order` so that keys[order[0]] >= keys[order[1]] >= ..."""
    cdef Py_ssize_t root, last
    if n <= SHORT:
        place_by_rank(keys, order, n)
        return
    for root in range(n // 2 - 1, -1, -1):
        sift_down(keys, order, root, n)
    for last in range(n - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        sift_down(keys, order, 0, last)


cdef void place_by_rank(const double* keys, Py_ssize_t* order, Py_ssize_t n) noexcept nogil:
    """Put every entry where the number of larger keys says; of equal keys the first one comes first."""
    cdef Py_ssize_t[SHORT] entries
    cdef double[SHORT] own
    cdef Py_ssize_t i, j, rank
    for i in range(n):
        entries[i], own[i] = order[i], keys[order[i]]
    for i in range(n):
        rank = 0
        for j in range(i):
            rank += own[j] >= own[i]
        for j in range(i + 1, n):
            rank += own[j] > own[i]
        order[rank] = entries[i]


cdef void sift_down(const double* keys, Py_ssize_t* order, Py_ssize_t root, Py_ssize_t n) noexcept nogil:
    """Heapsort: restore the heap of n entries below `root`, the smallest key on top."""
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
