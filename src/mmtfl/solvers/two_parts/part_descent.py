"""The additive solver: passes over the data outside, a least-squares model of the two parts inside.

Each pass gives the gradient, from it the violation and the duality gap, and says where to work next. Between
passes a `PartSolver` minimises least-squares models: one for the squared loss, Newton models for others;
docs/additive.md section 3.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mmtfl.objective.problem import Problem
from mmtfl.objective.two_norms import TwoNorms
from mmtfl.solvers.solution import AdditiveSolution

_ROUNDING = 1e-14  # an objective that rises by less has not risen
_ALPHA_RESOLVED = 1e-10
_INEXACT = 0.1  # a Newton model is minimised until steps are this share of the first
_WEIGHT_FLOORS = (1e-6, 1e-3, 3e-2, 1.0)  # smallest Newton weight of a row, as a share of the bound on it


@dataclass
class State:
    """What changes: the two parts, the linear predictor they give with the best intercepts, the objective."""

    P: np.ndarray
    Q: np.ndarray
    z: np.ndarray
    value: float


@dataclass(frozen=True)
class Move:
    """Where a model is least: both parts, and the change of the predictor."""

    P: np.ndarray
    Q: np.ndarray
    change_z: np.ndarray


class PartSolver(Protocol):
    """What the passes ask of a minimiser of least-squares models."""

    def curvature(self) -> float:
        """Largest curvature among the entries it works on."""

    def grow(self, norms: TwoNorms, state: State, gradient: np.ndarray, least: float) -> int:
        """Take in what the gradient asks for beyond `least`; how much."""

    def minimise(
        self, norms: TwoNorms, state: State, slope_z: np.ndarray, weight: np.ndarray, tolerance: float,
        relative: float,
    ) -> Move:  # fmt: skip
        """Minimise the model with these row weights from the present parts.

        Until no slope moves by more than tolerance, or by that share of the first move.
        """


class PassDescent:
    """Minimise a problem under two norms from any start; keeps what it has gathered for the next call.

    Parameters
    ----------
    problem : Problem
        Data and loss.
    parts : PartSolver
        Minimiser of least-squares models for this problem and the kinds of the norms.
    """

    def __init__(self, problem: Problem, parts: PartSolver):
        self.problem, self.parts = problem, parts

    def solve(self, norms: TwoNorms, start=None, *, max_iter: int, tol: float) -> AdditiveSolution:
        """Descend from the parts (P, Q) of `start`, or from zero."""
        problem, design, scale = self.problem, self.problem.design, self.problem.scale
        # a penalty below the rounding of the gradient cannot be told from none by a dual point
        certifiable = min(norms.shared.alpha, norms.specific.alpha) > _ALPHA_RESOLVED * scale
        state = self._start(norms, start)
        history: list[float] = []
        violation, gap, converged = np.inf, None, False
        for _ in range(max_iter):
            slope_z = problem.loss_gradient(state.z)
            moved = state.P.any() or state.Q.any()
            gradient = design.correlate(slope_z) if moved else problem.null_gradient
            violation = norms.violation(state.P, state.Q, gradient, self.parts.curvature())
            history.append(state.value)
            gap = norms.dual_gap(problem, state.P, state.Q, state.z, gradient) if certifiable else None
            close = violation <= tol * scale
            converged = close and (gap is None or gap <= tol * problem.null_value)
            # a start may bring entries that are all but zero: they must meet a sweep, which drops them
            unswept = len(history) == 1 and moved
            if (converged and not unswept) or len(history) == max_iter:
                break
            n_new = self.parts.grow(norms, state, gradient, 0.0 if close else tol * scale)
            # what is gathered need not be exact while more is still to come in
            goal = max(0.01 * violation, 0.3 * tol * scale) if n_new and not close else 0.3 * tol * scale
            if close and not converged:
                goal = min(goal, 0.1 * violation)
            if not self._descend(norms, state, slope_z, goal):
                break  # at the limit of floating point
        return self._solution(norms, state, history, violation / scale, gap, converged)

    def _start(self, norms: TwoNorms, start) -> State:
        problem, design = self.problem, self.problem.design
        shape = (design.n_features, design.n_tasks)
        P, Q = (np.zeros(shape) for _ in range(2)) if start is None else (np.array(part) for part in start)
        if not (P.any() or Q.any()):
            return State(P, Q, design.spread(problem.null_intercept), problem.null_value)
        z = with_best_intercepts(problem, problem.predict(P + Q, problem.null_intercept))
        return State(P, Q, z, problem.loss_value(z) + norms.value(P, Q))

    def _descend(self, norms: TwoNorms, state: State, slope_z: np.ndarray, tolerance: float) -> bool:
        """Minimise one model; False if nothing moved."""
        loss, design = self.problem.loss, self.problem.design
        if loss.is_quadratic:
            return self._step(norms, state, slope_z, design.row_weight, tolerance)
        bound = design.spread(self.problem.loss_curvature) * design.row_weight
        hessian = loss.hessian(design.y, state.z, design.row_weight)
        # Where the model is too flat the step goes too far: raise its curvature towards the bound, where the
        # model lies above the loss and any fall of it is a fall of the objective.
        for floor in _WEIGHT_FLOORS:
            weight = np.maximum(hessian, floor * bound)
            if self._step(norms, state, slope_z, weight, 0.1 * tolerance, _INEXACT):
                return True
        return False

    def _step(
        self, norms: TwoNorms, state: State, slope_z, weight, tolerance: float, relative: float = 0.0
    ) -> bool:
        """Go where the model is least, as far as the objective falls; False if it does not."""
        problem = self.problem
        move = self.parts.minimise(norms, state, slope_z, weight, tolerance, relative)
        if np.array_equal(move.P, state.P) and np.array_equal(move.Q, state.Q):
            return False
        for step in (1.0, 0.5, 0.25):
            P = move.P if step == 1.0 else state.P + step * (move.P - state.P)
            Q = move.Q if step == 1.0 else state.Q + step * (move.Q - state.Q)
            z = with_best_intercepts(problem, state.z + step * move.change_z)
            value = problem.loss_value(z) + norms.value(P, Q)
            if value <= state.value + _ROUNDING * abs(state.value):
                state.P, state.Q, state.z, state.value = P, Q, z, value
                return True
        return False

    def _solution(
        self, norms: TwoNorms, state: State, history, violation, gap, converged
    ) -> AdditiveSolution:
        design = self.problem.design
        A = state.P + state.Q
        intercept = design.task_means(state.z - design.predict(A), design.row_weight)
        return AdditiveSolution(
            A=A,
            intercept=intercept if design.fit_intercept else np.zeros(design.n_tasks),
            objective=state.value,
            violation=violation,
            dual_gap=gap,
            n_iter=len(history),
            history=np.array(history),
            converged=converged,
            solver=type(self.parts).__name__,
            shared=state.P,
            specific=state.Q,
            loss=state.value - norms.value(state.P, state.Q),
        )


def with_best_intercepts(problem: Problem, z: np.ndarray) -> np.ndarray:
    """z shifted, task by task, to where the loss is least; so the dual point is feasible."""
    if not problem.design.fit_intercept:
        return z
    return z + problem.design.spread(best_shifts(problem, z))


def best_shifts(problem: Problem, z: np.ndarray) -> np.ndarray:
    """The constant of each task that lowers the loss at z the most: Newton inside a bracket."""
    design, loss = problem.design, problem.loss
    if loss.is_quadratic:
        return design.task_means(design.y - z, design.row_weight)
    low, high = loss.shift_range(design.y, z)
    low, high = np.minimum.reduceat(low, design.offsets[:-1]), np.maximum.reduceat(high, design.offsets[:-1])
    shift = np.zeros(design.n_tasks)
    for _ in range(60):
        moved = z + design.spread(shift)
        slope = design.task_sums(loss.gradient(design.y, moved, design.row_weight))
        bend = design.task_sums(loss.hessian(design.y, moved, design.row_weight))
        low, high = np.where(slope < 0.0, shift, low), np.where(slope < 0.0, high, shift)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            trial = shift - slope / bend
        trial = np.where((trial > low) & (trial < high), trial, 0.5 * (low + high))
        settled = np.abs(slope) <= 1e-14 * design.task_weight
        if settled.all() or np.array_equal(trial, shift):
            break
        shift = np.where(settled, shift, trial)
    return shift
