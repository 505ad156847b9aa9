"""Unshrunk effects of single tasks with errors: docs/model.md, eqs. (20) and (21).

A penalised coefficient is shrunk and chosen, so it is no estimate of an effect. The score and the curvature
of a task's rows give an unshrunk effect for every feature, kept or not, also where a task has fewer rows than
features: by a Newton step from the fit (`FromFit`), or with what all tasks say of the averages and spreads of
the other features (`MixedModel`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from itertools import islice, repeat, tee
from typing import Any, Protocol

import numpy as np
from scipy.special import digamma, polygamma

from mmtfl.inference.meta_analysis import MetaAnalysis
from mmtfl.inference.row_moments import Pooled, TaskMoments, Totals, inverse_scatter

_RIDGE = 1e-3  # on the scale of correlations, for what all tasks share
_BORROWED = 10.0  # rows for which the residual variance of all tasks stands in that of a task
_MANY_TASKS = 20  # that tell whether their variances are alike
_ALIKE = np.array([2000.0, 400.0, 100.0, 50.0, 20.0])  # rows for which it then may stand
_APART = np.array([_BORROWED, 7.0, 5.0, 4.0, 3.0])
_LEAST_SHARE = 0.5  # of a variance, that the errors of the averages leave where they lessen it
_TOGETHER = 40_000  # numbers in the scatter of tasks whose steps are taken together
_WEAK = 1e-4  # correlation of a feature with what the others leave of it, below which a task tells nothing
CONSTANT = 1e-12  # share of the variance over all tasks below which a feature is constant within a task


@dataclass(frozen=True, eq=False)
class Effects:
    """Effects of all features in all tasks, with errors.

    Attributes
    ----------
    effect, error : ndarray of shape (n_tasks, n_features)
        Theta and its standard error; NaN where a task tells nothing.
    about : ndarray of shape (n_tasks, n_features)
        Variance of theta where the average is known.
    degrees : ndarray of shape (n_tasks,)
        Degrees of freedom of the errors; infinite where their size is known.
    covariance : list of ndarray of shape (n_tasks, n, n)
        For the sets of features asked for: covariances of their errors.
    noise : ndarray of shape (n_tasks,)
        Residual variance.
    by_group : float
        By how much dependence within groups of rows enlarges variances.
    inflation, taken : ndarray of shape (n_features,)
        What other averages do to those of a feature, see `MixedModel.over_tasks`.
    """

    effect: np.ndarray
    error: np.ndarray
    about: np.ndarray
    degrees: np.ndarray
    covariance: list[np.ndarray]
    noise: np.ndarray
    by_group: float
    inflation: np.ndarray
    taken: np.ndarray

    @property
    def over_tasks(self) -> MetaAnalysis:
        """Averages and spreads, of tasks that do not share rows."""
        own = self.about, self.inflation, self.taken
        return MetaAnalysis(self.effect, self.error**2, self.degrees, None, *own)

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
    variance, others, shared : ndarray of shape (n_features,)
        Variance of theta by noise of variance 1; by what the task's effects of the other features are beside
        their averages; and by the errors of these averages.
    squares, taken : float
        Sum of squares that tells the noise, and how many of the rows' degrees of freedom it lacks.
    fitted : float
        Degrees of freedom of the fit at which the rows are seen.
    vectors : function
        Gives an ndarray of shape (d, d): theta of feature j changes by column j times a change of the scores.
    correlation : list of ndarray of shape (n, n)
        Of the errors of the sets of features asked for.
    score, lost, curvature : ndarray of shape (d,), (d,), (d, d), or None
        Of the likelihood of a mixed model, see `Likelihood`.
    """

    effect: np.ndarray
    variance: np.ndarray
    others: np.ndarray
    shared: np.ndarray
    squares: float
    taken: float
    fitted: float
    vectors: Callable[[], np.ndarray]
    correlation: list[np.ndarray]
    score: np.ndarray | None = None
    lost: np.ndarray | None = None
    curvature: np.ndarray | None = None

    @classmethod
    def nothing(cls, d: int, joint: Iterable[tuple[int, ...]]) -> TaskStep:
        """That of a task whose rows tell nothing."""
        none, sets = np.full(d, np.nan), [np.full((len(own), len(own)), np.nan) for own in joint]
        return cls(none, none, none, none, 0.0, 0.0, 0.0, partial(np.zeros, (d, d)), sets)

    def by_group(self, X: np.ndarray, s: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, float]:
        """Variances from the sums of scores within groups of rows, and their degrees of freedom."""
        found, code = np.unique(groups, return_inverse=True)
        rows = (X @ self.vectors()) * s[:, None]
        sums = np.zeros((len(found), rows.shape[1]))
        np.add.at(sums, code, rows)
        n = float(len(found))
        spare = max(n - self.fitted, 0.1 * n)
        return (sums**2).sum(axis=0) * (n / spare), spare


