"""What the tasks' rows say about each feature: its effect in every task, and how many tasks use it.

The effect in a task is estimated without shrinkage: the target is regressed on the feature and on the
features that are kept (an added-variable test for the others). Losses other than half the square are treated
at their parabola about the fit on the kept features, with a dispersion that is estimated, but for classes.

From the effects and their standard errors follow probabilities by empirical Bayes. A feature is used by no
task, by one, by some or by all. A task that does not use it has an effect of zero; the effects of those that
do are spread by a normal law about a mean of either sign, or about a size with signs of its own in every
task. How frequent the kinds are, and which laws, is learned from all features together (Efron 2010; Stephens
2017), so that many features without effect make each of them less probable.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse, stats
from scipy.special import expit, gammaln, logsumexp

from mmtfl.objective.losses import Loss
from mmtfl.objective.losses.by_rows import LossOnRows, TaskLoss
from mmtfl.tasks.container import Tasks

KINDS = ("none", "one", "some", "all")
_N_SCALES, _N_PASSES = 10, 40
# Components: none, one, two, some, all but one, all. "One" and "all" are thus weighed against their
# neighbours, which are learned by themselves and count as "some".
_GROUPS = (0, 1, 2, 2, 2, 3)
_START = np.array([0.7, 0.06, 0.06, 0.06, 0.06, 0.06])
_PART_PRIOR = np.array([5.0, 1.0, 1.0, 1.0, 1.0, 1.0])  # counted as so many features of each component
_LAW_PRIOR = 3.0  # and as so many over all laws
# mean of the effects in units of their standard deviation, and whether every task has a sign of its own
_SHAPES = ((0.0, False), *product((-4.0, -2.0, -1.0, 1.0, 2.0, 4.0), (False,)), (2.0, True), (4.0, True))


@dataclass(frozen=True)
class Evidence:
    """Probabilities of what the tasks make of each feature.

    Attributes
    ----------
    kinds : ndarray of shape (n_features, 4)
        Of each of `KINDS`; NaN for a feature that no task has tested.
    entries : ndarray of shape (n_tasks, n_features)
        That the task uses the feature; NaN where it was not tested.
    """

    kinds: np.ndarray
    entries: np.ndarray


def weigh_evidence(effect: np.ndarray, error: np.ndarray) -> Evidence:
    """Probabilities from effects and their standard errors, both (n_tasks, n_features) and NaN if not tested.

    Examples
    --------
    >>> import numpy as np
    >>> effect = np.zeros((8, 20))
    >>> effect[:, 0], effect[:4, 1], effect[2, 2] = 5.0, 5.0, 5.0
    >>> found = weigh_evidence(effect, np.full((8, 20), 0.5))
    >>> [KINDS[most] for most in found.kinds[:4].argmax(axis=1)]
    ['all', 'some', 'one', 'none']
    >>> found.entries[:, 1].round(1)
    array([1., 1., 1., 1., 0., 0., 0., 0.])
    """
    tested = np.isfinite(effect) & np.isfinite(error) & (error > 0.0)
    kinds, entries = np.full((effect.shape[1], 4), np.nan), np.full(effect.shape, np.nan)
    features = np.flatnonzero(tested.any(axis=0))
    if features.size == 0:
        return Evidence(kinds, entries)
    laws = _Laws.of(effect[tested], error[tested])
    ratios = [laws.log_ratio(effect[tested[:, j], j], error[tested[:, j], j]) for j in features]
    likelihood = np.array([_of_parts(ratio) for ratio in ratios])
    joint, weights = _learn(likelihood)
    for j, ratio, shares in zip(features, ratios, joint, strict=True):
        kinds[j] = np.bincount(_GROUPS, shares.sum(axis=1))
        entries[tested[:, j], j] = _inclusion(ratio, shares.sum(axis=0), weights)
    return Evidence(kinds, entries)


@dataclass(frozen=True)
class _Laws:
    """Laws of the effects of tasks that use a feature, (n_laws,)."""

    mean: np.ndarray
    deviation: np.ndarray
    either_sign: np.ndarray

    @classmethod
    def of(cls, effect: np.ndarray, error: np.ndarray) -> _Laws:
        """Laws from as small as a standard error up to beyond the largest effect."""
        smallest = float(np.median(error))
        largest = 1.5 * max(float(np.abs(effect).max()), 2.0 * smallest)
        pairs = list(product(np.geomspace(smallest, largest, _N_SCALES), _SHAPES))
        size = np.array([scale for scale, _ in pairs])
        ratio = np.array([shape[0] for _, shape in pairs])
        deviation = size / np.sqrt(1.0 + ratio**2)
        return cls(ratio * deviation, deviation, np.array([shape[1] for _, shape in pairs]))

    def log_ratio(self, effect: np.ndarray, error: np.ndarray) -> np.ndarray:
        """Log likelihood of each task's effect under each law, less that of no effect; (n_tasks, n_laws)."""
        x, square = effect[:, None], error[:, None] ** 2
        spread = square + self.deviation**2
        above, below = (_log_normal(x, sign * self.mean, spread) for sign in (1.0, -1.0))
        law = np.where(self.either_sign, np.logaddexp(above, below) - np.log(2.0), above)
        return law - _log_normal(x, 0.0, square)


