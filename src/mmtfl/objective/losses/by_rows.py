"""Losses on the rows of tasks: each task's own, beside a known part of the linear predictor."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.objective.losses.built_in import Squared
from mmtfl.objective.losses.loss import Loss
from mmtfl.tasks.scaling import target_spread

_FAR = 80.0  # a best constant beyond stands for an infinite one


@dataclass(frozen=True)
class LossPerTask:
    """A loss for each task, by its label.

    Balanced losses are divided by the root mean square of their derivative in z at the best constant, task by
    task. Then the gradient at A = 0 is the correlation of a feature with the target, times the spread of the
    feature, whatever the loss: no kind of target comes first because of its units.

    Examples
    --------
    >>> from mmtfl.objective.losses import Poisson, Squared
    >>> from mmtfl.objective.losses.by_rows import LossPerTask
    >>> LossPerTask({"stay": Squared(), "visits": Poisson()}).for_task("visits")
    Poisson()
    """

    losses: Mapping[Any, Loss]
    balanced: bool = True

    is_quadratic = on_residuals = False

    def for_task(self, label: Any) -> Loss:
        """The loss of one task."""
        return self.losses[label]


TaskLoss = Loss | LossPerTask


@dataclass(frozen=True, eq=False)
class LossOnRows(Loss):
    """Each row's loss, that of its run of rows times the run's factor, at z plus the known part.

    Attributes
    ----------
    losses : list of Loss
        Of each run, which is a task or a part of one.
    offsets : ndarray (n_runs + 1,)
        Where the rows of each run begin, and the last ones end.
    factors : ndarray (n_runs,), or None
        What the losses are multiplied by.
    known : ndarray (n_rows,), or None
        Part of the linear predictor.
    prior_rows : ndarray of int, or None
        Rows that hold the priors of the tasks' levels, see `with_level_rows`: each is a run of its own.
    """

    losses: list[Loss]
    offsets: np.ndarray
    factors: np.ndarray | None = None
    known: np.ndarray | None = None
    prior_rows: np.ndarray | None = None

    @cached_property
    def _kinds(self) -> list[tuple[Loss, Any]]:
        """Every loss, and the rows that have it."""
        distinct = list(dict.fromkeys(self.losses))
        if len(distinct) == 1:
            return [(distinct[0], slice(None))]
        kind = np.array([distinct.index(loss) for loss in self.losses])
        of_row = np.repeat(kind, np.diff(self.offsets))
        return [(loss, np.flatnonzero(of_row == i)) for i, loss in enumerate(distinct)]

    @cached_property
    def _row_factor(self) -> np.ndarray | None:
        return None if self.factors is None else np.repeat(self.factors, np.diff(self.offsets))

    @cached_property
    def curvature(self) -> float | None:  # type: ignore[override]
        """The curvature bound of all runs, if they have the same one."""
        factors = np.ones(len(self.losses)) if self.factors is None else self.factors
        pairs = zip(self.losses, factors.tolist(), strict=True)
        bounds = {None if loss.curvature is None else factor * loss.curvature for loss, factor in pairs}
        return bounds.pop() if len(bounds) == 1 else None

    @property
    def has_classes(self) -> bool:  # type: ignore[override]
        """Whether all targets are classes."""
        return all(loss.has_classes for loss, _ in self._kinds)

    @property
    def has_dual(self) -> bool:  # type: ignore[override]
        """Whether the duality gap is known."""
        return all(loss.has_dual for loss, _ in self._kinds)

    def _parts(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> Iterator[tuple[Loss, Any, tuple]]:
        z = z if self.known is None else z + self.known
        weight = weight if self._row_factor is None else weight * self._row_factor
        for loss, rows in self._kinds:
            yield loss, rows, (y[rows], z[rows], weight[rows])

    def _by_row(self, question: str, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
        out = np.empty_like(z)
        for loss, rows, at in self._parts(y, z, weight):
            out[rows] = getattr(loss, question)(*at)
        return out

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses."""
        return sum(loss.value(*at) for loss, _, at in self._parts(y, z, weight))

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return self._by_row("gradient", y, z, weight)

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return self._by_row("hessian", y, z, weight)

    def majorant(self, y, z, weight):
        """Second derivative of a parabola above the loss, row by row."""
        return self._by_row("majorant", y, z, weight)

    def mean(self, z):
        """Expected targets; rows are the last axis of z."""
        z = z if self.known is None else z + self.known
        out = np.empty_like(z)
        for loss, rows in self._kinds:
            out[..., rows] = loss.mean(z[..., rows])
        return out

    def shift_range(self, y, z):
        """For each row, two shifts of z between which its loss is least."""
        low, high = np.empty_like(z), np.empty_like(z)
        for loss, rows, at in self._parts(y, z, np.ones_like(z)):
            low[rows], high[rows] = loss.shift_range(*at[:2])
        return low, high

    def dual(self, y, z, weight, shrink):
        """Dual value without the penalty's conjugate; a known part adds its product with the dual point."""
        total = 0.0
        for loss, _, (y_own, z_own, own_weight) in self._parts(y, z, weight):
            total += loss.dual(y_own, z_own, own_weight, shrink)
        return (
            total if self.known is None else total + shrink * float(self.gradient(y, z, weight) @ self.known)
        )

    def task_curvatures(self, y, z, offsets):
        """Bound on the second derivative in z of each task's rows, or its largest value at this z."""
        bend = self.hessian(y, z, np.ones_like(z))
        factor = np.ones_like(z) if self._row_factor is None else self._row_factor
        for loss, rows in self._kinds:
            if loss.curvature is not None:
                bend[rows] = loss.curvature * factor[rows]
        return np.maximum.reduceat(bend, offsets[:-1])

    def task_values(self, y, z, weight, offsets):
        """Each task's own loss, without its factor."""
        z = z if self.known is None else z + self.known
        if len(self._kinds) == 1:
            return self._kinds[0][0].task_values(y, z, weight, offsets)
        parts = zip(self.losses, pairwise(offsets), strict=True)
        return np.array([loss.value(y[lo:hi], z[lo:hi], weight[lo:hi]) for loss, (lo, hi) in parts])


