"""Half the squared error."""

from dataclasses import dataclass

import numpy as np

from mmtfl.objective.losses.loss import Loss


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
