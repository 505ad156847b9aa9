"""What every solver returns."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Solution:
    """A stationary point of the objective, and how it was reached.

    Attributes
    ----------
    A : ndarray (n_features, n_tasks)
        Coefficients, in the units the penalty sees.
    intercept : ndarray (n_tasks,)
        Intercept of each task.
    objective : float
        Value of eq. (2) at (A, intercept).
    violation : float
        Distance to stationarity, eq. (8), as a share of the largest gradient entry at A = 0.
    dual_gap : float or None
        Upper bound on objective - minimum; None for the concave members, which have no dual.
    n_iter : int
        Passes over the data.
    history : ndarray
        Objective after each pass.
    converged : bool
        Whether violation (and dual gap) came below the tolerance.
    solver : str
        The solver that found it.
    """

    A: np.ndarray
    intercept: np.ndarray
    objective: float
    violation: float
    dual_gap: float | None
    n_iter: int
    history: np.ndarray = field(repr=False)
    converged: bool
    solver: str


@dataclass(frozen=True, eq=False)
class AdditiveSolution(Solution):
    """A minimum of the additive objective: ``A = shared + specific``.

    Attributes
    ----------
    shared, specific : ndarray (n_features, n_tasks)
        P and Q, in the units the penalties see.
    loss : float
        The objective without the penalties.
    """

    shared: np.ndarray
    specific: np.ndarray
    loss: float
