"""Data as a solver wants them, and the way back to the units in which they came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.estimators.base_rates import BaseRates
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.problem import Problem
from mmtfl.tasks.scaling import column_spread, could_use


@dataclass(frozen=True)
class Prepared:
    """What a solver starts from: tasks in the units the penalty sees, and the way back.

    Attributes
    ----------
    tasks : Tasks
        Targets already divided by ``target_scale``; X as it came.
    column_scale : ndarray of shape (n_features,), or None
        What the solver divides the columns of X by.
    target_scale : ndarray of shape (n_tasks,), or None
        What the targets were divided by.
    start : ndarray of shape (n_features, n_tasks), or None
        Coefficients to begin from, in the same units.
    placed : Problem, or None
        The problem of tasks whose rows are elsewhere.
    left_out : BaseRates, or None
        Tasks that have no part in the fit, and what predicts them.
    """

    tasks: Any
    column_scale: np.ndarray | None = None
    target_scale: np.ndarray | None = None
    start: np.ndarray | None = None
    placed: Problem | None = None
    left_out: BaseRates | None = None

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each task."""
        return self.tasks.sizes

    def problem(self, loss: Loss, *, fit_intercept: bool) -> Problem:
        """The data as the solvers see them, under a loss."""
        if self.placed is not None:
            return self.placed
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
        return column_spread(self.tasks, columns)

    def to_original(self, A: np.ndarray) -> np.ndarray:
        """Coefficients on the original scale: of X and y as they were given."""
        A = A if self.column_scale is None else A / self.column_scale[:, None]
        return A if self.target_scale is None else A * self.target_scale
