"""Errors on rows that were not fitted: what intervals and the reliability of probabilities are made of."""

from typing import Any

import numpy as np
from scipy.special import expit

ENOUGH_ROWS = 40  # of a task that has an interval of its own
_BORROWED = 20.0  # rows for which the errors of all tasks stand in a task with fewer
_MOST_KEPT = 1000  # errors of a task that are kept; beyond, evenly spaced ones


def sorted_errors(
    loss: Any, y: np.ndarray, z: np.ndarray, task: np.ndarray, labels: np.ndarray
) -> dict[str, np.ndarray]:
    """The errors of rows that were not fitted, by task.

    The error of a number is its distance from the prediction, that of a count the distance of their roots,
    which has the same spread for small and large ones; that of a class is how far the log odds are on the
    wrong side, negative where they are on the right one.

    Returns
    -------
    errors : dict of ndarrays
        task and n_rows (n_tasks,), n_kept (n_tasks,), and error: those of all tasks, one after the other and
        sorted; of classes also is_second, whether the row is of the second class.
    """
    error = -y * z if loss.has_classes else np.abs(y - z)
    if has_counts(loss):
        error = np.abs(roots(y) - roots(loss.mean(z)))
    order = np.lexsort((error, task))
    n_rows = np.bincount(task, minlength=len(labels))
    starts = np.cumsum(n_rows) - n_rows
    own = [order[start : start + n][_evenly(int(n))] for start, n in zip(starts, n_rows, strict=True)]
    kept = np.concatenate(own)
    n_kept = np.array([len(part) for part in own])
    found = {"task": labels, "n_rows": n_rows, "n_kept": n_kept, "error": error[kept]}
    return {**found, "is_second": y[kept] > 0.0} if loss.has_classes else found


def has_counts(loss: Any) -> bool:
    """Whether the targets of all tasks are counts."""
    return getattr(loss, "name", None) == "poisson"


def roots(counts: np.ndarray) -> np.ndarray:
    """Anscombe's transform of counts: those of a Poisson distribution have a standard deviation near one."""
    return 2.0 * np.sqrt(counts + 0.375)


def counts_within(mean: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The smallest and the largest count whose root is so near to that of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> counts_within(np.array([4.0, 100.0]), 1.645)
    array([[  2.,   8.],
           [ 85., 117.]])
    """
    ends = [np.maximum(roots(mean) + sign * width, 0.0) ** 2 / 4.0 - 0.375 for sign in (-1.0, 1.0)]
    return np.stack([np.maximum(np.ceil(ends[0]), 0.0), np.floor(np.maximum(ends[1], 0.0))], axis=-1)


def _evenly(n: int) -> np.ndarray:
    """Positions of evenly spaced errors to keep, out of n sorted ones."""
    if n <= _MOST_KEPT:
        return np.arange(n)
    return ((np.arange(_MOST_KEPT) + 0.5) * n / _MOST_KEPT).astype(np.intp)


def row_weights(errors: dict[str, np.ndarray]) -> np.ndarray:
    """Number of rows that each kept error represents."""
    n_rows, n_kept = errors["n_rows"], errors["n_kept"]
    return np.repeat(n_rows / np.maximum(n_kept, 1), n_kept)


def half_widths(errors: dict[str, np.ndarray], coverage: float) -> np.ndarray:
    """Half the width of the interval of each task, and at the end that of a task that is not known.

    It is the error that the share ``coverage`` of the task's held-out rows does not exceed, with one row more
    than there are (as in split conformal prediction). A task with fewer than 40 rows borrows: the errors of
    all tasks together count as 20 rows of its own, and the one row more as its own share of all these.

    Examples
    --------
    >>> import numpy as np
    >>> errors = {"n_rows": np.array([99]), "n_kept": np.array([99]), "error": np.arange(1.0, 100.0)}
    >>> half_widths(errors, 0.9)
    array([90., 90.])
    """
    n_rows, n_kept, error = errors["n_rows"], errors["n_kept"], errors["error"]
    weight = row_weights(errors)
    of_all = weight * (_BORROWED / max(weight.sum(), 1.0))
    widths = []
    for n, end, kept in zip(n_rows, np.cumsum(n_kept), n_kept, strict=True):
        own = slice(end - kept, end)
        if n >= ENOUGH_ROWS:
            widths.append(_quantile(error[own], weight[own], coverage))
        else:
            both = np.concatenate([error[own], error]), np.concatenate([weight[own], of_all])
            widths.append(_quantile(*both, coverage, new=n / (n + _BORROWED)))
    return np.array([*widths, _quantile(error, weight, coverage)])


def _quantile(values: np.ndarray, weight: np.ndarray, coverage: float, new: float = 1.0) -> float:
    """The smallest value with this share of the weight, that of the new row included; inf if none has it."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    wanted = coverage * (reached[-1] + new) if len(reached) else 1.0
    i = int(np.searchsorted(reached, wanted * (1.0 - 1e-12)))
    return float(values[order[i]]) if i < len(values) else np.inf


# -- classes: are their probabilities right?


def log_odds(errors: dict[str, np.ndarray]) -> np.ndarray:
    """The log odds of the second class that the held-out rows were given."""
    return np.where(errors["is_second"], -errors["error"], errors["error"])


def reliability(errors: dict[str, np.ndarray], n_bins: int = 10) -> dict[str, np.ndarray]:
    """How often held-out rows are of the second class, by the probability that they were given.

    Rows are cut into bins of equal size by the probability.

    Parameters
    ----------
    errors : dict of ndarrays
        ``heldout_errors_`` of a search over classifiers.
    n_bins : int, default=10
        Number of bins.

    Returns
    -------
    curve : dict of ndarrays of shape (n_bins,)
        probability: its mean within the bin; share: of the second class; n_rows.
    """
    z, weight = log_odds(errors), row_weights(errors)
    values = {"probability": expit(z), "share": errors["is_second"].astype(float)}
    order = np.argsort(z, kind="stable")
    reached = np.cumsum(weight[order]) - 0.5 * weight[order]
    of_row = np.empty(len(z), dtype=np.intp)
    of_row[order] = np.minimum(n_bins * reached / weight.sum(), n_bins - 1).astype(np.intp)
    n = np.bincount(of_row, weight, minlength=n_bins)
    filled = n > 0.0
    curve = {
        name: np.bincount(of_row, weight * value, minlength=n_bins)[filled] / n[filled]
        for name, value in values.items()
    }
    return {**curve, "n_rows": n[filled]}
