"""The front door of the additive solver."""

from dataclasses import replace

import numpy as np
from scipy import sparse

from mmtfl.data.tasks import Tasks
from mmtfl.objective.additive import AdditiveObjective, ColumnNorm, EntryNorm, Norm, RowNorm
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.objective import Objective
from mmtfl.solvers.additive.accelerated import BothParts
from mmtfl.solvers.additive.columns import EliminatedColumns
from mmtfl.solvers.additive.descent import PassDescent
from mmtfl.solvers.additive.rows import SplitDescent
from mmtfl.solvers.additive.solution import AdditiveSolution
from mmtfl.solvers.blas import one_blas_thread

_LARGEST_BASIS = 800  # eigenvectors of a larger task would cost more than they save


def additive_descent(objective: AdditiveObjective) -> SplitDescent | PassDescent:
    """The quickest way to minimise an objective, given what is known of its pair of norms."""
    shared, specific, design = objective.shared, objective.specific, objective.design
    if isinstance(shared, RowNorm) and isinstance(specific, EntryNorm):
        return SplitDescent(objective)
    small = min(design.n_features, int(np.diff(design.offsets).max())) <= _LARGEST_BASIS
    # in a basis of eigenvectors columns are dense: all of a sparse X would be too many
    few = isinstance(shared, RowNorm) or not sparse.issparse(design.tasks.X)
    if isinstance(specific, ColumnNorm) and small and few:
        return PassDescent(objective, EliminatedColumns(objective))
    return PassDescent(objective, BothParts(objective))


def check_range(objective: Objective) -> None:
    """Refuse columns whose squares would leave the range of floats."""
    if objective.design.moderated(objective.null_gradient)[1] is not None:
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
    design : Design
        The data.
    loss : Loss
        The loss of a row.
    shared, specific : Norm
        The pair, at any strengths.
    """

    def __init__(self, design: Design, loss: Loss, shared: Norm, specific: Norm):
        self._objective = AdditiveObjective(design, loss, shared, specific)
        check_range(self._objective)
        self._descent = additive_descent(self._objective)

    def largest(self) -> tuple[float, float]:
        """The smallest strengths that together leave nothing."""
        return self._objective.critical_strengths()

    def solve(
        self, first: float, second: float, starts: list[AdditiveSolution], *, max_iter: int, tol: float
    ) -> AdditiveSolution:
        """The solution at two strengths, from the best of its neighbours'."""
        objective = self._objective
        objective.shared, objective.specific = objective.shared.at(first), objective.specific.at(second)
        if not starts:
            return self._descent.solve(max_iter=max_iter, tol=tol)
        best = min(starts, key=self._value_here)
        certified = self._certified(best, tol)
        if certified is not None:
            return certified
        return self._descent.solve((best.shared, best.specific), max_iter=max_iter, tol=tol)

    def _value_here(self, solution: AdditiveSolution) -> float:
        return solution.loss + self._objective.penalty_value(solution.shared, solution.specific)

    def _certified(self, solution: AdditiveSolution, tol: float) -> AdditiveSolution | None:
        """A neighbour's solution at the present strengths, if the duality gap allows; costs one pass."""
        objective, design = self._objective, self._objective.design
        z = design.predict(solution.A) + design.spread(solution.intercept)
        gradient = design.correlate(objective.loss_gradient(z))
        gap = objective.parts_gap(solution.shared, solution.specific, z, gradient)
        if gap > tol * objective.null_value:
            return None
        value = self._value_here(solution)
        return replace(solution, objective=value, dual_gap=gap, n_iter=1, history=np.array([value]))


def solve_additive(
    tasks: Tasks,
    loss: Loss,
    shared: Norm,
    specific: Norm,
    *,
    fit_intercept: bool = True,
    column_scale: np.ndarray | None = None,
    start: np.ndarray | None = None,
    max_iter: int = 1000,
    tol: float = 1e-7,
) -> AdditiveSolution:
    """Minimise the loss at P + Q plus a norm of P and a norm of Q; docs/additive.md eq. (1).

    Parameters
    ----------
    tasks : Tasks
        The data.
    loss : Squared or Logistic
        The loss of a row.
    shared, specific : Norm
        Penalties of P and Q with their strengths, such as ``RowNorm(0.1)`` and ``EntryNorm(0.05)``.
    fit_intercept : bool
        Whether each task has an unpenalised constant.
    column_scale : ndarray (n_features,), optional
        Work on X / column_scale, without copying X; P and Q come back in those units.
    start : ndarray (2, n_features, n_tasks), optional
        P and Q to begin from.
    max_iter : int
        Passes over the data at most.
    tol : float
        Stop when the violation is below this share of the largest gradient entry at zero, and the duality
        gap below this share of the objective there.

    Examples
    --------
    A feature that both tasks use goes to P, one that a single task uses goes to Q.

    >>> import numpy as np
    >>> from mmtfl.data import Tasks
    >>> from mmtfl.objective.additive import EntryNorm, RowNorm
    >>> from mmtfl.objective.losses import Squared
    >>> from mmtfl.solvers.additive import solve_additive
    >>> tasks = Tasks.from_rows(np.tile(np.eye(2), (2, 1)), [4.0, 4.0, 4.0, 0.0], [0, 0, 1, 1])
    >>> found = solve_additive(tasks, Squared(), RowNorm(0.7), EntryNorm(0.6), fit_intercept=False)
    >>> found.shared.round(2), found.specific.round(2)
    (array([[3.01, 3.01],
           [0.  , 0.  ]]), array([[0. , 0. ],
           [2.8, 0. ]]))
    """
    with one_blas_thread():
        design = Design(tasks, column_scale=column_scale, fit_intercept=fit_intercept)
        objective = AdditiveObjective(design, loss, shared, specific)
        check_range(objective)
        return additive_descent(objective).solve(start, max_iter=max_iter, tol=tol)
