"""A penalty on rows as one task alone may see it: a sum over entries that lies above it."""

from typing import NamedTuple

import numpy as np


class EntryPenalty(NamedTuple):
    """sum_jt psi_j(a_jt) with psi(a) = min over s + q = a of w |s|^p + eps |q|; at p = inf, |s| <= w is free.

    Attributes
    ----------
    p : float
        Exponent of the first part.
    weight, eps : ndarray (n_rows,)
        w and eps of every row; where eps is inf there is no second part.
    """

    p: float
    weight: np.ndarray
    eps: np.ndarray

    @property
    def limit(self) -> np.ndarray:
        """The size of an entry from which on the second part is used, by row."""
        if np.isinf(self.p):
            return self.weight
        if self.p == 1.0:
            return np.where(self.weight > self.eps, 0.0, np.inf)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            limit = (self.eps / (self.p * self.weight)) ** (1.0 / (self.p - 1.0))
        return np.where(np.isinf(self.eps), np.inf, limit)
