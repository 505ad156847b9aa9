"""A search in stages: a coarse grid of strengths for all members, then a fine one where the best may be.

The coarse grid is scored on a few folds at a time, its larger strengths first. Members that have lost are not
tried on the other folds, and smaller strengths not where scores have passed their peak.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mmtfl.model_selection.cross_validation import (
    FoldScores,
    ListScores,
    MemberPath,
    choose,
    deviation,
    merged,
)

_COARSE = 12  # parts of a grid in the first stage
_UPPER = 9  # strengths of the coarse grid that are tried before the smaller ones
_CURVED = 0.25  # how far scores between two strengths may rise above both, in units of the second difference
_FIRST_FOLDS, _MORE_FOLDS = 2, 2  # on which members are tried before those that have lost are left out
_SURE = 2.0  # standard errors over folds that a member must be behind by to have lost
_LEAST_ERROR = 0.5  # of a difference of scores, in units of the leader's own: few folds may agree by chance


def staged_scores(
    score: Callable[..., FoldScores], paths: Sequence[Any], n_folds: int, selection: str
) -> tuple[list[MemberPath], FoldScores]:
    """The strengths of every member that were tried, and their scores.

    Scores along a path are smooth: between two neighbours of the coarse grid they rise above both by an
    eighth of the second difference there. Twice that is allowed for, and every gap in which a score could
    then be above the best one is tried in full. A member without such a gap is out of the race, and so is
    one that is behind by twice the standard error of its difference to the best on the folds so far. The
    smaller strengths are not tried where scores have passed their peak, or rise too slowly to reach the best
    one.

    Parameters
    ----------
    score : callable
        Scores lists of candidates on folds; see `fold_scores`.
    paths : list of MemberPath
        All members with all strengths.
    n_folds : int
        Number of folds.
    selection : {"best", "one_se"}
        What the choice will be by.
    """
    tried = [_Tried(path) for path in paths]
    _race(score, tried, n_folds)
    n_stages = 1
    while gaps := list(_gaps(tried, selection)):
        n_stages += 1
        _fill(score, gaps, stage=f"stage {n_stages}: ", keep_models=True)
    return _together(tried)


def full_scores(
    score: Callable[..., FoldScores], paths: Sequence[Any]
) -> tuple[list[MemberPath], FoldScores]:
    """Every member at all its strengths, and their scores.

    Concave members are solved on the coarse grid first, as in stages: a path's steps tell where it leads.
    """
    tried = [_Tried(path) for path in paths]
    for one in tried:
        one.take_all()
    _try_coarse(score, tried, keep_models=not all(path.member.is_convex for path in paths))
    gaps = [
        (one, int(low), int(high)) for one in tried for low, high in pairwise(one.coarse) if high > low + 1
    ]
    if gaps:
        _fill(score, gaps, stage="stage 2: ", keep_models=False)
    return _together(tried)


class _Tried:
    """A member, the strengths of it that were tried, by their places in its grid, and what was found there.

    Attributes
    ----------
    path : MemberPath
        The member at all strengths.
    parts : list of ndarray
        Places in the coarse grid, the largest strengths first, in lists that are solved on their own.
    index : ndarray
        All places that were tried.
    found : list of ListScores
        On each fold so far.
    """

    def __init__(self, path: MemberPath):
        coarse = _coarse(len(path.alphas))
        self.path, self.found = path, list[ListScores]()
        self.has_gaps = len(coarse) < len(path.alphas)
        n_upper = _UPPER if self.has_gaps else len(coarse)
        self.parts, self.below = [coarse[:n_upper]], coarse[n_upper:]
        self.index = coarse[:n_upper]

    @property
    def coarse(self) -> np.ndarray:
        """All places in the coarse grid that were tried."""
        return np.concatenate(self.parts)

    @property
    def scores(self) -> np.ndarray:
        """Scores (n_tried, n_folds)."""
        return FoldScores([self.found]).scores[0]

    @property
    def means(self) -> np.ndarray:
        """Mean scores at the places tried, minus infinity where they are not defined."""
        return np.nan_to_num(self.scores.mean(axis=1), nan=-np.inf)

    def take_all(self) -> None:
        """Try all strengths of a convex member in one path, and the coarse ones of others in two."""
        if self.path.member.is_convex:
            self.parts, self.below = [np.arange(len(self.path.alphas))], self.below[:0]
        else:
            self.go_below()
        self.index = self.coarse

    def go_below(self) -> None:
        """Make the smaller strengths a part: of a convex member's one path, else with a start of its own."""
        lists = [part for part in (*self.parts, self.below) if part.size]
        self.parts = [np.concatenate(lists)] if self.path.member.is_convex else lists
        self.below = self.below[:0]

    def models(self, place: int) -> list[Any] | None:
        """The models of a place on every fold."""
        return FoldScores([self.found]).models(0, int(np.searchsorted(self.index, place)))

    def add(self, index: np.ndarray, found: list[ListScores]) -> None:
        """Add what was found at other places."""
        order = np.argsort([*self.index, *index])
        self.index = np.concatenate([self.index, index])[order]
        self.found = [merged(old, new, order) for old, new in zip(self.found, found, strict=True)]


