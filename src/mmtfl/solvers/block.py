"""Row descent on the joint form: working sets outside, compiled sweeps inside; docs/model.md section 6.

Each outer step is one pass over the data: the gradient of all rows, their violations, and the decision
which columns to gather next. Between passes only the gathered columns are touched. The squared loss has one
least-squares model; other losses make a new one at every Newton step.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mmtfl.objective.objective import Objective
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.working_set import Model, WorkingSet

MAX_SWEEPS = 200
_LEAST_ADDED = 10
_NEWTON_STEPS = 8
_ALPHA_RESOLVED = 1e-10
_ROUNDING = 1e-14  # an objective that rises by less has not risen
_WEIGHT_FLOORS = (1e-6, 1e-3, 3e-2, 1.0)  # smallest Newton weight of a row, as a share of the bound on it


@dataclass
class _State:
    """What changes: coefficients, intercepts, and the linear predictor they give."""

    A: np.ndarray
    intercept: np.ndarray
    z: np.ndarray
    value: float


class RowDescent:
    """Minimise an objective by rows from any start; keeps its gathered columns for the next call.

    Parameters
    ----------
    objective : Objective
        Its penalty may be replaced between calls (another alpha on a path, new weights of Algorithm 1).
    """

    def __init__(self, objective: Objective):
        self.objective = objective
        self.working_set = WorkingSet(objective.design, reweighted=not objective.loss.is_quadratic)

    def solve(self, A=None, intercept=None, *, max_iter: int, tol: float) -> Solution:
        """Descend from (A, intercept), or from zero."""
        objective, design = self.objective, self.objective.design
        scale = float(np.abs(objective.null_gradient).max(initial=0.0)) or float(
            max(1.0, np.abs(design.y).max())
        )
        # a penalty below the rounding of the gradient cannot be told from none by a dual point
        certifiable = float(np.min(objective.penalty.alpha)) > _ALPHA_RESOLVED * scale
        state = self._start(A, intercept)
        history: list[float] = []
        violation, gap, converged = np.inf, None, False
        for _ in range(max_iter):
            slope_z = objective.loss_gradient(state.z)
            gradient = self._gradient(state, slope_z)
            rows = objective.row_violation(state.A, gradient, self._kept_curvature)
            violation = float(rows.max(initial=0.0))
            if design.fit_intercept:
                # an intercept's slope in units of its own: those of X do not matter to it
                slope = float(np.abs(design.task_sums(slope_z)).max()) / self._intercept_scale
                violation = max(violation, slope * scale)
            history.append(state.value)
            gap = objective.dual_gap(state.A, state.z, gradient) if certifiable else None
            converged = violation <= tol * scale and (gap is None or gap <= tol * objective.null_value)
            # a start may bring rows that are all but zero: they must meet a sweep, which drops them
            unswept = len(history) == 1 and state.A.any()
            if (converged and not unswept) or len(history) == max_iter:
                break
            only_gap = violation <= tol * scale
            n_added = self._grow(state.A, rows, 0.0 if only_gap else tol * scale)
            # while rows are still to be found the gathered ones need not be exact; when only the gap is
            # short of its goal they must be better than the tolerance
            goal = (
                max(0.01 * violation, 0.3 * tol * scale)
                if n_added and not only_gap
                else min(0.3 * tol * scale, 0.1 * violation)
            )
            if not self._descend(state, rows, goal):
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

    @cached_property
    def _intercept_scale(self) -> float:
        objective, design = self.objective, self.objective.design
        slope_z = objective.loss_gradient(design.spread(objective.null_intercept))
        return float(design.task_sums(np.abs(slope_z)).max()) or 1.0

    def _start(self, A, intercept) -> _State:
        objective, design = self.objective, self.objective.design
        if A is None or not np.any(A):
            A = np.zeros((design.n_features, design.n_tasks))
            intercept = objective.null_intercept.copy()
            z = design.spread(intercept)
        else:
            A = np.array(A, dtype=float)
            z = design.predict(A)
            if intercept is None:
                intercept = design.task_means(design.y - z, design.row_weight)
                if not (objective.loss.is_quadratic and design.fit_intercept):
                    intercept = objective.null_intercept
            intercept = np.array(intercept, dtype=float)
            z = z + design.spread(intercept)
        return _State(A, intercept, z, objective.loss_value(z) + objective.penalty.value(A))

    def _gradient(self, state: _State, slope_z: np.ndarray) -> np.ndarray:
        objective = self.objective
        if not state.A.any() and np.array_equal(state.intercept, objective.null_intercept):
            return objective.null_gradient
        return objective.design.correlate(slope_z)

    def _kept_curvature(self, rows: np.ndarray) -> np.ndarray:
        self.working_set.add(rows)
        return self.objective.loss.curvature * self.working_set.curvature(rows)

    def _grow(self, A: np.ndarray, violations: np.ndarray, least: float) -> int:
        """Gather the kept rows and the worst of the others, about as many as are kept; how many of those."""
        kept = np.any(A != 0.0, axis=1)
        self.working_set.add(np.flatnonzero(kept))
        outside = np.flatnonzero((violations > least) & (self.working_set.position < 0))
        n_added = max(_LEAST_ADDED, int(kept.sum()))
        if outside.size > n_added:
            outside = outside[np.argpartition(-violations[outside], n_added)[:n_added]]
        # worst first: early sweeps then do the most; ties by index, so that the order is the data's own
        self.working_set.add(outside[np.lexsort((outside, -violations[outside]))])
        return outside.size

    def _descend(self, state: _State, violations: np.ndarray, tolerance: float) -> bool:
        """Minimise over the gathered rows that are kept or violated; False if nothing moved."""
        features, before, intercept = self.working_set.features, state.A, state.intercept
        open_rows = np.any(before[features] != 0.0, axis=1) | (violations[features] > 0.0)
        rows = np.flatnonzero(open_rows)
        if self.objective.loss.is_quadratic:
            self._step(state, self.working_set.base, rows, tolerance)
        else:
            for _ in range(_NEWTON_STEPS):
                if self._newton_step(state, rows, tolerance) <= tolerance:
                    break
        return not (np.array_equal(before, state.A) and np.array_equal(intercept, state.intercept))

    def _newton_step(self, state: _State, rows: np.ndarray, tolerance: float) -> float:
        objective, design = self.objective, self.objective.design
        bound = objective.loss.curvature * design.row_weight
        hessian = objective.loss.hessian(design.y, state.z, design.row_weight)
        # Where the model is too flat the step goes too far: raise its curvature towards the bound, where the
        # model lies above the loss and any fall of it is a fall of the objective.
        for floor in _WEIGHT_FLOORS:
            model = self.working_set.reweighted(np.maximum(hessian, floor * bound))
            moved = self._step(state, model, rows, 0.1 * tolerance)
            if moved is not None:
                return moved
        return 0.0

    def _step(self, state: _State, model: Model, rows: np.ndarray, tolerance: float) -> float | None:
        """Minimise the model over `rows`, go there as far as the objective falls; None if it does not."""
        objective, design = self.objective, self.objective.design
        features = self.working_set.features
        slope_z = objective.loss_gradient(state.z)
        A = state.A[features]
        goal = A.copy()
        moved = _minimise_model(
            model, -slope_z / model.root, goal, rows, objective.penalty, features, tolerance
        )
        change = goal - A
        change_z = model.image(change) / model.root
        change_intercept = np.zeros(design.n_tasks)
        if design.fit_intercept:
            shift = -design.task_sums(slope_z) / model.task_weight
            change_z += design.spread(shift)
            change_intercept = shift - np.sum(model.means[: model.size] * change, axis=0)
        for step in (1.0, 0.5, 0.25):
            trial = state.A.copy()
            trial[features] = goal if step == 1.0 else A + step * change
            z = state.z + step * change_z
            value = objective.loss_value(z) + objective.penalty.value(trial)
            if value <= state.value + _ROUNDING * abs(state.value):
                state.A, state.z, state.value = trial, z, value
                state.intercept = state.intercept + step * change_intercept
                return moved
        return None


def _minimise_model(model, residual, A, rows, penalty, features, tolerance) -> float:
    """Sweep over rows of the least-squares model from A, in place; the first sweep's largest move."""
    from mmtfl.solvers import kernels

    use_gram = model.prefers_gram
    if use_gram:
        model.ensure_gram()
    slope = model.slopes(residual) if use_gram else np.empty((0, 0))
    alpha, eps = penalty.strengths(model.design.n_features)
    offsets = model.design.offsets.astype(np.intp)
    _, _, first = kernels.descend(
        use_gram, model.x, model.x_start, offsets, model.gram, model.curvature, residual, slope,
        rows, A, penalty.kind, float(penalty.p), float(penalty.power), alpha[features], eps[features],
        MAX_SWEEPS, tolerance,
    )  # fmt: skip
    return first
