"""Levels of classes and counts: tau and b_0 by marginal likelihood; docs/model.md, Levels.

Given the slopes' part of z, the level of a task is a problem in one dimension, solved for all tasks at once.
The integral over it is found by Laplace's method (in searches), or by adaptive Gauss-Hermite quadrature (in
the end): a normal distribution of the modes would not do where tasks are of a few rows, or of one class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from mmtfl.inference.levels import LevelModel, NormalLevels
from mmtfl.objective.losses import Loss
from mmtfl.objective.losses.level_prior import least_levels

NODES = 11
_ROUNDS, _QUICK_ROUNDS = 3, 2  # between tau and b_0, and what the columns say; in searches
_CLOSE = 1e-9
_LEAST_BEND = 1e-8  # of a task whose rows say next to nothing of its level
_SPREADS = 0.02, 30.0  # tau is looked for in between


@dataclass(frozen=True, eq=False)
class TaskRows:
    """The rows of all tasks, task by task, as functions of the tasks' levels.

    Attributes
    ----------
    loss : Loss
        The loss of a row: minus its log-likelihood, up to a constant.
    y, weight : ndarray of shape (n_rows,)
        Targets, and what the rows count; 1 for a plain row.
    beside : ndarray of shape (n_rows,)
        The part of z that is known: slopes and offset.
    offsets : ndarray of shape (n_tasks + 1,)
        Where the rows of each task begin.
    """

    loss: Loss
    y: np.ndarray
    weight: np.ndarray
    beside: np.ndarray
    offsets: np.ndarray

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.offsets) - 1

    def values(self, b: np.ndarray) -> np.ndarray:
        """The loss of each task at its level."""
        return self.loss.task_values(self.y, self._z(b), self.weight, self.offsets)

    def slopes(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivatives of `values`."""
        z, starts = self._z(b), self.offsets[:-1]
        first, second = (
            question(self.y, z, self.weight) for question in (self.loss.gradient, self.loss.hessian)
        )
        return np.add.reduceat(first, starts), np.add.reduceat(second, starts)

    def modes(self, middle: np.ndarray, tau: float, start: np.ndarray | None = None) -> np.ndarray:
        """The most probable levels under a prior N(middle, tau^2), by Newton's method within brackets."""

        def slopes(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            first, second = self.slopes(b)
            return first + (b - middle) / tau**2, second + 1.0 / tau**2

        return least_levels(slopes, middle if start is None else start, _CLOSE * max(1.0, tau))

    def compressed(self) -> TaskRows:
        """The same with equal rows of a task counted once: of classes without slopes two are left."""
        task = np.repeat(np.arange(self.n_tasks), np.diff(self.offsets))
        keys = np.column_stack([task, self.y, self.beside])
        order = np.lexsort(keys.T[::-1])
        keys = keys[order]
        new = np.ones(len(keys), dtype=bool)
        new[1:] = np.any(keys[1:] != keys[:-1], axis=1)
        first = np.flatnonzero(new)
        offsets = np.searchsorted(keys[first, 0], np.arange(self.n_tasks + 1))
        weight = np.add.reduceat(self.weight[order], first)
        return replace(self, y=keys[first, 1], beside=keys[first, 2], weight=weight, offsets=offsets)

    def _z(self, b: np.ndarray) -> np.ndarray:
        return self.beside + np.repeat(b, np.diff(self.offsets))


class Marginal:
    """Minus the logarithm of the marginal likelihood of (b_0, log tau); remembers the modes it found last."""

    def __init__(self, rows: TaskRows, shift: np.ndarray, n_nodes: int):
        self.rows, self.shift = rows, shift
        self._modes: np.ndarray | None = None
        x, weight = np.polynomial.hermite.hermgauss(n_nodes)
        self._x, self._log_weight = np.sqrt(2.0) * x, np.log(weight / np.sqrt(np.pi)) + x**2

    def __call__(self, point: np.ndarray) -> float:
        """The value at (b_0, log tau)."""
        tau = float(np.exp(np.clip(point[1], *np.log(_SPREADS))))
        middle = point[0] + self.shift
        b = self._modes = self.rows.modes(middle, tau, self._modes)
        width = 1.0 / np.sqrt(self.rows.slopes(b)[1] + 1.0 / tau**2)
        terms = []
        for x, log_weight in zip(self._x, self._log_weight, strict=True):
            at = b + width * x
            terms.append(log_weight - self.rows.values(at) - 0.5 * ((at - middle) / tau) ** 2)
        total = np.logaddexp.reduce(terms, axis=0) + np.log(width / tau)
        excess = max(abs(point[1]) - 10.0, 0.0)  # tau beyond its bounds changes nothing more
        return float(-total.sum()) + excess

    def fit(self, start: np.ndarray, accuracy: float) -> np.ndarray:
        """Where it is least."""
        simplex = start + np.array([[0.0, 0.0], [0.4, 0.0], [0.0, 0.4]])
        options = {"initial_simplex": simplex, "xatol": accuracy, "fatol": 1e-4, "maxfev": 120}
        return minimize(self, start, method="Nelder-Mead", options=options).x


def fit_levels(rows: TaskRows, columns: np.ndarray, *, n_nodes: int = 1) -> LevelModel:
    """The levels of classes or counts, and what they follow.

    Parameters
    ----------
    rows : TaskRows
        The rows, with the slopes' part of z.
    columns : ndarray of shape (n_tasks, q)
        Task-level columns on one scale.
    n_nodes : int
        Nodes of the quadrature; 1 is Laplace's method.

    Examples
    --------
    Sixty tasks of six rows each, whose log odds scatter by 1 about 0; some are of one class.

    >>> import numpy as np
    >>> from mmtfl.objective.losses import Logistic
    >>> rng = np.random.default_rng(0)
    >>> odds = np.repeat(rng.normal(size=60), 6)
    >>> y = np.where(rng.uniform(size=360) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)
    >>> rows = TaskRows(Logistic(), y, np.ones(360), np.zeros(360), np.arange(0, 361, 6))
    >>> found = fit_levels(rows, np.empty((60, 0)), n_nodes=NODES)
    >>> round(found.spread, 1), bool(np.abs(found.levels).max() < 2.0)
    (1.0, True)
    """
    rows = rows.compressed()
    shift, point, df = np.zeros(rows.n_tasks), np.array([_overall_level(rows), 0.0]), 0.0
    n_rounds = _ROUNDS if n_nodes > 1 else _QUICK_ROUNDS
    for i in range(n_rounds):
        point = Marginal(rows, shift, 1).fit(point, 1e-2)
        if n_nodes > 1 and (i == n_rounds - 1 or columns.shape[1] == 0):
            point = Marginal(rows, shift, n_nodes).fit(point, 3e-3)
        tau = _spread(point, df, rows.n_tasks)
        b = rows.modes(point[0] + shift, tau)
        found = _as_if_normal(rows, columns, b)
        if columns.shape[1] == 0:
            break
        shift, df = columns @ found.effects, float(np.sum(found.factor**2))
    tau, middle = _spread(point, df, rows.n_tasks), point[0] + shift
    return replace(found, common=float(point[0]), spread=tau, levels=rows.modes(middle, tau, b))


def _spread(point: np.ndarray, df: float, n_tasks: int) -> float:
    """tau, with the degrees of freedom taken off that went into what the columns say."""
    tau = float(np.exp(np.clip(point[1], *np.log(_SPREADS))))
    return float(tau * np.sqrt(n_tasks / max(n_tasks - df, 1.0)))


def _overall_level(rows: TaskRows) -> float:
    """The best level if all tasks had one."""
    one = replace(rows, offsets=rows.offsets[[0, -1]])
    return float(one.modes(np.zeros(1), _SPREADS[1])[0])


def _as_if_normal(rows: TaskRows, columns: np.ndarray, b: np.ndarray) -> LevelModel:
    """What columns say of the levels, from their modes and curvatures."""
    first, second = rows.slopes(b)
    bend = np.maximum(second, _LEAST_BEND)
    return NormalLevels(columns, bend).fit(b - first / bend, 1.0)
