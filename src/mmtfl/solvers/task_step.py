"""Step 1 of Algorithm 1: one task's loss plus sum_j w_j |a_j|^p, by the means that fit its shape.

In the letters of the paper this is min over beta of L(beta, X diag(c)) + gamma1 ||beta||_p^p with
alpha = c * beta and w_j = gamma1 c_j^-p; docs/model.md section 4. With pooling, p = 2 and the penalty is
sum_j w_j (a_j - m_j)^2 about a common part m that the pass holds; section 10.
"""

import math
import threading
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from mmtfl.core import columns
from mmtfl.core.columns import CONSTANT
from mmtfl.objective.design import FEW_ROWS, MANY_TASKS, Design
from mmtfl.objective.losses import Logistic, Loss, Squared
from mmtfl.objective.losses.by_rows import TaskLoss
from mmtfl.objective.penalties import RowPower
from mmtfl.objective.problem import Problem
from mmtfl.solvers.row_descent import RowDescent, Settled
from mmtfl.solvers.solution import Solution
from mmtfl.tasks.container import Tasks

MOST_STEPS = 50  # of Newton's method, or passes of a descent
_LEAST_SLOPE = 1e-6  # of a start, in units of the steepest at zero: an accuracy beyond it needs no more
LEAST_WEIGHT = 1e-200  # next to none, and its inverse can be multiplied
_LEAST_BEND = 1e-14  # of a row, in units of the bound on it: more shortens steps where classes are certain
_FEW = 256  # features that are all worked on; of more, those that matter are looked for


class TaskAnswer(NamedTuple):
    """A task's coefficients, intercept and part of the loss, and if they are exact."""

    a: np.ndarray
    intercept: float
    loss: float
    is_exact: bool = True


