"""Levels of tasks: what makes a task high or low; docs/model.md, Levels.

The level of task t is its prediction at a point common to all tasks. It is taken to be

    b_t = b_0 + w_t . gamma + u_t,   u_t ~ N(0, tau^2),   gamma ~ N(0, (eta^2 / q) I),

where w_t holds what is known of the task as a whole: the means of its columns, those that are constant
within every task among them. b_0, tau and eta are estimated by restricted likelihood, and each level is drawn
to what its columns say as far as its own rows leave it open. Here the levels are told with normal errors of
known variances; `marginal_levels` has those of classes and counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.stats import chi2
from scipy.stats import t as student

_MOST_DIRECTIONS = 100  # of task-level columns, where tasks and columns are more than that
# tau^2 and eta^2 in units of the variance of a level; beyond, levels are free
_GRID = np.array([0.0, 0.05, 0.3, 1.0, 3.0, 10.0, 100.0, 1e4, 1e13])
_NOTHING = 1e-10  # eigenvalues below this share of the largest are rounding
_SAME = 1e-9  # a column that differs less between tasks, as a share of its size, is the same in all
_STEPS, _NEAR, _FLAT = 40, 1e-3, 1e-3  # of Newton's method; a bend below this share of the largest is none
_SMALL = 0.05  # variances in units of the variance of a level are looked for by their logarithm beyond
_EXACT = 1e-14  # noise below this share of the variance of the levels: they are known exactly
_FINE_GRID = np.concatenate([[0.0], np.logspace(-4, 5, 55), _GRID[-1:]])  # of eta^2 alone


# -- what is known of tasks as a whole -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TaskColumns:
    """Task-level columns on one scale: (means - centre) / scale over the columns that differ between tasks.

    Examples
    --------
    >>> import numpy as np
    >>> columns = TaskColumns.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> columns.values.round(6).tolist(), columns.kept.tolist()
    ([[-1.0], [1.0]], [0])
    """

    values: np.ndarray  # (n_tasks, q)
    kept: np.ndarray  # features that the q columns are means of
    centre: np.ndarray  # of these, over tasks
    scale: np.ndarray

    @classmethod
    def of(cls, means: np.ndarray, absent: np.ndarray | None = None) -> TaskColumns:
        """Scale the means of columns (n_tasks, n_features); those that a task lacks say nothing of it."""
        if absent is not None:
            known = np.where(absent, np.nan, means)
            with np.errstate(invalid="ignore"):
                middle = np.nansum(known, axis=0) / np.maximum((~absent).sum(axis=0), 1)
            means = np.where(absent, middle, means)
        size = np.abs(means).max(axis=0, initial=0.0)
        unit = np.where(size > 0.0, size, 1.0)  # so that no square leaves the floats
        centre, scale = (means / unit).mean(axis=0), (means / unit).std(axis=0)
        kept = np.flatnonzero(scale > _SAME)
        centre, scale, unit = centre[kept], scale[kept], unit[kept]
        return cls((means[:, kept] / unit - centre) / scale, kept, centre * unit, scale * unit)

    def place(self, means: np.ndarray) -> np.ndarray:
        """The columns (n, q) of other tasks, from the means of all their features (n, n_features)."""
        return (means[:, self.kept] - self.centre) / self.scale


# -- normal errors -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Factor:
    """The covariance V = kappa W W' / q + diag(d) at one d, by the eigenvectors of d^-1/2 W W' d^-1/2 / q."""

    root: np.ndarray  # d^-1/2
    vectors: np.ndarray  # (n_tasks, r)
    values: np.ndarray

    @classmethod
    def of(cls, W: np.ndarray, d: np.ndarray) -> Factor:
        """Decompose in the smaller of the two dimensions."""
        root = 1.0 / np.sqrt(d)
        R = W * root[:, None]
        if R.shape[0] <= R.shape[1]:
            values, vectors = np.linalg.eigh(R @ R.T)
        else:
            values, V = np.linalg.eigh(R.T @ R)
            vectors = R @ (V / np.sqrt(np.maximum(values, np.finfo(float).tiny)))
        kept = values > _NOTHING * values.max(initial=0.0)
        return cls(root, vectors[:, kept], values[kept])

    def restricted(self, levels: np.ndarray, noise: np.ndarray, kappas: np.ndarray) -> np.ndarray:
        """Log of the restricted likelihood, (n_kappas, n): levels (n_tasks, n), with b_0 profiled out."""
        c = self._share(kappas[:, None])
        scaled = levels * self.root[:, None]
        turned, ones = self.vectors.T @ scaled, self.vectors.T @ self.root
        squares = np.sum(scaled**2, axis=0) - c @ turned**2
        crossed = self.root @ scaled - (c * ones) @ turned
        total = self.at_least_rounding(np.sum(self.root**2) - c @ ones**2)[:, None]
        fit = np.maximum(squares - crossed**2 / total, 0.0)
        size = np.sum(np.log1p(kappas[:, None] * self.values), axis=1)[:, None] + np.log(total)
        size = size - 2.0 * np.sum(np.log(self.root)) + (len(self.root) - 1) * np.log(noise)
        return -0.5 * (size + fit / noise)

    def bent(
        self, levels: np.ndarray, noise: float, kappa: float, W: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Minus that of one set of levels, its slopes in tau^2 and kappa, and the average information."""
        ones = self.whitened(np.ones((len(levels), 1)), kappa)[:, 0]

        def projected(v: np.ndarray) -> np.ndarray:
            white = self.whitened(v, kappa)
            return white - np.outer(ones, white.sum(axis=0) / ones.sum())

        rest = projected(levels[:, None])[:, 0]
        by = np.column_stack([rest, W @ (W.T @ rest)])
        trace = np.sum(self.root**2) - self._share(kappa) @ np.sum(
            (self.root[:, None] * self.vectors) ** 2, axis=0
        )
        traces = np.array([trace - ones @ ones / ones.sum(), np.sum(W * projected(W))])
        value = -self.restricted(levels[:, None], np.array([noise]), np.array([kappa]))[0, 0]
        return value, 0.5 * (traces - rest @ by / noise), 0.5 * by.T @ projected(by) / noise

    def whitened(self, v: np.ndarray, kappa: float) -> np.ndarray:
        """V^-1 v of columns v."""
        scaled = v * self.root[:, None]
        turned = self._share(kappa)[:, None] * (self.vectors.T @ scaled)
        return (scaled - self.vectors @ turned) * self.root[:, None]

    def at_least_rounding(self, total: np.ndarray | float) -> np.ndarray:
        """The weight of the common level, which rounding may leave below zero."""
        return np.maximum(total, np.finfo(float).eps * np.sum(self.root**2))

    def _share(self, kappa):
        return kappa * self.values / (1.0 + kappa * self.values)


