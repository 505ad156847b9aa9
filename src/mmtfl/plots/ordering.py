"""The order of features and tasks in which the pattern of sharing is seen."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from mmtfl.plots.fitted_parts import Learned

_EXACT = 600  # tasks; beyond, turning every branch of the tree the best way takes seconds


def order_tasks(model: Learned) -> np.ndarray:
    """Tasks that use features alike side by side; tasks set apart, then tasks without features, at the end.

    Starting from sorted labels and names makes the answer that of the model, not of the order of its rows.
    """
    by_label = np.argsort(model.tasks, kind="stable")
    A = model.A[np.argsort(model.features.astype(str), kind="stable")]
    A = A[A.any(axis=1)]
    A = A / np.abs(A).max(axis=1, keepdims=True)  # features count alike, whatever their units
    empty = ~A.any(axis=0)
    group = np.where(empty, 2, np.where(model.counts, 0, 1))[by_label]
    joining, apart, without = (by_label[group == g] for g in range(3))
    return np.concatenate([_by_likeness(A, joining), _by_likeness(A, apart), without])


def _by_likeness(A: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Leaves of a tree of average cosine distances, its branches turned so that neighbours are close."""
    if len(tasks) < 3:
        return tasks
    # which features count most, then their signs: tasks may share a feature and differ in its sign
    profile = np.vstack([np.abs(A[:, tasks]), 0.5 * A[:, tasks]]).T
    tree = linkage(profile, "average", metric="cosine", optimal_ordering=len(tasks) <= _EXACT)
    leaves = leaves_list(tree)
    # a tree reads both ways: the end with more coefficients comes first
    weight = np.abs(A[:, tasks[leaves]]).sum(axis=0)
    half = len(tasks) // 2
    return tasks[leaves[::-1] if weight[-half:].sum() > weight[:half].sum() else leaves]


def order_features(model: Learned, tasks: np.ndarray) -> np.ndarray:
    """Used features: of all tasks, of some, of one, then those of tasks set apart alone.

    Shared ones have the largest first. The others follow the tasks that use them, by the mean position of
    these tasks weighted by their coefficients, so that a staircase comes out as one.
    """
    used = np.flatnonzero(model.uses.any(axis=1))
    if not used.size:
        return used
    uses = model.uses[used][:, tasks]
    weight = np.abs(model.A[used][:, tasks])
    weight = weight / weight.max(axis=1, keepdims=True)
    position = weight @ np.arange(len(tasks)) / weight.sum(axis=1)
    pattern = np.unique(np.packbits(uses, axis=1), axis=0, return_inverse=True)[1].ravel()
    kind = model.kind[used]
    shared = kind == 0
    names = np.argsort(np.argsort(model.features[used].astype(str), kind="stable"))
    keys = (names, -model.size[used], np.where(shared, 0, -pattern), np.where(shared, 0.0, position), kind)
    return used[np.lexsort(keys)]
