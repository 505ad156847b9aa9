"""Curves: natural cubic splines of numeric columns, split into a line and a block beside it; docs/model.md.

A feature keeps its own column, the line. Beside it stand the columns of its curve: natural splines that are
orthogonal, over all rows, to constants and to the line, each scaled by its roughness. Together they are the
whole spline, so that a model chooses for every feature between nothing, a line and a curve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh

if TYPE_CHECKING:
    from mmtfl.tasks.container import Tasks

FEWEST_VALUES = 6  # distinct values of a column that may bend
# Knots where the outer ones leave a twentieth of the rows: extremes do not move them, and beyond them curves
# are straight. Six allow two bends in each direction, and cost four columns.
QUANTILES = np.linspace(0.05, 0.95, 6)
N_COLUMNS = len(QUANTILES) - 1  # of a feature with a curve, its line included
_MOST_ROWS = 1 << 16  # that quantiles are taken of; beyond, evenly spaced ones
_Learned = tuple[float, float, np.ndarray, np.ndarray]  # first knot, width, knots from 0 to 1, combinations
_TINY = 1e-10  # share of the largest variance of a direction below which it is rounding


@dataclass(frozen=True, eq=False)
class CurveBasis:
    """The curve columns of some features: how a value of the feature becomes its columns.

    With u = (x - low) / width, knots at q_1 = 0, ..., q_K = 1 and v = u clipped to [0, 1], a column is the
    combination `weights` of 1, v, min(u, 0), max(u - 1, 0) and the cubes (v - q_k)+^3.

    Attributes
    ----------
    n_features : int
        Number of features, with or without a curve.
    curved : ndarray of int of shape (n_curved,)
        The features that have one.
    low, width : ndarray of shape (n_curved,)
        First knot, and distance of the last one from it.
    knots : ndarray of shape (n_curved, n_knots)
        From 0 to 1; infinite where a column has fewer.
    owner : ndarray of int of shape (n_columns,)
        Position in `curved` of the feature that each curve column belongs to.
    weights : ndarray of shape (n_columns, 4 + n_knots)
        The combination of each column.

    Examples
    --------
    >>> import numpy as np
    >>> basis = learn_basis(np.column_stack([np.arange(100.0), np.arange(100) % 2]))
    >>> basis.curved.tolist(), basis.n_columns
    ([0], 4)
    """

    n_features: int
    curved: np.ndarray
    low: np.ndarray
    width: np.ndarray
    knots: np.ndarray
    owner: np.ndarray
    weights: np.ndarray

    @property
    def n_columns(self) -> int:
        """Number of curve columns, of all features."""
        return len(self.owner)

    @property
    def feature_of_column(self) -> np.ndarray:
        """The feature behind every column of a widened X: the features themselves, then the curve columns."""
        return np.concatenate([np.arange(self.n_features), self.curved[self.owner]])

    def columns(self, X: np.ndarray) -> np.ndarray:
        """The curve columns of rows of X, (n_rows, n_columns)."""
        out = np.empty((len(X), self.n_columns))
        for i, j in enumerate(self.curved):
            out[:, self.owner == i] = self.of_feature(i, np.asarray(X[:, j], dtype=np.float64))
        return out

    def of_feature(self, i: int, values: np.ndarray) -> np.ndarray:
        """The curve columns of the i-th curved feature at some values."""
        return (
            _pieces((values - self.low[i]) / self.width[i], self.knots[i]) @ self.weights[self.owner == i].T
        )

    def widened(self, X: np.ndarray) -> np.ndarray:
        """X with the curve columns behind its own, in the precision of X."""
        return np.hstack([X, self.columns(X).astype(X.dtype)])

    def widened_tasks(self, tasks: Tasks, columns: np.ndarray | None = None) -> Tasks:
        """Tasks with the curve columns behind the features; `columns` are these, where they are known."""
        X, of = tasks.X, self.curved[self.owner]
        names, absent = tasks.feature_names, tasks.absent
        if names is not None:
            names = (*names, *(f"curve of {names[j]}" for j in of))
        if absent is not None:
            absent = np.hstack([absent, absent[:, of]])
        X = self.widened(X) if columns is None else np.hstack([X, columns])
        return replace(tasks, X=X, feature_names=names, absent=absent, curves=self)

    def __post_init__(self) -> None:
        """Check what may come from a file."""
        n, K, m = len(self.curved), self.knots.shape[1], len(self.owner)
        shapes: dict[str, tuple[int, ...]] = {"curved": (n,), "low": (n,), "width": (n,), "knots": (n, K)}
        shapes |= {"owner": (m,), "weights": (m, 4 + K)}
        for name, shape in shapes.items():
            kind = "i" if name in ("curved", "owner") else "f"
            array = getattr(self, name)
            if array.shape != shape or array.dtype.kind != kind:
                raise ValueError(f"{name} of a curve is of a wrong kind or shape")
        for index, end in ((self.curved, self.n_features), (self.owner, n)):
            if type(end) is not int or index.min(initial=0) < 0 or index.max(initial=-1) >= end:
                raise ValueError("a curve belongs to a feature that does not exist")


def learn_basis(
    X: Any, weights: np.ndarray | None = None, among: np.ndarray | None = None
) -> CurveBasis | None:
    """The curves of the columns of X that may bend; None if there are none, or X is sparse.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows of all tasks.
    weights : ndarray of shape (n_rows,), optional
        Their weights; rows of weight zero count as absent.
    among : ndarray of bool of shape (n_features,), optional
        Features that may have a curve; by default all.
    """
    if not isinstance(X, np.ndarray):
        return None
    weights = np.ones(len(X)) if weights is None else weights
    kept = np.flatnonzero(weights > 0.0)
    rows: Any = slice(None) if len(kept) == len(X) else kept
    weights = weights[rows] / weights[rows].sum()
    candidates = range(X.shape[1]) if among is None else np.flatnonzero(among)
    found = {int(j): _learn_column(np.asarray(X[rows, j], dtype=np.float64), weights) for j in candidates}
    curves = {j: one for j, one in found.items() if one is not None}
    if not curves:
        return None
    return _basis(int(X.shape[1]), curves)


def _basis(n_features: int, curves: dict[int, _Learned]) -> CurveBasis:
    """The basis of the columns that were learned, by their positions."""
    low, width, knots, combinations = zip(*curves.values(), strict=True)
    return CurveBasis(
        n_features=n_features,
        curved=np.array(list(curves), dtype=np.intp),
        low=np.array(low),
        width=np.array(width),
        knots=np.array(knots),
        owner=np.repeat(np.arange(len(curves)), [len(one) for one in combinations]),
        weights=np.concatenate(combinations),
    )


def _learn_column(x: np.ndarray, weight: np.ndarray) -> _Learned | None:
    """First knot, width, knots from 0 to 1 and combinations of one column's curve; None for a line."""
    at = _knots(x, weight)
    if len(at) < 3:
        return None
    width = float(at[-1] - at[0])
    if not (np.isfinite(width) and np.isfinite((x - at[0]) / width).all()):
        return None
    return _learn_splines(x, natural_splines(x, at), weight, at)


