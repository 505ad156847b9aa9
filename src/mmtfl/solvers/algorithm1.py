"""Algorithm 1: every task for itself, then c in closed form, until A stands still; docs/model.md section 4.

In the joint form it is majorise-minimise: at each pass the tasks see sum_j w_j |a_jt|^p with the weights
w_j = gamma1 c_j^-p of the last A, so the objective never rises. The weights (at most d numbers) go out and
row norms come back; the coefficients stay with their tasks until the end. With pooling the common part of
the rows goes out too, and their sums come back; section 10.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from time import monotonic

import numpy as np

from mmtfl.engines import Engine
from mmtfl.objective.design import Design
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import STALLED, Problem
from mmtfl.objective.row_sizes import euclidean_parts
from mmtfl.solvers.checkpoint import FitCheckpoint
from mmtfl.solvers.placed import Placed
from mmtfl.solvers.row_descent import RowDescent, best_of_starts
from mmtfl.solvers.shards import Held, Reply, Update
from mmtfl.solvers.solution import Solution

_INNER = 0.03  # accuracy of a task's own problem, in units of tol
_INEXACT = 0.03  # while A still moves, in units of its last move: early passes need no exact answers
_RISEN = 1e-10  # an objective that rises by less has not risen
# where the rows finish the work: for convex members, of which any start gives the same answer, and with
# pooling, where more passes than these were not seen to change the answer
_EARLY_TOL = 1e-3
_FIRST_STEPS = 2  # of rows, where passes end at zero: more would take up too many rows
_GONE = 1e-5  # a row of this share of the largest effect leaves the passes; the finish may bring it back
_MOST_INEXACT = 5  # passes with tasks that were not solved in time, before rows do the rest
_KEEP_PASSES, _KEEP_SECONDS = 16, 30.0  # how often a checkpoint is written
_LONGEST_LINEAGE = 64  # passes that a cluster would have to repeat for a lost worker, at most

Report = Callable[[int, float, float, int], None]


def run_algorithm1(
    problem: Problem,
    penalty: RowPenalty,
    engine: Engine,
    *,
    start=None,
    max_iter: int,
    tol: float,
    report: Report | None = None,
    checkpoint: FitCheckpoint | None = None,
) -> Solution:
    """Algorithm 1 from c = 1 (or from the c of `start`), then row descent to settle zeros exactly.

    Algorithm 1 alone only approaches the zero rows of the convex members, and stops at some points that row
    descent can still leave; the finish never raises the objective. With a `checkpoint`, passes continue from
    what it holds, and are written to it.
    """
    passes = Passes(problem, penalty, engine, start=start, tol=tol, report=report, checkpoint=checkpoint)
    passes.run(max_iter, passes.early_goal)
    if not problem.design.can_gather(passes.n_kept):
        passes.run(max_iter, tol)
        return passes.judged(tol)
    A, intercept = passes.bring_home()
    if A.any() or start is not None or penalty.is_convex or problem.design.placed is not None:
        finish = RowDescent(problem).solve(penalty, A, intercept, max_iter=max_iter, tol=tol)
    else:  # passes never leave zero: rows do, and passes may go on from where they lead
        finish = best_of_starts(problem, penalty, max_iter=max_iter, tol=tol)
        first = RowDescent(problem).solve(penalty, max_iter=_FIRST_STEPS, tol=_EARLY_TOL).A
        if first.any():
            other = run_algorithm1(problem, penalty, engine, start=first, max_iter=max_iter, tol=tol)
            finish = min(finish, other, key=lambda end: end.objective)
    history = np.concatenate([passes.history, finish.history])
    return replace(finish, n_iter=len(history), history=history, solver="alternating")


def run_passes(
    problem: Problem, penalty: RowPenalty, engine: Engine, *, start=None, max_iter: int, tol: float,
    accelerate: bool = True,
):  # fmt: skip
    """The passes of Algorithm 1: A, the intercepts, and the objective after each pass."""
    passes = Passes(problem, penalty, engine, start=start, tol=tol, accelerate=accelerate)
    passes.run(max_iter, passes.early_goal)
    return *passes.bring_home(), np.array(passes.history)


class CommonPart:
    """The common part of the rows between passes at p = 2, with momentum.

    For given weights a pass is a gradient step in the common part m. In units of the weights the curvature
    lies between w and T + w, whatever the data, so Nesterov's momentum is known beforehand: plain steps
    leave a share `pooling` of an error in the worst case, these about 1 - sqrt(1 - pooling).
    """

    def __init__(self, design: Design, pooling: float, *, accelerate: bool):
        root = math.sqrt(1.0 - pooling)
        self.pooling, self.n_tasks = pooling, design.n_tasks
        self.momentum = (1.0 - root) / (1.0 + root) if accelerate else 0.0
        self.given, self.found = np.zeros((2, design.n_features))  # sent to the tasks, and their answer

    def norms(self, result: Reply) -> np.ndarray:
        """The centred norms of the rows."""
        return self._parts(result)[0]

    def move(self, result: Reply) -> bool:
        """Take the answer of a pass, and tell whether the next one goes beyond it."""
        before, self.found = self.found, self._parts(result)[1]
        self.given = self.found + self.momentum * (self.found - before)
        return self.momentum > 0.0

    def step_back(self) -> None:
        """Have the next pass begin at the last answer."""
        self.given = self.found

    def _parts(self, result: Reply) -> tuple[np.ndarray, np.ndarray]:
        assert result.sums is not None
        return euclidean_parts(result.norms, result.sums, self.pooling, self.n_tasks)


class Passes:
    """The passes of Algorithm 1, to be run until A moves no more than asked.

    With `accelerate`, early passes are inexact, rows that vanish are left out, and c leaps ahead of the
    passes. A pass from a leap counts only if the objective does not rise; else the next one is plain.
    Without, this is the algorithm as printed.
    """

    def __init__(
        self, problem: Problem, penalty: RowPenalty, engine: Engine, *, tol: float, start=None,
        intercept=None, accelerate: bool = True, report: Report | None = None,
        checkpoint: FitCheckpoint | None = None,
    ):  # fmt: skip
        self.problem, self.penalty = problem, penalty
        self.tol, self.report, self.checkpoint = tol, report, checkpoint
        self.placed = Placed.of(problem, engine)
        self.steps: WeightSteps | None = None
        if accelerate and not penalty.is_separable:
            self.steps = WeightSteps()
        self.common: CommonPart | None = None
        if penalty.is_centred:
            self.common = CommonPart(problem.design, penalty.pooling, accelerate=accelerate)
        self.history: list[float] = []
        self.size, self.change, self.leapt = 0.0, np.inf, False
        self.n_inexact = 0  # passes in which a task took too long to be solved as well as asked
        self.unrest = np.inf  # the last change of A; 0 where more passes would change nothing
        n_features = problem.design.n_features
        self.norms, self.effect = np.zeros((2, n_features))  # of the rows of the last A
        self._kept_at = 0, monotonic()
        if start is None or not np.any(start):  # from zero weights no feature would return
            self.weights = np.full(n_features, penalty.start_weight(), dtype=float)
            self.held: list = [None] * len(self.placed.shards)
        else:
            A = np.asarray(start, dtype=float)
            self.weights = penalty.weights(A)
            self.held = self.placed.hold(np.ascontiguousarray(A.T), intercept)
            if self.common is not None:
                self.common.found = self.common.given = penalty.common_part(A)
        known = None if checkpoint is None else checkpoint.passes(n_features, problem.design.n_tasks)
        if known is not None:
            self._take_up(known)

    @property
    def n_kept(self) -> int:
        """Number of features still there."""
        return int(np.count_nonzero(self.norms))

    @property
    def early_goal(self) -> float:
        """How still A must stand where row descent finishes the work."""
        by_rows = self.penalty.is_convex or self.penalty.is_centred
        return max(self.tol, _EARLY_TOL) if by_rows else self.tol

    def run(self, max_iter: int, goal: float) -> None:
        """Go on until A moves by no more than this share of its size, `max_iter` passes in all."""
        while len(self.history) < max_iter and self.unrest > goal and self.n_inexact < _MOST_INEXACT:
            self._pass()
            self._keep(is_last=self.unrest <= goal)

    def bring_home(self) -> tuple[np.ndarray, np.ndarray]:
        """A (n_features, n_tasks) and the intercepts."""
        held = self.placed.bring_home(self.held)
        assert held.intercept is not None  # a pass finds them
        return np.ascontiguousarray(held.A.T), held.intercept

    def judged(self, tol: float) -> Solution:
        """The solution where the passes ended, with its distance to stationarity."""
        problem, penalty, history = self.problem, self.penalty, np.array(self.history)
        A, intercept = self.bring_home()
        gradient, slope, loss = self.placed.judge(self.held)
        value = loss + penalty.value(A)
        violation = float(problem.row_violation(penalty, A, gradient).max(initial=0.0)) / problem.scale
        if problem.design.fit_intercept:
            violation = max(violation, slope)
        gap = penalty.dual_gap(value, gradient, lambda shrink: self.placed.dual(self.held, shrink))
        converged = violation <= tol and (gap is None or gap <= tol * problem.null_value)
        return Solution(A, intercept, value, violation, gap, len(history), history, converged, "alternating")

    def _pass(self) -> None:
        exact = _INNER * self.tol
        inner = exact if self.steps is None else max(exact, min(1e-3, _INEXACT * self.change))
        kept = np.flatnonzero(np.isfinite(self.weights)).astype(np.int32)
        common = None if self.common is None else self.common.given[kept]
        update = Update(kept, self.weights[kept], float(self.penalty.p), inner, common)
        held, result = self.placed.pass_over(self.held, update, len(self.history) + 1)
        self.n_inexact += not result.is_exact
        norms = result.norms if self.common is None else self.common.norms(result)
        value = float(result.losses.sum()) + self.penalty.value_at(norms)
        if self.leapt and value > self.history[-1]:
            self.history.append(self.history[-1])  # the pass is spent, and A stays where it was
            self.weights, self.leapt = self._next_weights(), False
            if self.steps is not None:
                self.steps.failed()
            if self.common is not None:
                self.common.step_back()
            self._tell(kept)
            return
        if self.history and value > (1.0 + _RISEN) * self.history[-1]:
            # tasks that were not solved well enough, or not well enough for floats
            self.history.append(self.history[-1])
            self.unrest, self.change = (0.0 if inner <= exact else self.unrest), 0.0
            self._tell(kept)
            return
        before = self.history[-1] if self.history else np.inf
        self.held, self.norms, self.effect = held, norms, result.effect
        self.history.append(value)
        self.size = max(self.size, result.largest)  # A may go to zero
        self.change = result.moved / self.size if self.size > 0.0 else 0.0
        stalled = abs(before - value) <= STALLED * self.problem.null_value and inner <= exact
        self.unrest = 0.0 if self.penalty.is_separable or stalled else self.change
        if self.steps is None:
            self.weights = self.penalty.weights_at(norms)
        else:
            got = self._next_weights()
            self.weights, self.leapt = self.steps.next(self.weights, got, self._sizes(got))
        if self.common is not None:
            self.leapt = self.common.move(result) or self.leapt
        self._tell(kept)

    def _next_weights(self) -> np.ndarray:
        """The weights of the next pass; inf for rows that say next to nothing in any task, in units of y."""
        effect = self.effect
        with np.errstate(divide="ignore"):
            weights = self.penalty.weights_at(self.norms)
        return np.where(effect > _GONE * effect.max(initial=0.0), weights, np.inf)

    def _sizes(self, weights: np.ndarray) -> np.ndarray:
        """Penalty of every row under these weights, as shares of the largest."""
        with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
            log = np.log(weights) + self.penalty.p * np.log(self.norms)
            return np.exp(log - log[np.isfinite(log)].max(initial=-np.inf))

    def _keep(self, *, is_last: bool) -> None:
        """Collect the coefficients from time to time, for the checkpoint.

        On a cluster it also bounds the number of passes that are repeated where a worker is lost.
        """
        done, since = self._kept_at
        n_passes, seconds = len(self.history) - done, monotonic() - since
        if self.checkpoint is not None:
            due = n_passes >= _KEEP_PASSES or seconds >= _KEEP_SECONDS or is_last
        else:
            due = n_passes >= _LONGEST_LINEAGE and not self.placed.engine.is_here
        if not due:
            return
        held = self.placed.bring_home(self.held)
        self.held = self.placed.hold(*held)
        if self.checkpoint is not None:
            self.checkpoint.keep_passes(self._state(held))
        self._kept_at = len(self.history), monotonic()

    def _state(self, held: Held) -> dict[str, np.ndarray]:
        assert held.intercept is not None
        places, *lengths = ([], 0.0, 0.0) if self.steps is None else self.steps.state
        numbers = [self.size, self.change, self.leapt, self.unrest, self.n_inexact, *lengths]
        common = [] if self.common is None else [self.common.given, self.common.found]
        return {
            "A": held.A,
            "common": np.array(common).reshape(len(common), len(self.weights)),
            "intercept": held.intercept,
            "weights": self.weights,
            "norms": self.norms,
            "effect": self.effect,
            "history": np.array(self.history),
            "numbers": np.array(numbers, dtype=float),
            "places": np.array(places).reshape(len(places), len(self.weights)),
        }

    def _take_up(self, known: dict[str, np.ndarray]) -> None:
        self.held = self.placed.hold(known["A"], known["intercept"])
        self.weights, self.norms, self.effect = known["weights"], known["norms"], known["effect"]
        self.history = known["history"].tolist()
        self.size, self.change, leapt, self.unrest, n_inexact, reach, last = known["numbers"].tolist()
        self.leapt, self.n_inexact = bool(leapt), int(n_inexact)
        if self.steps is not None:
            self.steps.state = list(known["places"]), reach, last
        if self.common is not None:
            self.common.given, self.common.found = known["common"]
        self._kept_at = len(self.history), monotonic()

    def _tell(self, kept: np.ndarray) -> None:
        if self.report is not None:
            self.report(len(self.history), self.history[-1], self.change, len(kept))


# -- extrapolation of the weights over passes ------------------------------------------------------------

_PAIRS = 8  # passes behind one leap of the weights
_LONGEST_LEAP = 4.0  # of the logarithm of a weight
_SHORTER, _LONGER = 0.5, 2.0  # a leap after one that failed, and after others
_LONGEST_SCALE = 16.0  # of a leap before its pairs correct it, in units of a pass
_LEAST_BEND = 1e-8  # of a pair that counts, as a share of what its lengths allow
_LARGEST_LOG = 500.0  # whose exponential is still a float


class WeightSteps:
    """Quasi-Newton steps (L-BFGS) of the passes, in the logarithm of the weights, so of c.

    With the best A for given weights w, the objective is a function of log w. To first order its gradient is
    w_j S_j, the size of a row's penalty, times the step that a pass makes: a pass is steepest descent in
    units of these sizes. Steps that point uphill to the memory of the last ones are left out of it, so that
    no leap turns back to the plateau that the passes are about to leave.
    """

    def __init__(self) -> None:
        self.places: list[np.ndarray] = []  # log weights given and the step of the pass; inf: gone
        self.reach, self.last = _LONGEST_LEAP, 0.0  # of the next leap, and length of the last one

    @property
    def state(self) -> tuple[list[np.ndarray], float, float]:
        """What a checkpoint keeps."""
        return [row for place in self.places for row in place], self.reach, self.last

    @state.setter
    def state(self, known: tuple[list[np.ndarray], float, float]) -> None:
        rows, self.reach, self.last = known
        self.places = [np.array(pair) for pair in zip(rows[::2], rows[1::2], strict=False)]

    def failed(self) -> None:
        """The last leap led uphill: the next one is shorter."""
        self.reach = _SHORTER * self.last

    def next(self, given: np.ndarray, got: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, bool]:
        """Weights for the next pass from the last one's and what it made of them; whether that is a leap."""
        kept = np.isfinite(given) & np.isfinite(got)
        place = np.full((2, len(given)), np.inf)
        place[:, kept] = np.log(given[kept]), np.log(got[kept]) - np.log(given[kept])
        self.places = [*self.places, place][-1 - _PAIRS :]
        if len(self.places) <= _PAIRS:  # early passes say little of where the later ones lead
            return got, False
        moves = [_move(*places, kept) for places in pairwise(self.places)]
        step = _two_loops(moves, place[1, kept], size[kept])
        if step is None:
            return got, False
        length = float(np.abs(step).max(initial=0.0))
        step *= min(1.0, self.reach / length) if length > 0.0 else 1.0
        self.last, self.reach = min(length, self.reach), min(_LONGER * self.reach, _LONGEST_LEAP)
        out = got.copy()
        out[kept] = np.exp(np.clip(place[0, kept] + step, -_LARGEST_LOG, _LARGEST_LOG))
        return out, True


