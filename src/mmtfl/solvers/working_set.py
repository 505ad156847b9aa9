"""The few columns a solver works on: gathered once, in the layout of the kernels; docs/model.md section 6."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mmtfl.core import columns
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.penalties import RowPenalty
from mmtfl.solvers.bound_steps import MOST_BOUNDS, move_bounds
from mmtfl.solvers.extrapolation import MEMORY, Track
from mmtfl.solvers.group_sweeps import block_model, grams_of_columns

MANY_TASKS, _FEW_ROWS = 1000, 16  # more tasks of less rows in the mean are settled one by one, without Gram
_TASK_SWEEPS = 1000  # of one task on its own
_TASK_SHARE = 0.03  # accuracy of a task on its own, as a share of what the last sweep over rows moved
_ROOM = 4  # growth of the arrays: room that is never written to costs no memory
_NOTHING = np.empty(0)


@dataclass
class Model:
    """Row weights of a least-squares model, and what the columns are under them.

    Attributes
    ----------
    weight : ndarray (n_observations,)
        Second derivative of the loss in every observation.
    task_weight : ndarray (n_tasks,)
        Its sum over each task.
    means, curvature : ndarray (room, n_tasks)
        Weighted mean of each column in each task, and the square sum about it.
    """

    weight: np.ndarray
    task_weight: np.ndarray
    means: np.ndarray
    curvature: np.ndarray


class WorkingSet:
    """Columns gathered so far, a row of `x` each, and the models built on them.

    A quadratic loss has one model for the whole fit: its columns are kept centred and scaled by the root of
    the weights, with Gram matrices where they pay. Other losses keep the columns as they are, and every
    Newton step has its own weights. A design shared by all tasks is stored once.
    """

    def __init__(self, design: Design, loss: Loss):
        self.design, n_tasks = design, design.n_tasks
        self.prepared = loss.is_quadratic
        self.size, self.features = 0, np.empty(0, dtype=np.intp)  # of the columns gathered
        self.n_sweeps = 0  # made so far
        self.position = np.full(design.n_features, -1, dtype=np.intp)
        # centred and weighted columns can only be shared by tasks of equal weights
        self.shared = design.is_complete
        if self.shared and self.prepared:
            weight = design.row_weight.reshape(n_tasks, -1)
            self.shared = bool(np.all(weight == weight[0]))
        self.begin = design.offsets[:-1].astype(np.intp)
        self.length = np.diff(design.offsets).astype(np.intp)
        self.start = np.zeros(n_tasks, dtype=np.intp) if self.shared else self.begin
        self.root = np.sqrt(design.row_weight)
        many = n_tasks > MANY_TASKS and len(self.root) < _FEW_ROWS * n_tasks
        self.has_small_tasks = many and not self.shared
        self.x = np.empty((0, int(self.length[0] if self.shared else design.offsets[-1])))
        self.gram, self._gram_size = np.empty((1 if self.shared else n_tasks, 0, 0)), 0
        task_weight = design.task_sums(design.row_weight)
        self.base = Model(design.row_weight, task_weight, *np.empty((2, 0, n_tasks)))

    def add(self, features: np.ndarray) -> None:
        """Gather the columns that are not here yet."""
        new = features[self.position[features] < 0]
        if new.size == 0:
            return
        design, base, old, size = self.design, self.base, self.size, self.size + new.size
        self.position[new] = np.arange(old, size)
        self.size, self.features = size, np.concatenate([self.features, new])
        if size > len(self.x):
            room = min(max(size, _ROOM * old), max(size, design.n_features))
            self.x = _with_room(self.x, (room, self.x.shape[1]))
            base.means = _with_room(base.means, (room, design.n_tasks))
            base.curvature = _with_room(base.curvature, (room, design.n_tasks))
        x, means, curvature = self.x[old:size], base.means[old:size], base.curvature[old:size]
        design.gather(new, x, expand=not self.shared)
        if self.prepared:
            offsets = design.offsets[:2] if self.shared else design.offsets
            own = columns.centre(x, offsets, design.row_weight, self.root, design.fit_intercept)
            means[:], curvature[:] = own  # of a shared design: equal for all tasks
        else:
            means[:], curvature[:] = self._moments(x, np.arange(len(x)), base.weight)

    def reweighted(self, weight: np.ndarray, rows: np.ndarray) -> Model:
        """The model with other row weights, for sweeps over `rows` alone."""
        means, curvature = np.zeros((2, self.size, self.design.n_tasks))
        means[rows], curvature[rows] = self._moments(self.x, rows, weight)
        return Model(weight, self.design.task_sums(weight), means, curvature)

    def _moments(self, x: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted means of some gathered columns and the square sums about them."""
        return columns.weighted_moments(x, rows, self.design.offsets, weight, self.design.fit_intercept)

    def curvature(self, features: np.ndarray) -> np.ndarray:
        """Curvature of gathered features under the base weights."""
        return self.base.curvature[self.position[features]]

    def minimise(
        self, model: Model, slope_z: np.ndarray, A: np.ndarray, rows: np.ndarray, penalty: RowPenalty, *,
        max_sweeps: int, tolerance: float, relative: float,
    ) -> float:  # fmt: skip
        """Sweep over rows of the model at slope slope_z of the loss, from A and in place.

        Returns how much the first sweep moved a slope at most.
        """
        from mmtfl.kernels import block_rows, sweeps

        begin, state, h = self.begin, -slope_z, _NOTHING
        # a row update costs m T with Gram matrices and 2 N with residuals, which need no preparation
        few = self.size <= 0.75 * self.x.shape[1] / len(self.gram)
        use_gram = self.prepared and few and not self.has_small_tasks
        if use_gram:
            state = self._slopes(state / self.root)
            begin = np.arange(len(state), dtype=np.intp) * state.shape[1]
        elif self.prepared:
            state = state / self.root
        else:
            h = model.weight
            if self.design.fit_intercept:
                share = self.design.task_sums(state) / model.task_weight
                state = state - h * self.design.spread(share)
        own = penalty.of_rows(self.features)
        track = Track(A, state.ravel(), rows, penalty.of_rows(self.features[rows]), h, use_gram, begin)
        columns = self.x, self.start, self.length, h, model.means
        solve, curvature = own.row_solver(), model.curvature
        if penalty.has_groups:
            blocks = block_model(own, rows, partial(grams_of_columns, columns, self.begin), curvature)
            changing = track.state, begin, rows, A, own.member_numbers, *blocks
            sweep = partial(block_rows.block_sweeps, solve, use_gram, *columns, self.gram, *changing)
        else:
            kernel: Any
            given: tuple[Any, ...]
            if use_gram:
                kernel, given = sweeps.gram_sweeps, (self.gram, curvature, track.state, begin)
            elif self.shared and self.prepared:
                kernel, given = sweeps.shared_sweeps, (self.x, curvature, track.state)
            else:
                kernel, given = sweeps.sweeps, (*columns, curvature, track.state, begin)
            numbers = own.member_numbers, own.row_numbers(self.size)
            sweep = partial(kernel, solve, *given, rows, A, *numbers)
        by_tasks = self.has_small_tasks and penalty.has_entries
        batch = 1 if by_tasks else MEMORY
        done, first, thorough, stored = 0, 0.0, True, 0
        while done < max_sweeps:
            moves = track.moves[stored : stored + batch]
            n = sweep(thorough, tolerance, track.iterates[stored:], track.states[stored:], moves)
            if done == 0:
                first = float(moves[0])
                tolerance = max(tolerance, relative * first)
            done, stored = done + n, stored + n
            if moves[n - 1] <= tolerance:
                # the last sweep of those that took short cuts looks at all that a row could be
                if (thorough and n == 1) or not penalty.has_short_cut:
                    break
                thorough, stored = True, 0
                continue
            thorough = False
            if by_tasks:
                self._settle_tasks(own, columns, curvature, track, _TASK_SHARE * float(moves[n - 1]))
            if stored == MEMORY:
                track.extrapolate()
                stored = 0
        self.n_sweeps += done
        return first

    def _settle_tasks(
        self, penalty: RowPenalty, columns: tuple, curvature: np.ndarray, track: Track, tolerance: float
    ) -> None:
        """Descend in every task on its own, on entries that lie above the penalty and touch it at A.

        So the model falls. A sweep over rows takes as long for tasks that stand still as for those that are
        slow; here only the slow ones take long. Their tolerance must be well below what a sweep moves: else
        they drift by as much in every sweep, which an extrapolation of all tasks at once cannot shorten.
        Bounds of rows, where the penalty has such, move with the tasks.
        """
        from mmtfl.kernels.task_sweeps import settle_tasks

        A, rows = track.A, track.rows[np.any(track.A[track.rows] != 0.0, axis=1)]
        own, data = penalty.of_rows(rows), (*columns, curvature, track.state, self.begin, rows, A)
        if penalty.has_bounds and len(rows) <= MOST_BOUNDS:
            move_bounds(own, rows, track, data, tolerance)
        else:
            entries = own.entries(A[rows])
            settle_tasks(
                *data, *entries, entries.limit, np.full(len(self.length), tolerance),
                np.empty(len(self.length), dtype=np.intp), _TASK_SWEEPS,
            )  # fmt: skip
        track.keep()

    def image(self, change: np.ndarray) -> np.ndarray:
        """Change of the linear predictor (with optimal intercepts where columns are centred)."""
        rows = np.flatnonzero(np.any(change != 0.0, axis=1))
        x = self.x[: self.size]
        if 2 * len(rows) < self.size:
            x, change = x[rows], change[rows]
        if self.shared:
            out = (change.T @ x).ravel()
        elif self.has_small_tasks:
            out = columns.forward_by_columns(x, self.design.offsets, np.ascontiguousarray(change))
        else:
            change = np.ascontiguousarray(change.T)
            out = np.concatenate([change[t] @ x[:, part] for t, part in self.design.segments()])
        return out / self.root if self.prepared else out

    def centre(self, A: np.ndarray) -> np.ndarray:
        """What the gathered columns' means add to each task's predictor."""
        return np.sum(self.base.means[: self.size] * A, axis=0)

    def _slopes(self, residual: np.ndarray) -> np.ndarray:
        """x_t @ residual_t for every task; the Gram matrices that go with them are brought up to date."""
        old, new = self._gram_size, self.size
        if new > self.gram.shape[1]:
            self.gram = _with_room(self.gram, (len(self.gram), len(self.x), len(self.x)))
        for t in range(len(self.gram) if old < new else 0):
            part = self.x[:new, self.start[t] : self.start[t] + self.length[t]]
            cross = part[old:] @ part.T
            self.gram[t, old:new, :new] = cross
            self.gram[t, :old, old:new] = cross[:, :old].T
        self._gram_size, x = new, self.x[:new]
        if self.shared:
            return residual.reshape(self.design.n_tasks, -1) @ x.T
        return np.array([x[:, rows] @ residual[rows] for _, rows in self.design.segments()])


def _with_room(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape)
    out[tuple(slice(0, n) for n in array.shape)] = array
    return out
