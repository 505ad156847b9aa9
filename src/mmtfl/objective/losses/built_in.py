"""The losses of the library: squared error, Huber, and the likelihoods of two classes and of counts."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from mmtfl.objective.losses.loss import LEAST, Loss


@dataclass(frozen=True)
class Squared(Loss):
    """Half the squared error.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().value(np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5]))
    1.0
    """

    name = "squared"
    curvature = 1.0
    is_quadratic = on_residuals = has_dual = True

    def value(self, y, z, weight):
        return 0.5 * float(np.dot(weight, (y - z) ** 2))

    def gradient(self, y, z, weight):
        return weight * (z - y)

    def hessian(self, y, z, weight):
        return weight

    def null_intercepts(self, y, weight, offsets):
        starts = offsets[:-1]
        return np.add.reduceat(weight * y, starts) / np.add.reduceat(weight, starts)

    def dual(self, y, z, weight, shrink):
        theta = shrink * (y - z)
        return float(np.dot(weight, theta * y - 0.5 * theta**2))


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


@dataclass(frozen=True)
class Poisson(Loss):
    """Half the deviance of counts with the mean exp(z): exp(z) - y z + y log y - y."""

    name, targets = "poisson", "counts, which are not negative"
    has_dual = True

    def value(self, y, z, weight):
        return float(np.dot(weight, self._rows(y, z)))

    def gradient(self, y, z, weight):
        return weight * (self.mean(z) - y)

    def hessian(self, y, z, weight):
        return weight * self.mean(z)

    def task_values(self, y, z, weight, offsets):
        return np.add.reduceat(weight * self._rows(y, z), offsets[:-1])

    def mean(self, z):
        return np.exp(np.minimum(z, 300.0))  # beyond, sums of squares could leave the floats

    def _rows(self, y, z):
        beyond = 1.0 + np.maximum(z - 300.0, 0.0)  # there the loss goes on as a line
        return self.mean(z) * beyond - y * z + xlogy(y, y) - y

    def is_valid(self, y):
        return np.isfinite(y) & (y >= 0.0)

    def link(self, y):
        return np.log(np.maximum(y, LEAST))

    def dual(self, y, z, weight, shrink):
        mean = y + shrink * (self.mean(z) - y)
        return float(np.dot(weight, mean - xlogy(mean, mean) + xlogy(y, y) - y))
