"""Complementary pairs of half samples: two halves of the rows of every task that share no row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mmtfl.model_selection.folds import by_rows, observations
from mmtfl.tasks.container import Tasks

__all__ = ["complementary_pairs", "too_small_to_halve"]

_SMALLEST = 4  # rows of a task, or two of each class: halves then have two rows, or both classes


def too_small_to_halve(tasks: Tasks, *, with_classes: bool) -> np.ndarray:
    """Which tasks have no two halves: fewer than four rows, or than two of a class; (n_tasks,)."""
    if not with_classes:
        return tasks.sizes < _SMALLEST
    counts = [np.bincount(tasks.observation_task[of], minlength=tasks.n_tasks) for of in _classes(tasks)]
    return np.minimum(*counts) < _SMALLEST // 2


def complementary_pairs(
    tasks: Tasks, n_pairs: int, rng: np.random.RandomState, *, with_classes: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw pairs of halves, as positions of observations; a row too many is in neither.

    Every task is halved on its own, and every class of it; tasks on one X with all targets observed are
    halved by the rows of X.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks import Tasks
    >>> tasks = Tasks.from_rows(np.eye(9), np.arange(9.0), [0] * 4 + [1] * 5)
    >>> ((one, other),) = complementary_pairs(tasks, 1, np.random.RandomState(0), with_classes=False)
    >>> len(one), len(other), len(np.union1d(one, other))
    (4, 4, 8)
    """
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


def _classes(tasks: Tasks) -> tuple[np.ndarray, np.ndarray]:
    return tasks.y > 0.0, tasks.y <= 0.0
