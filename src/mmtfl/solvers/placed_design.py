"""The design of tasks that are elsewhere: the same questions as to a `Design`, answered by the shards.

Targets and weights of the rows come here when they are first asked for, and columns when they are gathered.
So row descent can work on the few features that are left after the passes of Algorithm 1, if they fit.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np

from mmtfl.data.rows import offsets_of
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.objective import Objective
from mmtfl.objective.penalties import LogRows, RowPower
from mmtfl.solvers import shard_rows
from mmtfl.solvers.placed import Placed
from mmtfl.solvers.solution import Solution

_MORE = 32
_EXACT = 1e-26  # share of the loss, about the square of the rounding of floats


class PlacedDesign(Design):
    """Columns and rows of tasks that an engine keeps.

    Parameters
    ----------
    placed : Placed
        Where the tasks are, and how they are seen.
    n_tasks : int
        Number of tasks.
    n_rows : int
        Number of rows of all tasks.
    room : int
        Bytes of columns that may be gathered here.
    """

    is_complete = False  # every task has rows of its own

    def __init__(self, placed: Placed, n_tasks: int, n_rows: int, room: int):
        self._n_rows, self._room = n_rows, room
        self.placed, self.n_tasks, self.n_features = placed, n_tasks, placed.n_features
        spec = placed.spec
        self.fit_intercept, self.mean_size = spec.fit_intercept, spec.mean_size
        scale = np.ones(self.n_features) if spec.column_scale is None else spec.column_scale
        self.inverse_scale = 1.0 / scale

    def can_gather(self, n_columns: int) -> bool:
        """Whether that many columns, and a few more that row descent may ask for, fit here."""
        return 8 * self._n_rows * 2 * (n_columns + _MORE) <= self._room

    @cached_property
    def _rows(self) -> shard_rows.Rows:
        answers = self.placed.ask(shard_rows.rows, name="rows")
        return shard_rows.Rows(*(np.concatenate(column) for column in zip(*answers, strict=True)))

    @property
    def y(self) -> np.ndarray:
        """Targets of all tasks, stacked."""
        return self._rows.y

    @property
    def row_weight(self) -> np.ndarray:  # type: ignore[override]
        """Weights of all rows."""
        return self._rows.row_weight

    @cached_property
    def offsets(self) -> np.ndarray:  # type: ignore[override]
        """Where the rows of each task begin, and the last ones end."""
        return offsets_of(self._rows.lengths)

    def correlate(self, v: np.ndarray) -> np.ndarray:
        """X_t.T @ v_t for every task, as (n_features, n_tasks)."""
        bounds = self.offsets[[*self.placed.firsts, self.n_tasks]]
        parts = [v[lo:hi] for lo, hi in pairwise(bounds)]
        return _stacked(self.placed.ask(shard_rows.correlate, parts, name="correlate"))

    @cached_property
    def curvature(self) -> np.ndarray:
        """Weighted square sum of every (centred) column in every task, (n_features, n_tasks)."""
        return _stacked(self.placed.ask(shard_rows.curvature, name="curvature"))

    def gather(self, index: np.ndarray, out: np.ndarray, *, expand: bool) -> None:
        """Write some columns into the rows of out."""
        wanted = [np.asarray(index, dtype=np.intp)] * len(self.placed.shards)
        np.concatenate(self.placed.ask(shard_rows.gather, wanted, name="gather"), axis=1, out=out)


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(np.concatenate(parts).T)


def placed_objective(design: PlacedDesign, loss: Loss, penalty: RowPower | LogRows) -> Objective:
    """The objective of tasks elsewhere; what it needs of their rows at A = 0 is summed up there."""
    objective, placed, n_tasks = Objective(design, loss, penalty), design.placed, design.n_tasks
    answers = placed.ask(shard_rows.null, name="null")
    null = shard_rows.Null(*(np.concatenate(column) for column in zip(*answers, strict=True)))
    steepest, known = float(null.steepest.max()), objective.__dict__
    known["null_intercept"] = null.intercept if placed.spec.fit_intercept else np.zeros(n_tasks)
    known["null_value"] = float(null.loss.sum())
    if known["null_value"] <= _EXACT * float(null.bare_loss.sum()):
        steepest = 0.0  # the intercepts explain y: the rest is rounding
    known["scale"] = steepest or max(1.0, float(null.largest_y.max()))
    known["steepest"] = steepest
    return objective


def judged(objective: Objective, held: list, A: np.ndarray, intercept: np.ndarray, *, tol: float, history):
    """The solution at coefficients that no one will improve any more, with its distance to stationarity."""
    placed, penalty = objective.design.placed, objective.penalty
    answers = placed.ask(shard_rows.judge, held, name="judge")
    gradient = _stacked([answer.gradient for answer in answers])
    value = float(np.concatenate([answer.loss for answer in answers]).sum()) + penalty.value(A)
    violation = float(objective.row_violation(A, gradient).max(initial=0.0)) / objective.scale
    if objective.design.fit_intercept:
        slopes = np.concatenate([answer.intercept_slope for answer in answers])
        violation = max(violation, float(np.abs(slopes).max()))
    gap = None
    if isinstance(penalty, RowPower) and penalty.is_convex:
        gap = _dual_gap(objective, penalty, held, value, penalty.dual_norm(gradient))
    converged = violation <= tol and (gap is None or gap <= tol * objective.null_value)
    return Solution(A, intercept, value, violation, gap, len(history), history, converged, "alternating")


def _dual_gap(objective: Objective, penalty: RowPower, held: list, value: float, norms: np.ndarray) -> float:
    """Eq. (9) from the shards' dual values."""
    placed = objective.design.placed
    best = -np.inf
    for shrink in objective.dual_scales(norms):
        parts = placed.ask(shard_rows.dual, held, [shrink] * len(placed.shards), name="dual")
        best = max(best, float(np.concatenate(parts).sum()) - penalty.conjugate(shrink * norms))
    return max(value - best, 0.0)
