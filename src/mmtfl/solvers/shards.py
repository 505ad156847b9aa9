"""What is done where the data are: the tasks of one place, and the questions that are put to them.

A shard is a run of tasks in one memory. Its functions change nothing that counts and return small arrays, so
an engine may run them in this process or in another one, and again elsewhere if a machine is lost.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from mmtfl.engines.threads import one_blas_thread
from mmtfl.objective.design import Design
from mmtfl.objective.losses.by_rows import TaskLoss, check_targets
from mmtfl.objective.units import column_levels, target_levels, without_levels
from mmtfl.solvers.task_step import SmallTasks, TaskStep, small_tasks
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.grouping import some_tasks, split_rows
from mmtfl.tasks.scaling import could_use

if TYPE_CHECKING:
    from mmtfl.tasks.stored import StoredPart


@dataclass(frozen=True)
class Spec:
    """How the tasks are to be seen: the same for all of them, and known once all were counted."""

    loss: TaskLoss
    fit_intercept: bool
    mean_size: float
    column_scale: np.ndarray | None
    target_scale: np.ndarray | None  # of all tasks; None: targets are in the units wanted
    name: str  # of these settings, for those who keep what they made of them
    is_levelled: bool = False  # whether far levels are taken off, where they are read

    @property
    def design_options(self) -> dict[str, Any]:
        """The options of a `Design`."""
        names = ("column_scale", "fit_intercept", "mean_size")
        return {name: getattr(self, name) for name in names}


class Shard:
    """The tasks of one place, and what has been made of them so far; `first` is the position of the first."""

    def __init__(self, tasks: Tasks, first: int):
        self.tasks, self.first = tasks, first
        self._made: tuple[str, list[TaskStep]] | None = None
        self._small: tuple[str, SmallTasks | None] | None = None

    @classmethod
    def cut(cls, tasks: Tasks, cuts: np.ndarray) -> list["Shard"]:
        """Runs of tasks between the cuts."""
        if len(cuts) == 2:
            return [cls(tasks, 0)]
        return [cls(some_tasks(tasks, lo, hi), int(lo)) for lo, hi in pairwise(cuts)]

    def read(self) -> Tasks:
        """The tasks, which are in memory already."""
        return self.tasks

    def steps(self, spec: Spec) -> list[TaskStep]:
        """Every task as step 1 of Algorithm 1 sees it."""
        if self._made is None or self._made[0] != spec.name:
            check_targets(spec.loss, self.tasks, fit_intercept=spec.fit_intercept)
            self._made = spec.name, [TaskStep(d, spec.loss) for d in self._designs(spec)]
        return self._made[1]

    def small_tasks(self, spec: Spec) -> SmallTasks | None:
        """The tasks of few rows, as step 1 of Algorithm 1 sees them."""
        if self._small is None or self._small[0] != spec.name:
            check_targets(spec.loss, self.tasks, fit_intercept=spec.fit_intercept)
            tasks = without_levels(self.tasks, *self._levels(spec))
            if spec.target_scale is not None:
                own = spec.target_scale[self.first : self.first + tasks.n_tasks]
                tasks = replace(tasks, y=tasks.y / np.repeat(own, tasks.sizes))
            self._small = spec.name, small_tasks(tasks, spec.loss, **spec.design_options)
        return self._small[1]

    def levels(self, spec: Spec) -> tuple[np.ndarray, np.ndarray]:
        """What is taken off columns and targets, (n_tasks, n_features) and (n_tasks,), in their own units."""
        columns, targets = self._levels(spec)
        shape = self.tasks.n_tasks, self.tasks.n_features
        columns = np.zeros(shape) if columns is None else columns
        return columns, np.zeros(shape[0]) if targets is None else targets

    def _levels(self, spec: Spec) -> tuple[np.ndarray | None, np.ndarray | None]:
        tasks = self.tasks
        if not (spec.is_levelled and spec.fit_intercept):
            return None, None
        return column_levels(tasks), (target_levels(tasks, each=True) if spec.loss.is_quadratic else None)

    def _designs(self, spec: Spec) -> list[Design]:
        tasks = without_levels(self.tasks, *self._levels(spec))
        shared = tasks.rows is not None
        parts = [tasks.X] * tasks.n_tasks if shared else split_rows(tasks.X, tasks.offsets)
        alone = [some_tasks(tasks, t, t + 1, X) for t, X in enumerate(parts)]
        if spec.target_scale is not None:
            own = spec.target_scale[self.first :]
            alone = [replace(task, y=task.y / own[t]) for t, task in enumerate(alone)]
        return [Design(task, **spec.design_options) for task in alone]

    def __getstate__(self) -> dict[str, Any]:
        # moved to another machine: what was made of the data is cheaper to make again
        return {"tasks": self.tasks, "first": self.first, "_made": None, "_small": None}


def load_shard(source: "Shard | StoredPart") -> Shard:
    """Bring the tasks of a source into this memory."""
    return Shard(in_order(source.read()), source.first)


def in_order(tasks: Tasks) -> Tasks:
    """The tasks in arrays that are aligned and stored by rows.

    Arrays that have travelled may be neither, which is slower and gives other last bits.
    """
    X: Any = tasks.X
    if sparse.issparse(X):
        parts = [_plain(part) for part in (X.data, X.indices, X.indptr)]
        if any(new is not old for new, old in zip(parts, (X.data, X.indices, X.indptr), strict=True)):
            X = type(X)(tuple(parts), shape=X.shape)
    else:
        X = _plain(X)
    weights, known = (None if part is None else _plain(part) for part in (tasks.weights, tasks.known))
    return replace(tasks, X=X, y=_plain(tasks.y), weights=weights, known=known)


def _plain(array: np.ndarray) -> np.ndarray:
    return np.require(array, requirements=["C", "A"])


# -- a pass of Algorithm 1 ---------------------------------------------------------------------------------


class Held(NamedTuple):
    """Coefficients (n_tasks, n_features) and intercepts of a shard's tasks; None: not known yet."""

    A: np.ndarray
    intercept: np.ndarray | None

    def of(self, tasks: Any) -> "Held":
        """Those of some tasks, or of one."""
        return Held(self.A[tasks], None if self.intercept is None else self.intercept[tasks])


