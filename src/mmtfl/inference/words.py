"""Words for effects: by ordered rules on their numbers, see docs/how_sure.md."""

from __future__ import annotations

from collections import Counter
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


def judge(
    found: MetaAnalysis, apart: np.ndarray, n_features: int | None = None, p: np.ndarray | None = None
) -> Verdicts:
    """Say in a word what the effects of each feature amount to; the first rule that holds decides.

    Parameters
    ----------
    found : MetaAnalysis
        Of all features; NaN for those that cannot be told apart.
    apart : ndarray of bool of shape (n_features,)
        Which features cannot be told apart from others.
    n_features : int, optional
        How many features there are, with those that were not looked at.
    p : ndarray of shape (n_features,), optional
        P-values of no average effect, if they are not those of the averages of `found`.

    Examples
    --------
    >>> import numpy as np
    >>> theta = np.array([[1.0, 0.0], [1.1, 0.1], [0.9, -0.1], [1.0, 0.05]])
    >>> found = MetaAnalysis(theta, np.full((4, 2), 0.01), np.full(4, np.inf))
    >>> judge(found, np.zeros(2, dtype=bool)).word.tolist()
    ['everywhere', 'not found']
    """
    values = (found.p if p is None else p, found.p_spread, found.p_any)
    q, q_spread, q_any = (q_values(value, n_features) for value in values)
    with np.errstate(invalid="ignore"):
        clear = holm(found.p_single) <= _NAMED
        several, average = found.n_tasks > 1, (q <= LEVEL) & (found.n_tasks > 1)
        same = least_same_direction(*found.interval(_COVERAGE), found.spread_interval(_COVERAGE)[1])
        beyond = average & (found.p <= 1.0 - _COVERAGE)  # a curve may be clear without its ends
        everywhere = beyond & (found.n_tasks >= _MOST_TASKS * len(found.theta)) & (same > _SAME)
        somewhere = (q_any <= LEVEL) & clear.any(axis=0)
        rules = [apart, everywhere, beyond & (q_spread <= LEVEL), average, somewhere, ~several]
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
        clear = verdicts.clear[:, j]
        return _EACH if clear.all() else f"clear in {name_tasks(labels[clear].tolist())}"
    return ruled_out if word == "not found" else ""


# -- sentences for people ------------------------------------------------------------------------------------

READING = {
    "odds_ratio": "An odds ratio of 1.5: with one unit more of the feature the odds are half as large again.",
    "rate_ratio": "A rate ratio of 1.5: with one unit more of the feature the rate is half as large again.",
}
_MOST_NAMED = 6
_MOST_LEVELS = 3  # columns that a sentence on levels lists each way
CURVE = "a curve, "  # what the note of a feature that is a curve begins with
AS_A_WHOLE = ", clear as a whole, not between these"  # ends, in that of a curve
_EACH = "clear in each"  # task, in the note of a feature
_SEPARATES = 1e4  # a ratio beyond which its size says nothing
_FEW = 2  # names that are told with their notes
LARGEST_RATIO, LARGEST_SHARE = 3.0, 0.5  # per s.d.: that effects are no larger says little


def ruled_out(reach: float, largest: float, ratio: str | None = None) -> str:
    """Which average effect per standard deviation of a feature its interval rules out.

    Parameters
    ----------
    reach : float
        The end of the interval that is further from zero, per standard deviation.
    largest : float
        An effect so large that to rule it out says little: half the spread of the target, for numbers.
    ratio : {"odds_ratio", "rate_ratio"}, optional
        What exp of the effect is, for classes and counts.

    Examples
    --------
    >>> ruled_out(0.4, 2.0)
    'an average effect above 0.4 per s.d. is ruled out'
    >>> ruled_out(0.4, np.log(5.0), "odds_ratio")
    'an average odds ratio above 1.49, or below 0.67, per s.d. is ruled out'
    >>> ruled_out(22500.0, 600.0)
    'the rows do not rule out even a large effect'
    """
    if not np.isfinite(reach):
        return ""
    if reach > largest:
        return "the rows do not rule out even a large effect"
    if ratio is None:
        return f"an average effect above {_number(reach)} per s.d. is ruled out"
    above, below = np.exp(reach), np.exp(-reach)
    what = ratio.replace("_", " ")
    return f"an average {what} above {_number(above)}, or below {_number(below)}, per s.d. is ruled out"


