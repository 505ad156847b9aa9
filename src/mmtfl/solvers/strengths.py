"""Models with two strengths: the additive family A = P + Q, and capped rows at the end.

Additive models make passes over the data outside, and minimise least-squares models of the parts inside. Each
pass gives the gradient, from it the violation and the duality gap, and says where to work next. Between
passes a `PartSolver` minimises least-squares models: one for the squared loss, Newton models for others. A
row norm of P with the entries of Q is one row penalty, which row descent serves; docs/additive.md section 3.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from mmtfl.engines.threads import one_blas_thread
from mmtfl.objective.norms import ColumnNorm, EntryNorm, RowNorm, SplitRows, TwoNorms
from mmtfl.objective.penalties import RowPower
from mmtfl.objective.problem import DAMPING, RESOLVED, RISEN, STALLED, STEPS, Problem
from mmtfl.objective.units import Units
from mmtfl.solvers.compiled_paths import CompiledPaths
from mmtfl.solvers.part_solvers import BothParts, EliminatedColumns, PartSolver, State
from mmtfl.solvers.row_descent import RowDescent, null_model
from mmtfl.solvers.solution import AdditiveSolution, Solution

_LARGEST_BASIS = 800  # eigenvectors of a larger task would cost more than they save
_MOST_DENSE = 1 << 22  # entries of a sparse X that may be held densely
_STEPS_PER_PASS = 10  # steps inside the models that a pass may take in the mean
_ROUNDED = 1e-9  # share of the predictor by which two ways to compute it may differ
# passes stand still where so many gain no more than this share, and the violation falls to no less than this
_STILL, _PACE, _SLOWLY = 20, 1e-13, 0.9


class SplitDescent:
    """Minimise a problem under the pair (RowNorm, EntryNorm); keeps its columns for the next call."""

    def __init__(self, problem: Problem):
        self._rows = RowDescent(problem)

    def solve(self, norms: TwoNorms, start=None, *, max_iter: int, tol: float) -> AdditiveSolution:
        """Descend from the parts (P, Q) of `start`, or from zero."""
        penalty = _split_rows(norms)
        A = None if start is None else start[0] + start[1]
        found = self._rows.solve(penalty, A, max_iter=max_iter, tol=tol)
        P, Q = _parts(penalty, found.A)
        loss = found.objective - penalty.value(found.A)
        return AdditiveSolution(**vars(found), shared=P, specific=Q, loss=loss)


class CompiledSplit:
    """The same in one compiled call, as exact as held-out scores need."""

    def __init__(self, paths: CompiledPaths):
        self._paths = paths

    def solve(self, norms: TwoNorms, start=None, *, max_iter: int, tol: float) -> AdditiveSolution:
        """Descend from the parts (P, Q) of `start`, or from zero."""
        penalty, paths, problem = _split_rows(norms), self._paths, self._paths.problem
        design = problem.design
        A = np.zeros((design.n_features, design.n_tasks)) if start is None else start[0] + start[1]
        found = paths.solve_one(penalty, A, max_iter=max_iter, tol=tol)
        (A,), (intercept,), (loss,) = found.A, paths.intercepts(found), found.losses
        value, z = float(loss + penalty.value(A)), problem.predict(A, found.intercepts[0])
        gradient = design.correlate(problem.loss_gradient(z))
        violation = problem.row_violation(penalty, A, gradient, z=z).max(initial=0.0) / problem.scale
        gap, (P, Q) = problem.dual_gap(norms, value, z, gradient), _parts(penalty, A)
        return AdditiveSolution(
            A, intercept, value, float(violation), gap, 1, np.array([value]), bool(found.settled[0]),
            type(paths).__name__, shared=P, specific=Q, loss=float(loss),
        )  # fmt: skip


def _split_rows(norms: TwoNorms) -> SplitRows:
    """The row penalty of the sum of both parts."""
    assert isinstance(norms.shared, RowNorm) and isinstance(norms.specific, EntryNorm)
    return SplitRows.of(norms.shared, norms.specific, norms.known)


def _parts(penalty: SplitRows, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best P and Q of A."""
    P, Q = np.zeros_like(A), np.zeros_like(A)
    kept = np.flatnonzero(np.any(A != 0.0, axis=1))
    P[kept], Q[kept] = penalty.of_rows(kept).split(A[kept])
    return P, Q


