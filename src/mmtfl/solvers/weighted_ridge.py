"""Weighted ridge on columns of one task, dense or sparse: step 1 of Algorithm 1 at p = 2."""

import math
import threading
from typing import Any

import numpy as np
from scipy import linalg, sparse

from mmtfl.objective.design import CONSTANT, Design


def columns_of(design: Design, kept: np.ndarray) -> "DenseColumns | SparseColumns":
    """Some columns of a task, sparse where they are stored so."""
    return (SparseColumns if sparse.issparse(design.tasks.X) else DenseColumns)(design, kept)


class DenseColumns:
    """Columns as the matrix X (n_rows, n_kept), good until the next are gathered in this thread."""

    def __init__(self, design: Design, kept: np.ndarray):
        self.design = design
        by_column, self._centred = _blocks(2, kept.size, len(design.y))
        design.gather(kept, by_column, expand=True)
        self.X = by_column.T

    def ridge(
        self, weight: np.ndarray, target: np.ndarray, scale: np.ndarray, common: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """argmin over a of 1/2 sum_i weight_i (target_i - x_i a)^2 + ||(a - common) / scale||^2.

        The columns are centred by the weights where there is an intercept; their means are returned too.
        """
        from mmtfl.kernels import columns

        design, x, root = self.design, self._centred, np.sqrt(weight)
        means, curvature = np.empty((2, len(x), 1))
        np.copyto(x, self.X.T)
        columns.centre(x, design.offsets, weight, root, design.fit_intercept, CONSTANT, means, curvature)
        target = root * target
        if common is not None:
            target = target - common @ x
        x *= scale[:, None]
        a = scale * least_norm_ridge(x, target)
        return a if common is None else a + common, means[:, 0]


class SparseColumns:
    """Columns as a sparse X (n_rows, n_kept): what is made of them has the size of their rows or of them."""

    def __init__(self, design: Design, kept: np.ndarray):
        X: Any = design.tasks.X if design.tasks.rows is None else design.tasks.X[design.tasks.rows]
        self.fit_intercept = design.fit_intercept
        self.X = sparse.csr_array(X[:, kept].multiply(design.inverse_scale[kept]), dtype=float)
        self._varies = design.curvature[kept, 0] > 0.0

    def ridge(
        self, weight: np.ndarray, target: np.ndarray, scale: np.ndarray, common: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same, from products of sparse matrices that are centred afterwards."""
        X, root = self.X, np.sqrt(weight)
        scale = np.where(self._varies, scale, 0.0)
        means = X.T @ weight / weight.sum() if self.fit_intercept else np.zeros(X.shape[1])
        if common is not None:
            target = target - (X @ common - means @ common)
        V, level = X.multiply(scale).tocsr(), scale * means
        if X.shape[0] < X.shape[1]:
            inner = _centre_both_sides((V @ V.T).toarray(), weight, self.fit_intercept) * root[:, None] * root
            row = root * solve_shifted(inner, 2.0, root * target)
        else:
            inner = (V.T @ V.multiply(weight[:, None]).tocsr()).toarray()
            inner -= weight.sum() * np.outer(level, level)
            row = weight * target
        beta = V.T @ row - level * row.sum()
        beta = beta if X.shape[0] < X.shape[1] else solve_shifted(inner, 2.0, beta)
        a = scale * beta
        return a if common is None else a + common, means


def _centre_both_sides(K: np.ndarray, weight: np.ndarray, fit_intercept: bool) -> np.ndarray:
    """Inner products of rows, of which the weighted mean of the rows is taken off."""
    if not fit_intercept:
        return K
    share = weight / weight.sum()
    with_mean = K @ share
    K -= with_mean[:, None]
    K -= with_mean - with_mean @ share
    return K


def least_norm_ridge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """argmin over a of 1/2 ||y - x.T a||^2 + ||a||^2, in the smaller of two spaces."""
    if x.shape[0] <= x.shape[1]:
        return solve_shifted(x @ x.T, 2.0, x @ y)
    return x @ solve_shifted(x.T @ x, 2.0, y)


def solve_shifted(H: np.ndarray, shift: float, v: np.ndarray) -> np.ndarray:
    """(H + shift I)^-1 v for a positive semidefinite H; the diagonal of H is changed."""
    H.flat[:: len(H) + 1] += shift
    try:
        return linalg.cho_solve(linalg.cho_factor(H, lower=True, check_finite=False), v, check_finite=False)
    except linalg.LinAlgError:
        # entries so far above the shift that rounding made H indefinite: the least-norm answer is the limit
        return np.linalg.lstsq(H, v, rcond=None)[0]


_room = threading.local()


def _blocks(n: int, *shape: int) -> np.ndarray:
    """Arrays to work in until the next call, whatever is in them.

    Large arrays that come and go can cost as much as the work on them: under Dask's settings the system
    takes their memory back every time.
    """
    size = n * math.prod(shape)
    if getattr(_room, "block", np.empty(0)).size < size:
        _room.block = np.empty(size)
    return _room.block[:size].reshape(n, *shape)
