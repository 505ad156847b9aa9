"""One Newton step over all kept rows at once; docs/model.md section 6."""

import numpy as np
from scipy import linalg

from mmtfl.objective.penalties import RowPenalty
from mmtfl.solvers.working_set import Model, WorkingSet


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
    next to nothing. This solves for all unknowns together, and is for few of them.

    Returns the largest slope before it.
    """
    design, n_rows, n_tasks = working_set.design, len(rows), A.shape[1]
    slope, bend = penalty.of_rows(working_set.features[rows]).bends(A[rows])
    unknowns = np.arange(n_rows * n_tasks).reshape(n_rows, n_tasks)
    H = np.zeros((unknowns.size, unknowns.size))
    H[unknowns[:, :, None], unknowns[:, None, :]] = bend
    for t, part in design.segments():
        at = slice(working_set.start[t], working_set.start[t] + working_set.length[t])
        x, weight = working_set.x[rows, at], model.weight[part]
        if working_set.prepared:
            H[np.ix_(unknowns[:, t], unknowns[:, t])] += x @ x.T
            slope[:, t] += x @ (slope_z[part] / working_set.root[part])
        else:
            x = np.where(model.curvature[rows, t][:, None] > 0.0, x - model.means[rows, t][:, None], 0.0)
            H[np.ix_(unknowns[:, t], unknowns[:, t])] += (x * weight) @ x.T
            share = slope_z[part].sum() / weight.sum() if design.fit_intercept else 0.0
            slope[:, t] += x @ (slope_z[part] - share * weight)
    here, change = A[rows], _solve(H, slope.ravel())
    crossing = here.ravel() * (here.ravel() - change) < 0.0
    if penalty.p < 2.0 and crossing.any():
        # near zero |a|^p is so round that a step from a leads to -a: its slope over a is the bend that leads to 0
        own = np.diagonal(bend, axis1=1, axis2=2).ravel()
        H[np.diag_indices_from(H)] += np.where(crossing, own * (2.0 - penalty.p) / (penalty.p - 1.0), 0.0)
        change = _solve(H, slope.ravel())
    A[rows] = here - change.reshape(n_rows, n_tasks)
    return float(np.abs(slope).max())


def _solve(H: np.ndarray, v: np.ndarray) -> np.ndarray:
    """H^-1 v of a positive semidefinite H, in units in which its diagonal is one."""
    unit = 1.0 / np.sqrt(np.maximum(H.diagonal(), np.finfo(float).tiny))
    H = H * unit[:, None] * unit
    try:
        factor = linalg.cho_factor(H, lower=True, check_finite=False)
        return unit * linalg.cho_solve(factor, unit * v, check_finite=False)
    except linalg.LinAlgError:
        return unit * np.linalg.lstsq(H, unit * v, rcond=None)[0]