Gap = tuple[_Tried, int, int]  # a member, and two neighbours among the strengths tried for it


# -- the coarse grid, fold after fold ------------------------------------------------------------------------


def _race(score: Callable[..., FoldScores], tried: Sequence[_Tried], n_folds: int) -> None:
    """Score the members on the folds, a few at a time; one that has lost has no scores on the others."""
    left, begin = list(tried), 0
    for end in [*range(_FIRST_FOLDS, n_folds - 1, _MORE_FOLDS), n_folds]:
        stage = "" if end - begin == n_folds else f"folds {begin + 1} to {end}: "
        _try_coarse(score, left, on=range(begin, end), stage=stage, keep_models=True)
        best = _leader(left)[1]
        if rising := [one for one in left if _may_rise(best, one, on_all_folds=end == n_folds)]:
            _try_below(score, rising, on=range(end), stage=f"small alphas, folds 1 to {end}: ")
        begin = end
        if end < n_folds:
            left = _may_win(left)


def _try_coarse(score: Callable[..., FoldScores], tried: Sequence[_Tried], **options: Any) -> None:
    """Score members at their places in the coarse grid, on some more folds."""
    lists = [(one, part) for one in tried for part in one.parts]
    found = iter(score([one.path.part(part) for one, part in lists], **options).found)
    for one in tried:
        first, *others = ([*next(found)] for _ in one.parts)
        for part in others:
            first = [merged(a, b, np.arange(len(one.index))) for a, b in zip(first, part, strict=True)]
        one.found += first


def _try_below(score: Callable[..., FoldScores], tried: Sequence[_Tried], **options: Any) -> None:
    """Score members at their smaller strengths too, on all folds so far."""
    wanted = [one.below for one in tried]
    starts = [one.models(one.index[-1]) if one.path.member.is_convex else None for one in tried]
    lists = [one.path.part(index, at) for one, index, at in zip(tried, wanted, starts, strict=True)]
    found = score(lists, keep_models=True, **options).found
    for one, index, part in zip(tried, wanted, found, strict=True):
        one.add(index, part)
        one.go_below()


def _leader(tried: Sequence[_Tried]) -> tuple[_Tried, np.ndarray]:
    """The member with the best mean so far, and its scores."""
    leader = max(tried, key=lambda one: one.means.max())
    return leader, leader.scores[np.argmax(leader.means)]


def _may_rise(best: np.ndarray, one: _Tried, *, on_all_folds: bool) -> bool:
    """Whether scores may come up to the best one at smaller strengths.

    Where they rise they are taken to go on as they do for half of the way. Where they fall they have passed
    their peak, unless it may be just beyond the last strength, which is judged on all folds.
    """
    if one.below.size == 0:
        return False
    means = one.means
    if not np.isfinite([*best, *means[-2:]]).all():
        return True
    slope = means[-1] - means[-2]
    if slope < 0.0:
        return on_all_folds and bool(_highest_between(means)[-1] >= best.mean())
    return _is_close(best, one.scores[-1], means[-1] + 0.5 * len(one.below) * slope)


