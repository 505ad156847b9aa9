"""Solutions along a grid of alphas, each started from its neighbour; docs/model.md section 8."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mmtfl.engine.threads import Threads
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.objective import Objective
from mmtfl.objective.penalties import LogRows, RowPower, row_norms
from mmtfl.solvers.alternating import alternate
from mmtfl.solvers.block import RowDescent
from mmtfl.solvers.solution import Solution
from mmtfl.solvers.starts import best_of_starts, dense_start

_ALPHA_MAX_ACCURACY = 0.01
_SMALL = 1e-3  # where no alpha gives zero, the grid starts where every row is this small


@dataclass(frozen=True)
class Path:
    """Coefficients at every alpha, the kept rows only.

    Attributes
    ----------
    alphas : ndarray (n_alphas,)
        Strengths, largest first.
    features : list of ndarray
        Features kept at each alpha.
    values : list of ndarray (n_kept, n_tasks)
        Their coefficients.
    intercepts : ndarray (n_alphas, n_tasks)
        Intercepts.
    objectives, violations : ndarray (n_alphas,)
        Objective reached, and distance to stationarity.
    n_features : int
        Number of features of the model.
    """

    alphas: np.ndarray
    features: list[np.ndarray]
    values: list[np.ndarray]
    intercepts: np.ndarray
    objectives: np.ndarray
    violations: np.ndarray
    n_features: int

    def __len__(self) -> int:
        return len(self.alphas)

    @property
    def n_kept(self) -> np.ndarray:
        """Number of features kept at each alpha."""
        return np.array([len(kept) for kept in self.features])

    def coef(self, i: int) -> np.ndarray:
        """Coefficients (n_tasks, n_features) at the i-th alpha."""
        out = np.zeros((self.intercepts.shape[1], self.n_features))
        out[:, self.features[i]] = self.values[i].T
        return out

    def scaled(self, column_scale: np.ndarray | None, target_scale: np.ndarray | None) -> "Path":
        """The same path in the units of X and y as they were given."""
        values, intercepts = self.values, self.intercepts
        if column_scale is not None:
            kept = zip(values, self.features, strict=True)
            values = [rows / column_scale[index, None] for rows, index in kept]
        if target_scale is not None:
            values, intercepts = [rows * target_scale for rows in values], intercepts * target_scale
        return Path(
            self.alphas, self.features, values, intercepts, self.objectives, self.violations, self.n_features
        )


def solve_path(
    design: Design,
    loss: Loss,
    penalty: RowPower | LogRows,
    alphas: np.ndarray,
    *,
    max_iter: int = 1000,
    tol: float = 1e-4,
) -> Path:
    """Solve one member of the family at every alpha.

    Convex members run from the largest alpha down, where the solutions are small. Concave ones run up from
    a dense start: coming down from zero they would stay at the poor local minima they meet first.
    """
    alphas = np.sort(np.asarray(alphas, dtype=float))[::-1]
    objective = Objective(design, loss, penalty)
    if penalty.is_convex:
        solutions = list(_downwards(objective, alphas, max_iter, tol))
    else:
        solutions = list(_upwards(objective, alphas[::-1], max_iter, tol))[::-1]
    kept = [np.flatnonzero(np.any(solution.A != 0.0, axis=1)) for solution in solutions]
    return Path(
        alphas=alphas,
        features=kept,
        values=[solution.A[rows] for solution, rows in zip(solutions, kept, strict=True)],
        intercepts=np.array([solution.intercept for solution in solutions]),
        objectives=np.array([solution.objective for solution in solutions]),
        violations=np.array([solution.violation for solution in solutions]),
        n_features=design.n_features,
    )


def _downwards(objective: Objective, alphas: np.ndarray, max_iter: int, tol: float) -> Iterator[Solution]:
    member = objective.penalty
    direct = isinstance(member, RowPower) and member.p == 2.0 and member.power > 1.0
    descent = RowDescent(objective)
    last: Solution | None = None
    for alpha in alphas:
        objective.penalty = member.at(float(alpha))
        if direct:  # no row is ever zero: the tasks' ridge problems are the quicker way
            start = None if last is None else last.A
            last = alternate(objective, Threads(), start=start, max_iter=max_iter, tol=tol)
        elif last is None:
            last = descent.solve(max_iter=max_iter, tol=tol)
        else:
            last = descent.solve(last.A, last.intercept, max_iter=max_iter, tol=tol)
        yield last


def _upwards(objective: Objective, alphas: np.ndarray, max_iter: int, tol: float) -> Iterator[Solution]:
    member = objective.penalty
    descent = RowDescent(objective)
    objective.penalty = member.at(float(alphas[0]))
    last = from_dense_start(objective, descent, max_iter, tol)
    yield last
    for alpha in alphas[1:]:
        objective.penalty = member.at(float(alpha))
        if last.A.any():
            last = descent.solve(last.A, last.intercept, max_iter=max_iter, tol=tol)
        if not last.A.any() or last.objective >= objective.null_value:
            # zero, once it is better, is better for every larger alpha
            last = descent.solve(None, max_iter=1, tol=tol)
        yield last


def from_dense_start(objective: Objective, descent: RowDescent, max_iter: int, tol: float) -> Solution:
    """Row descent from a dense start at the objective's own alpha."""
    descent.working_set.add(np.arange(objective.design.n_features))
    return descent.solve(*dense_start(objective, descent), max_iter=max_iter, tol=tol)


