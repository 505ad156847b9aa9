"""Unshrunk effects of single tasks with errors: docs/model.md, eqs. (19), (20) and (23).

A penalised coefficient is shrunk and chosen, so it is no estimate of an effect. The score and the curvature
of a task's rows give an unshrunk effect for every feature, kept or not, also where a task has fewer rows than
features: at first by a Newton step from the fit (`FromFit`), then with what all tasks say of the averages and
spreads of the other features (`FromAverages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol

import numpy as np
from scipy.special import digamma, polygamma

from mmtfl.inference.meta_analysis import MetaAnalysis
from mmtfl.inference.row_moments import Pooled, TaskMoments, Totals, inverse_scatter

_RIDGE = 1e-3  # on the scale of correlations, for what all tasks share
_FLAT = 1e-8  # least variance of an effect between tasks, in units of noise and rows
_ROUNDING = 1e-30  # share of what the effects explain below which the noise is rounding error
_BORROWED = 10.0  # rows for which the residual variance of all tasks stands in that of a task
_MANY_TASKS = 20  # that tell whether their variances are alike
_ALIKE = np.array([2000.0, 400.0, 100.0, 50.0, 20.0])  # rows for which it then may stand
_APART = np.array([_BORROWED, 7.0, 5.0, 4.0, 3.0])
_WEAK = 1e-4  # correlation of a feature with what the others leave of it, below which a task tells nothing
_CONSTANT = 1e-12  # share of the variance over all tasks below which a feature is constant within a task


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
    noise : ndarray of shape (n_tasks,)
        Residual variance.
    """

    effect: np.ndarray
    error: np.ndarray
    degrees: np.ndarray
    covariance: list[np.ndarray]
    noise: np.ndarray

    @property
    def over_tasks(self) -> MetaAnalysis:
        """Averages and spreads."""
        return MetaAnalysis(self.effect, self.error**2, self.degrees)

    @property
    def usual_noise(self) -> float:
        """The geometric mean of the residual variances; 0 where there is none."""
        known = self.noise[self.noise > 0.0]
        return float(np.exp(np.mean(np.log(known)))) if known.size else 0.0


