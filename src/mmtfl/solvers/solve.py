"""The front door of the solvers: pick one, guard the number range, keep BLAS to one thread."""

import math
import sys
from time import monotonic

import numpy as np

from mmtfl.engines import Engine
from mmtfl.engines.threads import Threads, one_blas_thread
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.algorithm1 import Report, run_algorithm1
from mmtfl.solvers.checkpoint import FitCheckpoint
from mmtfl.solvers.row_descent import RowDescent, best_of_starts
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.task_step import has_many_small_tasks

SOLVERS = ("auto", "alternating", "block")


def solve(
    problem: Problem,
    penalty: RowPenalty,
    *,
    solver: str = "auto",
    start: np.ndarray | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
    engine: Engine | None = None,
    n_jobs: int | None = None,
    report: Report | None = None,
    checkpoint: FitCheckpoint | None = None,
) -> Solution:
    """Minimise the joint form (2).

    Parameters
    ----------
    problem : Problem
        Data, here or elsewhere, and loss.
    penalty : RowPenalty
        The member of the family, with its strength.
    solver : {"auto", "alternating", "block"}
        "alternating" is Algorithm 1 from c = 1, finished by rows; "block" is row descent, for the concave
        members from several starts of which the lowest objective is kept; "auto" picks.
    start : ndarray (n_features, n_tasks), optional
        Where to begin.
    max_iter : int
        Passes over the data at most.
    tol : float
        Stop when the violation is below this share of the largest gradient entry at A = 0 (and, for convex
        members, the duality gap below this share of the objective there).
    engine : Engine, optional
        Where per-task work runs; it serves Algorithm 1.
    n_jobs : int, optional
        Threads of the default engine.
    report : callable, optional
        Called as report(passes, objective, change, features left) after every pass of Algorithm 1.
    checkpoint : FitCheckpoint, optional
        Where passes of Algorithm 1, and in the end the solution, are kept and taken up from.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks import Tasks
    >>> from mmtfl.objective.design import Design
    >>> from mmtfl.objective.losses import Squared
    >>> from mmtfl.objective.penalties import make_penalty
    >>> from mmtfl.objective.problem import Problem
    >>> from mmtfl.solvers import solve
    >>> tasks = Tasks.from_rows(np.eye(4), [4.0, 0.0, 2.0, 0.0], [0, 0, 1, 1])
    >>> problem = Problem(Design(tasks, fit_intercept=False), Squared())
    >>> solve(problem, make_penalty(2, 2, 0.5)).A.round(6)
    array([[3., 0.],
           [0., 0.],
           [0., 1.],
           [0., 0.]])
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}.")
    known = (
        None if checkpoint is None else checkpoint.solution(problem.design.n_features, problem.design.n_tasks)
    )
    if known is not None:
        return known
    with one_blas_thread():
        problem, units = problem.in_safe_units()
        if units is not None:
            penalty = units.penalty(penalty)
            start = None if start is None else units.start(start)
        solution = _dispatch(
            problem, penalty, solver, engine or Threads(n_jobs), start=start, max_iter=max_iter, tol=tol,
            passes={"report": report, "checkpoint": checkpoint},
        )  # fmt: skip
        if units is not None:
            solution = units.solution(solution)
    if checkpoint is not None:
        checkpoint.keep_solution(solution)
    return solution


def _dispatch(problem, penalty, solver, engine, *, start, passes, **options) -> Solution:
    is_elsewhere = problem.design.placed is not None
    serves = _why_rows_must_meet(penalty) is None
    if is_elsewhere:
        _check_reach(penalty, solver)
    # what runs elsewhere is Algorithm 1; the others need all rows in one place
    prefers = is_elsewhere or not engine.is_here or penalty.is_ridge_like
    prefers = prefers or (not penalty.is_convex and has_many_small_tasks(problem))
    if serves and (solver == "alternating" or (solver == "auto" and prefers)):
        return run_algorithm1(problem, penalty, engine, start=start, **options, **passes)
    if not penalty.is_convex:
        return best_of_starts(problem, penalty, start=start, **options)
    return RowDescent(problem).solve(penalty, start, **options)


def _why_rows_must_meet(penalty: RowPenalty) -> str | None:
    """What keeps Algorithm 1, which solves one task after the other, from a penalty; None if nothing does."""
    if math.isinf(penalty.p):
        return "p=inf"  # it stands still after one pass; docs/model.md section 4
    if penalty.known is not None:
        return "What is known of the features"
    if penalty.is_centred and penalty.p == 1.0:
        return "p=1 with pooling"  # every task alone pays for leaving the common part; section 10
    return None


def _check_reach(penalty: RowPenalty, solver: str) -> None:
    """Refuse what only row descent can do: it needs all rows in memory."""
    why = "solver='block'" if solver == "block" else _why_rows_must_meet(penalty)
    if why is not None:
        raise ValueError(
            f"{why} needs all rows in memory, and these tasks are stored: load them with stored.load()."
        )


class Reporter:
    """Print how far Algorithm 1 is on stderr: pass, objective, move of A and features left.

    There is one line a second at most, and `name` is that of the model.
    """

    seconds = 1.0  # between two lines, at least

    def __init__(self, name: str):
        self.name, self._last = name, monotonic()

    def __call__(self, n_passes: int, objective: float, change: float, n_kept: int) -> None:
        """Print one pass, unless the last line is younger than a second."""
        if monotonic() - self._last >= self.seconds:
            self._last = monotonic()
            moves = f"objective {objective:.6g}, A moves by {change:.1e} of its size, {n_kept} features left"
            print(f"[{self.name}] pass {n_passes}: {moves}", file=sys.stderr, flush=True)
