"""Complementary pairs of half samples: two halves of the rows of every task that share no row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

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
