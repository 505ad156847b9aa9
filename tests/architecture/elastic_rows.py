"""A new penalty on rows with one more number: the elastic row norm alpha (||a|| + ridge/2 ||a||^2)."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numba import carray

from mmtfl.kernels.row_problem import compiled_row_solver
from mmtfl.objective.penalties import RowPenalty, row_norms


def solve_elastic_row(g_at, L_at, n, member, row, present, thorough, out_at):
    """The row solver: minimise L/2 a^2 - g a + alpha (rho + ridge/2 rho^2) over one row a of norm rho.

    A kept row has a = g / (L + alpha ridge + alpha / rho), so rho solves
    ||g / ((L + alpha ridge) rho + alpha)|| = 1, whose left side falls in rho: bisection finds it. `row` holds
    the two numbers of this row.
    """
    g, L, out = carray(g_at, n), carray(L_at, n), carray(out_at, n)
    alpha, ridge = row[0], row[1]
    steepest = 0.0
    for t in range(n):
        out[t] = 0.0
        if L[t] > 0.0:  # a task without curvature has a constant feature: its coefficient is zero
            steepest += g[t] * g[t]
    steepest = math.sqrt(steepest)
    if steepest <= alpha:
        return
    low, high = 0.0, np.inf
    for t in range(n):
        if L[t] > 0.0:
            high = min(high, L[t])
    high = (steepest - alpha) / (high + alpha * ridge)  # where ||g|| / (least curvature rho + alpha) = 1
    while high - low > 1e-15 * high:
        rho = 0.5 * (low + high)
        if rho <= low or rho >= high:
            break
        total = 0.0
        for t in range(n):
            if L[t] > 0.0:
                total += (g[t] / ((L[t] + alpha * ridge) * rho + alpha)) ** 2
        if total > 1.0:
            low = rho
        else:
            high = rho
    for t in range(n):
        if L[t] > 0.0:
            out[t] = g[t] / (L[t] + alpha * ridge + alpha / high)


@dataclass(frozen=True, eq=False)
class ElasticRows(RowPenalty):
    """alpha * sum_j (||A[j]|| + ridge/2 ||A[j]||^2)."""

    ridge: float | np.ndarray = 1.0

    is_convex: ClassVar = True
    is_norm: ClassVar = True  # near zero: the dual norm tells whether a row is zero

    def shape(self, norms, kept):
        """phi / alpha on the kept rows."""
        ridge = np.broadcast_to(self.ridge, norms.shape)[kept]
        return norms[kept] + 0.5 * ridge * norms[kept] ** 2

    def row_numbers(self, n_rows):
        """(alpha, ridge) of each row, for the row solver."""
        out = np.empty((n_rows, 2))
        out[:, 0], out[:, 1] = self.alpha, self.ridge
        return out

    def row_solver(self):
        """Address of the compiled row solver."""
        return compiled_row_solver(solve_elastic_row).address

    def weights_at(self, norms):
        """phi'(rho) / (2 rho): the weight of the parabola above phi, for Algorithm 1."""
        with np.errstate(divide="ignore"):
            return 0.5 * self.alpha * (1.0 / norms + self.ridge)

    def start_weight(self):
        """The weight at a row of norm one."""
        return 0.5 * self.alpha * (1.0 + self.ridge)

    def shared_part(self, A, ratio=1.0):
        """c of the product form of the norm."""
        return np.sqrt(row_norms(A, 2.0))

    def rescaled(self, factor):
        """The same penalty for rows measured in other units: A = factor * A_new."""
        return replace(self, alpha=self.alpha * factor, ridge=self.ridge * factor)

    def dual_gap(self, primal, gradient, dual_loss):
        """Primal minus dual value: the conjugate of phi at u is max(u - alpha, 0)^2 / (2 alpha ridge)."""
        over = np.maximum(self.dual_norm(gradient) - self.alpha, 0.0)
        return max(primal - dual_loss(1.0) + float(np.sum(over**2 / (2.0 * self.alpha * self.ridge))), 0.0)
