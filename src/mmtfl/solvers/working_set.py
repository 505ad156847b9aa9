"""The few columns a solver works on: gathered once, in the layout of the kernels; docs/model.md section 6."""

from dataclasses import dataclass

import numpy as np

from mmtfl.objective.design import CONSTANT, Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.penalties import RowPenalty
from mmtfl.solvers.anderson import Track

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
        self.design = design
        self.prepared = loss.is_quadratic
        self.features = np.empty(0, dtype=np.intp)
        self.position = np.full(design.n_features, -1, dtype=np.intp)
        n_tasks = design.n_tasks
        # centred and weighted columns can only be shared by tasks of equal weights
        self.shared = design.is_complete and (not self.prepared or _equal_weights(design))
        self.begin = design.offsets[:-1].astype(np.intp)
        self.length = np.diff(design.offsets).astype(np.intp)
        self.start = np.zeros(n_tasks, dtype=np.intp) if self.shared else self.begin
        n_rows = int(self.length[0]) if self.shared else int(design.offsets[-1])
        self.root = np.sqrt(design.row_weight)
        self.x = np.empty((0, n_rows))
        self.gram = np.empty((1 if self.shared else n_tasks, 0, 0))
        self._gram_size = 0
        self.base = Model(
            design.row_weight, design.task_weight, np.empty((0, n_tasks)), np.empty((0, n_tasks))
        )

    @property
    def size(self) -> int:
        """Number of columns gathered."""
        return len(self.features)

    def add(self, features: np.ndarray) -> None:
        """Gather the columns that are not here yet."""
        new = features[self.position[features] < 0]
        if new.size == 0:
            return
        old, size = self.size, self.size + new.size
        self.position[new] = np.arange(old, size)
        self.features = np.concatenate([self.features, new])
        if size > len(self.x):
            room = min(max(size, _ROOM * old), max(size, self.design.n_features))
            self.x = _with_room(self.x, (room, self.x.shape[1]))
            self.base.means = _with_room(self.base.means, (room, self.design.n_tasks))
            self.base.curvature = _with_room(self.base.curvature, (room, self.design.n_tasks))
        part = slice(old, size)
        self.design.gather(new, self.x[part], expand=not self.shared)
        self._prepare(part)

    def _prepare(self, part: slice) -> None:
        from mmtfl.kernels import columns, sweeps

        design, x = self.design, self.x[part]
        if self.prepared:
            offsets = design.offsets[:2] if self.shared else design.offsets
            means, curvature = np.empty((2, len(x), len(offsets) - 1))
            columns.centre(
                x, offsets, design.row_weight, self.root, design.fit_intercept, CONSTANT, means, curvature
            )
            self.base.means[part], self.base.curvature[part] = means, curvature  # shared: equal for all tasks
        else:
            sweeps.weighted_moments(
                x, np.arange(len(x)), self.start, self.length, self.begin, self.base.weight,
                design.fit_intercept, CONSTANT, self.base.means[part], self.base.curvature[part],
            )  # fmt: skip

    def reweighted(self, weight: np.ndarray, rows: np.ndarray) -> Model:
        """The model with other row weights, for sweeps over `rows` alone."""
        from mmtfl.kernels import sweeps

        design = self.design
        means, curvature = np.zeros((2, self.size, design.n_tasks))
        sweeps.weighted_moments(
            self.x, rows, self.start, self.length, self.begin, weight, design.fit_intercept, CONSTANT,
            means, curvature,
        )  # fmt: skip
        return Model(weight, design.task_sums(weight), means, curvature)

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
        from mmtfl.kernels import sweeps

        begin, state, h = self.begin, -slope_z, _NOTHING
        use_gram = self.prepared and self._prefers_gram
        if use_gram:
            self._ensure_gram()
            state = self._slopes(state / self.root)
            begin = np.arange(len(state), dtype=np.intp) * state.shape[1]
        elif self.prepared:
            state = state / self.root
        else:
            h = model.weight
            if self.design.fit_intercept:
                share = self.design.task_sums(state) / model.task_weight
                state = state - h * self.design.spread(share)
        solve, member = penalty.row_solver(), penalty.member_numbers
        strengths = penalty.of_rows(self.features).row_numbers(self.size)
        track = Track(A, state.ravel(), rows, penalty.of_rows(self.features[rows]), h, use_gram, begin)
        done, first, thorough = 0, 0.0, True
        while done < max_sweeps:
            n = sweeps.sweeps(
                solve, use_gram, self.x, self.start, self.length, h, model.means, self.gram,
                model.curvature, track.state, begin, rows, A, member, strengths, thorough, tolerance,
                track.iterates, track.states, track.moves,
            )  # fmt: skip
            if done == 0:
                first = float(track.moves[0])
                tolerance = max(tolerance, relative * first)
            done += n
            if track.moves[n - 1] <= tolerance:
                # the last sweep of those that took short cuts looks at all that a row could be
                if (thorough and n == 1) or not penalty.has_short_cut:
                    break
                thorough = True
            else:
                thorough = False
                track.extrapolate()
        return first

    def image(self, change: np.ndarray) -> np.ndarray:
        """Change of the linear predictor (with optimal intercepts where columns are centred)."""
        from mmtfl.kernels import sweeps

        out = np.empty(len(self.root))
        rows = np.flatnonzero(np.any(change != 0.0, axis=1))
        sweeps.image(self.x, self.start, self.length, self.begin, rows, change, out)
        return out / self.root if self.prepared else out

    def centre(self, A: np.ndarray) -> np.ndarray:
        """What the gathered columns' means add to each task's predictor."""
        return np.sum(self.base.means[: self.size] * A, axis=0)

    @property
    def _prefers_gram(self) -> bool:
        """A row update costs m T with Gram matrices and 2 N with residuals, which need no preparation."""
        return self.size <= 0.75 * self.x.shape[1] / len(self.gram)

    def _ensure_gram(self) -> None:
        old, new = self._gram_size, self.size
        if old == new:
            return
        if new > self.gram.shape[1]:
            self.gram = _with_room(self.gram, (len(self.gram), len(self.x), len(self.x)))
        for t in range(len(self.gram)):
            part = self.x[:new, self.start[t] : self.start[t] + self.length[t]]
            cross = part[old:] @ part.T
            self.gram[t, old:new, :new] = cross
            self.gram[t, :old, old:new] = cross[:, :old].T
        self._gram_size = new

    def _slopes(self, residual: np.ndarray) -> np.ndarray:
        """x_t @ residual_t for every task."""
        x = self.x[: self.size]
        if self.shared:
            return residual.reshape(self.design.n_tasks, -1) @ x.T
        return np.array([x[:, rows] @ residual[rows] for _, rows in self.design.segments()])


def _equal_weights(design: Design) -> bool:
    weight = design.row_weight.reshape(design.n_tasks, -1)
    return bool(np.all(weight == weight[0]))


def _with_room(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(shape)
    out[tuple(slice(0, n) for n in array.shape)] = array
    return out
