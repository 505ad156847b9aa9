"""What a loss is: formulas on the linear predictor z of some rows, never on X; docs/model.md eq. (1)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

LEAST = 1e-40  # of a share or a mean, in logarithms
_MOST_STEPS = 150  # of Newton's method or bisection
KINDS: dict[str, type["Loss"]] = {}  # every loss that has a name


class Loss(ABC):
    """What is asked of a loss; `weight` has one entry per row and holds the 1/n of eq. (1).

    A subclass with a `name` is known to all estimators by it. A loss with a parameter is a frozen dataclass
    that has it as a field. What has a default here serves any smooth convex loss.
    """

    name: ClassVar[str]  # what `loss=` of the estimators calls it
    curvature: float | None = None  # bound on the second derivative in z; None where there is none
    is_quadratic = False  # whether one least-squares model serves the whole fit
    on_residuals = False  # whether it is of y - z alone, so that targets may be shifted and have a unit
    has_classes = False  # whether targets are two classes, and means are probabilities
    has_dual = False  # whether `dual` is known, so that a duality gap is
    targets = "numbers"  # what targets must be, for error messages
    reach = 0.0  # how far beyond the link of its target a row's best z may be

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            KINDS[cls.name] = cls

    @abstractmethod
    def value(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> float:
        """Weighted sum of the rows' losses; never negative, and zero where no prediction can be better."""

    @abstractmethod
    def gradient(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Derivative in z, row by row."""

    @abstractmethod
    def hessian(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Second derivative in z, row by row."""

    def null_intercept(self, y: np.ndarray, weight: np.ndarray) -> float:
        """Best constant prediction on the scale of z."""
        return float(self.null_intercepts(y, weight, np.array([0, len(y)]))[0])

    def mean(self, z: np.ndarray) -> np.ndarray:
        """Expected target at z: the inverse link."""
        return z

    def link(self, y: np.ndarray) -> np.ndarray:
        """The z at which a row's loss is least, up to `reach`."""
        return y

    def is_valid(self, y: np.ndarray) -> np.ndarray:
        """Which targets the loss is defined for."""
        return np.isfinite(y)

    def majorant(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Second derivative, row by row, of a parabola that touches the loss at z and lies above it.

        Where no parabola lies above the loss everywhere, of one that does within a distance of 1 or so.
        """
        if self.curvature is not None:
            return self.curvature * weight
        return np.maximum(self.hessian(y, z - 1.0, weight), self.hessian(y, z + 1.0, weight))

    def shift_range(self, y: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For each row, two shifts of z between which its loss is least."""
        gap = np.abs(self.link(y) - z) + self.reach
        return -gap, gap

    def dual(self, y: np.ndarray, z: np.ndarray, weight: np.ndarray, shrink: float) -> float:
        """Dual value without the penalty's conjugate, at `shrink` times the dual point of z; eq. (9)."""
        return -np.inf

    # -- the same for all tasks and all losses -------------------------------------------------------------

    def for_task(self, label: Any) -> "Loss":
        """The loss of one task: all have this one."""
        return self

    def null_intercepts(self, y: np.ndarray, weight: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Best constant of each task, whose rows are between the offsets."""
        return best_shifts(self, y, np.zeros_like(y), weight, offsets)

    def task_values(
        self, y: np.ndarray, z: np.ndarray, weight: np.ndarray, offsets: np.ndarray
    ) -> np.ndarray:
        """Weighted sum of the losses of each task's rows, which are between the offsets."""
        parts = (slice(lo, hi) for lo, hi in pairwise(offsets))
        return np.array([self.value(y[one], z[one], weight[one]) for one in parts])

    def task_curvatures(self, y: np.ndarray, z: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Bound on the second derivative in z of each task's rows, or its largest value at this z."""
        if self.curvature is not None:
            return np.full(len(offsets) - 1, self.curvature)
        return np.maximum.reduceat(self.hessian(y, z, np.ones_like(z)), offsets[:-1])


def best_shifts(
    loss: Loss, y: np.ndarray, z: np.ndarray, weight: np.ndarray, offsets: np.ndarray, close: float = 1e-10
) -> np.ndarray:
    """The constant of each task whose addition to z lowers the loss of the task's rows the most."""
    starts, sizes = offsets[:-1], np.diff(offsets)
    low, high = loss.shift_range(y, z)

    def slopes(shift: np.ndarray) -> tuple:
        at = y, z + np.repeat(shift, sizes), weight
        return tuple(np.add.reduceat(part(*at), starts) for part in (loss.gradient, loss.hessian))

    bracket = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    return convex_minima(slopes, np.zeros(len(sizes)), close, bracket)


def convex_minima(
    slopes: Callable[[np.ndarray], tuple],
    start: np.ndarray,
    close: float = 1e-10,
    bracket: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Minimise convex functions of one number each, by Newton's method within brackets.

    Parameters
    ----------
    slopes : callable
        First and second derivatives at some numbers.
    start : ndarray
        Where to begin.
    close : float
        Size of the last step.
    bracket : (ndarray, ndarray), optional
        Bounds of the minima. Without them, a step is at most 2.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.objective.losses.loss import convex_minima
    >>> convex_minima(lambda b: (np.exp(b) - [1.0, 100.0], np.exp(b)), np.zeros(2)).round(6)
    array([0.     , 4.60517])
    """
    b, longest = np.array(start, dtype=float), 2.0 if bracket is None else np.inf
    low, high = bracket or (np.full(len(b), -np.inf), np.full(len(b), np.inf))
    for _ in range(_MOST_STEPS):
        first, second = slopes(b)
        low, high = np.where(first < 0.0, b, low), np.where(first > 0.0, b, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = np.where(first == 0.0, 0.0, np.clip(-first / second, -longest, longest))
            outside = (b + step < low) | (b + step > high)
            before, b = b, np.where(outside, 0.5 * (low + high), b + step)
        if np.all(np.abs(b - before) <= close * np.maximum(1.0, np.abs(b))):
            break
    return b


def make_loss(name: str, numbers: Mapping[str, Any]) -> Loss:
    """The loss of a name, with those of the numbers that it has as fields.

    Examples
    --------
    >>> from mmtfl.objective.losses import make_loss
    >>> make_loss("huber", {"delta": 2.0, "another": 3.0})
    Huber(delta=2.0)
    """
    if name not in KINDS:
        near = get_close_matches(str(name), KINDS, n=1)
        meant = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no loss {name!r}: known are {', '.join(map(repr, KINDS))}.{meant}")
    cls = KINDS[name]
    fields = getattr(cls, "__dataclass_fields__", {})
    return cls(**{field: numbers[field] for field in fields if field in numbers})
