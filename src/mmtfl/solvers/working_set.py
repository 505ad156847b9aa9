"""The few columns a solver works on: gathered once, centred and weighted for a least-squares model."""

from typing import Literal

import numpy as np

from mmtfl.objective.design import Design, centre_columns


class Model:
    """Columns x = sqrt(h) (X - mean_h) of all tasks, for row weights h; grows by columns.

    A shared complete design with equal weights is stored once (`x_start` is 0 for every task) and has one
    Gram matrix; otherwise observations are stacked and every task has its own.
    """

    def __init__(self, design: Design, weight: np.ndarray, *, shared: bool):
        self.design, self.shared = design, shared
        n_tasks = design.n_tasks
        n_rows = design.offsets[1] if shared else design.offsets[-1]
        self.x_start = np.zeros(n_tasks, dtype=np.intp) if shared else design.offsets[:-1].astype(np.intp)
        self.root = np.sqrt(weight)  # of every observation
        self.task_weight = design.task_sums(weight)
        self._weight = weight
        self.size = 0
        self.x = np.empty((n_rows, 0), order="F")
        self.curvature = np.empty((0, n_tasks))
        self.means = np.zeros((0, n_tasks))
        self.gram = np.empty((1 if shared else n_tasks, 0, 0))
        self._gram_size = 0

    def _segments(self):
        if self.shared:
            yield 0, slice(0, self.design.offsets[1])
        else:
            yield from self.design.segments()

    def add(self, block: np.ndarray) -> None:
        """Append columns; `block` is overwritten."""
        old, new = self.size, self.size + block.shape[1]
        if new > self.x.shape[1]:
            room = min(max(new, 2 * old, 16), max(new, self.design.n_features))
            self.x = _with_room(self.x, (self.x.shape[0], room), order="F")
            self.curvature = _with_room(self.curvature, (room, self.design.n_tasks))
            self.means = _with_room(self.means, (room, self.design.n_tasks))
        for t, rows in self._segments():
            part = block[rows]
            tasks = slice(None) if self.shared else slice(t, t + 1)
            if self.design.fit_intercept:
                self.means[old:new, tasks] = centre_columns(part, self._weight[rows])[:, None]
            part *= self.root[rows, None]
            self.curvature[old:new, tasks] = np.einsum("ij,ij->j", part, part)[:, None]
        self.x[:, old:new] = block
        self.size = new

    @property
    def prefers_gram(self) -> bool:
        """A row update costs m T with Gram matrices and 2 N with residuals."""
        return self.size <= 1.5 * self.x.shape[0] / len(self.gram)

    def ensure_gram(self) -> None:
        """Bring the Gram matrices up to the present columns."""
        old, new = self._gram_size, self.size
        if old == new:
            return
        if new > self.gram.shape[1]:
            room = self.x.shape[1]
            self.gram = _with_room(self.gram, (len(self.gram), room, room))
        for t, rows in self._segments():
            part = self.x[rows, :new]
            cross = part[:, old:].T @ part
            self.gram[t, old:new, :new] = cross
            self.gram[t, :old, old:new] = cross[:, :old].T
        self._gram_size = new

    def slopes(self, residual: np.ndarray) -> np.ndarray:
        """x_t.T @ residual_t for every task, as (n_tasks, columns with room)."""
        out = np.zeros((self.design.n_tasks, self.x.shape[1]))
        if self.shared:
            out[:, : self.size] = residual.reshape(self.design.n_tasks, -1) @ self.x[:, : self.size]
        else:
            for t, rows in self.design.segments():
                out[t, : self.size] = residual[rows] @ self.x[rows, : self.size]
        return out

    def image(self, change: np.ndarray) -> np.ndarray:
        """x_t @ change_t for every task, stacked; change is (size, n_tasks)."""
        kept = np.flatnonzero(np.any(change != 0.0, axis=1))
        if self.shared:
            return (self.x[:, kept] @ change[kept]).T.ravel()
        out = np.empty(self.x.shape[0])
        block = self.x[:, kept]
        for t, rows in self.design.segments():
            out[rows] = block[rows] @ change[kept, t]
        return out


class WorkingSet:
    """The columns gathered so far, and the least-squares models built on them."""

    def __init__(self, design: Design, *, reweighted: bool):
        self.design = design
        self.features = np.empty(0, dtype=np.intp)
        self.position = np.full(design.n_features, -1, dtype=np.intp)
        shared = design.is_complete and _equal_weights(design) and not reweighted
        self.base = Model(design, design.row_weight, shared=shared)
        self._raw = np.empty((design.offsets[-1], 0), order="F") if reweighted else None

    def add(self, features: np.ndarray) -> None:
        """Gather the columns that are not here yet."""
        new = features[self.position[features] < 0]
        if new.size == 0:
            return
        self.position[new] = self.features.size + np.arange(new.size)
        self.features = np.concatenate([self.features, new])
        block = self.design.columns(new, expand=not self.base.shared)
        if self._raw is not None:
            self._raw = np.concatenate([self._raw.T, block.T]).T  # keeps Fortran order
        self.base.add(block)

    def reweighted(self, weight: np.ndarray) -> Model:
        """A model of the same columns with other row weights."""
        model = Model(self.design, weight, shared=False)
        if self._raw is None:
            raise RuntimeError("the working set was not made for changing weights")
        model.add(self._raw.copy(order="F"))
        return model

    def curvature(self, features: np.ndarray) -> np.ndarray:
        """Curvature of gathered features under the base weights."""
        return self.base.curvature[self.position[features]]


def _equal_weights(design: Design) -> bool:
    weight = design.row_weight.reshape(design.n_tasks, -1)
    return bool(np.all(weight == weight[0]))


def _with_room(array: np.ndarray, shape: tuple[int, ...], order: Literal["C", "F"] = "C") -> np.ndarray:
    out = np.zeros(shape, order=order)
    out[tuple(slice(0, n) for n in array.shape)] = array
    return out
