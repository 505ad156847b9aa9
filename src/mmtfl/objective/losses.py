"""Losses: formulas on the linear predictor z of some rows, never on X; docs/model.md eq. (1)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

_LEAST_SHARE = 1e-40  # of a class, in log odds


class Loss(ABC):
    """What is asked of a loss; `weight` has one entry per row and holds the 1/n of eq. (1).

    A loss with a parameter is a frozen dataclass that has it as a field. What has a default here serves any
    smooth convex loss.
    """

    curvature: float | None = None  # bound on the second derivative in z; None where there is none
    is_quadratic = False  # whether one least-squares model serves the whole fit
    has_dual = False  # whether `dual` is known, so that a duality gap is
    targets = "numbers"  # what targets must be, for error messages

    @abstractmethod
    def value(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> float:
        """Weighted sum of the rows' losses; never negative, and zero where no prediction can be better."""

    @abstractmethod
    def gradient(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Derivative in z, row by row."""

    @abstractmethod
    def hessian(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Second derivative in z, row by row."""

    @abstractmethod
    def null_intercept(self, y: np.ndarray, weight: np.ndarray) -> float:
        """Best constant prediction on the scale of z."""

    def mean(self, z: np.ndarray) -> np.ndarray:
        """Expected target at z: the inverse link."""
        return z

    def is_valid(self, y: np.ndarray) -> np.ndarray:
        """Which targets the loss is defined for."""
        return np.isfinite(y)

    def majorant(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Second derivative, row by row, of a parabola that touches the loss at z and lies above it.

        Where no parabola lies above the loss everywhere, of one that does within a distance of 1 or so.
        """
        if self.curvature is not None:
            return self.curvature * weight
        return np.maximum(self.hessian(y, z - 1.0, weight), self.hessian(y, z + 1.0, weight))

    def shift_range(self, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each row, two shifts of z between which its loss is least."""
        gap = np.abs(y - z)
        return -gap, gap

    def dual(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray, shrink: float) -> float:
        """Dual value without the penalty's conjugate, at `shrink` times the dual point of z; eq. (9)."""
        return -np.inf


@dataclass(frozen=True)
class Squared(Loss):
    """Half the squared error.

    Examples
    --------
    >>> import numpy as np
    >>> Squared().value(np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5]))
    1.0
    """

    curvature = 1.0
    is_quadratic = True
    has_dual = True

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses."""
        return 0.5 * float(np.dot(weight, (y - z) ** 2))

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return weight * (z - y)

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return weight

    def null_intercept(self, y, weight):
        """Weighted mean."""
        return float(np.dot(weight, y) / weight.sum())

    def dual(self, y, z, weight, shrink):
        """Dual value without the penalty's conjugate, at `shrink` times the dual point of z; eq. (9)."""
        theta = shrink * (y - z)
        return float(np.dot(weight, theta * y - 0.5 * theta**2))


@dataclass(frozen=True)
class Logistic(Loss):
    """Logistic loss, labels in {-1, +1}.

    Examples
    --------
    >>> import numpy as np
    >>> round(Logistic().value(np.array([1.0, -1.0]), np.zeros(2), np.array([0.5, 0.5])), 6)
    0.693147
    """

    curvature = 0.25
    has_dual = True
    targets = "two classes"

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses."""
        return float(np.dot(weight, np.logaddexp(0.0, -y * z)))

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return -weight * y * expit(-y * z)

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return weight * expit(z) * expit(-z)

    def null_intercept(self, y, weight):
        """The log odds."""
        total, positive = float(weight.sum()), float(weight[y > 0].sum())
        negative = total - positive
        if negative < 1e-6 * total:  # the difference is mostly rounding
            negative = float(weight[y <= 0].sum())
        least = _LEAST_SHARE * total
        return float(np.log(max(positive, least)) - np.log(max(negative, least)))

    def mean(self, z):
        """Probability of the second class."""
        return expit(z)

    def is_valid(self, y):
        """Which targets are -1 or +1."""
        return np.abs(y) == 1.0

    def majorant(self, y, z, weight):
        """Second derivative of the flattest parabola that touches the loss at z and lies above it."""
        size = np.maximum(np.abs(z), 1e-8)  # at zero the ratio is 1/4
        return weight * np.tanh(0.5 * size) / (2.0 * size)

    def shift_range(self, y, z):
        """Beyond these shifts a row is as good as certain of its class."""
        reach = np.abs(z) + 60.0
        return -reach, reach

    def dual(self, y, z, weight, shrink):
        """Dual value without the penalty's conjugate, at `shrink` times the dual point of z; eq. (9)."""
        theta = shrink * expit(-y * z)
        return float(-np.dot(weight, xlogy(theta, theta) + xlogy(1.0 - theta, 1.0 - theta)))
