"""Norms for the parts of A = P + Q, and the penalties that pairs of them make; docs/additive.md section 1.

A norm says its blocks' sizes and its prox: that is all a solver asks, so a new pair costs a few lines.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.penalties import RowPower, row_norms
from mmtfl.objective.problem import Problem
from mmtfl.objective.row_sizes import SAFE

_SQUARABLE = 1e3  # largest singular value over the threshold that squares still resolve
_ROUNDING = 1e-13  # a rest of this share of its entry is none


@dataclass(frozen=True)
class Norm(ABC):
    """A norm times its strength: the sum of the sizes of blocks of A, which are entries, rows or columns."""

    alpha: float

    @abstractmethod
    def sizes(self, A: np.ndarray) -> np.ndarray:
        """Size of each block."""

    @abstractmethod
    def prox(self, Z: np.ndarray, step: float) -> np.ndarray:
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""

    def dual_sizes(self, G: np.ndarray) -> np.ndarray:
        """Dual norm of each block: the smallest alpha that makes the block zero at gradient G."""
        return self.sizes(G)

    def value(self, A: np.ndarray) -> float:
        """The penalty of A."""
        return self.alpha * float(self.sizes(A).sum()) if A.any() else 0.0

    def dual_norm(self, G: np.ndarray) -> float:
        """The smallest alpha that makes every block zero at gradient G."""
        return float(self.dual_sizes(G).max(initial=0.0))

    def at(self, alpha: float) -> Self:
        """The same norm at another strength."""
        return replace(self, alpha=alpha)


def _shrink(Z: np.ndarray, sizes: np.ndarray, threshold: float) -> np.ndarray:
    """Z with blocks of the given sizes made shorter by the threshold."""
    with np.errstate(over="ignore"):  # an infinite strength: nothing is kept
        left = np.maximum(sizes - threshold, 0.0)
    return Z * np.divide(left, sizes, out=np.zeros_like(sizes), where=left > 0.0)


@dataclass(frozen=True)
class EntryNorm(Norm):
    """alpha * sum_jt |a_jt|: every entry on its own (l1,1).

    Examples
    --------
    >>> import numpy as np
    >>> EntryNorm(0.5).prox(np.array([[2.0, -0.25]]), step=1.0)
    array([[ 1.5, -0. ]])
    """

    def sizes(self, A):
        """Absolute value of each entry."""
        return np.abs(A)

    def prox(self, Z, step):
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        return np.copysign(np.maximum(np.abs(Z) - step * self.alpha, 0.0), Z)


@dataclass(frozen=True)
class RowNorm(Norm):
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

    def sizes(self, A):
        """p-norm of each row."""
        return row_norms(A, self.p)

    def dual_sizes(self, G):
        """Dual norm of each row."""
        return row_norms(G, 2.0 if self.p == 2.0 else 1.0)

    def prox(self, Z, step):
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        if self.p == 2.0:
            return _shrink(Z, self.sizes(Z)[:, None], step * self.alpha)
        return _clip_rows(Z, step * self.alpha)


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
class ColumnNorm(Norm):
    """alpha * sum_t ||a_t||_2: tasks, each set apart as a whole or not at all (l2,1 of the transpose).

    Examples
    --------
    >>> import numpy as np
    >>> ColumnNorm(1.0).prox(np.array([[3.0, 0.1], [4.0, 0.1]]), step=1.0)
    array([[2.4, 0. ],
           [3.2, 0. ]])
    """

    def sizes(self, A):
        """Length of each column."""
        return row_norms(A.T, 2.0)

    def prox(self, Z, step):
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        return _shrink(Z, self.sizes(Z), step * self.alpha)


@dataclass(frozen=True)
class TraceNorm(Norm):
    """alpha * sum of the singular values of A: few directions that the tasks share.

    Examples
    --------
    >>> import numpy as np
    >>> TraceNorm(1.0).prox(np.diag([3.0, 0.5]), step=1.0).round(6)
    array([[2., 0.],
           [0., 0.]])
    """

    def sizes(self, A):
        """Singular values."""
        return np.linalg.svd(A, compute_uv=False)

    def prox(self, Z, step):
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        threshold, largest = step * self.alpha, float(np.abs(Z).max(initial=0.0))
        by_squares = 1.0 / SAFE < largest < SAFE
        if Z.shape[1] > Z.shape[0]:  # squares of the shorter side
            return np.ascontiguousarray(self.prox(Z.T, step).T)
        if by_squares:
            squares, V = np.linalg.eigh(Z.T @ Z)
            sizes = np.sqrt(np.maximum(squares, 0.0))
        if not by_squares or sizes[-1] > _SQUARABLE * threshold:
            # squares do not tell what the threshold asks
            _, sizes, V = np.linalg.svd(Z, full_matrices=False)
            V = V.T
        kept = sizes > threshold
        V = V[:, kept]
        return (Z @ V * (1.0 - threshold / sizes[kept])) @ V.T


@dataclass(frozen=True)
class TwoNorms:
    """A norm of P plus a norm of Q; docs/additive.md eq. (1).

    Examples
    --------
    >>> import numpy as np
    >>> TwoNorms(RowNorm(1.0), EntryNorm(0.5)).value(np.array([[3.0, 4.0]]), np.array([[0.0, 2.0]]))
    6.0
    """

    shared: Norm
    specific: Norm
    known: KnownFeatures | None = None  # weights and signs of the entries of P + Q

    def at(self, first: float, second: float) -> "TwoNorms":
        """The same norms at other strengths."""
        return replace(self, shared=self.shared.at(first), specific=self.specific.at(second))

    def value(self, P: np.ndarray, Q: np.ndarray) -> float:
        """Both penalties."""
        if self.known is not None:
            P, Q = self.known.measured(P), self.known.measured(Q)
        return self.shared.value(P) + self.specific.value(Q)

    def violation(self, parts: Iterable[np.ndarray], gradient: np.ndarray, curvature: float) -> float:
        """How far a prox step of that curvature would move either part, in units of the gradient; eq. (4)."""
        step = 1.0 / curvature
        moves = (
            np.abs(part - norm.prox(part - step * gradient, step)).max(initial=0.0)
            for part, norm in zip(parts, (self.shared, self.specific), strict=True)
        )
        return curvature * float(max(moves))

    def dual_gap(
        self, primal: float, gradient: np.ndarray, dual_loss: Callable[[float], float]
    ) -> float | None:
        """Duality gap, eq. (3), given the loss's dual value at a share of its dual point.

        The dual point must lie in both dual balls: one factor brings it there. None where an entry is free
        of penalty.
        """
        if self.known is not None:
            if self.known.free_rows.any():
                return None
            gradient = self.known.slopes(gradient)
        shrink = 1.0
        for norm in (self.shared, self.specific):
            size = norm.dual_norm(gradient)
            if size > norm.alpha:
                shrink = min(shrink, norm.alpha / size)
        return max(primal - dual_loss(shrink), 0.0)

    def critical_strengths(self, problem: Problem, gradient: np.ndarray | None = None) -> tuple[float, float]:
        """Strengths at which A = 0, neither of which can be smaller; 1 where no feature has a slope.

        `gradient` is that of the model without anything that is penalised, if some entries are free.
        """
        gradient = problem.null_gradient if gradient is None else gradient
        gradient = gradient if self.known is None else self.known.slopes(gradient)
        if not gradient.any():
            return 1.0, 1.0
        return self.shared.dual_norm(gradient), self.specific.dual_norm(gradient)


# -- a row norm of P with the entries of Q: eliminating the split leaves one row penalty of A = P + Q --------
#
#     phi(a) = min over p + q = a of   alpha1 ||p|| + alpha2 ||q||_1
#
# is a norm of the row, so row descent serves this pair as it serves the family; docs/additive.md section 3.


@dataclass(frozen=True, eq=False)
class SplitRows(RowPower):
    """sum_j min over p + q = a_j of alpha ||p||_r + eps ||q||_1, for r = 2 (k = 2) or inf (k = 1).

    Examples
    --------
    >>> import numpy as np
    >>> penalty = SplitRows.of(RowNorm(1.0, p=np.inf), EntryNorm(0.6))
    >>> penalty.value(np.array([[3.0, 1.0, 1.0]]))          # p = (1, 1, 1), q = (2, 0, 0)
    2.2
    """

    eps: float | np.ndarray = 1.0  # type: ignore[misc]

    @classmethod
    def of(cls, shared: RowNorm, specific: EntryNorm, known: KnownFeatures | None = None) -> "SplitRows":
        """The penalty of a pair."""
        k = 1.0 if math.isinf(shared.p) else 2.0
        return cls(shared.p, shared.alpha, k, specific.alpha, known=known)

    def value(self, A: np.ndarray) -> float:
        """The penalty of A; infinite where something forbids it."""
        if self.known is not None:
            if not self.known.allows(A):
                return math.inf
            A = self.known.measured(A)
        P = self.shared_of(A)
        entries = np.abs(A - P).sum(axis=1)
        return float(np.sum(self.alpha * row_norms(P, self.p)) + np.sum(self.eps * entries))

    def split(self, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best P and Q = A - P; what is free of penalty is in P."""
        if self.known is None:
            P = self.shared_of(A)
        else:
            seen = self.known.measured(A)
            P = np.where(seen == 0.0, A, self.shared_of(seen) / np.where(seen == 0.0, 1.0, seen) * A)
        Q = A - P
        Q[np.abs(Q) <= _ROUNDING * np.abs(A)] = 0.0
        return np.where(Q == 0.0, A, P), Q

    def shared_of(self, A: np.ndarray) -> np.ndarray:
        """P of a scaled A: the entries of each row clipped where it costs as much to go on in Q."""
        size = np.abs(A)
        falling = -np.sort(-size, axis=1)
        alpha, eps = (column[:, None] for column in self.row_numbers(len(A))[:, :2].T)
        bound = (_largest_bound if math.isinf(self.p) else _euclidean_bound)(falling, alpha, eps)
        return np.copysign(np.minimum(size, bound), A)

    def dual_norm(self, U: np.ndarray) -> np.ndarray:
        """Gauge of the two dual balls' intersection, in units of alpha."""
        seen = U if self.known is None else self.known.slopes(U)
        entries = row_norms(seen, math.inf) * (self.alpha / self.eps)
        return np.maximum(super().dual_norm(U), entries)

    def _own_problem(self) -> Any:
        """The compiled problem of one row."""
        from mmtfl.core.split_rows import SplitRow

        return SplitRow(float(self.p))

    def rescaled(self, factor: np.ndarray) -> "SplitRows":
        """The same penalty for rows measured in other units: A = factor * A_new."""
        with np.errstate(over="ignore", under="ignore"):
            return replace(self, alpha=self.alpha * factor, eps=self.eps * factor)


