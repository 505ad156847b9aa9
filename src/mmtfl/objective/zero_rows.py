"""Large matrices of zeros of which few rows will be written: the others take no memory."""

import mmap

import numpy as np

_LARGE = 1 << 22  # bytes from which on numpy asks the system for pages of 2 MB


def zero_rows(n_rows: int, n_columns: int) -> np.ndarray:
    """A matrix of zeros, stored by rows, of which a row takes memory once it is written to.

    An array of numpy has large pages where the system offers them, and one row would take a page of 2 MB.
    """
    n_bytes = 8 * n_rows * n_columns
    if n_bytes < _LARGE or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.zeros((n_rows, n_columns))
    pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages).reshape(n_rows, n_columns)
