"""What every solver returns: a solution, or those along a path of strengths."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Solution:
    """A stationary point of the objective, and how it was reached.

    Attributes
    ----------
    A : ndarray (n_features, n_tasks)
        Coefficients, in the units the penalty sees.
    intercept : ndarray (n_tasks,)
        Intercept of each task.
    objective : float
        Value of eq. (2) at (A, intercept).
    violation : float
        Distance to stationarity, eq. (8), as a share of the largest gradient entry at A = 0.
    dual_gap : float or None
        Upper bound on objective - minimum; None for the concave members, which have no dual.
    n_iter : int
        Passes over the data.
    history : ndarray
        Objective after each pass.
    converged : bool
        Whether violation (and dual gap) came below the tolerance.
    solver : str
        The solver that found it.
    """

    A: np.ndarray
    intercept: np.ndarray
    objective: float
    violation: float
    dual_gap: float | None
    n_iter: int
    history: np.ndarray = field(repr=False)
    converged: bool
    solver: str


@dataclass(frozen=True, eq=False)
class AdditiveSolution(Solution):
    """A minimum of the additive objective: ``A = shared + specific``.

    Attributes
    ----------
    shared, specific : ndarray (n_features, n_tasks)
        P and Q, in the units the penalties see.
    loss : float
        The objective without the penalties.
    """

    shared: np.ndarray
    specific: np.ndarray
    loss: float


# -- along a path of strengths ---------------------------------------------------------------------------

_PATH_ARRAYS = (
    *("alphas", "n_kept", "features", "values", "intercepts"),
    *("objectives", "violations", "converged"),
)
_PATH_SCALES = ("column_scale", "target_scale")


@dataclass(frozen=True)
class Path:
    """Coefficients at every alpha, the kept rows only.

    Attributes
    ----------
    alphas : ndarray (n_alphas,)
        Strengths, largest first.
    features : list of ndarray
        Features kept at each alpha.
    values : list of ndarray (n_kept, n_tasks)
        Their coefficients.
    intercepts : ndarray (n_alphas, n_tasks)
        Intercepts.
    objectives, violations : ndarray (n_alphas,)
        Objective reached, and distance to stationarity.
    converged : ndarray (n_alphas,)
        Whether the solver came within its tolerance.
    n_features : int
        Number of features of the model.
    column_scale : ndarray (n_features,), or None
        What the columns of X were divided by before the penalty saw them; the coefficients are in units of X.
    target_scale : ndarray (n_tasks,), or None
        What the targets were divided by.
    losses : ndarray (n_alphas,), or None
        The objective without the penalty, in the units of the problem; not kept in files.
    """

    alphas: np.ndarray
    features: list[np.ndarray]
    values: list[np.ndarray]
    intercepts: np.ndarray
    objectives: np.ndarray
    violations: np.ndarray
    converged: np.ndarray
    n_features: int
    column_scale: np.ndarray | None = None
    target_scale: np.ndarray | None = None
    losses: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.alphas)

    @property
    def n_kept(self) -> np.ndarray:
        """Number of features kept at each alpha."""
        return np.array([len(kept) for kept in self.features])

    def coef(self, i: int) -> np.ndarray:
        """Coefficients (n_tasks, n_features) at the i-th alpha."""
        out = np.zeros((self.intercepts.shape[1], self.n_features))
        out[:, self.features[i]] = self.values[i].T
        return out

    def penalised(self, i: int) -> np.ndarray:
        """Coefficients (n_kept, n_tasks) at the i-th alpha, on the scale that the penalty saw."""
        rows = self.values[i]
        rows = rows if self.column_scale is None else rows * self.column_scale[self.features[i], None]
        return rows if self.target_scale is None else rows / self.target_scale

    def as_dict(self) -> dict[str, Any]:
        """The path as a few arrays: the kept rows of all alphas, one below the other."""
        parts = {name: getattr(self, name) for name in (*_PATH_ARRAYS, "n_features", *_PATH_SCALES)}
        parts["features"] = np.concatenate([np.empty(0, dtype=np.intp), *self.features])
        parts["values"] = np.concatenate([np.empty((0, self.intercepts.shape[1])), *self.values])
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def from_dict(cls, parts: dict[str, Any]) -> "Path":
        """The path of `as_dict`, checked: it may come from a file."""
        kinds = {"n_kept": "i", "features": "i", "converged": "b"}
        parts, n_features = dict(parts), parts["n_features"]
        known = {name: parts.pop(name) for name in _PATH_SCALES if name in parts}
        arrays = {name: parts[name] for name in _PATH_ARRAYS}
        n_alphas, n_tasks = arrays["intercepts"].shape
        total = int(arrays["n_kept"].sum())
        shapes = {"features": (total,), "values": (total, n_tasks), "intercepts": (n_alphas, n_tasks)}
        shapes |= {"column_scale": (n_features,), "target_scale": (n_tasks,)}
        for name, array in (arrays | known).items():
            if array.dtype.kind != kinds.get(name, "f") or array.shape != shapes.get(name, (n_alphas,)):
                raise ValueError(f"{name} of a path is of a wrong kind or shape")
        features, n_kept = arrays.pop("features"), arrays.pop("n_kept")
        if type(n_features) is not int or len(parts) != len(_PATH_ARRAYS) + 1 or n_alphas == 0:
            raise ValueError("a path has parts that do not belong to it")
        if min(features.min(initial=0), n_kept.min()) < 0 or features.max(initial=-1) >= n_features:
            raise ValueError("a path keeps features that do not exist")
        ends = np.cumsum(n_kept)[:-1]
        values = np.split(arrays.pop("values"), ends)
        return cls(features=np.split(features, ends), values=values, n_features=n_features, **arrays, **known)

    def scaled(self, column_scale: np.ndarray | None, target_scale: np.ndarray | None) -> "Path":
        """The same path in the units of X and y as they were given."""
        values, intercepts = self.values, self.intercepts
        if column_scale is not None:
            kept = zip(values, self.features, strict=True)
            values = [rows / column_scale[index, None] for rows, index in kept]
        if target_scale is not None:
            values, intercepts = [rows * target_scale for rows in values], intercepts * target_scale
        scales: dict[str, Any] = {"column_scale": column_scale, "target_scale": target_scale, "losses": None}
        return replace(self, values=values, intercepts=intercepts, **scales)

    def lines(self, n_features: int) -> "Path":
        """The same path of the first features alone: the columns of their curves are left out."""
        if n_features == self.n_features:
            return self
        own, both = [index < n_features for index in self.features], (self.features, self.values)
        features, values = ([part[kept] for part, kept in zip(parts, own, strict=True)] for parts in both)
        scale = None if self.column_scale is None else self.column_scale[:n_features]
        return replace(self, features=features, values=values, n_features=n_features, column_scale=scale)

    def without(self, absent: np.ndarray | None) -> "Path":
        """The same path with zeros for features that tasks (n_tasks, n_features) do not have."""
        if absent is None:
            return self
        kept = zip(self.values, self.features, strict=True)
        return replace(self, values=[np.where(absent.T[index], 0.0, rows) for rows, index in kept])