class PassDescent:
    """Minimise a problem under two norms from any start; keeps what it has gathered for the next call.

    Parameters
    ----------
    problem : Problem
        Data and loss.
    parts : PartSolver
        Minimiser of least-squares models for this problem and the kinds of the norms.
    """

    def __init__(self, problem: Problem, parts: PartSolver):
        self.problem, self.parts = problem, parts

    def solve(self, norms: TwoNorms, start=None, *, max_iter: int, tol: float) -> AdditiveSolution:
        """Descend from the parts (P, Q) of `start`, or from zero."""
        problem, design, scale = self.problem, self.problem.design, self.problem.scale
        # a penalty below the rounding of the gradient cannot be told from none by a dual point
        certifiable = min(norms.shared.alpha, norms.specific.alpha) > RESOLVED * scale
        state = self._start(norms, start)
        self.parts.steps_left = _STEPS_PER_PASS * max_iter
        history: list[float] = []
        violations: list[float] = []
        violation, gap, converged = np.inf, None, False
        for _ in range(max_iter):
            moved = state.parts.any()
            gradient = design.correlate(problem.loss_gradient(state.z)) if moved else problem.null_gradient
            violation = norms.violation(state.parts, gradient, self.parts.curvature or 1.0)
            history.append(state.value)
            violations.append(violation)
            gap = problem.dual_gap(norms, state.value, state.z, gradient) if certifiable else None
            close = violation <= tol * scale
            converged = close and (gap is None or gap <= tol * problem.null_value)
            # a start may bring entries that are all but zero: they must meet a sweep, which drops them
            unswept = len(history) == 1 and moved
            if (converged and not unswept) or len(history) == max_iter or self.parts.steps_left <= 0:
                break
            if _stand_still(history, violations, problem.null_value):
                break  # more passes would not end elsewhere
            n_new = self.parts.grow(norms, state, gradient, 0.0 if close else tol * scale)
            # what is gathered need not be exact while more is still to come in
            goal = max(0.01 * violation, 0.3 * tol * scale) if n_new and not close else 0.3 * tol * scale
            if close and not converged:
                goal = min(goal, 0.1 * violation)
            if not self._descend(norms, state, goal):
                break  # at the limit of floating point
        return self._solution(norms, state, history, violation / scale, gap, converged)

    def _start(self, norms: TwoNorms, start) -> State:
        problem, design = self.problem, self.problem.design
        parts = np.zeros((2, design.n_features, design.n_tasks)) if start is None else np.array(start)
        if not parts.any():
            return State(parts, design.spread(problem.null_intercept), problem.null_value)
        z = with_best_intercepts(problem, problem.predict(parts.sum(axis=0), problem.null_intercept))
        return State(parts, z, problem.loss_value(z) + norms.value(*parts))

    def _descend(self, norms: TwoNorms, state: State, tolerance: float) -> bool:
        """Minimise one model; False if nothing moved."""
        problem = self.problem
        if problem.loss.is_quadratic:
            return self._step(norms, state, problem.design.row_weight, tolerance)
        # a model that is too flat leads too far: the next one is closer to a majorant of the loss
        weights = (problem.newton_weights(state.z, share) for share in DAMPING)
        return any(self._step(norms, state, weight, 0.1 * tolerance) for weight in weights)

    def _step(self, norms: TwoNorms, state: State, weight: np.ndarray, tolerance: float) -> bool:
        """Go where the model is least, as far as the objective falls; False if it does not."""
        problem = self.problem
        move = self.parts.minimise(norms, state, weight, tolerance)
        if np.array_equal(move.parts, state.parts):
            return False
        for step in STEPS:
            parts = move.parts if step == 1.0 else state.parts + step * (move.parts - state.parts)
            z = with_best_intercepts(problem, self._predictor(parts, state.z + step * move.change_z))
            value = problem.loss_value(z) + norms.value(*parts)
            if value <= state.value + RISEN * abs(state.value):
                state.parts, state.z, state.value = parts, z, value
                return True
        return False

    def _predictor(self, parts: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The predictor of the parts, given what a model says it is up to intercepts.

        At small strengths the model's residual is a small difference of large numbers, so that it may be the
        predictor of other parts than these.
        """
        design = self.problem.design
        exact = design.predict(parts[0] + parts[1])
        apart = exact - z
        if design.fit_intercept:
            apart = apart - design.spread(design.task_means(apart, design.row_weight))
        return exact if np.abs(apart).max() > _ROUNDED * (np.abs(z).max() + np.abs(exact).max()) else z

    def _solution(
        self, norms: TwoNorms, state: State, history, violation, gap, converged
    ) -> AdditiveSolution:
        design, (P, Q) = self.problem.design, state.parts
        intercept = np.zeros(design.n_tasks)
        if design.fit_intercept:
            intercept = design.task_means(state.z - design.predict(P + Q), design.row_weight)
        return AdditiveSolution(
            P + Q, intercept, state.value, violation, gap, len(history), np.array(history), converged,
            type(self.parts).__name__, shared=P, specific=Q, loss=state.value - norms.value(P, Q),
        )  # fmt: skip


def _stand_still(history: list[float], violations: list[float], unit: float) -> bool:
    """Whether the last passes gained next to nothing, neither in the objective nor in the violation."""
    if len(history) <= _STILL or history[-1 - _STILL] - history[-1] > _PACE * unit:
        return False
    return min(violations[-_STILL:]) > _SLOWLY * min(violations[:-_STILL])


def with_best_intercepts(problem: Problem, z: np.ndarray) -> np.ndarray:
    """z shifted, task by task, to where the loss is least; so the dual point is feasible."""
    return z + problem.design.spread(problem.best_intercept(z))


def additive_descent(problem: Problem, norms: TwoNorms) -> SplitDescent | PassDescent:
    """The quickest way to minimise a problem, given the kinds of its two norms."""
    shared, specific, design = norms.shared, norms.specific, problem.design
    if isinstance(shared, RowNorm) and isinstance(specific, EntryNorm):
        return SplitDescent(problem)
    small = min(design.n_features, int(np.diff(design.offsets).max())) <= _LARGEST_BASIS
    # in a basis of eigenvectors columns are dense: all of a large sparse X would be too many
    few = int(design.offsets[-1]) * design.n_features <= _MOST_DENSE or not sparse.issparse(design.tasks.X)
    few = few or isinstance(shared, RowNorm)
    if isinstance(specific, ColumnNorm) and small and few:
        return PassDescent(problem, EliminatedColumns(problem, by_rows=isinstance(shared, RowNorm)))
    return PassDescent(problem, BothParts(problem))


def quick_descent(problem: Problem, norms: TwoNorms) -> CompiledSplit | SplitDescent | PassDescent:
    """The quickest way to solutions that are as exact as held-out scores need."""
    splits = isinstance(norms.shared, RowNorm) and isinstance(norms.specific, EntryNorm)
    if splits and CompiledPaths.serves(problem, _split_rows(norms)):
        return CompiledSplit(CompiledPaths(problem))
    return additive_descent(problem, norms)


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
        self._problem, self._units = problem.in_safe_units(one_unit=True)
        self._norms = norms
        self._descent = quick_descent(self._problem, norms)

    def largest(self) -> tuple[float, float]:
        """The smallest strengths that together make A zero."""
        unit = 1.0 if self._units is None else self._units.target * float(self._units.column[0])
        known, gradient = self._norms.known, None
        if known is not None:
            gradient = null_model(self._problem, RowPower(2.0, 1.0, 2.0, known=known)).gradient
        first, second = self._norms.critical_strengths(self._problem, gradient)
        return (first * unit, second * unit) if self._problem.steepest else (1.0, 1.0)

    def solve(
        self, first: float, second: float, starts: list[AdditiveSolution], *, max_iter: int, tol: float
    ) -> AdditiveSolution:
        """The solution at two strengths, from the best of its neighbours'."""
        norms = self._norms.at(first, second)
        if self._units is None:
            return self._solve(norms, starts, max_iter=max_iter, tol=tol)
        scaled = [self._placed(start) for start in starts]
        found = self._solve(self._units.norms(norms), scaled, max_iter=max_iter, tol=tol)
        return self._units.solution(found)

    def _placed(self, solution: AdditiveSolution) -> AdditiveSolution:
        """A solution in scaled units."""
        units = self._units
        assert units is not None
        A, intercept = units.place(solution.A, solution.intercept)
        P, Q = units.start(solution.shared), units.start(solution.specific)
        loss = solution.loss / (units.target * units.target)
        return replace(solution, A=A, intercept=intercept, shared=P, specific=Q, loss=loss)

    def _solve(self, norms: TwoNorms, starts: list[AdditiveSolution], **limits) -> AdditiveSolution:
        if not starts:
            return self._descent.solve(norms, **limits)
        best = min(starts, key=lambda start: _value_of(start, norms))
        certified = self._certified(norms, best, limits["tol"])
        if certified is not None:
            return certified
        return self._descent.solve(norms, (best.shared, best.specific), **limits)

    def _certified(self, norms: TwoNorms, solution: AdditiveSolution, tol: float) -> AdditiveSolution | None:
        """A neighbour's solution at these strengths, if the duality gap allows; costs one pass."""
        problem, value = self._problem, _value_of(solution, norms)
        z = problem.predict(solution.A, solution.intercept)
        gap = problem.dual_gap(norms, value, z, problem.design.correlate(problem.loss_gradient(z)))
        if gap is None or gap > tol * problem.null_value:
            return None
        return replace(solution, objective=value, dual_gap=gap, n_iter=1, history=np.array([value]))


def _value_of(solution: AdditiveSolution, norms: TwoNorms) -> float:
    """Objective of a solution at other strengths."""
    return solution.loss + norms.value(solution.shared, solution.specific)


def solve_additive(
    problem: Problem, norms: TwoNorms, *, start: np.ndarray | None = None, max_iter: int = 1000,
    tol: float = 1e-7,
) -> AdditiveSolution:  # fmt: skip
    """Minimise the loss at P + Q plus a norm of P and a norm of Q; docs/additive.md eq. (1).

    `start` has P and Q to begin from, (2, n_features, n_tasks); `max_iter` bounds the passes over the data.
    It stops when the violation is below `tol` of the largest gradient entry at zero, and the duality gap
    below that share of the objective there.

    Examples
    --------
    A feature that both tasks use goes to P, one that a single task uses goes to Q.

    >>> import numpy as np
    >>> from mmtfl.tasks import Tasks
    >>> from mmtfl.objective.norms import EntryNorm, RowNorm, TwoNorms
    >>> from mmtfl.objective.design import Design
    >>> from mmtfl.objective.losses import Squared
    >>> from mmtfl.objective.problem import Problem
    >>> from mmtfl.solvers.strengths import solve_additive
    >>> tasks = Tasks.from_rows(np.tile(np.eye(2), (2, 1)), [4.0, 4.0, 4.0, 0.0], [0, 0, 1, 1])
    >>> problem = Problem(Design(tasks, fit_intercept=False), Squared())
    >>> found = solve_additive(problem, TwoNorms(RowNorm(0.7), EntryNorm(0.6)))
    >>> found.shared.round(2), found.specific.round(2)
    (array([[3.01, 3.01],
           [0.  , 0.  ]]), array([[0. , 0. ],
           [2.8, 0. ]]))
    """
    with one_blas_thread():
        problem, units = problem.in_safe_units(one_unit=True)
        if units is not None:
            norms = units.norms(norms)
            start = None if start is None else np.array([units.start(part) for part in start])
        found = additive_descent(problem, norms).solve(norms, start, max_iter=max_iter, tol=tol)
        return found if units is None else units.solution(found)


# -- capped rows -----------------------------------------------------------------------------------------

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
    >>> from mmtfl.solvers.strengths import CappedRows, solve_capped
    >>> tasks = Tasks.from_rows(np.eye(2), [4.0, 1.5], [0, 0])
    >>> problem = Problem(Design(tasks, fit_intercept=False), Squared())
    >>> found = solve_capped(problem, CappedRows(alpha=0.5, cap=1.0))
    >>> found.A.round(6).ravel(), len(found.history)
    (array([4. , 0.5]), 2)
    """
    with one_blas_thread():
        return CappedDescent(problem).solve(penalty, start, max_iter=max_iter, tol=tol)
