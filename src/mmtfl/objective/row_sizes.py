"""Sizes of rows: norms with or without a common part; docs/model.md sections 3, 10."""

import math
import mmap

import numpy as np

SAFE = 1e140  # entries up to this size can be squared and summed


def largest_entry(A: np.ndarray) -> float:
    """The largest absolute entry of A, which may be too large for a second array of its size."""
    return float(max(A.max(initial=0.0), -A.min(initial=0.0)))


def row_norms(A: np.ndarray, p: float) -> np.ndarray:
    """p-norm of each row, scaled where a power could overflow."""
    if p == 2.0 and 1.0 / SAFE < largest_entry(A) < SAFE:
        return np.sqrt(np.einsum("ij,ij->i", A, A))
    size = np.abs(A)
    if p == 1.0:
        return size.sum(axis=1)
    largest = size.max(axis=1, initial=0.0)
    if math.isinf(p):
        return largest
    unit = np.divide(size, largest[:, None], out=np.zeros_like(size), where=largest[:, None] > 0.0)
    return largest * (unit**p).sum(axis=1) ** (1.0 / p)


def log_powers(norms: np.ndarray, p: float, eps: np.ndarray) -> np.ndarray:
    """log(1 + norms^p / eps), also where that ratio is beyond the range of floats."""
    with np.errstate(over="ignore"):
        ratio = norms**p / eps
    return np.where(ratio < np.inf, np.log1p(ratio), p * np.log(norms) - np.log(eps))


def common_weight(pooling: float, n_tasks: int) -> float:
    """w of eq. (10): what the common part costs against one task's own part."""
    return n_tasks * (1.0 - pooling) / pooling


def common_part(A: np.ndarray, p: float, pooling: float) -> np.ndarray:
    """m of eq. (11) for each row: what its tasks scatter about, p = 1 or 2."""
    n_tasks = A.shape[1]
    if p == 2.0:
        return pooling * A.mean(axis=1)
    # the median of the entries and of zeros that weigh w; of several medians the one nearest to zero
    n_beyond = math.floor(n_tasks / (2.0 * pooling))  # at most so many entries lie farther from zero than m
    if n_beyond >= n_tasks:
        return np.zeros(len(A))
    rising = np.sort(A, axis=1)
    return np.maximum(rising[:, n_tasks - 1 - n_beyond], 0.0) + np.minimum(rising[:, n_beyond], 0.0)


def centred_norms(A: np.ndarray, p: float, pooling: float) -> np.ndarray:
    """S^(1/p) of eq. (11) for each row, p = 1 or 2."""
    common = common_part(A, p, pooling)
    weight = common_weight(pooling, A.shape[1]) ** (1.0 / p)
    return row_norms(np.column_stack([A - common[:, None], weight * common]), p)


def euclidean_parts(
    norms: np.ndarray, sums: np.ndarray, pooling: float, n_tasks: int
) -> tuple[np.ndarray, np.ndarray]:
    """The centred norms and the common parts of rows of which 2-norms and sums are known; eq. (12)."""
    share = np.divide(sums, norms, out=np.zeros_like(norms), where=norms > 0.0)
    left = np.maximum(1.0 - pooling * share**2 / n_tasks, 1.0 - pooling)  # the bound, but for rounding
    return norms * np.sqrt(left), sums * (pooling / n_tasks)


# -- matrices that are mostly zero ---------------------------------------------------------------------------


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