def _learn_splines(x: np.ndarray, values: np.ndarray, weight: np.ndarray, at: np.ndarray) -> _Learned | None:
    """The curve of a column x with these knots, whose natural splines have these values."""
    low, width, knots = _from_0_to_1(at)
    u = (x - low) / width
    combinations = _orthogonal_to_line(u, weight, knots, _natural(knots[: len(at)], len(QUANTILES)), values)
    if not len(combinations):
        return None
    spread = np.sqrt(weight @ (u - weight @ u) ** 2) * width
    return low, width, knots, spread * combinations


def _from_0_to_1(at: np.ndarray) -> tuple[float, float, np.ndarray]:
    """First knot, width, and knots from 0 to 1, infinite where there are fewer than usual."""
    low, width = float(at[0]), float(at[-1] - at[0])
    return low, width, np.append((at - low) / width, np.full(len(QUANTILES) - len(at), np.inf))


def natural_splines(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The natural splines with these knots beside constant and line, (n_rows, n_knots - 2).

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.curve_basis import natural_splines
    >>> natural_splines(np.array([0.0, 5.0, 10.0, 12.0]), np.array([0.0, 5.0, 10.0])).round(2).ravel()
    array([0. , 0.12, 0.75, 1.05])
    """
    low, width, knots = _from_0_to_1(np.asarray(at, dtype=float))
    return _pieces((x - low) / width, knots) @ _natural(knots[: len(at)], len(QUANTILES)).T


def basis_of_splines(
    X: np.ndarray,
    splines: np.ndarray,
    weights: np.ndarray,
    knots: dict[int, np.ndarray],
    among: np.ndarray | None = None,
) -> tuple[CurveBasis, np.ndarray] | None:
    """The curves of columns whose natural splines are known, but whose rows are not, and their curve columns.

    All is linear in the splines, so that rows with the moments of others give the basis of those.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows of all tasks.
    splines : ndarray of shape (n_rows, n_splines)
        Natural splines of the columns that have knots, one after the other.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    knots : dict of int to ndarray
        By the position of the column.
    among : ndarray of bool of shape (n_features,), optional
        Features that may have a curve; by default all that have knots.
    """
    weights, curves, columns, done = weights / weights.sum(), {}, [], 0
    for j, at in knots.items():
        values = splines[:, done : done + len(at) - 2]
        done += len(at) - 2
        wanted = among is None or among[j]
        found = _learn_splines(X[:, j], values, weights, at) if wanted else None
        if found is not None:
            curves[j] = found
            columns.append(_combined(X[:, j], values, *found))
    return (_basis(X.shape[1], curves), np.column_stack(columns)) if curves else None


def _combined(
    x: np.ndarray, values: np.ndarray, low: float, width: float, knots: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Curve columns from the splines that they combine; the first cube of each tells how much of it."""
    n = values.shape[1]
    of_spline = weights[:, 4 : 4 + n] * (1.0 - knots[:n])
    return weights[:, 0] + np.outer((x - low) / width, weights[:, 1]) + values @ of_spline.T


def _knots(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Knots at quantiles of the rows; of the distinct values, where too many rows have the same."""
    if len(x) > _MOST_ROWS:
        some = np.linspace(0, len(x) - 1, _MOST_ROWS).astype(np.intp)
        x, weight = x[some], weight[some]
    values, place = np.unique(x, return_inverse=True)
    if len(values) < FEWEST_VALUES:
        return values[:0]
    for mass in (np.bincount(place, weight), np.ones(len(values))):
        reached = np.cumsum(mass)
        wanted = (QUANTILES * reached[-1]) * (1.0 - 1e-12)
        at = np.unique(values[np.minimum(np.searchsorted(reached, wanted), len(values) - 1)])
        if len(at) >= 4:
            break
    return at


def _pieces(u: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """1, v, min(u, 0), max(u - 1, 0) and the cubes (v - q_k)+^3, where v is u clipped to [0, 1]."""
    v = np.clip(u, 0.0, 1.0)
    cubes = np.maximum(v[:, None] - knots, 0.0) ** 3
    return np.column_stack([np.ones_like(u), v, np.minimum(u, 0.0), np.maximum(u - 1.0, 0.0), cubes])


def _natural(knots: np.ndarray, n_places: int) -> np.ndarray:
    """The natural splines beside constant and line, (n_knots - 2, 4 + n_places), as combinations of pieces.

    They are (v - q_k)+^3 / (1 - q_k) less the same of the last inner knot, which has no curvature at 1.
    """
    n = len(knots) - 2
    out, last = np.zeros((n, 4 + n_places)), len(knots) - 2
    rest = 1.0 - knots[:-1]
    out[np.arange(n), 4 + np.arange(n)] = 1.0 / rest[:n]
    out[:, 4 + last] -= 1.0 / rest[last]
    out[:, 3] = 3.0 * (rest[:n] - rest[last])  # the slope at 1, with which they go on
    return out


def _orthogonal_to_line(
    u: np.ndarray, weight: np.ndarray, knots: np.ndarray, splines: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Combinations of the splines that are orthogonal to constant and line, and to each other, over the rows.

    They diagonalise roughness, the integral of the squared second derivative, against variance: the rougher
    a direction, the smaller its column, so that a penalty on coefficients is one on roughness. Their mean
    variance is 1, so that noise alone enters a block as easily as it enters a line.
    """
    centre = float(weight @ u)
    slope = (weight * (u - centre)) @ values / (weight @ (u - centre) ** 2)
    level = weight @ values
    rest = values - level - np.outer(u - centre, slope)
    gram = rest.T @ (weight[:, None] * rest)
    size = np.sqrt(np.diag(gram))
    sound = size > 0.0
    if not sound.any():
        return np.empty((0, splines.shape[1]))
    line = np.zeros_like(splines)
    line[:, 0], line[:, 1:4] = level - centre * slope, slope[:, None]
    splines = ((splines - line) / np.where(sound, size, 1.0)[:, None])[sound]
    gram = (gram / np.outer(size, size))[np.ix_(sound, sound)]
    variance, turn = np.linalg.eigh(gram)
    turn = turn[:, variance > _TINY * variance[-1]] / np.sqrt(variance[variance > _TINY * variance[-1]])
    splines = turn.T @ splines
    roughness, turn = eigh(_roughness(knots, splines))
    size = np.maximum(roughness, _TINY * roughness[-1]) ** -0.5
    size /= np.sqrt(np.mean(size**2))
    signs = np.where(turn[np.argmax(np.abs(turn), axis=0), np.arange(turn.shape[1])] < 0.0, -1.0, 1.0)
    return (size * signs)[:, None] * (turn.T @ splines)


def _roughness(knots: np.ndarray, splines: np.ndarray) -> np.ndarray:
    """Integrals of products of the splines' second derivatives, which are linear between knots."""
    at = knots[np.isfinite(knots)]
    bend = 6.0 * np.maximum(at[:, None] - at, 0.0) @ splines[:, 4 : 4 + len(at)].T  # (n_knots, n_splines)
    left, right, gap = bend[:-1], bend[1:], np.diff(at)[:, None]
    middle = left + right
    return (left.T @ (gap * left) + right.T @ (gap * right) + middle.T @ (gap * middle)) / 6.0
