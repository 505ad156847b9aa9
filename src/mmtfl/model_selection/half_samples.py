"""Complementary pairs of half samples: two halves of the rows of every task that share no row.

How many of the features that they keep may be false is bounded by Shah and Samworth (2013), JRSS B 75. A
feature is false here if a half sample keeps it with probability at most theta, the share of the features that
a half sample keeps on average.
"""

import math
from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq

from mmtfl.model_selection.dealing import Cells, deal_groups
from mmtfl.model_selection.folds import by_rows, observations
from mmtfl.tasks.container import Tasks

_DRAWS = 50  # of halves of groups, before it is said that there are none
_SMALLEST = 4  # rows of a task, or two of each class: halves then have two rows, or both classes


def too_small_to_halve(tasks: Tasks, *, with_classes: bool) -> np.ndarray:
    """Which tasks have no two halves: fewer than four rows or groups, or two of a class; (n_tasks,)."""
    if not with_classes:
        return _units(tasks, np.ones(tasks.n_samples, dtype=bool)) < _SMALLEST
    return np.minimum(*(_units(tasks, of) for of in _classes(tasks))) < _SMALLEST // 2


def _units(tasks: Tasks, some: np.ndarray) -> np.ndarray:
    """Number of each task's rows among some observations, or of its groups."""
    task = tasks.observation_task[some]
    if tasks.groups is not None:
        task = np.unique(np.column_stack([task, tasks.groups[some]]), axis=0)[:, 0]
    return np.bincount(task, minlength=tasks.n_tasks)


