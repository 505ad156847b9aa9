"""The penalty of the additive family: a norm of P and a norm of Q, at A = P + Q."""

from dataclasses import dataclass

import numpy as np

from mmtfl.objective.norms import Norm
from mmtfl.objective.problem import Problem


@dataclass(frozen=True)
class TwoNorms:
    """A norm of P plus a norm of Q; docs/additive.md eq. (1).

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.objective.norms import EntryNorm, RowNorm
    >>> TwoNorms(RowNorm(1.0), EntryNorm(0.5)).value(np.array([[3.0, 4.0]]), np.array([[0.0, 2.0]]))
    6.0
    """

    shared: Norm
    specific: Norm

    def at(self, first: float, second: float) -> "TwoNorms":
        """The same norms at other strengths."""
        return TwoNorms(self.shared.at(first), self.specific.at(second))

    def value(self, P: np.ndarray, Q: np.ndarray) -> float:
        """Both penalties."""
        return self.shared.value(P) + self.specific.value(Q)

    def violation(self, P: np.ndarray, Q: np.ndarray, gradient: np.ndarray, curvature: float) -> float:
        """How far a prox step of that curvature would move either part, in units of the gradient; eq. (4)."""
        step = 1.0 / curvature
        moves = (
            np.abs(part - norm.prox(part - step * gradient, step)).max(initial=0.0)
            for part, norm in ((P, self.shared), (Q, self.specific))
        )
        return curvature * float(max(moves))

    def dual_gap(
        self, problem: Problem, P: np.ndarray, Q: np.ndarray, z: np.ndarray, gradient: np.ndarray
    ) -> float:
        """Duality gap at predictor z with optimal intercepts; eq. (3).

        The dual point must lie in both dual balls: one factor brings it there.
        """
        primal = problem.loss_value(z) + self.value(P, Q)
        shrink = 1.0
        for norm in (self.shared, self.specific):
            size = norm.dual_norm(gradient)
            if size > norm.alpha:
                shrink = min(shrink, norm.alpha / size)
        return max(primal - problem.dual_value(z, shrink), 0.0)

    def critical_strengths(self, problem: Problem) -> tuple[float, float]:
        """The smallest strengths that together leave A = 0; 1 where the data has nothing to say."""
        gradient = problem.null_gradient
        if not gradient.any():
            return 1.0, 1.0
        return self.shared.dual_norm(gradient), self.specific.dual_norm(gradient)
