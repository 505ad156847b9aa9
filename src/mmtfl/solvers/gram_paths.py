"""Paths on Gram matrices: each is one compiled call that needs no interpreter.

Where features are of moderate number this takes a tenth of the time of `solve_path`, and threads run side by
side. It is as exact as held-out scores need, and no more. The squared loss has one Gram matrix per task; the
logistic loss has a new one for every least-squares model of it.
"""

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from mmtfl.objective.design import CONSTANT
from mmtfl.objective.known_features import blocks_of
from mmtfl.objective.losses import Logistic
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.group_sweeps import block_model
from mmtfl.solvers.working_set import WorkingSet

_MOST_FEATURES, _MOST_IN_GROUPS, _MOST_LOGISTIC = 1024, 256, 256
_MOST_ENTRIES = 1 << 24  # of all Gram matrices of a problem
_CONVEX, _CONCAVE = 0.1, 30.0  # largest move of a row, squared, in units of tol^2 and the objective at zero
_LASSO = 0.3  # of tol: single entries cost little
_ONE = 0.1  # of tol, where a solution stands alone
_START = 1e-4  # the same on the way to a dense start
_START_SWEEPS, _MAX_SWEEPS, _MAX_BLOCK_SWEEPS, _MAX_MODELS = 50, 200, 1000, 100
_FINE, _FINE_ROUNDS, _FINE_SWEEPS = 1e-23, 20, 1000  # the same for one solution that is to be exact
_NOTHING = 1e-4  # a row this small against the largest is dropped from a dense start


class GramSolutions(NamedTuple):
    """Solutions along a path: coefficients (n, d, T), intercepts, losses, and which have settled."""

    A: np.ndarray
    intercepts: np.ndarray
    losses: np.ndarray
    settled: np.ndarray


class CompiledPaths(ABC):
    """Solves one problem under many penalties; what they need of the data is made once.

    Parameters
    ----------
    problem : Problem
        With columns of moderate size; see `serves`.
    """

    def __init__(self, problem: Problem):
        self.problem, self._units = problem.moderated()
        self.columns = WorkingSet(self.problem.design, self.problem.loss)
        self.columns.add(np.arange(self.problem.design.n_features))

    @classmethod
    @abstractmethod
    def serves(cls, problem: Problem, penalty: RowPenalty) -> bool:
        """Whether paths of a penalty on a problem are best solved this way."""

    @abstractmethod
    def _descend(
        self, penalty: RowPenalty, alphas, start: np.ndarray, share: float, max_rounds: int, max_sweeps: int
    ) -> GramSolutions:
        """Solve at one alpha after the other, from `start`, until no row moves by more than a share."""

    @abstractmethod
    def violations(self, penalty: RowPenalty, alphas: np.ndarray, found: GramSolutions) -> np.ndarray:
        """Distance to stationarity of each solution, eq. (8), as a share of the largest slope at zero."""

    def solve(
        self, penalty: RowPenalty, alphas: np.ndarray, *, start: np.ndarray | None, max_iter: int, tol: float
    ) -> GramSolutions:
        """Solve at every alpha, largest first, from `start` (d, T) or from where `solve_path` begins."""
        convex = penalty.is_convex
        if start is None:
            design = self.problem.design
            zero = np.zeros((design.n_features, design.n_tasks))
            start = zero if convex else self._dense_start(penalty.at(alphas[-1]))
        share = (_CONVEX if convex else _CONCAVE) * tol**2
        order = alphas if convex else alphas[::-1]
        found = self._descend(penalty, order, start, share, max_iter, _MAX_SWEEPS)
        if convex:
            return found
        return self._zero_where_better(GramSolutions(*(part[::-1] for part in found)), penalty, alphas)

    def solve_one(
        self, penalty: RowPenalty, start: np.ndarray, *, max_iter: int, tol: float
    ) -> GramSolutions:
        """Solve under one convex penalty from `start` (d, T)."""
        share = _CONVEX * (_ONE * tol) ** 2
        return self._descend(penalty, [penalty.alpha], start, share, max_iter, _MAX_SWEEPS)

    def refined(self, penalty: RowPenalty, A: np.ndarray) -> np.ndarray:
        """The solution next to A under one penalty, almost as exact as floats allow."""
        return self._descend(penalty, [penalty.alpha], A, _FINE, _FINE_ROUNDS, _FINE_SWEEPS).A[0]

    def _dense_start(self, penalty: RowPenalty) -> np.ndarray:
        """The first pass of Algorithm 1 without its smallest rows; at p = inf the (2, 2) solution."""
        if math.isinf(penalty.p):
            entries = penalty.convex()
        else:
            entries = penalty.weighted(penalty.start_weight())
        design = self.problem.design
        zero = np.zeros((design.n_features, design.n_tasks))
        # one round finds the rows, the other moves them
        A = self._descend(entries, [entries.alpha], zero, _START, 2, _START_SWEEPS).A[0]
        norms = penalty.norms(A)
        A[norms <= _NOTHING * norms.max(initial=0.0)] = 0.0
        return A

    def intercepts(self, found: GramSolutions) -> np.ndarray:
        """Intercepts of the problem as it was given, (n, T): levels may have been taken off it."""
        if self._units is None:
            return found.intercepts
        pairs = zip(found.intercepts, found.A, strict=True)
        return np.array([self._units.intercept(intercept, A) for intercept, A in pairs])

    def _numbers(self, penalty: RowPenalty, alphas) -> np.ndarray:
        """What the row solver knows of every row, at every alpha."""
        n = len(alphas)
        numbers = np.repeat(penalty.at(1.0).row_numbers(self.problem.design.n_features)[None], n, axis=0)
        numbers[:, :, 0] = np.reshape(alphas, (n, -1))  # the strength is the first number of a row
        return numbers

    def _zero_where_better(self, found: GramSolutions, penalty: RowPenalty, alphas) -> GramSolutions:
        """Zero at every alpha from the smallest at which it is as good: it is then better at all above."""
        null = self.problem.null_value
        for i in reversed(range(len(alphas))):
            if found.losses[i] + penalty.at(alphas[i]).value(found.A[i]) >= null:
                found.A[: i + 1], found.intercepts[: i + 1] = 0.0, self.problem.null_intercept
                found.losses[: i + 1], found.settled[: i + 1] = null, True
                break
        return found