def _move(one: np.ndarray, other: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """From one place to another: the move, and the change of the pass; 0 for a row that was gone."""
    with np.errstate(invalid="ignore"):
        out = other[:, kept] - one[:, kept]
    out[~np.isfinite(out)] = 0.0
    return out


def _two_loops(moves: list[np.ndarray], step: np.ndarray, size: np.ndarray) -> np.ndarray | None:
    """The L-BFGS step from past moves and the changes of the step along them; None if it is the plain one.

    All products are in units of `size`, and `step` is minus the slope in those units.
    """
    pairs, shares = [], []
    for move, change in moves:
        bend = -change
        product, length = float(size @ (move * bend)), float(size @ move**2) * float(size @ bend**2)
        if product > _LEAST_BEND * np.sqrt(length):
            pairs.append((move, bend, product))
    if not pairs:
        return None
    out = step
    for move, bend, product in reversed(pairs):
        shares.append(float(size @ (move * out)) / product)
        out = out - shares[-1] * bend
    out = out * min(max(1.0, pairs[-1][2] / float(size @ pairs[-1][1] ** 2)), _LONGEST_SCALE)
    for move, bend, product in pairs:
        out = out + (shares.pop() - float(size @ (bend * out)) / product) * move
    return out if float(size @ (out * step)) > 0.0 else None
