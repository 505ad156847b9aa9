"""What the rows of tasks say at a fit: the scores and curvatures that effects are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.objective.losses.by_rows import TaskLoss
from mmtfl.tasks.container import Tasks

_NOTHING = 1e-100  # mean square of a column that has no entries, in units near one


@dataclass(frozen=True, eq=False)
class TaskMoments:
    """What the step needs of the rows of one task, at the fit.

    Attributes
    ----------
    n : float
        Sum of the rows' weights.
    weight : float
        Sum of their curvatures h.
    scatter : ndarray of shape (d, d)
        X' H X of columns centred with weights h.
    score : ndarray of shape (d,)
        X' s, s minus the derivative of the loss in z.
    squares : float
        Sum of squared residuals in units of a row's variance: that over its degrees of freedom is sigma^2.
    per_curvature : float
        How much of ``squares`` a unit of the curvature's parabola is.
    rows : tuple of ndarray of shape (n_rows, d) and (n_rows,), or None
        H^1/2 X and H^-1/2 s of the centred rows, where there are fewer than columns.
    """

    n: float
    weight: float
    scatter: np.ndarray
    score: np.ndarray
    squares: float
    per_curvature: float = 1.0
    rows: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def of_rows(
        cls,
        X: np.ndarray,
        s: np.ndarray,
        h: np.ndarray,
        weights: np.ndarray,
        *,
        centred: bool,
        residual: bool,
        scatter: np.ndarray | None = None,
        usable: np.ndarray | None = None,
    ) -> TaskMoments:
        """Sum up rows.

        ``residual`` says that the loss is one of y - z, whose noise has a variance of its own; ``scatter``
        is given where it is known from another task. What is left of columns that are not ``usable`` is
        rounding.
        """
        total = float(h.sum())
        if centred and total > 0.0:
            X, s = X - h @ X / total, s - h * (s.sum() / total)
        if usable is not None and not usable.all():
            X = X * usable
        rows = None
        if scatter is None:
            root = np.sqrt(h)
            scaled = X * root[:, None]
            scatter = scaled.T @ scaled
            if len(X) < X.shape[1] and (root > 0.0).all():
                rows = scaled, s / root
        base = weights if residual else h
        # s^2 / h in an order in which no square of a large weight overflows
        squares = float(s @ np.divide(s, base, out=np.zeros_like(s), where=base > 0.0))
        n = float(weights.sum())
        per_curvature = n / total if residual and total > 0.0 else 1.0
        return cls(n, total, scatter, X.T @ s, squares * per_curvature, per_curvature, rows)


@dataclass(frozen=True, eq=False)
class Totals:
    """What is summed over some tasks before the step: all of it together, and the scores of each."""

    scatter: np.ndarray
    weight: float
    rows: float
    scores: np.ndarray  # (n_tasks, n_features)

    @classmethod
    def of(cls, moments: Iterable[TaskMoments]) -> Totals:
        """Sum up some tasks."""
        scatter: Any = 0.0
        weight, rows, scores = 0.0, 0.0, []
        for own in moments:
            scatter, weight, rows = scatter + own.scatter, weight + own.weight, rows + max(own.n - 1.0, 0.0)
            scores.append(own.score)
        return cls(scatter, weight, rows, np.array(scores))

    @classmethod
    def joined(cls, parts: Sequence[Totals]) -> Totals:
        """Those of several places, in the order of the tasks."""
        return cls(
            np.sum([part.scatter for part in parts], axis=0),
            sum(part.weight for part in parts),
            sum(part.rows for part in parts),
            np.concatenate([part.scores for part in parts]),
        )


@dataclass(frozen=True, eq=False)
class Pooled:
    """The scatter of all tasks together, on the scale of correlations.

    Attributes
    ----------
    correlation : ndarray of shape (d, d)
        S / h of eq. (20) in units of the features' spread within tasks.
    unit : ndarray of shape (d,)
        That spread; 1 for a feature that is constant within every task.
    rows : float
        Rows beyond the tasks' levels.
    """

    correlation: np.ndarray
    unit: np.ndarray
    rows: float

    @classmethod
    def of(cls, totals: Totals) -> Pooled:
        """The mean over the rows of all tasks."""
        mean = totals.scatter / max(totals.weight, np.finfo(float).tiny)
        square = np.diag(mean)
        unit = np.sqrt(np.where(square > _NOTHING, square, 1.0))
        return cls(mean / unit / unit[:, None], unit, totals.rows)

    @property
    def varies(self) -> np.ndarray:
        """Whether features vary within some task."""
        return np.diag(self.correlation) > 0.5

    def scaled(self, own: TaskMoments) -> np.ndarray:
        """The scatter of a task on this scale, per unit of curvature."""
        return own.scatter / (self.unit * self.unit[:, None] * max(own.weight, np.finfo(float).tiny))

    def first(self, n: int) -> Pooled:
        """The same for the first n columns."""
        return Pooled(self.correlation[:n, :n], self.unit[:n], self.rows)


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns whose effects are wanted, in units near one; the line of a curve is its contrast per unit.

    With ratio r = (B(upper) - B(lower)) / (upper - lower) of a curve column B, the columns x and B - r x
    have the same fits as x and B, and the coefficient of x is the effect of going from lower to upper, per
    unit.

    Attributes
    ----------
    places : ndarray of int of shape (n,)
        Positions in X: features, then the columns of their curves.
    unit : ndarray of shape (n,)
        What they are divided by.
    bent, line : ndarray of int of shape (n_curve_columns,)
        Positions among these of the columns of curves, and of the features that they belong to.
    ratio : ndarray of shape (n_curve_columns,)
        r, in these units.
    """

    places: np.ndarray
    unit: np.ndarray
    bent: np.ndarray
    line: np.ndarray
    ratio: np.ndarray

    def of(self, X: np.ndarray) -> np.ndarray:
        """These columns of rows."""
        X = np.asarray(X, dtype=float) / self.unit
        X[:, self.bent] -= self.ratio * X[:, self.line]
        return X

    def coef(self, coef: np.ndarray) -> np.ndarray:
        """The coefficients (n_tasks, n) of these columns, from those of all columns."""
        coef = coef[:, self.places] * self.unit
        np.add.at(coef.T, self.line, (self.ratio * coef[:, self.bent]).T)
        return coef


