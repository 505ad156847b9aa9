"""A model at pairs of two strengths, which are solved one after the other on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mmtfl.model_selection.cross_validation import Linear
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.solvers.path import Paths
from mmtfl.solvers.solution import Solution


@dataclass(frozen=True)
class StrengthPairs:
    """A model at the pairs of a grid of strengths, the largest first.

    Attributes
    ----------
    model : TaskModel
        With two strengths.
    strengths : tuple of two ndarrays
        Their values, the largest first.
    known : KnownFeatures or None
        What is known of the features.
    size : tuple of two int, or None
        How many values of each strength are tried; None: all of them.
    without : tuple of two int
        As many of each were tried before.
    borders : dict
        For each fold the solutions from which weaker pairs start.
    """

    model: Any
    strengths: tuple[np.ndarray, np.ndarray]
    known: KnownFeatures | None = None
    size: tuple[int, int] | None = None
    without: tuple[int, int] = (0, 0)
    borders: dict[int, dict[tuple[int, int], Solution]] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of values of each strength."""
        return self.strengths[0].size, self.strengths[1].size

    @property
    def effort(self) -> tuple:
        """Sort key by expected computing time."""
        return (len(self.pairs()),)

    def grown(self, size: tuple[int, int]) -> StrengthPairs:
        """The pairs that a grid of this size adds to the pairs tried so far."""
        return replace(self, size=size, without=(0, 0) if self.size is None else self.size)

    def pairs(self) -> np.ndarray:
        """Positions of the pairs in the grid, (n_pairs, 2), row by row."""
        i, j = np.indices(self.size or self.shape)
        return np.argwhere((i >= self.without[0]) | (j >= self.without[1]))

    def columns(self) -> dict[str, np.ndarray]:
        """The two strengths by name."""
        values = (part[at] for part, at in zip(self.strengths, self.pairs().T, strict=True))
        return dict(zip(self.model.strength_names, values, strict=True))

    def solve(
        self, paths: Paths, fold: int, *, report: Callable[[float], None] | None = None, **options: Any
    ) -> Iterator[Linear]:
        """Coefficients and intercepts at all pairs, each solved from its neighbours in both strengths."""
        grid, (first, second) = self.model._grid(paths.problem, paths.known_here(self.known)), self.strengths
        (n, m), goes_on = self.size or self.shape, (self.size or self.shape)[1] < self.shape[1]
        found, pairs = self.borders.pop(fold, {}), self.pairs().tolist()
        for done, (i, j) in enumerate(pairs, start=1):
            starts = [found[at] for at in ((i, j - 1), (i - 1, j)) if at in found]
            found[i, j] = solution = grid.solve(float(first[i]), float(second[j]), starts, **options)
            if not (goes_on and j == m - 1):
                found.pop((i - 1, j), None)  # both pairs that start from it are solved
            kept = np.flatnonzero(solution.A.any(axis=1))
            loss = paths.problem.loss_value(paths.problem.predict(solution.A, solution.intercept))
            yield Linear(kept, solution.A[kept], solution.intercept, loss)
            if report is not None:
                report(done / len(pairs))
        if (n, m) != self.shape:
            self.borders[fold] = {at: found[at] for at in found if at[0] == n - 1 or at[1] == m - 1}
