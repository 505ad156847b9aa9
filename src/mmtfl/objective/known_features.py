"""What is known of the features before a fit: weights, signs and groups of rows; docs/model.md section 11."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mmtfl.tasks.curve_basis import CurveBasis

_SMALLEST, _LARGEST = 1e-100, 1e100  # scales beyond these are zero, or infinite


@dataclass(frozen=True, eq=False)
class KnownFeatures:
    """Scales of the entries of A, rows that are not negative, and rows that share one c.

    Attributes
    ----------
    scale : ndarray (n_features, n_tasks)
        The penalty sees ``scale * A``; eq. (14). At 0 an entry is free of penalty, at inf it is zero.
    positive : ndarray of bool (n_features,)
        Rows whose entries are not negative.
    groups : ndarray of int (n_features,), or None
        The group of every row; None: each for itself.
    sizes : ndarray (n_features,), or None
        How many rows each row's group has: more than are here, if those that are zero are left out.
    power : float
        The scales are weights to the power 1 / power; at 1 they are the weights themselves.

    Examples
    --------
    >>> import numpy as np
    >>> known = KnownFeatures(np.array([[1.0, 4.0], [0.0, np.inf]]), np.array([False, True]))
    >>> known.measured(np.array([[2.0, 2.0], [3.0, 0.0]]))
    array([[2., 8.],
           [0., 0.]])
    >>> known.for_power(2.0).scale
    array([[ 1.,  2.],
           [ 0., inf]])
    """

    scale: np.ndarray
    positive: np.ndarray
    groups: np.ndarray | None = None
    power: float = 1.0
    sizes: np.ndarray | None = None

    def with_curves(self, basis: "CurveBasis", *, grouped: bool) -> "KnownFeatures":
        """The same of lines and curve columns: a curve has the weight of its line, and is one group."""
        of = basis.curved[basis.owner]
        n, groups = len(self.scale), self.groups
        if grouped:
            groups = np.arange(n) if groups is None else self.group_index
            groups = np.concatenate([groups, n + basis.owner])
        scale = np.concatenate([self.scale, self.scale[of]])
        return replace(self, scale=scale, positive=np.append(self.positive, self.positive[of]), groups=groups)

    def may_bend(self) -> np.ndarray:
        """Rows that may have a curve: those without a sign, a group of several, or a weight of 0 or inf."""
        alone = np.ones(len(self.scale), dtype=bool) if self.groups is None else self.group_sizes == 1
        return alone & ~self.positive & np.all((self.scale > 0.0) & np.isfinite(self.scale), axis=1)

    def for_power(self, power: float) -> "KnownFeatures":
        """The same weights as scales of a penalty that grows with this power of a row's norm; eq. (14)."""
        if power == self.power:
            return self
        with np.errstate(over="ignore", under="ignore"):
            scale = self.scale ** (self.power / power)
        scale = np.where(scale < _SMALLEST, 0.0, np.where(scale > _LARGEST, np.inf, scale))
        return replace(self, scale=scale, power=power)

    def of_rows(self, index: np.ndarray) -> "KnownFeatures":
        """What is known of some rows; those of their groups that are left out are zero."""
        part = replace(self, scale=self.scale[index], positive=self.positive[index])
        if self.groups is None:
            return part
        return replace(part, groups=self.groups[index], sizes=self.group_sizes[index])

    def of_tasks(self, index: np.ndarray) -> "KnownFeatures":
        """What is known of the features in some tasks."""
        return replace(self, scale=self.scale[:, index])

    def rescaled(self, factor: np.ndarray) -> "KnownFeatures":
        """The same for rows measured in other units: A = factor * A_new."""
        return replace(self, scale=self.scale * factor[:, None])

    def without_groups(self) -> "KnownFeatures | None":
        """The same without groups; None if nothing is left."""
        return replace(self, groups=None, sizes=None) if self.shapes_entries else None

    def only_free(self) -> "KnownFeatures":
        """The same without any entry that is penalised."""
        return replace(self, scale=np.where(self.scale > 0.0, np.inf, 0.0), groups=None, sizes=None)

    @cached_property
    def shapes_entries(self) -> bool:
        """Whether some entry has a scale other than one, or a sign."""
        return bool(np.any(self.scale != 1.0) or self.positive.any())

    @cached_property
    def _measure(self) -> np.ndarray:
        return np.where(np.isinf(self.scale), 0.0, self.scale)

    @cached_property
    def free_rows(self) -> np.ndarray:
        """Rows with an entry that is free of penalty."""
        return np.any(self.scale == 0.0, axis=1)

    # -- A and its slopes as the penalty sees them -----------------------------------------------------------

    def measured(self, A: np.ndarray) -> np.ndarray:
        """A as the penalty sees it: scaled, and without what is free."""
        return A * self._measure

    def slopes(self, G: np.ndarray) -> np.ndarray:
        """The gradient at penalised entries, in their units, without what a sign constraint blocks."""
        G = np.where(self.positive[:, None], np.minimum(G, 0.0), G)
        return np.divide(G, self._measure, out=np.zeros_like(G), where=self._measure > 0.0)

    def allows(self, A: np.ndarray) -> bool:
        """Whether A is zero where it has to be, and has no forbidden sign."""
        return not (A[np.isinf(self.scale)].any() or (A[self.positive] < 0.0).any())

    def feasible(self, A: np.ndarray) -> np.ndarray:
        """Project A on what the signs and infinite weights allow."""
        A = np.where(np.isinf(self.scale), 0.0, A)
        return np.where(self.positive[:, None], np.maximum(A, 0.0), A)

    # -- groups ----------------------------------------------------------------------------------------------

    @cached_property
    def group_index(self) -> np.ndarray:
        """The group of each row, numbered from zero."""
        assert self.groups is not None
        return np.unique(self.groups, return_inverse=True)[1]

    @cached_property
    def group_sizes(self) -> np.ndarray:
        """Number of rows of each row's group."""
        return np.bincount(self.group_index)[self.group_index] if self.sizes is None else self.sizes

    def over_groups(self, norms: np.ndarray, p: float) -> np.ndarray:
        """The mean of order p of the rows' norms in each group, for each of its rows; eq. (15)."""
        if self.groups is None:
            return norms
        index = self.group_index
        largest = np.zeros(index.max(initial=-1) + 1)
        np.maximum.at(largest, index, norms)
        if math.isinf(p):
            return largest[index]
        unit = np.divide(norms, largest[index], out=np.zeros_like(norms), where=norms > 0.0)
        mean = np.bincount(index, unit**p)[index] / self.group_sizes
        return largest[index] * mean ** (1.0 / p)

    def bound_of_blocks(self, curvature: np.ndarray) -> np.ndarray:
        """The sum of the curvatures of a group's rows, which bounds that of the group in every task."""
        index = self.group_index
        return np.column_stack([np.bincount(index, column)[index] for column in curvature.T])

    def whole(self, chosen: np.ndarray) -> np.ndarray:
        """A mask of rows, extended to all rows of their groups."""
        if self.groups is None:
            return chosen
        hit = np.bincount(self.group_index, chosen) > 0
        return hit[self.group_index]


def check_pooling(p: float, pooling: float, known: KnownFeatures | None) -> None:
    """Refuse a pooling that is out of range, or does not go with p or with what is known."""
    if not 0.0 <= pooling < 1.0:
        raise ValueError(f"pooling must be at least 0 and below 1, got {pooling!r}. Try 0.5 or 0.9.")
    if pooling > 0.0 and p not in (1.0, 2.0):
        raise ValueError(f"pooling needs p = 1 or p = 2, got p={p:g}: for other p use pooling=0.")
    if pooling > 0.0 and known is not None and known.positive.any():
        raise ValueError("pooling goes with groups and weights of features, not with signs. Use pooling=0.")