def _largest_bound(falling: np.ndarray, alpha: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """Smallest bound that at most alpha / eps entries exceed."""
    n_tasks = falling.shape[1]
    n_above = np.minimum(np.floor(alpha / eps * (1.0 + 1e-14)), n_tasks).astype(np.intp)
    padded = np.concatenate([falling, np.zeros((len(falling), 1))], axis=1)
    return np.take_along_axis(padded, n_above, axis=1)


def _euclidean_bound(falling: np.ndarray, alpha: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """The bound c with c = eps / alpha ||row clipped at c||, or 0.

    With the k largest entries clipped, c^2 (1 - k (eps / alpha)^2) = (eps / alpha)^2 times the square sum of
    the others; the first k whose bound is above the next entry is the one.
    """
    n_rows, n_tasks = falling.shape
    ratio = (eps / alpha) ** 2
    tails = np.zeros((n_rows, n_tasks + 1))
    tails[:, :-1] = np.cumsum(falling[:, ::-1] ** 2, axis=1)[:, ::-1]
    left = 1.0 - np.arange(n_tasks + 1) * ratio
    bounds = np.sqrt(np.divide(ratio * tails, left, out=np.zeros_like(tails), where=left > 0.0))
    following = np.concatenate([falling, np.zeros((n_rows, 1))], axis=1)
    # where nothing is left for p, the bound is 0
    first = np.argmax((bounds >= following) | (left <= 0.0), axis=1)
    return np.take_along_axis(bounds, first[:, None], axis=1)
