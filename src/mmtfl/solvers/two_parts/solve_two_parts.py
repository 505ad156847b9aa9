"""The front door of the additive solver."""

from dataclasses import fields, replace

import numpy as np
from scipy import sparse

from mmtfl.objective.norms import ColumnNorm, EntryNorm, RowNorm
from mmtfl.objective.problem import Problem
from mmtfl.objective.split_rows import SplitRows
from mmtfl.objective.two_norms import TwoNorms
from mmtfl.solvers.blas import one_blas_thread
from mmtfl.solvers.row_descent import RowDescent
from mmtfl.solvers.solution import AdditiveSolution, Solution
from mmtfl.solvers.two_parts.accelerated import BothParts
from mmtfl.solvers.two_parts.eliminated_columns import EliminatedColumns
from mmtfl.solvers.two_parts.part_descent import PassDescent

_LARGEST_BASIS = 800  # eigenvectors of a larger task would cost more than they save


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


def additive_descent(problem: Problem, norms: TwoNorms) -> SplitDescent | PassDescent:
    """The quickest way to minimise a problem, given the kinds of its two norms."""
    shared, specific, design = norms.shared, norms.specific, problem.design
    if isinstance(shared, RowNorm) and isinstance(specific, EntryNorm):
        return SplitDescent(problem)
    small = min(design.n_features, int(np.diff(design.offsets).max())) <= _LARGEST_BASIS
    # in a basis of eigenvectors columns are dense: all of a sparse X would be too many
    few = isinstance(shared, RowNorm) or not sparse.issparse(design.tasks.X)
    if isinstance(specific, ColumnNorm) and small and few:
        return PassDescent(problem, EliminatedColumns(problem, by_rows=isinstance(shared, RowNorm)))
    return PassDescent(problem, BothParts(problem))


def check_range(problem: Problem) -> None:
    """Refuse columns whose squares would leave the range of floats."""
    if problem.moderated()[1] is not None:
        raise ValueError(
            "X or y has values so large or small that their squares leave the range of floats: measure them "
            "in other units, or use standardize=True (and scale_targets=True)."
        )


class AdditiveGrid:
    """Solutions of one pair of norms at many strengths, each started from others.

    Where only one part is used the strength of the other does not matter, so over a grid many solutions
    recur: a neighbour's solution that is certified to be one here too is taken as it is.

    Parameters
    ----------
    problem : Problem
        Data and loss.
    norms : TwoNorms
        The pair, at any strengths.
    """

    def __init__(self, problem: Problem, norms: TwoNorms):
        check_range(problem)
        self._problem, self._norms = problem, norms
        self._descent = additive_descent(problem, norms)

    def largest(self) -> tuple[float, float]:
        """The smallest strengths that together leave nothing."""
        return self._norms.critical_strengths(self._problem)

    def solve(
        self, first: float, second: float, starts: list[AdditiveSolution], *, max_iter: int, tol: float
    ) -> AdditiveSolution:
        """The solution at two strengths, from the best of its neighbours'."""
        norms = self._norms.at(first, second)
        if not starts:
            return self._descent.solve(norms, max_iter=max_iter, tol=tol)
        best = min(starts, key=lambda start: _value_of(start, norms))
        certified = self._certified(norms, best, tol)
        if certified is not None:
            return certified
        return self._descent.solve(norms, (best.shared, best.specific), max_iter=max_iter, tol=tol)

    def _certified(self, norms: TwoNorms, solution: AdditiveSolution, tol: float) -> AdditiveSolution | None:
        """A neighbour's solution at these strengths, if the duality gap allows; costs one pass."""
        problem = self._problem
        z = problem.predict(solution.A, solution.intercept)
        gradient = problem.design.correlate(problem.loss_gradient(z))
        gap = norms.dual_gap(problem, solution.shared, solution.specific, z, gradient)
        if gap > tol * problem.null_value:
            return None
        value = _value_of(solution, norms)
        return replace(solution, objective=value, dual_gap=gap, n_iter=1, history=np.array([value]))


def _value_of(solution: AdditiveSolution, norms: TwoNorms) -> float:
    """Objective of a solution at other strengths."""
    return solution.loss + norms.value(solution.shared, solution.specific)


def solve_additive(
    problem: Problem,
    norms: TwoNorms,
    *,
    start: np.ndarray | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
) -> AdditiveSolution:
    """Minimise the loss at P + Q plus a norm of P and a norm of Q; docs/additive.md eq. (1).

    `start` has P and Q to begin from, (2, n_features, n_tasks); `max_iter` bounds the passes over the data.
    It stops when the violation is below `tol` of the largest gradient entry at zero, and the duality gap
    below that share of the objective there.

    Examples
    --------
    A feature that both tasks use goes to P, one that a single task uses goes to Q.

    >>> import numpy as np
    >>> from mmtfl.tasks import Tasks
    >>> from mmtfl.objective.norms import EntryNorm, RowNorm
    >>> from mmtfl.objective.two_norms import TwoNorms
    >>> from mmtfl.objective.design import Design
    >>> from mmtfl.objective.losses import Squared
    >>> from mmtfl.objective.problem import Problem
    >>> from mmtfl.solvers.two_parts import solve_additive
    >>> tasks = Tasks.from_rows(np.tile(np.eye(2), (2, 1)), [4.0, 4.0, 4.0, 0.0], [0, 0, 1, 1])
    >>> problem = Problem(Design(tasks, fit_intercept=False), Squared())
    >>> found = solve_additive(problem, TwoNorms(RowNorm(0.7), EntryNorm(0.6)))
    >>> found.shared.round(2), found.specific.round(2)
    (array([[3.01, 3.01],
           [0.  , 0.  ]]), array([[0. , 0. ],
           [2.8, 0. ]]))
    """
    with one_blas_thread():
        check_range(problem)
        return additive_descent(problem, norms).solve(norms, start, max_iter=max_iter, tol=tol)