class Update(NamedTuple):
    """What goes out at a pass: the features still there, their weights, the norm, and how exact to be.

    With pooling also their common part.
    """

    kept: np.ndarray
    weights: np.ndarray
    p: float
    tol: float
    common: np.ndarray | None = None


class Reply(NamedTuple):
    """What comes back: numbers per task, per feature still there, and a few of the whole shard."""

    losses: np.ndarray  # (n_tasks,)
    lengths: list[int]  # tasks of each subtree
    norms: np.ndarray  # (n_subtrees, n_kept), see `row_sums`
    effect: np.ndarray  # (n_kept,): the largest over tasks of |a_j| times the spread of the feature
    largest: float
    moved: float
    sums: np.ndarray | None  # (n_subtrees, n_kept): with pooling, of the coefficients
    is_exact: bool  # whether all tasks are solved as well as asked


def run_pass(shard: Shard, spec: Spec, before: tuple[Held, Any] | None, update: Update) -> tuple[Held, Reply]:
    """Step 1 of Algorithm 1 in every task, from where the tasks were before."""
    n_tasks, n_features = shard.tasks.n_tasks, shard.tasks.n_features
    held = None if before is None else before[0]
    weights = np.full(n_features, np.inf)
    weights[update.kept] = update.weights
    common = None
    if update.common is not None:
        common = np.zeros(n_features)
        common[update.kept] = update.common
    A, intercept, losses = np.zeros((n_tasks, n_features)), np.zeros(n_tasks), np.full(n_tasks, np.nan)
    effect, is_exact = np.zeros(len(update.kept)), True
    with one_blas_thread():
        small = shard.small_tasks(spec)
        if small is not None:
            last = None if held is None else held.of(small.members)
            answers = small.solve(weights, update.p, update.tol, last, common)
            A[small.members], intercept[small.members], losses[small.members], is_exact = answers
            effect = np.abs(A[small.members] * small.spread)[:, update.kept].max(axis=0, initial=0.0)
        for t in np.flatnonzero(np.isnan(losses)).tolist():
            step = shard.steps(spec)[t]
            last = None if held is None else held.of(t)
            found = step.minimise(weights, update.p, update.tol, last, common)
            A[t], intercept[t], losses[t] = found.a, found.intercept, found.loss
            size = np.abs(found.a[update.kept]) * step.spread[update.kept]
            np.maximum(effect, size, out=effect)
            is_exact = is_exact and found.is_exact
    previous = 0.0 if held is None else held.A
    lengths, norms = partial_norms(np.abs(A[:, update.kept]), shard.first, update.p)
    # the 1-norm of numbers that keep their signs is their sum
    sums = None if common is None else partial_norms(A[:, update.kept], shard.first, 1.0)[1]
    moved = float(np.abs(A - previous).max(initial=0.0))
    reply = Reply(losses, lengths, norms, effect, float(np.abs(A).max(initial=0.0)), moved, sums, is_exact)
    return Held(A, intercept), reply


def reply_of(pair: tuple[Held, Reply]) -> Reply:
    """What is sent of a pass."""
    return pair[1]


