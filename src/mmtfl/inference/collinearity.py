"""Features that others explain: of these there is no effect that could be told apart."""

from __future__ import annotations

import numpy as np

from mmtfl.inference.row_moments import Pooled, inverse_scatter

_MOST_OTHERS = 10  # by which a feature is explained, where rows are few
_FEW_STEPS, _HOPELESS = 4, 0.4  # a feature of which four others leave that much is told apart


def explained_by(pooled: Pooled, *, share: float = 0.9999, most: int = _MOST_OTHERS) -> dict[int, list[int]]:
    """The features of which the others explain more than a share within tasks, and by which others.

    With many rows for each feature all others may explain one; with few, up to ``most`` of them.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 4))
    >>> X[:, 2] = X[:, 0] + X[:, 1]
    >>> explained_by(Pooled(np.corrcoef(X.T), X.std(axis=0), 199.0))
    {0: [1, 2], 1: [0, 2], 2: [0, 1]}
    """
    R = pooled.correlation
    varies = pooled.varies
    if np.count_nonzero(varies) < 2:
        return {}
    many_rows = pooled.rows > 2.0 * varies.sum() and not _lacks_rank(R, varies)
    suspects = _suspects(R, varies, 1.0 - share) if many_rows else varies
    found = {}
    for j in np.flatnonzero(suspects).tolist():
        others = _forward(R, j, varies, left=1.0 - share, most=int(min(most, pooled.rows / 4.0)))
        if others is None and many_rows:
            others = _forward(R, j, varies, left=1.0 - share, most=int(varies.sum()) - 1)
        if others is not None:
            found[j] = sorted(others)
    return found


def _lacks_rank(R: np.ndarray, varies: np.ndarray) -> bool:
    """Whether tasks repeat few rows, as columns of y do: then all features together explain any of them."""
    n = int(varies.sum())
    return n > _MOST_OTHERS and np.linalg.matrix_rank(R[np.ix_(varies, varies)], hermitian=True) < 0.8 * n


def _suspects(R: np.ndarray, varies: np.ndarray, left: float) -> np.ndarray:
    """Features whose share that all others leave is small."""
    kept = np.flatnonzero(varies)
    own = R[np.ix_(kept, kept)].copy()
    own.flat[:: len(kept) + 1] += 1e-9
    out = np.zeros(len(varies), dtype=bool)
    out[kept] = 1.0 / np.diag(inverse_scatter(own)) < left
    return out


def _forward(R: np.ndarray, j: int, varies: np.ndarray, *, left: float, most: int) -> list[int] | None:
    """Forward selection of features that leave less than ``left`` of feature j; None if there are none."""
    own, square = R[j].copy(), np.diag(R).copy()
    free, chosen, basis = varies.copy(), [], np.empty((0, len(R)))
    free[j] = False
    for step in range(most):
        usable = free & (square > 1e-8)
        gain = np.where(usable, own**2 / np.where(usable, square, 1.0), 0.0)
        k = int(np.argmax(gain))
        if gain[k] <= 1e-12 or (step >= _FEW_STEPS and own[j] > _HOPELESS * R[j, j] and most <= _MOST_OTHERS):
            return None
        column = (R[k] - basis[:, k] @ basis) / np.sqrt(square[k])
        basis = np.vstack([basis, column])
        own, square, free[k] = own - column[j] * column, square - column**2, False
        chosen.append(k)
        if own[j] < left * R[j, j]:
            return _needed(R, j, chosen, left)
    return None


def _needed(R: np.ndarray, j: int, chosen: list[int], left: float) -> list[int]:
    """Those of the chosen features without which the others would not explain feature j."""
    kept = list(chosen)
    for k in chosen:
        others = [one for one in kept if one != k]
        if others and _left_by(R, j, others) < left * R[j, j]:
            kept = others
    return kept


def _left_by(R: np.ndarray, j: int, others: list[int]) -> float:
    own = R[np.ix_(others, others)]
    return float(R[j, j] - R[j, others] @ np.linalg.lstsq(own, R[others, j], rcond=1e-10)[0])
