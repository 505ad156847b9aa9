"""Curves of numeric columns: cubic B-splines with knots at quantiles, straight beyond the last knots."""

from __future__ import annotations

import numpy as np

from mmtfl.tables.reading import TableError

N_KNOTS = 5
DEGREE = 3
FEWEST_VALUES = 8  # different values of a column that may become a curve


def learn_knots(values: np.ndarray, name: str) -> tuple[float, ...]:
    """Knots of a column, at quantiles of its values, the smallest and the largest among them.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.splines import learn_knots
    >>> learn_knots(np.arange(101.0), "age")
    (0.0, 25.0, 50.0, 75.0, 100.0)
    """
    known = values[np.isfinite(values)]
    if len(np.unique(known)) < FEWEST_VALUES:
        raise TableError(
            f"Column {name!r} has {len(np.unique(known))} different values, too few for a curve: leave it "
            "out of --splines, or use --categories."
        )
    knots = np.unique(np.quantile(known, np.linspace(0.0, 1.0, N_KNOTS)))
    if len(knots) < 3:  # one value holds nearly all rows
        knots = np.unique(np.quantile(np.unique(known), np.linspace(0.0, 1.0, N_KNOTS)))
    return tuple(float(knot) for knot in knots)


def n_functions(knots: tuple[float, ...]) -> int:
    """Number of functions of the basis; a constant is not among them."""
    return len(knots) + DEGREE - 2


def spline_basis(values: np.ndarray, knots: tuple[float, ...]) -> np.ndarray:
    """The basis at some values, (n_values, n_functions): a straight line where it leaves the knots.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.splines import spline_basis
    >>> basis = spline_basis(np.array([0.0, 5.0, 10.0, 11.0, 12.0]), (0.0, 5.0, 10.0))
    >>> basis.shape, bool(np.allclose(basis[4] - basis[3], basis[3] - basis[2]))
    ((5, 4), True)
    """
    from sklearn.preprocessing import SplineTransformer

    at = np.array(knots)[:, None]
    curve = SplineTransformer(degree=DEGREE, knots=at, extrapolation="linear", include_bias=False)
    known = np.isfinite(values)
    basis = np.full((len(values), n_functions(knots)), np.nan)
    if known.any():
        basis[known] = curve.fit(at).transform(np.asarray(values, dtype=float)[known, None])
    return basis
