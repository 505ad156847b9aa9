"""Words for effects: by ordered rules on their numbers, see docs/how_sure.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.inference.meta_analysis import MetaAnalysis, holm, least_same_direction, q_values
from mmtfl.wording import abbreviate, plural

WORDS = (
    "cannot be told apart",
    "everywhere",
    "differs",
    "on average",
    "only in some",
    "too few tasks",
    "not found",
)
FOUND = WORDS[1:5]
LEVEL = 0.1  # of false discoveries
_NAMED = 0.05  # chance of naming a task wrongly, of those of one feature
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
        clear = holm(found.p_single) <= _NAMED
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


# -- sentences for people ------------------------------------------------------------------------------------

READING = {
    "odds_ratio": "An odds ratio of 1.5: with one unit more of the feature the odds are half as large again.",
    "rate_ratio": "A rate ratio of 1.5: with one unit more of the feature the rate is half as large again.",
}
_MOST_NAMED = 6


def in_sentences(rows: Sequence[Mapping[str, Any]], noun: str = "task") -> list[str]:
    """Three sentences on the rows of `effects`: what holds everywhere, what differs, what is not found.

    Examples
    --------
    >>> row = {"feature": "age", "word": "everywhere", "average": 0.5, "lower": 0.4, "upper": 0.6, "note": ""}
    >>> in_sentences([row], "hospital")[0]
    'Holds in every hospital: age 0.5 (0.4 to 0.6).'
    """
    said: dict[str, list[Mapping[str, Any]]] = {word: [] for word in WORDS}
    for row in rows:
        said[row["word"]].append(row)
    return [_everywhere(said, noun), _differing(said, noun), _not_found(said, noun)]


def _everywhere(said: Mapping[str, Sequence[Mapping[str, Any]]], noun: str) -> str:
    rows = said["everywhere"]
    if not rows:
        return f"Nothing was found to hold in every {noun}."
    quoted = [f"{row['feature']} {_quoted(row)}" for row in rows]
    return f"Holds in every {noun}: {_listed(quoted)}."


def _differing(said: Mapping[str, Sequence[Mapping[str, Any]]], noun: str) -> str:
    differs = [
        f"{row['feature']} {_quoted(row)}, in a new {noun} {_number(row['new_task_lower'])} to "
        f"{_number(row['new_task_upper'])}"
        for row in said["differs"]
    ]
    average = [f"{row['feature']} {_quoted(row)}" for row in said["on average"]]
    some = [f"{row['feature']} ({row['note']})" for row in said["only in some"]]
    parts = [
        (differs, f"Differs between {plural(noun)}"),
        (average, f"Holds on average, and the rows do not tell whether in every {noun}"),
        (some, f"Only in some {plural(noun)}"),
    ]
    told = [f"{head}: {_listed(names)}" for names, head in parts if names]
    return ". ".join(told) + "." if told else f"Nothing was found to differ between {plural(noun)}."


def _not_found(said: Mapping[str, Sequence[Mapping[str, Any]]], noun: str) -> str:
    rows, told = said["not found"], []
    known = [row for row in rows if np.isfinite(row["average"])]
    reach = max((max(abs(row["lower"]), abs(row["upper"])) * _sd(row) for row in known), default=np.nan)
    if rows:
        told.append(f"Not found: {_listed([row['feature'] for row in rows])}")
    if np.isfinite(reach):
        told.append(f"For each of these an average effect above {_number(reach)} per s.d. is ruled out")
    few = [row["feature"] for row in said["too few tasks"]]
    told += [f"Varies in too few {plural(noun)} to tell: {_listed(few)}"] if few else []
    apart = [f"{row['feature']} ({row['note']})" for row in said["cannot be told apart"]]
    told += [f"Cannot be told apart: {_listed(apart)}"] if apart else []
    return ". ".join(told) + "." if told else "Every feature was found to matter."


def _sd(row: Mapping[str, Any]) -> float:
    return abs(row["per_sd"] / row["average"]) if row["average"] else 0.0


def _quoted(row: Mapping[str, Any]) -> str:
    """The average of a row with its interval: as a ratio for classes and counts."""
    name, what = next(((n, f"{n.partition('_')[0]} x ") for n in READING if n in row), ("average", ""))
    ends = [row[f"{name}_{end}" if what else end] for end in ("lower", "upper")]
    return f"{what}{_number(row[name])} ({_number(ends[0])} to {_number(ends[1])})"


def _number(value: float) -> str:
    return f"{float(f'{value:.3g}'):.15g}"  # 50200 rather than 5.02e+04


def _listed(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*names[:_MOST_NAMED], *more])
