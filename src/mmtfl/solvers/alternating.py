"""Algorithm 1: every task for itself, then c in closed form, until A stands still; docs/model.md section 4.

In the joint form it is majorise-minimise: at each pass the tasks see sum_j w_j |a_jt|^p with the weights
w_j = gamma1 c_j^-p of the last A, so the objective never rises. Only the weights (d numbers) go out and the
tasks' coefficients come back.
"""

import numpy as np

from mmtfl.data.tasks import Tasks
from mmtfl.engine.base import Engine
from mmtfl.objective.design import Design
from mmtfl.objective.objective import Objective
from mmtfl.solvers.block import RowDescent
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.task_problem import TaskAnswer, TaskProblem

_INNER = 0.03  # accuracy of a task's own problem, in units of tol
_INEXACT = 0.03  # while A still moves, in units of its last move: early passes need no exact answers
_STALLED = 1e-12  # a pass that lowers the objective by less, as a share of it at A = 0, is the last
_CONVEX_PASSES_TOL = 1e-3  # for convex members the rows finish the work: any start gives the same answer
_GONE = 1e-5  # a row of this share of the largest effect leaves the passes; the finish may bring it back
_LONGEST_LEAP = 16.0
_LARGEST_LOG = 500.0  # whose exponential is still a float


def alternate(objective: Objective, engine: Engine, *, start=None, max_iter: int, tol: float) -> Solution:
    """Algorithm 1 from c = 1 (or from the c of `start`), then row descent to settle zeros exactly.

    Algorithm 1 alone only approaches the zero rows of the convex members, and stops at some points that row
    descent can still leave; the finish never raises the objective.
    """
    A, intercept, history = run_passes(objective, engine, start=start, max_iter=max_iter, tol=tol)
    finish = RowDescent(objective).solve(A, intercept, max_iter=max_iter, tol=tol)
    full_history = np.concatenate([history, finish.history])
    return Solution(
        A=finish.A,
        intercept=finish.intercept,
        objective=finish.objective,
        violation=finish.violation,
        dual_gap=finish.dual_gap,
        n_iter=len(full_history),
        history=full_history,
        converged=finish.converged,
        solver="alternating",
    )


def run_passes(
    objective: Objective, engine: Engine, *, start=None, max_iter: int, tol: float, accelerate: bool = True
):
    """The passes of Algorithm 1: A, the intercepts, and the objective after each pass.

    With `accelerate`, early passes are inexact, rows that vanish are left out, and c leaps ahead after
    every two passes. A pass from a leap counts only if the objective does not rise; else the next one is
    plain. Without, this is the algorithm as printed.
    """
    design, penalty = objective.design, objective.penalty
    n_features, n_tasks = design.n_features, design.n_tasks
    placed = engine.place(
        [TaskProblem(_one_task(design, t), objective.loss, penalty.p) for t in range(n_tasks)]
    )
    if start is None or not np.any(start):  # from zero weights no feature would return
        weights = np.array(np.broadcast_to(np.asarray(penalty.start_weight(), dtype=float), n_features))
        A = np.zeros((n_features, n_tasks))
    else:
        A = np.asarray(start, dtype=float)
        weights = penalty.weights(A)
    goal = max(tol, _CONVEX_PASSES_TOL) if penalty.is_convex else tol
    separable = penalty.power == penalty.p and penalty.kind == 0  # k = inf: c never changes
    history: list[float] = []
    leaps = _Leaps() if accelerate and not separable else None
    intercept, size, change, leapt = np.zeros(n_tasks), 0.0, np.inf, False
    for _ in range(max_iter):
        inner = _INNER * tol if leaps is None else max(_INNER * tol, min(1e-3, _INEXACT * change))
        answers = engine.map(_minimise, placed, [weights] * n_tasks, [inner] * n_tasks)
        new = np.column_stack([answer.a for answer in answers])
        value = sum(answer.loss for answer in answers) + penalty.value(new)
        if leapt and value > history[-1]:
            history.append(history[-1])  # the pass is spent, and A stays where it was
            weights, leapt = _without_vanished(objective, A), False
            continue
        previous, A = A, new
        intercept = np.array([answer.intercept for answer in answers])
        history.append(value)
        size = max(size, np.abs(A).max())  # A may go to zero
        change = float(np.abs(A - previous).max()) / size if size > 0.0 else 0.0
        stalled = len(history) > 1 and abs(history[-2] - value) <= _STALLED * objective.null_value
        if change <= goal or separable or (stalled and inner <= _INNER * tol):
            break
        if leaps is None:
            weights = penalty.weights(A)
        else:
            weights, leapt = leaps.next(weights, _without_vanished(objective, A))
    return A, intercept, np.array(history)


def _without_vanished(objective: Objective, A: np.ndarray) -> np.ndarray:
    """The weights of the next pass; inf for rows that say next to nothing in any task, in units of y."""
    effect = np.max(np.abs(A) * np.sqrt(objective.design.curvature), axis=1)
    with np.errstate(divide="ignore"):
        return np.where(effect > _GONE * effect.max(initial=0.0), objective.penalty.weights(A), np.inf)


def _size(v: np.ndarray) -> float:
    return float(np.sqrt(v @ v))


class _Leaps:
    """Squared extrapolation (SQUAREM) of every two passes, in the logarithm of the weights, so of c.

    The passes crawl where a row is slow to vanish or to appear. A leap in the direction of the last two, as
    long as their change of pace allows, crosses that; Anderson mixing, which looks for a fixed point, does
    not: it turns back to the one that the passes are about to leave.
    """

    def __init__(self) -> None:
        self._logs: list[np.ndarray] = []

    def forget(self) -> None:
        """Begin anew."""
        self._logs = []

    def next(self, given: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, bool]:
        """Weights for the next pass from the last one's and what it made of them; whether that is a leap."""
        with np.errstate(divide="ignore"):
            self._logs = [*(self._logs or [np.log(given)]), np.log(got)]
        if len(self._logs) < 3:
            return got, False
        kept = np.all(np.isfinite(self._logs), axis=0)
        first, second, third = (logs[kept] for logs in self._logs)
        self.forget()
        step = second - first
        bend = (third - second) - step
        length = min(_size(step) / max(_size(bend), 1e-300), _LONGEST_LEAP)
        if length <= 1.0:  # no farther than the two passes went
            return got, False
        out = got.copy()
        log = first + 2.0 * length * step + length**2 * bend
        out[kept] = np.exp(np.clip(log, -_LARGEST_LOG, _LARGEST_LOG))
        return out, True


def _minimise(problem: TaskProblem, weights: np.ndarray, tol: float) -> TaskAnswer:
    return problem.minimise(weights, tol)


def _one_task(design: Design, t: int) -> Design:
    """Task t alone, over the same X, with the n of all tasks in its loss."""
    tasks, part = design.tasks, slice(design.offsets[t], design.offsets[t + 1])
    alone = Tasks(
        X=tasks.X[part] if tasks.rows is None else tasks.X,
        y=tasks.y[part],
        offsets=np.array([0, part.stop - part.start]),
        labels=tasks.labels[t : t + 1],
        weights=None if tasks.weights is None else tasks.weights[part],
        rows=None if tasks.rows is None else tasks.rows[part],
    )
    return Design(
        alone,
        column_scale=1.0 / design.inverse_scale,
        fit_intercept=design.fit_intercept,
        mean_size=design.mean_size,
    )
