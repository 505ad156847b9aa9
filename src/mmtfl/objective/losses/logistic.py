"""The logistic loss of two classes."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from mmtfl.objective.losses.loss import LEAST, Loss


@dataclass(frozen=True)
class Logistic(Loss):
    """Log-likelihood of two classes with the logit link; labels are -1 and +1, or 0 and 1 `from_zero`."""

    from_zero: bool = False
    name, targets = "logistic", "0 or 1"
    has_classes = has_dual = True
    curvature, reach = 0.25, 60.0

    def _sign(self, y):
        return 2.0 * y - 1.0 if self.from_zero else y

    def value(self, y, z, weight):
        return float(np.dot(weight, np.logaddexp(0.0, -self._sign(y) * z)))

    def gradient(self, y, z, weight):
        y = self._sign(y)
        return -weight * y * expit(-y * z)

    def hessian(self, y, z, weight):
        return weight * expit(z) * expit(-z)

    def null_intercepts(self, y, weight, offsets):
        positive, negative = (
            np.add.reduceat(np.where(own, weight, 0.0), offsets[:-1]) for own in (y > 0, y <= 0)
        )
        least = LEAST * (positive + negative)
        return np.log(np.maximum(positive, least)) - np.log(np.maximum(negative, least))

    def task_values(self, y, z, weight, offsets):
        return np.add.reduceat(weight * np.logaddexp(0.0, -self._sign(y) * z), offsets[:-1])

    def mean(self, z):
        return expit(z)

    def link(self, y):
        return np.zeros_like(y)  # every row's best z is infinite: `reach` is as good

    def is_valid(self, y):
        return np.abs(self._sign(y)) == 1.0

    def majorant(self, y, z, weight):
        size = np.maximum(np.abs(z), 1e-8)  # at zero the ratio is 1/4
        return weight * np.tanh(0.5 * size) / (2.0 * size)

    def dual(self, y, z, weight, shrink):
        theta = shrink * expit(-self._sign(y) * z)
        return float(-np.dot(weight, xlogy(theta, theta) + xlogy(1.0 - theta, 1.0 - theta)))