class Plan(Protocol):
    """What every task needs to know of all others for its step."""

    @property
    def joint(self) -> tuple[tuple[int, ...], ...]:
        """Sets of features whose covariances are wanted."""

    def steps(self, own: Sequence[TaskMoments], a: np.ndarray, noise: np.ndarray) -> Iterable[TaskStep]:
        """The steps of tasks whose rows are seen at coefficients a, with these residual variances."""


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

    def steps(self, own: Sequence[TaskMoments], a: np.ndarray, noise: np.ndarray) -> Iterable[TaskStep]:
        """One task after the other."""
        return map(self._step, own, a)

    def _step(self, own: TaskMoments, a: np.ndarray) -> TaskStep:
        """Eq. (20): Omega is of the task where it has rows enough, of all tasks where it has not."""
        d, varies = len(a), self.pooled.varies
        share = own.n / (own.n + 2.0 * np.count_nonzero(varies))
        shared = self.pooled.correlation + np.diag(np.where(varies, _RIDGE, 1.0))
        omega = inverse_scatter(share * self.pooled.scaled(own) + (1.0 - share) * shared)
        if own.weight <= 0.0:
            return TaskStep.nothing(d, self.joint)
        unit = self.pooled.unit
        R = own.scatter / (unit * unit[:, None] * own.weight)
        seen = R @ omega
        with_own, square = np.diag(seen), np.einsum("ij,ij->j", omega, seen)
        tells = (np.diag(R) > CONSTANT) & (square > 0.0)
        tells &= with_own > _WEAK * np.sqrt(np.maximum(square, 0.0) * np.diag(R))
        vectors = omega / np.where(tells, with_own, np.inf) / (unit * unit[:, None] * own.weight)
        within = vectors.T @ own.scatter @ vectors
        tells &= np.diag(within) > 0.0  # not lost in rounding
        variance = np.where(tells, np.diag(within), np.nan)
        size, taken = np.sqrt(variance), self._taken(own, a)
        sets = [within[np.ix_(own, own)] / np.outer(size[[*own]], size[[*own]]) for own in self.joint]
        effect = np.where(tells, a + vectors.T @ own.score, np.nan)
        none = 0.0 * variance
        return TaskStep(effect, variance, none, none, own.squares, taken, taken, lambda: vectors, sets)

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
class Likelihood:
    """What the tasks say of the parameters of a mixed model.

    Attributes
    ----------
    score, lost, size : ndarray of shape (n_tasks, n_features)
        u_t, the diagonal of W_t H^-1 W_t, and that of W_t.
    curvature, squared_curvature : ndarray of shape (n_places, d, d)
        Sums of W_t, and of its squared entries, over the tasks of each place.
    """

    score: np.ndarray
    lost: np.ndarray
    size: np.ndarray
    curvature: np.ndarray
    squared_curvature: np.ndarray


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of some tasks; arrays with one row per task, those of `TaskStep`.

    Attributes
    ----------
    effect, variance, others, shared : ndarray of shape (n_tasks, n_features)
        See `TaskStep`.
    residual : ndarray of shape (n_tasks, 3)
        Rows, sums of squares and degrees of freedom taken.
    noise : ndarray of shape (n_tasks,)
        Residual variances with which the steps were taken.
    correlation : list of ndarray of shape (n_tasks, n, n)
        Of the sets of features asked for.
    by_group : ndarray of shape (n_tasks, n_features), or None
        Variances from sums of scores within groups of rows.
    spare_groups : ndarray of shape (n_tasks,), or None
        Degrees of freedom of these.
    likelihood : Likelihood, or None
        Of a mixed model.
    """

    effect: np.ndarray
    variance: np.ndarray
    others: np.ndarray
    shared: np.ndarray
    residual: np.ndarray
    noise: np.ndarray
    correlation: list[np.ndarray]
    by_group: np.ndarray | None = None
    spare_groups: np.ndarray | None = None
    likelihood: Any = None

    @classmethod
    def of(
        cls, plan: Plan, moments: Iterable[TaskMoments], coef: np.ndarray, noise: np.ndarray,
        rows: Iterable[Any] | None = None,
    ) -> Steps:  # fmt: skip
        """Take the steps of some tasks from coefficients, with residual variances.

        ``rows`` gives centred X, centred s and groups of each task, for errors by groups.
        """
        steps, residual, correlation, robust, likelihood = [], [], [], [], []
        curvature: list[Any] = [0.0, 0.0]
        every: Iterable[Any] = repeat(None) if rows is None else rows
        kept, seen = tee(moments)
        for own, step, of_rows in zip(kept, _in_parts(plan, seen, coef, noise), every, strict=False):
            steps.append((step.effect, step.variance, step.others, step.shared))
            residual.append((own.n, step.squares, step.taken))
            correlation.append(step.correlation)
            if step.curvature is not None:
                likelihood.append((step.score, step.lost, np.diag(step.curvature)))
                curvature = [curvature[0] + step.curvature, curvature[1] + step.curvature**2]
            if of_rows is not None:
                robust.append(step.by_group(*of_rows))
        effect, variance, others, shared = _columns(steps)
        by_group, spare = _columns(robust) or (None, None)
        parts = _columns(likelihood)
        return cls(
            effect, variance, others, shared, np.array(residual), noise, _columns(correlation),
            by_group, spare,
            Likelihood(*parts, *(part[None] for part in curvature)) if parts else None,
        )  # fmt: skip

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """Those of several places, in the order of the tasks."""
        return _joined(parts)


def _in_parts(
    plan: Plan, moments: Iterable[TaskMoments], coef: np.ndarray, noise: np.ndarray
) -> Iterator[TaskStep]:
    """The steps of as many tasks at a time as arrays of a moderate size hold."""
    moments, first = iter(moments), 0
    while own := list(islice(moments, max(1, _TOGETHER // coef.shape[1] ** 2))):
        part = slice(first, first := first + len(own))
        yield from plan.steps(own, coef[part], noise[part])


def _columns(rows: Sequence[Iterable[Any]]) -> list[Any]:
    """Arrays of the first entries of rows, of the second ones, and so on."""
    return [np.array(column) for column in zip(*rows, strict=True)]


def _joined(parts: Sequence[Any]) -> Any:
    """Arrays, lists of arrays, or dataclasses of these, one after the other."""
    first = parts[0]
    if first is None:
        return None
    if isinstance(first, list):
        return [_joined(own) for own in zip(*parts, strict=True)]
    if is_dataclass(first):
        names = (one.name for one in fields(first))
        kind: Any = type(first)
        return kind(*(_joined([getattr(part, name) for part in parts]) for name in names))
    return np.concatenate(parts)


def finished(
    steps: Steps, usable: np.ndarray, joint: Iterable[tuple[int, ...]] = (), *, noise: str = "unknown"
) -> Effects:
    """Effects and errors of all tasks from their steps.

    Parameters
    ----------
    steps : Steps
        Of all tasks.
    usable : ndarray of bool of shape (n_tasks, n_features)
        Whether a feature varies within a task.
    joint : iterable of tuples of int
        The sets of features whose correlations were asked for.
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
    degrees, by_group = spare + borrowed if noise == "unknown" else np.full(len(n), np.inf), 1.0
    if steps.by_group is not None and steps.spare_groups is not None:
        factor = group_factor(np.where(usable, steps.by_group, np.nan) / variance, steps.spare_groups)
        variance, by_group = variance * factor, float(factor.mean())
        degrees = np.minimum(degrees, steps.spare_groups + _BORROWED)
    about, ones = variance + steps.others, np.ones(effect.shape[1])
    error = np.sqrt(np.maximum(about + steps.shared, _LEAST_SHARE * about))
    covariance = []
    for features, correlation in zip(joint, steps.correlation, strict=True):
        own = error[:, list(features)]
        covariance.append(correlation * own[:, :, None] * own[:, None, :])
    return Effects(effect, error, about, degrees, covariance, sigma, by_group, ones, ones)


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


def group_factor(ratio: np.ndarray, spare: np.ndarray) -> np.ndarray:
    """How much larger variances by groups are than those of independent rows, drawn to the mean of all tasks.

    A task of few groups does not tell by itself.
    """
    weight = np.where(np.isfinite(ratio), spare[:, None], 0.0)
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