def alpha_max(objective: Objective, *, max_iter: int = 1000) -> float:
    """The smallest alpha whose solution is zero (from the solver's own start), or stands for it.

    For norms (r = 1) it is the largest dual norm of a row of the null gradient. For r > 1 no alpha gives
    zero; then every row is at most a thousandth of its unpenalised size. For the concave members zero is a
    local minimum at *every* alpha, so the question is about the solver: from its own starts it must return
    zero at this alpha, and not at one smaller by more than 1 %.
    """
    penalty = objective.penalty
    gradient = objective.null_gradient
    if not gradient.any():
        return 1.0
    norms = RowPower(penalty.p, 1.0, 1.0).dual_norm(gradient)
    if isinstance(penalty, RowPower) and penalty.power == 1.0:
        return float(norms.max())
    smooth_log = isinstance(penalty, LogRows) and penalty.p > 1.0
    if penalty.is_convex or smooth_log:
        curvature = objective.curvature
        free = np.divide(gradient, curvature, out=np.zeros_like(gradient), where=curvature > 0.0)
        size = _SMALL * row_norms(free, penalty.p)
        # near zero phi' is proportional to this power of the size
        power = penalty.p if smooth_log else penalty.power
        slope = power * size ** (power - 1.0) / (float(np.max(penalty.eps)) if smooth_log else 1.0)
        top = float(np.max(np.divide(norms, slope, out=np.zeros_like(norms), where=slope > 0.0)))
        return _next_to_nothing(objective, top, max_iter) if smooth_log else top
    low = _zero_is_left_below(objective)
    return _bisect_for_zero(objective, low, max_iter)


def _next_to_nothing(objective: Objective, alpha: float, max_iter: int) -> float:
    """The logarithm flattens, so a large row outlasts what holds small ones: double alpha until it falls."""
    member = objective.penalty
    try:
        while True:
            objective.penalty = member.at(alpha)
            found = best_of_starts(objective, max_iter=max_iter, tol=1e-4)
            if found.objective - objective.penalty.value(found.A) > 0.95 * objective.null_value:
                return alpha
            alpha *= 2.0
    finally:
        objective.penalty = member


def _zero_is_left_below(objective: Objective) -> float:
    """The alpha below which some row leaves zero by itself, to 0.1 %."""
    penalty, gradient, curvature = objective.penalty, objective.null_gradient, objective.curvature
    zero = np.zeros_like(gradient)
    rows = np.arange(len(gradient))

    def leaving(alpha: float) -> np.ndarray:
        return rows[penalty.at(alpha).row_violation(zero[rows], gradient[rows], curvature[rows]) > 0.0]

    high = float(np.abs(gradient).max())
    while leaving(high).size == 0 and high > 1e-300:
        high /= 2.0
    while high < 1e300 and (left := leaving(high)).size:
        rows, high = left, 2.0 * high  # only rows that leave at the largest alpha so far can decide
    low = high / 2.0
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if leaving(middle).size else (low, middle)
    return high


def _bisect_for_zero(objective: Objective, low: float, max_iter: int) -> float:
    member = objective.penalty

    def is_zero(alpha: float) -> bool:
        objective.penalty = member.at(alpha)
        return not best_of_starts(objective, max_iter=max_iter, tol=1e-5).A.any()

    try:
        high = low
        while high < 1e300 and not is_zero(high):
            low, high = high, 1.25 * high
        while high > (1.0 + _ALPHA_MAX_ACCURACY) * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if is_zero(middle) else (middle, high)
        return high
    finally:
        objective.penalty = member


def alpha_grid(objective: Objective, n_alphas: int, ratio: float | None = None) -> np.ndarray:
    """n_alphas strengths from alpha_max down to ratio * alpha_max, evenly on a log scale."""
    top = alpha_max(objective)
    penalty, design = objective.penalty, objective.design
    if ratio is None:
        if (penalty.p if isinstance(penalty, LogRows) else penalty.power) > 1.0:
            ratio = 1e-6
        else:
            # counted by weight, so that weight 2 is a repeated row here too; twice, so that folds have more
            # rows than features as well: below that, small alphas only interpolate, and take long to
            ratio = 1e-3 if design.mean_size > 2.0 * design.n_features else 1e-2
    return top * np.geomspace(1.0, ratio, n_alphas)
