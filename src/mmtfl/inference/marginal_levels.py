"""Levels of classes and counts: tau and b_0 by marginal likelihood; docs/model.md, Levels.

Given the slopes' part of z, the level of a task is a problem in one dimension, solved for all tasks at once.
The integral over it is found by adaptive Gauss-Hermite quadrature, with fewer nodes in searches: a normal
distribution of the modes would not do where tasks are of a few rows, or of one class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mmtfl.inference.levels import LevelModel, NormalLevels, least
from mmtfl.objective.losses import Loss
from mmtfl.objective.losses.loss import convex_minima

NODES, QUICK_NODES = 11, 5  # of the quadrature: in the end, and in searches
_ROUNDS, _QUICK_ROUNDS = 3, 2  # between tau and b_0, and what the columns say; in searches
_ROUGHLY = 0.02  # accuracy of the logarithms of what levels scatter by, where it is to be rough
_CLOSE = 1e-9
_MOST_BEND, _FAR = 1e15, 100.0  # of levels whose slopes have run away
_LEAST_BEND = 1e-8  # of a task whose rows say next to nothing of its level
_SPREADS = 0.02, 30.0  # tau is looked for in between
_BOUNDS = np.array([(-np.inf, np.log(_SPREADS[0])), (np.inf, np.log(_SPREADS[1]))])


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

        return convex_minima(slopes, middle if start is None else start, _CLOSE * max(1.0, tau))

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
        self._x, self._log_weight = (
            np.sqrt(2.0) * x[:, None],
            (np.log(weight / np.sqrt(np.pi)) + x**2)[:, None],
        )

    def __call__(self, point: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """The value at (b_0, log tau), its gradient and its second derivatives.

        Derivatives of an integral over levels are moments of the level given the task's rows (Fisher, Louis).
        """
        tau, middle = float(np.exp(point[1])), point[0] + self.shift
        b = self._modes = self.rows.modes(middle, tau, self._modes)
        width = 1.0 / np.sqrt(self.rows.slopes(b)[1] + 1.0 / tau**2)
        at = b + width * self._x
        apart = (at - middle) / tau
        terms = self._log_weight - 0.5 * apart**2 - [self.rows.values(own) for own in at]
        total = np.logaddexp.reduce(terms, axis=0)
        share = np.exp(terms - total)
        first, second, third, fourth = (np.sum(share * apart**k, axis=0) for k in (1, 2, 3, 4))
        slope = -np.array([np.sum(first) / tau, np.sum(second - 1.0)])
        mixed = np.sum(2.0 * first - third + first * second) / tau
        bend = [
            [np.sum(1.0 - second + first**2) / tau**2, mixed],
            [mixed, np.sum(2.0 * second - fourth + second**2)],
        ]
        return -float(np.sum(total + np.log(width / tau))), slope, np.array(bend)


def fit_levels(
    rows: TaskRows, columns: np.ndarray, *, n_nodes: int = NODES, rough: bool = False
) -> LevelModel:
    """The levels of classes or counts, and what they follow.

    Parameters
    ----------
    rows : TaskRows
        The rows, with the slopes' part of z.
    columns : ndarray of shape (n_tasks, q)
        Task-level columns on one scale.
    n_nodes : int
        Nodes of the quadrature.
    rough : bool
        Whether what columns say is found as exactly as held-out scores need.

    Examples
    --------
    Sixty tasks of six rows each, whose log odds scatter by 1 about 0; some are of one class.

    >>> import numpy as np
    >>> from mmtfl.objective.losses import Logistic
    >>> rng = np.random.default_rng(0)
    >>> odds = np.repeat(rng.normal(size=60), 6)
    >>> y = np.where(rng.uniform(size=360) < 1.0 / (1.0 + np.exp(-odds)), 1.0, -1.0)
    >>> rows = TaskRows(Logistic(), y, np.ones(360), np.zeros(360), np.arange(0, 361, 6))
    >>> found = fit_levels(rows, np.empty((60, 0)))
    >>> round(found.spread, 1), bool(np.abs(found.levels).max() < 2.0)
    (1.0, True)
    """
    rows = rows.compressed()
    shift, point, df = np.zeros(rows.n_tasks), np.array([_overall_level(rows), 0.0]), 0.0
    near: dict[str, Any] = {"near": _ROUGHLY} if rough else {}
    how = dict(near)
    for _ in range(_ROUNDS if n_nodes == NODES else _QUICK_ROUNDS):
        point = least(Marginal(rows, shift, n_nodes), point, *_BOUNDS, **near)
        tau = _spread(point, df, rows.n_tasks)
        b = rows.modes(point[0] + shift, tau)
        found = _as_if_normal(rows, columns, b, **how)
        if columns.shape[1] == 0:
            break
        if rough:
            how["start"] = found
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


def _as_if_normal(rows: TaskRows, columns: np.ndarray, b: np.ndarray, **how: Any) -> LevelModel:
    """What columns say of the levels, from their modes and curvatures."""
    first, second = rows.slopes(b)
    bend = np.clip(second, _LEAST_BEND, _MOST_BEND)
    return NormalLevels(columns, bend).fit(b - np.clip(first / bend, -_FAR, _FAR), 1.0, **how)
