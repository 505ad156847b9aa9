"""Tasks whose rows an engine keeps: questions to all of them, their design and problem, and memory limits.

Targets and weights of the rows come here when they are first asked for, and columns when they are gathered.
So row descent can work on the few features that are left after the passes of Algorithm 1, if they fit.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from mmtfl.engines import Engine
from mmtfl.engines.threads import Streaming
from mmtfl.objective.design import Design, target_unit
from mmtfl.objective.losses.by_rows import TaskLoss
from mmtfl.objective.problem import EXACT, Problem
from mmtfl.objective.units import Units
from mmtfl.solvers import shards
from mmtfl.solvers.shards import Held, Reply, Shard, Spec, Update, split_evenly, total_norms
from mmtfl.tasks.grouping import offsets_of
from mmtfl.tasks.scaling import fill_with_median
from mmtfl.tasks.stored import StoredTasks

_MORE = 32  # columns that row descent may ask for beyond those that are kept
_FOR_DATA = 0.6  # share of the memory left for shards; the rest is for coefficients and for the finish
_SPARE = 100_000_000  # bytes that compiled code and libraries may still take
_FINISH = 1 << 30  # bytes of columns that row descent may gather, at most
_STEP = 0.25  # share of that for the shard that is being read, where not all stay


def joined(replies: list[Reply], update: Update, n_features: int) -> Reply:
    """What the shards said of a pass as a reply of all tasks, with numbers of all features.

    Sums are taken in the order of the tasks.
    """

    def spread(kept: np.ndarray) -> np.ndarray:
        out = np.zeros(n_features)
        out[update.kept] = kept
        return out

    losses, lengths, norms, effect, largest, moved, sums, is_exact = zip(*replies, strict=True)
    return Reply(
        np.concatenate(losses),
        [],
        spread(total_norms(list(zip(lengths, norms, strict=True)), update.p)),
        spread(np.max(effect, axis=0)),
        max(largest),
        max(moved),
        None if update.common is None else spread(total_norms(list(zip(lengths, sums, strict=True)), 1.0)),
        all(is_exact),
    )


class Placed:
    """Shards placed by an engine, in the order of the tasks, and how their tasks are seen.

    Parameters
    ----------
    engine : Engine
        Places and maps.
    sources : list of Source
        Runs of tasks, each of which is read where the engine places it.
    spec : Spec
        How the tasks are seen.
    n_features : int
        Number of features.
    """

    def __init__(self, engine: Engine, sources: list[Any], spec: Spec, n_features: int):
        self.engine, self.n_features = engine, n_features
        self.firsts = [source.first for source in sources]  # positions of the shards' first tasks
        self.shards = engine.place(shards.load_shard, sources, name="load")
        self._see(spec)

    def _see(self, spec: Spec) -> None:
        self.spec = spec
        self.specs = self.engine.place(shards.as_is, [spec], name="spec") * len(self.shards)

    @classmethod
    def of(cls, problem: Problem, engine: Engine) -> "Placed":
        """The tasks of a problem."""
        design = problem.design
        if design.placed is not None:
            return design.placed
        costs = np.diff(design.offsets) + 1.0
        sources = Shard.cut(design.tasks, split_evenly(costs, engine.n_slots))
        scale = 1.0 / design.inverse_scale
        spec = Spec(problem.given_loss, design.fit_intercept, design.mean_size, scale, None, name=uuid4().hex)
        return cls(engine, sources, spec, design.n_features)

    def seen_as(self, **changes) -> "Placed":
        """The same shards, seen in another way; they stay where they are."""
        other = copy(self)
        other._see(replace(self.spec, **changes, name=uuid4().hex))
        return other

    def ask(self, question, *columns, name: str) -> list:
        """Call question(shard, spec, ...) for every shard."""
        return self.engine.map(question, self.shards, self.specs, *columns, name=name)

    def ask_tasks(self, question, *columns, name: str) -> list[np.ndarray]:
        """Call a question that returns arrays with one entry per task, and join those of all shards."""
        answers = self.ask(question, *columns, name=name)
        return [np.concatenate(column) for column in zip(*answers, strict=True)]

    def pass_over(self, before: list, update: Update, number: int) -> tuple[list, Reply]:
        """One pass of Algorithm 1 from the coefficients held before; those held now, and the result."""
        updates = [update] * len(self.shards)
        pairs = self.engine.map(
            shards.run_pass, self.shards, self.specs, before, updates, keep=True, name=f"pass-{number}"
        )
        replies = self.engine.map(shards.reply_of, pairs, name=f"reply-{number}")
        return pairs, joined(replies, update, self.n_features)

    def hold(self, A: np.ndarray, intercept: np.ndarray | None) -> list:
        """Send every shard its coefficients, (n_tasks, n_features)."""
        ends = [*self.firsts[1:], len(A)]
        parts = [slice(lo, hi) for lo, hi in zip(self.firsts, ends, strict=True)]
        held = [(Held(A[part], None if intercept is None else intercept[part]), None) for part in parts]
        return self.engine.place(shards.as_is, held, name="coefficients")

    def bring_home(self, pairs: list) -> Held:
        """The coefficients of all tasks, (n_tasks, n_features), and their intercepts."""
        parts = self.engine.map(shards.held_by, pairs, name="gather")
        return Held(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def judge(self, pairs: list) -> tuple[np.ndarray, float, float]:
        """At the coefficients held: the gradient in A, the largest slope of an intercept, and the loss."""
        gradient, slope, loss = self.ask_tasks(shards.judge, pairs, name="judge")
        return np.ascontiguousarray(gradient.T), float(np.abs(slope).max()), float(loss.sum())

    def dual(self, pairs: list, shrink: float) -> float:
        """Dual value of the loss at `shrink` times the dual point of the coefficients held; eq. (9)."""
        parts = self.ask(shards.dual, pairs, [shrink] * len(self.shards), name="dual")
        return float(np.concatenate(parts).sum())


class PlacedDesign(Design):
    """Columns and rows of tasks that an engine keeps.

    Parameters
    ----------
    placed : Placed
        Where the tasks are, and how they are seen.
    labels : ndarray (n_tasks,)
        Labels of the tasks.
    n_rows : int
        Number of rows of all tasks.
    room : int
        Bytes of columns that may be gathered here.
    """

    is_complete = False  # every task has rows of its own
    known = None  # stored rows have no offsets

    def __init__(self, placed: Placed, labels: np.ndarray, n_rows: int, room: int):
        self._n_rows, self._room, self.labels = n_rows, room, labels
        self.placed, self.n_tasks, self.n_features = placed, len(labels), placed.n_features
        spec = placed.spec
        self.fit_intercept, self.mean_size = spec.fit_intercept, spec.mean_size
        scale = np.ones(self.n_features) if spec.column_scale is None else spec.column_scale
        self.inverse_scale = 1.0 / scale

    def can_gather(self, n_columns: int) -> bool:
        """Whether that many columns, and a few more that row descent may ask for, fit here."""
        return 8 * self._n_rows * 2 * (n_columns + _MORE) <= self._room

    def rescaled(self, factor: np.ndarray) -> "PlacedDesign":
        """The same rows, with columns divided by the factors."""
        return self._seen_as(column_scale=factor / self.inverse_scale)

    def with_target_unit(self, unit: float) -> "PlacedDesign":
        """The same rows, with targets divided by a unit."""
        known = self.placed.spec.target_scale
        return self._seen_as(target_scale=(np.ones(self.n_tasks) if known is None else known) * unit)

    def _seen_as(self, **changes) -> "PlacedDesign":
        return PlacedDesign(self.placed.seen_as(**changes), self.labels, self._n_rows, self._room)

    def levels(self) -> tuple[np.ndarray, np.ndarray]:
        """What is taken off columns, (n_features, n_tasks), and targets, in the units of this design."""
        columns, targets = self.placed.ask_tasks(shards.levels, name="levels")
        known = self.placed.spec.target_scale
        return columns.T * self.inverse_scale[:, None], targets if known is None else targets / known

    def column_maxima(self) -> np.ndarray:
        """The largest absolute entry of every column."""
        return np.max(self.placed.ask(shards.column_maxima, name="maxima"), axis=0) * self.inverse_scale

    def first_rows_maximum(self) -> float:
        """Nothing: each task has looked at its own first row."""
        return 0.0

    @cached_property
    def _rows(self) -> shards.Rows:
        return shards.Rows(*self.placed.ask_tasks(shards.rows, name="rows"))

    @property
    def y(self) -> np.ndarray:  # type: ignore[override]
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
    """A problem whose rows are elsewhere: what it needs of them at A = 0 is summed up there.

    Far levels of columns and targets are taken off where the rows are read.
    """

    design: PlacedDesign

    @cached_property
    def _null(self) -> shards.Null:
        return shards.Null(*self.design.placed.ask_tasks(shards.null, name="null"))

    @cached_property
    def _levelled(self) -> "tuple[Problem, Units] | None":
        unit = target_unit(float(self._null.largest_y.max())) if self.given_loss.is_quadratic else 1.0
        if unit == 1.0 and not self._null.is_far.any():
            return None
        levels = self.design.levels() if self._null.is_far.any() else (None, None)
        scaled = self if unit == 1.0 else PlacedProblem(self.design.with_target_unit(unit), self.given_loss)
        return scaled, Units(np.ones(self.design.n_features), unit, *levels)

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
        if self.null_value <= EXACT * float(self._null.bare_loss.sum()):
            return 0.0  # the intercepts explain y: the rest is rounding
        return float(self._null.steepest.max())

    @cached_property
    def scale(self) -> float:
        """Unit of slopes."""
        return self.steepest or max(1.0, float(self._null.largest_y.max()))


class OpenTasks:
    """Stored tasks, placed for one loss.

    Parameters
    ----------
    stored : StoredTasks
        The tasks.
    loss : Loss or LossPerTask
        For the squared loss, tasks with many rows are held as few; see `mmtfl.tasks.moments`.
    fit_intercept : bool
        Whether each task has a constant.
    engine : Engine, optional
        Where the tasks are read and kept; None is this process, within ``stored.memory_limit``.
    """

    def __init__(
        self, stored: StoredTasks, loss: TaskLoss, *, fit_intercept: bool, engine: Engine | None = None
    ):
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
        mean_size = float(stored.weight_sums.sum()) / stored.n_tasks
        spec = Spec(loss, fit_intercept, mean_size, column_scale=None, target_scale=None, name=uuid4().hex)
        self.placed = Placed(engine, sources, spec, stored.n_features)
        self.n_rows = int(stored.rows_held(compress=compress).sum())

    @cached_property
    def _moments(self) -> shards.ColumnMoments:
        return shards.ColumnMoments(*self.placed.ask_tasks(shards.column_moments, name="moments"))

    @property
    def could_use(self) -> np.ndarray:
        """Which tasks could use which features, (n_tasks, n_features)."""
        return self._moments.could_use

    @property
    def column_means(self) -> np.ndarray:
        """Mean of every column over the rows of every task, (n_tasks, n_features)."""
        return self._moments.mean[:, :-1]

    def spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviation of every column over all rows, and of every task's target.

        It is 1 for a constant column, and the median of the others for a constant target.
        """
        weight, mean, squares = self._moments[:3]
        total = weight.sum()
        centre = weight @ mean / total
        columns = np.sqrt((squares.sum(axis=0) + weight @ (mean - centre) ** 2) / total)[:-1]
        targets = np.sqrt(squares[:, -1] / weight)
        rounding = 10 * np.finfo(float).eps
        return (
            np.where(columns <= rounding * np.abs(centre[:-1]), 1.0, columns),
            fill_with_median(np.where(targets <= rounding * np.abs(mean[:, -1]), np.nan, targets)),
        )

    def problem(self, *, column_scale=None, target_scale=None) -> PlacedProblem:
        """The tasks in these units, for `solve`."""
        limit = self.stored.memory_limit
        # a part of what `plan` leaves; the same for every engine, so that all take the same way
        room = _FINISH if limit is None else min(_FINISH, limit // 8)
        placed = self.placed.seen_as(column_scale=column_scale, target_scale=target_scale, is_levelled=True)
        return PlacedProblem(PlacedDesign(placed, self.labels, self.n_rows, room), self.loss)


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
    stored: StoredTasks, needed: float, what: str, remedy: str, resident: Callable[[], int] | None = None
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
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 250_000_000
    import resource

    return pages * resource.getpagesize()
