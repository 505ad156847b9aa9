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
_STALLED = 1e-12  # a pass that lowers the objective by less, as a share of it at A = 0, is the last
_CONVEX_PASSES_TOL = 1e-3  # for convex members the rows finish the work: any start gives the same answer


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


def run_passes(objective: Objective, engine: Engine, *, start=None, max_iter: int, tol: float):
    """The passes of Algorithm 1: A, the intercepts, and the objective after each pass."""
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
    history: list[float] = []
    size = 0.0
    for _ in range(max_iter):
        answers = engine.map(_minimise, placed, [weights] * n_tasks, [_INNER * tol] * n_tasks)
        previous, A = A, np.column_stack([answer.a for answer in answers])
        history.append(sum(answer.loss for answer in answers) + penalty.value(A))
        change, size = np.abs(A - previous).max(), max(size, np.abs(A).max())  # A may go to zero
        separable = penalty.power == penalty.p and penalty.kind == 0  # k = inf: c never changes
        stalled = len(history) > 1 and history[-2] - history[-1] <= _STALLED * objective.null_value
        if change <= goal * size or stalled or separable:
            break
        weights = penalty.weights(A)
    intercept = np.array([answer.intercept for answer in answers])
    return A, intercept, np.array(history)


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
