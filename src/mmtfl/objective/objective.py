"""The objective (2): loss of all tasks plus a row penalty, with its optimality measures."""

import math
from functools import cached_property

import numpy as np

from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.penalties import LogRows, RowPower

_EXACT = 1e-26  # share of the loss, about the square of the rounding of floats


class Objective:
    """(1/n) sum of losses + penalty(A), with an unpenalised intercept per task; docs/model.md eq. (2)."""

    def __init__(self, design: Design, loss: Loss, penalty: RowPower | LogRows):
        self.design, self.loss, self.penalty = design, loss, penalty

    def predict(self, A: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Linear predictor of every observation."""
        return self.design.predict(A) + self.design.spread(intercept)

    def loss_value(self, z: np.ndarray) -> float:
        """Loss part at linear predictor z."""
        return self.loss.value(self.design.y, z, self.design.row_weight)

    def loss_gradient(self, z: np.ndarray) -> np.ndarray:
        """Derivative of the loss part in z."""
        return self.loss.gradient(self.design.y, z, self.design.row_weight)

    def value(self, A: np.ndarray, intercept: np.ndarray) -> float:
        """The objective at (A, intercept)."""
        return self.loss_value(self.predict(A, intercept)) + self.penalty.value(A)

    @cached_property
    def null_intercept(self) -> np.ndarray:
        """Best intercepts when A = 0."""
        design = self.design
        if not design.fit_intercept:
            return np.zeros(design.n_tasks)
        return np.array(
            [
                self.loss.null_intercept(design.y[rows], design.row_weight[rows])
                for _, rows in design.segments()
            ]
        )

    @cached_property
    def null_value(self) -> float:
        """The objective at A = 0, with the best intercepts."""
        return self.loss_value(self.design.spread(self.null_intercept))

    @cached_property
    def null_gradient(self) -> np.ndarray:
        """Gradient of the loss part in A, at A = 0: the first pass over the data."""
        design = self.design
        if self.null_value <= _EXACT * self.loss.value(design.y, np.zeros_like(design.y), design.row_weight):
            return np.zeros(
                (design.n_features, design.n_tasks)
            )  # the intercepts explain y: the rest is rounding
        return self.design.correlate(self.loss_gradient(self.design.spread(self.null_intercept)))

    @cached_property
    def scale(self) -> float:
        """Unit of slopes: the largest gradient entry at A = 0, or the size of y where that is zero."""
        steepest = float(np.abs(self.null_gradient).max(initial=0.0))
        return steepest or float(max(1.0, np.abs(self.design.y).max()))

    @property
    def curvature(self) -> np.ndarray:
        """Bound on the loss's second derivative in every entry of A."""
        return self.loss.curvature * self.design.curvature

    def row_violation(self, A: np.ndarray, gradient: np.ndarray, kept_curvature=None) -> np.ndarray:
        """Distance of every row to stationarity, in units of the gradient; eq. (8).

        Where a norm penalises the rows, a zero row needs no curvature: the dual norm tells. Then only the
        kept rows' curvature is used, and `kept_curvature(rows)` may bring it without a pass over the data.
        """
        penalty = self.penalty
        if not (isinstance(penalty, RowPower) and penalty.power == 1.0):
            return penalty.row_violation(A, gradient, self.curvature)
        out = np.maximum(penalty.dual_norm(gradient) - penalty.alpha, 0.0)
        kept = np.flatnonzero(np.any(A != 0.0, axis=1))
        if kept.size:
            curvature = self.curvature[kept] if kept_curvature is None else kept_curvature(kept)
            out[kept] = penalty.of_rows(kept).row_violation(A[kept], gradient[kept], curvature)
        return out

    def dual_gap(self, primal: float, z: np.ndarray, gradient: np.ndarray) -> float | None:
        """Duality gap at an objective of `primal` and predictor z, eq. (9); None for concave members."""
        penalty = self.penalty
        if not isinstance(penalty, RowPower) or not penalty.is_convex:
            return None
        norms = penalty.dual_norm(gradient)
        best = -math.inf
        for shrink in self.dual_scales(norms):
            dual = self.loss.dual(self.design.y, z, self.design.row_weight, shrink)
            best = max(best, dual - penalty.conjugate(shrink * norms))
        return max(primal - best, 0.0)

    def dual_scales(self, norms: np.ndarray) -> list[float]:
        """By how much to shrink a dual point whose rows have these dual norms: a few that may be best."""
        penalty = self.penalty
        candidates = [1.0]
        with np.errstate(divide="ignore", over="ignore"):
            ratio = np.divide(penalty.alpha, norms, out=np.full(len(norms), np.inf), where=norms > 0.0)
        if penalty.power == 1.0:
            candidates = [min(1.0, float(ratio.min(initial=1.0)))]
        elif penalty.power < 1.5:
            candidates.append(min(1.0, float(ratio.min(initial=1.0)) * penalty.power))
        return candidates
