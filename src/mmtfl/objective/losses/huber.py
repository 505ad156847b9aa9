"""The Huber loss: like the square near zero and like the absolute value beyond."""

from dataclasses import dataclass

import numpy as np

from mmtfl.objective.losses.loss import Loss


@dataclass(frozen=True)
class Huber(Loss):
    """r^2 / 2 where |r| <= delta, delta |r| - delta^2 / 2 beyond, with r = z - y."""

    delta: float = 1.35
    name, curvature = "huber", 1.0
    on_residuals = has_dual = True

    def value(self, y, z, weight):
        size = np.abs(z - y)
        near = np.minimum(size, self.delta)
        return float(np.dot(weight, near * (size - 0.5 * near)))

    def gradient(self, y, z, weight):
        return weight * np.clip(z - y, -self.delta, self.delta)

    def hessian(self, y, z, weight):
        return weight * (np.abs(z - y) <= self.delta)

    def majorant(self, y, z, weight):
        return weight * self.delta / np.maximum(np.abs(z - y), self.delta)

    def dual(self, y, z, weight, shrink):
        theta = shrink * np.clip(y - z, -self.delta, self.delta)
        return float(np.dot(weight, theta * y - 0.5 * theta**2))
