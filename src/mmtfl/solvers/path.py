"""Solutions along a grid of alphas, each started from its neighbour; docs/model.md section 8."""

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, cached_property, partial
from threading import Lock

import numpy as np

from mmtfl.engines.threads import Threads
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.algorithm1 import run_algorithm1
from mmtfl.solvers.compiled_paths import CompiledPaths
from mmtfl.solvers.row_descent import (
    NullModel,
    RowDescent,
    best_of_starts,
    dense_start,
    is_zero_best,
    null_model,
)
from mmtfl.solvers.solution import Path, Solution

Start = tuple[np.ndarray, np.ndarray]  # A (n_features, n_tasks) and intercepts

_LEAST_RATIO = 1e-5  # of strengths with pooling
_ALPHA_MAX_ACCURACY = 0.01
_GUESSES = 4  # of it, before it is bisected for
_LEAP, _LEAPS, _STEPS = 1.25, 12, 23  # a path to where it is zero: steps of 25 %, then of 1 %
_LEAP_ROUNDS, _LEAP_TOL = 1000, 1e-4
_SMALL = 1e-3  # where no alpha gives zero, the grid starts where every row is this small


class Member:
    """One member of the family on a problem in scaled units, to be solved at many alphas."""

    def __init__(self, problem: Problem, penalty: RowPenalty):
        self.problem, self._units = problem.in_safe_units()
        self._penalty = penalty

    @cached_property
    def null(self) -> NullModel:
        """The model at infinite strength."""
        return null_model(self.problem, self.at(1.0))

    def at(self, alpha: float) -> RowPenalty:
        """The penalty at one alpha, in the units of the scaled problem."""
        penalty = self._penalty.at(float(alpha))
        return penalty if self._units is None else self._units.penalty(penalty)

    def place(self, start: Start) -> Start:
        """A start in the units of the scaled problem."""
        return start if self._units is None else self._units.place(*start)

    def kept_rows(self, solution: Solution) -> tuple[np.ndarray, Solution]:
        """The features kept, and the solution with their rows alone, in the units of the given problem."""
        solution = solution if self._units is None else self._units.solution(solution)
        kept = np.flatnonzero(np.any(solution.A != 0.0, axis=1))
        return kept, replace(solution, A=solution.A[kept])


def solve_path(
    problem: Problem,
    penalty: RowPenalty,
    alphas: np.ndarray,
    *,
    start: Start | None = None,
    max_iter: int = 1000,
    tol: float = 1e-4,
    report: Callable[[float], None] | None = None,
) -> Path:
    """Solve the problem at every alpha, whatever the strength of the penalty given.

    Convex members run from the largest alpha down, where the solutions are small. Concave ones run up from
    a dense start: coming down from zero they would stay at the poor local minima they meet first. `start` is
    the solution at the alpha before the first one. After every alpha `report` is called with the share of
    them that is done.
    """
    alphas = np.sort(np.asarray(alphas, dtype=float))[::-1]
    member, points = Member(problem, penalty), []
    start = None if start is None else member.place(start)
    if penalty.is_convex:
        found = _downwards(member, alphas, start, max_iter, tol)
    else:
        found = _upwards(member, alphas[::-1], start, max_iter, tol)
    for solution in found:
        points.append(member.kept_rows(solution))
        if report is not None:
            report(len(points) / len(alphas))
    if not penalty.is_convex:
        points.reverse()
    features, solutions = zip(*points, strict=True)
    intercepts, objectives, violations, converged = (
        np.array([getattr(solution, name) for solution in solutions])
        for name in ("intercept", "objective", "violation", "converged")
    )
    rows = [solution.A for solution in solutions]
    costs = [
        penalty.at(alpha).of_rows(kept).value(A)
        for alpha, kept, A in zip(alphas, features, rows, strict=True)
    ]
    return Path(
        alphas, list(features), rows, intercepts, objectives, violations, converged,
        problem.design.n_features, losses=objectives - costs,
    )  # fmt: skip


