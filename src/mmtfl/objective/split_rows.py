"""A row norm of P with the entries of Q: eliminating the split leaves one row penalty of A = P + Q.

    phi(a) = min over p + q = a of   alpha1 ||p|| + alpha2 ||q||_1

is a norm of the row, so row descent serves this pair as it serves the family; docs/additive.md section 3.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmtfl.objective.norms import EntryNorm, RowNorm
from mmtfl.objective.penalties import RowPower, row_norms

_ROUNDING = 1e-13  # a rest of this share of its entry is none


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
    def of(cls, shared: RowNorm, specific: EntryNorm) -> "SplitRows":
        """The penalty of a pair."""
        return cls(shared.p, shared.alpha, 1.0 if math.isinf(shared.p) else 2.0, specific.alpha)

    def value(self, A: np.ndarray) -> float:
        """The penalty of A."""
        P = self.shared_of(A)
        entries = np.abs(A - P).sum(axis=1)
        return float(np.sum(self.alpha * row_norms(P, self.p)) + np.sum(self.eps * entries))

    def split(self, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best P and Q = A - P."""
        P = self.shared_of(A)
        Q = A - P
        Q[np.abs(Q) <= _ROUNDING * np.abs(A)] = 0.0
        return np.where(Q == 0.0, A, P), Q

    def shared_of(self, A: np.ndarray) -> np.ndarray:
        """P: the entries of each row clipped where it costs as much to go on in Q."""
        size = np.abs(A)
        falling = -np.sort(-size, axis=1)
        alpha, eps = (column[:, None] for column in self.row_numbers(len(A)).T)
        bound = (_largest_bound if math.isinf(self.p) else _euclidean_bound)(falling, alpha, eps)
        return np.copysign(np.minimum(size, bound), A)

    def dual_norm(self, U: np.ndarray) -> np.ndarray:
        """Gauge of the two dual balls' intersection, in units of alpha."""
        entries = row_norms(U, math.inf) * (self.alpha / self.eps)
        return np.maximum(super().dual_norm(U), entries)

    def row_solver(self) -> Any:
        """Compiled solver of the row problem."""
        from mmtfl.kernels import split_rows_problem

        return split_rows_problem.row_solver(self.p)

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
