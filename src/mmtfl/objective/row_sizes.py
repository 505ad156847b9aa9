"""Formulas on rows of A: norms, the common part, and the product form; docs/model.md sections 2, 3, 10."""

import math
import mmap
from numbers import Real
from typing import Literal

import numpy as np
from scipy.special import xlogy

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


# -- the product form ------------------------------------------------------------------------------------


def check_exponents(p: float, k: float) -> None:
    """Refuse exponents outside the family, with a remedy."""
    for name, value, least, words in (("p", p, 1.0, "at least 1"), ("k", k, 0.0, "positive")):
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{name} must be a number (float('inf') included), got {value!r}.")
        if math.isnan(value) or value < least or value == 0.0:
            raise ValueError(
                f"{name} must be {words}, got {value!r}. Try (p, k) = (2, 2), (1, 1), (2, 1) or (1, 2)."
            )
    if math.isinf(p) and math.isinf(k):
        raise ValueError(
            "p and k cannot both be infinite: the penalty becomes the box |a| <= 1, whatever alpha. "
            "Use (inf, 1) for l1,inf or (2, inf) for ridge."
        )


def exponent(p: float, k: float) -> float:
    """e = k / (p + k), the exponent of S_j in eq. (2), with its limits at infinite p or k."""
    if math.isinf(k):
        return 1.0
    if math.isinf(p):
        return 0.0
    return k / (p + k)


def elimination_constant(p: float, k: float) -> float:
    """K of eq. (5): e^-e (1 - e)^-(1 - e), which is (p/k)^e (p + k) / p."""
    e = exponent(p, k)
    return float(np.exp(-xlogy(e, e) - xlogy(1.0 - e, 1.0 - e)))


def _check_positive(name: str, value: float) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}.")


def alpha_from_gammas(
    gamma1: float, gamma2: float, *, p: float, k: float, constants: Literal["exact", "paper"] = "exact"
) -> float:
    """Strength alpha of the joint form (2) with the solution of the product form (1), by equation (5).

    ``alpha = K gamma1^(k/(p+k)) gamma2^(p/(p+k))`` with ``K = (p/k)^(k/(p+k)) (p+k)/p``.

    Parameters
    ----------
    gamma1, gamma2 : float
        Strengths of the penalties on B and on c.
    p, k : float
        Exponents of the two penalties; one of them may be infinite.
    constants : {"exact", "paper"}
        "exact" solves problem (1) as it is stated. "paper" gives what the *printed* Algorithm 1 solves: its
        c-step is exact for gamma2 p/k in place of gamma2 (the same thing when p = k).

    Examples
    --------
    >>> from mmtfl import alpha_from_gammas
    >>> alpha_from_gammas(1.0, 1.0, p=2, k=2)
    2.0
    >>> round(alpha_from_gammas(1.0, 1.0, p=2, k=1), 4)
    1.8899
    >>> round(alpha_from_gammas(1.0, 1.0, p=2, k=1, constants="paper"), 4)
    3.0
    """
    check_exponents(p, k)
    _check_positive("gamma1", gamma1)
    _check_positive("gamma2", gamma2)
    if constants not in ("exact", "paper"):
        raise ValueError(f"constants must be 'exact' or 'paper', got {constants!r}.")
    e = exponent(p, k)
    if constants == "paper" and not math.isinf(k):
        if math.isinf(p):
            raise ValueError("The printed constants have no limit at p = inf: use constants='exact'.")
        gamma2 = gamma2 * p / k
    return elimination_constant(p, k) * float(gamma1) ** e * float(gamma2) ** (1.0 - e)


def gammas_from_alpha(alpha: float, *, p: float, k: float, ratio: float = 1.0) -> tuple[float, float]:
    """The (gamma1, gamma2) with gamma1 / gamma2 = ratio whose product form equals the joint form at alpha.

    Only alpha matters for A; the ratio sets the scale of c against B, and where Algorithm 1 starts.

    Parameters
    ----------
    alpha : float
        Strength of the joint form.
    p, k : float
        Exponents of the two penalties; one of them may be infinite.
    ratio : float, default=1.0
        gamma1 / gamma2.

    Returns
    -------
    gamma1, gamma2 : float
        Strengths of the penalties on B and on c.

    Examples
    --------
    >>> from mmtfl import gammas_from_alpha
    >>> gammas_from_alpha(2.0, p=2, k=2)
    (1.0, 1.0)
    """
    check_exponents(p, k)
    _check_positive("alpha", alpha)
    _check_positive("ratio", ratio)
    gamma2 = alpha / (elimination_constant(p, k) * ratio ** exponent(p, k))
    return ratio * gamma2, gamma2


def shared_part(norms: np.ndarray, p: float, k: float, ratio: float = 1.0) -> np.ndarray:
    """c of eq. (3) from the rows' p-norms: the best c for given coefficients, at gamma1 / gamma2 = ratio."""
    if math.isinf(k):
        return np.where(norms > 0.0, 1.0, 0.0)
    if math.isinf(p):
        return norms.copy()
    return (ratio * p / k) ** (1.0 / (p + k)) * norms ** (p / (p + k))


def task_part(A: np.ndarray, c: np.ndarray) -> np.ndarray:
    """B with A = diag(c) B; a dropped feature (c_j = 0) has a zero row."""
    return np.divide(A, c[:, None], out=np.zeros_like(A), where=c[:, None] > 0.0)


def product_value(B: np.ndarray, c: np.ndarray, gamma1: float, gamma2: float, p: float, k: float) -> float:
    """Penalty part of problem (1): gamma1 sum_t ||beta_t||_p^p + gamma2 ||c||_k^k, for finite p and k."""
    return float(gamma1 * np.sum(np.abs(B) ** p) + gamma2 * np.sum(c**k))
