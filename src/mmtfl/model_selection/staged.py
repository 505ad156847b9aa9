"""Searches in stages.

Members: a coarse grid of strengths for all of them, then a fine one where the best may be. The coarse grid is
scored from the strongest on, and on a few folds at a time: weak strengths, which take the most time, are
tried where scores have not fallen before, and members that have lost are not tried on the other folds.

Two strengths: from the largest to smaller ones, as long as these may be better. Small strengths take the most
time, and where a model has begun to follow the noise they only add to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np

from mmtfl.model_selection.choosing import choose, deviation
from mmtfl.model_selection.cross_validation import FoldScores, ListScores, MemberPath, merged
from mmtfl.objective.penalties import RowPenalty

Gap = tuple[int, int, int]  # a member, and two neighbours among the strengths tried for it

_COARSE = 12  # parts of a grid in the first stage
_STRONG = 0.6  # share of them that is tried first
_NEAR = 2  # of the strengths tried last: where the best is among them, weaker ones are tried
_CURVED = 2.0  # how much scores may bend between two strengths, in units of the second difference there
_FIRST_FOLDS, _MORE_FOLDS = 3, 2  # on which members are tried before those that have lost are left out
_SURE = 2.0  # standard errors over folds that a member must be behind by to have lost
_LEAST_ERROR = 0.5  # of a difference of scores, in units of the leader's own: few folds may agree by chance
_FIRST_SHARE, _MORE_SHARE = (
    0.4,
    0.1,
)  # shares of the values of a strength in the first stage, and in every other
_FALLS = 2  # of the best score of a value that is tried, one after the other
_BEHIND = 0.25  # standard errors of the best score that the last of them must be behind by
_LEAST_FOLDS = 3  # of fewer, scores are rough


def staged_scores(
    score: Callable[..., FoldScores], paths: Sequence[Any], n_folds: int, selection: str
) -> tuple[list[MemberPath], FoldScores]:
    """The strengths of every member that were tried, and their scores.

    Scores along a path are smooth: between two neighbours of the coarse grid they rise above both by an
    eighth of the second difference there. Twice that is allowed for, and every gap in which a score could
    then be above the best one is tried in full. A member without such a gap is out of the race, and so is
    one that is behind by twice the standard error of its difference to the best on the folds so far. Whether
    tasks agree in their values is asked of the convex member, whose paths are the quickest: where pooling
    sets it back by two standard errors, neither more pooling nor other members with it are tried. These have
    the pooling that suits it best, and others too where they are then the best members of all.

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
    coarse, found = _race(score, paths, n_folds)
    entered = [m for m, folds in enumerate(found) if folds]
    paths, coarse = [paths[m] for m in entered], [coarse[m] for m in entered]
    first = FoldScores([found[m] for m in entered])
    tried = [_Tried(index, found) for index, found in zip(coarse, first.found, strict=True)]
    n_stages = 1
    while gaps := list(_gaps(tried, coarse, selection)):
        n_stages += 1
        _fill(score, paths, coarse, first, tried, gaps, stage=f"stage {n_stages}: ")
    return _together(paths, tried)


def full_scores(
    score: Callable[..., FoldScores], paths: Sequence[Any]
) -> tuple[list[MemberPath], FoldScores]:
    """Every member at all its strengths, and their scores.

    Concave members are solved on the coarse grid first, as in stages: a path's steps tell where it leads.
    """
    coarse = [
        np.arange(len(path.alphas)) if path.member.is_convex else _coarse(len(path.alphas)) for path in paths
    ]
    parts = [path.part(index) for path, index in zip(paths, coarse, strict=True)]
    first = score(parts, keep_models=True)
    tried = [_Tried(index, found) for index, found in zip(coarse, first.found, strict=True)]
    gaps = [
        (m, int(low), int(high))
        for m, index in enumerate(coarse)
        for low, high in pairwise(index)
        if high > low + 1
    ]
    if gaps:
        _fill(score, paths, coarse, first, tried, gaps, stage="stage 2: ")
    return _together(paths, tried)


