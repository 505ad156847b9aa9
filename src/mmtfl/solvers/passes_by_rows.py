"""Passes of Algorithm 1 in which all tasks are solved together, by rows; docs/model.md section 10.

At p = 1 with a common part, tasks that are solved one after the other may stand still where they should move
together: each alone pays for leaving the common part. Rows move all tasks at once. They also know the
weights, signs and groups of their entries, which a task's own solver does not.
"""

import numpy as np

from mmtfl.engines.threads import Threads
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.distributed.placed import PassResult
from mmtfl.solvers.distributed.shards import Held, Update
from mmtfl.solvers.row_descent import RowDescent

_DESCENT_STEPS = 50


class PlacedTogether:
    """All tasks as one shard, with the questions of Algorithm 1 that `Placed` answers.

    Parameters
    ----------
    problem : Problem
        The tasks, in memory.
    penalty : RowPenalty
        A member with pooling, or with something known of the features.
    """

    def __init__(self, problem: Problem, penalty: RowPenalty):
        if problem.design.placed is not None:
            what = "p=1 with pooling" if penalty.known is None else "What is known of the features"
            raise ValueError(
                f"{what} is solved by rows, which need all data in memory: load them with stored.load()."
            )
        self.penalty, self.engine, self.shards = penalty, Threads(), [problem]
        self._descent = RowDescent(problem)
        self._spread = np.sqrt(problem.design.curvature)

    def pass_over(self, before: list, update: Update, number: int) -> tuple[list, PassResult]:
        """One pass from the coefficients held before; those held now, and what is said of them."""
        design = self._descent.problem.design
        weights = np.full(design.n_features, np.inf)
        weights[update.kept] = update.weights
        weighted, start, intercept = self.penalty.weighted(weights), None, None
        previous = np.zeros((design.n_features, design.n_tasks))
        if before[0] is not None:
            previous, intercept = before[0].A.T, before[0].intercept
            start = np.where(np.isinf(weights)[:, None], 0.0, previous)
        found = self._descent.solve(weighted, start, intercept, max_iter=_DESCENT_STEPS, tol=update.tol)
        A = found.A
        result = PassResult(
            loss=found.objective - weighted.value(A),
            norms=self.penalty.norms(A),
            effect=np.max(np.abs(A) * self._spread, axis=1),
            largest=float(np.abs(A).max(initial=0.0)),
            moved=float(np.abs(A - previous).max(initial=0.0)),
            sums=None,
            is_exact=found.converged,
        )
        return [Held(np.ascontiguousarray(A.T), found.intercept)], result

    def hold(self, A: np.ndarray, intercept: np.ndarray | None) -> list:
        """Keep coefficients, (n_tasks, n_features)."""
        return [Held(A, intercept)]

    def bring_home(self, held: list) -> Held:
        """The coefficients of all tasks, (n_tasks, n_features), and their intercepts."""
        return held[0]
