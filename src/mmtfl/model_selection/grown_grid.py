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
_FALLS = 2  # of the best score of a value that is tried, one after the other
_BEHIND = 0.25  # standard errors of the best score that the last of them must be behind by
_LEAST_FOLDS = 3  # of fewer, scores are rough


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
    first = np.minimum(shape, np.maximum(_FALLS + 1, np.ceil(_FIRST * shape)))
    size, part = first if n_folds >= _LEAST_FOLDS else shape, pairs
    found: list[ListScores] = [{} for _ in range(n_folds)]
    for n_stages in count(1):
        part = part.grown((int(size[0]), int(size[1])))
        new = score([part], stage=f"stage {n_stages}: " if n_stages > 1 else "").found[0]
        found = [_with(old, one, part) for old, one in zip(found, new, strict=True)]
        scores = np.stack([fold["scores"] for fold in found], axis=-1).reshape(*shape, n_folds)
        before, grows = size, np.any(size < shape) and _may_lead_on(scores, part.size)
        size = np.minimum(shape, size + np.where(grows, np.ceil(_MORE * shape), 0))
        if np.array_equal(size, before):
            break
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
    known = scores[: size[0], : size[1]]
    mean = np.nan_to_num(known.mean(axis=-1), nan=-np.inf)
    best = known[np.unravel_index(np.argmax(mean), mean.shape)]
    enough = best.mean() - _BEHIND * deviation(best, ddof=1) / np.sqrt(len(best))
    return [not _has_fallen(mean.max(axis=other), enough) for other in (1, 0)]


def _has_fallen(top: np.ndarray, enough: float) -> bool:
    """Whether the best score at each value has fallen with the last ones, below what is good enough."""
    with np.errstate(invalid="ignore"):  # a score that is not defined is minus infinity: nothing is sure
        return bool(np.all(np.diff(top[-_FALLS - 1 :]) < 0.0) and top[-1] < enough)
