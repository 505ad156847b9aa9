"""What is done where the data are: the tasks of one place, and the questions that are put to them.

A shard is a run of tasks in one memory. Its functions change nothing that counts and return small arrays, so
an engine may run them in this process or in another one, and again elsewhere if a machine is lost.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse

from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.solvers.blas import one_blas_thread
from mmtfl.solvers.distributed.tree_sums import partial_norms
from mmtfl.solvers.task_step import TaskAnswer, TaskStep
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.grouping import split_rows


class Source(Protocol):
    """A run of tasks that can be read: in memory, in files."""

    first: int

    def read(self) -> Tasks:
        """The tasks."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Tasks that are in memory already; `first` is the position of their first among all tasks."""

    tasks: Tasks
    first: int

    def read(self) -> Tasks:
        """The tasks."""
        return self.tasks

    @classmethod
    def cut(cls, tasks: Tasks, cuts: np.ndarray) -> list["InMemory"]:
        """Runs of tasks between the cuts."""
        return [cls(_run(tasks, lo, hi), int(lo)) for lo, hi in pairwise(cuts)]


def _run(tasks: Tasks, lo: int, hi: int) -> Tasks:
    part = slice(int(tasks.offsets[lo]), int(tasks.offsets[hi]))
    if part == slice(0, tasks.n_samples):
        return tasks
    return replace(
        tasks,
        X=tasks.X[part] if tasks.rows is None else tasks.X,
        y=tasks.y[part],
        offsets=tasks.offsets[lo : hi + 1] - tasks.offsets[lo],
        labels=tasks.labels[lo:hi],
        weights=None if tasks.weights is None else tasks.weights[part],
        rows=None if tasks.rows is None else tasks.rows[part],
    )


@dataclass(frozen=True)
class Spec:
    """How the tasks are to be seen: the same for all of them, and known once all were counted."""

    loss: Loss
    fit_intercept: bool
    mean_size: float
    column_scale: np.ndarray | None
    target_scale: np.ndarray | None  # of all tasks; None: targets are in the units wanted
    name: str  # of these settings, for those who keep what they made of them


class Shard:
    """The tasks of one place, and what has been made of them so far."""

    def __init__(self, tasks: Tasks, first: int):
        self.tasks, self.first = tasks, first
        self._made: tuple[str, list[TaskStep]] | None = None

    def steps(self, spec: Spec) -> list[TaskStep]:
        """Every task as step 1 of Algorithm 1 sees it."""
        if self._made is None or self._made[0] != spec.name:
            self._made = spec.name, [TaskStep(d, spec.loss) for d in self._designs(spec)]
        return self._made[1]

    def _designs(self, spec: Spec) -> list[Design]:
        tasks = self.tasks
        shared = tasks.rows is not None
        parts = [tasks.X] * tasks.n_tasks if shared else split_rows(tasks.X, tasks.offsets)
        out = []
        for t, X in enumerate(parts):
            part = slice(tasks.offsets[t], tasks.offsets[t + 1])
            y = tasks.y[part]
            alone = Tasks(
                X=X,
                y=y if spec.target_scale is None else y / spec.target_scale[self.first + t],
                offsets=np.array([0, part.stop - part.start]),
                labels=tasks.labels[t : t + 1],
                weights=None if tasks.weights is None else tasks.weights[part],
                rows=None if tasks.rows is None else tasks.rows[part],
            )
            out.append(
                Design(
                    alone,
                    column_scale=spec.column_scale,
                    fit_intercept=spec.fit_intercept,
                    mean_size=spec.mean_size,
                )
            )
        return out

    def __getstate__(self) -> dict[str, Any]:
        # moved to another machine: what was made of the data is cheaper to make again
        return {"tasks": self.tasks, "first": self.first, "_made": None}


def load_shard(source: Source) -> Shard:
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
    weights = None if tasks.weights is None else _plain(tasks.weights)
    return replace(tasks, X=X, y=_plain(tasks.y), weights=weights)


def _plain(array: np.ndarray) -> np.ndarray:
    return np.require(array, requirements=["C", "A"])


# -- a pass of Algorithm 1 ---------------------------------------------------------------------------------


class Held(NamedTuple):
    """Coefficients (n_tasks, n_features) and intercepts of a shard's tasks; None: not known yet."""

    A: np.ndarray
    intercept: np.ndarray | None


class Update(NamedTuple):
    """What goes out at a pass: the features still there, their weights, the norm, and how exact to be."""

    kept: np.ndarray
    weights: np.ndarray
    p: float
    tol: float


class Reply(NamedTuple):
    """What comes back: numbers per task, per feature still there, and two of the whole shard."""

    losses: np.ndarray  # (n_tasks,)
    lengths: list[int]
    norms: np.ndarray  # (n_subtrees, n_kept), see `row_sums`
    effect: np.ndarray  # (n_kept,): the largest over tasks of |a_j| times the spread of the feature
    largest: float
    moved: float


def run_pass(shard: Shard, spec: Spec, before: tuple[Held, Any] | None, update: Update) -> tuple[Held, Reply]:
    """Step 1 of Algorithm 1 in every task, from where the tasks were before."""
    n_tasks, n_features = shard.tasks.n_tasks, shard.tasks.n_features
    weights = np.full(n_features, np.inf)
    weights[update.kept] = update.weights
    A, intercept, losses = np.zeros((n_tasks, n_features)), np.zeros(n_tasks), np.zeros(n_tasks)
    effect = np.zeros(len(update.kept))
    with one_blas_thread():
        for t, step in enumerate(shard.steps(spec)):
            found = step.minimise(weights, update.p, update.tol, _last(before, t))
            A[t], intercept[t], losses[t] = found.a, found.intercept, found.loss
            size = np.abs(found.a[update.kept]) * step.spread[update.kept]
            np.maximum(effect, size, out=effect)
    previous = 0.0 if before is None else before[0].A
    lengths, norms = partial_norms(np.abs(A[:, update.kept]), shard.first, update.p)
    moved = float(np.abs(A - previous).max(initial=0.0))
    reply = Reply(losses, lengths, norms, effect, float(np.abs(A).max(initial=0.0)), moved)
    return Held(A, intercept), reply


def _last(before: tuple[Held, Any] | None, t: int) -> TaskAnswer | None:
    if before is None:
        return None
    held = before[0]
    return TaskAnswer(held.A[t], None if held.intercept is None else float(held.intercept[t]), np.nan)


def reply_of(pair: tuple[Held, Reply]) -> Reply:
    """What is sent of a pass."""
    return pair[1]


def held_by(pair: tuple[Held, Reply]) -> Held:
    """What stays of a pass, brought home at the end."""
    return pair[0]


def as_is(source: Any) -> Any:
    """Identity loader: what is in memory already."""
    return source
