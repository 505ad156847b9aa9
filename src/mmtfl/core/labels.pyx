"""Positions of labels by a hash table: one visit per row, however many labels there are."""

import numpy as np

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcmp


def positions(const uint32_t[:, ::1] labels, const uint32_t[:, ::1] known):
    """Position of each label in `known`, or len(known); each row holds the words of one label."""
    cdef Py_ssize_t i, n = known.shape[0]
    cdef uint64_t mask = 2 ** (4 * n).bit_length() - 1
    cdef Py_ssize_t[::1] table = np.full(mask + 1, n, dtype=np.intp)
    out = np.empty(labels.shape[0], dtype=np.intp)
    cdef Py_ssize_t[::1] found = out
    for i in range(n):
        table[find(&known[i, 0], known, table, mask)] = i
    with nogil:
        for i in range(labels.shape[0]):
            found[i] = table[find(&labels[i, 0], known, table, mask)]
    return out


cdef inline Py_ssize_t find(
    const uint32_t* label, const uint32_t[:, ::1] known, const Py_ssize_t[::1] table, uint64_t mask
) noexcept nogil:
    """The entry of the table that holds a label, or the free one where it belongs."""
    cdef uint64_t key = 0
    cdef Py_ssize_t j, width = known.shape[1], n = known.shape[0]
    for j in range(width):
        key = (key ^ label[j]) * <uint64_t>0x9E3779B97F4A7C15
    key = (key >> 32) & mask
    while table[key] < n and memcmp(label, &known[table[key], 0], width * sizeof(uint32_t)) != 0:
        key = (key + 1) & mask
    return key
