"""A new loss: the Huber loss, which grows like the square near zero and like the absolute value beyond."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from mmtfl.objective.losses import Loss


@dataclass(frozen=True)
class Huber(Loss):
    """r^2 / 2 where |r| <= delta, delta |r| - delta^2 / 2 beyond, with r = z - y."""

    delta: float = 1.345

    curvature = 1.0  # bound on the second derivative in z
    has_dual = True  # so a duality gap tells how far a convex fit is from its minimum

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses."""
        size = np.abs(z - y)
        near = np.minimum(size, self.delta)
        return float(np.dot(weight, near * (size - 0.5 * near)))

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return weight * np.clip(z - y, -self.delta, self.delta)

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return weight * (np.abs(z - y) <= self.delta)

    def majorant(self, y, z, weight):
        """Curvature of the flattest parabola that touches the loss at z and lies above it, row by row."""
        return weight * self.delta / np.maximum(np.abs(z - y), self.delta)

    def null_intercept(self, y, weight):
        """Best constant prediction: where the clipped residuals sum to zero."""
        low, high = float(y.min()), float(y.max())
        return brentq(lambda b: self.gradient(y, b, weight).sum(), low, high) if low < high else low

    def dual(self, y, z, weight, shrink):
        """Dual value without the penalty's conjugate, at `shrink` times the dual point of z."""
        theta = shrink * np.clip(y - z, -self.delta, self.delta)
        return float(np.dot(weight, theta * y - 0.5 * theta**2))