def _downwards(
    member: Member, alphas: np.ndarray, start: Start | None, max_iter: int, tol: float
) -> Iterator[Solution]:
    descent = RowDescent(member.problem, keeps_gradient=True)
    A, intercept = start or (None, None)
    for alpha in alphas:
        penalty = member.at(alpha)
        if penalty.is_ridge_like:  # no row is ever zero: the tasks' ridge problems are the quicker way
            last = run_algorithm1(member.problem, penalty, Threads(), start=A, max_iter=max_iter, tol=tol)
        else:
            last = descent.solve(penalty, A, intercept, max_iter=max_iter, tol=tol)
        A, intercept = last.A, last.intercept
        yield last


def _upwards(
    member: Member, alphas: np.ndarray, start: Start | None, max_iter: int, tol: float
) -> Iterator[Solution]:
    descent = RowDescent(member.problem, keeps_gradient=True)
    if start is None:
        penalty = member.at(alphas[0])
        descent.working_set.add(np.arange(member.problem.design.n_features))
        last = descent.solve(penalty, *dense_start(descent, penalty), max_iter=max_iter, tol=tol)
        yield last
        alphas, start = alphas[1:], (last.A, last.intercept)
    for alpha in alphas:
        penalty = member.at(alpha)
        goes_on = not penalty.is_null(start[0])
        found = descent.solve(penalty, *start, max_iter=max_iter, tol=tol) if goes_on else None
        if found is not None and not penalty.is_null(found.A) and found.objective < member.null.value:
            last = found
        else:
            # zero, once it is better, is better for every larger alpha
            zero = member.null.A, member.null.intercept
            last = replace(descent.solve(penalty, *zero, max_iter=1, tol=tol), converged=True)
        start = last.A, last.intercept
        yield last


class Paths:
    """Paths of several members on one problem, as exact as held-out scores need.

    The members share the Gram matrices, where these are the quicker way.

    Parameters
    ----------
    problem : Problem
        Data and loss.
    tasks : ndarray of int, optional
        Its tasks among those that the penalties know, if it has only some of them.
    """

    def __init__(self, problem: Problem, tasks: np.ndarray | None = None):
        self.problem, self._tasks = problem, tasks
        self._lock = Lock()
        self._compiled_paths: CompiledPaths | None = None

    def solve(
        self, penalty: RowPenalty, alphas: np.ndarray, *,
        start: Start | None = None, max_iter: int, tol: float,
        report: Callable[[float], None] | None = None, certified: bool = False,
    ) -> Path:  # fmt: skip
        """The path of a member; objectives and violations may be NaN unless it is to be `certified`."""
        penalty = self.here(penalty)
        compiled = self._compiled(penalty)
        if compiled is None:
            return solve_path(
                self.problem, penalty, alphas, start=start, max_iter=max_iter, tol=tol, report=report
            )
        first = None if start is None else start[0]
        found = compiled.solve(penalty, alphas, start=first, max_iter=max_iter, tol=tol, rough=not certified)
        objectives, violations = np.full((2, len(alphas)), np.nan)
        if certified:
            unit = penalty.at(1.0)
            objectives = found.losses + alphas * np.array([unit.value(A) for A in found.A])
            violations = compiled.violations(penalty, alphas, found)
        features = [np.flatnonzero(kept) for kept in np.any(found.A != 0.0, axis=2)]
        if report is not None:
            report(1.0)
        return Path(
            alphas=alphas,
            features=features,
            values=[A[kept] for A, kept in zip(found.A, features, strict=True)],
            intercepts=compiled.intercepts(found),
            objectives=objectives,
            violations=violations,
            converged=found.settled,
            n_features=self.problem.design.n_features,
            losses=found.losses,
        )

    def here(self, penalty: RowPenalty) -> RowPenalty:
        """The penalty in the tasks of this problem."""
        known = penalty.known
        return penalty if known is None else replace(penalty, known=self.known_here(known))

    def known_here(self, known: KnownFeatures | None) -> KnownFeatures | None:
        """What is known of the features in the tasks of this problem."""
        return known if known is None or self._tasks is None else known.of_tasks(self._tasks)

    def last_before_zero(self, penalty: RowPenalty, alpha: float) -> float | None:
        """The largest strength, to 1 %, at which a concave member's path from `alpha` upwards is not zero.

        None if that takes long, or is far.
        """
        compiled = self._compiled(penalty)
        if compiled is None:
            return None
        above, start = alpha * _LEAP ** np.arange(_LEAPS, -1.0, -1.0), None
        for _ in range(2):
            found = compiled.solve(penalty, above, start=start, max_iter=_LEAP_ROUNDS, tol=_LEAP_TOL)
            kept = np.flatnonzero(found.A.any(axis=(1, 2)))
            if kept.size == 0:
                return alpha
            if kept[0] == 0 and start is None:
                return None
            alpha, start = float(above[kept[0]]), found.A[kept[0]]
            above = alpha * np.geomspace(_LEAP, 1.0, _STEPS, endpoint=False)
        return alpha

    def _compiled(self, penalty: RowPenalty) -> CompiledPaths | None:
        if not CompiledPaths.serves(self.problem, penalty):
            return None
        with self._lock:  # the first of several threads makes it
            if self._compiled_paths is None:
                self._compiled_paths = CompiledPaths(self.problem)
            return self._compiled_paths


