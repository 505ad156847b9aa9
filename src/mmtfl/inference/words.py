"""Words for effects: by ordered rules on their numbers, see docs/how_sure.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.inference.meta_analysis import MetaAnalysis, holm, least_same_direction, q_values
from mmtfl.wording import abbreviate

WORDS = (
    "cannot be told apart",
    "everywhere",
    "differs",
    "on average",
    "only in some",
    "too few tasks",
    "not found",
)
LEVEL = 0.1  # of false discoveries, and of what Holm's correction leaves
_MOST_TASKS = 0.8  # share of the tasks in which a feature varies that holds "everywhere"
_SAME = 0.9  # share of the tasks with the same direction, even at the ends of the intervals
_COVERAGE = 0.9  # of the intervals that the words rest on, whatever is shown


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What the effects of each feature amount to.

    Attributes
    ----------
    word : ndarray of str of shape (n_features,)
        One of `WORDS`.
    q : ndarray of shape (n_features,)
        False discovery rate of the average.
    clear : ndarray of bool of shape (n_tasks, n_features)
        Tasks whose own rows show an effect, corrected by Holm over the tasks of a feature.
    """

    word: np.ndarray
    q: np.ndarray
    clear: np.ndarray


def judge(found: MetaAnalysis, apart: np.ndarray, n_features: int | None = None) -> Verdicts:
    """Say in a word what the effects of each feature amount to; the first rule that holds decides.

    Parameters
    ----------
    found : MetaAnalysis
        Of all features; NaN for those that cannot be told apart.
    apart : ndarray of bool of shape (n_features,)
        Which features cannot be told apart from others.
    n_features : int, optional
        How many features there are, with those that were not looked at.

    Examples
    --------
    >>> import numpy as np
    >>> theta = np.array([[1.0, 0.0], [1.1, 0.1], [0.9, -0.1], [1.0, 0.05]])
    >>> found = MetaAnalysis(theta, np.full((4, 2), 0.01), np.full(4, np.inf))
    >>> judge(found, np.zeros(2, dtype=bool)).word.tolist()
    ['everywhere', 'not found']
    """
    q, q_spread, q_any = (q_values(p, n_features) for p in (found.p, found.p_spread, found.p_any))
    with np.errstate(invalid="ignore"):
        clear = holm(found.p_single) <= LEVEL
        several, average = found.n_tasks > 1, (q <= LEVEL) & (found.n_tasks > 1)
        same = least_same_direction(*found.interval(_COVERAGE), found.spread_interval(_COVERAGE)[1])
        everywhere = average & (found.n_tasks >= _MOST_TASKS * len(found.theta)) & (same > _SAME)
        somewhere = (q_any <= LEVEL) & clear.any(axis=0)
        rules = [apart, everywhere, average & (q_spread <= LEVEL), average, somewhere, ~several]
    return Verdicts(np.select(rules, WORDS[:-1], WORDS[-1]), q, clear & (q_any <= LEVEL))


def name_tasks(labels: Sequence[Any]) -> str:
    """The tasks that a note names."""
    return abbreviate([str(label) for label in labels])


def note_of(verdicts: Verdicts, j: int, *, labels: np.ndarray, ruled_out: str, others: str) -> str:
    """What stands beside the word of feature j."""
    word = verdicts.word[j]
    if word == "cannot be told apart":
        return f"from {others}"
    if word == "only in some":
        return f"clear in {name_tasks(labels[verdicts.clear[:, j]].tolist())}"
    return ruled_out if word == "not found" else ""
