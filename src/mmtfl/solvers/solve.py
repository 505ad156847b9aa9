"""The front door of the solvers: pick one, guard the number range, keep BLAS to one thread."""

import math
from dataclasses import replace

import numpy as np

from mmtfl.data.tasks import Tasks
from mmtfl.engine.base import Engine
from mmtfl.engine.threads import Threads
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.objective import Objective
from mmtfl.objective.penalties import LogRows, RowPower
from mmtfl.solvers.alternating import Report, alternate
from mmtfl.solvers.blas import one_blas_thread
from mmtfl.solvers.block import RowDescent
from mmtfl.solvers.checkpoint import Book
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.starts import best_of_starts

SOLVERS = ("auto", "alternating", "block")
_POLISH_TOL = 1e-13  # next to the rounding of a gradient


def solve(
    tasks: Tasks,
    loss: Loss,
    penalty: RowPower | LogRows,
    *,
    solver: str = "auto",
    fit_intercept: bool = True,
    column_scale: np.ndarray | None = None,
    start: np.ndarray | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
    engine: Engine | None = None,
    n_jobs: int | None = None,
    polish: int = 0,
    report: Report | None = None,
    book: Book | None = None,
) -> Solution:
    """Minimise the joint form (2) over tasks.

    Parameters
    ----------
    tasks : Tasks
        The data.
    loss : Squared or Logistic
        The loss of a row.
    penalty : RowPower or LogRows
        The member of the family, with its strength.
    solver : {"auto", "alternating", "block"}
        "alternating" is Algorithm 1 from c = 1, finished by rows; "block" is row descent, for the concave
        members from several starts of which the lowest objective is kept; "auto" picks.
    fit_intercept : bool
        Whether each task has an unpenalised constant.
    column_scale : ndarray (n_features,), optional
        Work on X / column_scale, without copying X; A comes back in those units.
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
    polish : int
        Passes of row descent, at most, that follow a converged solution down to the rounding of floats: the
        answer then depends neither on where it started nor on the order of its sums.
    report : callable, optional
        Called as report(passes, objective, change, features left) after every pass of Algorithm 1.
    book : Book, optional
        Where passes of Algorithm 1, and in the end the solution, are kept and taken up from.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.data import Tasks
    >>> from mmtfl.objective.losses import Squared
    >>> from mmtfl.objective.penalties import make_penalty
    >>> from mmtfl.solvers import solve
    >>> tasks = Tasks.from_rows(np.eye(4), [4.0, 0.0, 2.0, 0.0], [0, 0, 1, 1])
    >>> solution = solve(tasks, Squared(), make_penalty(2, 2, 0.5), fit_intercept=False)
    >>> solution.A.round(6)
    array([[3., 0.],
           [0., 0.],
           [0., 1.],
           [0., 0.]])
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}.")
    known = None if book is None else book.solution()
    if known is not None:
        return known
    with one_blas_thread():
        objective = Objective(
            Design(tasks, column_scale=column_scale, fit_intercept=fit_intercept), loss, penalty
        )
        objective, factor = moderate(objective)
        if factor is not None and start is not None:
            start = start * factor[:, None]
        solution = _dispatch(
            objective, solver, engine or Threads(n_jobs), start=start, max_iter=max_iter, tol=tol,
            passes={"report": report, "book": book},
        )  # fmt: skip
        if polish and solution.converged:
            solution = _polished(objective, solution, polish)
        if factor is not None:
            solution = replace(solution, A=solution.A / factor[:, None])
    if book is not None:
        book.keep_solution(solution)
    return solution


def _polished(objective: Objective, solution: Solution, max_iter: int) -> Solution:
    """The solution after a few more passes of row descent; the objective does not rise."""
    found = RowDescent(objective).solve(solution.A, solution.intercept, max_iter=max_iter, tol=_POLISH_TOL)
    history = np.concatenate([solution.history, found.history])
    return replace(found, history=history, n_iter=len(history), converged=True, solver=solution.solver)


def moderate(objective: Objective) -> tuple[Objective, np.ndarray | None]:
    """The same problem in columns of moderate size, if squares of the given ones could leave the floats."""
    design, factor = objective.design.moderated(objective.null_gradient)
    if factor is None:
        return objective, None
    return Objective(design, objective.loss, objective.penalty.rescaled(1.0 / factor)), factor


def _dispatch(objective, solver, engine, *, start, passes, **options) -> Solution:
    penalty = objective.penalty
    # what runs elsewhere is Algorithm 1; the others need all rows in one place
    if solver == "auto" and not engine.is_here:
        solver = "alternating"
    # At p = inf Algorithm 1 stands still (docs/model.md section 4): rows do its work.
    if solver == "alternating" and not math.isinf(penalty.p):
        return alternate(objective, engine, start=start, **options, **passes)
    if not penalty.is_convex:
        return best_of_starts(objective, start=start, **options)
    if solver == "auto" and penalty.p == 2.0 and penalty.power > 1.0:
        # no row is ever dropped, and the tasks' own ridge problems are solved directly
        return alternate(objective, engine, start=start, **options, **passes)
    return RowDescent(objective).solve(start, **options)
