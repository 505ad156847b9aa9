"""Capped-l1 rows by stages: each is a lasso without penalty on the rows that have passed the cap.

    minimise   loss(A) + alpha sum_j min(||a_j||_1, cap)

The penalty is concave in the sizes of the rows, so its tangent at the present ones bounds it from above, and
a stage never raises the objective; docs/additive.md section 4.
"""

from dataclasses import dataclass, replace

import numpy as np

from mmtfl.engines.threads import one_blas_thread
from mmtfl.objective.penalties import RowPower
from mmtfl.objective.problem import STALLED, Problem
from mmtfl.objective.units import Units
from mmtfl.solvers.row_descent import RowDescent
from mmtfl.solvers.solution import Solution

_MOST_STAGES = 100
_GRID_PASSES = 100  # classes that free features separate have no minimum, and would take all passes


@dataclass(frozen=True)
class CappedRows:
    """alpha * sum_j min(||a_j||_1, cap): a row beyond the cap costs no more for being larger.

    Examples
    --------
    >>> import numpy as np
    >>> CappedRows(alpha=0.5, cap=2.0).value(np.array([[3.0, 4.0], [1.0, 0.0]]))
    1.5
    """

    alpha: float
    cap: float

    def value(self, A: np.ndarray) -> float:
        """The penalty of A."""
        return self.alpha * float(np.minimum(np.abs(A).sum(axis=1), self.cap).sum())

    def in_units(self, units: Units) -> "CappedRows":
        """The same penalty in other units; all columns have one."""
        row = units.target / float(units.column[0])  # of A here, in units of A there
        return CappedRows(self.alpha / units.target * (row / units.target), self.cap / row)

    def past_cap(self, A: np.ndarray) -> np.ndarray:
        """Rows on which the penalty is flat."""
        return np.abs(A).sum(axis=1) >= self.cap


class CappedDescent:
    """Solve stages on one problem, in scaled units; keeps what it has gathered for the next call."""

    def __init__(self, problem: Problem):
        self.problem, self.units = problem.in_safe_units(one_unit=True)
        self._rows = RowDescent(self.problem)

    def solve(self, penalty: CappedRows, start=None, **limits) -> Solution:
        """Stages from the rows of `start` past the cap, or from the lasso, until no row changes side.

        The history is the objective after each stage, `n_iter` the passes over the data of all stages.
        """
        units = self.units
        if units is None:
            return self._stages(penalty, start, **limits)
        start = None if start is None else units.start(start)
        return units.solution(self._stages(penalty.in_units(units), start, **limits))

    def _stages(self, penalty: CappedRows, start, *, max_iter: int, tol: float) -> Solution:
        design = self.problem.design
        A = np.zeros((design.n_features, design.n_tasks)) if start is None else np.asarray(start, dtype=float)
        history: list[float] = []
        n_iter, intercept, stage = 0, None, None
        free = penalty.past_cap(A)
        for _ in range(_MOST_STAGES):
            entries = RowPower(1.0, np.where(free, 0.0, penalty.alpha), np.inf)
            stage = self._rows.solve(entries, A, intercept, max_iter=max_iter - n_iter, tol=tol)
            value = stage.objective - entries.value(stage.A) + penalty.value(stage.A)
            n_iter += stage.n_iter
            history.append(value)
            A, intercept, was_free = stage.A, stage.intercept, free
            free = penalty.past_cap(A)
            settled = np.array_equal(free, was_free)
            stalled = len(history) > 1 and history[-2] - value <= STALLED * self.problem.null_value
            if settled or stalled or n_iter >= max_iter:
                break
        assert stage is not None
        return replace(
            stage, objective=value, dual_gap=None, n_iter=n_iter, history=np.array(history),
            converged=stage.converged and (settled or stalled), solver="stages",
        )  # fmt: skip


class CappedGrid:
    """Solutions at many strengths and caps: stages from the lasso of each strength, which its caps share."""

    def __init__(self, problem: Problem):
        self._descent = CappedDescent(problem)
        self._lasso: tuple[float, np.ndarray | None] = (0.0, None)

    def largest(self) -> tuple[float, float]:
        """The smallest strength that makes A zero, and a cap that no row reaches."""
        problem, units = self._descent.problem, self._descent.units
        gradient, curvature = np.abs(problem.null_gradient), problem.curvature
        if not gradient.any():
            return 1.0, 1.0
        alone = np.divide(gradient, curvature, out=np.zeros_like(gradient), where=curvature > 0.0)
        alpha, cap = float(gradient.max()), float(alone.sum(axis=1).max())
        if units is None:
            return alpha, cap
        return alpha * units.target * float(units.column[0]), cap * units.target / float(units.column[0])

    def solve(
        self, first: float, second: float, starts: list[Solution], *, max_iter: int, tol: float
    ) -> Solution:
        """The stages at a strength and a cap; `starts` do not matter, as they begin at the lasso."""
        alpha, lasso = self._lasso
        max_iter = min(max_iter, _GRID_PASSES)
        if lasso is None or alpha != first:
            whole = CappedRows(first, np.inf)
            lasso = self._descent.solve(whole, lasso, max_iter=max_iter, tol=tol).A
            self._lasso = first, lasso
        return self._descent.solve(CappedRows(first, second), lasso, max_iter=max_iter, tol=tol)


def solve_capped(
    problem: Problem, penalty: CappedRows, *, start: np.ndarray | None = None, max_iter: int = 1000,
    tol: float = 1e-7,
) -> Solution:  # fmt: skip
    """Descend by stages on the loss plus capped-l1 rows, from the lasso or from `start`.

    `max_iter` counts the passes over the data of all stages; a stage stops when its violation is below `tol`
    of the largest gradient entry at A = 0.

    Examples
    --------
    Beyond the cap nothing is shrunk: the lasso would give 3 and 0.5.

    >>> import numpy as np
    >>> from mmtfl.tasks import Tasks
    >>> from mmtfl.objective.design import Design
    >>> from mmtfl.objective.losses import Squared
    >>> from mmtfl.objective.problem import Problem
    >>> from mmtfl.solvers.capped import CappedRows, solve_capped
    >>> tasks = Tasks.from_rows(np.eye(2), [4.0, 1.5], [0, 0])
    >>> problem = Problem(Design(tasks, fit_intercept=False), Squared())
    >>> found = solve_capped(problem, CappedRows(alpha=0.5, cap=1.0))
    >>> found.A.round(6).ravel(), len(found.history)
    (array([4. , 0.5]), 2)
    """
    with one_blas_thread():
        return CappedDescent(problem).solve(penalty, start, max_iter=max_iter, tol=tol)
