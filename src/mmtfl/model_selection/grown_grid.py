"""A search over two strengths in stages: from the largest to smaller ones, as long as these may be better.

Small strengths take the most time, and where a model has begun to follow the noise they only add to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from mmtfl.model_selection.cross_validation import FoldScores, ListScores, deviation

_FIRST, _MORE = 0.4, 0.1  # shares of the values of a strength in the first stage, and in every other
_LEAST = 3  # values that tell which way scores go
_LEAST_FOLDS = 3  # that tell an error
_SURE = 2.0  # standard errors over folds that scores must be behind by
_LEAST_ERROR = 0.5  # of a difference of scores, in units of the best one's own: few folds may agree by chance


def grown_scores(score: Callable[..., FoldScores], pairs: Any, n_folds: int) -> FoldScores:
    """Scores of all pairs of strengths, NaN for those that were not tried.

    A rectangle of the largest strengths is tried first. It grows by smaller values of one of them as long as
    any pair at that side of it may lead to the best one. A pair does not if it is behind the best by twice
    the standard error of their difference, even after one more rise such as the last.

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
    first = np.minimum(shape, np.maximum(_LEAST, np.ceil(_FIRST * shape)))
    size, part = first if n_folds >= _LEAST_FOLDS else shape, pairs
    found: list[ListScores] = [{} for _ in range(n_folds)]
    for n_stages in count(1):
        part = part.grown((int(size[0]), int(size[1])))
        new = score([part], stage=f"stage {n_stages}: " if n_stages > 1 else "").found[0]
        found = [_with(old, one, part) for old, one in zip(found, new, strict=True)]
        scores = np.stack([fold["scores"] for fold in found], axis=-1).reshape(*shape, n_folds)
        grows = _may_lead_on(scores, part.size)
        if not any(grows):
            break
        size = np.minimum(shape, size + np.where(grows, np.ceil(_MORE * shape), 0))
    return FoldScores([found])


def _with(old: ListScores, new: ListScores, part: Any) -> ListScores:
    """What was found on one fold, for all pairs of the grid, with what was found for some more."""
    index, n_pairs = np.ravel_multi_index(part.pairs().T, part.shape), math.prod(part.shape)
    out = {}
    for name, values in new.items():
        nothing = np.full((n_pairs, *values.shape[1:]), np.nan)
        out[name] = old.get(name, nothing)
        out[name][index] = values
    return out


def _may_lead_on(scores: np.ndarray, size: tuple[int, int]) -> list[bool]:
    """Whether smaller values of the first strength, and of the second, may be better than all tried so far.

    `scores` are those of the whole grid, (n_first, n_second, n_folds), known of the first values alone.
    """
    n, m = size
    known = scores[:n, :m]
    mean = np.nan_to_num(known.mean(axis=-1), nan=-np.inf)
    best = known[np.unravel_index(np.argmax(mean), mean.shape)]
    return [
        n < len(scores) and _leads_on(best, known[-1], known[-2]),
        m < scores.shape[1] and _leads_on(best, known[:, -1], known[:, -2]),
    ]


def _leads_on(best: np.ndarray, last: np.ndarray, before: np.ndarray) -> bool:
    """Whether scores (n, n_folds), which come after others, are not all behind the best one for sure."""
    with np.errstate(invalid="ignore"):  # a score that is not defined: then nothing is sure
        behind = best - last
        rise = np.maximum(last.mean(axis=1) - before.mean(axis=1), 0.0)
        spread = np.maximum(deviation(behind, ddof=1), _LEAST_ERROR * deviation(best, ddof=1))
        return not np.all(behind.mean(axis=1) - rise > _SURE * spread / np.sqrt(len(best)))
