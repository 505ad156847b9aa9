"""A new loss: the gamma loss of positive amounts, such as costs and waiting times, with the log link."""

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from mmtfl.objective.losses import Loss


@dataclass(frozen=True)
class Gamma(Loss):
    """Half the deviance of amounts with the mean exp(z): y exp(-z) + z - log y - 1."""

    name, targets = "gamma", "amounts above zero"
    has_dual = True  # so a duality gap tells how far a convex fit is from its minimum

    def value(self, y, z, weight):
        return float(np.dot(weight, y / self.mean(z) + z - np.log(y) - 1.0))

    def gradient(self, y, z, weight):
        return weight * (1.0 - y / self.mean(z))

    def hessian(self, y, z, weight):
        return weight * y / self.mean(z)

    def mean(self, z):
        return np.exp(np.clip(z, -300.0, 300.0))  # beyond, squares could leave the floats

    def link(self, y):
        return np.log(y)

    def is_valid(self, y):
        return np.isfinite(y) & (y > 0.0)

    def dual(self, y, z, weight, shrink):
        ratio = 1.0 + shrink * (y / self.mean(z) - 1.0)
        return float(np.dot(weight, (ratio - 1.0) * np.log(y) + ratio - 1.0 - xlogy(ratio, ratio)))