def in_sentences(
    rows: Sequence[Mapping[str, Any]], noun: str = "task", *, largest: float = np.inf
) -> list[str]:
    """Three sentences on the rows of `effects`: what holds everywhere, what differs, what is not found.

    Parameters
    ----------
    rows : sequence of dict
        The rows of `effects`.
    noun : str
        What a task is called.
    largest : float
        See `ruled_out`.

    Examples
    --------
    >>> row = {"feature": "age", "column": "age", "word": "everywhere", "note": ""}
    >>> row |= {"average": 0.5, "lower": 0.4, "upper": 0.6}
    >>> in_sentences([row], "hospital")[0]
    'Holds in every hospital: age 0.5 (0.4 to 0.6).'
    """
    said: dict[str, list[Mapping[str, Any]]] = {word: [] for word in WORDS}
    for row in rows:
        said[row["word"]].append(row)
    sizes = Counter(row["column"] for row in rows)
    return [_everywhere(said, noun), _differing(said, noun, sizes), _not_found(said, noun, sizes, largest)]


def _everywhere(said: Mapping[str, Sequence[Mapping[str, Any]]], noun: str) -> str:
    rows = said["everywhere"]
    if not rows:
        return f"Nothing was found to hold in every {noun}."
    quoted = [f"{row['feature']} {_quoted(row)}" for row in rows]
    return f"Holds in every {noun}: {_listed(quoted)}."


def _differing(said: Mapping[str, Sequence[Mapping[str, Any]]], noun: str, sizes: Counter[Any]) -> str:
    differs = [
        f"{row['feature']} {_quoted(row)}, in a new {noun} {_new_task(row)}" for row in said["differs"]
    ]
    whole = [row for row in said["on average"] if row["note"].endswith(AS_A_WHOLE)]
    average = [f"{row['feature']} {_quoted(row)}" for row in said["on average"] if row not in whole]
    each = [row for row in said["only in some"] if row["note"].endswith(_EACH)]
    some = [row for row in said["only in some"] if not row["note"].endswith(_EACH)]
    parts = [
        (differs, f"Differs between {plural(noun)}"),
        (average, f"Holds on average, and the rows do not tell whether in every {noun}"),
        (_names(whole, sizes), "Acts by a curve that is clear as a whole, not from quartile to quartile"),
        (_names(each, sizes), f"Clear in each {noun} by itself, with too few of them for an average"),
        (_with_notes(some, sizes), f"Only in some {plural(noun)}"),
    ]
    told = [f"{head}: {_listed(names)}" for names, head in parts if names]
    return ". ".join(told) + "." if told else f"Nothing was found to differ between {plural(noun)}."


def _not_found(
    said: Mapping[str, Sequence[Mapping[str, Any]]], noun: str, sizes: Counter[Any], largest: float
) -> str:
    rows, told = said["not found"], []
    known = [row for row in rows if np.isfinite(row["average"])]
    reaches = [max(abs(row["lower"]), abs(row["upper"])) * _sd(row) for row in known]
    told += [f"Not found: {_listed(_names(rows, sizes))}"] if rows else []
    said_of = [reach for reach in reaches if reach <= largest]
    if said_of:
        which = "each" if len(said_of) == len(rows) else f"{len(said_of)}"
        told.append(f"For {which} of these {ruled_out(max(said_of), largest, _ratio_of(known[0]))}")
    elif reaches:
        told.append("The rows do not rule out even a large effect of these")
    few = said["too few tasks"]
    levels = _names([row for row in few if row["n_tasks"] == 0], sizes)
    single = _names([row for row in few if row["n_tasks"] > 0], sizes)
    apart = said["cannot be told apart"]
    parts = [
        (levels, f"The same in all rows of each {noun}, and so told by its level only"),
        (single, f"Varies in one {noun} only"),
        (
            _with_notes(apart, sizes) if len(apart) <= _FEW else _names(apart, sizes),
            "Cannot be told apart" if len(apart) <= _FEW else "Cannot be told apart from other columns",
        ),
    ]
    told += [f"{head}: {_listed(names)}" for names, head in parts if names]
    return ". ".join(told) + "." if told else "Every feature was found to matter."


def _names(rows: Sequence[Mapping[str, Any]], sizes: Counter[Any]) -> list[str]:
    """The names of features; of several that are all those of a column, the name of the column."""
    here = Counter(row["column"] for row in rows)
    whole = {column for column, n in here.items() if n > 1 and n == sizes[column]}
    return list(dict.fromkeys(row["column"] if row["column"] in whole else row["feature"] for row in rows))