# -- a prior on the level of each task, as one more row: a parabola in the row's linear predictor -----------


@dataclass(frozen=True)
class WithLevelPrior(Loss):
    """A loss on tasks whose last rows hold the prior of their levels; see `with_level_rows`."""

    loss: Loss

    def value(self, y, z, weight):
        """Not of the rows alone: the prior is bound to tasks first."""
        raise TypeError("the loss has to be bound to the rows of tasks")

    gradient = hessian = value


def prior_bend(loss: Loss) -> float:
    """Second derivative of a prior's parabola of weight one."""
    return 1.0 if loss.curvature is None else loss.curvature


def with_level_rows(tasks: Any, centre: np.ndarray, middle: np.ndarray, weight: float) -> Any:
    """Tasks with one more row each, the last: at the centre, with the prior's mean and weight."""
    own = np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
    ends = tasks.offsets[1:]

    def at_ends(values: np.ndarray, new: Any) -> np.ndarray:
        return np.insert(values, ends, new)

    rows = np.tile(centre, (tasks.n_tasks, 1))
    if tasks.absent is not None:
        rows[tasks.absent] = 0.0
    changes: dict[str, Any] = {
        "y": at_ends(tasks.y, middle), "weights": at_ends(own, weight), "groups": None,
        "offsets": tasks.offsets + np.arange(tasks.n_tasks + 1),
        "known": None if tasks.known is None else at_ends(tasks.known, 0.0),
    }  # fmt: skip
    if tasks.rows is not None:  # one row for all tasks, as the others are
        changes["rows"] = at_ends(tasks.rows, tasks.X.shape[0])
        changes["X"] = _stacked(tasks.X, centre[None])
    else:
        place = np.insert(np.arange(tasks.n_samples), ends, tasks.n_samples + np.arange(tasks.n_tasks))
        changes["X"] = _stacked(tasks.X, rows)[place]
    return replace(tasks, **changes)


def _stacked(X: Any, rows: np.ndarray) -> Any:
    rows = rows.astype(X.dtype)
    if sparse.issparse(X):
        return sparse.vstack([X, sparse.csr_array(rows)], format=X.format)
    return np.vstack([X, rows])


# -- tasks and their losses ----------------------------------------------------------------------------------


