"""Newton steps on the bounds of rows, which many small tasks follow; docs/additive.md section 3.

Where the largest entry of a row is penalised, the model of many tasks is a function of a few numbers: the
bounds that the entries of each row reach without further cost. At given bounds every task is a problem of its
own. So all bounds move at once, by Newton's method, where sweeps over rows would move one after the other.
"""

import numpy as np

from mmtfl.objective.penalties import RowPenalty
from mmtfl.solvers.extrapolation import Track

MOST_BOUNDS = 2000  # above, their linear system takes longer than it saves
_RIDGE = 1e-10  # added to the curvatures, as a share of their mean
_LEAST_LEFT = 0.05  # of a bound by one step: a row that vanishes does so in a sweep
_STEPS = (1.0, 0.25)
_TASK_SWEEPS = 1000  # of one task on its own


def move_bounds(penalty: RowPenalty, rows: np.ndarray, track: Track, data: tuple, tolerance: float) -> None:
    """Bring the tasks to their minimum under the bounds of `rows`, then the bounds to where Newton leads.

    `penalty` is that of these rows, and `data` what all compiled descents on tasks begin with. The bounds
    stay if the model is not lower there.
    """
    A, state = track.A, track.state
    alpha, eps = np.ascontiguousarray(penalty.row_numbers(len(rows))[:, :2].T)
    bounds = penalty.entries(A[rows]).weight
    forces, curvatures = _settle(data, bounds, bounds, eps, tolerance)
    change = _newton_change(bounds, forces - alpha, curvatures)
    before, old, old_state = _value(track, rows, bounds, alpha, eps), A[rows], state.copy()
    for step in _STEPS:
        goal = np.maximum(bounds + step * change, _LEAST_LEFT * bounds)
        _settle(data, bounds, goal, eps, tolerance)
        if _value(track, rows, goal, alpha, eps) < before:
            return
        A[rows], state[:] = old, old_state


def _settle(
    data: tuple, old: np.ndarray, new: np.ndarray, eps: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Move the tasks to their minimum under new bounds: their pull at these, and how that falls with them."""
    from mmtfl.kernels.bounded_tasks import settle_bounded

    forces, curvatures = np.empty(len(old)), np.empty((len(old), len(old)))
    settle_bounded(*data, old, new, eps, tolerance, _TASK_SWEEPS, forces, curvatures)
    return forces, curvatures


def _newton_change(bounds: np.ndarray, forces: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
    """Newton's change of the bounds that some entry is held by, from the lower half of the curvatures."""
    change, held = np.zeros(len(bounds)), np.diag(curvatures) > 0.0
    if held.any():
        H = curvatures[np.ix_(held, held)]
        H += np.tril(H, -1).T
        H.flat[:: len(H) + 1] += _RIDGE * np.trace(H) / len(H)
        change[held] = np.linalg.solve(H, forces[held])
    return change


def _value(track: Track, rows: np.ndarray, bounds: np.ndarray, alpha: np.ndarray, eps: np.ndarray) -> float:
    """The model at the present A, with these bounds."""
    fit = 0.5 * float(track.state @ (track.state / track.h if track.h.size else track.state))
    beyond = np.maximum(np.abs(track.A[rows]) - bounds[:, None], 0.0).sum(axis=1)
    used = beyond > 0.0
    return fit + float(alpha @ bounds + eps[used] @ beyond[used])
