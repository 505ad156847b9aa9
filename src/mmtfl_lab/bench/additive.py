"""The additive models A = P + Q of the benchmark: their pairs of norms, and the judge of their parts.

As in `mmtfl_lab.bench.judge`, no library is asked for a number, ours included; equation numbers are those of
docs/additive.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

import mmtfl
from mmtfl_lab.bench.judge import dual_value, loss_value
from mmtfl_lab.bench.problems import RaggedTasks


@dataclass(frozen=True)
class PartNorm:
    """A norm of a part (d, T).

    Attributes
    ----------
    value, dual : function
        The norm and its dual norm, written out.
    conic : function
        ``conic(cvxpy, part)``: the norm as an expression of cvxpy.
    """

    value: Callable[[np.ndarray], float]
    dual: Callable[[np.ndarray], float]
    conic: Callable[[Any, Any], Any]


ROWS = PartNorm(
    lambda part: np.linalg.norm(part, axis=1).sum(),
    lambda part: np.linalg.norm(part, axis=1).max(),
    lambda cp, part: cp.sum(cp.norm(part, 2, axis=1)),
)
PEAKS = PartNorm(
    lambda part: np.abs(part).max(axis=1).sum(),
    lambda part: np.abs(part).sum(axis=1).max(),
    lambda cp, part: cp.sum(cp.max(cp.abs(part), axis=1)),
)
ENTRIES = PartNorm(
    lambda part: np.abs(part).sum(),
    lambda part: np.abs(part).max(),
    lambda cp, part: cp.sum(cp.abs(part)),
)
COLUMNS = PartNorm(
    lambda part: np.linalg.norm(part, axis=0).sum(),
    lambda part: np.linalg.norm(part, axis=0).max(),
    lambda cp, part: cp.sum(cp.norm(part, 2, axis=0)),
)
TRACE = PartNorm(
    lambda part: float(np.linalg.norm(part, "nuc")),
    lambda part: float(np.linalg.norm(part, 2)),
    lambda cp, part: cp.normNuc(part),
)


@dataclass(frozen=True)
class Pair:
    """One model: the norms of P and Q, our estimator of two strengths, and its name for Q."""

    name: str
    shared: PartNorm
    specific: PartNorm
    model: Callable[..., Any]
    second: str


PAIRS = (
    Pair("l2,1+l1", ROWS, ENTRIES, partial(mmtfl.DirtyRegressor, p=2), "specific_"),
    Pair("dirty", PEAKS, ENTRIES, mmtfl.DirtyRegressor, "specific_"),
    Pair("rMTFL", ROWS, COLUMNS, mmtfl.RobustRegressor, "outlier_"),
    Pair("low rank", TRACE, COLUMNS, mmtfl.LowRankRegressor, "outlier_"),
)


@dataclass(frozen=True)
class AdditiveProblem:
    """What a library is asked: a pair of norms, both strengths at a share of their critical values.

    Coefficients are P and Q as one array (2, d, T), and the intercepts (T,).

    Attributes
    ----------
    data : RaggedTasks
        The tasks; squared loss.
    pair : Pair
        The model.
    share : float
        Of the critical strengths.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.bench.additive import PAIRS, AdditiveProblem
    >>> from mmtfl_lab.bench.problems import RaggedTasks
    >>> data = RaggedTasks(np.eye(2), np.array([3.0, 4.0]), np.array([0, 0]))
    >>> problem = AdditiveProblem(data, PAIRS[0], share=0.5)
    >>> problem.alphas.tolist()  # half of the largest |x_j . y| / n
    [[1.0, 1.0]]
    >>> parts = np.array([[[1.0], [0.0]], [[0.0], [2.0]]])
    >>> problem.objectives([(parts, np.zeros(1))]).tolist()  # (4 + 4) / 2 / n + 1 + 2
    [5.0]
    """

    data: RaggedTasks
    pair: Pair
    share: float
    is_convex = True

    @property
    def shares(self) -> np.ndarray:
        """The one share."""
        return np.array([self.share])

    @cached_property
    def alphas(self) -> np.ndarray:
        """The two strengths, (1, 2)."""
        slope = self.data.centred(self.data.y) if self.data.fit_intercept else self.data.y
        gradient = self.data.correlate(slope) / self.data.mean_size
        return self.share * np.array([[norm.dual(gradient) for norm in self._norms]])

    @property
    def _norms(self) -> tuple[PartNorm, PartNorm]:
        return self.pair.shared, self.pair.specific

    def objectives(self, found: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Objective (1) at the parts and intercepts."""
        return np.array([self._objective(parts, b) for parts, b in found])

    def relative_gap(self, found: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
        """Duality gap (3), relative to the objective: the minimum is below it by at most this share."""
        ((parts, b),) = found
        data = self.data
        slope = data.y - data.predict(parts.sum(axis=0), b)
        if data.fit_intercept:
            slope = data.centred(slope)  # the dual point must not correlate with a constant
        gradient = data.correlate(slope) / data.mean_size
        tiny = np.finfo(float).tiny
        limits = (
            alpha / max(norm.dual(gradient), tiny)
            for norm, alpha in zip(self._norms, self.alphas[0], strict=True)
        )
        value = self._objective(parts, b)
        return (value - dual_value(data, slope * min(1.0, *limits)) / data.mean_size) / value

    def rows_kept(self, found: Sequence[tuple[np.ndarray, np.ndarray]]) -> int:
        """Rows of P that are not zero."""
        return int(np.count_nonzero(found[-1][0][0].any(axis=1)))

    def _objective(self, parts: np.ndarray, b: np.ndarray) -> float:
        penalties = (
            alpha * norm.value(part)
            for norm, alpha, part in zip(self._norms, self.alphas[0], parts, strict=True)
        )
        loss = loss_value(self.data, self.data.predict(parts.sum(axis=0), b))
        return loss / self.data.mean_size + float(sum(penalties))
