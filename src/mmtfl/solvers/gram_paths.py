"""Paths of the squared loss on Gram matrices: each is one compiled call that needs no interpreter.

Where features are of moderate number this takes a tenth of the time of `solve_path`, and threads run side by
side. It is as exact as held-out scores need, and no more.
"""

import math
from typing import NamedTuple

import numpy as np

from mmtfl.objective.penalties import RowPenalty, RowPower
from mmtfl.objective.problem import Problem
from mmtfl.solvers.working_set import WorkingSet

_MOST_FEATURES = 1024
_MOST_ENTRIES = 1 << 24  # of all Gram matrices of a problem
_CONVEX, _CONCAVE = 0.1, 10.0  # largest move of a row, squared, in units of tol^2 and the objective at zero
_START = 1e-4  # the same on the way to a dense start
_START_SWEEPS, _MAX_SWEEPS = 50, 200
_NOTHING = 1e-4  # a row this small against the largest is dropped from a dense start


class GramSolutions(NamedTuple):
    """Solutions along a path: coefficients (n, d, T), intercepts, objectives, and which have settled."""

    A: np.ndarray
    intercepts: np.ndarray
    objectives: np.ndarray
    settled: np.ndarray


class GramPaths:
    """Solves one problem under many penalties; what they need of the data is made once.

    Parameters
    ----------
    problem : Problem
        Of the squared loss, and with columns of moderate size; see `serves`.
    """

    def __init__(self, problem: Problem):
        design = problem.design
        columns = WorkingSet(design, problem.loss)
        columns.add(np.arange(design.n_features))
        ends = columns.start + columns.length
        parts = [columns.x[:, a:b] for a, b in zip(columns.start, ends, strict=True)]
        residual = columns.root * (design.y - design.spread(problem.null_intercept))
        self.problem = problem
        self._gram = np.array([part @ part.T for part in (parts[:1] if columns.shared else parts)])
        self._slopes = np.array(
            [part @ residual[rows] for part, (_, rows) in zip(parts, design.segments(), strict=True)]
        )
        self._means, self._curvature = columns.base.means, columns.base.curvature

    @staticmethod
    def serves(problem: Problem, penalty: RowPenalty) -> bool:
        """Whether paths of a penalty on a problem are best solved this way."""
        design = problem.design
        fits = design.n_features <= min(_MOST_FEATURES, math.isqrt(_MOST_ENTRIES // design.n_tasks))
        quick = penalty.is_separable or not penalty.is_ridge_like
        return problem.loss.is_quadratic and fits and quick and problem.moderated()[1] is None

    def solve(
        self, penalty: RowPenalty, alphas: np.ndarray, *, start: np.ndarray | None, max_iter: int, tol: float
    ) -> GramSolutions:
        """Solve at every alpha, largest first, from `start` (d, T) or from where `solve_path` begins."""
        if penalty.is_separable and penalty.p == 2.0:
            return self._with_objectives(
                penalty, alphas, self._ridge(alphas), np.ones(len(alphas), dtype=bool)
            )
        convex = penalty.is_convex
        if start is None:
            start = np.zeros_like(self._curvature) if convex else self._dense_start(penalty.at(alphas[-1]))
        order = alphas if convex else alphas[::-1]
        share = (_CONVEX if convex else _CONCAVE) * tol**2
        A, gains, settled = self._descend(penalty, order, start, share, max_iter, _MAX_SWEEPS)
        if not convex:
            A, gains, settled = A[::-1], gains[::-1], settled[::-1]
        found = self._with_objectives(penalty, alphas, A, settled, gains)
        return found if convex else self._zero_where_better(found)

    def violations(self, penalty: RowPenalty, alphas: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Distance to stationarity of each solution, eq. (8), as a share of the largest slope at zero."""
        found = [
            penalty.at(alpha).row_violation(rows, -self._slopes_at(rows).T, self._curvature).max(initial=0.0)
            for alpha, rows in zip(alphas, A, strict=True)
        ]
        return np.array(found) / self.problem.scale

    def _slopes_at(self, A: np.ndarray) -> np.ndarray:
        return self._slopes - np.matmul(self._gram, A.T[:, :, None])[:, :, 0]

    def _descend(self, penalty: RowPenalty, alphas, start, share: float, max_rounds: int, max_sweeps: int):
        from mmtfl.kernels.gram_descent import gram_path

        d, n = len(start), len(alphas)
        A, gains, settled = np.empty((n, *start.shape)), np.empty(n), np.empty(n, dtype=bool)
        numbers = np.array([penalty.at(alpha).row_numbers(d) for alpha in alphas])
        gram_path(
            penalty.row_solver(), self._gram, self._curvature, self._slopes, self._slopes_at(start),
            start.copy(), penalty.member_numbers, numbers, penalty.has_short_cut, penalty.is_convex,
            share * self.problem.null_value, max_rounds, max_sweeps, A, gains, settled,
        )  # fmt: skip
        return A, gains, settled

    def _dense_start(self, penalty: RowPenalty) -> np.ndarray:
        """The first pass of Algorithm 1 without its smallest rows; at p = inf the (2, 2) solution."""
        if math.isinf(penalty.p):
            entries = RowPower(2, penalty.alpha, 2)
        else:
            entries = penalty.weighted(penalty.start_weight())
        zero = np.zeros_like(self._curvature)
        # one round finds the rows, the other moves them
        A = self._descend(entries, [entries.alpha], zero, _START, 2, _START_SWEEPS)[0][0]
        norms = penalty.norms(A)
        A[norms <= _NOTHING * norms.max(initial=0.0)] = 0.0
        return A

    def _ridge(self, alphas: np.ndarray) -> np.ndarray:
        """Ridge of every task at every alpha, from the eigenvectors of its Gram matrix."""
        A = np.empty((len(alphas), *self._curvature.shape))
        for t, slopes in enumerate(self._slopes):
            if t < len(self._gram):
                values, vectors = np.linalg.eigh(self._gram[t])
                values = np.maximum(values, 0.0)  # rounding may leave one below zero
            A[:, :, t] = (vectors.T @ slopes / (values + 2.0 * alphas[:, None])) @ vectors.T
        return A

    def _with_objectives(self, penalty, alphas, A, settled, gains=None) -> GramSolutions:
        if gains is None:
            gains = np.array([0.5 * np.sum(rows.T * (self._slopes_at(rows) + self._slopes)) for rows in A])
        values = [penalty.at(alpha).value(rows) for alpha, rows in zip(alphas, A, strict=True)]
        intercepts = self.problem.null_intercept - np.einsum("jt,ijt->it", self._means, A)
        return GramSolutions(A, intercepts, self.problem.null_value - gains + np.array(values), settled)

    def _zero_where_better(self, found: GramSolutions) -> GramSolutions:
        """Zero at every alpha from the smallest at which it is as good: it is then better at all above."""
        as_good = np.flatnonzero(found.objectives >= self.problem.null_value)
        if as_good.size:
            up_to = as_good[-1] + 1
            found.A[:up_to], found.intercepts[:up_to] = 0.0, self.problem.null_intercept
            found.objectives[:up_to], found.settled[:up_to] = self.problem.null_value, True
        return found
