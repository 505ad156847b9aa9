"""Accelerated proximal steps, with backtracking and adaptive restarts, on models of the parts."""

from typing import Protocol

import numpy as np

from mmtfl.objective.problem import Problem
from mmtfl.objective.two_norms import TwoNorms
from mmtfl.solvers.two_parts.part_descent import Move, State
from mmtfl.solvers.two_parts.task_operators import TaskOperator, task_designs, task_operators

_MOST_STEPS = 5000
_GROWTH = 1.5  # of the curvature, when a step went further than its bound
FORGET = 0.5  # of the curvature from one model to the next, which may be flatter


class StepModel(Protocol):
    """A smooth function of the parts x, known by what their change does to an image, and the norms of x."""

    def forward(self, change: np.ndarray) -> np.ndarray:
        """Image of a change of x: linear."""

    def residual(self, image: np.ndarray) -> np.ndarray:
        """Residual at an image."""

    def gradient(self, residual: np.ndarray) -> np.ndarray:
        """Gradient in x at a residual."""

    def prox(self, x: np.ndarray, step: float) -> np.ndarray:
        """Prox of the norms."""


def accelerate(
    model: StepModel, x: np.ndarray, curvature: float, *, tolerance: float, relative: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """Minimise from x until a step moves no slope by more than tolerance, or that share of the first move.

    Returns x, its image, and the curvature of the last step.
    """
    image = model.forward(np.zeros_like(x))
    old, old_image, momentum = x, image, 1.0
    for n_steps in range(_MOST_STEPS):
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = (momentum - 1.0) / faster
        y, y_image = x + ahead * (x - old), image + ahead * (image - old_image)
        residual = model.residual(y_image)
        gradient = model.gradient(residual)
        while True:
            new = model.prox(y - gradient / curvature, 1.0 / curvature)
            change = new - y
            change_image = model.forward(change)
            bend = float((residual - model.residual(y_image + change_image)) @ change_image)
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
    return x, image, curvature


class _BothParts:
    """The least-squares model over (P, Q), whatever their norms."""

    def __init__(
        self, problem: Problem, norms: TwoNorms, operators: list[TaskOperator], residual: np.ndarray
    ):
        self.problem, self.norms = problem, norms
        self.operators, self._residual = operators, residual

    def forward(self, change: np.ndarray) -> np.ndarray:
        A = change[0] + change[1]
        return np.concatenate([operator.forward(A[:, t]) for t, operator in enumerate(self.operators)])

    def residual(self, image: np.ndarray) -> np.ndarray:
        return self._residual - image

    def gradient(self, residual: np.ndarray) -> np.ndarray:
        segments = self.problem.design.segments()
        columns = [self.operators[t].adjoint(residual[rows]) for t, rows in segments]
        return -np.stack(columns, axis=1)[None]  # the same for both parts

    def prox(self, x: np.ndarray, step: float) -> np.ndarray:
        return np.stack([self.norms.shared.prox(x[0], step), self.norms.specific.prox(x[1], step)])


class BothParts:
    """Minimise models over P and Q at once, knowing the norms by their prox alone: this serves any pair."""

    def __init__(self, problem: Problem):
        self.problem = problem
        self._designs = task_designs(problem.design)
        self._operators: list[TaskOperator] = []
        self._curvature = 0.0

    def curvature(self) -> float:
        """Curvature of the last step; any number serves before."""
        return self._curvature or 1.0

    def grow(self, norms: TwoNorms, state: State, gradient: np.ndarray, least: float) -> int:
        """Nothing is left out, so nothing is taken in."""
        return 0

    def minimise(
        self, norms: TwoNorms, state: State, slope_z: np.ndarray, weight: np.ndarray, tolerance: float,
        relative: float,
    ) -> Move:  # fmt: skip
        """Accelerated steps from the present parts."""
        problem, root = self.problem, np.sqrt(weight)
        if not (self._operators and problem.loss.is_quadratic):
            self._operators = task_operators(problem.design, self._designs, weight)
        model = _BothParts(problem, norms, self._operators, -slope_z / root)
        start = np.stack([state.P, state.Q])
        # P and Q move together, so their common curvature counts twice
        guess = FORGET * self._curvature or 2.0 * max(operator.mean_curvature for operator in self._operators)
        x, image, self._curvature = accelerate(
            model, start, guess or 1.0, tolerance=tolerance, relative=relative
        )
        return Move(x[0], x[1], image / root)
