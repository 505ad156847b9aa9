"""Whole paths in the compiled core: each is one call that needs no interpreter; docs/model.md section 6.

Where the columns fit into memory this takes a tenth of the time of `solve_path`, and threads run side by
side. It is as exact as held-out scores need, and no more.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mmtfl.objective.design import CONSTANT
from mmtfl.objective.losses import Huber, Logistic, Loss, Poisson, Squared
from mmtfl.objective.losses.by_rows import LossOnRows
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.working_set import WorkingSet

# numbers of all Gram matrices of a problem, and of all its columns: a search holds two or three of them
_MOST_IN_GRAMS, _MOST_IN_COLUMNS = 1 << 24, 1 << 25
_CHEAPER = 1.5  # a row of d slopes a task costs as much as so many residuals a task; docs/benchmarks.md
_MOSTLY_ZERO = 0.1  # share of entries up to which columns are stored sparse, where there are no Gram matrices
_CONVEX, _CONCAVE = 0.06, 30.0  # largest move of a row, squared, in units of tol^2 and the objective at zero
_ONE = 0.1  # of tol, where a solution stands alone
_ROUGH = 6.0  # times tol where nothing but held-out scores is asked for; docs/benchmarks.md has what it saves
_START = 1e-4  # the same on the way to a dense start
_START_SWEEPS, _MAX_SWEEPS = 50, 200
_NOTHING = 1e-4  # a row this small against the largest is dropped from a dense start


class PathSolutions(NamedTuple):
    """Solutions along a path: coefficients (n, d, T), intercepts, losses, and which have settled."""

    A: np.ndarray
    intercepts: np.ndarray
    losses: np.ndarray
    settled: np.ndarray


class CompiledPaths:
    """Solves one problem under many penalties; what they need of the data is made once.

    Parameters
    ----------
    problem : Problem
        With columns that fit into memory; see `serves`.
    """

    def __init__(self, problem: Problem):
        self.problem, self._units = problem.in_safe_units()

    @classmethod
    def serves(cls, problem: Problem, penalty: RowPenalty) -> bool:
        """Whether paths of a penalty on a problem are best solved this way."""
        design = problem.design
        fits = design.placed is None and (
            design.n_features * _n_columns(problem) <= _MOST_IN_COLUMNS
            or (problem.loss.is_quadratic and _sparse_entries(problem) <= _MOST_IN_COLUMNS // 8)
        )
        # where no row is ever zero, the tasks' own ridge problems are the quicker way
        quick = penalty.is_separable or not penalty.is_ridge_like
        return fits and quick and not np.any(penalty.free_rows) and _has_its_units(problem)

    @cached_property
    def columns(self) -> WorkingSet:
        """All columns, centred and weighted, of the squared loss; of another where each task is."""
        columns = WorkingSet(self.problem.design, self.problem.loss)
        if columns.prepared:
            columns.add(np.arange(self.problem.design.n_features))
        return columns

    @cached_property
    def _task_columns(self) -> np.ndarray:
        """All columns as they are, task by task: of small tasks one fits a processor's first cache."""
        columns, d = self.columns, self.problem.design.n_features
        x = np.empty((d, columns.x.shape[1]))
        self.problem.design.gather(np.arange(d), x, expand=not columns.shared)
        ends = columns.length[:1] if columns.shared else np.cumsum(columns.length)
        return np.concatenate([part.ravel() for part in np.split(x, ends[:-1], axis=1)])

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Gram matrices (n_tasks or 1, d, d) and slopes at zero (n_tasks, d), of the squared loss."""
        problem, columns, design = self.problem, self.columns, self.problem.design
        parts = [columns.x[:, a : a + n] for a, n in zip(columns.start, columns.length, strict=True)]
        residual = columns.root * (design.y - design.spread(problem.null_intercept))
        gram = np.array([part @ part.T for part in (parts[:1] if columns.shared else parts)])
        slopes = [part @ residual[rows] for part, (_, rows) in zip(parts, design.segments(), strict=True)]
        return gram, np.array(slopes)

    @cached_property
    def _has_grams(self) -> bool:
        """Whether paths work on Gram matrices: a change of a row then costs d T, with residuals 2 N."""
        design = self.problem.design
        cheap = design.n_features * design.n_tasks <= _CHEAPER * len(design.y)
        return self._grams_fit and (cheap or design.is_complete)

    @property
    def _grams_fit(self) -> bool:
        """Whether there is room for Gram matrices of the squared loss."""
        design = self.problem.design
        n_grams = 1 if design.is_complete else design.n_tasks
        return self.problem.loss.is_quadratic and n_grams * design.n_features**2 <= _MOST_IN_GRAMS

    @cached_property
    def _is_sparse(self) -> bool:
        """Whether sparse columns are worked on as they are."""
        if (
            self._has_grams
            or not self.problem.loss.is_quadratic
            or self.problem.design.tasks.rows is not None
        ):
            return False
        design = self.problem.design
        return _sparse_entries(self.problem) <= _MOSTLY_ZERO * design.n_features * len(design.y)

    @cached_property
    def _sparse(self) -> tuple[tuple, np.ndarray, np.ndarray]:
        """Entries, rows and starts of sparse columns; their means and centred square sums in every task."""
        design = self.problem.design
        X = sparse.csc_array(design.tasks.X)
        data = X.data * np.repeat(design.inverse_scale, np.diff(X.indptr))
        matrix = data.astype(float), X.indices.astype(np.intp), X.indptr.astype(np.intp)
        means = np.zeros((design.n_features, design.n_tasks))
        if design.fit_intercept:
            means = design.correlate(design.row_weight) / design.task_sums(design.row_weight)
        return matrix, np.ascontiguousarray(means), design.curvature

    @property
    def _means(self) -> np.ndarray:
        return self._sparse[1] if self._is_sparse else self.columns.base.means

    # -- paths ---------------------------------------------------------------------------------------------

    def solve(
        self, penalty: RowPenalty, alphas: np.ndarray, *, start: np.ndarray | None, max_iter: int, tol: float,
        rough: bool = False,
    ) -> PathSolutions:  # fmt: skip
        """Solve at every alpha, largest first, from `start` (d, T) or from where `solve_path` begins.

        `rough` solutions are as exact as held-out scores need.
        """
        if penalty.is_separable and penalty.p == 2.0 and penalty.known is None and self._grams_fit:
            return self._ridge(alphas)
        convex = penalty.is_convex
        if start is None:
            start = self._zero() if convex else self._dense_start(penalty.at(alphas[-1]))
        share = (_CONVEX if convex else _CONCAVE) * (_ROUGH * tol if rough else tol) ** 2
        order = alphas if convex else alphas[::-1]
        found = self._descend(penalty, order, start, share, max_iter, _MAX_SWEEPS)
        if convex:
            return found
        return self._zero_where_better(PathSolutions(*(part[::-1] for part in found)), penalty, alphas)

    def solve_one(
        self, penalty: RowPenalty, start: np.ndarray, *, max_iter: int, tol: float
    ) -> PathSolutions:
        """Solve under one convex penalty from `start` (d, T)."""
        share = _CONVEX * (_ONE * tol) ** 2
        return self._descend(penalty, [penalty.alpha], start, share, max_iter, _MAX_SWEEPS)

    def violations(self, penalty: RowPenalty, alphas: np.ndarray, found: PathSolutions) -> np.ndarray:
        """Distance to stationarity of each solution, eq. (8), as a share of the largest slope at zero."""
        problem, out = self.problem, []
        for alpha, A, intercept in zip(alphas, found.A, found.intercepts, strict=True):
            z = problem.predict(A, intercept)
            gradient = problem.design.correlate(problem.loss_gradient(z))
            out.append(problem.row_violation(penalty.at(alpha), A, gradient, z=z).max(initial=0.0))
        return np.array(out) / problem.scale

    def intercepts(self, found: PathSolutions) -> np.ndarray:
        """Intercepts of the problem as it was given, (n, T): levels may have been taken off it."""
        if self._units is None:
            return found.intercepts
        pairs = zip(found.intercepts, found.A, strict=True)
        return np.array([self._units.intercept(intercept, A) for intercept, A in pairs])

    def _zero(self) -> np.ndarray:
        return np.zeros((self.problem.design.n_features, self.problem.design.n_tasks))

    def _dense_start(self, penalty: RowPenalty) -> np.ndarray:
        """The first pass of Algorithm 1 without its smallest rows; at p = inf the (2, 2) solution."""
        if math.isinf(penalty.p):
            entries = penalty.convex()
        else:
            entries = penalty.weighted(penalty.start_weight())
        A = self._descend(entries, [entries.alpha], self._zero(), _START, 1, _START_SWEEPS).A[0]
        norms = penalty.norms(A)
        A[norms <= _NOTHING * norms.max(initial=0.0)] = 0.0
        return A

    def _zero_where_better(self, found: PathSolutions, penalty: RowPenalty, alphas) -> PathSolutions:
        """Zero at every alpha from the smallest at which it is as good: it is then better at all above."""
        null = self.problem.null_value
        for i in reversed(range(len(alphas))):
            if found.losses[i] + penalty.at(alphas[i]).value(found.A[i]) >= null:
                found.A[: i + 1], found.intercepts[: i + 1] = 0.0, self.problem.null_intercept
                found.losses[: i + 1], found.settled[: i + 1] = null, True
                break
        return found

    def _ridge(self, alphas: np.ndarray) -> PathSolutions:
        """Ridge of every task at every alpha, from the eigenvectors of its Gram matrix."""
        (gram, slopes), means = self._moments, self.columns.base.means
        A, gains = np.empty((len(alphas), *means.shape)), np.zeros(len(alphas))
        for t, own in enumerate(slopes):
            if t < len(gram):
                values, vectors = np.linalg.eigh(gram[t])
                values = np.maximum(values, 0.0)  # rounding may leave one below zero
            turned = vectors.T @ own / (values + 2.0 * alphas[:, None])
            A[:, :, t] = turned @ vectors.T
            gains += A[:, :, t] @ own - 0.5 * (turned**2 @ values)
        settled = np.ones(len(alphas), dtype=bool)
        return self._with_intercepts(PathSolutions(A, A[:, 0], self.problem.null_value - gains, settled))

    # -- the core ------------------------------------------------------------------------------------------

    def _descend(
        self, penalty: RowPenalty, alphas, start: np.ndarray, share: float, max_rounds: int, max_sweeps: int
    ) -> PathSolutions:
        """Solve at one alpha after the other, from `start`, until no row moves by more than a share."""
        from mmtfl.core.path import Path

        tolerance, parts = share * self.problem.null_value, []
        by_task = (
            penalty.is_separable and len(alphas) > 1
        )  # a start is rough: one descent over all tasks will do
        for own, source in self._sources(penalty, start, by_task=by_task):
            d = source.n_features
            members, starts, records, places = own.at(1.0).blocks(np.arange(d), d)
            numbers = np.repeat(records[None], len(alphas), axis=0)
            numbers[:, places] *= np.reshape(alphas, (len(alphas), -1))  # the strength is the first number
            path = Path(source, own.row_problem(), members, starts, places)
            parts.append(path.solve(numbers, tolerance, max_rounds, max_sweeps))
        A, intercepts, losses, settled = zip(*parts, strict=True)
        found = PathSolutions(
            np.concatenate(A, axis=2), np.concatenate(intercepts, axis=1), np.sum(losses, axis=0),
            np.all(settled, axis=0),
        )  # fmt: skip
        return self._with_intercepts(found) if self.problem.loss.is_quadratic else found

    def _with_intercepts(self, found: PathSolutions) -> PathSolutions:
        """With the best intercepts of the squared loss, which its descent does without."""
        shift = np.einsum("jt,ijt->it", self._means, found.A)
        return found._replace(intercepts=self.problem.null_intercept - shift)

    def _sources(
        self, penalty: RowPenalty, start: np.ndarray, *, by_task: bool
    ) -> Iterator[tuple[RowPenalty, Any]]:
        """The data of a path, or of a path for every task where tasks do not meet in the penalty."""
        if not by_task or self._is_sparse or _compiled_loss(self.problem, slice(0)) is None:
            yield penalty, self._source(start, slice(None))
            return
        for t in range(self.problem.design.n_tasks):
            known = None if penalty.known is None else penalty.known.of_tasks(np.array([t]))
            yield replace(penalty, known=known), self._source(start, slice(t, t + 1))

    def _source(self, start: np.ndarray, tasks: slice) -> Any:
        """The data of some tasks (all, or one), where a path begins."""
        from mmtfl.core.sources import ColumnSource, GramSource, ResidualSource
        from mmtfl.core.storage import ColumnStorage

        problem, design = self.problem, self.problem.design
        first = np.ascontiguousarray(start[:, tasks])
        if self._is_sparse:
            return ResidualSource(self._sparse_storage(start), self._sparse[2], start)
        columns = self.columns
        if self._has_grams:
            gram, slopes = self._moments
            gram = gram if len(gram) == 1 else gram[tasks]
            curvature = columns.base.curvature[:, tasks]
            return GramSource(gram, slopes[tasks], curvature, self._null_losses[tasks].sum(), first)
        begin, length = columns.begin[tasks], columns.length[tasks]
        rows = slice(int(begin[0]), int(begin[-1] + length[-1]))
        place = columns.start[tasks], begin - begin[0], length
        if columns.prepared:
            away = design.y - design.spread(problem.null_intercept) - columns.image(start)
            storage = ColumnStorage(
                columns.x, *place, (columns.root * away)[rows], np.empty(0), np.empty((0, 1))
            )
            return ResidualSource(storage, columns.base.curvature[:, tasks], first)
        loss = _compiled_loss(problem, rows) or _python_loss(problem)
        intercept, z = problem.null_intercept, design.spread(problem.null_intercept)
        if start.any():
            z = design.predict(start)
            intercept = problem.best_intercept(z, close=1e-3)  # the path goes on from there
            z = z + design.spread(intercept)
        return ColumnSource(
            self._task_columns, *place, loss, design.fit_intercept, CONSTANT, first, intercept[tasks], z[rows]
        )

    def _sparse_storage(self, start: np.ndarray) -> Any:
        """Sparse columns with the residuals at `start`."""
        from mmtfl.core.storage import SparseStorage

        problem, design, (matrix, means, _) = self.problem, self.problem.design, self._sparse
        state = np.zeros(len(design.y) + design.n_tasks)
        state[: len(design.y)] = design.y - design.spread(problem.null_intercept) - design.predict(start)
        state[len(design.y) :] = np.sum(means * start, axis=0)
        total = design.task_sums(design.row_weight)
        return SparseStorage(matrix, design.tasks.observation_task, design.row_weight, total, means, state)

    @cached_property
    def _null_losses(self) -> np.ndarray:
        """The loss of every task at A = 0."""
        problem, design = self.problem, self.problem.design
        z = design.spread(problem.null_intercept)
        rows = (problem.loss.value(design.y[r], z[r], design.row_weight[r]) for _, r in design.segments())
        return np.array(list(rows))


def _compiled_loss(problem: Problem, rows: slice) -> Any:
    """The loss of some rows, compiled; None where it is written in Python."""
    loss, y, weight = problem.loss, problem.design.y, problem.design.row_weight
    if not isinstance(loss, LossOnRows):
        return _compiled(loss, y[rows], weight[rows], problem)
    if loss.prior_rows is None or loss.factors is None or loss.known is not None:
        return None
    from mmtfl.core.losses import LossWithParabolas

    first, last, _ = rows.indices(len(y))
    at = loss.prior_rows[(loss.prior_rows >= first) & (loss.prior_rows < last)] - first
    y, weight = y[rows].copy(), weight[rows].copy()
    bend, priors = loss.factors[1], (y[at], weight[at])
    y[at], weight[at] = 1.0, 0.0  # a target that every loss is defined for, in rows that do not count
    inner = _compiled(loss.losses[0], y, weight, problem)
    return None if inner is None else LossWithParabolas(inner, at, priors[0], bend * priors[1])


def _compiled(loss: Loss, y: np.ndarray, weight: np.ndarray, problem: Problem) -> Any:
    from mmtfl.core.losses import HuberLoss, LogisticLoss, PoissonLoss, SquaredLoss

    if type(loss) is Logistic:
        return LogisticLoss(loss._sign(y), weight)
    if type(loss) is Squared:
        return SquaredLoss(y, weight)
    if type(loss) is Huber:
        return HuberLoss(y, weight, loss.delta)
    if type(loss) is Poisson:
        constant = loss.value(y, np.zeros_like(y), weight) - float(weight.sum())
        return PoissonLoss(y, weight, constant, float(problem.loss_curvature.max()))
    return None


def _python_loss(problem: Problem) -> Any:
    """A loss that the core calls, on whole vectors."""
    from mmtfl.core.losses import PythonLoss

    functions = problem.loss_value, problem.loss_gradient, problem.newton_weights
    return PythonLoss(problem.design.y, problem.design.row_weight, functions)


def _sparse_entries(problem: Problem) -> float:
    """Entries of X that are not zero; without end for tasks that share X."""
    tasks = problem.design.tasks
    if tasks.rows is not None:
        return math.inf
    return float(tasks.X.nnz if sparse.issparse(tasks.X) else np.count_nonzero(tasks.X))


def _n_columns(problem: Problem) -> int:
    """Numbers of one column."""
    design = problem.design
    return design.tasks.X.shape[0] if design.is_complete else len(design.y)


def _has_its_units(problem: Problem) -> bool:
    """Whether the scaled problem has the same coefficients: at most offsets were taken off."""
    units = problem.in_safe_units()[1]
    return units is None or (
        units.present is None and units.target == 1.0 and bool(np.all(units.column == 1.0))
    )
