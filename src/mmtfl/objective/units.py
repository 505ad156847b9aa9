"""Units in which a problem is well scaled: nothing overflows, underflows or cancels; and the way back."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mmtfl.objective.penalties import RowPenalty

if TYPE_CHECKING:
    from mmtfl.objective.norms import TwoNorms


@dataclass(frozen=True)
class Units:
    """(X here) = column * (X there) + column_level, and y in the same way, task by task.

    Attributes
    ----------
    column : ndarray (n_features,)
        Powers of four, so that dividing by them and by their roots is exact.
    target : float
        A power of four.
    column_level : ndarray (n_features, n_tasks), or None
        What was taken off the columns; the intercepts take it up.
    target_level : ndarray (n_tasks,), or None
        What was taken off the targets.
    present : ndarray of bool (n_features here,), or None
        The columns that are there; the others have no entries, and so no coefficients. None: all of them.
    """

    column: np.ndarray
    target: float = 1.0
    column_level: np.ndarray | None = None
    target_level: np.ndarray | None = None
    present: np.ndarray | None = None

    def penalty(self, penalty: RowPenalty) -> RowPenalty:
        """The penalty there that costs as much as this one here."""
        penalty = penalty if self.present is None else penalty.of_rows(self.present)
        root = np.sqrt(self.target / self.column)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            # in extended precision, and half a step at a time: what is on the way may leave the floats
            alpha = np.asarray(penalty.alpha, dtype=np.longdouble)
            half = penalty.at(alpha / self.target).rescaled(root)
            there = half.at(half.alpha / self.target).rescaled(root)
            alpha = np.asarray(there.alpha, dtype=float)
            return there.at(
                alpha if alpha.ndim else float(alpha)
            )  # one strength of all rows is a plain number

    def norms(self, norms: "TwoNorms") -> "TwoNorms":
        """The same for two norms; all columns have one unit."""
        unit = float(self.column[0])
        if norms.known is not None and self.present is not None:
            norms = replace(norms, known=norms.known.of_rows(self.present))
        return norms.at(*(norm.alpha / self.target / unit for norm in (norms.shared, norms.specific)))

    def start(self, A: np.ndarray) -> np.ndarray:
        """Coefficients there, from those here."""
        return self._present(A) * (self.column / self.target)[:, None]

    def _present(self, A: np.ndarray) -> np.ndarray:
        return A if self.present is None else A[self.present]

    def place(self, A: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and intercepts there, from those here."""
        if self.column_level is not None:
            intercept = intercept + np.einsum("jt,jt->t", self.column_level, self._present(A))
        if self.target_level is not None:
            intercept = intercept - self.target_level
        return self.start(A), intercept / self.target

    def coefficients(self, A: np.ndarray) -> np.ndarray:
        """Coefficients here, from those there."""
        factor = (self.target / self.column)[:, None]
        if self.present is None:
            return A * factor
        kept = np.flatnonzero(A.any(axis=1))
        # zeros that are never written take no memory
        out = np.zeros((A.shape[1], len(self.present))).T
        out[np.flatnonzero(self.present)[kept]] = A[kept] * factor[kept]
        return out

    def intercept(self, intercept: np.ndarray, A: np.ndarray) -> np.ndarray:
        """Intercepts here, from those there and coefficients here."""
        intercept = intercept * self.target
        if self.target_level is not None:
            intercept = intercept + self.target_level
        if self.column_level is not None:
            intercept = intercept - np.einsum("jt,jt->t", self.column_level, self._present(A))
        return intercept

    def solution(self, solution: Any) -> Any:
        """A `Solution` here, from one there."""
        A, square = self.coefficients(solution.A), self.target * self.target  # inf, and no error
        changes = {"A": A, "intercept": self.intercept(solution.intercept, A)}
        with np.errstate(over="ignore", invalid="ignore"):
            changes["objective"] = solution.objective * square
            changes["history"] = solution.history * square
        if not math.isfinite(changes["objective"]):
            raise ValueError(
                "y has values so large that their squares leave the range of floats: measure it in other "
                "units, or use scale_targets=True."
            )
        if solution.dual_gap is not None:
            changes["dual_gap"] = solution.dual_gap * square
        if hasattr(solution, "shared"):
            parts = (self.coefficients(part) for part in (solution.shared, solution.specific))
            changes["shared"], changes["specific"] = parts
            changes["loss"] = solution.loss * square
        return replace(solution, **changes)
