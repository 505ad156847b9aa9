"""Norms for the parts of A = P + Q; docs/additive.md section 1.

A norm says its value, its prox and its dual norm: that is all a solver asks, so a new pair costs a few lines.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

_SQUARABLE = 1e3  # largest singular value over the threshold that squares still resolve


class Norm(Protocol):
    """What the solvers ask of a penalty on one part."""

    @property
    def alpha(self) -> float: ...
    def value(self, A: np.ndarray) -> float: ...
    def prox(self, Z: np.ndarray, step: float) -> np.ndarray: ...
    def dual_norm(self, G: np.ndarray) -> float: ...
    def at(self, alpha: float) -> "Norm": ...


@dataclass(frozen=True)
class _Strength:
    """A norm times its strength."""

    alpha: float

    def at(self, alpha: float) -> Self:
        """The same norm at another strength."""
        return replace(self, alpha=alpha)


def _shrink(Z: np.ndarray, sizes: np.ndarray, threshold: float) -> np.ndarray:
    """Z with blocks of the given sizes made shorter by the threshold."""
    with np.errstate(over="ignore"):  # an infinite strength: nothing is kept
        left = np.maximum(sizes - threshold, 0.0)
    return Z * np.divide(left, sizes, out=np.zeros_like(sizes), where=left > 0.0)


@dataclass(frozen=True)
class EntryNorm(_Strength):
    """alpha * sum_jt |a_jt|: every entry on its own (l1,1).

    Examples
    --------
    >>> import numpy as np
    >>> EntryNorm(0.5).prox(np.array([[2.0, -0.25]]), step=1.0)
    array([[ 1.5, -0. ]])
    """

    def value(self, A: np.ndarray) -> float:
        """The penalty of A."""
        return self.alpha * float(np.abs(A).sum()) if A.any() else 0.0

    def prox(self, Z: np.ndarray, step: float) -> np.ndarray:
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        return np.copysign(np.maximum(np.abs(Z) - step * self.alpha, 0.0), Z)

    def dual_norm(self, G: np.ndarray) -> float:
        """The alpha from which G holds no entry."""
        return float(np.abs(G).max(initial=0.0))


@dataclass(frozen=True)
class RowNorm(_Strength):
    """alpha * sum_j ||a_j||_p for p = 2 or inf: features, each for all tasks or none (l1,p).

    Examples
    --------
    >>> import numpy as np
    >>> RowNorm(1.0).prox(np.array([[3.0, 4.0], [0.5, 0.5]]), step=1.0)
    array([[2.4, 3.2],
           [0. , 0. ]])
    >>> RowNorm(1.0, p=np.inf).prox(np.array([[3.0, 1.0]]), step=1.0)
    array([[2., 1.]])
    """

    p: float = 2.0

    def __post_init__(self) -> None:
        if self.p not in (2.0, math.inf):
            raise ValueError(f"RowNorm knows p = 2 and p = inf, got {self.p!r}.")

    def value(self, A: np.ndarray) -> float:
        """The penalty of A."""
        sizes = np.abs(A).max(axis=1) if math.isinf(self.p) else np.sqrt(np.einsum("jt,jt->j", A, A))
        return self.alpha * float(sizes.sum()) if A.any() else 0.0

    def prox(self, Z: np.ndarray, step: float) -> np.ndarray:
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        if self.p == 2.0:
            return _shrink(Z, np.sqrt(np.einsum("jt,jt->j", Z, Z))[:, None], step * self.alpha)
        return _clip_rows(Z, step * self.alpha)

    def dual_norms(self, G: np.ndarray) -> np.ndarray:
        """Dual norm of each row."""
        return np.abs(G).sum(axis=1) if math.isinf(self.p) else np.sqrt(np.einsum("jt,jt->j", G, G))

    def dual_norm(self, G: np.ndarray) -> float:
        """The alpha from which G holds no row."""
        return float(self.dual_norms(G).max(initial=0.0))


def _clip_rows(Z: np.ndarray, radius: float) -> np.ndarray:
    """Z minus its rows' projections on the l1 ball: rows clipped where the clipped parts add up to radius."""
    size = np.abs(Z)
    if math.isinf(radius):
        return np.zeros_like(Z)
    falling = -np.sort(-size, axis=1)
    bounds = (np.cumsum(falling, axis=1) - radius) / np.arange(1, Z.shape[1] + 1)
    n_clipped = np.count_nonzero(falling > bounds, axis=1)
    bound = np.take_along_axis(bounds, np.maximum(n_clipped - 1, 0)[:, None], axis=1)
    return np.copysign(np.minimum(size, np.maximum(bound, 0.0)), Z)


@dataclass(frozen=True)
class ColumnNorm(_Strength):
    """alpha * sum_t ||a_t||_2: tasks, each set apart as a whole or not at all (l2,1 of the transpose).

    Examples
    --------
    >>> import numpy as np
    >>> ColumnNorm(1.0).prox(np.array([[3.0, 0.1], [4.0, 0.1]]), step=1.0)
    array([[2.4, 0. ],
           [3.2, 0. ]])
    """

    def value(self, A: np.ndarray) -> float:
        """The penalty of A."""
        return self.alpha * float(self.sizes(A).sum()) if A.any() else 0.0

    def prox(self, Z: np.ndarray, step: float) -> np.ndarray:
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        return _shrink(Z, self.sizes(Z), step * self.alpha)

    def dual_norm(self, G: np.ndarray) -> float:
        """The alpha from which G holds no column."""
        return float(self.sizes(G).max(initial=0.0))

    def sizes(self, A: np.ndarray) -> np.ndarray:
        """Length of each column."""
        return np.sqrt(np.einsum("jt,jt->t", A, A))


@dataclass(frozen=True)
class TraceNorm(_Strength):
    """alpha * sum of the singular values of A: few directions that the tasks share.

    Examples
    --------
    >>> import numpy as np
    >>> TraceNorm(1.0).prox(np.diag([3.0, 0.5]), step=1.0).round(6)
    array([[2., 0.],
           [0., 0.]])
    """

    def value(self, A: np.ndarray) -> float:
        """The penalty of A."""
        return self.alpha * float(np.linalg.svd(A, compute_uv=False).sum()) if A.any() else 0.0

    def prox(self, Z: np.ndarray, step: float) -> np.ndarray:
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        threshold = step * self.alpha
        squares, V = np.linalg.eigh(Z.T @ Z)
        sizes = np.sqrt(np.maximum(squares, 0.0))
        if sizes[-1] > _SQUARABLE * threshold:  # squares have lost what the threshold decides on
            _, sizes, V = np.linalg.svd(Z, full_matrices=False)
            V = V.T
        kept = sizes > threshold
        V = V[:, kept]
        return (Z @ V * (1.0 - threshold / sizes[kept])) @ V.T

    def dual_norm(self, G: np.ndarray) -> float:
        """The alpha from which G holds no direction."""
        return float(np.linalg.norm(G, 2)) if G.size else 0.0
