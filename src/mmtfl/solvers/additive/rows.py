"""A row norm of P with the entries of Q: row descent on A = P + Q, split in the end."""

from dataclasses import fields

import numpy as np

from mmtfl.objective.additive import AdditiveObjective, EntryNorm, RowNorm, SplitRows
from mmtfl.objective.objective import Objective
from mmtfl.solvers.additive.solution import AdditiveSolution
from mmtfl.solvers.block import RowDescent
from mmtfl.solvers.solution import Solution


class SplitDescent:
    """Minimise an objective with the pair (RowNorm, EntryNorm); keeps its columns for the next call."""

    def __init__(self, objective: AdditiveObjective):
        self.objective = objective
        self._rows = RowDescent(Objective(objective.design, objective.loss, self._penalty()))
        for name in ("null_gradient", "null_value", "null_intercept"):
            self._rows.objective.__dict__[name] = getattr(objective, name)

    def solve(self, start=None, *, max_iter: int, tol: float) -> AdditiveSolution:
        """Descend from the parts (P, Q) of `start`, or from zero."""
        penalty = self._penalty()
        self._rows.objective.penalty = penalty
        A = None if start is None else start[0] + start[1]
        found = self._rows.solve(A, max_iter=max_iter, tol=tol)
        P, Q = np.zeros_like(found.A), np.zeros_like(found.A)
        kept = np.flatnonzero(np.any(found.A != 0.0, axis=1))
        P[kept], Q[kept] = penalty.split(found.A[kept])
        same = {field.name: getattr(found, field.name) for field in fields(Solution)}
        return AdditiveSolution(**same, shared=P, specific=Q, loss=found.objective - penalty.value(found.A))

    def _penalty(self) -> SplitRows:
        shared, specific = self.objective.shared, self.objective.specific
        assert isinstance(shared, RowNorm) and isinstance(specific, EntryNorm)
        return SplitRows.of(shared, specific)