def _with_notes(rows: Sequence[Mapping[str, Any]], sizes: Counter[Any]) -> list[str]:
    """The names of features with their notes; of many levels of a column, how many they are."""
    here, told = Counter(row["column"] for row in rows), dict[str, str]()
    for row in rows:
        column = row["column"]
        if here[column] > _FEW:
            of = "all" if here[column] == sizes[column] else f"{here[column]} of"
            told.setdefault(column, f"{column} ({of} {sizes[column]} levels, such as {row['feature']})")
        else:
            told[row["feature"]] = f"{row['feature']} ({row['note']})"
    return list(told.values())


def _sd(row: Mapping[str, Any]) -> float:
    return abs(row["per_sd"] / row["average"]) if row["average"] else 0.0


def _ratio_of(row: Mapping[str, Any]) -> str | None:
    return next((name for name in READING if name in row), None)


def _is_curve(row: Mapping[str, Any]) -> bool:
    return bool(row["note"].startswith(CURVE))


def _new_task(row: Mapping[str, Any]) -> str:
    """What a new task may have: as a ratio for classes and counts, of a curve from quartile to quartile."""
    width = row["quartiles"] / row["average"] if _is_curve(row) else 1.0
    return " to ".join(_on_scale(row, width * row[f"new_task_{end}"]) for end in ("lower", "upper"))


def _quoted(row: Mapping[str, Any]) -> str:
    """The average of a row with its interval: as a ratio for classes and counts, of a curve by quartiles."""
    names = ("average", "lower", "upper")
    if _is_curve(row):
        names = ("quartiles", "quartiles_lower", "quartiles_upper")
    ratio, curve = _ratio_of(row), f"; {row['note'].split(';')[0]}" if _is_curve(row) else ""
    if ratio and abs(row[names[0]]) > np.log(_SEPARATES):  # one class has hardly any such row
        beyond = "over" if row[names[0]] > 0.0 else "below 1 /"
        return f"{ratio.partition('_')[0]} x {beyond} {_SEPARATES:.0f}"
    value, low, high = (_on_scale(row, row[name]) for name in names)
    return f"{ratio.partition('_')[0] + ' x ' if ratio else ''}{value} ({low} to {high}{curve})"


def _on_scale(row: Mapping[str, Any], effect: float) -> str:
    return _number(np.exp(np.clip(effect, -50.0, 50.0)) if _ratio_of(row) else effect)


def _number(value: float, digits: int = 3) -> str:
    return f"{float(f'{value:.{digits}g}'):.15g}"  # 50200 rather than 5.02e+04


def _listed(names: Sequence[str], most: int = _MOST_NAMED) -> str:
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


# -- levels --------------------------------------------------------------------------------------------------


def levels_in_words(
    found: Sequence[tuple[str, float, str]], spread: float | None, nouns: tuple[str, str], ratio: str = ""
) -> str:
    """What the levels of tasks follow, and how far they scatter beyond it, in one sentence.

    Parameters
    ----------
    found : sequence of (where, effect, per)
        Where levels differ ("sector is private", "beds is larger"), by how much, and for what (" per unit").
    spread : float or None
        Standard deviation of what remains; None where it was not found.
    nouns : tuple of str
        What one task and several are called.
    ratio : {"", "odds", "rate"}
        What levels are logarithms of.

    Examples
    --------
    >>> levels_in_words([("sector is private", 2.1, "")], 1.6, ("site", "sites"))
    'Sites are higher where sector is private (+2.1); what remains scatters by 1.6.'
    """
    many = nouns[1].capitalize()
    size = "" if spread is None else _number(np.exp(spread) if ratio else spread, 2)
    scatter = f"a factor of {size} in the {ratio}" if ratio else size
    if not found:
        return (
            f"{many} scatter by {scatter} in their level." if size
            else f"{many} are not found to differ in their level, beside what the features say."
        )  # fmt: skip
    parts = []
    for word, sign in (("higher", 1.0), ("lower", -1.0)):
        own = [
            f"where {where} ({f'{ratio} x {_number(np.exp(effect))}' if ratio else _signed(effect)}{per})"
            for where, effect, per in found
            if effect * sign > 0.0
        ]
        parts += [f"{word} {_listed(own, _MOST_LEVELS)}"] if own else []
    rest = f"what remains scatters by {scatter}" if size else "beyond that they are not found to differ"
    return f"{many} are {', and '.join(parts)}; {rest}."


def _signed(value: float) -> str:
    return ("+" if value > 0.0 else "") + _number(value, 2)
