"""Spread of columns and targets, without copies or overflow; which columns vary; weights of tasks."""

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.core.columns import extremes, sparse_extremes, sparse_vary, vary
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.grouping import take_rows
from mmtfl.tasks.stored import StoredTasks
from mmtfl.wording import abbreviate

CHUNK = 1 << 16  # entries of X held in float64 at a time: they fit the second-level cache
_ROUNDING = 10 * np.finfo(np.float64).eps  # share of a mean: a smaller spread about it is rounding error


def column_spread(tasks: Tasks, columns: np.ndarray | None = None) -> np.ndarray:
    """Weighted standard deviation of columns (None: all) over all observations; 1 for a constant column."""
    if columns is None or len(columns) == tasks.n_features:
        columns = np.arange(tasks.n_features)
    if len(columns) == 0:
        return np.empty(0)
    if tasks.curves is not None:  # a curve is measured in the unit of its line
        lines, place = np.unique(tasks.curves.feature_of_column[columns], return_inverse=True)
        return column_spread(replace(tasks, curves=None), lines)[place]
    if tasks.absent is not None:
        return _spread_where_present(tasks, columns)
    share = _row_shares(tasks)
    X = tasks.X if len(columns) == tasks.n_features else tasks.X[:, columns]
    if not sparse.issparse(X):
        return np.nan_to_num(_dense_spread(X, share), nan=1.0)
    if not X.has_canonical_format:  # duplicates would be squared one by one
        X = X.copy()
        X.sum_duplicates()
    entries, n_counted = X.tocoo(), np.count_nonzero(share)
    share = share[entries.row]
    absent = np.maximum(1.0 - _sum_by(entries.col, share, X.shape[1]), 0.0)
    # a column without zeros has none of their weight, not even its rounding
    absent[np.bincount(entries.col, share > 0.0, minlength=X.shape[1]) == n_counted] = 0.0
    return np.nan_to_num(_spread_by(entries.col, entries.data, share, absent), nan=1.0)


def row_weights(tasks: Tasks) -> np.ndarray | None:
    """Weight of each row of X: a shared row has those of all its observations. None where all count alike."""
    if tasks.rows is None:
        return tasks.weights
    return np.bincount(tasks.rows, tasks.weights, minlength=tasks.X.shape[0]).astype(np.float64)


def _row_shares(tasks: Tasks) -> np.ndarray:
    weights, n_rows = row_weights(tasks), tasks.X.shape[0]
    return np.full(n_rows, 1.0 / n_rows) if weights is None else weights / weights.sum()


def column_range(tasks: Tasks) -> np.ndarray:
    """Smallest value, weighted mean and largest value of every feature over all rows with weight, (3, d)."""
    X, share = tasks.X, _row_shares(tasks)
    if sparse.issparse(X):
        return sparse_extremes(X.data, X.indices, X.indptr, share, X.shape[1], X.format == "csr")
    return _range(X[:, : tasks.n_lines], share)


