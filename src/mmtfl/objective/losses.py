"""Losses: formulas on the linear predictor z of some rows, never on X; docs/model.md eq. (1)."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit, xlogy


class Loss(Protocol):
    """What the solvers ask of a loss; `weight` has one entry per row and holds the 1/n of eq. (1)."""

    curvature: float
    is_quadratic: bool

    def value(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> float: ...
    def gradient(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray: ...
    def hessian(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray: ...
    def majorant(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray: ...
    def null_intercept(self, y: np.ndarray, weight: np.ndarray) -> float: ...
    def dual(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray, shrink: float) -> float: ...


@dataclass(frozen=True)
class Squared:
    """Half the squared error.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().value(np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5]))
    1.0
    """

    curvature = 1.0  # bound on the second derivative in z: it sets the step
    is_quadratic = True  # so one least-squares model serves the whole fit

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses."""
        return 0.5 * float(np.dot(weight, (y - z) ** 2))

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return weight * (z - y)

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return weight

    def majorant(self, y, z, weight):
        """Least second derivative of a parabola that touches the loss at z and lies above it, row by row."""
        return weight

    def null_intercept(self, y, weight):
        """Best constant prediction."""
        return float(np.dot(weight, y) / weight.sum())

    def dual(self, y, z, weight, shrink):
        """Dual value without the penalty's conjugate, at `shrink` times the dual point of z; eq. (9)."""
        theta = shrink * (y - z)
        return float(np.dot(weight, theta * y - 0.5 * theta**2))


@dataclass(frozen=True)
class Logistic:
    """Logistic loss, labels in {-1, +1}.

    Examples
    --------
    >>> import numpy as np
    >>> round(Logistic().value(np.array([1.0, -1.0]), np.zeros(2), np.array([0.5, 0.5])), 6)
    0.693147
    """

    curvature = 0.25
    is_quadratic = False

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses."""
        return float(np.dot(weight, np.logaddexp(0.0, -y * z)))

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return -weight * y * expit(-y * z)

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return weight * expit(z) * expit(-z)

    def majorant(self, y, z, weight):
        """Least second derivative of a parabola that touches the loss at z and lies above it, row by row."""
        size = np.maximum(np.abs(z), 1e-8)  # at zero the ratio is 1/4
        return weight * np.tanh(0.5 * size) / (2.0 * size)

    def null_intercept(self, y, weight):
        """Best constant prediction: the log odds."""
        positive = float(weight[y > 0].sum())
        return float(np.log(positive) - np.log(float(weight.sum()) - positive))

    def dual(self, y, z, weight, shrink):
        """Dual value without the penalty's conjugate, at `shrink` times the dual point of z; eq. (9)."""
        theta = shrink * expit(-y * z)
        return float(-np.dot(weight, xlogy(theta, theta) + xlogy(1.0 - theta, 1.0 - theta)))
