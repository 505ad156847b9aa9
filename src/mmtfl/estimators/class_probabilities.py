"""Calibrated probabilities and prediction sets of classifiers, from log odds of rows that were not fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from mmtfl.estimators.inputs import first_few
from mmtfl.estimators.intervals import ENOUGH_ROWS, KeepsHeldoutErrors, row_weights

__all__ = ["PredictsSets", "calibration_lines", "reliability"]

_FIRST_ROWS = 2.0  # for which log odds that are right as they are stand in the line of all tasks


class PredictsSets(KeepsHeldoutErrors):
    """A classifier that says how sure its predictions are, once it was tuned or calibrated."""

    def calibrated_proba(self, X: Any, task: Any = None, offset: Any = None) -> np.ndarray:
        """Predict the probability of each class, calibrated on rows that were not fitted.

        A penalty pulls probabilities towards the middle. Here the log odds of `predict_proba` are stretched
        and shifted, task by task, to fit the classes of held-out rows (Platt 1999); all tasks together count
        as 40 rows of each task's rarer class. The order of the rows of a task stays as it is.

        Parameters
        ----------
        X, task, offset
            As in `predict`.

        Returns
        -------
        probability : ndarray of the shape of `predict_proba`
            In the order of ``classes_``.
        """
        X, place, _ = self._locate(X, task)
        self._check_calibrated()
        slope, shift = self._lines().T
        at = slice(-1) if place is None else place
        z = slope[at] * self._predict_with(offset, X, place) + shift[at]
        return expit(z) if z.ndim == 2 else np.column_stack([expit(-z), expit(z)])

    def predict_set(self, X: Any, task: Any = None, coverage: float = 0.9, offset: Any = None) -> np.ndarray:
        """Predict, for each row, a set of classes that holds the true one with this probability.

        The predicted class is always in it; the other one, too, where the log odds are no further from zero
        than those of the held-out rows that would be missed otherwise. It holds for new rows of the same
        tasks that come like the old ones, on average over the rows of a task. Tasks with fewer than 40
        held-out rows borrow from all tasks; ``borrowing_tasks_`` names them.

        Parameters
        ----------
        X, task, offset
            As in `predict`.
        coverage : float, default=0.9
            Share of new rows whose class is to be in its set.

        Returns
        -------
        is_in : ndarray of bool, shape (n_rows, 2)
            Whether each of ``classes_`` is in the set; (n_rows, n_tasks, 2) where `predict` gives
            (n_rows, n_tasks).
        """
        X, place, _ = self._locate(X, task)
        reach = self._reach(coverage, place)
        z = self._predict_with(offset, X, place)
        return np.stack([(z <= 0.0) | (z <= reach), (z > 0.0) | (-z <= reach)], axis=-1)

    def _lines(self) -> np.ndarray:
        lines = calibration_lines(self.heldout_errors_)
        lines[:-1][~self._has_part()] = 1.0, 0.0  # base rates need no stretching
        return lines

    def _encoded_targets(self, y: np.ndarray) -> np.ndarray:
        missing = np.array([value != value for value in y.ravel().tolist()]).reshape(y.shape)
        known = np.isin(y, self.classes_)
        if not (known | missing).all():
            raise ValueError(
                f"y has classes that the model does not know ({first_few(np.unique(y[~known & ~missing]))}): "
                f"it knows {first_few(self.classes_)}."
            )
        return np.where(missing, np.nan, np.where(y == self.classes_[1], 1.0, -1.0))


def log_odds(errors: dict[str, np.ndarray]) -> np.ndarray:
    """The log odds of the second class that the held-out rows were given."""
    return np.where(errors["is_second"], -errors["error"], errors["error"])


def calibration_lines(errors: dict[str, np.ndarray]) -> np.ndarray:
    """Slope and shift of the log odds in each task, and at the end of a task that is not known; (T + 1, 2).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=4000)
    >>> second = rng.uniform(size=4000) < 1.0 / (1.0 + np.exp(-(3.0 * z + 1.0)))
    >>> errors = {"n_rows": np.array([4000]), "n_kept": np.array([4000]), "is_second": second,
    ...           "error": np.where(second, -z, z)}
    >>> calibration_lines(errors).round(0)
    array([[3., 1.],
           [3., 1.]])
    """
    z, y, weight = log_odds(errors), np.where(errors["is_second"], 1.0, -1.0), row_weights(errors)
    rows = np.column_stack([z, np.ones_like(z)])
    prior = _FIRST_ROWS * _information(rows, weight / 4.0, weight)
    of_all = _line(rows, y, weight, np.array([1.0, 0.0]), prior)
    chance = expit(rows @ of_all)
    borrowed = ENOUGH_ROWS / _share_of_rarer(errors["is_second"], weight)
    prior = borrowed * _information(rows, weight * chance * (1.0 - chance), weight)
    ends = np.cumsum(errors["n_kept"])
    parts = [slice(end - n, end) for end, n in zip(ends, errors["n_kept"], strict=True)]
    own = [_line(rows[part], y[part], weight[part], of_all, prior) for part in parts]
    return np.array([*own, of_all])


def _share_of_rarer(is_second: np.ndarray, weight: np.ndarray) -> float:
    """Share of the rarer class among all rows, of which it is taken to have one at least."""
    total, second = max(float(weight.sum()), 1.0), float(weight[is_second].sum())
    return max(min(second, total - second), 1.0) / total


def _information(rows: np.ndarray, curvature: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Information of one row, on average; a little more, so that it can be inverted."""
    mean = (rows.T * curvature) @ rows / max(float(weight.sum()), 1.0)
    return mean + 1e-8 * np.eye(2)


def _line(rows: np.ndarray, y: np.ndarray, weight: np.ndarray, centre: np.ndarray, prior: Any) -> np.ndarray:
    """The most probable slope and shift, by Newton's method; a slope below zero becomes zero."""
    line = centre.copy()
    for _ in range(100):
        wrong = expit(-y * (rows @ line))
        gradient = prior @ (line - centre) - rows.T @ (weight * y * wrong)
        curvature = prior + (rows.T * (weight * wrong * (1.0 - wrong))) @ rows
        step = np.linalg.solve(curvature, gradient)
        line = line - step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-10:
            break
    if line[0] >= 0.0:
        return line
    return _line(rows * [0.0, 1.0], y, weight, centre * [0.0, 1.0], prior * np.eye(2) + np.diag([1.0, 0.0]))


def reliability(model: PredictsSets, n_bins: int = 10) -> dict[str, np.ndarray]:
    """How often held-out rows are of the second class, by the probability that they were given.

    Rows are cut into bins of equal size by the probability as it is; their calibrated probability is that of
    the lines, which were fitted to the same rows.

    Returns
    -------
    curve : dict of ndarrays of shape (n_bins,)
        probability and calibrated: means within the bin; share: of the second class; n_rows.
    """
    errors = model.heldout_errors_
    z, weight = log_odds(errors), row_weights(errors)
    lines = np.repeat(model._lines()[:-1], errors["n_kept"], axis=0)
    values = {"probability": expit(z), "calibrated": expit(lines[:, 0] * z + lines[:, 1])}
    values["share"] = errors["is_second"].astype(float)
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