class GramPaths(CompiledPaths):
    """Paths of the squared loss: all have the same Gram matrices."""

    def __init__(self, problem: Problem):
        super().__init__(problem)
        problem, columns, design = self.problem, self.columns, self.problem.design
        ends = columns.start + columns.length
        parts = [columns.x[:, a:b] for a, b in zip(columns.start, ends, strict=True)]
        residual = columns.root * (design.y - design.spread(problem.null_intercept))
        self._gram = np.array([part @ part.T for part in (parts[:1] if columns.shared else parts)])
        self._slopes = np.array(
            [part @ residual[rows] for part, (_, rows) in zip(parts, design.segments(), strict=True)]
        )
        self._means, self._curvature = columns.base.means, columns.base.curvature

    @classmethod
    def serves(cls, problem: Problem, penalty: RowPenalty) -> bool:
        """Whether the loss is quadratic and there are not too many features."""
        design = problem.design
        most = _MOST_IN_GROUPS if penalty.has_groups else _MOST_FEATURES
        fits = design.n_features <= min(most, math.isqrt(_MOST_ENTRIES // design.n_tasks))
        quick = penalty.is_separable or not penalty.is_ridge_like
        quick = quick and problem.loss.is_quadratic and not np.any(penalty.free_rows)
        return quick and fits and _has_its_units(problem)

    def solve(
        self, penalty: RowPenalty, alphas: np.ndarray, *, start: np.ndarray | None, max_iter: int, tol: float
    ) -> GramSolutions:
        """Solve at every alpha; ridge has a formula."""
        if _is_lasso(penalty):
            tol *= _LASSO
        if not (penalty.is_separable and penalty.p == 2.0 and penalty.known is None):
            return super().solve(penalty, alphas, start=start, max_iter=max_iter, tol=tol)
        A = self._ridge(alphas)
        gains = [0.5 * np.sum(rows.T * (self._slopes_at(rows) + self._slopes)) for rows in A]
        return self._with_intercepts(A, np.array(gains), np.ones(len(alphas), dtype=bool))

    def violations(self, penalty: RowPenalty, alphas: np.ndarray, found: GramSolutions) -> np.ndarray:
        """Distance to stationarity of each solution, eq. (8), as a share of the largest slope at zero."""
        from mmtfl.kernels.row_problem import row_violations

        gradients = np.matmul(self._gram, found.A.T) - self._slopes[:, :, None]
        (n, d, n_tasks), numbers = found.A.shape, self._numbers(penalty, alphas)
        if penalty.has_groups:
            triples = zip(alphas, found.A, gradients.T, strict=True)
            rows = np.array(
                [penalty.at(alpha).row_violation(A, slopes, self._curvature) for alpha, A, slopes in triples]
            )
            return rows.max(axis=1, initial=0.0) / self.problem.scale
        rows = row_violations(
            penalty.row_solver(), found.A.reshape(n * d, n_tasks),
            np.ascontiguousarray(gradients.T).reshape(n * d, n_tasks), np.tile(self._curvature, (n, 1)),
            penalty.member_numbers, numbers.reshape(n * d, -1),
        )  # fmt: skip
        return rows.reshape(n, d).max(axis=1, initial=0.0) / self.problem.scale

    def _slopes_at(self, A: np.ndarray) -> np.ndarray:
        return self._slopes - np.matmul(self._gram, A.T[:, :, None])[:, :, 0]

    def _descend(self, penalty: RowPenalty, alphas, start, share, max_rounds, max_sweeps) -> GramSolutions:
        if _is_lasso(penalty):
            return self._lasso(alphas, start, share, max_rounds, max_sweeps)
        from mmtfl.kernels.gram_blocks import block_path
        from mmtfl.kernels.gram_descent import gram_path

        n, tolerance = len(alphas), share * self.problem.null_value
        A, gains, settled = np.empty((n, *start.shape)), np.empty(n), np.empty(n, dtype=bool)
        place = self._slopes.ravel(), self._slopes_at(start).ravel(), start.copy(), penalty.member_numbers
        if penalty.has_groups:
            sweeps = min(max_rounds * max_sweeps, _MAX_BLOCK_SWEEPS)
            block_path(
                penalty.row_solver(), self._gram.ravel(), *place, *self._blocks(penalty, alphas),
                _may_mix(penalty), tolerance, sweeps, A, gains, settled,
            )  # fmt: skip
        else:
            gram_path(
                penalty.row_solver(), self._gram.ravel(), self._curvature, *place,
                self._numbers(penalty, alphas), penalty.has_short_cut, _may_mix(penalty), tolerance,
                max_rounds, max_sweeps, A, gains, settled,
            )  # fmt: skip
        return self._with_intercepts(A, gains, settled)

    def _blocks(self, penalty: RowPenalty, alphas) -> tuple[np.ndarray, ...]:
        """The blocks of a penalty with groups, with their records at every alpha, and their curvature."""
        every = np.arange(self.problem.design.n_features)

        def grams(rows: np.ndarray) -> np.ndarray:
            found = self._gram[:, rows[:, None], rows]
            return np.broadcast_to(found, (self.problem.design.n_tasks, *found.shape[1:]))

        members, starts, _, places, *model = block_model(penalty, every, grams, self._curvature)
        records = np.array([blocks_of(penalty.at(alpha), every).records for alpha in alphas])
        return members, starts, records, places, *model

    def _lasso(
        self, alphas, start: np.ndarray, share: float, max_rounds: int, max_sweeps: int
    ) -> GramSolutions:
        """The lasso of every task at every alpha."""
        from mmtfl.kernels.lasso_paths import lasso_paths

        n, (d, n_tasks) = len(alphas), start.shape
        A, gains, settled = np.empty((n_tasks, n, d)), np.empty(n), np.empty(n, dtype=bool)
        lasso_paths(
            self._gram, np.ascontiguousarray(self._curvature.T), self._slopes, self._slopes_at(start),
            np.array(start.T, order="C"), np.asarray(alphas, dtype=float), share * self.problem.null_value,
            max_rounds, max_sweeps, A, gains, settled,
        )  # fmt: skip
        return self._with_intercepts(np.ascontiguousarray(A.transpose(1, 2, 0)), gains, settled)

    def _ridge(self, alphas: np.ndarray) -> np.ndarray:
        """Ridge of every task at every alpha, from the eigenvectors of its Gram matrix."""
        A = np.empty((len(alphas), *self._curvature.shape))
        for t, slopes in enumerate(self._slopes):
            if t < len(self._gram):
                values, vectors = np.linalg.eigh(self._gram[t])
                values = np.maximum(values, 0.0)  # rounding may leave one below zero
            A[:, :, t] = (vectors.T @ slopes / (values + 2.0 * alphas[:, None])) @ vectors.T
        return A

    def _with_intercepts(self, A: np.ndarray, gains: np.ndarray, settled: np.ndarray) -> GramSolutions:
        intercepts = self.problem.null_intercept - np.einsum("jt,ijt->it", self._means, A)
        return GramSolutions(A, intercepts, self.problem.null_value - gains, settled)


class LogisticPaths(CompiledPaths):
    """Paths of the logistic loss."""

    @classmethod
    def serves(cls, problem: Problem, penalty: RowPenalty) -> bool:
        """Whether the loss is the logistic one, and Gram matrices of its models cost little."""
        design = problem.design
        entries = design.n_features * (len(design.y) + design.n_features * design.n_tasks)
        fits = design.n_features <= _MOST_LOGISTIC and entries <= _MOST_ENTRIES
        by_rows = not (penalty.has_groups or np.any(penalty.free_rows))
        known = problem.loss == Logistic() and by_rows and not penalty.is_ridge_like
        return known and fits and _has_its_units(problem)

    def violations(self, penalty: RowPenalty, alphas: np.ndarray, found: GramSolutions) -> np.ndarray:
        """Distance to stationarity of each solution, eq. (8), as a share of the largest slope at zero."""
        problem, out = self.problem, []
        for alpha, A, intercept in zip(alphas, found.A, found.intercepts, strict=True):
            gradient = problem.design.correlate(problem.loss_gradient(problem.predict(A, intercept)))
            out.append(problem.row_violation(penalty.at(alpha), A, gradient).max(initial=0.0))
        return np.array(out) / problem.scale

    def _descend(self, penalty: RowPenalty, alphas, start, share, max_rounds, max_sweeps) -> GramSolutions:
        from mmtfl.kernels.logistic_path import logistic_path

        problem, columns, design, n = self.problem, self.columns, self.problem.design, len(alphas)
        A, intercepts, losses = np.empty((n, *start.shape)), np.empty((n, design.n_tasks)), np.empty(n)
        settled, intercept = np.empty(n, dtype=bool), problem.null_intercept.copy()
        logistic_path(
            penalty.row_solver(), columns.x.ravel(), columns.x.shape[1], columns.start, columns.begin,
            columns.length, design.y, design.row_weight, design.fit_intercept, CONSTANT, start.copy(),
            intercept, problem.predict(start, intercept), penalty.member_numbers,
            self._numbers(penalty, alphas), penalty.has_short_cut, _may_mix(penalty),
            share * problem.null_value, min(max_rounds, _MAX_MODELS), max_sweeps, A, intercepts, losses,
            settled,
        )  # fmt: skip
        return GramSolutions(A, intercepts, losses, settled)


def compiled_paths(problem: Problem, penalty: RowPenalty) -> type[CompiledPaths] | None:
    """The way in which paths of a penalty on a problem are compiled as a whole; None if there is none."""
    return next((kind for kind in (GramPaths, LogisticPaths) if kind.serves(problem, penalty)), None)


def _has_its_units(problem: Problem) -> bool:
    """Whether a problem's coefficients are those of its calm form, in which at most levels are taken off."""
    units = problem.moderated()[1]
    return units is None or (units.target == 1.0 and bool(np.all(units.column == 1.0)))


def _by_rows(penalty: RowPenalty) -> bool:
    """Whether a penalty is on single rows, and on all of them."""
    return not (penalty.has_groups or np.any(penalty.free_rows))


def _is_lasso(penalty: RowPenalty) -> bool:
    """Whether a penalty is that of single entries, all alike."""
    return penalty.is_separable and penalty.p == 1.0 and penalty.known is None


def _may_mix(penalty: RowPenalty) -> bool:
    """Whether sweeps may be extrapolated, which knows of no signs."""
    return penalty.is_convex and (penalty.known is None or not penalty.known.positive.any())
