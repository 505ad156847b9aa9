"""The additive objective: a loss at P + Q, a norm of P and a norm of Q."""

import numpy as np

from mmtfl.objective.additive.norms import Norm
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.objective import Objective


class AdditiveObjective(Objective):
    """(1/n) sum of losses at P + Q, plus a norm of P and a norm of Q; docs/additive.md eq. (1).

    Parameters
    ----------
    design : Design
        The data.
    loss : Loss
        The loss of a row.
    shared, specific : Norm
        Penalty of P and penalty of Q.
    """

    def __init__(self, design: Design, loss: Loss, shared: Norm, specific: Norm):
        self.design, self.loss = design, loss
        self.shared, self.specific = shared, specific

    def penalty_value(self, P: np.ndarray, Q: np.ndarray) -> float:
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

    def parts_gap(self, P: np.ndarray, Q: np.ndarray, z: np.ndarray, gradient: np.ndarray) -> float:
        """Duality gap at predictor z with optimal intercepts; eq. (3).

        The dual point must lie in both dual balls: one factor brings it there.
        """
        primal = self.loss_value(z) + self.penalty_value(P, Q)
        shrink = 1.0
        for norm in (self.shared, self.specific):
            size = norm.dual_norm(gradient)
            if size > norm.alpha:
                shrink = min(shrink, norm.alpha / size)
        dual = self.loss.dual(self.design.y, z, self.design.row_weight, shrink)
        return max(primal - dual, 0.0)

    def critical_strengths(self) -> tuple[float, float]:
        """The smallest strengths that together leave A = 0; 1 where the data has nothing to say."""
        gradient = self.null_gradient
        if not gradient.any():
            return 1.0, 1.0
        return self.shared.dual_norm(gradient), self.specific.dual_norm(gradient)
