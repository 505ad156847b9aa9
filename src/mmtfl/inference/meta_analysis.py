"""Random-effects meta-analysis of the tasks' effects, for all features at once: eqs. (26) and (27).

The effects theta_t of a feature in k tasks, with known variances, are taken as draws from N(mu, tau^2) seen
with errors: mu is the average effect, tau the spread between tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

Interval = tuple[np.ndarray, np.ndarray]
_NEWTON_STEPS = 200
_GRID = (np.arange(41) + 0.5) / 41  # of spreads between 0 and the upper end of a wide interval
_FEWEST = 8.0  # degrees of freedom of what tasks may have, where spreads are averaged over


@dataclass(frozen=True, eq=False)
class MetaAnalysis:
    """The average effect of each feature and its spread between tasks.

    Parameters
    ----------
    theta, variance : ndarray of shape (n_tasks, n_features)
        Effects and the squares of their errors; NaN where a task tells nothing of a feature.
    degrees : ndarray of shape (n_tasks,)
        Degrees of freedom of the errors; infinite where these are known.
    correlation : ndarray of shape (n_tasks, n_tasks), optional
        Correlation between the errors of two tasks, where tasks share rows.
    about : ndarray of shape (n_tasks, n_features), optional
        Variances where the average is known, if they are others.
    inflation, taken : ndarray of shape (n_features,), or 1
        By how much other averages, which are estimated too, enlarge the variance of one, and how many degrees
        of freedom of its effects all of them take.

    Examples
    --------
    >>> import numpy as np
    >>> found = MetaAnalysis(np.array([[1.0], [2.0], [3.0]]), np.full((3, 1), 0.25), np.full(3, np.inf))
    >>> found.average, found.spread.round(3), found.p.round(3)
    (array([2.]), array([0.866]), array([0.074]))
    """

    theta: np.ndarray
    variance: np.ndarray
    degrees: np.ndarray
    correlation: np.ndarray | None = None
    about: np.ndarray | None = None
    inflation: np.ndarray | float = 1.0
    taken: np.ndarray | float = 1.0

    # -- estimates, (n_features,) ---------------------------------------------------------------------------

    @cached_property
    def n_tasks(self) -> np.ndarray:
        """In how many tasks a feature has an effect."""
        return np.count_nonzero(self.known, axis=0)

    @cached_property
    def known(self) -> np.ndarray:
        """Which effects there are, (n_tasks, n_features)."""
        return np.isfinite(self.theta) & np.isfinite(self.variance) & (self.variance > 0.0)

    @property
    def spare(self) -> np.ndarray:
        """Degrees of freedom of the effects about their average; 1 at least."""
        return np.maximum(self.n_tasks - self.taken, 1.0)

    @cached_property
    def spread(self) -> np.ndarray:
        """Tau, by Paule and Mandel; NaN for fewer than two tasks."""
        return np.where(self.n_tasks > 1, np.sqrt(self._spread_square(self.spare)), np.nan)

    @cached_property
    def average(self) -> np.ndarray:
        """Mu; NaN where no task tells anything."""
        return np.where(self.n_tasks > 0, self._at(self._tau_square)[1], np.nan)

    @cached_property
    def error(self) -> np.ndarray:
        """Standard error of the average: that of a weighted mean, enlarged as by Hartung and Knapp."""
        w, _, q = self._at(self._tau_square)
        excess = np.maximum(1.0, q / self.spare)
        return np.where(self.n_tasks > 0, np.sqrt(excess * self._error_square(w)), np.nan)

    @cached_property
    def average_degrees(self) -> np.ndarray:
        """Degrees of freedom of the average: k - 1 where tasks differ, else those of the errors."""
        of_errors = np.where(self.known, self.degrees[:, None], 0.0).sum(axis=0)
        return np.where(self._tau_square > 0.0, self.spare, np.maximum(of_errors, 1.0))

    @property
    def same_direction(self) -> np.ndarray:
        """Share of tasks whose effect has the sign of the average."""
        return _share_of_sign(self.average, self.spread)

    # -- tests ----------------------------------------------------------------------------------------------

    @property
    def p(self) -> np.ndarray:
        """P-value of an average of zero."""
        return 2.0 * stats.t.sf(np.abs(self.average / self.error), self.average_degrees)

    @property
    def p_spread(self) -> np.ndarray:
        """P-value of a spread of zero, by Cochran's Q; NaN for fewer than two tasks."""
        q = self._at(np.zeros(self.theta.shape[1]))[2]
        return np.where(self.n_tasks > 1, stats.chi2.sf(q, self.spare), np.nan)

    @property
    def p_any(self) -> np.ndarray:
        """P-value of no effect in any task: chi^2 of all effects; by Simes where errors are correlated."""
        if self.correlation is not None:
            ranked = np.sort(np.where(self.known, self.p_single, np.inf), axis=0)
            rank = np.arange(1.0, len(ranked) + 1.0)[:, None]
            return np.minimum((ranked * self.n_tasks / rank).min(axis=0), 1.0)
        squares = np.where(self.known, self._filled**2 / (self.variance * self._usual_square), 0.0).sum(
            axis=0
        )
        return np.where(self.n_tasks > 0, stats.chi2.sf(squares, np.maximum(self.n_tasks, 1)), np.nan)

    @property
    def p_single(self) -> np.ndarray:
        """P-value of each single effect, (n_tasks, n_features)."""
        with np.errstate(invalid="ignore"):
            return 2.0 * stats.t.sf(np.abs(self.theta) / np.sqrt(self.variance), self.degrees[:, None])

    # -- intervals ------------------------------------------------------------------------------------------

    def interval(self, coverage: float) -> Interval:
        """Interval of the average."""
        return _about(self.average, _t(coverage, self.average_degrees) * self.error)

    def spread_interval(self, coverage: float) -> Interval:
        """Interval of the spread: the tau at which Q is not unusual; NaN for fewer than two tasks."""
        degrees = self.spare
        tails = (1.0 + coverage) / 2.0, (1.0 - coverage) / 2.0
        ends = [np.sqrt(self._spread_square(stats.chi2.ppf(tail, degrees))) for tail in tails]
        low, high = (np.where(self.n_tasks > 1, end, np.nan) for end in ends)
        return low, high

    def new_task_interval(self, coverage: float) -> Interval:
        """Interval of the effect in a task that was not seen; NaN for fewer than two tasks."""
        reach = _t(coverage, np.maximum(self.spare, _FEWEST)) * np.sqrt(self._squares[1])
        return _about(self.average, np.where(self.n_tasks > 1, reach, np.nan))

    def single_interval(self, coverage: float) -> Interval:
        """Interval of each single effect, (n_tasks, n_features)."""
        return _about(self.theta, _t(coverage, self.degrees)[:, None] * np.sqrt(self.variance))

    def shrunk(self, coverage: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Each task's effect drawn to the average, with its interval, (n_tasks, n_features); eq. (27)."""
        several = self.n_tasks > 1
        value = np.where(several, self._drawn(self._tau_square, self.average)[0], self.theta)
        square = np.where(several, self._squares[0], self.variance)
        degrees = np.where(several, np.maximum(self.spare, _FEWEST), self.degrees[:, None])
        return value, *_about(value, _t(coverage, degrees) * np.sqrt(square))

    @property
    def drawn(self) -> np.ndarray:
        """Each task's effect drawn to the average, (n_tasks, n_features)."""
        return self._drawn(self._tau_square, self.average)[0]

    def _drawn(self, tau_square: np.ndarray, mean: np.ndarray) -> Interval:
        """Effects drawn to a mean, and how much of them the mean is, at some tau^2."""
        own = np.where(self.known, 1.0 / self._seen, 0.0)
        of_mean = 1.0 / (1.0 + own * tau_square)
        return self._filled * (1.0 - of_mean) + mean * of_mean, of_mean

    @cached_property
    def _squares(self) -> Interval:
        """Mean squared distance of effects from the shrunk ones, and of a new task's from the average.

        Over the spreads that the effects leave possible: with a flat prior, or with two tasks, of which no
        spread is too large, with that of DuMouchel.
        """
        top = np.maximum(np.nan_to_num(self.spread_interval(0.98)[1]), np.finfo(float).tiny)
        spreads = top * _GRID[:, None] ** 1.5
        weights = np.array([self._log_density(tau) for tau in spreads]) + 0.5 * np.log(_GRID)[:, None]
        weights = np.exp(weights - weights.max(axis=0))
        value = self._drawn(self._tau_square, self.average)[0]
        beside = (
            0.0
            if self.about is None
            else np.where(self.known, np.maximum(self.variance - self.about, 0.0), 0.0)
        )
        own, new = np.zeros(self.theta.shape), np.zeros(self.theta.shape[1])
        for tau_square, weight in zip(spreads**2, weights / weights.sum(axis=0), strict=True):
            w, mean, _ = self._at(tau_square)
            of_mean_square = self._error_square(w)
            drawn, of_mean = self._drawn(tau_square, mean)
            rest = np.where(
                self.known, (1.0 - of_mean) * self._seen + (1.0 - of_mean) ** 2 * beside, tau_square
            )
            own += weight * (rest + of_mean**2 * of_mean_square + (drawn - value) ** 2)
            new += weight * (tau_square + of_mean_square + (mean - self.average) ** 2)
        return own, new

    def _log_density(self, tau: np.ndarray) -> np.ndarray:
        """Logarithm of the density of tau, up to a constant, where nothing is known of the average."""
        w, _, q = self._at(tau**2)
        total = np.maximum(w.sum(axis=0), np.finfo(float).tiny)
        likelihood = 0.5 * (np.log(np.where(self.known, w, 1.0)).sum(axis=0) - np.log(total) - q)
        usual = np.sqrt(
            self.n_tasks / np.maximum(np.where(self.known, 1.0 / self._seen, 0.0).sum(axis=0), 1e-300)
        )
        return likelihood - np.where(self.n_tasks == 2, 2.0 * np.log(usual + tau + 1e-300), 0.0)

    # -- inside ---------------------------------------------------------------------------------------------

    @cached_property
    def _seen(self) -> np.ndarray:
        """Variances as draws of theta show them: the squares of t variables are larger than 1 on average."""
        about = self.variance if self.about is None else self.about
        return np.where(self.known, about * self._usual_square, 1.0)

    @property
    def _usual_square(self) -> np.ndarray:
        """Mean square of t variables, (n_tasks, 1)."""
        return (1.0 + 2.0 / np.maximum(self.degrees - 2.0, 2.0))[:, None]

    @cached_property
    def _filled(self) -> np.ndarray:
        return np.where(self.known, self.theta, 0.0)

    @cached_property
    def _tau_square(self) -> np.ndarray:
        return np.nan_to_num(self.spread) ** 2

    def _at(self, tau_square: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, weighted mean and Q at some tau^2."""
        w = np.where(self.known, 1.0 / (self._seen + tau_square), 0.0)
        mean = (w * self._filled).sum(axis=0) / np.maximum(w.sum(axis=0), np.finfo(float).tiny)
        return w, mean, (w * (self._filled - mean) ** 2).sum(axis=0)

    def _spread_square(self, target: np.ndarray) -> np.ndarray:
        """The tau^2 at which Q is the target, or 0: Q is convex, so Newton's method comes from below."""
        at = np.zeros(self.theta.shape[1])
        for _ in range(_NEWTON_STEPS):
            w, mean, q = self._at(at)
            slope = (w**2 * (self._filled - mean) ** 2).sum(axis=0)
            step = np.divide(q - target, slope, out=np.zeros_like(at), where=(slope > 0.0) & (q > target))
            at = at + step
            if np.all(step <= 1e-12 * at):
                break
        return at

    def _error_square(self, w: np.ndarray) -> np.ndarray:
        """Variance of the weighted mean; correlated errors never lessen it."""
        total = np.maximum(w.sum(axis=0), 1e-300)
        if self.correlation is None:
            return self.inflation / total
        u = w * np.sqrt(self._seen)
        off = self.correlation - np.diag(np.diag(self.correlation))
        shared = np.einsum("tj,tj->j", u, off @ u)
        return self.inflation * (1.0 + np.maximum(shared, 0.0) / total) / total


def _share_of_sign(average: np.ndarray, spread: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(
            spread > 0.0, stats.norm.cdf(np.abs(average) / spread), np.where(spread == 0.0, 1.0, np.nan)
        )


def least_same_direction(lower: np.ndarray, upper: np.ndarray, spread_upper: np.ndarray) -> np.ndarray:
    """Share of tasks with one direction at the inner end of the average and the upper end of the spread."""
    inner = np.where((lower > 0.0) | (upper < 0.0), np.minimum(np.abs(lower), np.abs(upper)), 0.0)
    return _share_of_sign(inner, spread_upper)


def q_values(p: np.ndarray, n_tests: int | None = None) -> np.ndarray:
    """False discovery rates by Benjamini and Hochberg; NaN stays NaN, and does not count.

    Examples
    --------
    >>> import numpy as np
    >>> q_values(np.array([0.01, 0.5, np.nan, 0.02])).round(3).tolist()
    [0.03, 0.5, nan, 0.03]
    """
    tested = np.flatnonzero(np.isfinite(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    n = len(tested) if n_tests is None else max(n_tests, len(tested))
    rates = p[order] * n / np.arange(1.0, len(order) + 1.0)
    out = np.full(len(p), np.nan)
    out[order] = np.minimum(np.minimum.accumulate(rates[::-1])[::-1], 1.0)
    return out


def holm(p: np.ndarray) -> np.ndarray:
    """P-values corrected by Holm along the first axis; NaN stays NaN, and does not count."""
    known = np.isfinite(p)
    order = np.argsort(np.where(known, p, np.inf), axis=0, kind="stable")
    left = known.sum(axis=0) - np.arange(len(p)).reshape(-1, *[1] * (p.ndim - 1))
    ranked = np.take_along_axis(np.where(known, p, np.nan), order, axis=0)
    corrected = np.minimum(np.maximum.accumulate(ranked * np.maximum(left, 1), axis=0), 1.0)
    out = np.empty_like(p)
    np.put_along_axis(out, order, corrected, axis=0)
    return out


def joint_p(found: MetaAnalysis, features: np.ndarray, covariance: np.ndarray) -> float:
    """P-value of zero averages of several features together: Wald's test, by F where tasks differ.

    Parameters
    ----------
    found : MetaAnalysis
        Of all features.
    features : ndarray of int
        Those that are tested.
    covariance : ndarray of shape (n_tasks, n, n)
        Covariances of their errors within each task; NaN where a task has no effect.
    """
    if len(features) < 2:
        return float(found.p[features[0]]) if len(features) else np.nan
    w = found._at(found._tau_square)[0][:, features]
    total, tau = w.sum(axis=0), np.sqrt(found._tau_square[features])
    beside = np.where(found.known[:, features], found.theta[:, features] - found.average[features], 0.0)
    within = np.einsum("tj,tk,tjk->jk", w, w, np.nan_to_num(covariance))
    both = np.einsum("tj,tk->jk", w, w)
    # the part of the scatter between tasks that two features share, as far as the effects show it
    shared = np.einsum("tj,tk->jk", w * beside, w * beside) - within
    bound = np.outer(tau, tau)
    between = np.clip(np.divide(shared, both, out=np.zeros_like(both), where=both > 0.0), -bound, bound)
    square = (within + both * between) / np.outer(total, total)
    np.fill_diagonal(square, found.error[features] ** 2)
    mu = found.average[features]
    values, vectors = np.linalg.eigh(square / np.outer(found.error[features], found.error[features]))
    z = vectors.T @ (mu / found.error[features])
    kept = values > 1e-6 * values.max()
    wald, rank = float(np.sum(z[kept] ** 2 / values[kept])), int(kept.sum())
    degrees = float(found.average_degrees[features].min())
    if not np.isfinite(degrees) or degrees > 1e6:
        return float(stats.chi2.sf(wald, rank))
    spare = max(degrees - rank + 1.0, 1.0)  # Hotelling's T^2
    return float(stats.f.sf(wald * spare / (rank * degrees), rank, spare))


def _t(coverage: float, degrees: np.ndarray) -> np.ndarray:
    return stats.t.ppf((1.0 + coverage) / 2.0, degrees)


def _about(centre: np.ndarray, reach: np.ndarray) -> Interval:
    return centre - reach, centre + reach
