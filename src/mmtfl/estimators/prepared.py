"""Data as a solver wants them, and the way back to the units in which they came."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmtfl.estimators.base_rates import BaseRates
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.problem import Problem
from mmtfl.tasks.scaling import column_spread, could_use, target_spread


@dataclass(frozen=True)
class Prepared:
    """What a solver starts from: tasks in the units the penalty sees, and the way back.

    Attributes
    ----------
    tasks : Tasks, or OpenTasks in `StoredPrepared`
        Targets of rows in memory are divided by ``target_scale`` already; X is as it came.
    column_scale : ndarray of shape (n_features,), or None
        What the solver divides the columns of X by.
    target_scale : ndarray of shape (n_tasks,), or None
        What the targets are divided by.
    start : ndarray of shape (n_features, n_tasks), or None
        Coefficients to begin from, in the same units.
    left_out : BaseRates, or None
        Tasks that have no part in the fit, and what predicts them.
    """

    tasks: Any
    column_scale: np.ndarray | None = None
    target_scale: np.ndarray | None = None
    start: np.ndarray | None = None
    left_out: BaseRates | None = None

    @classmethod
    def of(cls, model: Any, tasks: Any, left_out: BaseRates | None = None) -> Prepared:
        """Tasks, here or elsewhere, in the units that a model asks for."""
        plain = cls(tasks, left_out=left_out)
        columns = plain._column_spread(None) if model.standardize else None
        targets = plain._target_spread() if getattr(model, "scale_targets", False) else None
        start = model._warm_start(tasks, columns, targets)
        return plain._in_units(column_scale=columns, target_scale=targets, start=start)

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each task."""
        return self.tasks.sizes

    def problem(self, loss: Loss, *, fit_intercept: bool) -> Problem:
        """The data as the solvers see them, under a loss."""
        return Problem(Design(self.tasks, column_scale=self.column_scale, fit_intercept=fit_intercept), loss)

    def original_tasks(self) -> Any:
        """The tasks with targets in their own units."""
        if self.target_scale is None:
            return self.tasks
        return self.tasks.with_y(self.tasks.y * self.target_scale[self.tasks.observation_task])

    def rows_with_weight(self) -> np.ndarray:
        """Number of rows of each task, those of weight zero not counted."""
        weights = getattr(self.tasks, "weights", None)
        if weights is None or weights.all():
            return self.sizes
        return np.bincount(self.tasks.observation_task[weights > 0], minlength=self.tasks.n_tasks)

    def could_use(self, *, fit_intercept: bool) -> np.ndarray:
        """Which tasks could use which features, (n_tasks, n_features)."""
        return could_use(self.tasks, fit_intercept=fit_intercept)

    def spread(self, columns: np.ndarray) -> np.ndarray:
        """Standard deviation of some features over all rows; 1 for a constant one."""
        if self.column_scale is not None:
            return self.column_scale[columns]
        return self._column_spread(columns)

    def to_original(self, A: np.ndarray) -> np.ndarray:
        """Coefficients on the original scale: of X and y as they were given."""
        A = A if self.column_scale is None else A / self.column_scale[:, None]
        return A if self.target_scale is None else A * self.target_scale

    def common_to_original(self, common: np.ndarray) -> np.ndarray:
        """A common part (n_features,) on the original scale, in the mean of the tasks' units."""
        common = common if self.column_scale is None else common / self.column_scale
        return common if self.target_scale is None else common * self.target_scale.mean()

    def _column_spread(self, columns: np.ndarray | None) -> np.ndarray:
        return column_spread(self.tasks, columns)

    def _target_spread(self) -> np.ndarray:
        return target_spread(self.tasks)

    def _in_units(self, **units: Any) -> Prepared:
        tasks, scale = self.tasks, units["target_scale"]
        if scale is not None:
            tasks = tasks.with_y(tasks.y / scale[tasks.observation_task])
        return replace(self, tasks=tasks, **units)


class StoredPrepared(Prepared):
    """Tasks whose rows are elsewhere: `tasks` is what `OpenTasks` makes of them."""

    def problem(self, loss: Loss, *, fit_intercept: bool) -> Problem:
        """The data as the solvers see them, under the loss for which they were opened."""
        return self.tasks.problem(column_scale=self.column_scale, target_scale=self.target_scale)

    def could_use(self, *, fit_intercept: bool) -> np.ndarray:
        """Which tasks could use which features, (n_tasks, n_features)."""
        return self.tasks.could_use

    def _column_spread(self, columns: np.ndarray | None) -> np.ndarray:
        spread = self.tasks.spreads()[0]
        return spread if columns is None else spread[columns]

    def _target_spread(self) -> np.ndarray:
        return self.tasks.spreads()[1]

    def _in_units(self, **units: Any) -> Prepared:
        return replace(self, **units)
