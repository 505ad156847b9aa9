"""Solving where the rows are: stored tasks placed by an engine, or by this process within a memory limit."""

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import numpy as np

from mmtfl.engines.base import Engine
from mmtfl.engines.threads import Streaming
from mmtfl.objective.losses import Loss
from mmtfl.solvers.distributed import shards
from mmtfl.solvers.distributed.placed import Placed
from mmtfl.solvers.distributed.placed_problem import PlacedDesign, PlacedProblem
from mmtfl.solvers.distributed.shards import Spec
from mmtfl.solvers.distributed.tree_sums import split_evenly
from mmtfl.tasks.stored import StoredTasks

_FOR_DATA = 0.6  # share of the memory left for shards; the rest is for coefficients and for the finish
_SPARE = 100_000_000  # bytes that compiled code and libraries may still take
_FINISH = 1 << 30  # bytes of columns that row descent may gather, at most
_STEP = 0.25  # share of that for the shard that is being read, where not all stay


class OpenTasks:
    """Stored tasks, placed for one loss.

    Parameters
    ----------
    stored : StoredTasks
        What there is.
    loss : Squared or Logistic
        For the squared loss, tasks with many rows are held as few; see `mmtfl.tasks.moments`.
    fit_intercept : bool
        Whether each task has a constant.
    engine : Engine, optional
        Where the tasks are read and kept; None is this process, within ``stored.memory_limit``.
    """

    def __init__(self, stored: StoredTasks, loss: Loss, *, fit_intercept: bool, engine: Engine | None = None):
        self.stored, self.loss = stored, loss
        self.labels, self.n_tasks, self.n_features = stored.labels, stored.n_tasks, stored.n_features
        self.sizes, self.fingerprint = stored.sizes, stored.fingerprint
        compress = loss.is_quadratic
        held = stored.bytes_held(compress=compress)
        if engine is None or engine.is_here:
            cuts, n_kept = plan(held, stored)
            engine = Streaming(len(cuts) - 1, n_kept)
        else:
            cuts = split_evenly(held, engine.n_slots)
        sources = [stored.part(int(lo), int(hi), compress=compress) for lo, hi in pairwise(cuts)]
        spec = Spec(
            loss=loss, fit_intercept=fit_intercept, column_scale=None, target_scale=None,
            mean_size=float(stored.weight_sums.sum()) / stored.n_tasks, name=uuid4().hex,
        )  # fmt: skip
        self.placed = Placed.load(engine, sources, spec, stored.n_features)
        self.n_rows = int(stored.rows_held(compress=compress).sum())

    @cached_property
    def _moments(self) -> shards.ColumnMoments:
        return shards.ColumnMoments(*self.placed.ask_tasks(shards.column_moments, name="moments"))

    @property
    def could_use(self) -> np.ndarray:
        """Which tasks could use which features, (n_tasks, n_features)."""
        return self._moments.could_use

    def spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviation of every column over all rows, and of every task's target; 1 if constant."""
        weight, mean, squares = self._moments[:3]
        total = weight.sum()
        centre = weight @ mean / total
        columns = np.sqrt((squares.sum(axis=0) + weight @ (mean - centre) ** 2) / total)[:-1]
        targets = np.sqrt(squares[:, -1] / weight)
        rounding = 10 * np.finfo(float).eps
        return (
            np.where(columns <= rounding * np.abs(centre[:-1]), 1.0, columns),
            np.where(targets <= rounding * np.abs(mean[:, -1]), 1.0, targets),
        )

    def problem(self, *, column_scale=None, target_scale=None) -> PlacedProblem:
        """The tasks in these units, for `solve`."""
        limit = self.stored.memory_limit
        # a part of what `plan` leaves; the same for every engine, so that all take the same way
        room = _FINISH if limit is None else min(_FINISH, limit // 8)
        placed = self.placed.seen_as(column_scale=column_scale, target_scale=target_scale)
        return PlacedProblem(PlacedDesign(placed, self.n_tasks, self.n_rows, room), self.loss)


def plan(held: np.ndarray, stored: StoredTasks, resident: Callable[[], int] | None = None):
    """Where to cut the tasks, and how many of the parts can stay in memory, for a fit in this process."""
    if stored.memory_limit is None:
        return np.array([0, stored.n_tasks]), 1
    t = int(np.argmax(held))
    remedy = "Raise memory_limit, or spread the work with engine=DaskEngine(client)."
    room = check_room(stored, held[t], f"Task {stored.labels[t].item()!r} alone", remedy, resident)
    if held.sum() <= room:
        return np.array([0, stored.n_tasks]), 1
    step = max(held[t], _STEP * room)
    cuts, taken, total, n_kept = [0], 0.0, 0.0, 0
    for t, size in enumerate(held):
        if taken + size > step:
            total += taken
            n_kept += total <= room - step
            cuts.append(t)
            taken = 0.0
        taken += size
    return np.array([*cuts, stored.n_tasks]), n_kept


def check_room(
    stored: StoredTasks,
    needed: float,
    what: str,
    remedy: str,
    resident: Callable[[], int] | None = None,
) -> float:
    """Bytes that the memory limit leaves for data; an error if that is less than something needs."""
    if stored.memory_limit is None:
        return np.inf
    used = (resident or resident_bytes)()
    room = _FOR_DATA * (stored.memory_limit - used - _SPARE)
    if needed > room:
        raise MemoryError(
            f"{what} needs about {_show(needed)}, and memory_limit={_show(stored.memory_limit)} leaves "
            f"{_show(max(room, 0.0))} for data (this process takes {_show(used)} already). {remedy}"
        )
    return room


def _show(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"


def resident_bytes() -> int:
    """Memory of this process now; where the system does not tell, what is usual."""
    from mmtfl.kernels import sweeps  # noqa: F401  (compiled code counts too)

    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 250_000_000
    import resource

    return pages * resource.getpagesize()