def alpha_max(
    problem: Problem, penalty: RowPenalty, *, max_iter: int = 1000, paths: Paths | None = None,
    rough: bool = False,
) -> float:  # fmt: skip
    """The smallest alpha whose solution is zero (from the solver's own start), or stands for it.

    For norms (r = 1) it is the largest dual norm of a row of the null gradient. For r > 1 no alpha gives
    zero; then every row is at most a thousandth of its unpenalised size. For the concave members zero is a
    local minimum at *every* alpha, so the question is about the solver: from its own starts it must return
    zero at this alpha, and not at one smaller by more than 1 %. `paths` on the problem, if there are any,
    spare making what they are made of. A `rough` answer is where these paths become zero, which takes a
    tenth of the time.
    """
    member = Member(problem, penalty)
    if not member.problem.null_gradient.any() or not member.at(1.0).dual_norm(member.null.gradient).any():
        return 1.0
    paths = Paths(problem) if paths is None else paths
    top = _alpha_max(member, max_iter, lambda first: paths.last_before_zero(penalty, first), rough)
    if not 0.0 < top < math.inf:
        raise ValueError(
            f"The strength at which p={penalty.p:g}, k={penalty.k:g} gives zero is out "
            "of the range of floats: put features on one scale with standardize=True, or y in other units."
        )
    return top


def _alpha_max(member: Member, max_iter: int, guess: Callable[[float], float | None], rough: bool) -> float:
    # once columns are rescaled, rows have strengths of their own at alpha = 1
    unit, gradient = member.at(1.0), member.null.gradient
    if unit.power == 1.0:
        return float(np.max(unit.dual_norm(gradient) / unit.alpha))
    if unit.power_near_zero > 1.0:
        curvature = member.problem.curvature
        free = np.divide(gradient, curvature, out=np.zeros_like(gradient), where=curvature > 0.0)
        top = unit.small_alpha(gradient, _SMALL * unit.norms(free))
        return top if unit.is_convex else _next_to_nothing(member, top, max_iter)
    first = _zero_is_left_below(member)
    last = guess(first) if rough else None
    return _bisect_for_zero(member, first, guess, max_iter) if last is None else 1.01 * last


def _next_to_nothing(member: Member, alpha: float, max_iter: int) -> float:
    """The logarithm flattens, so a large row outlasts what holds small ones: double alpha until it falls."""
    fallen = 0.95 * member.null.value
    while 0.0 < alpha < 1e300:
        penalty = member.at(alpha)
        found = best_of_starts(member.problem, penalty, max_iter=max_iter, tol=1e-4)
        price = penalty.value(found.A)
        loss = found.objective - price
        if loss > fallen:
            break
        # as long as this A itself costs less than a fallen model, the best one has not fallen
        steps = math.log2(fallen - loss) - math.log2(price) if 0.0 < price < fallen - loss else 1.0
        alpha *= 2.0 ** min(math.ceil(steps), 1000)
    return alpha


