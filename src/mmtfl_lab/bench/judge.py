"""What every library is judged by: objective (2) and its duality gap, from coefficients alone.

Nothing here calls a library, ours included; equation numbers are those of docs/model.md.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, xlogy

from mmtfl_lab.bench.problems import Data


def objective(data: Data, A: np.ndarray, b: np.ndarray, *, p: float, k: float, alpha: float) -> float:
    """Objective (2) at coefficients A (d, T) and intercepts b (T,); finite p and k.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.bench.judge import objective
    >>> from mmtfl_lab.bench.problems import SharedTasks
    >>> data = SharedTasks(np.eye(2), np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> objective(data, np.zeros((2, 2)), np.zeros(2), p=2, k=2, alpha=1.0)  # (9 + 16) / 2 / n
    6.25
    >>> objective(data, np.array([[3.0, 4.0], [0.0, 0.0]]), np.zeros(2), p=2, k=2, alpha=1.0)
    5.0
    """
    z = data.predict(A, b)
    S = np.sum(np.abs(A) ** p, axis=1)
    return loss_value(data, z) / data.mean_size + alpha * float(np.sum(S ** (k / (p + k))))


def relative_gap(data: Data, A: np.ndarray, b: np.ndarray, *, alpha: float) -> float:
    """Duality gap (9) of the member (2, 2), relative to the objective there.

    The objective exceeds its minimum by at most this share: the certificate of the reference.
    """
    if data.fit_intercept and data.loss == "logistic":
        raise ValueError("No certificate is written for logistic tasks with intercepts.")
    z = data.predict(A, b)
    slope = data.y - z if data.loss == "squared" else data.y - expit(z)
    if data.fit_intercept:
        slope = data.centred(slope)  # the dual point must not correlate with a constant
    norms = np.linalg.norm(data.correlate(slope) / data.mean_size, axis=1)
    theta = slope * min(1.0, alpha / max(float(norms.max()), np.finfo(float).tiny))
    value = objective(data, A, b, p=2, k=2, alpha=alpha)
    return (value - dual_value(data, theta) / data.mean_size) / value


def largest_alpha(data: Data) -> float:
    """The smallest alpha whose (2, 2) solution is zero."""
    null = data.y if data.loss == "squared" else data.y - 0.5
    slope = data.centred(null) if data.fit_intercept else null
    return float(np.linalg.norm(data.correlate(slope), axis=1).max() / data.mean_size)


def loss_value(data: Data, z: np.ndarray) -> float:
    """Sum of the losses at the linear predictor."""
    if data.loss == "squared":
        return 0.5 * float(np.sum((data.y - z) ** 2))
    return float(np.sum(np.logaddexp(0.0, z) - data.y * z))  # labels 0 and 1


def dual_value(data: Data, theta: np.ndarray) -> float:
    """The dual objective of eq. (9) at a dual point, not yet divided by n."""
    if data.loss == "squared":
        return float(np.sum(theta * data.y - 0.5 * theta**2))
    size = np.abs(theta)  # the probability, under the scaled model, of the label that was not seen
    return -float(np.sum(xlogy(size, size) + xlogy(1.0 - size, 1.0 - size)))
