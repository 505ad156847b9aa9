"""What each task says about each feature by itself: an effect without shrinkage, and its standard error.

Within a task the target is regressed, without a penalty, on the feature and on the features that the half
samples keep (an added-variable test for the others). Classes are treated at the linear approximation of the
logistic regression on the kept features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse, stats
from scipy.special import expit

from mmtfl.tasks.container import Tasks

__all__ = ["EntryEffects", "entry_effects"]

_SPARE_ROWS = 5  # a task needs so many rows more than coefficients
_RIDGE = 1.0  # on standardised features: keeps a logistic regression finite where classes are separated
_LARGEST = 37.0  # standard errors; the normal tail beyond is zero in floats


@dataclass(frozen=True)
class EntryEffects:
    """Effects of features (in the units of the data) and their standard errors, (n_tasks, n_features).

    NaN where a task has too few rows for the test, or where the feature does not vary in it. Errors are
    those of a normal law with the p-value of the t test.
    """

    effect: np.ndarray
    error: np.ndarray

    @property
    def z(self) -> np.ndarray:
        """Effects in standard errors."""
        return self.effect / self.error


def entry_effects(tasks: Tasks, kept: np.ndarray, usable: np.ndarray, *, with_classes: bool) -> EntryEffects:
    """Test every feature in every task, beside the features that are kept.

    Parameters
    ----------
    tasks : Tasks
        The rows.
    kept : ndarray of bool, shape (n_features,)
        Features that every test adjusts for.
    usable : ndarray of bool, shape (n_tasks, n_features)
        Whether a feature varies within a task.
    with_classes : bool
        Whether targets are classes, -1 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks import Tasks
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> tasks = Tasks.from_rows(X, 3.0 * X[:, 0] + rng.normal(size=100), np.repeat([0, 1], 50))
    >>> found = entry_effects(tasks, np.array([True, False]), np.ones((2, 2), bool), with_classes=False)
    >>> bool((abs(found.z[:, 0]) > 8.0).all() and (abs(found.z[:, 1]) < 3.0).all())
    True
    """
    effect = np.full((tasks.n_tasks, tasks.n_features), np.nan)
    error = effect.copy()
    for t, view in enumerate(tasks):
        X = view.X.toarray() if sparse.issparse(view.X) else np.asarray(view.X, dtype=float)
        weights = np.ones(len(view.y)) if view.weights is None else view.weights
        of_task = _ClassTest if with_classes else _LinearTest
        tested = of_task(X[weights > 0.0], view.y[weights > 0.0], weights[weights > 0.0], kept & usable[t])
        effect[t], error[t] = tested.entries(usable[t])
    return EntryEffects(effect, error)


class _LinearTest:
    """Least squares on the kept features of one task; then every other feature is added alone."""

    def __init__(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, kept: np.ndarray):
        root = np.sqrt(weights / weights.mean())
        self.scale = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
        self.X = _without_mean(X / self.scale, root)
        self.y = _without_mean(y[:, None], root)[:, 0]
        self.kept, self.n_rows = kept, len(y)

    @property
    def n_spare(self) -> int:
        """Rows beyond the coefficients of the kept features and the intercept."""
        return self.n_rows - 1 - int(self.kept.sum())

    def entries(self, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Effects and errors of all features; NaN where there is no test."""
        effect, error = np.full(len(usable), np.nan), np.full(len(usable), np.nan)
        if self.n_spare < _SPARE_ROWS:
            return effect, error
        basis, residual = self._fit()
        others = usable & ~self.kept
        for features, alone in ((self.kept, False), (others, True)):
            if features.any() and (not alone or self.n_spare > _SPARE_ROWS):
                found = self._added(features, residual, basis) if alone else self._together()
                effect[features], error[features] = (part / self.scale[features] for part in found)
        return effect, error

    def _fit(self) -> tuple[np.ndarray, np.ndarray]:
        basis = np.linalg.qr(self.X[:, self.kept])[0]
        return basis, self.y - basis @ (basis.T @ self.y)

    def _together(self) -> tuple[np.ndarray, np.ndarray]:
        X = self.X[:, self.kept]
        inverse = np.linalg.pinv(X.T @ X, hermitian=True)
        effect = inverse @ (X.T @ self.y)
        rest = self.y - X @ effect
        return self._as_normal(effect, np.diag(inverse), rest @ rest, self.n_spare)

    def _added(self, features: np.ndarray, residual: np.ndarray, basis: np.ndarray) -> Any:
        X = self.X[:, features]
        X = X - basis @ (basis.T @ X)
        square = np.einsum("ij,ij->j", X, X)
        inverse = np.divide(1.0, square, out=np.full(len(square), np.inf), where=square > 1e-10 * self.n_rows)
        effect = np.where(np.isfinite(inverse), (X.T @ residual) * inverse, 0.0)
        rest = residual @ residual - effect**2 * square
        return self._as_normal(effect, inverse, rest, self.n_spare - 1)

    def _as_normal(self, effect: np.ndarray, inverse: np.ndarray, squares: Any, n_spare: int) -> Any:
        """Effects with the errors of a normal law that has the p-values of the t test."""
        error = np.sqrt(np.maximum(squares, 0.0) / n_spare * inverse)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.abs(effect) / error
            z = np.clip(stats.norm.isf(stats.t.sf(t, n_spare)), 0.0, _LARGEST)
            return effect, np.where(t > 0.01, np.abs(effect) / z, error)


class _ClassTest(_LinearTest):
    """The same at the linear approximation of a logistic regression on the kept features."""

    def __init__(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, kept: np.ndarray):
        scale = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
        ones = (y > 0.0).astype(float)
        self.rarer = int(min(ones.sum(), len(ones) - ones.sum()))
        design = np.column_stack([np.ones(len(y)), X[:, kept] / scale[kept]])
        design[:, 1:] -= design[:, 1:].mean(axis=0)
        z = _logistic_ridge(design, ones, weights)
        chance = np.clip(expit(z), 1e-6, 1.0 - 1e-6)
        curvature = weights * chance * (1.0 - chance)
        super().__init__(X, z + (ones - chance) / (chance * (1.0 - chance)), curvature, kept)
        self._curvature = curvature.mean()

    @property
    def n_spare(self) -> int:
        """Rows of the rarer class beyond the coefficients."""
        return self.rarer - 1 - int(self.kept.sum())

    def _as_normal(self, effect: np.ndarray, inverse: np.ndarray, squares: Any, n_spare: int) -> Any:
        return effect, np.sqrt(inverse / self._curvature)  # the dispersion of classes is known


def _without_mean(values: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Values without their weighted mean, times the roots of the weights."""
    mean = (root**2) @ values / (root**2).sum()
    return (values - mean) * root[:, None]


def _logistic_ridge(design: np.ndarray, ones: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Linear predictor of a logistic regression with a small ridge penalty, by Newton's method."""
    ridge = np.full(design.shape[1], _RIDGE)
    ridge[0] = 1e-3
    coef = np.zeros(design.shape[1])
    for _ in range(50):
        chance = expit(design @ coef)
        gradient = design.T @ (weights * (chance - ones)) + ridge * coef
        curvature = (design.T * (weights * chance * (1.0 - chance))) @ design + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        coef -= step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-8:
            break
    return design @ coef