def _log_normal(x: np.ndarray, mean: np.ndarray | float, variance: np.ndarray) -> np.ndarray:
    return -0.5 * ((x - mean) ** 2 / variance + np.log(variance))


def _of_parts(ratio: np.ndarray) -> np.ndarray:
    """Log likelihood of each component under each law, (6, n_laws): the mean over its sets of tasks.

    With odds instead of ratios the sum over all sets of c tasks is the probability that c of them come up
    (Poisson binomial), times a factor.
    """
    n_tasks, n_laws = ratio.shape
    chance = np.zeros((n_tasks + 1, n_laws))
    chance[0] = 1.0
    for p in expit(ratio):
        chance[1:] = chance[1:] * (1.0 - p) + chance[:-1] * p
        chance[0] *= 1.0 - p
    with np.errstate(divide="ignore"):  # a component without sets has likelihood zero
        means = np.log(chance) - _log_n_sets(n_tasks)[:, None]
        parts = logsumexp(means[None], b=_counts(n_tasks)[:, :, None], axis=1)
    return parts + np.logaddexp(0.0, ratio).sum(axis=0)


def _counts(n_tasks: int) -> np.ndarray:
    """Probability of each number of tasks, 0 to n_tasks, in every component; zero if it has none."""
    counts = np.zeros((6, n_tasks + 1))
    counts[0, 0] = counts[5, n_tasks] = 1.0
    if n_tasks > 1:
        counts[1, 1] = 1.0
    if n_tasks > 2:
        counts[2, 2] = counts[4, n_tasks - 1] = 1.0
        counts[3, 2:n_tasks] = 1.0 / (n_tasks - 2)
    return counts


def _log_n_sets(n_tasks: int) -> np.ndarray:
    c = np.arange(n_tasks + 1)
    return gammaln(n_tasks + 1) - gammaln(c + 1) - gammaln(n_tasks - c + 1)


