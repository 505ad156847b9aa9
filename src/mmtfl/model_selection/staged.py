"""A search in stages: a coarse grid of strengths for all members, then a fine one where the best may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mmtfl.model_selection.cross_validation import FoldScores, ListScores, MemberPath, choose

Gap = tuple[int, int, int]  # a member, and two neighbours among the strengths tried for it

_COARSE = 12  # parts of a grid in the first stage
_CURVED = 0.25  # how far scores between two strengths may rise above both, in units of the second difference


def staged_scores(
    score: Callable[..., FoldScores], paths: Sequence[Any], selection: str
) -> tuple[list[MemberPath], FoldScores]:
    """The strengths of every member that were tried, and their scores.

    Scores along a path are smooth: between two neighbours of the coarse grid they rise above both by an
    eighth of the second difference there. Twice that is allowed for, and every gap in which a score could
    then be above the best one is tried in full. A member without such a gap is out of the race.

    Parameters
    ----------
    score : callable
        Scores lists of candidates on every fold; see `fold_scores`.
    paths : list of MemberPath
        All members with all strengths.
    selection : {"best", "one_se"}
        What the choice will be by.
    """
    coarse = [_coarse(len(path.alphas)) for path in paths]
    first = score([path.part(index) for path, index in zip(paths, coarse, strict=True)], keep_models=True)
    tried = [_Tried(index, found) for index, found in zip(coarse, first.found, strict=True)]
    n_stages = 1
    while gaps := list(_gaps(tried, coarse, selection)):
        n_stages += 1
        parts = [_between(paths[m], first, m, coarse[m], low, high) for m, low, high in gaps]
        found = score(parts, stage=f"stage {n_stages}: ").found
        for (m, low, high), part in zip(gaps, found, strict=True):
            tried[m].add(np.arange(low + 1, high), part)
    return [path.part(one.index) for path, one in zip(paths, tried, strict=True)], FoldScores(
        [one.found for one in tried]
    )


def _coarse(n: int) -> np.ndarray:
    return np.unique([*range(0, n, max(1, n // _COARSE)), n - 1])


def _between(
    path: MemberPath, first: FoldScores, m: int, coarse: np.ndarray, low: int, high: int
) -> MemberPath:
    """A member at all strengths of a gap, from its end at which paths of the member begin."""
    before = low if path.member.is_convex else high
    starts = first.starts(m, int(np.searchsorted(coarse, before)))
    return path.part(np.arange(low + 1, high), starts)


class _Tried:
    """The strengths of a member that were tried, by their places in its grid, and what was found there."""

    def __init__(self, index: np.ndarray, found: list[ListScores]):
        self.index, self.found = index, found

    def add(self, index: np.ndarray, found: list[ListScores]) -> None:
        """Add what was found at other places."""
        order = np.argsort([*self.index, *index])
        self.index = np.concatenate([self.index, index])[order]
        self.found = [
            {name: np.concatenate([old[name], new[name]])[order] for name in ("scores", "by_task")}
            for old, new in zip(self.found, found, strict=True)
        ]

    @property
    def scores(self) -> np.ndarray:
        return np.column_stack([fold["scores"] for fold in self.found])


def _gaps(tried: Sequence[_Tried], coarse: Sequence[np.ndarray], selection: str) -> Iterator[Gap]:
    """Gaps between strengths tried so far in which the choice may be."""
    scores = [one.scores for one in tried]
    means = [np.nan_to_num(part.mean(axis=1), nan=-np.inf) for part in scores]
    best = max(float(mean.max()) for mean in means)
    wanted = set()
    for m, (one, mean) in enumerate(zip(tried, means, strict=True)):
        at = mean[np.searchsorted(one.index, coarse[m])]
        hopeful = np.flatnonzero(_highest_between(at) >= best)
        wanted |= {(m, int(coarse[m][i]), int(coarse[m][i + 1])) for i in hopeful}
    if selection == "one_se" and np.isfinite(best):
        m, i = choose(scores, selection)
        if i > 0:  # the strongest that is good enough may be just before the one found
            wanted.add((m, int(tried[m].index[i - 1]), int(tried[m].index[i])))
    for m, low, high in sorted(wanted):
        if not np.isin(np.arange(low + 1, high), tried[m].index).any() and high > low + 1:
            yield m, low, high


def _highest_between(mean: np.ndarray) -> np.ndarray:
    """How high scores may be between neighbours on the coarse grid."""
    ends = np.maximum(mean[:-1], mean[1:])
    if len(mean) < 3:
        return np.full(len(ends), np.inf)
    with np.errstate(invalid="ignore"):  # a score that is not defined is minus infinity
        bend = np.abs(np.diff(mean, 2))
        bend = np.concatenate([bend[:1], bend, bend[-1:]])
        return ends + _CURVED * np.nan_to_num(np.fmax(bend[:-1], bend[1:]), nan=np.inf, posinf=np.inf)
