"""Losses on the rows of tasks: each task's own, beside a known part of the linear predictor."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.objective.losses.loss import Loss
from mmtfl.tasks.scaling import target_spread

_FILLER = 1.0  # a target that every loss is defined for, in rows that do not count
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
    """Each row's loss, that of its task times the task's factor, at z plus the known part.

    Attributes
    ----------
    losses : list of Loss
        Of each task.
    offsets : ndarray (n_tasks + 1,)
        Where the rows of each task begin, and the last ones end.
    factors : ndarray (n_tasks,), or None
        What the losses are multiplied by.
    known : ndarray (n_rows,), or None
        Part of the linear predictor.
    """

    losses: list[Loss]
    offsets: np.ndarray
    factors: np.ndarray | None = None
    known: np.ndarray | None = None

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

    @property
    def curvature(self) -> float | None:  # type: ignore[override]
        """The curvature bound of the only loss, if there is just one and it has no factor."""
        return self._kinds[0][0].curvature if len(self._kinds) == 1 and self.factors is None else None

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

    def on_rows(self, inner: Loss, offsets: np.ndarray) -> "LossWithPriors":
        """The loss on the rows of tasks, from the same without priors."""
        return LossWithPriors(inner, offsets[1:] - 1, offsets)


@dataclass(frozen=True, eq=False)
class LossWithPriors(Loss):
    """The loss of rows, and parabolas at some of them, which have no other loss.

    A parabola bends as much as the loss can, where that is bounded, so that it changes no bound.

    Attributes
    ----------
    inner : Loss
        The loss of the other rows.
    at : ndarray of int
        Rows with parabolas, one of each task.
    offsets : ndarray (n_tasks + 1,)
        Where the rows of each task begin, and the last ones end.
    """

    inner: Loss
    at: np.ndarray
    offsets: np.ndarray

    @property
    def curvature(self) -> float | None:  # type: ignore[override]
        """The bound of the loss."""
        return self.inner.curvature

    @property
    def bend(self) -> float:
        """Second derivative of a parabola of weight one."""
        return prior_bend(self.inner)

    @property
    def has_dual(self) -> bool:  # type: ignore[override]
        """Whether the duality gap is known."""
        return self.inner.has_dual

    def plain(self, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights with which the rows of the priors count for nothing in the loss."""
        y, weight = y.copy(), weight.copy()
        y[self.at], weight[self.at] = _FILLER, 0.0
        return y, weight

    def _by_row(self, question: str, y, z, weight, of_prior) -> np.ndarray:
        plain_y, plain_weight = self.plain(y, weight)
        out = getattr(self.inner, question)(plain_y, z, plain_weight)
        out[self.at] = self.bend * weight[self.at] * of_prior
        return out

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses and of the priors."""
        plain_y, plain_weight = self.plain(y, weight)
        apart = z[self.at] - y[self.at]
        return self.inner.value(plain_y, z, plain_weight) + 0.5 * self.bend * float(
            weight[self.at] @ apart**2
        )

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return self._by_row("gradient", y, z, weight, z[self.at] - y[self.at])

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return self._by_row("hessian", y, z, weight, 1.0)

    def majorant(self, y, z, weight):
        """Second derivative of a parabola above the loss, row by row."""
        return self._by_row("majorant", y, z, weight, 1.0)

    def mean(self, z):
        """Expected targets."""
        return self.inner.mean(z)

    def dual(self, y, z, weight, shrink):
        """Dual value without the penalty's conjugate."""
        plain_y, plain_weight = self.plain(y, weight)
        theta = shrink * self.bend * (y - z)[self.at]
        own = float(weight[self.at] @ (theta * y[self.at] - theta**2 / (2.0 * self.bend)))
        return self.inner.dual(plain_y, z, plain_weight, shrink) + own

    def shift_range(self, y, z):
        """For each row, two shifts of z between which its loss is least."""
        low, high = self.inner.shift_range(self.plain(y, y)[0], z)
        apart = (y - z)[self.at]
        low[self.at], high[self.at] = apart, apart
        return low, high

    def task_curvatures(self, y, z, offsets):
        """Bound on the second derivative in z of each task's rows, or its largest value at this z."""
        return self.inner.task_curvatures(self.plain(y, np.ones_like(y))[0], z, offsets)


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
        return loss.on_rows(bound(loss.loss, rows), rows.offsets)
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