def _zero_is_left_below(member: Member) -> float:
    """The alpha below which some row leaves zero by itself, to 0.1 %."""
    gradient, curvature = member.null.gradient, member.problem.curvature
    rows = np.arange(len(gradient))

    def leaving(alpha: float) -> np.ndarray:
        penalty = member.at(alpha).of_rows(rows)
        return rows[penalty.row_violation(np.zeros(gradient.shape), gradient, curvature) > 0.0]

    high = float(np.max(np.maximum(gradient.max(axis=1), -gradient.min(axis=1)) / member.at(1.0).alpha))
    while (left := leaving(high)).size == 0 and high > 1e-300:
        high /= 2.0
    while high < 1e300 and left.size:
        if 2 * left.size < rows.size:  # only rows that leave at the largest alpha so far can decide
            here = np.searchsorted(rows, left)
            rows, gradient, curvature = left, gradient[here], curvature[here]
        high *= 2.0
        left = leaving(high)
    low = high / 2.0
    while high > 1.001 * low:
        middle = math.sqrt(low) * math.sqrt(high)  # their product may overflow
        low, high = (middle, high) if leaving(middle).size else (low, middle)
    return high


def _bisect_for_zero(
    member: Member, first: float, guess: Callable[[float], float | None], max_iter: int
) -> float:
    """The end of a bracket of 1 % below which the solution is not zero.

    With a guess of where that is, the same bracket is found by what the guess implies, and only its ends are
    solved for.
    """

    @cache
    def is_zero(alpha: float) -> bool:
        return is_zero_best(member.problem, member.at(alpha), max_iter=max_iter, tol=1e-5)

    if is_zero(first):
        return first
    last = guess(first)
    for _ in range(_GUESSES):
        if last is None:
            break
        low, high = _bracket(first, partial(operator.lt, last))
        if not is_zero(high):
            last = high
        elif is_zero(low):
            last = math.nextafter(low, 0.0)
        else:
            return high
    return _bracket(first, is_zero)[1]


def _bracket(first: float, is_zero: Callable[[float], bool]) -> tuple[float, float]:
    """Two alphas that differ by 1 % or less, between which the solution becomes zero; none is below first."""
    low, high, growth = first, first, 1.25
    while high < 1e300 and not is_zero(high):
        low, high = high, growth * high
        growth = growth if high < 10.0 * first else min(growth**2, 1e9)  # far from where zero is left: leap
    while high > (1.0 + _ALPHA_MAX_ACCURACY) * low:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if is_zero(middle) else (middle, high)
    return low, high


def alpha_grid(
    problem: Problem, penalty: RowPenalty, n_alphas: int, ratio: float | None = None, *,
    paths: Paths | None = None, rough: bool = False,
) -> np.ndarray:  # fmt: skip
    """n_alphas strengths from alpha_max down to ratio * alpha_max, evenly on a log scale."""
    top, design = alpha_max(problem, penalty, paths=paths, rough=rough), problem.design
    if ratio is None:
        # counted by weight, so that weight 2 is a repeated row here too; twice, so that folds have more
        # rows than features as well: below that, small alphas only interpolate, and take long to
        ratio = 1e-3 if design.mean_size > 2.0 * design.n_features else 1e-2
        if penalty.power_near_zero > 1.0:
            ratio = 1e-6
        elif penalty.is_centred:
            # a common part is nearly free, so that alpha_max is larger; the grid ends where it would without
            gradient, plain = problem.null_gradient, replace(penalty, pooling=0.0)
            larger = penalty.dual_norm(gradient).max() / max(plain.dual_norm(gradient).max(), 1e-300)
            ratio = max(ratio / max(larger, 1.0) ** (2.0 - penalty.power_near_zero), _LEAST_RATIO)
    return top * np.geomspace(1.0, ratio, n_alphas)