def held_by(pair: tuple[Held, Reply]) -> Held:
    """What stays of a pass, brought home at the end."""
    return pair[0]


def as_is(source: Any) -> Any:
    """Identity loader: what is in memory already."""
    return source


# -- questions about the rows, asked before the passes of Algorithm 1 and after them ----------------------


class Null(NamedTuple):
    """Numbers per task at A = 0: intercepts, losses (with and without them), and the largest slope and y.

    And whether levels were taken off.
    """

    intercept: np.ndarray
    loss: np.ndarray
    bare_loss: np.ndarray
    steepest: np.ndarray
    largest_y: np.ndarray
    is_far: np.ndarray


def null(shard: Shard, spec: Spec) -> Null:
    """What is known of every task before any feature is used."""
    found, (columns, targets) = [], shard.levels(spec)
    is_far = columns.any(axis=1) | (targets != 0.0)
    with one_blas_thread():
        for step, far in zip(shard.steps(spec), is_far, strict=True):
            problem, y = step.problem, step.design.y
            bare, largest = problem.loss_value(np.zeros_like(y)), np.abs(y).max(initial=0.0)
            at_zero = problem.null_intercept[0], problem.null_value, bare, problem.steepest
            found.append((*at_zero, largest, far))
    return Null(*(np.array(column, dtype=float) for column in zip(*found, strict=True)))


class Rows(NamedTuple):
    """Targets and weights of a shard's rows, and how many each task has."""

    y: np.ndarray
    row_weight: np.ndarray
    lengths: np.ndarray


def rows(shard: Shard, spec: Spec) -> Rows:
    """Everything about the rows but their features."""
    designs = [step.design for step in shard.steps(spec)]
    return Rows(
        np.concatenate([design.y for design in designs]),
        np.concatenate([design.row_weight for design in designs]),
        np.array([len(design.y) for design in designs]),
    )


def correlate(shard: Shard, spec: Spec, v: np.ndarray) -> np.ndarray:
    """X_t.T @ v_t of every task, as (n_tasks, n_features)."""
    out, done = [], 0
    with one_blas_thread():
        for step in shard.steps(spec):
            n_rows = len(step.design.y)
            out.append(step.design.correlate(v[done : done + n_rows])[:, 0])
            done += n_rows
    return np.array(out)


def curvature(shard: Shard, spec: Spec) -> np.ndarray:
    """Weighted square sum of every column in every task, as (n_tasks, n_features)."""
    return np.array([step.design.curvature[:, 0] for step in shard.steps(spec)])


def gather(shard: Shard, spec: Spec, index: np.ndarray) -> np.ndarray:
    """Some columns, a row of the result each, over the rows of all tasks of the shard."""
    blocks = [step.design.columns(index, expand=True) for step in shard.steps(spec)]
    return np.ascontiguousarray(np.concatenate(blocks).T)


class Judged(NamedTuple):
    """At given coefficients: slopes (n_tasks, n_features), slopes of the intercepts, and losses."""

    gradient: np.ndarray
    intercept_slope: np.ndarray
    loss: np.ndarray


def judge(shard: Shard, spec: Spec, pair: tuple) -> Judged:
    """Slopes and losses at the coefficients that the shard holds."""
    found = []
    with one_blas_thread():
        for step, z in zip(shard.steps(spec), _predictors(shard, spec, pair[0]), strict=True):
            slope = step.problem.loss_gradient(z)
            found.append((step.design.correlate(slope)[:, 0], slope.sum(), step.problem.loss_value(z)))
    return Judged(*(np.array(column) for column in zip(*found, strict=True)))


def dual(shard: Shard, spec: Spec, pair: tuple, shrink: float) -> np.ndarray:
    """Dual value of every task at `shrink` times the dual point of its coefficients; eq. (9)."""
    pairs = zip(shard.steps(spec), _predictors(shard, spec, pair[0]), strict=True)
    return np.array([step.loss.dual(step.design.y, z, step.design.row_weight, shrink) for step, z in pairs])


def _predictors(shard: Shard, spec: Spec, held: Held) -> Iterator[np.ndarray]:
    """The linear predictor of every task."""
    assert held.intercept is not None
    for step, a, b in zip(shard.steps(spec), held.A, held.intercept, strict=True):
        yield step.problem.predict(a[:, None], np.array([b]))


class ColumnMoments(NamedTuple):
    """Weight (n_tasks,), means and centred square sums (n_tasks, n_features + 1), the target last.

    And which tasks could use which features, (n_tasks, n_features).
    """

    weight: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    could_use: np.ndarray


