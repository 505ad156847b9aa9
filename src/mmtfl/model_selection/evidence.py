"""How many tasks use a feature: probabilities by empirical Bayes, from an effect and its error in every task.

A feature is used by no task, by one, by some or by all. A task that does not use it has an effect of zero;
the effects of those that do are spread by a normal law about a mean of either sign, or about a size with
signs of its own in every task. How frequent the kinds are, and which laws, is learned from all features
together (Efron 2010; Stephens 2017), so that many features without effect make each of them less probable.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import expit, gammaln, logsumexp

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
