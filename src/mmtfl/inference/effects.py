"""Unshrunk effects with errors, one Newton step from a penalised fit: docs/model.md, eqs. (19) and (20).

A penalised coefficient is shrunk and chosen, so it is no estimate of an effect. From the score and the
curvature of a task's rows at the fit, one step gives an unshrunk effect for every feature, kept or not,
also where a task has fewer rows than features. For the squared loss it takes no more than means and scatter
(`TaskMoments.of_scatter`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from scipy.special import digamma, polygamma

MOST_FEATURES = 1000  # beyond, the kept ones and those with the largest scores
_NOTHING = 1e-100  # mean square of a column that has no entries, in units near one
_RIDGE = 1e-3  # on the scale of correlations, for the part of Omega that all tasks share
_BORROWED = 10.0  # rows for which the residual variance of all tasks stands in that of a task
_MANY_TASKS = 20  # that tell whether their variances are alike
_WEAK = 1e-4  # correlation of a feature with what the others leave of it, below which a task tells nothing
_MOST_OTHERS, _FEW_STEPS, _HOPELESS = (
    10,
    4,
    0.4,
)  # a feature of which four others leave that much is told apart
_CONSTANT = 1e-12  # share of the variance over all tasks below which a feature is constant within a task


@dataclass(frozen=True, eq=False)
class TaskMoments:
    """What the step needs of the rows of one task, at the fit.

    Attributes
    ----------
    n : float
        Sum of the rows' weights.
    weight : float
        Sum of their curvatures h.
    scatter : ndarray of shape (d, d)
        X' H X of columns centred with weights h.
    score : ndarray of shape (d,)
        X' s, s minus the derivative of the loss in z.
    squares : float
        Sum of squared residuals in units of a row's variance: that over its degrees of freedom is sigma^2.
    """

    n: float
    weight: float
    scatter: np.ndarray
    score: np.ndarray
    squares: float

    @classmethod
    def of_rows(
        cls,
        X: np.ndarray,
        s: np.ndarray,
        h: np.ndarray,
        weights: np.ndarray,
        *,
        centred: bool,
        residual: bool,
        scatter: np.ndarray | None = None,
    ) -> TaskMoments:
        """Sum up rows.

        ``residual`` says that the loss is one of y - z, whose noise has a variance of its own; ``scatter``
        is given where it is known from another task.
        """
        total = float(h.sum())
        if centred and total > 0.0:
            X, s = X - h @ X / total, s - h * (s.sum() / total)
        if scatter is None:
            scaled = X * np.sqrt(h)[:, None]
            scatter = scaled.T @ scaled
        base = weights if residual else h
        # s^2 / h in an order in which no square of a large weight overflows
        squares = float(s @ np.divide(s, base, out=np.zeros_like(s), where=base > 0.0))
        n = float(weights.sum())
        if residual and total > 0.0:
            squares *= n / total
        return cls(n, total, scatter, X.T @ s, squares)

    @classmethod
    def of_scatter(cls, n: float, scatter: np.ndarray, a: np.ndarray) -> TaskMoments:
        """The same for the squared loss from the scatter of X and y, y last, at coefficients a."""
        S, c = scatter[:-1, :-1], scatter[:-1, -1]
        squares = float(scatter[-1, -1] - 2.0 * (a @ c) + a @ S @ a)
        return cls(float(n), float(n), S, c - S @ a, max(squares, 0.0))


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of all features in all tasks, with errors.

    Attributes
    ----------
    effect, error : ndarray of shape (n_tasks, n_features)
        Theta of eq. (20) and its standard error; NaN where a task tells nothing.
    degrees : ndarray of shape (n_tasks,)
        Degrees of freedom of the errors; infinite where their size is known.
    covariance : list of ndarray of shape (n_tasks, n, n)
        For the sets of features asked for: covariances of their errors.
    """

    effect: np.ndarray
    error: np.ndarray
    degrees: np.ndarray
    covariance: list[np.ndarray]


