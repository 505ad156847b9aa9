"""A new penalty on rows with one more number: the elastic row norm alpha (||a|| + ridge/2 ||a||^2)."""

from ctypes import CFUNCTYPE, POINTER, c_double, c_int, c_ssize_t, c_void_p
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq

from mmtfl.core.row_problems import ForeignRow
from mmtfl.objective.penalties import RowPenalty, row_norms

NUMBERS = POINTER(c_double)


@CFUNCTYPE(None, c_ssize_t, NUMBERS, NUMBERS, NUMBERS, NUMBERS, c_int, NUMBERS, c_void_p)
def solve_elastic_row(n, g, L, numbers, present, thorough, out, _):
    """The row solver: minimise L/2 a^2 - g a + alpha (rho + ridge/2 rho^2) over one row a of norm rho.

    A kept row has a = g / (L + alpha ridge + alpha / rho), so rho solves
    ||g / ((L + alpha ridge) rho + alpha)|| = 1, whose left side falls in rho. `numbers` belong to this row.
    """
    g, L, out = (np.ctypeslib.as_array(part, (n,)) for part in (g, L, out))
    alpha, ridge = numbers[0], numbers[1]
    g = np.where(L > 0.0, g, 0.0)  # a task without curvature has a constant feature: its coefficient is zero
    steepest = np.linalg.norm(g)
    if steepest <= alpha:
        out[:] = 0.0
        return

    def excess(rho):
        return np.linalg.norm(g / ((L + alpha * ridge) * rho + alpha)) - 1.0

    top = (steepest - alpha) / (L[L > 0.0].min() + alpha * ridge)  # where the least curvature alone gives one
    rho = brentq(excess, 0.0, top * (1.0 + 1e-12), xtol=1e-300, rtol=1e-15)
    out[:] = g / (L + alpha * ridge + alpha / rho)


@dataclass(frozen=True, eq=False)
class ElasticRows(RowPenalty):
    """alpha * sum_j (||A[j]|| + ridge/2 ||A[j]||^2)."""

    ridge: float | np.ndarray = 1.0

    power: ClassVar = 1.0  # near zero it is a norm, so that the dual norm tells whether a row is zero

    def shape(self, norms, kept):
        """phi / alpha on the kept rows."""
        ridge = np.broadcast_to(self.ridge, norms.shape)[kept]
        return norms[kept] + 0.5 * ridge * norms[kept] ** 2

    def row_numbers(self, n_rows):
        """(alpha, ridge) of each row, for the row solver."""
        out = np.empty((n_rows, 2))
        out[:, 0], out[:, 1] = self.alpha, self.ridge
        return out

    def row_problem(self):
        """The row solver, for the compiled core."""
        return ForeignRow(solve_elastic_row)

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