def on_rows(loss: TaskLoss, rows: Any, factors: np.ndarray | None = None) -> LossOnRows:
    """The losses of the tasks on their rows, with these factors."""
    losses = [loss.for_task(label) for label in rows.labels.tolist()]
    return LossOnRows(losses, rows.offsets, factors, rows.known)


def bound(loss: TaskLoss, rows: Any) -> Loss:
    """The loss on the rows of a design as the solvers use it, with the factors that balance the tasks."""
    if isinstance(loss, WithLevelPrior):
        # a parabola that bends as much as the loss can, where that is bounded, changes no bound
        n_tasks, at = len(rows.labels), rows.offsets[1:] - 1
        factors, offsets = np.tile([1.0, prior_bend(loss.loss)], n_tasks), np.sort([*rows.offsets, *at])
        return LossOnRows([loss.loss, Squared()] * n_tasks, offsets, factors, rows.known, at)
    if isinstance(loss, Loss):
        return loss if rows.known is None else on_rows(loss, rows)
    plain = on_rows(loss, rows)
    return on_rows(loss, rows, balancing_factors(plain, rows.y, rows.row_weight)) if loss.balanced else plain


def balancing_factors(loss: LossOnRows, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """One over the root mean square of each task's derivatives at its best constant."""
    z = np.repeat(loss.null_intercepts(y, weight, loss.offsets), np.diff(loss.offsets))
    square = loss.gradient(y, z, np.ones_like(z)) ** 2
    total, weights = (np.add.reduceat(v, loss.offsets[:-1]) for v in (weight * square, weight))
    size = np.sqrt(total / weights)
    return np.divide(1.0, size, out=np.ones_like(size), where=size > 0.0)


def tasks_with_units(loss: TaskLoss, labels: np.ndarray) -> np.ndarray:
    """Which tasks have targets with a unit, in which they may be measured."""
    return np.array([loss.for_task(label).on_residuals for label in labels.tolist()])


def target_units(tasks: Any, loss: TaskLoss, *, otherwise: float = 1.0) -> np.ndarray:
    """What targets are divided by where they are scaled: each task's spread, or 1 if they have no unit."""
    return np.where(tasks_with_units(loss, tasks.labels), target_spread(tasks, otherwise=otherwise), 1.0)


def with_known_in_targets(loss: TaskLoss, tasks: Any) -> Any:
    """The tasks with the offset subtracted from the targets, where the loss depends on y - z alone."""
    if tasks.known is None:
        return tasks
    taken = tasks_with_units(loss, tasks.labels)[tasks.observation_task]
    y, known = tasks.y - np.where(taken, tasks.known, 0.0), np.where(taken, 0.0, tasks.known)
    return replace(tasks, y=y, known=None if taken.all() else known)


def check_targets(loss: TaskLoss, tasks: Any, *, fit_intercept: bool) -> None:
    """Refuse targets that a task's loss is not defined for, and tasks without the best constant they need."""
    if isinstance(loss, WithLevelPrior):
        return  # the rows of the priors have other targets, and every task has a best constant
    if isinstance(loss, Loss) and loss.is_valid(tasks.y).all():
        starts = tasks.offsets[:-1]
        vary = np.maximum.reduceat(tasks.y, starts) > np.minimum.reduceat(tasks.y, starts)
        if loss.on_residuals or vary.all():
            return
    needs_constant = fit_intercept or not isinstance(loss, Loss)  # losses of several kinds are balanced at it
    for label, (lo, hi) in zip(tasks.labels.tolist(), pairwise(tasks.offsets), strict=True):
        own, y = loss.for_task(label), tasks.y[lo:hi]
        valid = own.is_valid(y)
        if not valid.all():
            i = int(np.argmin(valid))
            raise ValueError(
                f"Task {label!r} has the target {y[i]:g} in its row {i + 1}, but the {own.name} loss needs "
                f"{own.targets}: mend the target, or choose another loss."
            )
        if not needs_constant or own.on_residuals or np.ptp(y) > 0.0:
            continue
        if abs(own.null_intercept(y, np.ones_like(y))) > _FAR:
            raise ValueError(
                f"Task {label!r} has the target {y[0]:g} in all its rows, where the {own.name} loss has no "
                "best prediction: use levels='shrunk', leave the task out, or add rows."
            )
