"""Levels of the tasks of a fit, from its coefficients and intercepts; docs/model.md, Levels.

The level of a task is its prediction at a centre that all tasks share, so that it does not depend on where
the columns have their zero. Levels of numbers follow the fit, as the coefficients do not depend on them;
those of classes and counts have a prior inside the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mmtfl.inference.levels import LevelModel, NormalLevels, TaskColumns
from mmtfl.inference.marginal_levels import NODES, QUICK_NODES, TaskRows, fit_levels
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.losses.by_rows import WithLevelPrior, prior_bend, with_level_rows
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.tasks.container import Tasks

_LEAST_FREEDOM = 0.2  # share of the rows beyond one per task that are left for the noise, at least


def follow_the_fit(loss: Any, *, n_tasks: int, rows_are_shared: bool) -> bool:
    """Whether levels are shrunk after the fit: those of numbers, of tasks that have rows of their own."""
    return isinstance(loss, Loss) and loss.on_residuals and n_tasks > 1 and not rows_are_shared


@dataclass(frozen=True, eq=False)
class TaskLevels:
    """What is needed of the rows of tasks to shrink the levels of any fit to them.

    Attributes
    ----------
    means : ndarray of shape (n_tasks, n_features)
        Of the columns of X in each task, in their own units.
    weights : ndarray of shape (n_tasks,)
        Sums of the weights of the rows.
    centre : ndarray of shape (n_features,)
        Where levels are compared.
    column_scale, target_scale : ndarray, or None
        What columns and targets were divided by before the fit.
    absent : ndarray of bool of shape (n_tasks, n_features), or None
        Features that a task does not have.
    n_lines : int, or None
        Columns that are features; those of curves stand behind them, and are no task-level columns.
    """

    means: np.ndarray
    weights: np.ndarray
    centre: np.ndarray
    column_scale: np.ndarray | None = None
    target_scale: np.ndarray | None = None
    absent: np.ndarray | None = None
    n_lines: int | None = None

    @classmethod
    def of(cls, design: Design, target_scale: np.ndarray | None, weights: np.ndarray) -> TaskLevels:
        """Read the means of the rows of a design; ``weights`` are those of the tasks without any factors."""
        totals, scale = design.task_sums(design.row_weight), 1.0 / design.inverse_scale
        means = (design.correlate(design.row_weight) / totals).T * scale
        tasks = design.tasks
        return replace(cls.of_means(means, weights, scale, target_scale, tasks.absent), n_lines=tasks.n_lines)

    @classmethod
    def of_means(
        cls, means: np.ndarray, weights: np.ndarray, column_scale, target_scale, absent=None
    ) -> TaskLevels:
        """The same from the means of every task."""
        if absent is None:
            centre = means.mean(axis=0)
        else:
            centre = np.where(absent, 0.0, means).sum(axis=0) / np.maximum((~absent).sum(axis=0), 1)
        return cls(means, weights, centre, column_scale, target_scale, absent)

    @cached_property
    def columns(self) -> TaskColumns:
        """Task-level columns."""
        lines = slice(self.n_lines)
        return TaskColumns.of(self.means[:, lines], None if self.absent is None else self.absent[:, lines])

    @cached_property
    def _size(self) -> float:
        """A unit of targets in which no square leaves the floats."""
        return 1.0 if self.target_scale is None else float(np.median(self.target_scale))

    @cached_property
    def _unit(self) -> np.ndarray:
        return np.ones(len(self.weights)) if self.target_scale is None else self.target_scale / self._size

    @cached_property
    def normal(self) -> NormalLevels:
        """The distribution of the levels; the noise is in units of the scaled targets."""
        return NormalLevels(self.columns.values, self.weights / self._unit**2)

    @cached_property
    def _scaled_centre(self) -> np.ndarray:
        return self.centre if self.column_scale is None else self.centre / self.column_scale

    def told(self, features: np.ndarray, values: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """The levels (n_tasks,) of a fit in one unit: rows ``values`` of some features, and intercepts."""
        return self._unit * (intercept + self._scaled_centre[features] @ values)

    def noise(self, loss: float | np.ndarray, n_parameters: float | np.ndarray) -> np.ndarray:
        """Variance of the noise of a scaled target, from the sum of half squares over all rows."""
        free = self.weights.sum() - len(self.weights)
        left = np.maximum(free - np.asarray(n_parameters), max(_LEAST_FREEDOM * free, 1.0))
        return 2.0 * np.asarray(loss) / left

    def intercepts(self, found: Sequence[Any], losses: np.ndarray, n_parameters: np.ndarray) -> np.ndarray:
        """Intercepts (n, n_tasks) with shrunk levels of fits, in their units.

        A fit has features, values and intercept, and losses are sums over all rows.
        """
        told = np.column_stack([self.told(*one[:3]) for one in found])
        noise = self._noise_or_half(losses, n_parameters, told)
        sure = np.isfinite(noise)  # beyond all measure, levels stay as they are
        moved = np.zeros_like(told)
        moved[:, sure] = self.normal.shrunk(told[:, sure], noise[sure]) - told[:, sure]
        return np.array([one[2] for one in found]) + (moved / self._unit[:, None]).T

    def fit(self, found: Any, loss: float, n_parameters: float) -> LevelModel:
        """The distribution of the levels of one fit (features, values, intercept), in the units of y."""
        told = self.told(*found[:3])
        noise = float(self._noise_or_half(loss, n_parameters, told[:, None])[0])
        return self.normal.fit(told, noise).rescaled(self._size)

    def _noise_or_half(self, loss, n_parameters, told: np.ndarray) -> np.ndarray:
        """The noise; where every task has one row, as much as the levels scatter otherwise."""
        noise = np.broadcast_to(self.noise(loss, n_parameters), told.shape[1:])
        if self.weights.sum() > len(self.weights):
            return noise
        return np.maximum(noise, 0.5 * np.var(told / self._unit[:, None], axis=0))

    def at_zero(self, levels: np.ndarray, coef: np.ndarray) -> np.ndarray:
        """Intercepts from levels and coefficients (n, n_features), both in the units of the data."""
        return levels - coef @ self.centre


def effective_parameters(found: Any, curvature: np.ndarray) -> float:
    """How many free parameters a penalised fit has, roughly.

    At p = 2 it is the trace of the fit's smoother, features taken one by one: each row has the bend of its
    penalty, about the common part with pooling. Elsewhere it is the number of different values.

    Parameters
    ----------
    found : features, values (n_kept, n_tasks), ..., penalty
        The fit, whose penalty may be None.
    curvature : ndarray of shape (n_features, n_tasks)
        Second derivatives of the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.objective.penalties import make_penalty
    >>> rows, curvature = np.ones((1, 100)), np.ones((1, 100))
    >>> for pooling in (0.0, 0.99):
    ...     found = np.array([0]), rows, make_penalty(2, 2, 5.0, pooling=pooling)
    ...     print(round(effective_parameters(found, curvature)))
    67
    17
    """
    features, values, penalty = found[0], found[1], found[-1]
    if not isinstance(penalty, RowPenalty):
        return float(np.count_nonzero(values))
    penalty, curvature = penalty.of_rows(features), curvature[features]
    if penalty.p != 2.0:
        apart = values
        if penalty.is_centred:
            apart = np.column_stack([values - penalty.common_part(values)[:, None], np.ones(len(values))])
        return float(np.count_nonzero(apart))
    bend = 2.0 * np.broadcast_to(penalty.weights(values), len(values))[:, None]
    bend = np.where(np.isfinite(bend), bend, 0.0)  # rows that are free of penalty
    both = curvature + bend
    share = np.divide(curvature, both, out=np.zeros_like(both), where=both > 0.0)
    if not penalty.is_centred:
        return float(share.sum())
    pull = bend[:, 0] * penalty.pooling / values.shape[1]  # s / (T + w), with pooling = T / (T + w)
    inverse = np.divide(1.0, both, out=np.zeros_like(both), where=both > 0.0)
    rest = np.maximum(1.0 - pull * inverse.sum(axis=1), 1e-12)
    return float(share.sum() + np.sum(pull * np.sum(share * inverse, axis=1) / rest))


# -- classes and counts: the prior of the levels is a part of the fit ----------------------------------------


def are_in_the_fit(loss: Any, tasks: Any) -> bool:
    """Whether the prior of the levels is a part of the fit: for losses that are not of y - z alone."""
    one_loss = isinstance(loss, Loss) and not loss.on_residuals
    return one_loss and isinstance(tasks, Tasks) and tasks.n_tasks > 1


@dataclass(frozen=True, eq=False)
class LevelPrior:
    """What the levels of tasks, at the centre, are drawn to in a fit: N(middle, spread^2)."""

    centre: np.ndarray
    middle: np.ndarray
    spread: float

    @classmethod
    def of(cls, of_tasks: TaskLevels, model: LevelModel) -> LevelPrior:
        """The prior that a distribution of levels gives."""
        return cls(of_tasks.centre, model.expected(of_tasks.columns.values), model.spread)

    def problem(self, tasks: Tasks, loss: Loss, column_scale: np.ndarray | None) -> Problem:
        """The problem of tasks with this prior, as one more row of each."""
        weights = np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
        mean_size = float(weights.sum()) / tasks.n_tasks
        weight = 1.0 / (self.spread**2 * prior_bend(loss))
        rows = with_level_rows(tasks, self.centre, self.middle, weight)
        return Problem(Design(rows, column_scale=column_scale, mean_size=mean_size), WithLevelPrior(loss))


def marginal_model(
    of_tasks: TaskLevels, tasks: Tasks, loss: Loss, slopes: np.ndarray | None = None, *, rough: bool = False
) -> LevelModel:
    """The distribution of levels of classes or counts, beside slopes (n_features, n_tasks) in the units of X.

    Without slopes it is found quickly, with fewer nodes and rounds; on folds it may be `rough` besides.
    """
    if tasks.weights is not None and np.any(tasks.weights == 0.0):
        tasks = tasks.select(np.flatnonzero(tasks.weights))
    weights = np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
    beside = np.zeros(tasks.n_samples) if tasks.known is None else tasks.known
    if slopes is not None:
        beside = beside + Design(tasks).predict(slopes) - np.repeat(of_tasks.centre @ slopes, tasks.sizes)
    rows = TaskRows(loss, tasks.y, weights, beside, tasks.offsets)
    n_nodes = QUICK_NODES if slopes is None else NODES
    return fit_levels(rows, of_tasks.columns.values, n_nodes=n_nodes, rough=rough)