@dataclass(frozen=True, eq=False)
class RowsAtFit:
    """The rows of some tasks, seen at coefficients and levels.

    Attributes
    ----------
    tasks : Tasks
        Targets in the units of the loss.
    loss : Loss or LossPerTask
        Of the fit.
    coef, intercept : ndarray of shape (n_tasks, n_features) and (n_tasks,)
        Of the fit, in the same units.
    columns : Columns, or None
        Those whose effects are wanted; None before they are known.
    centred : bool
        Whether every task has a level.
    shift : ndarray of shape (n_tasks, n), or None
        What is added to the coefficients of the columns, beyond those of the fit.
    noise : ndarray of shape (n_tasks,), or None
        Residual variances, as far as they are known.
    usable : ndarray of bool of shape (n_tasks, n), or None
        Whether the columns vary within the tasks.
    """

    tasks: Tasks
    loss: TaskLoss
    coef: np.ndarray
    intercept: np.ndarray
    columns: Columns | None = None
    centred: bool = True
    shift: np.ndarray | None = None
    noise: np.ndarray | None = None
    usable: np.ndarray | None = None

    def moments(self) -> Iterator[TaskMoments]:
        """What each task says."""
        last = None
        for t in range(self.tasks.n_tasks):
            X, s, h, weights = self._task(t)
            own = self.loss.for_task(self.tasks.labels[t].item())
            shared = last.scatter if last is not None and self._same_rows else None
            usable = None if self.usable is None else self.usable[t]
            last = TaskMoments.of_rows(
                X, s, h, weights, centred=self.centred, residual=own.on_residuals, scatter=shared,
                usable=usable,
            )  # fmt: skip
            yield last

    def column_coef(self) -> np.ndarray:
        """The coefficients of these columns."""
        coef = self.coef if self.columns is None else self.columns.coef(self.coef)
        return coef if self.shift is None else coef + self.shift

    def scores(self) -> np.ndarray:
        """How much each feature could still explain, summed over the tasks, (n_features,)."""
        total = np.zeros(self.coef.shape[1])
        for t in range(self.tasks.n_tasks):
            X, s, h, _ = self._task(t)
            own = np.asarray(X.T @ s, dtype=float)
            square = np.asarray((X.multiply(X) if sparse.issparse(X) else X**2).T @ h, dtype=float)
            if self.centred and h.sum() > 0.0:
                mean = np.asarray(X.T @ h, dtype=float) / h.sum()
                own, square = own - mean * s.sum(), square - mean**2 * h.sum()
            total += np.divide(own**2, square, out=np.zeros_like(own), where=square > 1e-12 * h.sum())
        return total

    def by_group(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]] | None:
        """Centred X, centred s and the groups of each task's rows; None without groups."""
        return None if self.tasks.groups is None else map(self._grouped, range(self.tasks.n_tasks))

    def residuals(self) -> Iterator[np.ndarray]:
        """Scores of each task's rows over the root of their curvature, in the order of the rows."""
        for t in range(self.tasks.n_tasks):
            _, s, h, _ = self._task(t, keep_all=True)
            yield np.divide(s, np.sqrt(h), out=np.zeros_like(s), where=h > 0.0)

    @property
    def _same_rows(self) -> bool:
        """Whether all tasks have the same rows with the same curvatures."""
        return self.tasks.is_complete and self.loss.is_quadratic and self.tasks.weights is None

    def _grouped(self, t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, s, h, weights = self._task(t, keep_all=True)
        total = float(h.sum())
        if self.centred and total > 0.0:
            X, s = X - h @ X / total, s - h * (s.sum() / total)
        rows, counts = slice(*self.tasks.offsets[t : t + 2]), weights > 0.0
        assert self.tasks.groups is not None
        return X[counts], s[counts], self.tasks.groups[rows][counts]

    def _shifted(self, z: np.ndarray, by: np.ndarray, at: tuple, loss: Any, rows: tuple) -> np.ndarray:
        """Z with other coefficients, and the level that suits them: one step, as far as it can be trusted."""
        if not self.centred or loss.is_quadratic or at[1].sum() <= 0.0:
            return z + by
        z = z + by - float(at[1] @ by / at[1].sum())
        slope = -float(loss.gradient(rows[0], z, rows[1]).sum())
        bend = float(loss.hessian(rows[0], z, rows[1]).sum())
        return z + float(np.clip(slope / max(bend, 1e-12), -0.5, 0.5))

    def _task(self, t: int, *, keep_all: bool = False) -> tuple[Any, ...]:
        """Columns, scores, curvatures and weights of the rows of a task that count."""
        view, rows = self.tasks.task(t), slice(*self.tasks.offsets[t : t + 2])
        weights = np.ones(len(view.y)) if view.weights is None else np.asarray(view.weights, dtype=float)
        X: Any = view.X
        used = np.flatnonzero(self.coef[t])
        z = self.intercept[t] + np.asarray(X[:, used] @ self.coef[t, used], dtype=float)
        z = z if self.tasks.known is None else z + self.tasks.known[rows]
        if self.columns is not None:
            X = X[:, self.columns.places]
            X = self.columns.of(X.toarray() if sparse.issparse(X) else X)
        own = self.loss.for_task(view.label)
        s, h = -own.gradient(view.y, z, weights), own.hessian(view.y, z, weights)
        if self.shift is not None:
            z = self._shifted(z, X @ self.shift[t], (s, h), own, (view.y, weights))
            s, h = -own.gradient(view.y, z, weights), own.hessian(view.y, z, weights)
        counts = slice(None) if keep_all else weights > 0.0
        return X[counts], s[counts], h[counts], weights[counts]


def inverse_scatter(matrix: np.ndarray) -> np.ndarray:
    """Inverse of a scatter, where it has none its pseudoinverse."""
    try:
        root = np.linalg.inv(np.linalg.cholesky(matrix))
        return root.T @ root
    except np.linalg.LinAlgError:
        return np.linalg.pinv(matrix, rcond=1e-10, hermitian=True)