class NormalLevels:
    """Levels told with independent normal errors of the variances noise / n_t, for many sets of them at once.

    Parameters
    ----------
    columns : ndarray of shape (n_tasks, q)
        Task-level columns on one scale.
    n : ndarray of shape (n_tasks,)
        Rows of the tasks, or what their levels are told by in units of the noise.

    Examples
    --------
    Levels that scatter by 2 about 10, each told with an error of 1: a fifth of the way to the common level.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> told = 10.0 + 2.0 * rng.normal(size=500) + rng.normal(size=500)
    >>> found = NormalLevels(np.empty((500, 0)), np.ones(500)).fit(told, 1.0)
    >>> round(found.common, 1), round(found.spread, 1)
    (9.9, 2.0)
    """

    def __init__(self, columns: np.ndarray, n: np.ndarray):
        self.columns, self.n, self.q = columns, n, max(columns.shape[1], 1)
        self._W = _leading(columns) / np.sqrt(self.q)
        self._unit = float(np.median(1.0 / n))

    def shrunk(self, levels: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Posterior means of sets of levels (n_tasks, n), whose tau and eta are looked for on a grid."""
        if len(levels) < 2:
            return levels
        noise = _at_least(noise, levels)
        known = np.array([factor.restricted(levels, noise, self._grid) for factor in self._factors])
        best = known.reshape(-1, levels.shape[1]).argmax(axis=0)
        out = levels.copy()
        for pair in np.unique(best):
            own = best == pair
            rho, kappa = divmod(int(pair), len(self._grid))
            rest = self._residual(self._factors[rho], levels[:, own], self._grid[kappa])[0]
            out[:, own] -= rest / self.n[:, None]
        return out

    def fit(
        self, levels: np.ndarray, noise: float, *, near: float = _NEAR, start: LevelModel | None = None
    ) -> LevelModel:
        """The posterior of one set of levels (n_tasks,), looked for from a model that is much like it."""
        told = levels[:, None]
        noise = float(_at_least(np.array([noise]), told)[0])
        rho, kappa = self._best(told, noise, near, start)
        factor = self._factor(rho)
        p_spread = self._p_spread(told, noise, factor, kappa)
        rest, common = self._residual(factor, told, kappa)
        share, W = kappa / self.q, self.columns
        white = factor.whitened(np.column_stack([W, np.ones(len(W))]), kappa)
        ones = white[:, -1]
        # V^-1 W without what b_0 takes up
        P = white[:, :-1] - np.outer(ones, ones @ W) / ones.sum()
        scatter = noise * _excess(rest, told - common, noise)
        prior = share * _twins(W)
        effect, error, p = _tests(P.T @ levels, np.einsum("tj,tj->j", P, W), prior, scatter, len(W))
        return LevelModel(
            common=float(common[0]), spread=float(np.sqrt(noise * rho)), noise=float(np.sqrt(noise)),
            effects=share * (W.T @ rest)[:, 0], prior_spread=float(np.sqrt(noise * share)),
            factor=np.sqrt(share) * _root(P, W, ones, factor, kappa),
            common_error=float(np.sqrt(noise / factor.at_least_rounding(ones.sum()))),
            levels=levels - rest[:, 0] / self.n,
            tested=effect, errors=error, p=p, p_spread=p_spread,
        )  # fmt: skip

    @cached_property
    def _grid(self) -> np.ndarray:
        return self._unit * _GRID

    @cached_property
    def _factors(self) -> list[Factor]:
        return [self._factor(rho) for rho in self._grid]

    def _factor(self, rho: float) -> Factor:
        return Factor.of(self._W, rho + 1.0 / self.n)

    def _best(
        self, told: np.ndarray, noise: float, near: float, start: LevelModel | None
    ) -> tuple[float, float]:
        """(rho, kappa) where the restricted likelihood is largest, the best of a grid or `start`, refined."""
        if start is None:
            at = np.array([noise])
            known = np.array([factor.restricted(told, at, self._grid)[:, 0] for factor in self._factors])
            first = _GRID[[*np.unravel_index(known.argmax(), known.shape)]]
        else:
            spreads = np.array([start.spread, start.prior_spread * np.sqrt(self.q)])
            first = np.clip((spreads / start.noise) ** 2 / self._unit, *_GRID[[0, -1]])

        def question(u: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            rise = np.exp(u)
            own = self._unit * (rise - _SMALL)
            value, slope, bend = self._factor(own[0]).bent(told[:, 0], noise, own[1], self._W)
            return value, self._unit * rise * slope, self._unit**2 * np.outer(rise, rise) * bend

        low, high = np.log(_SMALL + _GRID[[0, -1]])
        best = self._unit * (np.exp(least(question, np.log(_SMALL + first), low, high, near)) - _SMALL)
        return float(best[0]), float(best[1])

    def _p_spread(self, told: np.ndarray, noise: float, factor: Factor, kappa: float) -> float:
        """p of no scatter beyond the columns: the likelihood ratio, whose null has half its mass at zero."""
        at = np.array([noise])
        best = factor.restricted(told, at, np.array([kappa]))[0, 0]
        null = self._factor(0.0).restricted(told, at, self._unit * _FINE_GRID).max()
        return float(0.5 * chi2.sf(2.0 * (best - null), 1)) if best > null else 1.0

    @staticmethod
    def _residual(factor: Factor, told: np.ndarray, kappa: float) -> tuple[np.ndarray, np.ndarray]:
        """V^-1 (told - b_0) and b_0, the best one."""
        white = factor.whitened(np.column_stack([told, np.ones(len(told))]), kappa)
        common = white[:, :-1].sum(axis=0) / white[:, -1].sum()
        return white[:, :-1] - white[:, -1:] * common, common


def _leading(W: np.ndarray) -> np.ndarray:
    """W, or its leading principal directions where both of its sides are long."""
    if min(W.shape) <= _MOST_DIRECTIONS:
        return W
    values, vectors = np.linalg.eigh(W @ W.T if W.shape[0] <= W.shape[1] else W.T @ W)
    lead = vectors[:, -_MOST_DIRECTIONS:]
    return lead * np.sqrt(values[-_MOST_DIRECTIONS:]) if W.shape[0] <= W.shape[1] else W @ lead


def _at_least(noise: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """The noise, which is never so small against the levels that their ratio could not be had."""
    size = np.var(levels, axis=0)
    return np.maximum(noise, np.where(size > 0.0, _EXACT * size, 1.0))


def _excess(rest: np.ndarray, apart: np.ndarray, noise: float) -> float:
    """How much more the levels scatter than their covariance says, at least 1 (Hartung and Knapp)."""
    return max(1.0, float(apart[:, 0] @ rest[:, 0]) / noise / max(len(apart) - 2, 1))


def _twins(W: np.ndarray) -> np.ndarray:
    """How many columns are equal to each one, itself included, or its opposite; (q,)."""
    if not W.size:
        return np.ones(W.shape[1])
    alike = np.round(W * np.where(W[:1] < 0.0, -1.0, 1.0), 9)
    _, of, n = np.unique(alike, axis=1, return_inverse=True, return_counts=True)
    return n[of]


def _tests(slope: np.ndarray, size: np.ndarray, share: np.ndarray, noise: float, n_tasks: int) -> tuple:
    """Each column's effect without a prior of its own, beside the others; its error, and p for none.

    A prior on the effect adds exactly its variance to that of the estimate, which is taken off again. Columns
    that are equal are tested as one.
    """
    some = size > 0.0
    unit = np.where(some, size, 1.0)
    variance = np.maximum(1.0 / unit - share, 0.0) * noise
    effect, error = slope / unit, np.where(some, np.sqrt(variance), np.inf)
    ratio = np.divide(np.abs(effect), error, out=np.zeros_like(effect), where=error > 0.0)
    p = 2.0 * student.sf(ratio, max(n_tasks - 2, 1)) if n_tasks > 2 else np.ones_like(effect)
    return effect, error, p


def _root(P: np.ndarray, W: np.ndarray, ones: np.ndarray, factor: Factor, kappa: float) -> np.ndarray:
    """R with R'R = W' P, in the smaller dimension; P is V^-1 W without what b_0 takes up."""
    if W.shape[1] <= W.shape[0]:
        return _half(W.T @ P)
    inverse = factor.whitened(np.eye(len(W)), kappa)
    return _half(inverse - np.outer(ones, ones) / ones.sum()) @ W


def _half(matrix: np.ndarray) -> np.ndarray:
    """R with R'R = a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    kept = values > _NOTHING * values.max(initial=0.0)
    return np.sqrt(values[kept])[:, None] * vectors[:, kept].T


def least(
    question: Callable[[np.ndarray], tuple], point: np.ndarray, low: np.ndarray, high: np.ndarray,
    near: float = _NEAR,
) -> np.ndarray:  # fmt: skip
    """Where a function of a few numbers within bounds is least, by Newton's method; steps up are halved.

    Parameters
    ----------
    question : callable
        Value, gradient and second derivatives, or what is near them, at a point.
    point : ndarray
        Where to begin.
    low, high : ndarray
        The bounds.
    near : float
        Size of the last step.

    Examples
    --------
    >>> import numpy as np
    >>> def question(x):
    ...     return np.exp(x).sum() - x[0], np.exp(x) - [1.0, 0.0], np.diag(np.exp(x))
    >>> least(question, np.ones(2), np.full(2, -2.0), np.full(2, 2.0)).round(3) + 0.0
    array([ 0., -2.])
    """
    value, slope, bend = question(point)
    for _ in range(_STEPS):
        held = ((point <= low) & (slope > 0.0)) | ((point >= high) & (slope < 0.0))
        sizes, vectors = np.linalg.eigh(np.where(held | held[:, None], 0.0, bend))
        sizes = np.maximum(np.abs(sizes), max(_FLAT * np.abs(sizes).max(), np.finfo(float).tiny))
        step = np.where(held, 0.0, -vectors @ ((vectors.T @ np.where(held, 0.0, slope)) / sizes))
        aim = np.clip(point + step / max(1.0, np.abs(step).max()), low, high)
        found = question(aim)
        while found[0] > value and np.abs(aim - point).max() > near:
            aim = 0.5 * (aim + point)
            found = question(aim)
        moved = np.abs(aim - point).max()
        if found[0] <= value:
            point, (value, slope, bend) = aim, found
        if moved <= near:
            break
    return point


# -- what was learned ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LevelModel:
    """The levels of tasks, and what they follow; columns are on one scale.

    Attributes
    ----------
    common, common_error : float
        b_0 and its standard error.
    spread : float
        tau.
    noise : float
        Standard deviation of the noise of a row, or 1 where rows tell by their own curvature.
    effects : ndarray of shape (q,)
        Posterior mean of gamma.
    prior_spread : float
        eta / sqrt(q).
    factor : ndarray of shape (r, q)
        F: gamma has the posterior covariance ``prior_spread^2 * (I - F' F)``.
    levels : ndarray of shape (n_tasks,)
        Posterior means (for classes and counts: modes) of the levels.
    tested, errors, p : ndarray of shape (q,)
        Each column's effect without a prior of its own, its standard error, and the p-value of none.
    p_spread : float
        The p-value of no scatter beyond what the columns say.
    """

    common: float
    spread: float
    noise: float
    effects: np.ndarray
    prior_spread: float
    factor: np.ndarray
    common_error: float
    levels: np.ndarray
    tested: np.ndarray
    errors: np.ndarray
    p: np.ndarray
    p_spread: float

    def rescaled(self, unit: float) -> LevelModel:
        """The same where levels are measured in another unit, of which this one is so many."""
        lengths = ("common", "common_error", "spread", "noise", "prior_spread")
        names = (*lengths, "effects", "levels", "tested", "errors")
        changes = {name: unit * getattr(self, name) for name in names}
        return replace(self, **changes)

    def expected(self, columns: np.ndarray) -> np.ndarray:
        """b_0 + w . gamma of tasks with these columns (n, q)."""
        return self.common + columns @ self.effects

    def variance(self, columns: np.ndarray) -> np.ndarray:
        """Variance of the level of a task never seen: of u, and of what is not known of b_0 and gamma."""
        unknown = np.sum(columns**2, axis=1) - np.sum((columns @ self.factor.T) ** 2, axis=1)
        return self.spread**2 + self.common_error**2 + self.prior_spread**2 * np.maximum(unknown, 0.0)