def complementary_pairs(
    tasks: Tasks, n_pairs: int, rng: np.random.RandomState, *, with_classes: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw pairs of halves, as positions of observations; a row too many is in neither.

    Every task is halved on its own, and every class of it; tasks on one X with all targets observed are
    halved by the rows of X. Groups of rows are in one half or the other as a whole.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks import Tasks
    >>> tasks = Tasks.from_rows(np.eye(9), np.arange(9.0), [0] * 4 + [1] * 5)
    >>> ((one, other),) = complementary_pairs(tasks, 1, np.random.RandomState(0), with_classes=False)
    >>> len(one), len(other), len(np.union1d(one, other))
    (4, 4, 8)
    """
    if tasks.groups is not None:
        yield from (_halve_groups(tasks, rng, with_classes) for _ in range(n_pairs))
        return
    shared = by_rows(tasks) and not with_classes
    stratum = np.zeros(tasks.X.shape[0], dtype=np.intp) if shared else _strata(tasks, with_classes)
    for _ in range(n_pairs):
        halves = _halve(stratum, rng)
        yield (observations(tasks, halves[0]), observations(tasks, halves[1])) if shared else halves


def _strata(tasks: Tasks, with_classes: bool) -> np.ndarray:
    stratum = tasks.observation_task
    return 2 * stratum + (tasks.y > 0.0) if with_classes else stratum


def _halve(stratum: np.ndarray, rng: np.random.RandomState) -> tuple[np.ndarray, np.ndarray]:
    """Split every stratum at random into two parts of equal size."""
    shuffled = rng.permutation(len(stratum))
    order = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    sizes = np.bincount(stratum)
    place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    half = np.repeat(sizes // 2, sizes)
    return np.sort(order[place < half]), np.sort(order[(place >= half) & (place < 2 * half)])


def _halve_groups(
    tasks: Tasks, rng: np.random.RandomState, with_classes: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Deal the groups to two halves, both of which have rows of every stratum."""
    stratum = np.unique(_strata(tasks, with_classes), return_inverse=True)[1]
    group = np.unique(np.asarray(tasks.groups), return_inverse=True)[1]
    cells, equal = Cells(np.arange(len(stratum)), stratum), np.array([0.5, 0.5])
    for _ in range(_DRAWS):
        half = deal_groups(group, cells, equal, rng, largest_first=False)
        if len(np.unique(2 * stratum + half)) == 2 * (int(stratum.max()) + 1):
            return np.flatnonzero(half == 0), np.flatnonzero(half == 1)
    raise ValueError(
        "The groups cannot be halved so that both halves have rows of every task (and class): too few groups "
        "of a task stand apart from the others. Leave stability out, or use smaller groups."
    )


def _classes(tasks: Tasks) -> tuple[np.ndarray, np.ndarray]:
    return tasks.y > 0.0, tasks.y <= 0.0


# -- how many of the selected features may be false ----------------------------------------------------------


ASSUMPTIONS = ("unimodal", "r-concave")
_FLAT, _STEEP = 1e5, 1e-5  # the largest and the smallest offset of a tail (offset + i) ** (1 / r)
_N_OFFSETS = 200


def expected_false(
    threshold: float, n_kept: float, n_features: int, n_pairs: int, assumption: str = "r-concave"
) -> float:
    """Bound the expected number of false features among those kept in this share of the half samples.

    Parameters
    ----------
    threshold : float
        Share of the 2 * n_pairs half samples in which a selected feature is kept, above one half.
    n_kept : float
        Mean number of features that a half sample keeps.
    n_features : int
        Number of features.
    n_pairs : int
        Number of complementary pairs.
    assumption : {"unimodal", "r-concave"}
        What is assumed of how the frequencies of false features are distributed: one mode (Theorem 2), or
        r-concavity as in section 3.4, which is stronger and gives the smaller bound.

    Returns
    -------
    bound : float
        At most `n_features`.

    Examples
    --------
    >>> round(expected_false(0.8, 20, 88, 50, "unimodal"), 6)
    3.743316
    >>> expected_false(0.9, 20, 88, 50) < 1.0
    True
    """
    theta = n_kept / n_features
    tail = unimodal_bound(threshold, theta, n_pairs)
    if assumption == "r-concave":
        tail = min(tail, r_concave_tails(theta, n_pairs)[_steps(threshold, 2 * n_pairs)])
    return float(n_features * min(tail, 1.0))


def smallest_threshold(
    most: float, n_kept: float, n_features: int, n_pairs: int, assumption: str = "r-concave"
) -> float | None:
    """Find the smallest threshold above one half whose bound is at most `most`; None if there is none."""
    theta = n_kept / n_features
    concave = r_concave_tails(theta, n_pairs) if assumption == "r-concave" else None
    for step in range(n_pairs + 1, 2 * n_pairs + 1):
        threshold = step / (2 * n_pairs)
        tail = unimodal_bound(threshold, theta, n_pairs)
        if concave is not None:
            tail = min(tail, concave[step])
        if n_features * tail <= most:
            return threshold
    return None


def unimodal_bound(threshold: float, theta: float, n_pairs: int) -> float:
    """Bound the probability that a false feature passes, by Theorem 2; 1 where the theorem is silent."""
    lowest = min(0.5 + theta**2, 0.5 + 0.5 / n_pairs + 0.75 * theta**2)
    if threshold <= lowest or theta > 1.0 / math.sqrt(3.0):
        return 1.0
    if threshold <= 0.75:
        factor = 0.5 / (2.0 * threshold - 1.0 - 0.5 / n_pairs)
    else:
        factor = 4.0 * (1.0 - threshold + 0.5 / n_pairs) / (1.0 + 1.0 / n_pairs)
    return min(factor * theta**2, 1.0)


def r_concave_tails(theta: float, n_pairs: int) -> np.ndarray:
    """Bounds, by equation (8), for the thresholds 0, 1 / (2 n_pairs), ..., 1; (2 * n_pairs + 1,).

    The share of pairs of which both halves keep the feature is at least 2 * threshold - 1 and has mean
    theta^2; it is taken to be -1/2-concave, and the share of half samples, with mean theta, -1/4-concave.
    """
    both = r_concave_tail(theta**2, n_pairs, -0.5)
    either = r_concave_tail(theta, 2 * n_pairs, -0.25)
    # 2 * (i / 2B) - 1 = (i - B) / B
    return np.minimum(np.concatenate([np.ones(n_pairs), both]), either)


def r_concave_tail(mean: float, n_steps: int, r: float) -> np.ndarray:
    """Largest P(V >= t / n_steps), t = 0, ..., n_steps, of r-concave V on that grid with at most this mean.

    The extreme laws fall like (a + i)^(1/r) up to some k and have the rest of their mass, which is less than
    the law goes on with, at k + 1 (Appendix A.4).
    """
    tails = np.ones(n_steps + 1)
    first = math.ceil(2.0 * mean * n_steps) + 1
    if mean <= 0.0 or first > n_steps:
        tails[1:] = 0.0 if mean <= 0.0 else 1.0
        return tails
    best = np.zeros(n_steps + 1)
    steepest = _offset(mean * n_steps, first - 1, r, _FLAT)
    for k in range(first, n_steps + 1):  # between the offsets whose laws end at k - 1 and at k
        flattest, steepest = steepest, _offset(mean * n_steps, k, r, steepest)
        offsets = np.geomspace(steepest, flattest, _N_OFFSETS)
        best = np.maximum(best, _tails(offsets, k - 1, mean * n_steps, n_steps, r).max(axis=0))
    tails[first:] = np.maximum.accumulate(best[first:][::-1])[::-1]
    return tails


def _offset(mean: float, k: int, r: float, flattest: float) -> float:
    """The offset a at which a law proportional to (a + i)^(1/r), i = 0, ..., k, has this mean."""
    i = np.arange(k + 1)

    def excess(offset: float) -> float:
        weight = (1.0 + i / offset) ** (1.0 / r)
        return float(i @ weight / weight.sum() - mean)

    if excess(_STEEP) >= 0.0:
        return _STEEP
    return flattest if excess(flattest) <= 0.0 else float(brentq(excess, _STEEP, flattest, xtol=1e-12))


def _tails(offsets: np.ndarray, k: int, mean: float, n_steps: int, r: float) -> np.ndarray:
    """P(V >= t), t = 0, ..., n_steps, of laws that fall up to k and have the rest at k + 1."""
    i = np.arange(k + 1)
    weight = (1.0 + i / offsets[:, None]) ** (1.0 / r)
    mass = weight * ((k + 1 - mean) / (weight @ (k + 1 - i)))[:, None]
    tails = np.zeros((len(offsets), n_steps + 1))
    tails[:, 0] = 1.0
    tails[:, 1 : k + 2] = 1.0 - np.cumsum(mass, axis=1)
    return tails


def _steps(threshold: float, n_steps: int) -> int:
    """The threshold as a number of half samples, at least."""
    return math.ceil(threshold * n_steps - 1e-9)
