"""Whether residuals of a model with lines hint at curves: score tests, before any curve is fitted."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from mmtfl.objective.problem import Problem
from mmtfl.tasks.container import Tasks

_LEVEL = 0.1  # chance that straight effects of all features together hint at a curve


def hints_at_curves(problem: Problem, A: np.ndarray, intercept: np.ndarray, bent: Tasks) -> bool:
    """Whether some feature's curve columns go with the residuals of a model with lines.

    A score test of each feature's curve common to all tasks, and one of its smoothest column with a
    coefficient for every task, at a level that holds for all of them together; and the sum of the first over
    all features, for many that bend a little each.

    Parameters
    ----------
    problem : Problem
        With lines.
    A, intercept : ndarray
        The model with lines.
    bent : Tasks
        The same observations, with the columns of curves.
    """
    basis = bent.curves
    assert basis is not None
    if bent.weights is not None and not bent.weights.all():  # a problem has no rows of weight zero
        bent = bent.select(np.flatnonzero(bent.weights))
    design, z = problem.design, problem.predict(A, intercept)
    slope = -problem.loss_gradient(z)
    weight = problem.loss.hessian(design.y, z, design.row_weight)
    weight = np.maximum(weight, 1e-12 * weight.max(initial=0.0))
    n_rows = float(bent.n_samples if bent.weights is None else bent.weights.sum())
    rows = _Rows(slope, weight, design.offsets, max(n_rows - bent.n_tasks - (A != 0.0).sum(), n_rows / 4.0))
    common, single = [], []
    for i in range(len(basis.curved)):
        columns = bent.X[:, basis.n_features + np.flatnonzero(basis.owner == i)]
        columns = rows.centred(columns if bent.rows is None else columns[bent.rows])
        common.append(rows.common(columns))
        single.append(rows.single(columns[:, 0]))
    tests = np.array(common + single)
    smallest = float(chi2.sf(*tests.T).min())
    total, freedom = np.sum(common, axis=0)
    return smallest * len(tests) < _LEVEL or bool(chi2.sf(total, freedom) < 0.5 * _LEVEL)


class _Rows:
    """Slopes and curvatures of the loss at every row, within tasks."""

    def __init__(self, slope: np.ndarray, weight: np.ndarray, offsets: np.ndarray, freedom: float):
        self.weight, self.starts, self.sizes = weight, offsets[:-1], np.diff(offsets)
        self.totals = self._sums(weight)
        self.slope = slope - weight * self._spread(self._sums(slope) / self.totals)
        self.dispersion = max(float(np.sum(self.slope**2 / weight)) / freedom, 1e-300)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.starts, axis=0)

    def _spread(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, self.sizes, axis=0)

    def centred(self, columns: np.ndarray) -> np.ndarray:
        """Columns without their weighted mean in every task, in units of the largest entry."""
        columns = columns / max(float(np.abs(columns).max(initial=0.0)), 1e-300)
        means = self._sums(self.weight[:, None] * columns) / self.totals[:, None]
        return columns - self._spread(means)

    def common(self, columns: np.ndarray) -> tuple[float, float]:
        """Statistic and degrees of freedom of columns with one coefficient for all tasks."""
        slope, gram = self.slope @ columns, columns.T @ (self.weight[:, None] * columns)
        size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        gram = gram / np.outer(size, size) + 1e-9 * np.eye(len(size))
        return float(slope / size @ np.linalg.solve(gram, slope / size)) / self.dispersion, float(len(size))

    def single(self, column: np.ndarray) -> tuple[float, float]:
        """Statistic and degrees of freedom of a column with a coefficient for every task."""
        slope, size = self._sums(self.slope * column), self._sums(self.weight * column**2)
        varies = size > 1e-9 * size.max(initial=0.0)
        found = float(np.sum(slope[varies] ** 2 / size[varies])) / self.dispersion
        return found, max(float(np.count_nonzero(varies)), 1.0)
