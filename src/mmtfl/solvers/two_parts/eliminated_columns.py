"""Any norm of P with the columns of Q, which are eliminated.

For fixed P a task's q is a ridge whose strength its own length rho sets, so in the basis of eigenvectors of
X_t X_t' it only shrinks the residual: by 1 / (1 + s_i rho / alpha2), with one root for rho. What is left is a
smooth function of P, much flatter where X_t is large; docs/additive.md section 3.
"""

import numpy as np

from mmtfl.objective.norms import ColumnNorm, Norm, RowNorm
from mmtfl.objective.problem import Problem
from mmtfl.objective.two_norms import TwoNorms
from mmtfl.solvers.two_parts.accelerated import FORGET, accelerate
from mmtfl.solvers.two_parts.part_descent import Move, State
from mmtfl.solvers.two_parts.task_operators import TaskBasis, TaskOperator, task_designs, task_operators

_LEAST_ADDED = 20


class _SharedPart:
    """The model over the rows of P that are worked on, after Q is gone; images live in the tasks' bases.

    `x` has the columns of each task in its basis, `target` the residual without Q, `eigenvalues` those of
    the tasks that are open for Q and zeros elsewhere.
    """

    def __init__(
        self, norm: Norm, alpha: float, x: list, target: list, eigenvalues: list, lengths: np.ndarray
    ):
        self._norm, self._alpha, self._x = norm, alpha, x
        self._target, self._eigenvalues = np.concatenate(target), np.concatenate(eigenvalues)
        self.offsets = np.concatenate([[0], np.cumsum([len(part) for part in target])]).astype(np.intp)
        self.lengths = lengths

    def forward(self, change: np.ndarray) -> np.ndarray:
        return np.concatenate([x @ change[:, t] for t, x in enumerate(self._x)])

    def residual(self, image: np.ndarray) -> np.ndarray:
        from mmtfl.kernels.split_rows_problem import column_lengths

        e = self._target - image
        column_lengths(e, self._eigenvalues, self.offsets, self._alpha, self.lengths)
        return e / (1.0 + self._eigenvalues * np.repeat(self.lengths, np.diff(self.offsets)) / self._alpha)

    def gradient(self, residual: np.ndarray) -> np.ndarray:
        parts = (residual[self.offsets[t] : self.offsets[t + 1]] for t in range(len(self._x)))
        return -np.stack([part @ x for part, x in zip(parts, self._x, strict=True)], axis=1)

    def prox(self, x: np.ndarray, step: float) -> np.ndarray:
        return self._norm.prox(x, step)

    def change(self, residual: np.ndarray, t: int) -> np.ndarray:
        """What a residual of task t differs from its target by."""
        here = slice(self.offsets[t], self.offsets[t + 1])
        return residual[here] - self._target[here]


class EliminatedColumns:
    """Minimise models over P, for any norm of P and ColumnNorm of Q."""

    def __init__(self, problem: Problem, *, by_rows: bool):
        self.problem = problem
        self._designs = task_designs(problem.design)
        self._operators: list[TaskOperator] = []
        self._bases: dict[int, TaskBasis] = {}
        self._columns: list[np.ndarray] = []
        self._curvature = 0.0
        # rows of P come in when they are asked for; other norms have no rows to leave out
        everything = np.arange(problem.design.n_features)
        self._features = everything[:0] if by_rows else everything
        self._open: set[int] = set()

    def curvature(self) -> float:
        """Curvature of the last step; any number serves before."""
        return self._curvature or 1.0

    def grow(self, norms: TwoNorms, state: State, gradient: np.ndarray, least: float) -> int:
        """Take in the rows of P that are kept or asked for, and the tasks with a column or asking for one."""
        shared, specific = norms.shared, norms.specific
        assert isinstance(specific, ColumnNorm)
        n_new = 0
        if isinstance(shared, RowNorm):
            present = np.zeros(len(gradient), dtype=bool)
            present[self._features] = True
            kept = state.P.any(axis=1)
            excess = np.where(present | kept, 0.0, shared.dual_norms(gradient) - shared.alpha)
            most = max(_LEAST_ADDED, int(kept.sum()))
            worst = np.argsort(-excess, kind="stable")[:most]
            worst = worst[excess[worst] > least]
            n_new = len(worst)
            if n_new or np.any(kept & ~present):
                present[kept], present[worst] = True, True
                self._features, self._columns = np.flatnonzero(present), []
        used, asked = state.Q.any(axis=0), specific.sizes(gradient) > specific.alpha
        self._open = set(np.flatnonzero(used | asked).tolist())
        return n_new + int(np.count_nonzero(asked & ~used))

    def minimise(
        self, norms: TwoNorms, state: State, slope_z: np.ndarray, weight: np.ndarray, tolerance: float,
        relative: float,
    ) -> Move:  # fmt: skip
        """Accelerated steps on P from the present one."""
        self._prepare(weight)
        design, operators, root = self.problem.design, self._operators, np.sqrt(weight)
        residual = -slope_z / root
        without_q = residual.copy()
        columns, target, eigenvalues = [], [], []
        for t, rows in design.segments():
            without_q[rows] += operators[t].forward(state.Q[:, t]) if t in self._open else 0.0
            basis = self._bases[t] if t in self._open else None
            x, e = self._columns[t], without_q[rows]
            columns.append(x if basis is None else basis.rotate(x))
            target.append(e if basis is None else basis.rotate(e))
            eigenvalues.append(np.zeros(len(e)) if basis is None else basis.eigenvalues)
        alpha = norms.specific.alpha
        lengths = np.sqrt(np.einsum("jt,jt->t", state.Q, state.Q))
        model = _SharedPart(norms.shared, alpha, columns, target, eigenvalues, lengths)
        guess = FORGET * self._curvature or max(operator.mean_curvature for operator in operators)
        goal, image, self._curvature = accelerate(
            model, state.P[self._features], guess or 1.0, tolerance=tolerance, relative=relative
        )
        left = model.residual(image)
        P, Q, new = state.P.copy(), np.zeros_like(state.Q), without_q.copy()
        P[self._features] = goal
        for t, rows in design.segments():
            change = model.change(left, t)
            new[rows] += self._bases[t].back(change) if t in self._open else change
            if model.lengths[t] > 0.0:
                Q[:, t] = model.lengths[t] / alpha * operators[t].adjoint(new[rows])
        return Move(P, Q, (residual - new) / root)

    def _prepare(self, weight: np.ndarray) -> None:
        """Operators, columns and bases for these weights; the squared loss has one set of weights."""
        quadratic = self.problem.loss.is_quadratic
        if not (self._operators and quadratic):
            self._operators = task_operators(self.problem.design, self._designs, weight)
            self._columns, self._bases = [], {}
        if not self._columns:
            self._columns = [operator.columns(self._features) for operator in self._operators]
        for t in self._open - self._bases.keys():
            self._bases[t] = TaskBasis(self._operators[t])