def _may_win(tried: Sequence[_Tried]) -> list[_Tried]:
    """Members that are not behind the best one for sure, by paired differences over folds."""
    leader, best = _leader(tried)
    if not np.isfinite(best).all():
        return list(tried)
    return [one for one in tried if one is leader or _is_close(best, *_highest(one))]


def _highest(one: _Tried) -> tuple[np.ndarray, float]:
    """The best scores of a member, and how high its mean may be between the strengths tried."""
    means = one.means
    return one.scores[np.argmax(means)], float((_highest_between(means) if one.has_gaps else means).max())


def _is_close(best: np.ndarray, scores: np.ndarray, highest: float) -> bool:
    """Whether a member whose mean may be as high as `highest` is not behind the best one for sure."""
    if not np.isfinite(scores).all():
        return False
    error = max(deviation(best - scores, ddof=1), _LEAST_ERROR * deviation(best, ddof=1)) / np.sqrt(len(best))
    return bool(best.mean() - highest <= _SURE * error)


def _coarse(n: int) -> np.ndarray:
    return np.unique([*range(0, n, max(1, n // _COARSE)), n - 1])


# -- the gaps of the coarse grid -----------------------------------------------------------------------------


def _fill(score: Callable[..., FoldScores], gaps: Sequence[Gap], stage: str, keep_models: bool) -> None:
    """Try all strengths of some gaps."""
    parts = [_between(*gap) for gap in gaps]
    found = score(parts, stage=stage, keep_models=keep_models).found
    for (one, low, high), part in zip(gaps, found, strict=True):
        one.add(np.arange(low + 1, high), part)


def _between(one: _Tried, low: int, high: int) -> MemberPath:
    """A member at all strengths of a gap, from its end at which paths of the member begin."""
    starts = one.models(low if one.path.member.is_convex else high)
    return one.path.part(np.arange(low + 1, high), starts)


def _together(tried: Sequence[_Tried]) -> tuple[list[MemberPath], FoldScores]:
    return [one.path.part(one.index) for one in tried], FoldScores([one.found for one in tried])


def _gaps(tried: Sequence[_Tried], selection: str) -> Iterator[Gap]:
    """Gaps between strengths tried so far in which the choice may be."""
    scores = FoldScores([one.found for one in tried]).scores
    means = [np.nan_to_num(part.mean(axis=1), nan=-np.inf) for part in scores]
    best = max(float(mean.max()) for mean in means)
    wanted = set()
    for m, (one, mean) in enumerate(zip(tried, means, strict=True)):
        coarse = one.coarse
        hopeful = np.flatnonzero(_highest_between(mean[np.searchsorted(one.index, coarse)]) >= best)
        wanted |= {(m, int(coarse[i]), int(coarse[i + 1])) for i in hopeful}
    if selection == "one_se" and np.isfinite(best):
        m, i = choose(scores, selection)
        if i > 0:  # the strongest that is good enough may be just before the one found
            wanted.add((m, int(tried[m].index[i - 1]), int(tried[m].index[i])))
    for m, low, high in sorted(wanted):
        if not np.isin(np.arange(low + 1, high), tried[m].index).any() and high > low + 1:
            yield tried[m], low, high


def _highest_between(mean: np.ndarray) -> np.ndarray:
    """How high scores may be between neighbours on the coarse grid."""
    ends = np.maximum(mean[:-1], mean[1:])
    if len(mean) < 3:
        return np.full(len(ends), np.inf)
    with np.errstate(invalid="ignore"):  # a score that is not defined is minus infinity
        bend = np.abs(np.diff(mean, 2))
        bend = np.concatenate([bend[:1], bend, bend[-1:]])
        return ends + _CURVED * np.nan_to_num(np.fmax(bend[:-1], bend[1:]), nan=np.inf, posinf=np.inf)