def _race(
    score: Callable[..., FoldScores], paths: Sequence[MemberPath], n_folds: int
) -> tuple[list[np.ndarray], list[list[ListScores]]]:
    """Coarse grids, and scores on the folds, a few at a time.

    A member that has lost has no scores on the other folds, or none at all.
    """
    coarse = [_strong(len(path.alphas)) for path in paths]
    found: list[list[ListScores]] = [[] for _ in paths]
    left, begin = list(range(len(paths))), 0
    for end in [*range(_FIRST_FOLDS, n_folds - 1, _MORE_FOLDS), n_folds]:
        heats = [left] if begin else _heats(paths, coarse, found)
        for n, heat in enumerate(heats, start=1):
            words = ["" if end - begin == n_folds else f"folds {begin + 1} to {end}", f"heat {n}" * (n > 1)]
            on, stage = range(begin, end), ", ".join(filter(None, words)) + ": " * any(words)
            lists = [paths[m].part(coarse[m]) for m in heat]
            part = score(lists, keep_models=True, on=on, stage=stage)
            for m, new in zip(heat, part.found, strict=True):
                found[m] += new
            if begin == 0:
                _go_on(score, paths, heat, coarse, found, on=on, stage=stage)
        begin, left = end, [m for m in left if found[m]]
        if end < n_folds:
            _look_between(score, paths, left, coarse, found, stage=f"between, folds 1 to {end}")
            scores = FoldScores([found[m] for m in left]).scores
            left = [left[i] for i in _may_win(scores, [coarse[m] for m in left])]
    return coarse, found


