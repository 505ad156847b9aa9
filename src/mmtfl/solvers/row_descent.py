"""Row descent on the joint form: working sets outside, compiled sweeps inside; docs/model.md section 6.

Each outer step is one pass over the data: the gradient of all rows, their violations, and the decision
which columns to gather next. Between passes only the gathered columns are touched. The squared loss has one
least-squares model; other losses make a new one at every Newton step.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mmtfl.objective.design import MANY_TASKS
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import DAMPING, RESOLVED, RISEN, STEPS, Problem
from mmtfl.objective.row_sizes import zero_rows
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.working_set import Model, WorkingSet

MAX_SWEEPS = 200
_MOST_SWEEPS, _SWEEPS_A_PASS = 20_000, 20  # of a descent; where more passes are allowed, for each of them
_MOST_TO_SETTLE = 2_000  # sweeps of a descent over the gathered features alone
_LEAST_ADDED, _GROWTH = 128, 2.0  # columns gathered at a time: at least, and in units of the rows kept
_FINEST = 1e-14  # accuracy of rows in units of the scale: what moves less is rounding
_UNSETTLED = 0.1  # accuracy, as a share of the violation, while rows are still to be found
_NEWTON_STEPS = 8
_INEXACT = 0.1  # a Newton step stops its sweeps when they move this share of what the first one did
_FIRST_SWEEPS, _PASS_SWEEPS = 50, 5  # of a rough pass of Algorithm 1: the first, and the others
_FEW_SWEEPS = 5  # over all gathered rows, between those over the kept ones
_PASS_NEWTON_STEPS = 2  # of a pass but the first, which has as many as any descent
_ROUGHLY = 1e-3  # its accuracy, in units of the largest slope at zero
_NOTHING = 1e-4  # a row this small against the largest is dropped on the way to a start
_STEADY = 1e-3  # passes end when no row changes by more than this share of the largest
_SETTLING_ROUNDS = 50
_STILL, _PACE = 10, 1e-11  # where so many passes gain no more than this share, a gap takes too many to close


@dataclass
class _State:
    """What changes: coefficients, intercepts, and the linear predictor they give."""

    A: np.ndarray
    intercept: np.ndarray
    z: np.ndarray
    value: float


class Settled(NamedTuple):
    """Where a descent over some features ended, the objective there and where it began, and if it was cut."""

    A: np.ndarray
    intercept: np.ndarray
    objective: float
    objective_before: float
    converged: bool


def _with_rows(shape: tuple[int, int], index: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A matrix with some rows; the others are zero, and take no memory until they are written to."""
    out, kept = zero_rows(*shape), np.any(rows != 0.0, axis=1)
    out[index[kept]] = rows[kept]
    return out


