"""What a reader of a table may want to know before hours are spent on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from mmtfl.tables.recipe import cells_of

COPY = 0.999  # share of the variation within tasks, or AUC, above which a column is likely the target itself
_PLACES = re.compile(
    r"hospital|clinic|cent(er|re)|site|ward|school|class|teacher|college|universit|countr|city|county|state|region"
    r"|district|province|village|cluster|subject|patient|person|participant|student|doctor|machine|batch|plant"
    r"|firm|compan|store|shop|team|herd|farm|field|block|rat$|animal|litter|lab|^id$|_id$|group",
    re.I,
)
_FEWEST_ROWS = 5  # of the average place
_FEWEST_COUNTS, _LARGEST, _SKEW = 20, 3.0, 0.5  # rows, the least maximum and the least skewness of counts


def likely_tasks(frame: Any, names: Sequence[str]) -> dict[str, int]:
    """Columns that look like places or people, with the number of these, most first.

    Text with three levels or more, and whole numbers whose name says so, that repeat.

    Examples
    --------
    >>> import pandas as pd
    >>> from mmtfl.tables.advice import likely_tasks
    >>> table = pd.DataFrame({"hospital": ["A", "B", "C"] * 10, "subject": list(range(6)) * 5, "age": 4.5})
    >>> likely_tasks(table, list(table))
    {'subject': 6, 'hospital': 3}
    """
    found = {}
    for name in names:
        cells = cells_of(frame[name])
        if cells.kind == "word":
            n_levels = len(cells.words)
        elif cells.kind == "number" and _PLACES.search(name):
            known = cells.numbers[~cells.missing]  # type: ignore[index]
            n_levels = 0 if (known % 1.0).any() else len(np.unique(known))
        else:
            continue
        if 3 <= n_levels <= len(frame) / _FEWEST_ROWS:
            found[name] = n_levels
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def likely_copies(X: np.ndarray, columns: Sequence[str], y: np.ndarray, task: Any = None) -> dict[str, float]:
    """Columns that tell the target nearly exactly within tasks, with the R^2 or AUC of each.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        The features.
    columns : sequence of str
        The column that each feature comes from.
    y : ndarray of shape (n_rows,)
        Numbers, or two classes.
    task : array-like of shape (n_rows,), optional
        Task labels.

    Returns
    -------
    found : dict of str to float
        R^2 within tasks, for classes the AUC of pairs within tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.advice import likely_copies
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> likely_copies(x, ["age", "days"], 2.0 * x[:, 1] + 1.0)
    {'days': 1.0}
    """
    labels = np.zeros(len(y)) if task is None else np.asarray(task)
    tasks = np.unique(labels, return_inverse=True)[1]
    is_class = y.dtype.kind not in "fiu" or len(np.unique(y)) == 2
    target = (y == np.unique(y)[-1]).astype(float) if is_class else y.astype(float)
    centred = _centred(target[:, None], tasks)[:, 0]
    total = centred @ centred
    if not total > 0:
        return {}
    names = np.array(columns, dtype=object)
    found = {}
    for name in dict.fromkeys(columns):
        own = _centred(X[:, np.flatnonzero(names == name)], tasks)
        told = own @ np.linalg.lstsq(own, centred, rcond=None)[0]
        score = _auc(told, target, tasks) if is_class else float(told @ centred) / total
        if score > COPY:
            found[name] = round(float(score), 4)
    return found


def looks_like_counts(y: np.ndarray) -> bool:
    """Whether targets may count events: whole numbers from 0 or 1 on, more of them small than large.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.advice import looks_like_counts
    >>> visits = np.random.default_rng(0).poisson(1.5, size=200)
    >>> looks_like_counts(visits), looks_like_counts(60 + 5 * visits), looks_like_counts(visits / 2)
    (True, False, False)
    """
    if len(y) < _FEWEST_COUNTS or np.any(y % 1.0) or y.min() not in (0.0, 1.0) or y.max() < _LARGEST:
        return False
    beyond = (y - y.mean()) / y.std()
    return bool(np.mean(beyond**3) > _SKEW)


def _centred(X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Columns less their means within tasks; missing values count as the mean."""
    known = ~np.isnan(X)
    X = np.where(known, X, 0.0)
    out = np.empty_like(X)
    for j in range(X.shape[1]):
        n_known = np.maximum(np.bincount(tasks, known[:, j]), 1.0)
        out[:, j] = (X[:, j] - (np.bincount(tasks, X[:, j]) / n_known)[tasks]) * known[:, j]
    return out


def _auc(score: np.ndarray, target: np.ndarray, tasks: np.ndarray) -> float:
    """The share of pairs of one task and two classes whose order the score tells."""
    right = pairs = 0.0
    for t in range(tasks.max() + 1):
        own = tasks == t
        first = target[own] == 1.0
        n_first, n_second = first.sum(), (~first).sum()
        ranks = rankdata(score[own])
        right += ranks[first].sum() - n_first * (n_first + 1) / 2
        pairs += n_first * n_second
    return right / pairs if pairs else 0.0