def _range(X: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Smallest value, mean and largest value of every column of a dense X, (3, d)."""
    if X.strides[1] == X.itemsize:
        return extremes(X, share)
    if not share.all():
        X, share = X[np.flatnonzero(share)], share[share > 0.0]
    return np.array([X.min(axis=0), share @ X, X.max(axis=0)], dtype=np.float64)


def _spread_where_present(tasks: Tasks, columns: np.ndarray) -> np.ndarray:
    """The spread of every column over the rows of the tasks that have it; 1 if none has."""
    assert tasks.absent is not None
    out, plain = np.ones(len(columns)), replace(tasks, absent=None)
    patterns, which = np.unique(tasks.absent.T[columns], axis=0, return_inverse=True)
    for number, lacking in enumerate(patterns):
        place = np.flatnonzero(which.ravel() == number)
        if not lacking.all():
            have = plain if not lacking.any() else plain.select(~lacking[tasks.observation_task])
            out[place] = column_spread(have, columns[place])
    return out


def target_spread(tasks: Tasks, *, otherwise: float = 1.0) -> np.ndarray:
    """Weighted standard deviation of each task's target; a constant one has the median of the others.

    If no target varies, all have the spread `otherwise`.
    """
    index, T = tasks.observation_task, tasks.n_tasks
    weights = np.ones_like(tasks.y) if tasks.weights is None else tasks.weights
    spread = _spread_by(index, tasks.y, weights / _sum_by(index, weights, T)[index], np.zeros(T))
    return fill_with_median(spread, otherwise)


def fill_with_median(spread: np.ndarray, otherwise: float = 1.0) -> np.ndarray:
    """Put the median of the known spreads where one is NaN; `otherwise` if none is known.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.scaling import fill_with_median
    >>> fill_with_median(np.array([2.0, np.nan, 5.0, 3.0]))
    array([2., 3., 5., 3.])
    """
    unknown = np.isnan(spread)
    return np.where(unknown, otherwise if unknown.all() else np.median(spread[~unknown]), spread)


def _dense_spread(X: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Spread of the columns of a dense X (NaN: constant), in units of the largest distance to the mean."""
    if not share.all():  # rows of weight zero count as absent, however large they are
        X, share = X[np.flatnonzero(share)], share[share > 0.0]
    low, mean, high = _range(X, share)
    size = np.maximum(high - mean, mean - low)
    size[size <= 0.0] = 1.0
    first, second = np.zeros((2, X.shape[1]))
    step = max(1, CHUNK // X.shape[1])
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        rest = (X[part] - mean) / size
        first += share[part] @ rest
        second += share[part] @ np.multiply(rest, rest, out=rest)
    return _spread(first, second, mean, size)


def _spread_by(index: np.ndarray, values: np.ndarray, share: np.ndarray, absent: np.ndarray) -> np.ndarray:
    """Spread of the values of each index; `share` is their weight, and zeros have the weight `absent`."""
    values = np.where(share > 0.0, values, 0.0).astype(np.float64)
    mean = _sum_by(index, share * values, len(absent))
    rest = values - mean[index]
    size = np.where(absent > 0.0, np.abs(mean), 0.0)
    np.maximum.at(size, index, np.where(share > 0.0, np.abs(rest), 0.0))
    size[size == 0.0] = 1.0
    rest = np.where(share > 0.0, rest / size[index], 0.0)
    zero = np.where(absent > 0.0, -mean / size, 0.0)
    first = _sum_by(index, share * rest, len(absent)) + absent * zero
    second = _sum_by(index, share * rest**2, len(absent)) + absent * zero**2
    return _spread(first, second, mean, size)


def _sum_by(index: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
    # numpy returns integers for an empty index
    return np.bincount(index, values, minlength=size).astype(np.float64)


def _spread(first: np.ndarray, second: np.ndarray, mean: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Spread (NaN: constant) from the moments of the distances from a mean in units of their size."""
    # the first moment is the rounding error of the mean, which all rows of a constant column share
    spread = np.sqrt(np.maximum(second - first**2, 0.0)) * size
    return np.where((spread <= _ROUNDING * np.abs(mean)) | (spread == 0.0), np.nan, spread)


# -- which tasks could use which features --------------------------------------------------------------


def could_use(tasks: Tasks, *, fit_intercept: bool) -> np.ndarray:
    """Tell for each task and feature, (n_tasks, n_features), whether the task could use the feature.

    With an intercept a column that is constant within the task is of no use; without one, only a column of
    zeros is. Rows of weight zero count as absent.

    Examples
    --------
    >>> from mmtfl import Tasks
    >>> from mmtfl.tasks.scaling import could_use
    >>> tasks = Tasks.from_rows([[1.0, 5.0], [2.0, 5.0], [3.0, 6.0]], [1.0, 2.0, 3.0], ["a", "a", "b"])
    >>> could_use(tasks, fit_intercept=True)
    array([[ True, False],
           [False, False]])
    """
    if tasks.weights is not None and np.any(tasks.weights == 0.0):
        tasks = tasks.select(np.flatnonzero(tasks.weights))
    X, rows, offsets = tasks.X, tasks.rows, tasks.offsets
    if tasks.is_complete:  # one X for all tasks
        rows, offsets = None, np.array([0, X.shape[0]])
    if sparse.issparse(X):
        X = (X if rows is None else take_rows(X, rows)).tocsr()
        varies = sparse_vary(X.data, X.indices, X.indptr, offsets, X.shape[1], not fit_intercept)
    else:
        varies = vary(X, rows, offsets, not fit_intercept)
    return np.repeat(varies, tasks.n_tasks, axis=0) if tasks.is_complete else varies


# -- weights of tasks ----------------------------------------------------------------------------------------


def task_totals(tasks: Tasks | StoredTasks) -> np.ndarray:
    """Sum of the weights of each task's rows, (n_tasks,)."""
    if isinstance(tasks, StoredTasks):
        return tasks.weight_sums
    if tasks.weights is None:
        return tasks.sizes.astype(float)
    return np.bincount(tasks.observation_task, tasks.weights, tasks.n_tasks)


def balanced(totals: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Factors that make totals proportional to what is wanted, and leave their sum as it is.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.scaling import balanced
    >>> balanced(np.array([30.0, 10.0]), np.array([1.0, 1.0])).round(3).tolist()
    [0.667, 2.0]
    """
    return wanted / wanted.sum() * totals.sum() / totals


def task_factors(tasks: Tasks | StoredTasks, task_weight: Any) -> np.ndarray | None:
    """What the weights of each task's rows are multiplied by, (n_tasks,); None if nothing is asked.

    Parameters
    ----------
    tasks : Tasks or StoredTasks
        The tasks.
    task_weight : None, "equal" or dict
        As in the estimators. Labels of other tasks are passed over: these may be a part of all tasks.

    Examples
    --------
    >>> from mmtfl.tasks import Tasks
    >>> from mmtfl.tasks.scaling import task_factors
    >>> tasks = Tasks.from_rows([[1.0], [2.0], [3.0], [4.0]], [1, 2, 3, 4], ["a", "b", "b", "b"])
    >>> task_factors(tasks, "equal").round(3).tolist(), task_factors(tasks, {"a": 3}).round(3).tolist()
    ([2.0, 0.667], [2.0, 0.667])
    """
    if task_weight is None:
        return None
    totals = task_totals(tasks)
    if isinstance(task_weight, str):
        return balanced(totals, np.ones(len(totals)))
    own = np.array([float(task_weight.get(label, 1.0)) for label in tasks.labels.tolist()])
    return balanced(totals, totals * own)


def with_task_factors(tasks: Any, factors: np.ndarray | None) -> Any:
    """Tasks, or stored tasks, with the weights of their rows multiplied by a factor for each task."""
    if factors is None:
        return tasks
    if isinstance(tasks, StoredTasks):
        return replace(tasks, weight_sums=tasks.weight_sums * factors, task_factors=factors)
    own = factors[tasks.observation_task]
    return replace(tasks, weights=own if tasks.weights is None else own * tasks.weights)


def check_task_weight(task_weight: Any, labels: np.ndarray) -> None:
    """Refuse weights of tasks that do not exist, and weights that are no positive numbers."""
    if not isinstance(task_weight, Mapping):
        return
    known = labels.tolist()
    for label, weight in task_weight.items():
        if label not in known:
            raise ValueError(
                f"task_weight names the task {label!r}, which the data do not have: its tasks are "
                f"{abbreviate(known)}."
            )
        is_number = isinstance(weight, Real) and not isinstance(weight, bool)
        if not is_number or not 0.0 < float(weight) < np.inf:
            raise ValueError(
                f"task_weight of task {label!r} is {weight!r}, expected a positive number: 2 counts every "
                "row of the task twice. Leave out the rows of a task that is to have no part."
            )
