"""Norms of the rows of A, whose columns are spread over places, with the same bits however they are spread.

Sums of floats depend on their order. Here the order is one binary tree over the positions of the tasks: a
place joins the tasks that it holds as far as the tree allows, sends those few partial norms, and the tree is
finished where they meet.
"""

import math

import numpy as np


def join(one: np.ndarray, other: np.ndarray, p: float) -> np.ndarray:
    """p-norms of rows from the p-norms of their two parts, without overflow."""
    if p == 1.0:
        return one + other
    if p == 2.0:
        return np.hypot(one, other)
    large, small = np.maximum(one, other), np.minimum(one, other)
    if math.isinf(p):
        return large
    share = np.divide(small, large, out=np.zeros_like(large), where=large > 0.0)
    return large * (1.0 + share**p) ** (1.0 / p)


def partial_norms(sizes: np.ndarray, first: int, p: float) -> tuple[list[int], np.ndarray]:
    """Norms over the largest subtrees of a run of tasks.

    Parameters
    ----------
    sizes : ndarray (n_tasks, n_rows)
        Absolute values of the tasks' coefficients.
    first : int
        Position of the first of them among all tasks.
    p : float
        The norm.

    Returns
    -------
    lengths, norms : list of int, ndarray (n_subtrees, n_rows)
        How many tasks each subtree has, and its norms.
    """
    lengths, norms, place, last = [], [], first, first + len(sizes)
    while place < last:
        length = place & -place or 1 << (last - place).bit_length()  # the subtrees that begin here
        while place + length > last:
            length //= 2
        part = sizes[place - first : place - first + length]
        while len(part) > 1:
            part = join(part[0::2], part[1::2], p)
        lengths.append(length)
        norms.append(part[0])
        place += length
    return lengths, np.array(norms)


def total_norms(parts: list[tuple[list[int], np.ndarray]], p: float) -> np.ndarray:
    """Norms over all tasks from the partial ones of every place, in the order of the tasks."""
    waiting: list[tuple[int, int, np.ndarray]] = []  # subtrees not joined yet: where, length, norms
    place = 0
    for lengths, norms in parts:
        for length, norm in zip(lengths, norms, strict=True):
            begin, place = place, place + length
            while waiting and waiting[-1][1] == length and begin % (2 * length) == length:
                begin, _, left = waiting.pop()
                norm, length = join(left, norm, p), 2 * length
            waiting.append((begin, length, norm))
    total = waiting.pop()[2]
    while waiting:
        total = join(waiting.pop()[2], total, p)
    return total


def split_evenly(costs: np.ndarray, n_parts: int) -> np.ndarray:
    """Where to cut a run of tasks into parts of about equal cost, at borders of subtrees if tasks are many.

    Examples
    --------
    >>> import numpy as np
    >>> split_evenly(np.ones(10), 3).tolist()
    [0, 3, 7, 10]
    """
    n_tasks = len(costs)
    n_parts = min(n_parts, n_tasks)
    grain = 1 << max(0, (n_tasks // (16 * n_parts)).bit_length() - 1)
    reached = np.concatenate([[0.0], np.cumsum(costs, dtype=float)])
    goals = reached[-1] * np.arange(1, n_parts) / n_parts
    after = np.searchsorted(reached, goals)
    nearest = after - (goals - reached[after - 1] < reached[after] - goals)
    cuts = grain * np.round(nearest / grain).astype(int)
    # every part has a task, however uneven the costs
    cuts = np.maximum.accumulate(np.maximum(cuts, 1))
    return np.unique(np.concatenate([[0], np.minimum(cuts, n_tasks), [n_tasks]]))
