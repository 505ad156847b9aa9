"""A row norm of P with the entries of Q: row descent on A = P + Q, split in the end."""

from dataclasses import fields

import numpy as np

from mmtfl.objective.norms import EntryNorm, RowNorm
from mmtfl.objective.problem import Problem
from mmtfl.objective.split_rows import SplitRows
from mmtfl.objective.two_norms import TwoNorms
from mmtfl.solvers.row_descent import RowDescent
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.two_parts.two_part_solution import AdditiveSolution


class SplitDescent:
    """Minimise a problem under the pair (RowNorm, EntryNorm); keeps its columns for the next call."""

    def __init__(self, problem: Problem):
        self._rows = RowDescent(problem)

    def solve(self, norms: TwoNorms, start=None, *, max_iter: int, tol: float) -> AdditiveSolution:
        """Descend from the parts (P, Q) of `start`, or from zero."""
        assert isinstance(norms.shared, RowNorm) and isinstance(norms.specific, EntryNorm)
        penalty = SplitRows.of(norms.shared, norms.specific)
        A = None if start is None else start[0] + start[1]
        found = self._rows.solve(penalty, A, max_iter=max_iter, tol=tol)
        P, Q = np.zeros_like(found.A), np.zeros_like(found.A)
        kept = np.flatnonzero(np.any(found.A != 0.0, axis=1))
        P[kept], Q[kept] = penalty.split(found.A[kept])
        same = {field.name: getattr(found, field.name) for field in fields(Solution)}
        return AdditiveSolution(**same, shared=P, specific=Q, loss=found.objective - penalty.value(found.A))
