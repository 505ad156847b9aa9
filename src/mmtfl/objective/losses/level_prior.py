"""A prior on the level of each task, as one more row of it: a parabola in the row's linear predictor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.objective.losses.loss import Loss

_FILLER = 1.0  # a target that every loss is defined for, in rows that do not count
_STEPS, _STEP, _CLOSE = 80, 2.0, 1e-10


@dataclass(frozen=True)
class WithLevelPrior(Loss):
    """A loss on tasks whose last rows hold the prior of their levels; see `with_level_rows`."""

    loss: Loss

    @property
    def has_dual(self) -> bool:  # type: ignore[override]
        """Whether the duality gap is known."""
        return self.loss.has_dual

    def value(self, y, z, weight):
        """Not of the rows alone: the prior is bound to tasks first."""
        raise TypeError("the loss has to be bound to the rows of tasks")

    gradient = hessian = value

    def on_rows(self, inner: Loss, offsets: np.ndarray) -> LossWithPriors:
        """The loss on the rows of tasks, from the same without priors."""
        return LossWithPriors(inner, offsets[1:] - 1, offsets)


@dataclass(frozen=True, eq=False)
class LossWithPriors(Loss):
    """The loss of rows, and parabolas at some of them, which have no other loss.

    A parabola bends as much as the loss can, where that is bounded, so that it changes no bound.

    Attributes
    ----------
    inner : Loss
        The loss of the other rows.
    at : ndarray of int
        Rows with parabolas, one of each task.
    offsets : ndarray (n_tasks + 1,)
        Where the rows of each task begin, and the last ones end.
    """

    inner: Loss
    at: np.ndarray
    offsets: np.ndarray

    @property
    def curvature(self) -> float | None:  # type: ignore[override]
        """The bound of the loss."""
        return self.inner.curvature

    @property
    def bend(self) -> float:
        """Second derivative of a parabola of weight one."""
        return prior_bend(self.inner)

    @property
    def has_dual(self) -> bool:  # type: ignore[override]
        """Whether the duality gap is known."""
        return self.inner.has_dual

    def plain(self, y: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Targets and weights with which the rows of the priors count for nothing in the loss."""
        y, weight = y.copy(), weight.copy()
        y[self.at], weight[self.at] = _FILLER, 0.0
        return y, weight

    def _by_row(self, question: str, y, z, weight, of_prior) -> np.ndarray:
        plain_y, plain_weight = self.plain(y, weight)
        out = getattr(self.inner, question)(plain_y, z, plain_weight)
        out[self.at] = self.bend * weight[self.at] * of_prior
        return out

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses and of the priors."""
        plain_y, plain_weight = self.plain(y, weight)
        apart = z[self.at] - y[self.at]
        return self.inner.value(plain_y, z, plain_weight) + 0.5 * self.bend * float(
            weight[self.at] @ apart**2
        )

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return self._by_row("gradient", y, z, weight, z[self.at] - y[self.at])

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return self._by_row("hessian", y, z, weight, 1.0)

    def majorant(self, y, z, weight):
        """Second derivative of a parabola above the loss, row by row."""
        return self._by_row("majorant", y, z, weight, 1.0)

    def mean(self, z):
        """Expected targets."""
        return self.inner.mean(z)

    def dual(self, y, z, weight, shrink):
        """Dual value without the penalty's conjugate."""
        plain_y, plain_weight = self.plain(y, weight)
        theta = shrink * self.bend * (y - z)[self.at]
        own = float(weight[self.at] @ (theta * y[self.at] - theta**2 / (2.0 * self.bend)))
        return self.inner.dual(plain_y, z, plain_weight, shrink) + own

    def null_intercepts(self, y, weight, offsets):
        """Best constant of each task."""

        def slopes(b):
            z = np.repeat(b, np.diff(offsets))
            both = self.gradient(y, z, weight), self.hessian(y, z, weight)
            return tuple(np.add.reduceat(part, offsets[:-1]) for part in both)

        return least_levels(slopes, y[offsets[1:] - 1])

    def task_curvatures(self, y, z, offsets):
        """Bound on the second derivative in z of each task's rows, or its largest value at this z."""
        return self.inner.task_curvatures(self.plain(y, np.ones_like(y))[0], z, offsets)


def prior_bend(loss: Loss) -> float:
    """Second derivative of a prior's parabola of weight one."""
    return 1.0 if loss.curvature is None else loss.curvature


def least_levels(
    slopes: Callable[[np.ndarray], tuple], start: np.ndarray, close: float = _CLOSE
) -> np.ndarray:
    """Where convex functions of one number each are least, by Newton's method within brackets.

    Parameters
    ----------
    slopes : callable
        First and second derivatives at some numbers; the second are positive.
    start : ndarray
        Where to begin.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.objective.losses.level_prior import least_levels
    >>> least_levels(lambda b: (np.exp(b) - [1.0, 100.0], np.exp(b)), np.zeros(2)).round(6)
    array([0.     , 4.60517])
    """
    b, low, high = np.array(start, dtype=float), np.full(len(start), -np.inf), np.full(len(start), np.inf)
    for _ in range(_STEPS):
        first, second = slopes(b)
        low, high = np.where(first < 0.0, b, low), np.where(first > 0.0, b, high)
        step = np.clip(-first / second, -_STEP, _STEP)
        outside = (b + step < low) | (b + step > high)
        with np.errstate(invalid="ignore"):  # brackets that are still open
            b = np.where(outside, 0.5 * (low + high), b + step)
        if np.abs(step).max(initial=0.0) <= close:
            break
    return b


def with_level_rows(tasks: Any, centre: np.ndarray, middle: np.ndarray, weight: float) -> Any:
    """Tasks with one more row each, the last: at the centre, with the prior's mean and weight."""
    own = np.ones(tasks.n_samples) if tasks.weights is None else tasks.weights
    ends = tasks.offsets[1:]

    def at_ends(values: np.ndarray, new: Any) -> np.ndarray:
        return np.insert(values, ends, new)

    rows = np.tile(centre, (tasks.n_tasks, 1))
    if tasks.absent is not None:
        rows[tasks.absent] = 0.0
    changes: dict[str, Any] = {
        "y": at_ends(tasks.y, middle), "weights": at_ends(own, weight), "groups": None,
        "offsets": tasks.offsets + np.arange(tasks.n_tasks + 1),
        "known": None if tasks.known is None else at_ends(tasks.known, 0.0),
    }  # fmt: skip
    if tasks.rows is not None:  # one row for all tasks, as the others are
        changes["rows"] = at_ends(tasks.rows, tasks.X.shape[0])
        changes["X"] = _stacked(tasks.X, centre[None])
    else:
        place = np.insert(np.arange(tasks.n_samples), ends, tasks.n_samples + np.arange(tasks.n_tasks))
        changes["X"] = _stacked(tasks.X, rows)[place]
    return replace(tasks, **changes)


def _stacked(X: Any, rows: np.ndarray) -> Any:
    rows = rows.astype(X.dtype)
    if sparse.issparse(X):
        return sparse.vstack([X, sparse.csr_array(rows)], format=X.format)
    return np.vstack([X, rows])
