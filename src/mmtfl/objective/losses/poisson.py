"""The Poisson loss of counts, with the log link."""

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from mmtfl.objective.losses.loss import LEAST, Loss


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the deviance of counts with the mean exp(z): exp(z) - y z + y log y - y."""

    name, targets = "poisson", "counts, which are not negative"
    has_dual = True

    def value(self, y, z, weight):
        return float(np.dot(weight, self.mean(z) - y * z + xlogy(y, y) - y))

    def gradient(self, y, z, weight):
        return weight * (self.mean(z) - y)

    def hessian(self, y, z, weight):
        return weight * self.mean(z)

    def task_values(self, y, z, weight, offsets):
        return np.add.reduceat(weight * (self.mean(z) - y * z + xlogy(y, y) - y), offsets[:-1])

    def mean(self, z):
        return np.exp(np.minimum(z, 300.0))  # beyond, sums of squares could leave the floats

    def is_valid(self, y):
        return np.isfinite(y) & (y >= 0.0)

    def link(self, y):
        return np.log(np.maximum(y, LEAST))

    def dual(self, y, z, weight, shrink):
        mean = y + shrink * (self.mean(z) - y)
        return float(np.dot(weight, mean - xlogy(mean, mean) + xlogy(y, y) - y))