class TaskStep:
    """One task (a design with T = 1), kept between the passes of Algorithm 1 with what it has cached.

    An answer depends on the data, the weights, the tolerance and the last answer alone. What is cached saves
    time and changes no bit: a task may be taken up anywhere, by anyone who has its last answer.
    """

    def __init__(self, design: Design, loss: TaskLoss):
        self.design, self.problem = design, Problem(design, loss)
        self.loss = self.problem.loss
        self._descent: RowDescent | None = None

    def minimise(
        self,
        weights: np.ndarray,
        p: float,
        tol: float,
        last: Any = None,
        common: np.ndarray | None = None,
    ) -> TaskAnswer:
        """Solve for the weights of this pass, from the last coefficients and intercept, if it is known.

        It is about a common part only at p = 2.
        """
        if p != 2.0:
            return self._by_coordinates(RowPower(p, weights, np.inf), tol, last)
        common = np.zeros(len(weights)) if common is None else common
        if not self.loss.is_quadratic:
            return self._by_newton(weights, tol, last, common)
        is_wide = self.design.n_features > len(self.design.y)
        if is_wide or sparse.issparse(self.design.tasks.X):
            return self._by_rows(weights, common)
        return self._by_gram(weights, common)

    @cached_property
    def spread(self) -> np.ndarray:
        """What a coefficient of one moves the predictions by, for every feature."""
        return np.sqrt(self.design.curvature[:, 0])

    # p != 2: coordinate descent on the features that matter (one task, so rows are single coefficients)

    def _by_coordinates(self, penalty: RowPower, tol: float, last: Any) -> TaskAnswer:
        weights = np.asarray(penalty.alpha)
        start = None if last is None else np.where(np.isinf(weights), 0.0, last[0])[:, None]
        intercept = None if last is None or last[1] is None else np.array([last[1]])
        kept = np.flatnonzero(np.isfinite(weights))
        found: Settled | Solution
        if kept.size <= _FEW:
            found = self._descent_over(kept).settle(penalty, start, intercept, tol=tol)
        else:
            found = RowDescent(self.problem).solve(penalty, start, intercept, max_iter=MOST_STEPS, tol=tol)
        loss = found.objective - penalty.value(found.A)
        return TaskAnswer(found.A[:, 0], float(found.intercept[0]), loss, found.converged)

    def _descent_over(self, kept: np.ndarray) -> RowDescent:
        """A descent that has gathered these features, or all where all are few."""
        wanted = np.arange(self.design.n_features) if self.design.n_features <= _FEW else kept
        if self._descent is None or not np.array_equal(self._descent.working_set.features, wanted):
            self._descent = RowDescent(self.problem)
            self._descent.working_set.add(wanted)
        return self._descent

    # p = 2: weighted ridge, in beta = a / s with s_j = w_j^-1/2, so that no weight is large

    def _by_gram(self, weights: np.ndarray, common: np.ndarray) -> TaskAnswer:
        """One Gram matrix of all features serves every pass: that of a part may differ in its last bits."""
        design, y, row_weight = self.design, self.design.y, self.design.row_weight
        (kept, scale), root = _kept(weights), np.sqrt(row_weight)
        every, means, gram = self._centred
        x, scale, a = _rows(every, kept), scale[kept], np.zeros(design.n_features)
        centre = float(row_weight @ y / row_weight.sum()) if design.fit_intercept else 0.0
        target = root * (y - centre) - common[kept] @ x  # the ridge is on what is beside the common part
        inner = gram[np.ix_(kept, kept)] * scale[:, None] * scale
        a[kept] = common[kept] + scale * solve_shifted(inner, 2.0, scale * (x @ target))
        z = (a[kept] @ x) / root + centre
        return TaskAnswer(a, centre - float(means @ a), self.loss.value(y, z, row_weight))

    @cached_property
    def _centred(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The columns, centred and weighted, their means and their Gram matrix."""
        design, weight = self.design, self.design.row_weight
        x = np.empty((design.n_features, len(design.y)))
        design.gather(np.arange(design.n_features), x, expand=True)
        means, _ = columns.centre(x, design.offsets, weight, np.sqrt(weight), design.fit_intercept)
        return x, means[:, 0], x @ x.T

    def _by_rows(self, weights: np.ndarray, common: np.ndarray) -> TaskAnswer:
        """The same where features are more than rows, or sparse: nothing is kept for the next pass."""
        y, row_weight, (kept, scale) = self.design.y, self.design.row_weight, _kept(weights)
        gathered, a = columns_of(self.design, kept), np.zeros(self.design.n_features)
        centre = float(row_weight @ y / row_weight.sum()) if self.design.fit_intercept else 0.0
        a[kept], means = gathered.ridge(row_weight, y - centre, scale[kept], common[kept])
        intercept = centre - float(means @ a[kept])
        return TaskAnswer(a, intercept, self.loss.value(y, gathered.X @ a[kept] + intercept, row_weight))

    def _by_newton(self, weights: np.ndarray, tol: float, last: Any, common: np.ndarray) -> TaskAnswer:
        """Newton with backtracking on a, b jointly; every step is a weighted ridge."""
        design, loss, y, row_weight = self.design, self.loss, self.design.y, self.design.row_weight
        kept, scale = _kept(weights)
        ridge, middle = weights[kept], common[kept]
        gathered = columns_of(design, kept)
        X = gathered.X
        a, b = (np.zeros(kept.size), None) if last is None else (last[0][kept], last[1])
        b = float(self.problem.null_intercept[0] if b is None else b)
        z = X @ a + b
        value = loss.value(y, z, row_weight) + float(ridge @ (a - middle) ** 2)
        goal = None
        for _ in range(MOST_STEPS):
            slope_z = loss.gradient(y, z, row_weight)
            gradient = X.T @ slope_z + 2.0 * ridge * (a - middle)
            size = float(np.abs(gradient).max(initial=abs(slope_z.sum()) if design.fit_intercept else 0.0))
            goal = tol * max(size, _LEAST_SLOPE * self.problem.scale) if goal is None else goal
            if size <= goal:
                break
            least = _LEAST_BEND * self.problem.loss_curvature[0] * row_weight
            h = np.maximum(loss.hessian(y, z, row_weight), least)
            response = z - slope_z / h
            centre = float(h @ response / h.sum()) if design.fit_intercept else 0.0
            new_a, means = gathered.ridge(h, response - centre, scale[kept], middle)
            change_a, change_b = new_a - a, centre - float(means @ new_a) - b
            if not design.fit_intercept:
                change_b = 0.0
            change_z = X @ change_a + change_b
            step = 1.0
            while step > 1e-6:
                trial_a, trial_z = a + step * change_a, z + step * change_z
                trial = loss.value(y, trial_z, row_weight) + float(ridge @ (trial_a - middle) ** 2)
                if trial <= value:
                    break
                step *= 0.5
            else:
                break
            stalled = value - trial <= 1e-16 * abs(value)
            a, b, z, value = trial_a, b + step * change_b, trial_z, trial
            if stalled:
                break
        full = np.zeros(design.n_features)
        full[kept] = a
        # not the z of many small steps, which is next to that of a
        return TaskAnswer(full, float(b), loss.value(y, X @ a + b, row_weight))


def _kept(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features with finite weight, and the scale w^-1/2 of every feature (0 where it is gone)."""
    scale = 1.0 / np.sqrt(np.maximum(weights, LEAST_WEIGHT))
    return np.flatnonzero(scale > 0.0), scale


def _rows(x: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Some rows of x in order; x itself if they are all of them."""
    return x if len(place) == len(x) else x[place]


# -- weighted ridge on columns of one task, dense or sparse: the case p = 2 ----------------------------------


def columns_of(design: Design, kept: np.ndarray) -> "DenseColumns | SparseColumns":
    """Some columns of a task, sparse where they are stored so."""
    return (SparseColumns if sparse.issparse(design.tasks.X) else DenseColumns)(design, kept)


class DenseColumns:
    """Columns as the matrix X (n_rows, n_kept), good until the next are gathered in this thread."""

    def __init__(self, design: Design, kept: np.ndarray):
        self.design = design
        by_column, self._centred = _blocks(2, kept.size, len(design.y))
        design.gather(kept, by_column, expand=True)
        self.X = by_column.T

    def ridge(
        self, weight: np.ndarray, target: np.ndarray, scale: np.ndarray, common: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """argmin over a of 1/2 sum_i weight_i (target_i - x_i a)^2 + ||(a - common) / scale||^2.

        The columns are centred by the weights where there is an intercept; their means are returned too.
        """
        design, x, root = self.design, self._centred, np.sqrt(weight)
        np.copyto(x, self.X.T)
        means, _ = columns.centre(x, design.offsets, weight, root, design.fit_intercept)
        target = root * target - common @ x
        x *= scale[:, None]
        return common + scale * least_norm_ridge(x, target), means[:, 0]


class SparseColumns:
    """Columns as a sparse X (n_rows, n_kept): what is made of them has the size of their rows or of them."""

    def __init__(self, design: Design, kept: np.ndarray):
        X: Any = design.tasks.X if design.tasks.rows is None else design.tasks.X[design.tasks.rows]
        self.fit_intercept = design.fit_intercept
        self.X = sparse.csr_array(X[:, kept].multiply(design.inverse_scale[kept]), dtype=float)
        self._varies = design.curvature[kept, 0] > 0.0

    def ridge(
        self, weight: np.ndarray, target: np.ndarray, scale: np.ndarray, common: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same, from products of sparse matrices that are centred afterwards."""
        X, root = self.X, np.sqrt(weight)
        scale = np.where(self._varies, scale, 0.0)
        means = X.T @ weight / weight.sum() if self.fit_intercept else np.zeros(X.shape[1])
        target = target - (X @ common - means @ common)
        V, level = X.multiply(scale).tocsr(), scale * means
        if X.shape[0] < X.shape[1]:
            inner = _centre_both_sides((V @ V.T).toarray(), weight, self.fit_intercept) * root[:, None] * root
            row = root * solve_shifted(inner, 2.0, root * target)
        else:
            inner = (V.T @ V.multiply(weight[:, None]).tocsr()).toarray()
            inner -= weight.sum() * np.outer(level, level)
            row = weight * target
        beta = V.T @ row - level * row.sum()
        beta = beta if X.shape[0] < X.shape[1] else solve_shifted(inner, 2.0, beta)
        return common + scale * beta, means


def _centre_both_sides(K: np.ndarray, weight: np.ndarray, fit_intercept: bool) -> np.ndarray:
    """Inner products of rows, of which the weighted mean of the rows is taken off."""
    if not fit_intercept:
        return K
    share = weight / weight.sum()
    with_mean = K @ share
    K -= with_mean[:, None]
    K -= with_mean - with_mean @ share
    return K


def least_norm_ridge(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """argmin over a of 1/2 ||y - x.T a||^2 + ||a||^2, in the smaller of two spaces."""
    if x.shape[0] <= x.shape[1]:
        return solve_shifted(x @ x.T, 2.0, x @ y)
    return x @ solve_shifted(x.T @ x, 2.0, y)


def solve_shifted(H: np.ndarray, shift: float, v: np.ndarray) -> np.ndarray:
    """(H + shift I)^-1 v for a positive semidefinite H; the diagonal of H is changed."""
    H.flat[:: len(H) + 1] += shift
    try:
        return linalg.cho_solve(linalg.cho_factor(H, lower=True, check_finite=False), v, check_finite=False)
    except linalg.LinAlgError:
        # entries so far above the shift that rounding made H indefinite: the least-norm answer is the limit
        return np.linalg.lstsq(H, v, rcond=None)[0]


_room = threading.local()


def _blocks(n: int, *shape: int) -> np.ndarray:
    """Arrays to work in until the next call, whatever is in them.

    Large arrays that come and go can cost as much as the work on them: under Dask's settings the system
    takes their memory back every time.
    """
    size = n * math.prod(shape)
    if getattr(_room, "block", np.empty(0)).size < size:
        _room.block = np.empty(size)
    return _room.block[:size].reshape(n, *shape)


# -- many small tasks, solved in one call of the compiled core -------------------------------------------

_MOSTLY = 0.9  # share of the tasks that are small
_LEAST_ENTRY = 1e-60  # weights below this, in units of their mean, are left to `Design`
_MAX_SWEEPS = 2_000  # of one task
_FINEST = 1e-10  # slope of a task, in units of the steepest at zero, below which it stands still


Last = tuple[np.ndarray, np.ndarray | None] | None  # the last coefficients of the tasks, and intercepts


class SmallAnswers(NamedTuple):
    """Coefficients (n_members, n_features), intercepts, losses (nan: not solved), and if all are exact."""

    A: np.ndarray
    intercept: np.ndarray
    losses: np.ndarray
    is_exact: bool


class SmallTasks:
    """The tasks of a shard that have few rows, ready to be solved for any weights of the features.

    Parameters
    ----------
    tasks : Tasks
        The tasks of the shard, without far levels and with targets in the units wanted.
    loss : Loss
        The squared or the logistic loss.
    options
        Of their `Design`.
    """

    def __init__(self, tasks: Tasks, loss: Loss, **options: Any):
        from mmtfl.core.losses import LogisticLoss, SquaredLoss
        from mmtfl.core.task_steps import TaskSteps

        is_small = are_small(tasks, options["mean_size"])
        self.members = np.flatnonzero(is_small)
        design = Design(tasks.select(np.repeat(is_small, tasks.sizes)), **options)
        problem = Problem(design, loss)
        self.spread, self._null = np.sqrt(design.curvature.T), problem.null_intercept
        largest = np.abs(problem.null_gradient).max(axis=0, initial=0.0)
        self._steepest = np.where(largest > 0.0, largest, 1.0)
        x = np.ascontiguousarray(design.columns(np.arange(design.n_features), expand=True))
        kind = SquaredLoss if loss.is_quadratic else LogisticLoss
        compiled = kind(design.y, design.row_weight)
        self._steps = TaskSteps(x, design.offsets, compiled, design.fit_intercept, CONSTANT)

    def solve(
        self, weights: np.ndarray, p: float, tol: float, last: Last, common: np.ndarray | None
    ) -> SmallAnswers:
        """The least loss plus sum_j w_j |a_j|^p of every task; see `TaskStep.minimise`."""
        kept = np.flatnonzero(np.isfinite(weights))
        A, intercept = np.zeros((len(self.members), len(weights))), self._null.copy()
        if last is not None:
            A[:, kept] = last[0][:, kept]
            intercept = intercept if last[1] is None else last[1].copy()
        penalty = RowPower(p, np.maximum(weights[kept], LEAST_WEIGHT), np.inf)
        common = np.zeros(len(kept)) if common is None else common[kept]
        losses, is_exact = self._steps.solve(
            penalty.row_problem(), penalty.row_numbers(len(kept)), kept, is_ridge=p == 2.0, common=common,
            goal=tol * self._steepest, finest=_FINEST * self._steepest, A=A, intercept=intercept,
            max_steps=MOST_STEPS, max_sweeps=_MAX_SWEEPS,
        )  # fmt: skip
        return SmallAnswers(A, intercept, losses, is_exact)


def are_solved_together(loss: TaskLoss) -> bool:
    """Whether tasks of few rows are solved together for this loss."""
    return loss.is_quadratic or loss == Logistic()


def small_tasks(tasks: Tasks, loss: TaskLoss, **options) -> SmallTasks | None:
    """The tasks of few rows, if there are any and such tasks are solved together for their loss."""
    if not are_solved_together(loss) or not are_small(tasks, options["mean_size"]).any():
        return None
    return SmallTasks(tasks, Squared() if loss.is_quadratic else Logistic(), **options)


def are_small(tasks: Tasks, mean_size: float) -> np.ndarray:
    """Which tasks are solved here: those of few dense rows, none of which weighs next to nothing."""
    if sparse.issparse(tasks.X) or tasks.rows is not None or tasks.known is not None:
        return np.zeros(tasks.n_tasks, dtype=bool)
    is_small = tasks.sizes <= FEW_ROWS
    if tasks.weights is not None:
        is_small &= np.minimum.reduceat(tasks.weights, tasks.offsets[:-1]) > _LEAST_ENTRY * mean_size
    return is_small


def has_many_small_tasks(problem: Problem) -> bool:
    """Whether a pass of Algorithm 1, which solves every task, costs no more than a sweep of rows."""
    design = problem.design
    if design.n_tasks <= MANY_TASKS or not are_solved_together(problem.loss):
        return False
    if design.placed is not None:  # rows of files are dense
        return bool(np.mean(np.diff(design.offsets) <= FEW_ROWS) > _MOSTLY)
    return bool(np.mean(are_small(design.tasks, design.mean_size)) > _MOSTLY)
