"""Penalties on the rows of A (features by tasks): the joint form of the family; docs/model.md section 3.

A row penalty is ``phi(||a_j||_p)``. `RowPower` has ``phi = alpha rho^r`` with ``1/r = 1/p + 1/k``: that is
``alpha S_j^e`` of eq. (2). `LogRows` is its edge at k -> 0. The compiled row problems are in `core`.

With `pooling` the tasks of a row scatter about a common part of their own, and the row's norm is the centred
one of eq. (11); docs/model.md section 10. What is known of the features (weights, signs, groups) changes how
a row is measured; docs/model.md section 11.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from mmtfl.objective import row_sizes
from mmtfl.objective.known_features import KnownFeatures, check_pooling
from mmtfl.objective.row_sizes import centred_norms, common_part, common_weight, row_norms


@dataclass(frozen=True, eq=False)
class RowPenalty(ABC):
    """What all row penalties share; `alpha` is one strength, or one per row (inf: the row is gone)."""

    p: float
    alpha: float | np.ndarray
    pooling: float = field(default=0.0, kw_only=True)  # how freely a row has a common part: eq. (10)
    known: KnownFeatures | None = field(default=None, kw_only=True)  # eq. (14) and (15)

    # of a member: the power of a row's norm that it grows with (of a logarithm 0), and its smaller number
    k: ClassVar = math.nan
    power: ClassVar = 1.0
    eps: ClassVar[Any] = 1.0

    @property
    def is_convex(self) -> bool:
        """1/p + 1/k <= 1."""
        return self.power >= 1.0

    @property
    def is_separable(self) -> bool:
        """Whether every entry is penalised by itself, so that the weights of Algorithm 1 never change."""
        return self.power == self.p and not self.is_centred

    @property
    def is_centred(self) -> bool:
        """Whether rows may have a common part; at p = 1 and pooling <= 1/2 it would always be zero."""
        return self.pooling > 0.5 or (self.pooling > 0.0 and self.p != 1.0)

    @property
    def has_groups(self) -> bool:
        """Whether some rows are penalised together."""
        return self.known is not None and self.known.groups is not None

    @property
    def free_rows(self) -> np.ndarray | bool:
        """Rows with an entry that is free of penalty."""
        return False if self.known is None else self.known.free_rows

    def norms(self, A: np.ndarray) -> np.ndarray:
        """S_j^(1/p) of every row: its p-norm, or with pooling the centred one of eq. (11).

        Rows of a group have the group's mean; eq. (15).
        """
        if self.known is not None:
            A = self.known.measured(A)
        norms = centred_norms(A, self.p, self.pooling) if self.is_centred else row_norms(A, self.p)
        return norms if self.known is None else self.known.over_groups(norms, self.p)

    def common_part(self, A: np.ndarray) -> np.ndarray:
        """What the tasks of every row scatter about, eq. (11); zeros without pooling."""
        if not self.is_centred:
            return np.zeros(len(A))
        if self.known is not None:  # what has no part in the penalty has none here
            A = np.where((self.known.scale > 0.0) & np.isfinite(self.known.scale), A, 0.0)
        return common_part(A, self.p, self.pooling)

    def value(self, A: np.ndarray) -> float:
        """The penalty of A; infinite where something forbids it."""
        if self.known is not None and not self.known.allows(A):
            return math.inf
        return self.value_at(self.norms(A))

    def feasible(self, A: np.ndarray) -> np.ndarray:
        """Project A on what the signs and infinite weights allow."""
        return A if self.known is None else self.known.feasible(A)

    def is_null(self, A: np.ndarray) -> bool:
        """Whether all penalised entries of A are zero."""
        return not (A if self.known is None else self.known.measured(A)).any()

    def whole(self, chosen: np.ndarray) -> np.ndarray:
        """A mask of rows, extended to all rows of their groups."""
        return chosen if self.known is None else self.known.whole(chosen)

    def value_at(self, norms: np.ndarray) -> float:
        """The penalty of rows of given p-norms."""
        kept = norms > 0.0  # 0 * inf: a dropped row costs nothing
        alpha = self.alpha[kept] if isinstance(self.alpha, np.ndarray) and self.alpha.ndim else self.alpha
        return float((alpha * self.shape(norms, kept)).sum())

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
        is_plain = self.known is None and not self.is_centred
        return self.is_convex and is_plain and self.p == 2.0 and self.power > 1.0

    def dual_norm(self, U: np.ndarray) -> np.ndarray:
        """Dual of each row's norm: the smallest alpha at which a norm makes the row zero; eq. (13).

        U is a gradient of the loss: where rows may not be negative its sign matters.
        """
        U = U if self.known is None else self.known.slopes(U)
        if self.is_centred:
            weight = common_weight(self.pooling, U.shape[1]) ** (1.0 / self.p)
            # the tasks' own slopes, and that of the common part
            U = np.column_stack([U, U.sum(axis=1) / weight])
        q = 1.0 if math.isinf(self.p) else math.inf if self.p == 1.0 else self.p / (self.p - 1.0)
        norms = row_norms(U, q)
        return norms if self.known is None else self.known.over_groups(norms, q)

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

    def row_numbers(self, n_rows: int) -> np.ndarray:
        """(alpha, eps) of each row: what the compiled row solver knows of one row, its strength first.

        After them, what is known of its entries: their scales, and which of them are not negative.
        """
        strengths = np.empty((n_rows, 2))
        strengths[:, 0], strengths[:, 1] = self.alpha, self.eps
        if self.known is None or not self._shapes_entries:
            return strengths
        from mmtfl.core.row_problems import GONE

        known = self.known
        strengths[known.free_rows, 0] = np.minimum(strengths[known.free_rows, 0], GONE)
        positive = np.repeat(known.positive[:, None], known.scale.shape[1], axis=1)
        return np.column_stack([strengths, known.scale, positive])

    def group_strengths(self, strengths: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """(alpha, eps) of groups of these sizes, from those of their rows; eq. (15)."""
        e = 0.0 if math.isinf(self.p) else self.power / self.p
        return np.column_stack([strengths[:, 0] * sizes ** (1.0 - e), strengths[:, 1]])

    @property
    def _shapes_entries(self) -> bool:
        return self.known is not None and self.known.shapes_entries

    def row_problem(self) -> Any:
        """The compiled problem of one row, a `RowProblem` of `mmtfl.core`."""
        from mmtfl.core.row_problems import ScaledRow

        own = self._own_problem()
        return ScaledRow(own) if self._shapes_entries else own

    def _own_problem(self) -> Any:
        """The problem of a row of which nothing else is known."""
        from mmtfl.core.pooled_rows import PooledRow
        from mmtfl.core.searched_rows import GeneralRow
        from mmtfl.core.smooth_rows import EuclideanRow
        from mmtfl.core.sum_and_max_rows import MaxNormRow, SeparableRow, SumNormRow

        p, r = float(self.p), float(self.power)
        if self.is_centred:
            n_tasks = self.known.scale.shape[1] if self.known is not None and self.has_groups else 0
            return PooledRow(p, r, self.pooling, n_tasks, logarithm=r == 0.0)
        if r == p:
            return SeparableRow(p)
        if math.isinf(p):
            return MaxNormRow(r)
        if p == 1.0:
            return SumNormRow(r, logarithm=r == 0.0)
        if p == 2.0 and r > 0.0:
            return EuclideanRow(r)
        return GeneralRow(p, r, logarithm=r == 0.0)

    def solve_rows(self, slope: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """Minimiser of each row's problem ``L/2 a^2 - g a + phi``; see `mmtfl.core.row_problems`."""
        from mmtfl.core.row_problems import solve_blocks

        out = np.empty(slope.shape)
        arrays = (np.ascontiguousarray(part, dtype=float) for part in (slope, curvature))
        solve_blocks(self.row_problem(), *arrays, *self.blocks(np.arange(len(out)), len(out)), out)
        return out

    def block_curvature(self, curvature: np.ndarray) -> np.ndarray:
        """The curvature of rows, of those of a group a bound for the group as a whole."""
        known = self.known
        return curvature if known is None or known.groups is None else known.bound_of_blocks(curvature)

    def blocks(self, rows: np.ndarray, n_rows: int) -> tuple[np.ndarray, ...]:
        """Blocks of some of all rows that are penalised together, in the layout of the core.

        Block b is members[starts[b]:starts[b + 1]] of the rows, with the numbers records[places[b]:]; of a
        group all rows must be there.
        """
        known = self.known
        if known is None or known.groups is None:
            numbers, starts = self.row_numbers(n_rows)[rows], np.arange(len(rows) + 1)
            return rows.astype(np.intp), starts, numbers.ravel(), numbers.shape[1] * starts[:-1]
        _, first, own = np.unique(known.group_index[rows], return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))[own]  # blocks in the order of their first rows
        members = rows[np.argsort(rank, kind="stable")].astype(np.intp)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rank))])
        numbers = self.row_numbers(n_rows)[members]
        leading, sizes = numbers[starts[:-1], :2], known.group_sizes[members[starts[:-1]]]
        strengths = self.group_strengths(leading, sizes)
        strengths[:, 0] = np.where(np.isinf(leading[:, 0]), np.inf, strengths[:, 0])
        scale, positive = np.hsplit(numbers[:, 2:], 2)
        parts = [
            np.concatenate([strengths[b], scale[lo:hi].ravel(), positive[lo:hi].ravel()])
            for b, (lo, hi) in enumerate(pairwise(starts))
        ]
        places = np.cumsum([0, *map(len, parts)])[:-1]
        return members, starts, np.concatenate([np.empty(0), *parts]), places

    def prox(self, Z: np.ndarray, step: float) -> np.ndarray:
        """argmin over A of ||A - Z||^2 / (2 step) + penalty(A)."""
        Z = np.asarray(Z, dtype=float)
        return self.solve_rows(Z / step, np.full(Z.shape, 1.0 / step))

    def row_violation(self, A: np.ndarray, gradient: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """Distance of each row to its own best answer, in units of the gradient; eq. (8).

        Zero exactly at the fixed points of the row problem. For the concave members that is the right
        question: at a zero row their subgradient is everything, and would call any row optimal.
        """
        from mmtfl.core.row_problems import block_violations

        if not len(A):
            return np.zeros(0)
        parts = A, gradient, self.block_curvature(curvature)
        arrays = (np.ascontiguousarray(part, dtype=float) for part in parts)
        return block_violations(self.row_problem(), *arrays, *self.blocks(np.arange(len(A)), len(A)))

    def of_rows(self, index: np.ndarray) -> Self:
        """The penalty of some of the rows."""
        numbers = vars(self).items()
        changed: dict[str, Any] = {name: n[index] for name, n in numbers if isinstance(n, np.ndarray)}
        if self.known is not None:
            changed["known"] = self.known.of_rows(index)
        return replace(self, **changed) if changed else self

    def at(self, alpha: float | np.ndarray) -> Self:
        """The same member at another strength."""
        return replace(self, alpha=alpha)

    def weighted(self, weights: float | np.ndarray) -> "RowPower":
        """The majoriser sum_j w_j S_j of given weights, which is a member with k = inf."""
        known = None if self.known is None else self.known.without_groups()
        known = None if known is None else replace(known, power=float(self.p))
        return RowPower(self.p, weights, math.inf, pooling=self.pooling, known=known)

    def convex(self) -> "RowPower":
        """The (2, 2) member at the same strength."""
        known = None if self.known is None else self.known.for_power(1.0)
        return RowPower(2, self.alpha, 2, pooling=self.pooling, known=known)


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

    def shape(self, norms, kept):
        """phi / alpha on the kept rows."""
        return norms[kept] ** self.power

    def weights_at(self, norms: np.ndarray) -> np.ndarray:
        """alpha e S_j^(e-1)."""
        if self.power == self.p:
            return np.broadcast_to(np.asarray(self.alpha, dtype=float), norms.shape).copy()
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            weights = self.alpha * (self.power / self.p) * norms ** (self.power - self.p)
        return np.where(np.isnan(weights), np.inf, weights)  # 0 * inf: a zero row, whatever its strength

    def start_weight(self) -> float | np.ndarray:
        """The weight at c = 1 and gamma1 = gamma2, where Algorithm 1 starts."""
        return self.alpha / row_sizes.elimination_constant(self.p, self.k)

    def shared_part(self, A: np.ndarray, ratio: float = 1.0) -> np.ndarray:
        """c of eq. (3)."""
        return row_sizes.shared_part(self.norms(A), self.p, self.k, ratio)

    def rescaled(self, factor: np.ndarray) -> "RowPower":
        """The same penalty for rows measured in other units: A = factor * A_new."""
        if self.known is not None and self.has_groups:
            return replace(self, known=self.known.rescaled(factor))
        with np.errstate(over="ignore", under="ignore"):
            return replace(self, alpha=self.alpha * factor**self.power)

    def dual_gap(self, primal, gradient, dual_loss):
        """Duality gap, eq. (9); None for the concave members, and where an entry is free of penalty."""
        if not self.is_convex or np.any(self.free_rows):
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
    k: ClassVar = 0.0
    power: ClassVar = 0.0

    @property
    def power_near_zero(self) -> float:
        """p: for small rows the logarithm is S / eps."""
        return self.p

    def shape(self, norms, kept):
        """phi / alpha on the kept rows."""
        return row_sizes.log_powers(norms[kept], self.p, np.broadcast_to(self.eps, norms.shape)[kept])

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
        if self.known is not None and self.has_groups:
            return replace(self, known=self.known.rescaled(factor))
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return replace(self, eps=self.eps / factor**self.p)

    def group_strengths(self, strengths: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """(alpha, eps) of groups of these sizes, from those of their rows; eq. (15)."""
        return strengths * sizes[:, None]


def make_penalty(
    p: float, k: float | str, alpha: float, *, eps: float = 1e-2, pooling: float = 0.0,
    known: KnownFeatures | None = None,
) -> RowPower | LogRows:  # fmt: skip
    """The member (p, k) of the family at strength alpha; k = "log" is the edge k -> 0.

    `known` has the weights of the features, with power 1, their signs and their groups.

    Examples
    --------
    >>> make_penalty(2, 1, 0.5).power == 2 / 3
    True
    >>> import numpy as np
    >>> alike = np.array([[1.0, 1.0]])               # with pooling, tasks that agree cost less
    >>> [round(make_penalty(2, 2, 1.0, pooling=theta).value(alike), 4) for theta in (0.0, 0.5, 0.98)]
    [1.4142, 1.0, 0.2]
    """
    if isinstance(k, str) and k != "log":
        raise ValueError(f"k must be a positive number or 'log', got {k!r}.")
    row_sizes.check_exponents(p, 1.0 if isinstance(k, str) else k)
    check_pooling(p, pooling, known)
    if isinstance(k, str):
        if math.isinf(p):
            raise ValueError("k='log' needs a finite p: the sum S_j has no limit at p = inf. Try p = 1 or 2.")
        plain: RowPower | LogRows = LogRows(p, alpha, eps=eps, pooling=pooling)
    else:
        plain = RowPower(p, alpha, k, pooling=pooling)
    if known is not None and plain.power == p:
        known = known.without_groups()  # k = inf: nothing is shared
    if known is None:
        return plain
    return replace(plain, known=known.for_power(plain.power_near_zero))
