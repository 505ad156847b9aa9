"""The smooth part of the objective (2): data and a loss. The penalty is an argument wherever it matters."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss, best_shifts
from mmtfl.objective.losses.by_rows import TaskLoss, bound
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.row_sizes import largest_entry
from mmtfl.objective.units import Units

if TYPE_CHECKING:
    from mmtfl.objective.norms import TwoNorms

DAMPING = (0.0, 0.25, 0.5, 0.75, 1.0)  # of Newton models: from the second derivative (0) to a majorant (1)
_ROUNDING = 1e-14  # of a sum, as a share of the sum of sizes
STEPS = (1.0, 0.5, 0.25)  # shares of the way to the minimum of such a model that are tried
RISEN = 1e-14  # an objective that rises by less, as a share of it, has not risen
STALLED = 1e-12  # what lowers the objective by less, as a share of it at A = 0, was the last pass
RESOLVED = 1e-10  # of the slopes' unit: a strength below cannot be told from none by a dual point
EXACT = 1e-26  # share of the loss, about the square of the rounding of floats
_LEAST_WEIGHT = 1e-6  # smallest Newton weight of a row, as a share of the bound on it
_MODERATE = 1e30  # where the slopes at A = 0 are beyond this, squares of the columns may leave the floats


class Problem:
    """(1/n) sum of losses with an unpenalised intercept per task; docs/model.md eq. (2).

    What is known at A = 0 is computed once and kept here: it depends on the data and the loss alone.

    Parameters
    ----------
    design : Design
        The data.
    loss : Loss or LossPerTask
        The loss of a row, the same for all tasks or by their labels.
    """

    def __init__(self, design: Design, loss: TaskLoss):
        self.design, self.given_loss = design, loss

    @cached_property
    def loss(self) -> Loss:
        """The loss on the rows of the design: of each task, and beside what is known of its predictor."""
        return bound(self.given_loss, self.design)

    def predict(self, A: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Linear predictor of every observation."""
        return self.design.predict(A) + self.design.spread(intercept)

    def loss_value(self, z: np.ndarray) -> float:
        """Loss at linear predictor z."""
        return self.loss.value(self.design.y, z, self.design.row_weight)

    def loss_gradient(self, z: np.ndarray) -> np.ndarray:
        """Derivative of the loss in z."""
        return self.loss.gradient(self.design.y, z, self.design.row_weight)

    def value(self, penalty: RowPenalty, A: np.ndarray, intercept: np.ndarray) -> float:
        """The objective at (A, intercept)."""
        return self.loss_value(self.predict(A, intercept)) + penalty.value(A)

    @cached_property
    def null_intercept(self) -> np.ndarray:
        """Best intercepts when A = 0."""
        design = self.design
        if not design.fit_intercept:
            return np.zeros(design.n_tasks)
        return self.loss.null_intercepts(design.y, design.row_weight, design.offsets)

    def best_intercept(self, z: np.ndarray, close: float = 1e-10) -> np.ndarray:
        """Best intercepts beside coefficients whose part of the linear predictor is z, as close as asked."""
        design, loss = self.design, self.loss
        if not design.fit_intercept:
            return np.zeros(design.n_tasks)
        if loss.is_quadratic:
            return design.task_means(design.y - z, design.row_weight)
        return best_shifts(loss, design.y, z, design.row_weight, design.offsets, close)

    @cached_property
    def null_value(self) -> float:
        """The objective at A = 0, with the best intercepts."""
        return self.loss_value(self.design.spread(self.null_intercept))

    @cached_property
    def null_gradient(self) -> np.ndarray:
        """Gradient of the loss in A, at A = 0: the first pass over the data."""
        design = self.design
        if self.null_value <= EXACT * self.loss_value(np.zeros_like(design.y)):
            # the intercepts explain y: the rest is rounding
            return np.zeros((design.n_features, design.n_tasks))
        slope_z = self.loss_gradient(design.spread(self.null_intercept))
        slopes = design.correlate(slope_z)
        if design.fit_intercept:
            # a constant column has its size in the first row of the task, and no slope but rounding
            rounding = _ROUNDING * design.first_rows_maximum() * design.task_sums(np.abs(slope_z)).max()
            if largest_entry(slopes) <= rounding:
                return np.zeros_like(slopes)
        return slopes

    @cached_property
    def steepest(self) -> float:
        """The largest gradient entry at A = 0."""
        return largest_entry(self.null_gradient)

    @cached_property
    def scale(self) -> float:
        """Unit of slopes: the largest gradient entry at A = 0, or the size of y where that is zero."""
        return self.steepest or float(max(1.0, np.abs(self.design.y).max()))

    @cached_property
    def loss_curvature(self) -> np.ndarray:
        """Second derivative of a row's loss in z, by task: its bound, or its largest value at A = 0."""
        design, loss = self.design, self.loss
        if loss.curvature is not None:
            return np.full(design.n_tasks, loss.curvature)
        return loss.task_curvatures(design.y, design.spread(self.null_intercept), design.offsets)

    def curvature_at(self, z: np.ndarray | None) -> np.ndarray:
        """The second derivative of the loss in every entry of A: a bound, or what stands for one at z."""
        design, loss, bend = self.design, self.loss, self.loss_curvature
        if z is not None and loss.curvature is None:
            bend = np.maximum(bend, loss.task_curvatures(design.y, z, design.offsets))
        return design.curvature if np.all(bend == 1.0) else bend * design.curvature

    @property
    def curvature(self) -> np.ndarray:
        """The same at A = 0."""
        return self.curvature_at(None)

    def row_violation(
        self, penalty: RowPenalty, A: np.ndarray, gradient: np.ndarray, *, z: np.ndarray | None = None,
        kept_curvature: Callable[[np.ndarray], np.ndarray] | None = None,
    ) -> np.ndarray:  # fmt: skip
        """Distance of every row to stationarity, in units of the gradient; eq. (8).

        `z` is the linear predictor at A. Where a norm penalises the rows, a zero row needs no curvature: the
        dual norm tells. Then only the kept rows' curvature is used, and `kept_curvature(rows)` may bring it
        without a pass over the data.
        """
        if penalty.power != 1.0:
            return penalty.row_violation(A, gradient, self.curvature_at(z))
        out = np.maximum(penalty.dual_norm(gradient) - penalty.alpha, 0.0)
        kept = np.flatnonzero(penalty.whole(np.any(A != 0.0, axis=1) | penalty.free_rows))
        if kept.size:
            curvature = self.curvature_at(z)[kept] if kept_curvature is None else kept_curvature(kept)
            out[kept] = penalty.of_rows(kept).row_violation(A[kept], gradient[kept], curvature)
        return out

    def dual_gap(
        self, penalty: "RowPenalty | TwoNorms", primal: float, z: np.ndarray, gradient: np.ndarray
    ) -> float | None:
        """Duality gap at an objective of `primal` and predictor z, eq. (9); None where there is no dual."""
        if not self.loss.has_dual:
            return None
        at = self.design.y, z, self.design.row_weight
        return penalty.dual_gap(primal, gradient, lambda shrink: self.loss.dual(*at, shrink))

    def newton_weights(self, z: np.ndarray, share: float) -> np.ndarray:
        """Row weights of a least-squares model at z: second derivatives of the loss, or closer to a majorant.

        Where the model is too flat its minimum is too far, so weights are bounded from below. At a share of
        1 (on a log scale) the model lies above the loss, so any fall of it is a fall of the objective.
        """
        design, at = self.design, (self.design.y, z, self.design.row_weight)
        bound = design.spread(self.loss_curvature) * design.row_weight
        hessian = np.maximum(self.loss.hessian(*at), _LEAST_WEIGHT * bound)
        return hessian ** (1.0 - share) * self.loss.majorant(*at) ** share if share else hessian

    def in_safe_units(self, *, one_unit: bool = False) -> "tuple[Problem, Units | None]":
        """This problem, or the same in well-scaled units: without large offsets, and with moderate sizes.

        Also the units, or None where this problem is the answer. With `one_unit` all columns share theirs.
        """
        scaled, units = self._levelled or (self, None)
        if 1.0 / _MODERATE < scaled.steepest < _MODERATE:
            return scaled, units
        largest = scaled.design.column_maxima()
        largest = np.where(largest > 0.0, largest, 1.0)
        if one_unit:
            largest[:] = largest.max()
        factor = 4.0 ** np.round(np.log2(largest) / 2.0)
        units = Units(np.ones_like(factor)) if units is None else units
        return type(self)(scaled.design.rescaled(factor), self.given_loss), replace(units, column=factor)

    @cached_property
    def _levelled(self) -> "tuple[Problem, Units] | None":
        """The problem without large offsets, and its units; None where nothing was changed.

        A cached reference of a problem to itself would keep its data in memory.
        """
        design, units = self.design.levelled(scale_targets=self.given_loss.is_quadratic)
        return None if units is None else (type(self)(design, self.given_loss), units)
