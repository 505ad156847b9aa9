"""Minimisers of least-squares models of A = P + Q, by accelerated proximal steps; docs/additive.md section 3.

`BothParts` moves P and Q at once and serves any pair of norms. `EliminatedColumns` serves the columns of Q,
which it eliminates: for fixed P a task's q is a ridge whose strength its own length rho sets, so in the basis
of eigenvectors of X_t X_t' it only shrinks the residual, by 1 / (1 + s_i rho / alpha2) with one root for rho.
What is left is a smooth function of P, much flatter where X_t is large.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy import sparse

from mmtfl.core import columns
from mmtfl.core.smooth_rows import shrink_residuals
from mmtfl.objective.design import Design
from mmtfl.objective.norms import ColumnNorm, RowNorm, TwoNorms
from mmtfl.objective.penalties import row_norms
from mmtfl.objective.problem import Problem
from mmtfl.tasks.grouping import observation_task_of, offsets_of

_MOST_STEPS = 5000
_GROWTH = 1.5  # of the curvature, when a step went further than its bound
_FORGET = 0.5  # of the curvature from one model to the next, which may be flatter
_FLATTEST = 1e-10  # of curvatures to begin with, as a share of the mean
_INEXACT = 0.1  # a Newton model is minimised until steps are this share of the first
_LEAST_ADDED = 20
_NOTHING = 1e-13  # eigenvalues below this share of the largest are rounding


@dataclass
class State:
    """What changes: the parts (P, Q), their linear predictor with the best intercepts, and the objective."""

    parts: np.ndarray  # (2, n_features, n_tasks)
    z: np.ndarray
    value: float


class Move(NamedTuple):
    """Where a model is least: the parts, and the change of the predictor."""

    parts: np.ndarray
    change_z: np.ndarray


class PartSolver(ABC):
    """Minimises least-squares models of one problem, with any row weights.

    The squared loss has one set of weights, so what is prepared for the first model serves all of them.
    """

    curvature = 0.0  # of the last step; 0 before the first
    steps_left = 0  # that all models together may still take
    _mean = 1.0  # curvature that the first model began with

    def __init__(self, problem: Problem):
        self.problem = problem
        self._designs = task_designs(problem.design)
        self._operators: list[TaskOperator] = []
        self._relative = 0.0 if problem.loss.is_quadratic else _INEXACT

    @abstractmethod
    def grow(self, norms: TwoNorms, state: State, gradient: np.ndarray, least: float) -> int:
        """Take in rows and tasks whose gradient exceeds their norm's strength by `least`; how many."""

    @abstractmethod
    def minimise(self, norms: TwoNorms, state: State, weight: np.ndarray, tolerance: float) -> Move:
        """Minimise the model with these row weights from the state, until no slope moves by more."""

    def _prepare(self, weight: np.ndarray) -> bool:
        """Make the operators for these weights, unless they are there; whether they were made."""
        if self._operators and self.problem.loss.is_quadratic:
            return False
        design = self.problem.design
        self._operators = [
            TaskOperator(X, design.inverse_scale, weight[rows], centred=design.fit_intercept)
            for X, (_, rows) in zip(self._designs, design.segments(), strict=True)
        ]
        return True

    def _steps(self, n_parts: int, steps: Callable, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
        """Accelerated steps, as many as are left: where they end, and the image of the change."""
        x, image, self.curvature, n_steps = steps(
            curvature=self._first_curvature(n_parts), tolerance=tolerance, relative=self._relative,
            most_steps=min(_MOST_STEPS, self.steps_left),
        )  # fmt: skip
        self.steps_left -= n_steps
        return x, image

    def _first_curvature(self, n_parts: int) -> float:
        """A guess of the curvature that the steps begin with; parts that move together count each."""
        if not self.curvature:
            self._mean = n_parts * max(operator.mean_curvature for operator in self._operators) or 1.0
            return self._mean
        # models in which nothing moves tell nothing, and each would halve it
        return max(_FORGET * self.curvature, _FLATTEST * self._mean)


class BothParts(PartSolver):
    """Minimise models over P and Q at once, knowing the norms by their prox alone: this serves any pair."""

    def grow(self, norms: TwoNorms, state: State, gradient: np.ndarray, least: float) -> int:
        """Nothing is left out, so nothing is taken in."""
        return 0

    def minimise(self, norms: TwoNorms, state: State, weight: np.ndarray, tolerance: float) -> Move:
        """Accelerated steps from the present parts."""
        self._prepare(weight)
        operators, root, design = self._operators, np.sqrt(weight), self.problem.design
        target = -self.problem.loss_gradient(state.z) / root

        def forward(change: np.ndarray) -> np.ndarray:
            A = change[0] + change[1]
            return np.concatenate([operator.forward(A[:, t]) for t, operator in enumerate(operators)])

        def gradient(residual: np.ndarray) -> np.ndarray:
            columns = [operators[t].adjoint(residual[rows]) for t, rows in design.segments()]
            return -np.stack(columns, axis=1)[None]  # the same for both parts

        def prox(x: np.ndarray, step: float) -> np.ndarray:
            return np.stack([norms.shared.prox(x[0], step), norms.specific.prox(x[1], step)])

        steps = partial(accelerate, state.parts, forward, lambda image: target - image, gradient, prox)
        x, image = self._steps(2, steps, tolerance)
        return Move(x, image / root)


class EliminatedColumns(PartSolver):
    """Minimise models over P, for any norm of P and ColumnNorm of Q."""

    def __init__(self, problem: Problem, *, by_rows: bool):
        super().__init__(problem)
        self._bases: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._columns: list[np.ndarray] = []
        # rows of P come in when they are asked for; other norms have no rows to leave out
        everything = np.arange(problem.design.n_features)
        self._features = everything[:0] if by_rows else everything
        self._open: set[int] = set()  # tasks whose column of Q is worked on

    def grow(self, norms: TwoNorms, state: State, gradient: np.ndarray, least: float) -> int:
        """Take in the rows of P that are kept or asked for, and the tasks with a column or asking for one."""
        shared, specific = norms.shared, norms.specific
        assert isinstance(specific, ColumnNorm)
        n_new = 0
        if isinstance(shared, RowNorm):
            present = np.zeros(len(gradient), dtype=bool)
            present[self._features] = True
            kept = state.parts[0].any(axis=1)
            excess = np.where(present | kept, 0.0, shared.dual_sizes(gradient) - shared.alpha)
            most = max(_LEAST_ADDED, int(kept.sum()))
            worst = np.argsort(-excess, kind="stable")[:most]
            worst = worst[excess[worst] > least]
            n_new = len(worst)
            if n_new or np.any(kept & ~present):
                present[kept], present[worst] = True, True
                self._features, self._columns = np.flatnonzero(present), []
        used, asked = state.parts[1].any(axis=0), specific.sizes(gradient) > specific.alpha
        self._open = set(np.flatnonzero(used | asked).tolist())
        return n_new + int(np.count_nonzero(asked & ~used))

    def minimise(self, norms: TwoNorms, state: State, weight: np.ndarray, tolerance: float) -> Move:
        """Accelerated steps on P from the present one."""
        if self._prepare(weight):
            self._columns, self._bases = [], {}
        operators, root, alpha = self._operators, np.sqrt(weight), norms.specific.alpha
        self._columns = self._columns or [operator.columns(self._features) for operator in operators]
        self._bases |= {t: task_basis(operators[t]) for t in self._open - self._bases.keys()}
        (P, Q), residual = state.parts.copy(), -self.problem.loss_gradient(state.z) / root
        without_q, segments = residual.copy(), list(self.problem.design.segments())
        columns, target, eigenvalues = [], [], []
        for t, rows in segments:
            x, e, values = self._columns[t], without_q[rows], np.zeros(rows.stop - rows.start)
            if t in self._open:
                e += operators[t].forward(Q[:, t])
                values, vectors = self._bases[t]
                x, e = vectors.T @ x, vectors.T @ e
            columns.append(x)
            target.append(e)
            eigenvalues.append(values)
        model = _SharedPart(alpha, columns, target, eigenvalues, row_norms(Q.T, 2.0))
        del columns  # the model has a copy of them
        start = P[self._features]
        steps = partial(accelerate, start, model.forward, model.residual, model.gradient, norms.shared.prox)
        goal, image = self._steps(1, steps, tolerance)
        P[self._features], Q[:], new = goal, 0.0, without_q.copy()
        kept = model.residual(image)
        for (t, rows), e, change in zip(
            segments, model.split(model.target - image), model.split(kept - model.target), strict=True
        ):
            new[rows] += self._bases[t][1] @ change if t in self._open else change
            length = model.lengths[t]
            if length > 0.0:
                # q = rho / alpha X' (what is left of e), without the small difference that is left
                values, vectors = self._bases[t]
                Q[:, t] = operators[t].adjoint(vectors @ (e * (length / (alpha + values * length))))
        return Move(np.stack([P, Q]), (residual - new) / root)


class _SharedPart:
    """The model over the rows of P that are worked on, after Q is gone; images live in the tasks' bases.

    `x` has the columns of each task in its basis, `target` the residual without Q, `lengths` those of the
    columns of Q. The eigenvalues of tasks that are closed for Q are zeros.
    """

    def __init__(self, alpha: float, x: list, target: list, eigenvalues: list, lengths: np.ndarray):
        self.alpha, self.lengths = alpha, lengths
        self.x, self.target, self.eigenvalues = (np.concatenate(part) for part in (x, target, eigenvalues))
        self.offsets = offsets_of([len(part) for part in target])
        self._task = observation_task_of(self.offsets)

    def split(self, v: np.ndarray) -> list[np.ndarray]:
        """The parts of the tasks."""
        return [v[lo:hi] for lo, hi in pairwise(self.offsets)]

    def forward(self, change: np.ndarray) -> np.ndarray:
        """Image of a change of P."""
        return columns.predict_rows(self.x, self._task, change.T, np.zeros(len(self.lengths)))

    def residual(self, image: np.ndarray) -> np.ndarray:
        """Residual at an image with the best Q, whose lengths are kept."""
        return shrink_residuals(self.target - image, self.eigenvalues, self.offsets, self.alpha, self.lengths)

    def gradient(self, residual: np.ndarray) -> np.ndarray:
        """Gradient in P at a residual."""
        return -np.ascontiguousarray(columns.adjoint(self.x, self.offsets, residual).T)


def accelerate(
    x: np.ndarray,
    forward: Callable[[np.ndarray], np.ndarray],
    residual_at: Callable[[np.ndarray], np.ndarray],
    gradient_at: Callable[[np.ndarray], np.ndarray],
    prox: Callable[[np.ndarray, float], np.ndarray],
    *,
    curvature: float,
    tolerance: float,
    relative: float,
    most_steps: int,
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Minimise from x by accelerated proximal steps, with backtracking and adaptive restarts.

    `forward` gives the image of a change of x, which is linear; `residual_at` the residual at an image,
    `gradient_at` the gradient in x at a residual, `prox` the prox of the norms. The steps end when one moves
    no slope by more than tolerance, or by that share of the first move. Returns x, its image, the curvature
    of the last step, and the number of steps.
    """
    image = forward(np.zeros_like(x))
    old, old_image, momentum, n_steps = x, image, 1.0, 0
    for n_steps in range(most_steps):
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = (momentum - 1.0) / faster
        y, y_image = x + ahead * (x - old), image + ahead * (image - old_image)
        residual = residual_at(y_image)
        gradient = gradient_at(residual)
        while True:
            new = prox(y - gradient / curvature, 1.0 / curvature)
            change = new - y
            change_image = forward(change)
            bend = float((residual - residual_at(y_image + change_image)) @ change_image)
            length = float(np.vdot(change, change))
            if length == 0.0 or bend <= curvature * length * (1.0 + 1e-12):
                break
            curvature = max(_GROWTH * curvature, min(bend / length, 2.0 * curvature))
        move = curvature * float(np.abs(change).max(initial=0.0))
        if n_steps == 0:
            tolerance = max(tolerance, relative * move)
        old, old_image, x, image = x, image, new, y_image + change_image
        if move <= tolerance:
            break
        # adaptive restart: the last step went against the momentum
        momentum = 1.0 if np.vdot(-change, x - old) > 0.0 else faster
    return x, image, curvature, n_steps + 1


# -- one task's whole design as a linear map, centred and weighted without a copy, and its eigenvectors ------


class TaskOperator:
    """a -> sqrt(h) (X - mean_h) a for the rows of one task, with row weights h.

    Examples
    --------
    >>> import numpy as np
    >>> operator = TaskOperator(np.array([[1.0], [3.0]]), np.ones(1), np.ones(2), centred=True)
    >>> operator.forward(np.array([2.0]))
    array([-2.,  2.])
    """

    def __init__(self, X, inverse_scale: np.ndarray, weight: np.ndarray, *, centred: bool):
        self._X, self._scale, self._root = X, inverse_scale, np.sqrt(weight)
        self.n_features = X.shape[1]
        self._means = np.zeros(self.n_features)
        if centred:
            self._means = np.asarray(X.T @ weight) * inverse_scale / weight.sum()

    def forward(self, a: np.ndarray) -> np.ndarray:
        """Image of the coefficients a."""
        return self._root * (self._X @ (self._scale * a) - self._means @ a)

    def adjoint(self, r: np.ndarray) -> np.ndarray:
        """Correlation of every column with r."""
        v = self._root * r
        return self._scale * (self._X.T @ v) - self._means * v.sum()

    def columns(self, index: np.ndarray) -> np.ndarray:
        """Some columns of the map as a matrix."""
        X = self._X[:, index] if len(index) < self.n_features else self._X
        X = X.toarray() if sparse.issparse(X) else X
        return (X * self._scale[index] - self._means[index]) * self._root[:, None]

    @cached_property
    def mean_curvature(self) -> float:
        """Mean square sum of a column, in one direction drawn as good as any: a guess of the curvature."""
        signs = np.where(np.arange(self.n_features) % 2, 1.0, -1.0)
        return float(np.sum(self.forward(signs) ** 2)) / self.n_features


def task_designs(design: Design) -> list:
    """Rows of each task's X in float64, by reference where they can be."""
    tasks = design.tasks
    X = tasks.X.tocsr() if sparse.issparse(tasks.X) else tasks.X
    X = X if X.dtype == np.float64 else X.astype(np.float64)
    if design.is_complete:
        return [X] * design.n_tasks
    return [X[rows if tasks.rows is None else tasks.rows[rows]] for _, rows in design.segments()]


def task_basis(operator: TaskOperator) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of X X' of a task's operator that are above rounding, and orthonormal eigenvectors."""
    X = operator.columns(np.arange(operator.n_features))
    tall = X.shape[0] > X.shape[1]
    values, vectors = np.linalg.eigh(X.T @ X if tall else X @ X.T)
    kept = values > _NOTHING * max(values[-1], 0.0)
    vectors = vectors[:, kept]
    return values[kept], X @ (vectors / np.sqrt(values[kept])) if tall else vectors
