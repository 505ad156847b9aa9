"""A search in stages: a coarse grid of strengths for all members, then a fine one where the best may be.

The coarse grid is scored on a few folds at a time, and what has lost is not tried on the others: a member, or
the larger or smaller half of its strengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from mmtfl.model_selection.cross_validation import (
    FoldScores,
    ListScores,
    MemberPath,
    choose,
    deviation,
    merged,
    unknown,
)

_COARSE = 12  # parts of a grid in the first stage
_LARGER = 9  # of the 14 strengths of a coarse grid are in its larger half: small ones take longest
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
    larger and the smaller strengths of a concave member are two in this race.

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
    tried = [_Tried(path, part) for path in paths for part in _parts(path)]
    _race(score, tried, n_folds)
    tried, n_stages = _joined(tried), 1
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
    whole = [[np.arange(len(path.alphas))] if path.member.is_convex else _parts(path) for path in paths]
    tried = [_Tried(path, part) for path, parts in zip(paths, whole, strict=True) for part in parts]
    _try_coarse(score, tried, keep_models=not all(path.member.is_convex for path in paths))
    tried = _joined(tried)
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
    coarse : ndarray
        Places in the coarse grid: all of them, or those of the larger or of the smaller strengths.
    index : ndarray
        All places that were tried.
    found : list of ListScores
        On each fold so far.
    """

    def __init__(self, path: MemberPath, coarse: np.ndarray):
        self.path, self.coarse, self.index = path, coarse, coarse
        self.found: list[ListScores] = []

    @property
    def has_gaps(self) -> bool:
        """Whether there are strengths between those of the coarse grid."""
        return bool(np.any(np.diff(self.coarse) > 1))

    @property
    def scores(self) -> np.ndarray:
        """Scores (n_tried, n_folds)."""
        return FoldScores([self.found]).scores[0]

    @property
    def means(self) -> np.ndarray:
        """Mean scores at the places tried, minus infinity where they are not defined."""
        return np.nan_to_num(self.scores.mean(axis=1), nan=-np.inf)

    def models(self, place: int) -> list[Any] | None:
        """The models of a place on every fold, if it was tried."""
        if place not in self.index:
            return None
        return FoldScores([self.found]).models(0, int(np.searchsorted(self.index, place)))

    def add(self, index: np.ndarray, found: list[ListScores]) -> None:
        """Add what was found at other places."""
        order = np.argsort([*self.index, *index])
        self.index = np.concatenate([self.index, index])[order]
        self.found = [merged(old, new, order) for old, new in zip(self.found, found, strict=True)]


Gap = tuple[_Tried, int, int]  # a member, and two neighbours among the strengths tried for it


# -- the coarse grid, fold after fold ------------------------------------------------------------------------


def _coarse(n: int) -> np.ndarray:
    return np.unique([*range(0, n, max(1, n // _COARSE)), n - 1])


def _parts(path: MemberPath) -> list[np.ndarray]:
    """The coarse grid of a member, in the parts that are solved and left out on their own."""
    coarse = _coarse(len(path.alphas))
    if path.member.is_convex or len(coarse) == len(path.alphas):
        return [coarse]
    return [coarse[:_LARGER], coarse[_LARGER:]]


def _race(score: Callable[..., FoldScores], tried: Sequence[_Tried], n_folds: int) -> None:
    """Score the members on the folds, a few at a time; what has lost has no scores on the others."""
    left, begin = list(tried), 0
    for end in [*range(_FIRST_FOLDS, n_folds - 1, _MORE_FOLDS), n_folds]:
        stage = "" if end - begin == n_folds else f"folds {begin + 1} to {end}: "
        _try_coarse(score, left, on=range(begin, end), stage=stage, keep_models=True)
        begin = end
        if end < n_folds:
            left = _may_win(left)


def _try_coarse(score: Callable[..., FoldScores], tried: Sequence[_Tried], **options: Any) -> None:
    """Score members at their places in the coarse grid, on some more folds."""
    found = score([one.path.part(one.coarse) for one in tried], **options).found
    for one, part in zip(tried, found, strict=True):
        one.found += part


def _may_win(tried: Sequence[_Tried]) -> list[_Tried]:
    """Members that are not behind the best one for sure, by paired differences over folds."""
    leader = max(tried, key=lambda one: one.means.max())
    best = leader.scores[np.argmax(leader.means)]
    if not np.isfinite(best).all():
        return list(tried)
    return [one for one in tried if one is leader or _is_close(best, one)]


def _is_close(best: np.ndarray, one: _Tried) -> bool:
    """Whether a member is not behind the best one for sure."""
    means = one.means
    if not np.isfinite(means).any():
        return False
    highest = _highest_between(means) if one.has_gaps else means
    behind = best - one.scores[np.argmax(means)]
    error = max(deviation(behind, ddof=1), _LEAST_ERROR * deviation(best, ddof=1)) / np.sqrt(len(best))
    return bool(best.mean() - highest.max() <= _SURE * error)


def _of_members(tried: Sequence[_Tried]) -> list[list[_Tried]]:
    """The parts of every member."""
    return [list(parts) for _, parts in groupby(tried, key=lambda one: id(one.path))]


def _joined(tried: Sequence[_Tried]) -> list[_Tried]:
    """Make one of the two parts of a member that were tried on the same folds."""
    out = []
    for first, *others in _of_members(tried):
        out.append(first)
        for other in others:
            if len(other.found) == len(first.found):
                first.add(other.index, other.found)
                first.coarse = first.index
            else:
                out.append(other)
    return out


def _together(tried: Sequence[_Tried]) -> tuple[list[MemberPath], FoldScores]:
    """Every member with all that was tried of it; scores are NaN on folds that a part was not tried on."""
    out = []
    for first, *others in _of_members(tried):
        for other in others:
            n = max(len(first.found), len(other.found))
            for one, example in ((first, other), (other, first)):
                missing = example.found[len(one.found) : n]
                one.found = [*one.found, *(unknown(like, len(one.index)) for like in missing)]
            first.add(other.index, other.found)
        out.append(first)
    return [one.path.part(one.index) for one in out], FoldScores([one.found for one in out])


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


def _gaps(tried: Sequence[_Tried], selection: str) -> Iterator[Gap]:
    """Gaps between strengths tried so far in which the choice may be."""
    scores = FoldScores([one.found for one in tried]).scores
    means = [np.nan_to_num(part.mean(axis=1), nan=-np.inf) for part in scores]
    best = max(float(mean.max()) for mean in means)
    wanted = set()
    for m, (one, mean) in enumerate(zip(tried, means, strict=True)):
        highest = _highest_between(mean[np.searchsorted(one.index, one.coarse)])
        ends = list(pairwise(one.coarse))
        if one.coarse[-1] < len(one.path.alphas) - 1:  # the gap to the smaller strengths, which have lost
            ends, highest = [*ends, (one.coarse[-1], _parts(one.path)[1][0])], np.append(highest, highest[-1])
        wanted |= {(m, *map(int, ends[i])) for i in np.flatnonzero(highest >= best)}
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
