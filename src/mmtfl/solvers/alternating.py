"""Algorithm 1: every task for itself, then c in closed form, until A stands still; docs/model.md section 4.

In the joint form it is majorise-minimise: at each pass the tasks see sum_j w_j |a_jt|^p with the weights
w_j = gamma1 c_j^-p of the last A, so the objective never rises. The weights (at most d numbers) go out and
row norms come back; the coefficients stay with their tasks until the end.
"""

from collections.abc import Callable

import numpy as np

from mmtfl.engine.base import Engine
from mmtfl.objective.objective import Objective
from mmtfl.solvers.block import RowDescent
from mmtfl.solvers.leaps import Leaps
from mmtfl.solvers.placed import PassResult, Placed
from mmtfl.solvers.placed_design import judged
from mmtfl.solvers.shards import Update
from mmtfl.solvers.solution import Solution

_INNER = 0.03  # accuracy of a task's own problem, in units of tol
_INEXACT = 0.03  # while A still moves, in units of its last move: early passes need no exact answers
_STALLED = 1e-12  # a pass that lowers the objective by less, as a share of it at A = 0, is the last
_CONVEX_PASSES_TOL = 1e-3  # for convex members the rows finish the work: any start gives the same answer
_GONE = 1e-5  # a row of this share of the largest effect leaves the passes; the finish may bring it back

Report = Callable[[int, float, float, int], None]


def alternate(
    objective: Objective,
    engine: Engine,
    *,
    start=None,
    max_iter: int,
    tol: float,
    report: Report | None = None,
) -> Solution:
    """Algorithm 1 from c = 1 (or from the c of `start`), then row descent to settle zeros exactly.

    Algorithm 1 alone only approaches the zero rows of the convex members, and stops at some points that row
    descent can still leave; the finish never raises the objective.
    """
    passes = Passes(objective, engine, start=start, tol=tol, report=report)
    passes.run(max_iter, passes.early_goal)
    if not objective.design.can_gather(passes.n_kept):
        passes.run(max_iter, tol)
        return judged(objective, passes.held, *passes.bring_home(), tol=tol, history=np.array(passes.history))
    A, intercept = passes.bring_home()
    finish = RowDescent(objective).solve(A, intercept, max_iter=max_iter, tol=tol)
    full_history = np.concatenate([passes.history, finish.history])
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
    """The passes of Algorithm 1: A, the intercepts, and the objective after each pass."""
    passes = Passes(objective, engine, start=start, tol=tol, accelerate=accelerate)
    passes.run(max_iter, passes.early_goal)
    return *passes.bring_home(), np.array(passes.history)


class Passes:
    """The passes of Algorithm 1, to be run until A moves no more than asked.

    With `accelerate`, early passes are inexact, rows that vanish are left out, and c leaps ahead after every
    two passes. A pass from a leap counts only if the objective does not rise; else the next one is plain.
    Without, this is the algorithm as printed.
    """

    def __init__(
        self, objective: Objective, engine: Engine, *, tol: float, start=None, accelerate: bool = True,
        report: Report | None = None,
    ):  # fmt: skip
        self.objective, self.tol, self.report = objective, tol, report
        self.placed = Placed.of(objective, engine)
        penalty = objective.penalty
        self.separable = penalty.power == penalty.p and penalty.kind == 0  # k = inf: c never changes
        self.leaps = Leaps() if accelerate and not self.separable else None
        self.history: list[float] = []
        self.size, self.change, self.leapt, self.settled = 0.0, np.inf, False, False
        self.last: PassResult | None = None
        n_features = objective.design.n_features
        if start is None or not np.any(start):  # from zero weights no feature would return
            weight = np.asarray(penalty.start_weight(), dtype=float)
            self.weights = np.array(np.broadcast_to(weight, n_features))
            self.held: list = [None] * len(self.placed.shards)
        else:
            A = np.asarray(start, dtype=float)
            self.weights = penalty.weights(A)
            self.held = self.placed.hold(np.ascontiguousarray(A.T), None)

    @property
    def n_kept(self) -> int:
        """Number of features still there."""
        return 0 if self.last is None else int(np.count_nonzero(self.last.norms))

    @property
    def early_goal(self) -> float:
        """How still A must stand where row descent finishes the work."""
        return max(self.tol, _CONVEX_PASSES_TOL) if self.objective.penalty.is_convex else self.tol

    def run(self, max_iter: int, goal: float) -> None:
        """Go on until A moves by no more than this share of its size, `max_iter` passes in all."""
        self.settled = self.settled and self.change <= goal
        while len(self.history) < max_iter and not self.settled:
            self._pass(goal)

    def bring_home(self) -> tuple[np.ndarray, np.ndarray]:
        """A (n_features, n_tasks) and the intercepts."""
        held = self.placed.bring_home(self.held)
        assert held.intercept is not None  # a pass finds them
        return np.ascontiguousarray(held.A.T), held.intercept

    def _pass(self, goal: float) -> None:
        exact = _INNER * self.tol
        inner = exact if self.leaps is None else max(exact, min(1e-3, _INEXACT * self.change))
        kept = np.flatnonzero(np.isfinite(self.weights)).astype(np.int32)
        update = Update(kept, self.weights[kept], inner)
        held, result = self.placed.pass_over(self.held, update, len(self.history) + 1)
        value = result.loss + self.objective.penalty.value_at(result.norms)
        if self.leapt and value > self.history[-1]:
            self.history.append(self.history[-1])  # the pass is spent, and A stays where it was
            self.weights, self.leapt = self._next_weights(), False
            self._tell(kept)
            return
        before = self.history[-1] if self.history else np.inf
        self.held, self.last = held, result
        self.history.append(value)
        self.size = max(self.size, result.largest)  # A may go to zero
        self.change = result.moved / self.size if self.size > 0.0 else 0.0
        stalled = abs(before - value) <= _STALLED * self.objective.null_value and inner <= exact
        self.settled = self.change <= goal or self.separable or stalled
        if self.leaps is None:
            self.weights = self.objective.penalty.weights_at(result.norms)
        elif not self.settled:
            self.weights, self.leapt = self.leaps.next(self.weights, self._next_weights())
        self._tell(kept)

    def _next_weights(self) -> np.ndarray:
        """The weights of the next pass; inf for rows that say next to nothing in any task, in units of y."""
        assert self.last is not None  # a pass from a leap is never the first
        effect = self.last.effect
        with np.errstate(divide="ignore"):
            weights = self.objective.penalty.weights_at(self.last.norms)
        return np.where(effect > _GONE * effect.max(initial=0.0), weights, np.inf)

    def _tell(self, kept: np.ndarray) -> None:
        if self.report is not None:
            self.report(len(self.history), self.history[-1], self.change, len(kept))
