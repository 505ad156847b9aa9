"""Passes of Algorithm 1 and sweeps over rows, in turn: concave members of very many small tasks.

Such tasks are solved together, so that a pass brings every task to its own minimum at the price of a sweep
over the rows. But a pass neither takes up a row that is zero nor drops one that is better gone: rows do.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mmtfl.engines.threads import Threads
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.algorithm1 import Passes
from mmtfl.solvers.distributed.placed import Placed
from mmtfl.solvers.distributed.small_tasks import has_many_small_tasks
from mmtfl.solvers.row_descent import RowDescent, Settled
from mmtfl.solvers.solution import Solution

_ROUGH = 1e-4  # accuracy of rows between passes
_MOST_PASSES, _STEADY = 40, 1e-3  # of one turn: their number, and the change of A at which it ends
_TURNS, _LEAST_GAIN = 10, 1e-4  # and the share of the objective that a turn of rows has to gain
_FIRST_STEPS = 2  # of a descent from zero


def needs_alternation(problem: Problem, penalty: RowPenalty) -> bool:
    """Whether passes and rows take turns under a penalty, which is concave."""
    by_tasks = penalty.known is None and not penalty.is_centred and not math.isinf(penalty.p)
    return by_tasks and has_many_small_tasks(problem)


class Turns:
    """Turns of passes and rows under one penalty.

    Parameters
    ----------
    descent : RowDescent
        The rows, of which those that matter are gathered.
    penalty : RowPenalty
        A concave member.
    """

    def __init__(self, descent: RowDescent, penalty: RowPenalty):
        self.descent, self.problem, self.penalty = descent, descent.problem, penalty
        self._placed = Placed.of(descent.problem, Threads())

    def settled(self, start: np.ndarray | None) -> Iterator[Settled]:
        """Where turns lead from c = 1, and from a start if there is one."""
        passes = self._follow(None, None)
        A, intercept = passes.bring_home()
        yield self._settle(A, intercept, passes.history[-1])
        if not A.any():  # rows begin from zero, and which of them is first decides much
            found = RowDescent(self.problem).solve(self.penalty, max_iter=_FIRST_STEPS, tol=_ROUGH)
            yield self._settle(found.A, found.intercept, math.inf)
        if start is not None:
            yield self._settle(start, None, math.inf)

    def finish(self, at: Settled, *, max_iter: int, tol: float) -> Solution:
        """Passes to the end, then rows."""
        A, intercept, history = at.A, at.intercept, [at.objective_before]
        if A.any():
            passes = self._passes(A, intercept, tol)
            passes.run(max_iter, tol)
            (A, intercept), history = passes.bring_home(), history + passes.history
        found = self.descent.solve(self.penalty, A, intercept, max_iter=max_iter, tol=tol)
        total = np.concatenate([history, found.history])
        return replace(found, history=total, n_iter=len(total))

    def _settle(self, A, intercept, value: float) -> Settled:
        """Turns until rows gain next to nothing."""
        for _ in range(_TURNS):
            at = self.descent.settle(self.penalty, A, intercept, tol=_ROUGH, rounds=1)
            if not at.A.any() or value - at.objective < _LEAST_GAIN * at.objective:
                break
            passes = self._follow(at.A, at.intercept)
            (A, intercept), value = passes.bring_home(), passes.history[-1]
        return at

    def _passes(self, A, intercept, tol: float) -> Passes:
        return Passes(
            self.problem, self.penalty, Threads(), start=A, intercept=intercept, tol=tol, placed=self._placed
        )

    def _follow(self, A, intercept) -> Passes:
        """One turn of passes: until they gain next to nothing."""
        passes = self._passes(A, intercept, _STEADY)
        passes.run(_MOST_PASSES, _STEADY)
        return passes