def _look_between(score, paths, left, coarse, found, *, stage: str) -> None:
    """Halve the gaps that alone keep members in the race, on the folds so far, until they are known."""
    for n in count(1):
        scores, grids = FoldScores([found[m] for m in left]).scores, [coarse[m] for m in left]
        unsure = [
            (m, int(grid[i]), int(grid[i + 1]))
            for m, grid, close in zip(left, grids, _closeness(scores, grids), strict=True)
            for i in np.flatnonzero(close.between & ~close.itself)
        ]
        if not unsure:
            return
        parts = [
            _between(paths[m], FoldScores([found[m]]), 0, coarse[m], low, high, [(low + high) // 2])
            for m, low, high in unsure
        ]
        new = score(parts, on=range(len(found[left[0]])), stage=f"{stage}, {n}: ", keep_models=True).found
        for (m, low, high), part in zip(unsure, new, strict=True):
            tried = _Tried(coarse[m], found[m])
            tried.add(np.array([(low + high) // 2]), part)
            coarse[m], found[m] = tried.index, tried.found


def _go_on(score, paths, heat, coarse, found, *, on, stage: str) -> None:
    """Try weaker strengths of the members whose scores have not fallen on the strong ones."""
    grids = {m: _coarse(len(paths[m].alphas)) for m in heat}
    means = {m: FoldScores([found[m]]).scores[0].mean(axis=1) for m in heat}
    rising = [
        m for m in heat
        if len(grids[m]) > len(coarse[m]) and not np.nanargmax([*means[m], -np.inf]) < len(coarse[m]) - _NEAR
    ]  # fmt: skip
    if not rising:
        return
    parts = [_weaker(paths[m], grids[m], coarse[m], found[m]) for m in rising]
    further = score(parts, on=on, stage=f"weaker, {stage}", keep_models=True).found
    for m, new in zip(rising, further, strict=True):
        order = np.arange(len(grids[m]))
        found[m] = [merged(old, one, order) for old, one in zip(found[m], new, strict=True)]
        coarse[m] = grids[m]


def _weaker(path: MemberPath, grid: np.ndarray, tried: np.ndarray, found: list[ListScores]) -> MemberPath:
    """The strengths below those tried; convex paths go on from the last one."""
    starts = FoldScores([found]).models(0, len(tried) - 1) if path.member.is_convex else None
    return path.part(grid[len(tried) :], starts)


def _heats(
    paths: Sequence[MemberPath], coarse: Sequence[np.ndarray], found: Sequence[list[ListScores]]
) -> Iterator[list[int]]:
    """Members to try on the first folds, some at a time: what was `found` decides on those with pooling.

    Convex members go first. Another one is tried with the pooling that suits the convex one best, and with
    others only where it is the best member of all there.
    """
    every = {m: _sign_of_agreement(paths, m) for m in range(len(paths))}
    signs = {m: sign for m, sign in every.items() if sign is not None}

    def in_question(m: int) -> bool:
        return not found[m] and bool(found[signs[m][0]]) and _may_agree(found, coarse, *signs[m])

    def score(m: int) -> float:
        return float(np.nan_to_num(FoldScores([found[m]]).scores[0].mean(axis=1), nan=-np.inf).max())

    heat = [m for m, sign in every.items() if sign is None]
    while heat:
        yield heat
        heat = [m for m in signs if paths[m].member.is_convex and in_question(m)]
    left = [m for m in signs if in_question(m)]
    for kind in sorted({_kind(paths[m])[:2] for m in left}):
        own = sorted((m for m in left if _kind(paths[m])[:2] == kind), key=lambda m: -score(signs[m][0]))
        yield own[:1]
        if len(own) > 1 and score(own[0]) >= max(score(m) for m in every if found[m]):
            yield own[1:]


def _sign_of_agreement(paths: Sequence[MemberPath], m: int) -> tuple[int, int] | None:
    """Positions of the convex member with pooling, and without, whose scores decide whether m is tried.

    A convex one looks at the same with less pooling, another one at the convex one with as much.
    """
    member = paths[m].member
    convex = {path.member.pooling: i for i, path in enumerate(paths) if _is_plain(path.member, member.p)}
    if member.is_convex:
        before = max((q for q in convex if 0.0 < q < member.pooling), default=None)
    else:
        before = member.pooling if member.pooling in convex else None
    if member.pooling == 0.0 or before is None or 0.0 not in convex:
        return None
    return convex[before], convex[0.0]


def _is_plain(member: RowPenalty, p: float) -> bool:
    """Whether a member is the group lasso of this p."""
    return member.p == p and member.power == 1.0


def _may_agree(
    found: Sequence[list[ListScores]], coarse: Sequence[np.ndarray], pooled: int, plain: int
) -> bool:
    """Whether a member is not behind with pooling for sure, against the same without."""
    scores = FoldScores([found[plain], found[pooled]]).scores
    return 1 in _may_win(scores, [coarse[plain], coarse[pooled]])


def _may_win(scores: Sequence[np.ndarray], grids: Sequence[np.ndarray]) -> list[int]:
    """Members that are not behind the best one for sure, by paired differences over folds."""
    return [m for m, close in enumerate(_closeness(scores, grids)) if close.itself or close.between.any()]


class _Close(NamedTuple):
    """Whether a member is not behind the best one for sure, and in which gaps it may not be."""

    itself: bool
    between: np.ndarray


def _closeness(scores: Sequence[np.ndarray], grids: Sequence[np.ndarray]) -> list[_Close]:
    """How members stand to the best one on the folds so far; their strengths are at these places."""
    means = [np.nan_to_num(part.mean(axis=1), nan=-np.inf) for part in scores]
    leader = int(np.argmax([mean.max() for mean in means]))
    best = scores[leader][np.argmax(means[leader])]
    out = []
    for m, (part, mean, grid) in enumerate(zip(scores, means, grids, strict=True)):
        behind = best - part[np.argmax(mean)]
        error = max(deviation(behind, ddof=1), _LEAST_ERROR * deviation(best, ddof=1)) / np.sqrt(len(best))
        enough = best.mean() - _SURE * error if np.isfinite(mean).any() else np.inf
        if m == leader or not np.isfinite(best).all():
            enough = -np.inf
        between = (_highest_between(mean, grid) >= enough) & (np.diff(grid) > 1)
        out.append(_Close(bool(mean.max() >= enough), between))
    return out


def _fill(score, paths, coarse, first, tried, gaps: Sequence[Gap], stage: str) -> None:
    """Try all strengths of some gaps."""
    parts = [
        _between(paths[m], first, m, coarse[m], low, high, np.arange(low + 1, high)) for m, low, high in gaps
    ]
    found = score(parts, stage=stage, keep_models=True).found
    for (m, low, high), part in zip(gaps, found, strict=True):
        tried[m].add(np.arange(low + 1, high), part)


def _together(paths: Sequence[MemberPath], tried: Sequence[_Tried]) -> tuple[list[MemberPath], FoldScores]:
    parts = [path.part(one.index) for path, one in zip(paths, tried, strict=True)]
    return parts, FoldScores([one.found for one in tried])


def _strong(n: int) -> np.ndarray:
    """The strongest part of the coarse grid; all of a grid that is scored as a whole."""
    grid = _coarse(n)
    return grid if len(grid) == n else grid[: math.ceil(_STRONG * len(grid))]


def _coarse(n: int) -> np.ndarray:
    return np.unique([*range(0, n, max(1, n // _COARSE)), n - 1])


def _between(
    path: MemberPath, first: FoldScores, m: int, coarse: np.ndarray, low: int, high: int, index: Any
) -> MemberPath:
    """A member at strengths of a gap, from its end at which paths of the member begin."""
    before = low if path.member.is_convex else high
    starts = first.models(m, int(np.searchsorted(coarse, before)))
    return path.part(np.asarray(index), starts)


class _Tried:
    """The strengths of a member that were tried, by their places in its grid, and what was found there."""

    def __init__(self, index: np.ndarray, found: list[ListScores]):
        self.index, self.found = index, found

    def add(self, index: np.ndarray, found: list[ListScores]) -> None:
        """Add what was found at other places."""
        order = np.argsort([*self.index, *index])
        self.index = np.concatenate([self.index, index])[order]
        self.found = [merged(old, new, order) for old, new in zip(self.found, found, strict=True)]


def _gaps(tried: Sequence[_Tried], coarse: Sequence[np.ndarray], selection: str) -> Iterator[Gap]:
    """Gaps between strengths tried so far in which the choice may be."""
    scores = FoldScores([one.found for one in tried]).scores
    means = [np.nan_to_num(part.mean(axis=1), nan=-np.inf) for part in scores]
    best = max(float(mean.max()) for mean in means)
    wanted = set()
    for m, (one, mean) in enumerate(zip(tried, means, strict=True)):
        at = mean[np.searchsorted(one.index, coarse[m])]
        hopeful = np.flatnonzero(_highest_between(at, coarse[m]) >= best)
        wanted |= {(m, int(coarse[m][i]), int(coarse[m][i + 1])) for i in hopeful}
    if selection == "one_se" and np.isfinite(best):
        m, i = choose(scores, selection)
        if i > 0:  # the strongest that is good enough may be just before the one found
            wanted.add((m, int(tried[m].index[i - 1]), int(tried[m].index[i])))
    for m, low, high in sorted(wanted):
        if not np.isin(np.arange(low + 1, high), tried[m].index).any() and high > low + 1:
            yield m, low, high


def _highest_between(mean: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """How high scores may be between neighbours among the strengths tried, which are at places of a grid.

    That is the top of the parabola through both that bends `_CURVED` times as much as scores do there; where
    they differ by more than its bend, it has none in between.
    """
    ends, width = np.maximum(mean[:-1], mean[1:]), np.diff(grid).astype(float)
    if len(mean) < 3:
        return np.full(len(ends), np.inf)
    with np.errstate(invalid="ignore"):  # a score that is not defined is minus infinity
        apart, slope = np.abs(np.diff(mean)), np.diff(mean) / width
        bend = np.abs(np.diff(slope)) / (0.5 * (width[:-1] + width[1:]))
        bend = np.concatenate([bend[:1], bend, bend[-1:]])
        bend = _CURVED * np.nan_to_num(np.fmax(bend[:-1], bend[1:]), nan=np.inf, posinf=np.inf) * width**2
        share = np.maximum(1.0 - 2.0 * apart / np.maximum(bend, 1e-300), 0.0)
        return ends + np.where(np.isinf(bend), np.inf, bend / 8.0 * share**2)


# -- lines or curves ----------------------------------------------------------------------------------------


def curves_may_win(
    score: Callable[..., FoldScores], trial: MemberPath, lines: Sequence[MemberPath], found: FoldScores
) -> bool:
    """Whether a member does better with curves than with lines, on the first folds and at strong strengths.

    It must be ahead by more than a tie, by paired differences: where effects are straight, this is all that
    curves cost. One that is far behind on the first fold is not tried on the others, and these do without
    strengths that are too weak on the first.
    """
    part, n_folds = trial.part(_strong(len(trial.alphas))), min(_FIRST_FOLDS, found.scores[0].shape[1])
    same = [m for m, path in enumerate(lines) if _kind(path) == _kind(trial)] or range(len(lines))
    straight = np.concatenate([found.scores[m] for m in same])
    best = straight[np.argmax(np.nan_to_num(straight.mean(axis=1), nan=-np.inf))]
    own = score([part], on=range(1), stage="curves: ").scores[0]
    if n_folds > 1:
        if best[0] - own.max() > _SURE * _LEAST_ERROR * deviation(best, ddof=1):
            return False
        strong = np.arange(min(int(np.argmax(own)) + _NEAR, len(own)))
        further = score([part.part(strong)], on=range(1, n_folds), stage="curves, further: ").scores[0]
        own = np.hstack([own[strong], further])
    scores = [found.scores[m][:, :n_folds] for m in same]
    return choose([*scores, own], order=[(0,)] * len(scores) + [(1,)])[0] == len(scores)


def _kind(path: MemberPath) -> tuple:
    return path.member.p, path.member.k, path.member.pooling


# -- two strengths -------------------------------------------------------------------------------------------


def grown_scores(score: Callable[..., FoldScores], pairs: Any, n_folds: int) -> FoldScores:
    """Scores of all pairs of strengths, NaN for those that were not tried.

    A rectangle of the largest strengths is tried first. It grows by smaller values of a strength until these
    may not be better: what is best at a value has then fallen twice, and is behind the best of all by a
    quarter of its standard error over folds.

    Parameters
    ----------
    score : callable
        Scores lists of candidates on folds; see `fold_scores`.
    pairs : StrengthPairs
        The whole grid.
    n_folds : int
        Number of folds.
    """
    shape = np.array(pairs.shape)
    first = np.minimum(shape, np.maximum(_FALLS + 1, np.ceil(_FIRST_SHARE * shape)))
    size, part = first if n_folds >= _LEAST_FOLDS else shape, pairs
    found: list[ListScores] = [{} for _ in range(n_folds)]
    for n_stages in count(1):
        part = part.grown((int(size[0]), int(size[1])))
        new = score([part], stage=f"stage {n_stages}: " if n_stages > 1 else "").found[0]
        found = [_with(old, one, part) for old, one in zip(found, new, strict=True)]
        scores = np.stack([fold["scores"] for fold in found], axis=-1).reshape(*shape, n_folds)
        before, grows = size, np.any(size < shape) and _may_lead_on(scores, part.size)
        size = np.minimum(shape, size + np.where(grows, np.ceil(_MORE_SHARE * shape), 0))
        if np.array_equal(size, before):
            break
    return FoldScores([found])


def _with(old: ListScores, new: ListScores, part: Any) -> ListScores:
    """Results of one fold for all pairs of the grid, with those of further pairs filled in."""
    index, n_pairs = np.ravel_multi_index(part.pairs().T, part.shape), math.prod(part.shape)
    out = {}
    for name, values in new.items():
        nothing = np.full((n_pairs, *values.shape[1:]), np.nan)
        out[name] = old.get(name, nothing)
        out[name][index] = values
    return out


def _may_lead_on(scores: np.ndarray, size: tuple[int, int]) -> list[bool]:
    """Whether to try smaller values of the first strength, and of the second.

    `scores` are those of the whole grid, (n_first, n_second, n_folds), known of the first values alone.
    """
    known = scores[: size[0], : size[1]]
    mean = np.nan_to_num(known.mean(axis=-1), nan=-np.inf)
    best = known[np.unravel_index(np.argmax(mean), mean.shape)]
    enough = best.mean() - _BEHIND * deviation(best, ddof=1) / np.sqrt(len(best))
    return [not _has_fallen(mean.max(axis=other), enough) for other in (1, 0)]


def _has_fallen(top: np.ndarray, enough: float) -> bool:
    """Whether the best score at each value has fallen with the last ones, below what is good enough."""
    with np.errstate(invalid="ignore"):  # a score that is not defined is minus infinity: nothing is sure
        return bool(np.all(np.diff(top[-_FALLS - 1 :]) < 0.0) and top[-1] < enough)
