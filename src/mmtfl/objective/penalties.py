"""Penalties on the rows of A (features by tasks): the joint form of the family; docs/model.md section 3.

A row penalty is ``phi(||a_j||_p)``. `RowPower` has ``phi = alpha rho^r`` with ``1/r = 1/p + 1/k``: that is
``alpha S_j^e`` of eq. (2). `LogRows` is its edge at k -> 0. The compiled row problem is in `kernels`.

With `pooling` the tasks of a row scatter about a common part of their own, and the row's norm is the centred
one of eq. (11); docs/model.md section 10.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from mmtfl.objective import product

_SAFE = 1e140  # entries up to this size can be squared and summed


def row_norms(A: np.ndarray, p: float) -> np.ndarray:
    """p-norm of each row, scaled where a power could overflow."""
    size = np.abs(A)
    if p == 1.0:
        return size.sum(axis=1)
    if p == 2.0 and 1.0 / _SAFE < size.max(initial=0.0) < _SAFE:
        return np.sqrt(np.einsum("ij,ij->i", A, A))
    largest = size.max(axis=1, initial=0.0)
    if math.isinf(p):
        return largest
    unit = np.divide(size, largest[:, None], out=np.zeros_like(size), where=largest[:, None] > 0.0)
    return largest * np.sum(unit**p, axis=1) ** (1.0 / p)


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


@dataclass(frozen=True, eq=False)
class RowPenalty(ABC):
    """What all row penalties share; `alpha` is one strength, or one per row (inf: the row is gone)."""

    p: float
    alpha: float | np.ndarray
    pooling: float = field(default=0.0, kw_only=True)  # how freely a row has a common part: eq. (10)

    # what a member says of itself: plain class attributes, not fields
    k: ClassVar = math.nan
    kind: ClassVar[int] = 0
    power: ClassVar = 1.0
    eps: ClassVar[Any] = 1.0
    is_convex: ClassVar = False
    is_norm: ClassVar = False  # of each row: the dual norm then tells whether a row is zero
    is_separable: ClassVar = False  # every entry for itself, so the weights of Algorithm 1 never change

    @property
    def is_centred(self) -> bool:
        """Whether rows may have a common part; at p = 1 and pooling <= 1/2 it would always be zero."""
        return self.pooling > 0.5 or (self.pooling > 0.0 and self.p != 1.0)

    def norms(self, A: np.ndarray) -> np.ndarray:
        """S_j^(1/p) of every row: its p-norm, or with pooling the centred one of eq. (11)."""
        return centred_norms(A, self.p, self.pooling) if self.is_centred else row_norms(A, self.p)

    def common_part(self, A: np.ndarray) -> np.ndarray:
        """What the tasks of every row scatter about, eq. (11); zeros without pooling."""
        return common_part(A, self.p, self.pooling) if self.is_centred else np.zeros(len(A))

    def value(self, A: np.ndarray) -> float:
        """The penalty of A."""
        return self.value_at(self.norms(A))

    def value_at(self, norms: np.ndarray) -> float:
        """The penalty of rows of given p-norms."""
        kept = norms > 0.0  # 0 * inf: a dropped row costs nothing
        return float(np.sum(np.broadcast_to(self.alpha, norms.shape)[kept] * self.shape(norms, kept)))

    @abstractmethod
    def shape(self, norms: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """phi / alpha on the kept rows."""

    @abstractmethod
    def weights_at(self, norms: np.ndarray) -> np.ndarray:
        """Weights w_j of the majoriser sum_jt w_j |a_jt|^p at rows of given p-norms; inf for a zero row.

        This is gamma1 c_j^-p of the product form, so it is the c-step of Algorithm 1; eq. (7).
        """

    @abstractmethod
    def start_weight(self) -> float | np.ndarray:
        """The weight at which Algorithm 1 starts."""

    @abstractmethod
    def shared_part(self, A: np.ndarray, ratio: float = 1.0) -> np.ndarray:
        """c of the product form."""

    @abstractmethod
    def rescaled(self, factor: np.ndarray) -> Self:
        """The same penalty for rows measured in other units: A = factor * A_new."""

    def weights(self, A: np.ndarray) -> np.ndarray:
        """The weights at A."""
        return self.weights_at(self.norms(A))

    @property
    def power_near_zero(self) -> float:
        """The power of a small row's norm that the penalty grows with; above 1 no row is ever zero."""
        return self.power

    @property
    def is_ridge_like(self) -> bool:
        """Whether no row is ever dropped and each task, given the weights, has a ridge problem of its own."""
        return self.is_convex and self.p == 2.0 and self.power > 1.0 and not self.is_centred

    def dual_norm(self, U: np.ndarray) -> np.ndarray:
        """Dual of each row's norm: the smallest alpha at which a norm makes the row zero; eq. (13)."""
        if self.is_centred:
            weight = common_weight(self.pooling, U.shape[1]) ** (1.0 / self.p)
            # the tasks' own slopes, and that of the common part
            return self._dual_p_norm(np.column_stack([U, U.sum(axis=1) / weight]))
        return self._dual_p_norm(U)

    def _dual_p_norm(self, U: np.ndarray) -> np.ndarray:
        if self.p == 1.0:
            return row_norms(U, math.inf)
        return row_norms(U, 1.0 if math.isinf(self.p) else self.p / (self.p - 1.0))

    def dual_gap(
        self, primal: float, gradient: np.ndarray, dual_loss: Callable[[float], float]
    ) -> float | None:
        """Duality gap, eq. (9), given the loss's dual value at a share of its dual point.

        None for the concave members, which have no dual.
        """
        return None

    def small_alpha(self, gradient: np.ndarray, size: np.ndarray) -> float:
        """The alpha, in units of this one's, at which rows of these sizes balance the gradient."""
        power = self.power_near_zero
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # told by the caller
            slope = self.alpha * power * size ** (power - 1.0) / self.eps
            norms = self.dual_norm(gradient)
            return float(np.max(np.divide(norms, slope, out=np.zeros_like(norms), where=slope > 0.0)))

    @property
    def member_numbers(self) -> np.ndarray:
        """(p, r, pooling): what the compiled row solver knows of all rows."""
        return np.array([self.p, self.power, self.pooling], dtype=float)

    def row_numbers(self, n_rows: int) -> np.ndarray:
        """(alpha, eps) of each row: what the compiled row solver knows of one row, its strength first."""
        out = np.empty((n_rows, 2))
        out[:, 0], out[:, 1] = self.alpha, self.eps
        return out

    @property
    def has_short_cut(self) -> bool:
        """Whether the row solver can look for the nearest local minimum only; see `kernels`."""
        return (self.p not in (2.0, math.inf) or self.is_centred) and not self.is_convex

    def row_solver(self) -> Any:
        """Compiled solver of this member's row problem."""
        from mmtfl.kernels import centred_rows, row_problem

        if self.is_centred:
            return centred_rows.row_solver(self.kind)
        return row_problem.row_solver(self.kind, float(self.p), float(self.power))

    def solve_rows(self, slope: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """Minimiser of each row's problem ``L/2 a^2 - g a + phi``; see `mmtfl.kernels.row_problem`."""
        from mmtfl.kernels import row_problem

        out = np.empty(slope.shape)
        slope = np.array(slope, dtype=float, order="C")  # the row solver may change it
        row_problem.solve_rows(
            self.row_solver(), slope, np.ascontiguousarray(curvature), self.member_numbers,
            self.row_numbers(len(slope)), out,
        )  # fmt: skip
        return out

    def prox(self, Z: np.ndarray, step: float) -> np.ndarray:
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        Z = np.asarray(Z, dtype=float)
        return self.solve_rows(Z / step, np.full(Z.shape, 1.0 / step))

    def row_violation(self, A: np.ndarray, gradient: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """Distance of each row to its own best answer, in units of the gradient; eq. (8).

        Zero exactly at the fixed points of the row problem. For the concave members that is the right
        question: at a zero row their subgradient is everything, and would call any row optimal.
        """
        from mmtfl.kernels import row_problem

        arrays = (np.ascontiguousarray(part) for part in (A, gradient, curvature))
        return row_problem.row_violations(
            self.row_solver(), *arrays, self.member_numbers, self.row_numbers(len(A))
        )

    def _check_pooling(self) -> None:
        if not 0.0 <= self.pooling < 1.0:
            raise ValueError(f"pooling must be at least 0 and below 1, got {self.pooling!r}. Try 0.5 or 0.9.")
        if self.pooling > 0.0 and self.p not in (1.0, 2.0):
            raise ValueError(f"pooling needs p = 1 or p = 2, got p={self.p:g}: for other p use pooling=0.")

    def of_rows(self, index: np.ndarray) -> Self:
        """The penalty of some of the rows."""
        numbers = {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}
        changed = {name: values[index] for name, values in numbers.items() if values.ndim > 0}
        return replace(self, **changed) if changed else self

    def at(self, alpha: float | np.ndarray) -> Self:
        """The same member at another strength."""
        return replace(self, alpha=alpha)

    def weighted(self, weights: float | np.ndarray) -> "RowPower":
        """The majoriser sum_j w_j S_j of given weights, which is a member with k = inf."""
        return RowPower(self.p, weights, math.inf, pooling=self.pooling)


@dataclass(frozen=True, eq=False)
class RowPower(RowPenalty):
    """alpha * sum_j ||A[j]||_p^r with 1/r = 1/p + 1/k; eq. (2).

    Examples
    --------
    >>> import numpy as np
    >>> A = np.array([[3.0, 4.0], [0.0, 0.0]])
    >>> RowPower(2, 1.0, 2).value(A)                     # l2,1: MultiTaskLasso
    5.0
    >>> RowPower(2, 1.0, 2).prox(A, step=1.0)
    array([[2.4, 3.2],
           [0. , 0. ]])
    """

    k: float = 1.0  # type: ignore[misc]

    def __post_init__(self) -> None:
        product.check_exponents(self.p, self.k)
        self._check_pooling()

    @cached_property
    def power(self) -> float:  # type: ignore[override]
        """r = pk / (p + k)."""
        if math.isinf(self.k):
            return float(self.p)
        if math.isinf(self.p):
            return float(self.k)
        power = self.p * self.k / (self.p + self.k)
        # k = p / (p - 1) in floating point must still be the norm itself
        return 1.0 if abs(power - 1.0) < 1e-12 else power

    @property
    def is_convex(self) -> bool:  # type: ignore[override]
        """1/p + 1/k <= 1."""
        return self.power >= 1.0

    @property
    def is_norm(self) -> bool:  # type: ignore[override]
        """1/p + 1/k = 1."""
        return self.power == 1.0

    @property
    def is_separable(self) -> bool:  # type: ignore[override]
        """k = inf, and no common part."""
        return self.power == self.p and not self.is_centred

    def shape(self, norms, kept):
        """phi / alpha on the kept rows."""
        return norms[kept] ** self.power

    def weights_at(self, norms: np.ndarray) -> np.ndarray:
        """alpha e S_j^(e-1)."""
        if self.power == self.p:
            return np.broadcast_to(np.asarray(self.alpha, dtype=float), norms.shape).copy()
        with np.errstate(divide="ignore", over="ignore"):
            return self.alpha * (self.power / self.p) * norms ** (self.power - self.p)

    def start_weight(self) -> float | np.ndarray:
        """The weight at c = 1 and gamma1 = gamma2, where Algorithm 1 starts."""
        return self.alpha / product.elimination_constant(self.p, self.k)

    def shared_part(self, A: np.ndarray, ratio: float = 1.0) -> np.ndarray:
        """c of eq. (3)."""
        return product.shared_part(self.norms(A), self.p, self.k, ratio)

    def rescaled(self, factor: np.ndarray) -> "RowPower":
        """The same penalty for rows measured in other units: A = factor * A_new."""
        with np.errstate(over="ignore", under="ignore"):
            return replace(self, alpha=self.alpha * factor**self.power)

    def dual_gap(self, primal, gradient, dual_loss):
        """Duality gap, eq. (9); None for the concave members."""
        if not self.is_convex:
            return None
        norms = self.dual_norm(gradient)
        best = -math.inf
        for shrink in self._dual_scales(norms):
            best = max(best, dual_loss(shrink) - self.conjugate(shrink * norms))
        return max(primal - best, 0.0)

    def _dual_scales(self, norms: np.ndarray) -> list[float]:
        """By how much to shrink a dual point whose rows have these dual norms: a few that may be best."""
        with np.errstate(divide="ignore", over="ignore"):
            ratio = np.divide(self.alpha, norms, out=np.full(len(norms), np.inf), where=norms > 0.0)
        if self.power == 1.0:
            return [min(1.0, float(ratio.min(initial=1.0)))]
        if self.power < 1.5:
            return [1.0, min(1.0, float(ratio.min(initial=1.0)) * self.power)]
        return [1.0]

    def conjugate(self, dual_norms: np.ndarray) -> float:
        """Convex conjugate summed over rows of given dual norms (convex members only); inf if infeasible."""
        r = self.power
        if r == 1.0:
            return 0.0 if np.all(dual_norms <= self.alpha * (1.0 + 1e-12)) else math.inf
        with np.errstate(over="ignore", divide="ignore"):
            size = (dual_norms / (self.alpha * r)) ** (1.0 / (r - 1.0))
            return float(np.sum(dual_norms * (1.0 - 1.0 / r) * size))


@dataclass(frozen=True, eq=False)
class LogRows(RowPenalty):
    """alpha * sum_j log(1 + S_j / eps), S_j = sum_t |a_jt|^p: the k -> 0 edge, eq. (6).

    The MAP objective T sum_j ln ||a_j||_q of the generalised normal prior has no minimum: it falls without
    bound at zero rows. eps > 0 makes it well-posed.

    Examples
    --------
    >>> import numpy as np
    >>> round(LogRows(1, 1.0, eps=1.0).value(np.array([[1.0, -1.0]])), 6)      # log 3
    1.098612
    """

    eps: float | np.ndarray = 1e-2  # type: ignore[misc]
    kind: ClassVar[int] = 1
    k: ClassVar = 0.0

    def __post_init__(self) -> None:
        product.check_exponents(self.p, 1.0)
        if math.isinf(self.p):
            raise ValueError("k='log' needs a finite p: the sum S_j has no limit at p = inf. Try p = 1 or 2.")
        self._check_pooling()

    @property
    def power_near_zero(self) -> float:
        """p: for small rows the logarithm is S / eps."""
        return self.p

    def shape(self, norms, kept):
        """phi / alpha on the kept rows."""
        return np.log1p(norms[kept] ** self.p / np.broadcast_to(self.eps, norms.shape)[kept])

    def weights_at(self, norms: np.ndarray) -> np.ndarray:
        """alpha / (eps + S_j)."""
        return self.alpha / (self.eps + norms**self.p)

    def start_weight(self) -> float | np.ndarray:
        """The weight of a row with S_j = 1."""
        return self.alpha / (self.eps + 1.0)

    def shared_part(self, A: np.ndarray, ratio: float = 1.0) -> np.ndarray:
        """c as k -> 0: the row's norm, so that every kept row of B has norm one."""
        return self.norms(A)

    def rescaled(self, factor: np.ndarray) -> "LogRows":
        """The same penalty for rows measured in other units: A = factor * A_new."""
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return replace(self, eps=self.eps / factor**self.p)


def make_penalty(
    p: float, k: float | str, alpha: float, *, eps: float = 1e-2, pooling: float = 0.0
) -> RowPower | LogRows:
    """The member (p, k) of the family at strength alpha; k = "log" is the edge k -> 0.

    Examples
    --------
    >>> make_penalty(2, 1, 0.5).power == 2 / 3
    True
    >>> import numpy as np
    >>> alike = np.array([[1.0, 1.0]])               # with pooling, tasks that agree cost less
    >>> [round(make_penalty(2, 2, 1.0, pooling=theta).value(alike), 4) for theta in (0.0, 0.5, 0.98)]
    [1.4142, 1.0, 0.2]
    """
    if isinstance(k, str):
        if k != "log":
            raise ValueError(f"k must be a positive number or 'log', got {k!r}.")
        return LogRows(p, alpha, eps=eps, pooling=pooling)
    return RowPower(p, alpha, k, pooling=pooling)