def _learn(likelihood: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability of each component and law for every feature, and the weights, by EM."""
    n_laws = likelihood.shape[2]
    parts, laws = _START, np.full(n_laws, 1.0 / n_laws)
    for _ in range(_N_PASSES):
        joint = likelihood + np.log(parts)[:, None] + np.log(laws)
        joint = np.exp(joint - logsumexp(joint, axis=(1, 2), keepdims=True))
        parts = _share(joint.sum(axis=(0, 2)) + _PART_PRIOR)
        laws = _share(joint[:, 1:].sum(axis=(0, 1)) + _LAW_PRIOR / n_laws)
    return joint, parts


def _share(counts: np.ndarray) -> np.ndarray:
    return counts / counts.sum()


def _inclusion(ratio: np.ndarray, laws: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Probability that each task uses the feature, (n_tasks,), by sums forwards and backwards."""
    likely = laws > 1e-2 * laws.max()
    p, n_tasks = expit(ratio[:, likely]), len(ratio)
    forward = np.zeros((n_tasks + 1, n_tasks + 2, p.shape[1]))  # chance of c users before task t
    backward = forward.copy()  # chance of all tasks from t on, if c used it before
    forward[0, 0], backward[n_tasks, :-1] = 1.0, _set_prior(n_tasks, parts)[:, None]
    for t in range(n_tasks):
        forward[t + 1, 1:] = forward[t, 1:] * (1.0 - p[t]) + forward[t, :-1] * p[t]
        forward[t + 1, 0] = forward[t, 0] * (1.0 - p[t])
    for t in reversed(range(n_tasks)):
        backward[t, :-1] = backward[t + 1, :-1] * (1.0 - p[t]) + backward[t + 1, 1:] * p[t]
    used = np.einsum("tck,tck->tk", forward[:-1, :-1], backward[1:, 1:]) * p
    return (used / backward[0, 0]) @ _share(laws[likely])


def _set_prior(n_tasks: int, parts: np.ndarray) -> np.ndarray:
    """Prior of each single set of c tasks, c = 0, ..., n_tasks."""
    return (parts @ _counts(n_tasks)) / np.exp(_log_n_sets(n_tasks))


# -- effects of single entries and their standard errors -----------------------------------------------------


_SPARE_ROWS = 5  # a task needs so many rows more than coefficients
_RIDGE = 1.0  # on standardised features: keeps a logistic regression finite where classes are separated
_FLAT = 1e-10  # squared length per row of a feature that the kept ones explain
_LARGEST = 37.0  # standard errors; the normal tail beyond is zero in floats


@dataclass(frozen=True)
class EntryEffects:
    """Effects of features (in the units of the data) and their standard errors, (n_tasks, n_features).

    NaN where a task has too few rows for the test, or where the feature does not vary in it. `spare` are the
    degrees of freedom of the errors, infinite where the dispersion is known.
    """

    effect: np.ndarray
    error: np.ndarray
    spare: np.ndarray

    @property
    def normal_error(self) -> np.ndarray:
        """Standard errors of a normal law that has the p-values of the t tests."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(self.effect) / self.error
            z = np.clip(stats.norm.isf(stats.t.sf(t, self.spare)), 0.0, _LARGEST)
            return np.where(t > 0.01, np.abs(self.effect) / z, self.error)


def entry_effects(tasks: Tasks, kept: np.ndarray, usable: np.ndarray, loss: TaskLoss) -> EntryEffects:
    """Test every feature in every task, beside the features that are kept.

    Parameters
    ----------
    tasks : Tasks
        The rows.
    kept : ndarray of bool, shape (n_features,)
        Features that every test adjusts for.
    usable : ndarray of bool, shape (n_tasks, n_features)
        Whether a feature varies within a task.
    loss : Loss
        What is minimised; of classes, -1 and 1, the rarer ones count as rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.objective.losses import Squared
    >>> from mmtfl.tasks import Tasks
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> tasks = Tasks.from_rows(X, 3.0 * X[:, 0] + rng.normal(size=100), np.repeat([0, 1], 50))
    >>> found = entry_effects(tasks, np.array([True, False]), np.ones((2, 2), bool), Squared())
    >>> t = abs(found.effect / found.error)
    >>> bool((t[:, 0] > 8.0).all() and (t[:, 1] < 3.0).all())
    True
    """
    effect, error, spare = np.full((3, tasks.n_tasks, tasks.n_features), np.nan)
    for t, view in enumerate(tasks):
        own = loss.for_task(view.label)
        X = view.X.toarray() if sparse.issparse(view.X) else np.asarray(view.X, dtype=float)
        weights = np.ones(len(view.y)) if view.weights is None else view.weights
        rows = weights > 0.0
        if tasks.known is not None:
            known = tasks.known[tasks.offsets[t] : tasks.offsets[t + 1]][rows]
            own = LossOnRows([own], np.array([0, len(known)]), known=known)
        tested = _TaskTest(X[rows], view.y[rows], weights[rows], kept & usable[t], own)
        effect[t], error[t], spare[t] = tested.entries(usable[t])
    return EntryEffects(effect, error, spare)


def t_reach(error: Any, spare: Any, coverage: float) -> np.ndarray:
    """Half the width of the t interval of every effect."""
    return stats.t.isf((1.0 - coverage) / 2.0, spare) * error


def mean_over_tasks(
    effect: np.ndarray, error: np.ndarray, spare: np.ndarray, coverage: float
) -> tuple[float, float]:
    """Mean of the effects of these tasks, and half the width of its interval.

    All are (n_tasks,), NaN where a task was not tested. The degrees of freedom of the mean are those of Welch
    and Satterthwaite.

    Examples
    --------
    >>> import numpy as np
    >>> mean, reach = mean_over_tasks(np.array([1.0, 2.0]), np.array([0.3, 0.4]), np.full(2, np.inf), 0.9)
    >>> round(mean, 3), round(reach, 3)
    (1.5, 0.411)
    """
    tested = np.isfinite(effect) & np.isfinite(error)
    if not tested.any():
        return np.nan, np.nan
    square, own = error[tested] ** 2, spare[tested]
    total, smallest = square.sum(), np.finfo(float).tiny
    degrees = total**2 / max(float(np.sum(square**2 / own)), smallest) if total > 0.0 else np.inf
    reach = float(t_reach(np.sqrt(total) / tested.sum(), degrees, coverage))
    return float(effect[tested].mean()), reach


class _TaskTest:
    """A fit on the kept features of one task; then every other feature is added alone."""

    def __init__(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, kept: np.ndarray, loss: Loss):
        spread = X.std(axis=0)
        self.scale = np.where(spread > 0.0, spread, 1.0)
        self.X = (X - X.mean(axis=0)) / self.scale
        self.y, self.weights, self.kept, self.loss = y, weights / weights.mean(), kept, loss
        self.n_rows = len(y)
        self.has_classes = loss.has_classes

    @property
    def n_spare(self) -> int:
        """Rows, of classes those of the rarer one, beyond the kept features and the intercept."""
        n_first = int((self.y > 0.0).sum())
        n = min(n_first, self.n_rows - n_first) if self.has_classes else self.n_rows
        return n - 1 - int(self.kept.sum())

    def entries(self, usable: np.ndarray) -> np.ndarray:
        """Effects, errors and degrees of freedom of all features, (3, n_features); NaN without a test."""
        found = np.full((3, len(usable)), np.nan)
        if self.n_spare < _SPARE_ROWS:
            return found
        self._fit()
        others = usable & ~self.kept
        for features, alone in ((self.kept, 0), (others, 1)):
            if features.any() and self.n_spare >= _SPARE_ROWS + alone:
                effect, inverse, squares = self._added(others) if alone else self._together()
                n_spare = self.n_spare - alone
                error = np.sqrt(inverse if self.has_classes else squares / n_spare * inverse)
                found[:2, features] = np.array([effect, error]) / self.scale[features]
                found[2, features] = np.inf if self.has_classes else n_spare
        return found

    def _fit(self) -> None:
        """Fit the kept features, and go to the lowest point of the parabola there."""
        design = np.column_stack([np.ones(self.n_rows), self.X[:, self.kept]])
        coef = _newton(design, self.y, self.weights, self.loss)
        at = self.y, design @ coef, self.weights
        self.curvature, score = self.loss.hessian(*at), -self.loss.gradient(*at)
        self.root = np.sqrt(self.curvature)
        self.basis = np.linalg.qr(design * self.root[:, None])[0]
        self.inverse = np.linalg.pinv((design.T * self.curvature) @ design, hermitian=True)
        step = self.inverse @ (design.T @ score)
        self.coef, self.score = coef + step, score - self.curvature * (design @ step)
        # in units in which an added feature lessens it by its squared effect times its squared length
        scatter = float(np.sum(self.score**2 / self.weights)) / max(float(self.curvature.sum()), 1e-300)
        self.squares = scatter * self.n_rows

    def _together(self) -> tuple[np.ndarray, np.ndarray, Any]:
        return self.coef[1:], np.diag(self.inverse)[1:], self.squares

    def _added(self, others: np.ndarray) -> tuple[np.ndarray, np.ndarray, Any]:
        X = self.X[:, others] * self.root[:, None]
        X = X - self.basis @ (self.basis.T @ X)
        square = np.einsum("ij,ij->j", X, X)
        apart = square > _FLAT * self.n_rows
        inverse = np.divide(1.0, square, out=np.full(len(square), np.inf), where=apart)
        effect = np.where(apart, self.X[:, others].T @ self.score, 0.0) * np.where(apart, inverse, 0.0)
        return effect, inverse, np.maximum(self.squares - effect**2 * square, np.finfo(float).tiny)


def _newton(design: np.ndarray, y: np.ndarray, weights: np.ndarray, loss: Loss) -> np.ndarray:
    """Coefficients with the least loss; with a small ridge penalty if the loss is no parabola."""
    ridge = np.full(design.shape[1], 0.0 if loss.is_quadratic else _RIDGE)
    ridge[0] *= 1e-3
    coef = np.zeros(design.shape[1])
    coef[0] = loss.null_intercept(y, weights)
    for _ in range(50):
        at = y, design @ coef, weights
        gradient = design.T @ loss.gradient(*at) + ridge * coef
        curvature = (design.T * loss.hessian(*at)) @ design + np.diag(ridge)
        step = np.linalg.pinv(curvature, hermitian=True) @ gradient
        if loss.is_quadratic:
            return coef - step
        coef -= step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-8:
            break
    return coef