@dataclass(frozen=True, eq=False)
class Totals:
    """What is summed over some tasks before the step: all of it together, and a few numbers of each."""

    scatter: np.ndarray
    weight: float
    rows: float
    sizes: np.ndarray  # (n_tasks, 2): rows and squared residuals
    scores: np.ndarray  # (n_tasks, n_features)

    @classmethod
    def of(cls, moments: Iterable[TaskMoments]) -> Totals:
        """Sum up some tasks."""
        scatter: Any = 0.0
        weight, rows, sizes, scores = 0.0, 0.0, [], []
        for own in moments:
            scatter, weight, rows = scatter + own.scatter, weight + own.weight, rows + max(own.n - 1.0, 0.0)
            sizes.append((own.n, own.squares))
            scores.append(own.score)
        return cls(scatter, weight, rows, np.array(sizes), np.array(scores))

    @classmethod
    def joined(cls, parts: Sequence[Totals]) -> Totals:
        """Those of several places, in the order of the tasks."""
        return cls(
            np.sum([part.scatter for part in parts], axis=0),
            sum(part.weight for part in parts),
            sum(part.rows for part in parts),
            np.concatenate([part.sizes for part in parts]),
            np.concatenate([part.scores for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class Pooled:
    """The scatter of all tasks together, on the scale of correlations.

    Attributes
    ----------
    correlation : ndarray of shape (d, d)
        S / h of eq. (19) in units of the features' spread within tasks.
    unit : ndarray of shape (d,)
        That spread; 1 for a feature that is constant within every task.
    rows : float
        Rows beyond the tasks' levels.
    """

    correlation: np.ndarray
    unit: np.ndarray
    rows: float

    @classmethod
    def of(cls, totals: Totals) -> Pooled:
        """The mean over the rows of all tasks."""
        mean = totals.scatter / max(totals.weight, np.finfo(float).tiny)
        square = np.diag(mean)
        unit = np.sqrt(np.where(square > _NOTHING, square, 1.0))
        return cls(mean / unit / unit[:, None], unit, totals.rows)

    def first(self, n: int) -> Pooled:
        """The same for the first n columns."""
        return Pooled(self.correlation[:n, :n], self.unit[:n], self.rows)


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of some tasks, per unit of noise; arrays with one row per task.

    Attributes
    ----------
    change, variance : ndarray of shape (n_tasks, n_features)
        Of the effects; NaN where a task tells nothing.
    taken : ndarray of shape (n_tasks,)
        Degrees of freedom that the fit takes.
    covariance : list of ndarray of shape (n_tasks, n, n)
        Of the sets of features asked for.
    by_group : ndarray of shape (n_tasks, n_features), or None
        Variances from sums of scores within groups of rows.
    n_groups : ndarray of shape (n_tasks,), or None
        How many groups there are.
    """

    change: np.ndarray
    variance: np.ndarray
    taken: np.ndarray
    covariance: list[np.ndarray]
    by_group: np.ndarray | None
    n_groups: np.ndarray | None

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """Those of several places, in the order of the tasks."""
        first = parts[0]

        def stacked(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in parts])

        with_groups = first.by_group is not None
        return cls(
            stacked("change"), stacked("variance"), stacked("taken"),
            [np.concatenate(own) for own in zip(*(part.covariance for part in parts), strict=True)],
            stacked("by_group") if with_groups else None, stacked("n_groups") if with_groups else None,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Plan:
    """What every task needs to know of all others for its step.

    Attributes
    ----------
    pooled : Pooled
        The scatter of all tasks.
    kept : ndarray of int
        Features that some task uses.
    slope : ndarray of shape (n_kept,)
        How strongly the penalty draws their coefficients, see `penalty_slope`.
    n_tasks : int
        Number of all tasks.
    joint : tuple of tuples of int
        Sets of features whose covariances are wanted.
    """

    pooled: Pooled
    kept: np.ndarray
    slope: np.ndarray
    n_tasks: int
    joint: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, totals: Totals, coef: np.ndarray, joint: Iterable[tuple[int, ...]] = ()) -> Plan:
        """Make the plan for coefficients (n_tasks, n_features) of a fit."""
        kept = np.flatnonzero(coef.any(axis=0))
        slope = penalty_slope(coef[:, kept], totals.scores[:, kept])
        return cls(Pooled.of(totals), kept, slope, len(coef), tuple(joint))

    def steps(
        self, moments: Iterable[TaskMoments], coef: np.ndarray, rows: Iterable[Any] | None = None
    ) -> Steps:
        """Take the steps of some tasks.

        ``rows`` gives centred X, centred s and groups of each task, for errors by groups.
        """
        found, taken, covariance, robust = [], [], [], []
        every: Iterable[Any] = repeat(None) if rows is None else rows
        for own, a, of_rows in zip(moments, coef, every, strict=False):
            step = _TaskStep.of(own, self.pooled)
            found.append(
                (np.where(step.tells, step.change, np.nan), np.where(step.tells, step.variance, np.nan))
            )
            taken.append(self._taken(own, a))
            covariance.append([step.covariance(np.array(features)) for features in self.joint])
            if of_rows is not None:
                robust.append(step.by_group(*of_rows))
        change, variance = (np.array(column) for column in zip(*found, strict=True))
        by_group, n_groups = zip(*robust, strict=True) if robust else (None, None)
        return Steps(
            change,
            variance,
            np.array(taken),
            [np.array(own) for own in zip(*covariance, strict=True)],
            None if by_group is None else np.array(by_group),
            None if n_groups is None else np.array(n_groups),
        )

    def _taken(self, own: TaskMoments, a: np.ndarray) -> float:
        """Degrees of freedom that level and coefficients take of a task's rows.

        A value that the penalty draws all tasks to takes one degree of all tasks together.
        """
        S = own.scatter[np.ix_(self.kept, self.kept)]
        finite = np.isfinite(self.slope) & (np.diag(S) > 0.0)
        share = np.zeros(len(self.kept))
        if finite.any():
            S = S[np.ix_(finite, finite)]
            penalised = S + np.diag(self.slope[finite] + 1e-9 * np.diag(S))
            share[finite] = np.clip(np.einsum("ij,ji->i", S, _inverse(penalised)), 0.0, 1.0)
        used = np.where(a[self.kept] != 0.0, share, 0.0)
        return 1.0 + float(np.sum(used + (1.0 - share) / self.n_tasks))


def finished(
    steps: Steps, totals: Totals, coef: np.ndarray, usable: np.ndarray, *, noise: str = "unknown"
) -> Effects:
    """Effects and errors of all tasks from their steps.

    Parameters
    ----------
    steps, totals
        Of all tasks.
    coef : ndarray of shape (n_tasks, n_features)
        The coefficients of the fit.
    usable : ndarray of bool of shape (n_tasks, n_features)
        Whether a feature varies within a task.
    noise : {"unknown", "known", "counts"}
        Whether its variance is estimated in each task, is 1 as that of classes, or 1 or more as that of
        counts.
    """
    n, squares = totals.sizes.T
    spare = np.maximum(n - steps.taken, 0.1 * n)
    sigma, borrowed = (np.ones(len(n)), 0.0) if noise == "known" else _noise(squares, spare)
    sigma = np.maximum(sigma, 1.0) if noise == "counts" else sigma
    effect = np.where(usable, coef + steps.change, np.nan)
    variance = np.where(usable, sigma[:, None] * steps.variance, np.nan)
    covariance = [sigma[:, None, None] * own for own in steps.covariance]
    degrees = spare + borrowed if noise == "unknown" else np.full(len(n), np.inf)
    if steps.by_group is not None and steps.n_groups is not None:
        own = np.where(usable, steps.by_group * (n / spare)[:, None], np.nan)
        variance *= group_factor(own / variance, steps.n_groups)
        degrees = np.minimum(degrees, steps.n_groups - 1.0 + _BORROWED)
    return Effects(effect, np.sqrt(variance), degrees, covariance)


def estimate_effects(
    moments: Sequence[TaskMoments], coef: np.ndarray, usable: np.ndarray, *, noise: str = "unknown"
) -> Effects:
    """Effects of all features from what each task's rows say at a fit, where all of it is in memory.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(2, 500, 3)), rng.normal(size=(2, 500))
    >>> y += X[..., 0]
    >>> rows = [np.column_stack([X[t], y[t]]) for t in range(2)]
    >>> fit = np.array([[0.9, 0.0, 0.0], [0.8, 0.0, 0.0]])
    >>> scatter = [500 * np.cov(own.T, bias=True) for own in rows]
    >>> moments = [TaskMoments.of_scatter(500, *both) for both in zip(scatter, fit, strict=True)]
    >>> found = estimate_effects(moments, fit, np.ones((2, 3), dtype=bool))
    >>> found.effect[:, 0].round(1).tolist(), found.error.max().round(2).item()
    ([1.0, 0.9], 0.05)
    """
    totals = Totals.of(moments)
    steps = Plan.of(totals, coef).steps(moments, coef)
    return finished(steps, totals, coef, usable, noise=noise)


@dataclass(frozen=True, eq=False)
class _TaskStep:
    """The Newton step of one task: change and variance (per unit of noise) of every effect."""

    change: np.ndarray
    variance: np.ndarray
    tells: np.ndarray
    _omega: np.ndarray  # columns v_j over v_j' S e_j, in the units of the data
    _scatter: np.ndarray

    @classmethod
    def of(cls, own: TaskMoments, pooled: Pooled) -> _TaskStep:
        d = len(own.score)
        if own.weight <= 0.0:
            nothing = np.full(d, np.nan)
            return cls(nothing, nothing, np.zeros(d, dtype=bool), np.zeros((d, d)), own.scatter)
        share = own.n / (own.n + 2.0 * d)
        R = own.scatter / (pooled.unit * pooled.unit[:, None] * own.weight)
        shared = pooled.correlation.copy()
        shared.flat[:: d + 1] = np.diag(shared) + _RIDGE
        omega = _inverse(share * R + (1.0 - share) * shared)
        left = R @ omega
        with_own, square = np.diag(left), np.einsum("ij,ij->j", omega, left)
        varies = np.diag(R) > _CONSTANT
        tells = varies & (square > 0.0) & (with_own > _WEAK * np.sqrt(np.maximum(square, 0.0) * np.diag(R)))
        safe = np.where(tells, with_own, 1.0)
        omega = omega / safe
        score = own.score / (pooled.unit * own.weight)
        change = (omega.T @ score) / pooled.unit
        variance = square / safe**2 / (pooled.unit**2 * own.weight)
        vectors = omega / (pooled.unit * pooled.unit[:, None] * own.weight)
        return cls(change, variance, tells, vectors, own.scatter)

    def covariance(self, features: np.ndarray) -> np.ndarray:
        """Covariance of the effects of some features, per unit of noise."""
        own = self._omega[:, features]
        out = own.T @ self._scatter @ own
        lacking = ~self.tells[features]
        out[lacking], out[:, lacking] = np.nan, np.nan
        return out

    def by_group(self, X: np.ndarray, s: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, float]:
        """Variances from the sums of scores within groups of rows, and how many groups there are."""
        found, code = np.unique(groups, return_inverse=True)
        rows = (X @ self._omega) * s[:, None]
        sums = np.zeros((len(found), rows.shape[1]))
        np.add.at(sums, code, rows)
        n = len(found)
        return (sums**2).sum(axis=0) * n / max(n - 1.0, 1.0), float(n)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    try:
        root = np.linalg.inv(np.linalg.cholesky(matrix))
        return root.T @ root
    except np.linalg.LinAlgError:
        return np.linalg.pinv(matrix, rcond=1e-10, hermitian=True)


def _noise(squares: np.ndarray, spare: np.ndarray) -> tuple[np.ndarray, float]:
    """Residual variance of each task, drawn to that of all tasks, and for how many rows the latter stands.

    For ten where there are few tasks; for more where many tasks show that their variances are alike, and
    for fewer where these lie farther apart than chance explains: then their logarithms have a variance of
    trigamma(rows / 2) beyond it (Smyth 2004).
    """
    told = (squares > 0.0) & (spare > 1.0)
    if not told.any():
        return squares / np.maximum(spare, 1.0), _BORROWED
    half = 0.5 * spare[told]
    logs = np.log(squares[told] / spare[told]) + np.log(half) - digamma(half)
    mean = np.average(logs, weights=1.0 / polygamma(1, half))
    beyond = np.sum((logs - mean) ** 2) / max(len(logs) - 1.0, 1.0) - np.mean(polygamma(1, half))
    more = [100.0, 50.0, 20.0] if len(logs) >= _MANY_TASKS else []
    rows = np.array([*more, _BORROWED, 7.0, 5.0, 3.0, 2.0, 1.0])
    borrowed = float(rows[np.argmin(np.abs(polygamma(1, 0.5 * rows) - beyond))])
    return (squares + borrowed * np.exp(mean)) / (spare + borrowed), borrowed


def group_factor(ratio: np.ndarray, n_groups: np.ndarray) -> np.ndarray:
    """How much larger variances by groups are than those of independent rows, drawn to the mean of all tasks.

    A task of few groups does not tell by itself.
    """
    weight = np.where(np.isfinite(ratio), np.maximum(n_groups - 1.0, 0.0)[:, None], 0.0)
    known, total = np.where(weight > 0.0, ratio, 0.0), weight.sum(axis=0)
    of_all = np.divide((weight * known).sum(axis=0), total, out=np.ones_like(total), where=total > 0.0)
    return (weight * known + _BORROWED * of_all) / (weight + _BORROWED)


def penalty_slope(a: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Slope over tasks of the scores in the coefficients of each feature; infinite where these are all equal.

    At a minimum the score is the penalty's gradient, so its slope says how strongly the penalty draws the
    coefficients of a feature to the value that they share.
    """
    if len(a) < 3:
        return np.zeros(a.shape[1])
    da, ds = a - a.mean(axis=0), scores - scores.mean(axis=0)
    square = (da**2).sum(axis=0)
    flat = square <= 1e-12 * (a**2).sum(axis=0)
    slope = np.divide((da * ds).sum(axis=0), square, out=np.full(len(square), np.inf), where=~flat)
    return np.maximum(slope, 0.0)


# -- features that others explain ----------------------------------------------------------------------------


def explained_by(pooled: Pooled, *, share: float = 0.9999, most: int = _MOST_OTHERS) -> dict[int, list[int]]:
    """The features of which the others explain more than a share within tasks, and by which others.

    With many rows for each feature all others may explain one; with few, up to ``most`` of them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> X[:, 2] = X[:, 0] + X[:, 1]
    >>> explained_by(Pooled(np.corrcoef(X.T), X.std(axis=0), 199.0))
    {0: [1, 2], 1: [0, 2], 2: [0, 1]}
    """
    R = pooled.correlation
    varies = np.diag(R) > 0.5
    if np.count_nonzero(varies) < 2:
        return {}
    many_rows = pooled.rows > 2.0 * varies.sum() and not _lacks_rank(R, varies)
    suspects = _suspects(R, varies, 1.0 - share) if many_rows else varies
    found = {}
    for j in np.flatnonzero(suspects).tolist():
        others = _forward(R, j, varies, left=1.0 - share, most=int(min(most, pooled.rows / 4.0)))
        if others is None and many_rows:
            others = _forward(R, j, varies, left=1.0 - share, most=int(varies.sum()) - 1)
        if others is not None:
            found[j] = sorted(others)
    return found


def _lacks_rank(R: np.ndarray, varies: np.ndarray) -> bool:
    """Whether tasks repeat few rows, as columns of y do: then all features together explain any of them."""
    n = int(varies.sum())
    return n > _MOST_OTHERS and np.linalg.matrix_rank(R[np.ix_(varies, varies)], hermitian=True) < 0.8 * n


def _suspects(R: np.ndarray, varies: np.ndarray, left: float) -> np.ndarray:
    """Features whose share that all others leave is small."""
    kept = np.flatnonzero(varies)
    own = R[np.ix_(kept, kept)].copy()
    own.flat[:: len(kept) + 1] += 1e-9
    out = np.zeros(len(varies), dtype=bool)
    out[kept] = 1.0 / np.diag(_inverse(own)) < left
    return out


def _forward(R: np.ndarray, j: int, varies: np.ndarray, *, left: float, most: int) -> list[int] | None:
    """Forward selection of features that leave less than ``left`` of feature j; None if there are none."""
    own, square = R[j].copy(), np.diag(R).copy()
    free, chosen, basis = varies.copy(), [], np.empty((0, len(R)))
    free[j] = False
    for step in range(most):
        usable = free & (square > 1e-8)
        gain = np.where(usable, own**2 / np.where(usable, square, 1.0), 0.0)
        k = int(np.argmax(gain))
        if gain[k] <= 1e-12 or (step >= _FEW_STEPS and own[j] > _HOPELESS * R[j, j] and most <= _MOST_OTHERS):
            return None
        column = (R[k] - basis[:, k] @ basis) / np.sqrt(square[k])
        basis = np.vstack([basis, column])
        own, square, free[k] = own - column[j] * column, square - column**2, False
        chosen.append(k)
        if own[j] < left * R[j, j]:
            return _needed(R, j, chosen, left)
    return None


def _needed(R: np.ndarray, j: int, chosen: list[int], left: float) -> list[int]:
    """Those of the chosen features without which the others would not explain feature j."""
    kept = list(chosen)
    for k in chosen:
        others = [one for one in kept if one != k]
        if others and _left_by(R, j, others) < left * R[j, j]:
            kept = others
    return kept


def _left_by(R: np.ndarray, j: int, others: list[int]) -> float:
    own = R[np.ix_(others, others)]
    return float(R[j, j] - R[j, others] @ np.linalg.lstsq(own, R[others, j], rcond=1e-10)[0])


def largest_scores(kept: np.ndarray, score: np.ndarray, most: int = MOST_FEATURES) -> np.ndarray:
    """Positions of at most so many features: the kept ones, then those with the largest scores; ascending."""
    order: Any = np.lexsort((-score, ~kept))
    return np.sort(order[:most])
