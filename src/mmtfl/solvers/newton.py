"""One Newton step over all kept rows at once; docs/model.md section 6."""

import numpy as np
from scipy import linalg

from mmtfl.objective.penalties import RowPenalty
from mmtfl.solvers.working_set import Model, WorkingSet

_NOT_SINGULAR = 1e-11  # of the diagonal, where the penalty has no second derivative
_MOST_DROPS = 50  # of a task's entries in one step


def newton_step(
    working_set: WorkingSet,
    model: Model,
    slope_z: np.ndarray,
    A: np.ndarray,
    rows: np.ndarray,
    penalty: RowPenalty,
) -> float:
    """Take one step on the second-order model of the loss and of a smooth penalty, in place.

    Sweeps take one row after the other, and many of them where columns are nearly equal and the penalty is
    next to nothing. This solves for all unknowns together, and is for few of them. At p = 1 the entries that
    are zero stay so, and no other changes its sign.

    Returns the largest slope before it.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        slope, bend = penalty.of_rows(working_set.features[rows]).bends(A[rows])
    if not (np.isfinite(slope).all() and np.isfinite(bend).all()):
        return 0.0  # rows that are all but zero
    grams = np.empty((A.shape[1], len(rows), len(rows)))
    for t, part in working_set.design.segments():
        at = slice(working_set.start[t], working_set.start[t] + working_set.length[t])
        x, weight = working_set.x[rows, at], model.weight[part]
        if working_set.prepared:
            grams[t] = x @ x.T
            slope[:, t] += x @ (slope_z[part] / working_set.root[part])
        else:
            x = np.where(model.curvature[rows, t][:, None] > 0.0, x - model.means[rows, t][:, None], 0.0)
            grams[t] = (x * weight) @ x.T
            share = slope_z[part].sum() / weight.sum() if working_set.design.fit_intercept else 0.0
            slope[:, t] += x @ (slope_z[part] - share * weight)
    if penalty.p == 1.0:
        for t, gram in enumerate(grams):
            A[rows, t] = _within_signs(gram, slope[:, t], A[rows, t])
    else:
        A[rows] = _least(grams, slope, bend, A[rows], penalty.p)
    return float(np.abs(slope).max())


def _least(grams: np.ndarray, slope: np.ndarray, bend: np.ndarray, A: np.ndarray, p: float) -> np.ndarray:
    """Where the model of rows A, with matrices of every task and of every row, is least."""
    unknowns = np.arange(A.size).reshape(A.shape)
    H = np.zeros((A.size, A.size))
    H[unknowns[:, :, None], unknowns[:, None, :]] = bend
    for t, gram in enumerate(grams):
        H[np.ix_(unknowns[:, t], unknowns[:, t])] += gram
    least = A - _solve(H, slope.ravel()).reshape(A.shape)
    crossing = (A * least < 0.0).ravel()
    if p < 2.0 and crossing.any():
        # |a|^p is so round near zero that a step from a leads to -a; its slope over a is a bend to zero
        own = np.diagonal(bend, axis1=1, axis2=2).ravel()
        H[np.diag_indices_from(H)] += np.where(crossing, own * (2.0 - p) / (p - 1.0), 0.0)
        least = A - _solve(H, slope.ravel()).reshape(A.shape)
    return least


def _within_signs(H: np.ndarray, slope: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Where the model of one task is least for the signs of a, or nearly; entries that reach zero stay."""
    least, free = a.copy(), np.flatnonzero(a)
    for _ in range(_MOST_DROPS):
        if free.size == 0:
            break
        own = H[np.ix_(free, free)]
        own.flat[:: free.size + 1] *= 1.0 + _NOT_SINGULAR
        step = -_solve(own, (slope + H @ (least - a))[free])
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(least[free] * step < 0.0, -least[free] / step, np.inf)
        first = int(np.argmin(reach))
        least[free] += min(reach[first], 1.0) * step
        if reach[first] >= 1.0:
            break
        least[free[first]] = 0.0
        free = np.delete(free, first)
    return least


def _solve(H: np.ndarray, v: np.ndarray) -> np.ndarray:
    """H^-1 v of a positive semidefinite H, in units in which its diagonal is one."""
    unit = 1.0 / np.sqrt(np.maximum(H.diagonal(), np.finfo(float).tiny))
    H = H * unit[:, None] * unit
    try:
        factor = linalg.cho_factor(H, lower=True, check_finite=False)
        return unit * linalg.cho_solve(factor, unit * v, check_finite=False)
    except linalg.LinAlgError:
        return unit * np.linalg.lstsq(H, unit * v, rcond=None)[0]
