"""The design of tasks that are elsewhere: the same questions as to a `Design`, answered by the shards.

Targets and weights of the rows come here when they are first asked for, and columns when they are gathered.
So row descent can work on the few features that are left after the passes of Algorithm 1, if they fit.
"""

from functools import cached_property
from itertools import pairwise

import numpy as np

from mmtfl.objective.design import Design, is_moderate, nearest_powers_of_two
from mmtfl.objective.problem import Problem
from mmtfl.solvers.distributed import shards
from mmtfl.solvers.distributed.placed import Placed
from mmtfl.tasks.grouping import offsets_of

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

    def seen_by(self, placed: Placed) -> "PlacedDesign":
        """The same tasks, seen in another way."""
        return PlacedDesign(placed, self.n_tasks, self._n_rows, self._room)

    @cached_property
    def _rows(self) -> shards.Rows:
        return shards.Rows(*self.placed.ask_tasks(shards.rows, name="rows"))

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
        return _stacked(self.placed.ask(shards.correlate, parts, name="correlate"))

    @cached_property
    def curvature(self) -> np.ndarray:
        """Weighted square sum of every (centred) column in every task, (n_features, n_tasks)."""
        return _stacked(self.placed.ask(shards.curvature, name="curvature"))

    def gather(self, index: np.ndarray, out: np.ndarray, *, expand: bool) -> None:
        """Write some columns into the rows of out."""
        wanted = [np.asarray(index, dtype=np.intp)] * len(self.placed.shards)
        np.concatenate(self.placed.ask(shards.gather, wanted, name="gather"), axis=1, out=out)


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(np.concatenate(parts).T)


class PlacedProblem(Problem):
    """A problem whose rows are elsewhere: what it needs of them at A = 0 is summed up there."""

    design: PlacedDesign

    @cached_property
    def _null(self) -> shards.Null:
        return shards.Null(*self.design.placed.ask_tasks(shards.null, name="null"))

    @cached_property
    def null_intercept(self) -> np.ndarray:
        """Best intercepts when A = 0."""
        return self._null.intercept if self.design.fit_intercept else np.zeros(self.design.n_tasks)

    @cached_property
    def null_value(self) -> float:
        """The objective at A = 0, with the best intercepts."""
        return float(self._null.loss.sum())

    @cached_property
    def steepest(self) -> float:
        """The largest gradient entry at A = 0."""
        if self.null_value <= _EXACT * float(self._null.bare_loss.sum()):
            return 0.0  # the intercepts explain y: the rest is rounding
        return float(self._null.steepest.max())

    @cached_property
    def scale(self) -> float:
        """Unit of slopes."""
        return self.steepest or max(1.0, float(self._null.largest_y.max()))

    def moderated(self) -> tuple[Problem, np.ndarray | None]:
        """This problem, or the same in columns of moderate size; see `Problem.moderated`."""
        if is_moderate(self.steepest):
            return self, None
        placed = self.design.placed
        largest = np.max(placed.ask(shards.column_maxima, name="maxima"), axis=0)
        factor = nearest_powers_of_two(largest)
        scale = placed.spec.column_scale
        seen = placed.seen_as(column_scale=factor if scale is None else scale * factor)
        return PlacedProblem(self.design.seen_by(seen), self.loss), factor