@dataclass(frozen=True, eq=False)
class TaskStep:
    """The step of one task.

    Attributes
    ----------
    effect : ndarray of shape (n_features,)
        Theta; NaN where the task tells nothing.
    variance, beside : ndarray of shape (n_features,)
        What noise of variance 1 does to it, and what is not known of the other features.
    squares, taken : float
        Sum of squares that tells the noise, and how many of the rows' degrees of freedom it lacks.
    vectors : ndarray of shape (d, d)
        v_tj over v_tj' S_t e_j.
    scatter, others : ndarray of shape (d, d)
        S_t; covariance of what is not known of the features.
    """

    effect: np.ndarray
    variance: np.ndarray
    beside: np.ndarray
    squares: float
    taken: float
    vectors: np.ndarray
    scatter: np.ndarray
    others: np.ndarray | None

    def covariance(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Covariance of the effects of some features, by noise of variance 1 and by the other features."""
        own = self.vectors[:, features]
        seen = self.scatter @ own
        noise, beside = own.T @ seen, np.zeros((len(features), len(features)))
        if self.others is not None:
            seen[features, np.arange(len(features))] = 0.0
            beside = seen.T @ self.others @ seen
        lacking = np.isnan(self.effect[features])
        noise[lacking], noise[:, lacking] = np.nan, np.nan
        return noise, beside

    def by_group(self, X: np.ndarray, s: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, float]:
        """Variances from the sums of scores within groups of rows, and how many groups there are."""
        found, code = np.unique(groups, return_inverse=True)
        rows = (X @ self.vectors) * s[:, None]
        sums = np.zeros((len(found), rows.shape[1]))
        np.add.at(sums, code, rows)
        n = len(found)
        return (sums**2).sum(axis=0) * n / max(n - 1.0, 1.0), float(n)


class Plan(Protocol):
    """What every task needs to know of all others for its step."""

    @property
    def joint(self) -> tuple[tuple[int, ...], ...]:
        """Sets of features whose covariances are wanted."""

    def step(self, own: TaskMoments, a: np.ndarray, noise: float) -> TaskStep:
        """The step of a task whose rows are seen at coefficients a."""


@dataclass(frozen=True, eq=False)
class FromFit:
    """A Newton step from a penalised fit.

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
    def of(cls, totals: Totals, coef: np.ndarray, joint: Iterable[tuple[int, ...]] = ()) -> FromFit:
        """Make the plan for coefficients (n_tasks, n_features) of a fit."""
        kept = np.flatnonzero(coef.any(axis=0))
        slope = penalty_slope(coef[:, kept], totals.scores[:, kept])
        return cls(Pooled.of(totals), kept, slope, len(coef), tuple(joint))

    def step(self, own: TaskMoments, a: np.ndarray, noise: float) -> TaskStep:
        """Eq. (19): Omega is of the task where it has rows enough, of all tasks where it has not."""
        d = len(a)
        share = own.n / (own.n + 2.0 * d)
        shared = self.pooled.correlation + np.diag(_RIDGE * np.diag(self.pooled.correlation))
        omega = inverse_scatter(share * self.pooled.scaled(own) + (1.0 - share) * shared)
        return _stepped(own, self.pooled.unit, omega, (a, own.score), (own.squares, self._taken(own, a)))

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
            share[finite] = np.clip(np.einsum("ij,ji->i", S, inverse_scatter(penalised)), 0.0, 1.0)
        used = np.where(a[self.kept] != 0.0, share, 0.0)
        return 1.0 + float(np.sum(used + (1.0 - share) / self.n_tasks))


@dataclass(frozen=True, eq=False)
class FromAverages:
    """A step in which the other features have effects about their averages, with their spreads: eq. (23).

    So it is least squares within the task where effects differ much, and as in all tasks together where
    they do not, as in a mixed model.

    Attributes
    ----------
    unit : ndarray of shape (d,)
        The spread of features within tasks.
    mean : ndarray of shape (d,)
        Averages.
    noise : float
        The usual residual variance.
    sampling, spread : ndarray of shape (d, d)
        Covariances of the averages' errors and of the tasks' effects about them, in units of both.
    precision : ndarray of shape (d, d)
        The inverse of both together.
    joint : tuple of tuples of int
        Sets of features whose covariances are wanted.
    """

    unit: np.ndarray
    mean: np.ndarray
    noise: float
    sampling: np.ndarray
    spread: np.ndarray
    precision: np.ndarray
    joint: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(
        cls, totals: Totals, found: Effects, coef: np.ndarray, joint: Iterable[tuple[int, ...]] = ()
    ) -> FromAverages:
        """Make the plan from the effects that were found.

        A feature that tells no average has effects about zero, of the size of the coefficients.
        """
        pooled, analysis = Pooled.of(totals), found.over_tasks
        told = analysis.n_tasks > 1
        size = np.mean(np.where(analysis.known, analysis.theta, coef) ** 2, axis=0)
        mean = np.where(told, analysis.average, 0.0)
        square = np.where(told, np.nan_to_num(analysis.spread) ** 2, size) * pooled.unit**2
        explained = float(np.sum((mean * pooled.unit) ** 2 + square))
        noise = max(found.usual_noise, _ROUNDING * explained) or 1.0
        per_row = 1.0 / max(totals.weight, np.finfo(float).tiny)
        shared = pooled.correlation + np.diag(_RIDGE * np.diag(pooled.correlation) + 1e-12)
        sampling = per_row * inverse_scatter(shared)
        spread = np.diag(np.maximum(square / noise, _FLAT * per_row))
        both = inverse_scatter(sampling + spread)
        return cls(pooled.unit, mean, noise, sampling, spread, both, tuple(joint))

    def step(self, own: TaskMoments, a: np.ndarray, noise: float) -> TaskStep:
        """Omega is the inverse of the task's curvature and the others' precision, in units of the noise."""
        share, to_mean = max(noise / self.noise, _FLAT), a - self.mean
        curvature = own.scatter / (self.unit * self.unit[:, None] * share)
        omega = inverse_scatter(curvature + self.precision)
        score = own.score + own.scatter @ to_mean
        # y' (I + X C X')^-1 y in units of noise, and what it lacks as averages are of the same rows
        far = (own.score + score) @ to_mean - (score / self.unit) @ omega @ (score / self.unit) / share
        lost = np.sum(self.sampling * (curvature @ omega @ self.precision))
        left = max(own.squares + own.per_curvature * far, 0.0)
        return _stepped(
            own, self.unit, omega, (self.mean, score), (left, 1.0 + 2.0 * float(lost)),
            others=self.noise * (self.sampling + self.spread),
        )  # fmt: skip


def _stepped(
    own: TaskMoments, unit: np.ndarray, omega: np.ndarray, start: tuple[np.ndarray, np.ndarray],
    residual: tuple[float, float], others: np.ndarray | None = None,
) -> TaskStep:  # fmt: skip
    """Effects by the columns of Omega from a start with its score, eq. (20).

    ``others`` is the covariance of what the start does not know; 0 without it.
    """
    at, score = start
    if own.weight <= 0.0:
        nothing = np.full(len(at), np.nan)
        return TaskStep(nothing, nothing, nothing, 0.0, 0.0, 0.0 * omega, own.scatter, None)
    R = own.scatter / (unit * unit[:, None] * own.weight)
    seen = R @ omega
    with_own, square = np.diag(seen).copy(), np.einsum("ij,ij->j", omega, seen)
    tells = (np.diag(R) > _CONSTANT) & (square > 0.0)
    tells &= with_own > _WEAK * np.sqrt(np.maximum(square, 0.0) * np.diag(R))
    safe = np.where(tells, with_own, 1.0)
    omega, seen = omega / safe, seen / safe
    effect = at + (omega.T @ (score / (unit * own.weight))) / unit
    variance, beside = square / safe**2 / (unit**2 * own.weight), np.zeros(len(unit))
    if others is not None:
        np.fill_diagonal(seen, 0.0)
        beside = np.einsum("kj,kj->j", seen, others @ seen) / unit**2
        others = others / (unit * unit[:, None])
    vectors = omega / (unit * unit[:, None] * own.weight)
    effect, variance = np.where(tells, effect, np.nan), np.where(tells, variance, np.nan)
    return TaskStep(effect, variance, beside, *residual, vectors, own.scatter, others)


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of some tasks; arrays with one row per task, those of `TaskStep`.

    Attributes
    ----------
    effect, variance, beside : ndarray of shape (n_tasks, n_features)
        See `TaskStep`.
    residual : ndarray of shape (n_tasks, 3)
        Rows, sums of squares and degrees of freedom taken.
    covariance, covariance_beside : list of ndarray of shape (n_tasks, n, n)
        Of the sets of features asked for.
    by_group : ndarray of shape (n_tasks, n_features), or None
        Variances from sums of scores within groups of rows.
    n_groups : ndarray of shape (n_tasks,), or None
        How many groups there are.
    """

    effect: np.ndarray
    variance: np.ndarray
    beside: np.ndarray
    residual: np.ndarray
    covariance: list[np.ndarray]
    covariance_beside: list[np.ndarray]
    by_group: np.ndarray | None
    n_groups: np.ndarray | None

    @classmethod
    def of(
        cls, plan: Plan, moments: Iterable[TaskMoments], coef: np.ndarray, noise: np.ndarray,
        rows: Iterable[Any] | None = None,
    ) -> Steps:  # fmt: skip
        """Take the steps of some tasks from coefficients, with residual variances.

        ``rows`` gives centred X, centred s and groups of each task, for errors by groups.
        """
        steps, residual, covariance, robust = [], [], [], []
        every: Iterable[Any] = repeat(None) if rows is None else rows
        for own, a, variance, of_rows in zip(moments, coef, noise, every, strict=False):
            step = plan.step(own, a, float(variance))
            steps.append((step.effect, step.variance, step.beside))
            residual.append((own.n, step.squares, step.taken))
            covariance.append([step.covariance(np.array(features)) for features in plan.joint])
            if of_rows is not None:
                robust.append(step.by_group(*of_rows))
        by_group, n_groups = map(np.array, zip(*robust, strict=True)) if robust else (None, None)
        pairs = [[np.array(part) for part in zip(*own, strict=True)] for own in zip(*covariance, strict=True)]
        effect, variance, beside = (np.array(column) for column in zip(*steps, strict=True))
        return cls(
            effect, variance, beside, np.array(residual), [pair[0] for pair in pairs],
            [pair[1] for pair in pairs], by_group, n_groups,
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """Those of several places, in the order of the tasks."""

        def stacked(name: str) -> Any:
            own = [getattr(part, name) for part in parts]
            if own[0] is None:
                return None
            if isinstance(own[0], list):
                return [np.concatenate(each) for each in zip(*own, strict=True)]
            return np.concatenate(own)

        return cls(**{name: stacked(name) for name in cls.__dataclass_fields__})


def finished(steps: Steps, usable: np.ndarray, *, noise: str = "unknown") -> Effects:
    """Effects and errors of all tasks from their steps.

    Parameters
    ----------
    steps : Steps
        Of all tasks.
    usable : ndarray of bool of shape (n_tasks, n_features)
        Whether a feature varies within a task.
    noise : {"unknown", "known", "counts"}
        Whether its variance is estimated in each task, is 1 as that of classes, or 1 or more as that of
        counts.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.inference.row_moments import TaskMoments, Totals
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(2, 500, 3)), rng.normal(size=(2, 500))
    >>> y += X[..., 0]
    >>> fit, ones = np.array([[0.9, 0.0, 0.0], [0.8, 0.0, 0.0]]), np.ones(500)
    >>> rows = zip(X, y - np.einsum("tnd,td->tn", X, fit), strict=True)
    >>> moments = [TaskMoments.of_rows(*own, ones, ones, centred=True, residual=True) for own in rows]
    >>> plan = FromFit.of(Totals.of(moments), fit)
    >>> found = finished(Steps.of(plan, moments, fit, np.ones(2)), np.ones((2, 3), dtype=bool))
    >>> found.effect[:, 0].round(1).tolist(), found.error.max().round(2).item()
    ([1.0, 0.9], 0.05)
    """
    n, squares, taken = steps.residual.T
    spare = np.maximum(n - taken, 0.1 * n)
    sigma, borrowed = (np.ones(len(n)), 0.0) if noise == "known" else noise_variance(squares, spare)
    sigma = np.maximum(sigma, 1.0) if noise == "counts" else sigma
    effect = np.where(usable, steps.effect, np.nan)
    variance = np.where(usable, sigma[:, None] * steps.variance, np.nan)
    pairs = zip(steps.covariance, steps.covariance_beside, strict=True)
    covariance = [sigma[:, None, None] * own + beside for own, beside in pairs]
    degrees = spare + borrowed if noise == "unknown" else np.full(len(n), np.inf)
    if steps.by_group is not None and steps.n_groups is not None:
        own = np.where(usable, steps.by_group * (n / spare)[:, None], np.nan)
        variance *= group_factor(own / variance, steps.n_groups)
        degrees = np.minimum(degrees, steps.n_groups - 1.0 + _BORROWED)
    return Effects(effect, np.sqrt(variance + steps.beside), degrees, covariance, sigma)


def noise_variance(squares: np.ndarray, spare: np.ndarray) -> tuple[np.ndarray, float]:
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
    rows = np.concatenate([_ALIKE, _APART]) if len(logs) >= _MANY_TASKS else _APART
    borrowed = float(rows[np.argmin(np.abs(polygamma(1, 0.5 * rows) - beyond))])
    # the mean of variances that vary so is larger than the value that they are drawn to
    centre = (1.0 - 2.0 / borrowed) * squares[told].sum() / spare[told].sum()
    return (squares + borrowed * centre) / (spare + borrowed), borrowed


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
