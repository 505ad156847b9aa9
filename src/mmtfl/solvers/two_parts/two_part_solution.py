"""What the additive solver returns."""

from dataclasses import dataclass

import numpy as np

from mmtfl.solvers.solution import Solution


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
