"""One Newton step over all kept rows at once; docs/model.md section 6."""

import numpy as np
from scipy import linalg

from mmtfl.objective.penalties import RowPenalty
from mmtfl.solvers.working_set import Model, WorkingSet

_NOT_SINGULAR = 1e-11  # of the diagonal, where the penalty has no second derivative
_MOST_DROPS = 50  # of entries that reach zero, or the size of their row, in one step
_AS_LARGE = 1e-9  # an entry that differs from the largest of its row by less is one of the largest


def newton_step(
    working_set: WorkingSet,
    model: Model,
    slope_z: np.ndarray,
    A: np.ndarray,
    rows: np.ndarray,
    penalty: RowPenalty,
) -> float:
    """Take one step on the second-order model of the loss and of the penalty, in place.

    Sweeps take one row after the other, and many of them where columns are nearly equal and the penalty is
    next to nothing. This solves for all unknowns together, and is for few of them. At p = 1 entries that are
    zero stay so, and at p = inf those as large as any of their row.

    Returns the largest slope of the loss before it; zero if rows are so small that there is no step.
    """
    here, own = A[rows], penalty.of_rows(working_set.features[rows])
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        pull, bend = _of_sizes(own, here) if penalty.p == np.inf else own.bends(here)
        if not (np.isfinite(pull).all() and np.isfinite(bend).all()):
            return 0.0
        grams, slope = _of_loss(working_set, model, slope_z, rows)
        if penalty.p == np.inf:
            least = _within_bounds(grams, slope, pull, bend, here)
        elif penalty.p == 1.0:
            tasks = zip(grams, (slope + pull).T, here.T, strict=True)
            least = np.transpose([_within_signs(*task) for task in tasks])
        else:
            least = _least(grams, slope + pull, bend, here, penalty.p)
    if np.isfinite(least).all():
        A[rows] = least
    return float(np.abs(slope).max())


def _of_loss(
    working_set: WorkingSet, model: Model, slope_z: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Second derivatives (n_tasks, n_rows, n_rows) and slopes (n_rows, n_tasks) of the loss."""
    design = working_set.design
    grams, slope = np.empty((design.n_tasks, len(rows), len(rows))), np.empty((len(rows), design.n_tasks))
    for t, part in design.segments():
        at = slice(working_set.start[t], working_set.start[t] + working_set.length[t])
        x, weight = working_set.x[rows, at], model.weight[part]
        if working_set.prepared:
            grams[t] = x @ x.T
            slope[:, t] = x @ (slope_z[part] / working_set.root[part])
        else:
            x = np.where(model.curvature[rows, t][:, None] > 0.0, x - model.means[rows, t][:, None], 0.0)
            grams[t] = (x * weight) @ x.T
            share = slope_z[part].sum() / weight.sum() if design.fit_intercept else 0.0
            slope[:, t] = x @ (slope_z[part] - share * weight)
    return grams, slope


def _of_sizes(penalty: RowPenalty, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivatives of a power of each row's largest entry; zero bends where it is concave."""
    size, r = np.abs(A).max(axis=1), penalty.power
    slope = penalty.alpha * r * size ** (r - 1.0)
    return slope, np.maximum(r - 1.0, 0.0) * slope / size


def _least(grams: np.ndarray, slope: np.ndarray, bend: np.ndarray, A: np.ndarray, p: float) -> np.ndarray:
    """Where the model of rows A, with matrices of every task and of every row, is least."""
    H, unknowns = _over_entries(grams), np.arange(A.size).reshape(A.shape)
    H[unknowns[:, :, None], unknowns[:, None, :]] += bend
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
        reach = np.where(least[free] * step < 0.0, -least[free] / step, np.inf)
        first = int(np.argmin(reach))
        least[free] += min(reach[first], 1.0) * step
        if reach[first] >= 1.0:
            break
        least[free[first]] = 0.0
        free = np.delete(free, first)
    return least


def _within_bounds(
    grams: np.ndarray, slope: np.ndarray, pull: np.ndarray, bend: np.ndarray, A: np.ndarray
) -> np.ndarray:
    """Where the model of rows A is least for entries that stay within the largest of their row, or nearly.

    The unknowns are the sizes of the rows, on which the penalty has slopes `pull`, and the smaller entries;
    one that reaches the size of its row stays there, and so does a row that reaches zero.
    """
    H, row, sides = _over_entries(grams), np.repeat(np.arange(len(A)), A.shape[1]), np.array([[1.0], [-1.0]])
    a, size = A.ravel(), np.abs(A).max(axis=1)
    sign, held = np.sign(a), np.abs(a) >= (1.0 - _AS_LARGE) * size[row]
    first, largest = a, size
    for _ in range(_MOST_DROPS):
        if not size.any():
            break
        kept, free = np.flatnonzero(size), np.flatnonzero(~held & (size[row] > 0.0))
        basis = np.zeros((a.size, kept.size + free.size))  # what the unknowns make of the entries
        basis[:, : kept.size] = np.where(held & (row == kept[:, None]), sign, 0.0).T
        basis[free, kept.size + np.arange(free.size)] = 1.0
        own, v = basis.T @ H @ basis, basis.T @ (slope.ravel() + H @ (a - first))
        own.flat[:: len(own) + 1] *= 1.0 + _NOT_SINGULAR
        own[np.arange(kept.size), np.arange(kept.size)] += bend[kept]
        v[: kept.size] += (pull + bend * (size - largest))[kept]
        step = -_solve(own, v)
        change, growth = basis @ step, np.zeros(len(A))
        growth[kept] = step[: kept.size]
        closing = sides * change - growth[row]
        gone = np.where(growth < 0.0, -size / growth, np.inf)
        met = np.where(~held & (closing > 0.0), (size[row] - sides * a) / closing, np.inf)
        share = min(gone.min(), met.min(), 1.0)
        a, size = a + share * change, size + share * growth
        if share == gone.min():
            size[np.argmin(gone)] = 0.0
        elif share == met.min():
            side, entry = np.unravel_index(np.argmin(met), met.shape)
            held[entry], sign[entry] = True, sides[side, 0]
        a = np.where(held, sign * size[row], np.where(size[row] > 0.0, a, 0.0))
        if share == 1.0:
            break
    return a.reshape(A.shape)


def _over_entries(grams: np.ndarray) -> np.ndarray:
    """The matrices of all tasks as one over the entries of A, row by row."""
    n_tasks, n_rows, _ = grams.shape
    out = np.zeros((n_rows, n_tasks, n_rows, n_tasks))
    for t, gram in enumerate(grams):
        out[:, t, :, t] = gram
    return out.reshape(n_rows * n_tasks, -1)


def _solve(H: np.ndarray, v: np.ndarray) -> np.ndarray:
    """H^-1 v of a positive semidefinite H, in units in which its diagonal is one."""
    unit = 1.0 / np.sqrt(np.maximum(H.diagonal(), np.finfo(float).tiny))
    H = H * unit[:, None] * unit
    try:
        factor = linalg.cho_factor(H, lower=True, check_finite=False)
        return unit * linalg.cho_solve(factor, unit * v, check_finite=False)
    except linalg.LinAlgError:
        return unit * np.linalg.lstsq(H, unit * v, rcond=None)[0]
