"""The few columns a solver works on: gathered once, in the layout of the core; docs/model.md section 6."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.core import columns
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.penalties import RowPenalty

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
    means, curvature : ndarray (size, n_tasks)
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
        self.has_small_tasks = design.has_small_tasks and not self.shared
        self.x = np.empty((0, int(self.length[0] if self.shared else design.offsets[-1])))
        self.gram = np.empty((1 if self.shared else n_tasks, 0, 0))
        task_weight = design.task_sums(design.row_weight)
        self.base = Model(design.row_weight, task_weight, *np.empty((2, 0, n_tasks)))

    def add(self, features: np.ndarray) -> None:
        """Gather the columns that are not here yet."""
        new = features[self.position[features] < 0]
        if new.size == 0:
            return
        design, base = self.design, self.base
        self.position[new] = self.size + np.arange(new.size)
        x = np.empty((new.size, self.x.shape[1]))
        design.gather(new, x, expand=not self.shared)
        if self.prepared:
            offsets = design.offsets[:2] if self.shared else design.offsets
            own = columns.centre(x, offsets, design.row_weight, self.root, design.fit_intercept)
            own = tuple(np.broadcast_to(part, (new.size, design.n_tasks)) for part in own)
        else:
            own = self._moments(x, np.arange(len(x)), base.weight)
        base.means, base.curvature = np.vstack([base.means, own[0]]), np.vstack([base.curvature, own[1]])
        self.x = np.vstack([self.x, x]) if self.size else x
        self.size, self.features = self.size + new.size, np.concatenate([self.features, new])

    def reweighted(self, weight: np.ndarray, rows: np.ndarray) -> Model:
        """The model with other row weights, for sweeps over `rows` alone."""
        means, curvature = np.zeros((2, self.size, self.design.n_tasks))
        means[rows], curvature[rows] = self._moments(self.x, rows, weight)
        return Model(weight, self.design.task_sums(weight), means, curvature)

    def _moments(self, x: np.ndarray, rows: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weighted means of some gathered columns and the square sums about them."""
        return columns.weighted_moments(x, rows, self.design.offsets, weight, self.design.fit_intercept)

    def minimise(
        self, model: Model, slope_z: np.ndarray, A: np.ndarray, rows: np.ndarray, penalty: RowPenalty, *,
        max_sweeps: int, tolerance: float, relative: float,
    ) -> float:  # fmt: skip
        """Sweep over rows of the model at slope slope_z of the loss, from A and in place.

        Returns how much the first sweep moved a slope at most.
        """
        from mmtfl.core.descent import Blocks, Descent
        from mmtfl.core.storage import ColumnStorage, GramStorage

        state, h = -slope_z, _NOTHING
        # a row update costs m T with Gram matrices and 2 N with residuals, which need no preparation
        use_gram = self.prepared and self.size <= 0.75 * self.x.shape[1] / len(self.gram)
        if self.prepared:
            state = state / self.root
        else:
            h = model.weight
            if self.design.fit_intercept:
                share = self.design.task_sums(state) / model.task_weight
                state = state - h * self.design.spread(share)
        if use_gram:
            slopes = self._slopes(state)
            storage: Any = GramStorage(self.gram, slopes, self.size)
        else:
            storage = ColumnStorage(self.x, self.start, self.begin, self.length, state, h, model.means)
        own = penalty.of_rows(self.features)
        members, *others = own.blocks(rows, self.size)
        bend = own.block_curvature(model.curvature)
        blocks = Blocks(members, *others, bend[members].ravel())
        descent = Descent(storage, own.row_problem(), blocks, A)
        _, n_sweeps, first = descent.run(slope=tolerance, relative=relative, max_sweeps=max_sweeps)
        self.n_sweeps += n_sweeps
        return first

    def image(self, change: np.ndarray) -> np.ndarray:
        """Change of the linear predictor (with optimal intercepts where columns are centred)."""
        rows = np.flatnonzero(np.any(change != 0.0, axis=1))
        x = self.x
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

    def _slopes(self, residual: np.ndarray) -> np.ndarray:
        """x_t @ residual_t for every task, in the room of the Gram matrices, brought up to date."""
        old, new = self.gram.shape[1], self.size
        if new > old:
            gram = np.empty((len(self.gram), new, new))
            gram[:, :old, :old] = self.gram
            self.gram = gram
        for t in range(len(self.gram) if old < new else 0):
            part = self.x[:, self.start[t] : self.start[t] + self.length[t]]
            cross = part[old:] @ part.T
            self.gram[t, old:new, :new] = cross
            self.gram[t, :old, old:new] = cross[:, :old].T
        x, out = self.x, np.empty((self.design.n_tasks, new))
        if self.shared:
            out[:] = residual.reshape(self.design.n_tasks, -1) @ x.T
        else:
            for t, rows in self.design.segments():
                out[t] = x[:, rows] @ residual[rows]
        return out