class RowDescent:
    """Minimise a problem under any penalty from any start; keeps its gathered columns for the next call.

    Parameters
    ----------
    problem : Problem
        Data and loss.
    keeps_gradient : bool
        Whether calls begin where the last one ended, as on a path: it has computed the gradient there.
    """

    def __init__(self, problem: Problem, *, keeps_gradient: bool = False):
        self.problem = problem
        self.working_set = WorkingSet(problem.design, problem.loss)
        self.keeps_gradient = keeps_gradient
        self._end: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # A, intercept, gradient
        self._damping = 0  # position in DAMPING of the last Newton step

    def solve(self, penalty: RowPenalty, A=None, intercept=None, *, max_iter: int, tol: float) -> Solution:
        """Descend from (A, intercept), or from zero."""
        problem, design = self.problem, self.problem.design
        scale = problem.scale
        # a penalty below the rounding of the gradient cannot be told from none by a dual point
        certifiable = float(np.min(penalty.alpha)) > RESOLVED * scale
        state = self._start(penalty, A, intercept)
        history: list[float] = []
        last_sweep = self.working_set.n_sweeps + max(_MOST_SWEEPS, _SWEEPS_A_PASS * max_iter)
        violation, gap, converged = np.inf, None, False
        for _ in range(max_iter):
            slope_z = problem.loss_gradient(state.z)
            gradient = self._gradient(state, slope_z)
            rows = problem.row_violation(
                penalty, state.A, gradient, z=state.z, kept_curvature=self._kept_curvature
            )
            violation = float(rows.max(initial=0.0))
            if design.fit_intercept:
                # an intercept's slope in units of its own: those of X do not matter to it
                slope = float(np.abs(design.task_sums(slope_z)).max()) / self._intercept_scale
                violation = max(violation, slope * scale)
            history.append(state.value)
            gap = problem.dual_gap(penalty, state.value, state.z, gradient) if certifiable else None
            self._end = (state.A.copy(), state.intercept, gradient) if self.keeps_gradient else None
            del gradient  # of wide data it is large, and the next pass makes another
            converged = violation <= tol * scale and (gap is None or gap <= tol * problem.null_value)
            # a start may bring rows that are all but zero: they must meet a sweep, which drops them
            unswept = len(history) == 1 and state.A.any()
            if (converged and not unswept) or len(history) == max_iter:
                break
            if self.working_set.n_sweeps >= last_sweep:
                break  # nearly equal columns or separable classes: this may go on for ever
            only_gap = violation <= tol * scale
            gained = history[-1 - _STILL] - state.value if len(history) > _STILL else math.inf
            if only_gap and gained <= _PACE * problem.null_value:
                break  # more passes would not close the gap
            n_added = self._grow(penalty, state.A, rows, 0.0 if only_gap else tol * scale)
            # while rows are still to be found the gathered ones need not be exact; when only the gap is
            # short of its goal they must be better than the tolerance
            goal = (
                max(_UNSETTLED * violation, 0.3 * tol * scale)
                if n_added and not only_gap
                else min(0.3 * tol * scale, 0.1 * violation)
            )
            if not self._descend(penalty, state, rows, max(goal, _FINEST * scale)):
                break  # at the limit of floating point
        return Solution(
            A=state.A,
            intercept=state.intercept,
            objective=state.value,
            violation=violation / scale,
            dual_gap=gap,
            n_iter=len(history),
            history=np.array(history),
            converged=converged,
            solver="block",
        )

    def settle(self, penalty: RowPenalty, A=None, intercept=None, *, tol: float) -> Settled:
        """Descend over the gathered features alone: one sweep over all of them, many over those kept, again.

        There is no look at the other features, and so no pass over the data.
        """
        state = self._start(penalty, A, intercept)
        before = state.value
        goal = tol * self.problem.scale
        everything = np.arange(self.working_set.size)
        last_sweep, moved = self.working_set.n_sweeps + _MOST_TO_SETTLE, math.inf
        for _ in range(_SETTLING_ROUNDS):
            if self.working_set.n_sweeps >= last_sweep:
                break
            self._damping = max(self._damping - 1, 0)
            moved = self._improve(penalty, state, everything, goal, max_sweeps=_FEW_SWEEPS)
            if moved <= goal:
                break
            kept = self._open_rows(penalty, np.any(state.A[self.working_set.features] != 0.0, axis=1))
            self._improve(penalty, state, kept, goal)
        features = self.working_set.features
        A = _with_rows(state.A.shape, features, state.A[features])  # several of these are kept
        return Settled(A, state.intercept, state.value, before, moved <= goal)

    def rough_passes(
        self, penalty: RowPenalty, n_passes: int, *, follow: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """A and intercepts after some passes of Algorithm 1 over the gathered features, none solved exactly.

        Every pass is a weighted problem of S_j itself (k = inf), followed for a few sweeps. Rows that are
        next to nothing are dropped, as Algorithm 1 would in the end. A loss that is not quadratic has one
        least-squares model a pass; with `follow` it has several.
        """
        problem, features = self.problem, self.working_set.features
        gathered, goal = penalty.of_rows(features), _ROUGHLY * problem.scale
        weights = np.full(problem.design.n_features, np.inf)
        weights[features] = gathered.start_weight()
        state = self._start(penalty.weighted(weights), None, None)
        norms, sweeps, steps = np.zeros(len(features)), _FIRST_SWEEPS, _NEWTON_STEPS if follow else 1
        for _ in range(n_passes):
            entries = penalty.weighted(weights)
            state.value = problem.loss_value(state.z) + self._penalty_of(entries, state.A[features])
            rows = np.flatnonzero(np.isfinite(weights[features]) | gathered.free_rows)
            self._follow(entries, state, rows, goal, steps, max_sweeps=sweeps)
            A = state.A[features]
            before, norms, sweeps = norms, gathered.norms(A), _PASS_SWEEPS
            steps = min(steps, _PASS_NEWTON_STEPS)
            largest = norms.max(initial=0.0)
            kept = (norms > _NOTHING * largest) | gathered.free_rows
            weights = weights.copy()
            weights[features] = np.where(kept, gathered.weights(A), np.inf)
            if np.abs(norms - before).max(initial=0.0) <= _STEADY * largest:
                break
        state.A[features[~kept]] = 0.0
        return state.A, state.intercept

    @cached_property
    def _intercept_scale(self) -> float:
        problem, design = self.problem, self.problem.design
        slope_z = problem.loss_gradient(design.spread(problem.null_intercept))
        return float(design.task_sums(np.abs(slope_z)).max()) or 1.0

    def _start(self, penalty: RowPenalty, A, intercept) -> _State:
        problem, design, working_set = self.problem, self.problem.design, self.working_set
        if A is None or not np.any(A):
            A = zero_rows(design.n_features, design.n_tasks)
            intercept = problem.null_intercept.copy()
            z = design.spread(intercept)
        else:
            rows = np.flatnonzero(np.any(A != 0.0, axis=1))
            A = penalty.feasible(_with_rows(A.shape, rows, A[rows]))
            self.gather(penalty, np.flatnonzero(np.any(A != 0.0, axis=1)))
            kept = A[working_set.features]
            z = working_set.image(kept)
            if working_set.prepared:  # columns are centred
                shift = np.sum(working_set.base.means * kept, axis=0)
                if intercept is None:
                    intercept = (
                        problem.best_intercept(z) - shift if design.fit_intercept else problem.null_intercept
                    )
                z = z + design.spread(intercept + shift)
            else:
                intercept = problem.best_intercept(z) if intercept is None else intercept
                z = z + design.spread(intercept)
            intercept = np.array(intercept, dtype=float)
        return _State(
            A, intercept, z, problem.loss_value(z) + self._penalty_of(penalty, A[self.working_set.features])
        )

    def _gradient(self, state: _State, slope_z: np.ndarray) -> np.ndarray:
        problem = self.problem
        if not state.A.any() and np.array_equal(state.intercept, problem.null_intercept):
            return problem.null_gradient
        end, self._end = self._end, None
        if end and np.array_equal(end[0], state.A) and np.array_equal(end[1], state.intercept):
            return end[2]
        return problem.design.correlate(slope_z)

    def _kept_curvature(self, rows: np.ndarray) -> np.ndarray:
        self.working_set.add(rows)
        own = self.working_set.base.curvature[self.working_set.position[rows]]
        return self.problem.loss_curvature * own

    def gather(self, penalty: RowPenalty, rows: np.ndarray) -> None:
        """Gather some rows, and the groups that they belong to."""
        if penalty.has_groups:
            chosen = np.zeros(self.problem.design.n_features, dtype=bool)
            chosen[rows] = True
            rows = np.concatenate([rows, np.flatnonzero(penalty.whole(chosen) & ~chosen)])
        self.working_set.add(rows)

    def _open_rows(self, penalty: RowPenalty, chosen: np.ndarray) -> np.ndarray:
        """Positions of the chosen ones of the gathered rows, and of those that move with them."""
        if penalty.has_groups:
            chosen = penalty.of_rows(self.working_set.features).whole(chosen)
        return np.flatnonzero(chosen)

    def _grow(self, penalty: RowPenalty, A: np.ndarray, violations: np.ndarray, least: float) -> int:
        """Gather the kept rows and the worst of the others, twice as many as are kept; how many of those."""
        kept = np.any(A != 0.0, axis=1)
        self.gather(penalty, np.flatnonzero(kept))
        outside = np.flatnonzero((violations > least) & (self.working_set.position < 0))
        n_added = max(_LEAST_ADDED, int(_GROWTH * kept.sum()))
        if outside.size > n_added:
            outside = outside[np.argpartition(-violations[outside], n_added)[:n_added]]
        # worst first: early sweeps then do the most; ties by index, so that the order is the data's own
        self.gather(penalty, outside[np.lexsort((outside, -violations[outside]))])
        return outside.size

    def _descend(self, penalty: RowPenalty, state: _State, violations: np.ndarray, tolerance: float) -> bool:
        """Minimise over the gathered rows that are kept or violated; False if nothing moved."""
        features, intercept = self.working_set.features, state.intercept
        before = state.A[features]
        open_rows = np.any(before != 0.0, axis=1) | (violations[features] > 0.0)
        rows = self._open_rows(penalty, open_rows)
        self._damping = max(self._damping - 1, 0)
        self._follow(penalty, state, rows, tolerance, _NEWTON_STEPS)
        stayed = np.array_equal(before, state.A[features])
        return not (stayed and np.array_equal(intercept, state.intercept))

    def _follow(
        self, penalty: RowPenalty, state: _State, rows: np.ndarray, tolerance: float, steps: int, **limits
    ) -> None:
        """Minimise over `rows` on one least-squares model after the other; a quadratic loss has only one."""
        for _ in range(steps):
            moved = self._improve(penalty, state, rows, tolerance, **limits)
            if self.problem.loss.is_quadratic or moved <= tolerance:
                break

    def _penalty_of(self, penalty: RowPenalty, rows: np.ndarray) -> float:
        """Penalty of the rows in the working set."""
        with np.errstate(over="ignore", invalid="ignore"):
            value = penalty.of_rows(self.working_set.features).value(rows)
        return math.inf if math.isnan(value) else value  # 0 * inf: a row too small for its weight

    def _improve(
        self, penalty: RowPenalty, state: _State, rows: np.ndarray, tolerance: float, **how
    ) -> float:
        """Minimise the least-squares model at the state over `rows`; how much a slope moved at most."""
        problem = self.problem
        if problem.loss.is_quadratic:
            return self._step(penalty, state, self.working_set.base, rows, tolerance, **how) or 0.0
        # a model that is too flat leads too far: the next one is closer to a majorant of the loss
        for damping in range(self._damping, len(DAMPING)):
            weight = problem.newton_weights(state.z, DAMPING[damping])
            model = self.working_set.reweighted(weight, rows)
            moved = self._step(penalty, state, model, rows, 0.1 * tolerance, relative=_INEXACT, **how)
            if moved is not None:
                self._damping = damping
                return moved
        return 0.0

    def _step(
        self, penalty: RowPenalty, state: _State, model: Model, rows: np.ndarray, tolerance: float, *,
        relative: float = 0.0, max_sweeps: int = MAX_SWEEPS,
    ) -> float | None:  # fmt: skip
        """Minimise the model over `rows`, go there as far as the objective falls; None if it does not."""
        problem, design, working_set = self.problem, self.problem.design, self.working_set
        features = working_set.features
        slope_z = problem.loss_gradient(state.z)
        A = state.A[features]
        goal = A.copy()
        moved = working_set.minimise(
            model, slope_z, goal, rows, penalty,
            max_sweeps=max_sweeps, tolerance=tolerance, relative=relative,
        )  # fmt: skip
        change = goal - A
        change_z = working_set.image(change)
        change_intercept = np.zeros(design.n_tasks)
        if design.fit_intercept:
            shift = -design.task_sums(slope_z) / model.task_weight
            change_intercept = shift - np.sum(model.means * change, axis=0)
            change_z += design.spread(shift if working_set.prepared else change_intercept)
        for step in STEPS:
            rows_there = goal if step == 1.0 else A + step * change
            z = state.z + step * change_z
            value = problem.loss_value(z) + self._penalty_of(penalty, rows_there)
            if value <= state.value + RISEN * abs(state.value):
                moving = np.any(rows_there != A, axis=1)  # rows that stay zero take no memory
                state.A[features[moving]], state.z, state.value = rows_there[moving], z, value
                state.intercept = state.intercept + step * change_intercept
                return moved
        return None


# -- starts of members that are not convex ---------------------------------------------------------------

_FEW_PASSES, _FEW_NEWTON_PASSES = 20, 40  # on one least-squares model, and where a pass is a few of them
_RISING = tuple(2.0**-i for i in (3, 2.5, 2, 1.5, 1, 0.6, 0.3, 0.1))  # shares of alpha on the way up
_ROUGH = 1e-4  # accuracy on the way to a start
_CONVEX_STEPS = 3  # outer steps towards the convex solution: it is only a start
_NULL_STEPS, _NULL_TOL = 1000, 1e-9  # of a model of the entries that are free of penalty
_ROUNDING = 1e-12  # an objective that is lower by this share is lower
_FEWEST = 64  # features that are tried at least
_MOST = 0.5  # share of the features above which leaving the others out saves nothing

Place = tuple[Any, Any]  # A and intercepts, either of which may be None


class NullModel(NamedTuple):
    """The best model without anything that is penalised: A is zero but for entries free of penalty."""

    A: np.ndarray
    intercept: np.ndarray
    value: float
    gradient: np.ndarray  # zero for the free entries


def null_model(problem: Problem, penalty: RowPenalty) -> NullModel:
    """What a problem comes to under infinite strength."""
    A = np.zeros((problem.design.n_features, problem.design.n_tasks))
    known = penalty.known
    if known is None or not known.free_rows.any():
        return NullModel(A, problem.null_intercept, problem.null_value, problem.null_gradient)
    free = replace(penalty, alpha=1.0, known=known.only_free())
    found = RowDescent(problem).solve(free, max_iter=_NULL_STEPS, tol=_NULL_TOL)
    z = problem.predict(found.A, found.intercept)
    gradient = problem.design.correlate(problem.loss_gradient(z))
    return NullModel(found.A, found.intercept, found.objective, np.where(known.scale > 0.0, gradient, 0.0))


def best_of_starts(
    problem: Problem, penalty: RowPenalty, *, start=None, max_iter: int, tol: float
) -> Solution:
    """The lowest of what row descent reaches from every start.

    The starts are compared on the features that the convex problem meets on its way, which are few where
    features are many; the last descent looks at all of them.
    """
    descent = RowDescent(problem)
    best = min(_settled(descent, penalty, start), key=lambda at: at.objective)
    # of wide data the largest array beside X, and of no use to a descent from elsewhere
    vars(problem).pop("null_gradient", None)
    solution = descent.solve(penalty, best.A, best.intercept, max_iter=max_iter, tol=tol)
    history = np.concatenate([[best.objective_before], solution.history])
    return replace(solution, history=history, n_iter=len(history))


def is_zero_best(problem: Problem, penalty: RowPenalty, *, max_iter: int, tol: float) -> bool:
    """Whether `best_of_starts` gives A = 0; one start that ends below the objective of zero denies it."""
    descent, found, null = RowDescent(problem), [], null_model(problem, penalty)
    for at in _settled(descent, penalty, None):
        if not penalty.is_null(at.A) and at.objective < (1.0 - _ROUNDING) * null.value:
            return False
        found.append(at)
    best = min(found, key=lambda at: at.objective)
    return penalty.is_null(descent.solve(penalty, best.A, best.intercept, max_iter=max_iter, tol=tol).A)


def _settled(descent: RowDescent, penalty: RowPenalty, start) -> Iterator[Settled]:
    """Where descents over the promising features end, one after the other."""
    problem, n_features = descent.problem, descent.problem.design.n_features
    convex = convex_start(descent, penalty)
    promising, n_gathered = np.arange(n_features), descent.working_set.size
    if n_features > _FEWEST and n_gathered <= _MOST * n_features:
        # the steepest at zero, if few were gathered so far, and those of `start`
        steepness = penalty.dual_norm(problem.null_gradient)
        promising = np.argsort(-steepness, kind="stable")[: max(0, _FEWEST - n_gathered)]
        if start is not None:
            promising = np.union1d(promising, np.flatnonzero(np.any(start != 0.0, axis=1)))
    descent.gather(penalty, promising)
    for place in _starts(descent, penalty, convex, start):
        yield descent.settle(penalty, *place, tol=_ROUGH)


def _starts(descent: RowDescent, penalty: RowPenalty, convex: Place, start) -> Iterator[Place]:
    if start is not None:
        yield start, None
    yield convex
    if math.isinf(penalty.p):
        # Algorithm 1 says nothing here: given c it asks for |a| <= c, and that a gives the same c back
        yield None, None
        return
    yield descent.rough_passes(penalty, _FEW_PASSES)
    design = descent.problem.design
    if design.n_tasks > MANY_TASKS:  # dearer starts were not seen to change which rows are kept
        yield None, None
        return
    if not descent.problem.loss.is_quadratic:
        yield descent.rough_passes(penalty, _FEW_NEWTON_PASSES, follow=True)
    # rising is the dearest of all: not where features are many, nor where there is a better guess
    if start is None and descent.working_set.size == design.n_features:
        yield rising_start(descent, penalty)


def convex_start(descent: RowDescent, penalty: RowPenalty) -> Place:
    """The (2, 2) solution at the same alpha, roughly."""
    solution = descent.solve(penalty.convex(), max_iter=_CONVEX_STEPS, tol=10 * _ROUGH)
    return solution.A, solution.intercept


def dense_start(descent: RowDescent, penalty: RowPenalty) -> Place:
    """The first pass of Algorithm 1 (one well-posed problem per task); at p = inf the convex solution."""
    if math.isinf(penalty.p):
        return convex_start(descent, penalty)
    return descent.rough_passes(penalty, 1)


def rising_start(descent: RowDescent, penalty: RowPenalty) -> Place:
    """From a dense start at a small alpha up towards the one asked for; p is finite."""
    place: Place = descent.rough_passes(penalty.at(_RISING[0] * penalty.alpha), 1)
    for share in _RISING:
        place = descent.settle(penalty.at(share * penalty.alpha), *place, tol=_ROUGH)[:2]
    return place