def column_moments(shard: Shard, spec: Spec) -> ColumnMoments:
    """How wide the columns of every task are, in the units of the files."""
    found = []
    for view in shard.tasks:
        Z = np.column_stack([view.X, view.y])
        w = np.ones(len(view.y)) if view.weights is None else view.weights
        centre = Z[np.argmax(w > 0.0)]  # the sums of a constant column are zeros then
        rest = w @ (Z - centre) / w.sum()
        found.append((w.sum(), centre + rest, w @ (Z - centre - rest) ** 2))
    weight, mean, squares = (np.array(column) for column in zip(*found, strict=True))
    possible = could_use(shard.tasks, fit_intercept=spec.fit_intercept)
    return ColumnMoments(weight, mean, squares, possible)


def levels(shard: Shard, spec: Spec) -> tuple[np.ndarray, np.ndarray]:
    """What is taken off columns and targets, task by task."""
    return shard.levels(spec)


def column_maxima(shard: Shard, spec: Spec) -> np.ndarray:
    """The largest entry of every column, in the units of the files."""
    return np.abs(shard.tasks.X).max(axis=0, initial=0.0)


# -- sums over tasks in an order that does not depend on the shards ------------------------------------------
# Sums of floats depend on their order. Here the order is one binary tree over the positions of the tasks: a
# place joins the tasks that it holds as far as the tree allows, sends those few partial norms, and the tree
# is finished where they meet.


def join(one: np.ndarray, other: np.ndarray, p: float) -> np.ndarray:
    """p-norms of rows from the p-norms of their two parts, without overflow."""
    if p == 1.0:
        return one + other
    if p == 2.0:
        return np.hypot(one, other)
    large, small = np.maximum(one, other), np.minimum(one, other)
    if math.isinf(p):
        return large
    share = np.divide(small, large, out=np.zeros_like(large), where=large > 0.0)
    return large * (1.0 + share**p) ** (1.0 / p)


def partial_norms(sizes: np.ndarray, first: int, p: float) -> tuple[list[int], np.ndarray]:
    """Norms over the largest subtrees of a run of tasks.

    Parameters
    ----------
    sizes : ndarray (n_tasks, n_rows)
        Absolute values of the tasks' coefficients.
    first : int
        Position of the first of them among all tasks.
    p : float
        The norm.

    Returns
    -------
    lengths, norms : list of int, ndarray (n_subtrees, n_rows)
        How many tasks each subtree has, and its norms.
    """
    lengths, norms, place, last = [], [], first, first + len(sizes)
    while place < last:
        length = place & -place or 1 << (last - place).bit_length()  # the subtrees that begin here
        while place + length > last:
            length //= 2
        part = sizes[place - first : place - first + length]
        while len(part) > 1:
            part = join(part[0::2], part[1::2], p)
        lengths.append(length)
        norms.append(part[0])
        place += length
    return lengths, np.array(norms)


def total_norms(parts: list[tuple[list[int], np.ndarray]], p: float) -> np.ndarray:
    """Norms over all tasks from the partial ones of every place, in the order of the tasks."""
    waiting: list[tuple[int, int, np.ndarray]] = []  # subtrees not joined yet: where, length, norms
    place = 0
    for lengths, norms in parts:
        for length, norm in zip(lengths, norms, strict=True):
            begin, place = place, place + length
            while waiting and waiting[-1][1] == length and begin % (2 * length) == length:
                begin, _, left = waiting.pop()
                norm, length = join(left, norm, p), 2 * length
            waiting.append((begin, length, norm))
    total = waiting.pop()[2]
    while waiting:
        total = join(waiting.pop()[2], total, p)
    return total


def split_evenly(costs: np.ndarray, n_parts: int) -> np.ndarray:
    """Where to cut a run of tasks into parts of about equal cost, at borders of subtrees if tasks are many.

    Examples
    --------
    >>> import numpy as np
    >>> split_evenly(np.ones(10), 3).tolist()
    [0, 3, 7, 10]
    """
    n_tasks = len(costs)
    n_parts = min(n_parts, n_tasks)
    grain = 1 << max(0, (n_tasks // (16 * n_parts)).bit_length() - 1)
    reached = np.concatenate([[0.0], np.cumsum(costs, dtype=float)])
    goals = reached[-1] * np.arange(1, n_parts) / n_parts
    after = np.searchsorted(reached, goals)
    nearest = after - (goals - reached[after - 1] < reached[after] - goals)
    cuts = grain * np.round(nearest / grain).astype(int)
    # every part has a task, however uneven the costs
    cuts = np.maximum.accumulate(np.maximum(cuts, 1))
    return np.unique(np.concatenate([[0], np.minimum(cuts, n_tasks), [n_tasks]]))
