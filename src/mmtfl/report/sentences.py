"""The sentences of the report, each by a rule on the numbers, good news or bad; and effects in words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.inference.effect_table import RATIOS, effect_rows, effect_sentences, task_effect_rows
from mmtfl.inference.heldout_errors import half_widths, has_counts, reliability
from mmtfl.inference.words import READING
from mmtfl.objective.losses import Loss
from mmtfl.report.evaluation import Evaluation
from mmtfl.report.judging import FEW_ROWS, LEVEL, HeldOut, Paired
from mmtfl.report.rivals import RIVALS
from mmtfl.report.summary import ModelSummary, Noun
from mmtfl.wording import count, with_article

MISSING, FAR_BELOW = "–", "far below 0"


def number(value: Any, digits: int = 3) -> str:
    """A number with a few significant digits, a true minus sign and no needless exponent."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace(",", " ").replace("-", "−")
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        digits = max(digits, 1 + math.floor(math.log10(abs(value))))  # whole numbers stay whole
        text = np.format_float_positional(value, precision=digits, unique=False, fractional=False, trim="-")
    else:
        text = np.format_float_scientific(value, precision=digits - 1, unique=False, trim="-", exp_digits=1)
        text = text.replace("e+", "e").replace(".e", "e")
    return text.replace("-", "−")


def with_interval(value: float, low: float, high: float) -> str:
    """A number with its interval, with as many decimals as the width of the interval leaves sense.

    Examples
    --------
    >>> from mmtfl.report.sentences import with_interval
    >>> with_interval(0.0834, 0.0727, 0.0941), with_interval(1234.5, 1100.2, 1369.9)
    ('0.083 (0.073 to 0.094)', '1234 (1100 to 1370)')
    >>> with_interval(0.0034, 0.000324, 0.0359)
    '0.0034 (0.00032 to 0.036)'
    """
    width, sizes = high - low, sorted((abs(low), abs(high)))
    if math.isnan(width) or math.isinf(width):
        return number(value) if math.isnan(low) else f"{number(value)} ({number(low)} to {number(high)})"
    is_wide = low * high > 0 and sizes[1] > 50 * sizes[0]  # each end with digits of its own
    if is_wide or width <= 1e-6 or abs(value) > 1e6:
        return f"{number(value, 2)} ({number(low, 2)} to {number(high, 2)})"
    decimals = max(0, 1 - math.floor(math.log10(width)))
    text = f"{value:.{decimals}f} ({low:.{decimals}f} to {high:.{decimals}f})"
    return text.replace("-", "−")


def shortened(value: float | None, digits: int = 4) -> float | None:
    """A number with few digits, for a script; None for none."""
    return None if value is None or math.isnan(value) else float(f"{value:.{digits}g}")


def score(value: float | None) -> str:
    """A score with two decimals, in words where it is far below zero."""
    if value is None or math.isnan(value):
        return MISSING
    return _plain(value).replace("-", "−")


def _plain(value: float) -> str:
    return f"{value:.2f}" if value > -10 else FAR_BELOW


def p_value(p: float) -> str:
    """A p-value with two digits."""
    if math.isnan(p):
        return MISSING
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def mean_and_range(coef: tuple[float, float, float]) -> str:
    """A mean with the range around it; the mean alone where all are the same."""
    mean, low, high = map(number, coef)
    return mean if low == high else f"{mean} ({low} to {high})"


@dataclass(frozen=True)
class Figure:
    """One number of the first screen, and the clause that names it."""

    value: str
    clause: str


def figures(evaluation: Evaluation, noun: Noun, target: str | None = None) -> list[Figure]:
    """How much of all differences is explained, and how much within a task; of classes, how it ranks."""
    found = evaluation.heldout or evaluation.saved
    if found is None:
        return []
    several = len(evaluation.labels) > 1
    if found.kind == "classes":
        share, error = found.concordance("own")
        event = target or "the event"
        pair = f"chance that a row with {event} is ranked above one without it"
        overall = Figure(f"{found.concordance_overall('own'):.2f}", f"{pair}; 0.5 is a coin")
        within = Figure(f"{share:.2f} ± {error:.2f}", f"the same for two rows of one {noun[0]}")
        return [overall, within] if several and not math.isnan(share) else [overall]
    of = f"differences in {target}" if target else "differences"
    within = _explained(
        found.explained_within("own"),
        f"of the {of} within {with_article(noun[0])} are explained",
        f"each {noun[0]}",
    )
    if not found.one_unit:
        return [within]
    overall = _explained(found.explained("own"), f"of all {of} between rows are explained", "all rows")
    return [overall, within] if several else [overall]


def _explained(share: float, clause: str, mean_of: str) -> Figure:
    below = f"; below 0 is worse than saying the mean of {mean_of}" if share < 0.0 else ""
    return Figure(percent(share), clause + below)


def percent(share: float) -> str:
    """A share in whole percent, with one decimal near none and all, and in words far below zero."""
    if math.isnan(share):
        return MISSING
    if share <= -10.0:
        return FAR_BELOW
    digits = 0 if 0.05 <= abs(share) <= 0.95 else 1
    return f"{100.0 * share:.{digits}f} %".replace("-", "−")


def verdict(evaluation: Evaluation, noun: Noun) -> list[str]:
    """How the model compares with its best rival, and what was left out."""
    found, best = evaluation.heldout, evaluation.best_rival
    if found is None or best is None:
        return []
    beside = found.beside("own", best)
    if beside is None:
        return [
            f"No {noun[0]} has {FEW_ROWS} held-out rows or more whose target varies: models are not compared."
        ]
    name, n = RIVALS[best].words.format(task=noun[0]), len(evaluation.rivals)
    of = f", the best of {count(n, 'rival')}" if n > 1 else ""
    does = _CLAUSES.get(beside.outcome, f"predicts {beside.outcome} than")
    line = f"On held-out rows this model{_favoured(evaluation)} {does} {name}{of}"
    lines = [line + ("." if beside.outcome == "the same" else f": {_by_how_much(found.kind, beside, noun)}.")]
    if best == "boosting" and beside.outcome == "worse":
        lines.append("Trees find here what lines do not: curves, or features that act together.")
    if found.kind == "classes":
        lines.append(_accuracy(found, noun))
    return lines + _left_out(evaluation, noun)


_CLAUSES = {
    "about equally well": "predicts about as well as",
    "the same": "predicts the same as",
    "cannot be told apart": "cannot be told apart from",
}
_ERRORS = {"numbers": "squared error", "classes": "log loss", "counts": "deviance"}


def _favoured(evaluation: Evaluation) -> str:
    """Words where the strength was chosen with the rows that it is judged by."""
    if evaluation.strength != "kept" or evaluation.seen is False:
        return ""
    return f", at a strength that {'was' if evaluation.seen else 'may have been'} chosen with these rows too,"


def _by_how_much(kind: str, beside: Paired, noun: Noun) -> str:
    size = f"its {_ERRORS[kind]} is {_times(beside.change)}"
    p = f"p {p_value(beside.p_value)}" if beside.p_value < 0.001 else f"p = {p_value(beside.p_value)}"
    if beside.outcome == "cannot be told apart" and beside.p_value < LEVEL:
        p = "the typical one and all rows together disagree"
    if beside.n_tasks == 1:
        return f"{size} ({p}, signed-rank test of {number(beside.n_units)} rows)"
    size += f" in the typical {noun[0]}, and smaller in {beside.n_better} of {beside.n_tasks}"
    over = f"over {noun[1]}" if beside.unit == "task" else f"of {number(beside.n_units)} rows"
    return f"{size} ({p}, signed-rank test {over})"


def _times(change: float) -> str:
    """A relative change of an error in words."""
    ratio = 1.0 + change
    if ratio >= 2.0:
        return f"{number(ratio, 2)} times as large"
    if ratio < 0.01:
        return "less than a hundredth"
    size = 100.0 * abs(change)
    digits = f"{size:.0f}" if size >= 9.5 else f"{size:.1g}" if size < 1 else f"{size:.1f}"
    return f"{digits} % {'larger' if change > 0 else 'smaller'}"


def _accuracy(found: HeldOut, noun: Noun) -> str:
    right = float(np.mean((found.means["own"] > 0.5) == (found.y > 0)))
    n = np.maximum(np.bincount(found.task, minlength=found.n_tasks), 1)
    second = np.bincount(found.task, found.y, minlength=found.n_tasks) / n
    common = float(np.maximum(second, 1.0 - second)[found.task].mean())
    return (
        f"It gets {100.0 * right:.1f} % of the held-out rows right; saying the commoner class of each "
        f"{noun[0]} always gets {100.0 * common:.1f} % right."
    )


def _left_out(evaluation: Evaluation, noun: Noun) -> list[str]:
    """Tasks that the models are not judged by, counted and named."""
    found = evaluation.heldout
    if found is None or found.counted.all():
        return []
    names = [
        str(label)
        for label, counts in zip(evaluation.labels[: found.n_tasks], found.counted, strict=True)
        if not counts
    ]
    rows = "held-out rows" if found.kind != "classes" else "held-out rows of the rarer class"
    do = "does not count by itself" if len(names) == 1 else "do not count by themselves"
    return [
        f"{count(len(names), noun[0], noun[1])} with fewer than {FEW_ROWS} {rows}, or whose target does not "
        f"vary, {do}: {few(names)}."
    ]


def few(names: list[str], most: int = 5) -> str:
    """List the first names, long ones shortened."""
    shown = [name if len(name) <= 30 else name[:29] + "…" for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def explained(kind: str, share: float, error: float = math.nan) -> str:
    """A share that is explained in percent, or of pairs that are ranked rightly with its standard error."""
    if kind != "classes":
        return percent(share)
    return MISSING if math.isnan(share) else f"{share:.2f}" + ("" if math.isnan(error) else f" ± {error:.2f}")


# -- the first screen ----------------------------------------------------------------------------------------


def first_answers(model: Any, verdict: list[str], levels: str, noun: Noun) -> list[tuple[str, list[str]]]:
    """The questions of the first screen with their answers.

    Parameters
    ----------
    model : fitted TaskModel
        A search has more to say than a plain model.
    verdict : list of str
        How well it predicts, the answer in the first sentence; empty where nothing is known.
    levels : str
        What the levels of the tasks follow.
    noun : tuple of str
        What one task and several are called.
    """
    found = [re.sub(r"(?<![\w.])-(?=\d)", "−", line) for line in effect_sentences(model)]
    found = found or ["Not known: a search estimates effects, and a single fit does with effects=True."]
    known = verdict[:1] or ["Nothing is known of new rows: the model was not tuned, and no table was given."]
    return [
        ("What matters?", [*found, levels] if levels else found),
        ("How well does it predict?", known),
        ("How far off may it be?", [_errors(model, noun)]),
    ]


def _errors(model: Any, noun: Noun) -> str:
    errors = getattr(model, "heldout_errors_", None)
    if errors is None and not getattr(model, "_errors_tell", True):
        return "Not known: there are intervals where all tasks have numbers, or all have counts."
    if "agreement_" in vars(model) and errors is None:
        return "Not known here: the rows are at their sites, where mmtfl finish gives the model intervals."
    if errors is None:
        return (
            "Not known: a model that is tuned (mmtfl cv), or calibrated with rows that it was not fitted to "
            "(mmtfl calibrate), has intervals."
        )
    if "is_second" in errors:
        return calibration(reliability(errors))
    if has_counts(getattr(model, "_loss", None)):
        return "90 % of new counts are expected within the intervals of mmtfl predict --interval 0.9."
    reach = half_widths(errors, 0.9)[:-1]
    borrowing = int(model.borrowing_tasks_.size)
    have = "has" if borrowing == 1 else "have"
    thin = f" {count(borrowing, *noun)} with few held-out rows {have} the errors of all." if borrowing else ""
    return _of_numbers(reach, noun) + thin


def _of_numbers(reach: np.ndarray, noun: Noun) -> str:
    over = ""
    if len(reach) > 1:
        low, high = (number(float(end)) for end in (reach.min(), reach.max()))
        over = f" (median over {count(len(reach), *noun)}; from {low} to {high})"
    middle = number(float(np.median(reach)))
    return f"90 % of new rows are expected within {middle} of the prediction{over}."


# -- the search ----------------------------------------------------------------------------------------------


PLAIN_SCORES = {"r2": "R^2", "deviance_explained": "deviance explained"}  # of targets that are numbers


def heldout_headline(search: Any, noun: Noun = ("task", "tasks")) -> str:
    """How well the held-out rows of a `SearchSummary` were predicted, in one line.

    The command line and the report show the same numbers: those of ``heldout_scores_``. Classes have the
    share of all pairs within tasks that are ranked rightly, so that a task of two events does not count as
    much as one of a hundred.
    """
    return f"Held-out {scores_in_words(search.held_out, noun)}; {count(search.n_folds, 'fold')}"


def scores_in_words(table: Mapping[str, Any], noun: Noun) -> str:
    """The name of the score, and what the tasks have, from columns as in ``heldout_scores_``."""
    n_rows = np.array(table["n_rows"], dtype=float)  # NaN for a task that was added
    for key, name in PLAIN_SCORES.items():
        if key in table:
            return f"{name}: {_over_tasks(_floats(table[key]), n_rows, noun)}"
    auc, accuracy, base = (_floats(table[name]) for name in ("auc", "accuracy", "base_rate"))
    right, commoner = float(np.nanmean(accuracy)), float(np.nanmean(base))
    beside = f"accuracy {right:.3f} (always the commoner class: {commoner:.3f})"
    return f"AUC: {_over_pairs(auc, n_rows, base, noun)}; {'' if len(n_rows) == 1 else 'mean '}{beside}"


def _floats(values: Any) -> np.ndarray:
    """Scores as numbers, NaN for None and for those of predictions that left the floats."""
    scores = np.array(values, dtype=float)
    return np.where(scores <= 1.0, scores, np.nan)


def _over_pairs(auc: np.ndarray, n_rows: np.ndarray, base_rate: np.ndarray, noun: Noun) -> str:
    rarer = n_rows * (1.0 - base_rate)
    known = ~np.isnan(auc) & (rarer > 0)
    if not known.any():
        return "not defined"
    share = np.average(auc[known], weights=(rarer * (n_rows - rarer))[known])
    within = f" over all pairs within {count(int(known.sum()), *noun)}" if len(auc) > 1 else ""
    return f"{share:.2f}{within}"


def _over_tasks(scores: np.ndarray, n_rows: np.ndarray, noun: Noun) -> str:
    """Median and mean of the scores of tasks, those with a handful of rows apart."""
    known, few = ~np.isnan(scores), n_rows < FEW_ROWS
    only_few = not np.any(known & ~few)
    few = few & (not only_few)
    counted = scores[known & ~few]
    if not counted.size:
        return "not defined"
    value = _plain(np.median(counted))
    each = f"each {noun[0]}" if len(counted) > 1 else "all rows"
    below = f"; below 0 is worse than saying the mean of {each}" if np.median(counted) < 0.0 else ""
    if len(counted) > 1:
        value = f"median {value} over {len(counted)} {noun[1]} (mean {_plain(counted.mean())})"
    if only_few:
        value += f", fewer than {FEW_ROWS} held-out rows {'each' if len(counted) > 1 else 'only'}"
    for mask, why in ((few, f"with fewer than {FEW_ROWS} held-out rows"), (~known & ~few, "without a score")):
        value += f", {count(int(mask.sum()), *noun)} {why} apart" if mask.any() else ""
    return value + below


def search_headline(summary: ModelSummary) -> str | None:
    """The held-out score of the search in one sentence, for a report without a table."""
    if summary.search is None:
        return None
    return heldout_headline(summary.search, summary.noun).replace("R^2", "R²").replace(" -", " −") + "."


def calibration(curve: dict[str, np.ndarray]) -> str:
    """How far off a classifier's probabilities are on held-out rows, from its reliability curve."""
    off = float(np.average(np.abs(curve["probability"] - curve["share"]), weights=curve["n_rows"]))
    n_bins = count(len(curve["share"]), "bin")
    return f"On held-out rows the probability is off by {off:.3f} on average over {n_bins}."


def pair(member: tuple[float, float | str]) -> str:
    """(p, k) as it is written."""
    words = [value if isinstance(value, str) else f"{value:g}".replace("inf", "∞") for value in member]
    return f"({', '.join(words)})"


MOST_NUMBERS = 40_000  # effects of single tasks that a page keeps for its forests


class EffectPage:
    """The rows of ``model.effects()``, largest evidence first, and what they are called.

    Attributes
    ----------
    rows : list of dict
        The numbers of each feature.
    ratio : str
        "odds_ratio" or "rate_ratio", where effects are read as ratios; else "".
    title : str
        What the averages are called.
    references : dict of str to str
        The level that the levels of each column of words are compared with.
    """

    def __init__(self, model: Any, coverage: float = 0.9):
        self._model, self._coverage = model, coverage
        self.rows = effect_rows(model, coverage)
        self.ratio = RATIOS.get(model._loss.name, "")
        self.title = self.ratio.replace("_", " ").capitalize() or "Average effect"
        codes = getattr(getattr(model, "encoder_", None), "codes_", ())
        self.references = {code.name: code.reference for code in codes if code.kind == "word"}

    @classmethod
    def of(cls, model: Any, coverage: float = 0.9) -> EffectPage | None:
        """The effects of a fitted model; None where it was fitted without them, or they have no average."""
        is_known = getattr(model, "effects_", None) is not None and isinstance(model._loss, Loss)
        return cls(model, coverage) if is_known else None

    # -- the table -----------------------------------------------------------------------------------------

    def table(self, most: int) -> list[dict[str, Any]]:
        """What the table says of the first features."""
        return [
            {
                "name": row["feature"],
                "average": self._interval(row, ""),
                "quartiles": self._interval(row, "quartiles"),
                "spread": number(row["spread"], 2),
                "new": self._range(row["new_task_lower"], row["new_task_upper"]),
                "p": p_value(row["p"]),
                "q": p_value(row["q"]),
                "word": row["word"],
                "kind": row["word"].replace(" ", "-"),
                "note": row["note"],
            }
            for row in self.rows[:most]
        ]

    def _interval(self, row: dict[str, Any], name: str) -> str:
        ends = (f"{name}_lower", f"{name}_upper") if name else ("lower", "upper")
        values = [float(self.shown(row[part])) for part in (name or "average", *ends)]
        return MISSING if np.isnan(values[0]) else with_interval(*values)

    def _range(self, low: float, high: float) -> str:
        ends = (number(float(self.shown(end)), 2) for end in (low, high))
        return " to ".join(ends) if np.isfinite([low, high]).all() else MISSING

    def shown(self, effect: Any) -> Any:
        """An effect, or the ratio that it is."""
        return np.exp(np.clip(effect, -50.0, 50.0)) if self.ratio else effect

    # -- what is said about it -------------------------------------------------------------------------------

    def reading(self, target: str | None) -> str:
        """One line on how to read the numbers."""
        what = target or "the target"
        usual = f"An effect is the change of {what} for each unit of the feature, the others held."
        return READING.get(self.ratio, usual)

    def compared_with(self) -> str:
        """What levels are compared with; not of columns whose levels are of one task each."""
        varies = {row["column"] for row in self.rows if row["n_tasks"] > 1}
        named = [f"{name} {level}" for name, level in self.references.items() if name in varies]
        return f"Levels are compared with: {few(named)}." if named else ""

    def notes(self, most: int, n_tasks: int, noun: Noun) -> list[str]:
        """What to know of the first features: their notes, and those that not all tasks tell of."""
        alone = Counter(
            row["column"] for row in self.rows if row["n_tasks"] < 2 and row["column"] != row["feature"]
        )
        nested = {column: n for column, n in alone.items() if n > 2}
        told = [row for row in self.rows[:most] if row["column"] not in nested or row["n_tasks"] > 1]
        telling = ("only in some", "cannot be told apart")
        notes = [
            f"{row['feature']}: {row['note']}." for row in told if row["note"] and row["word"] in telling
        ]
        fewer = [f"{row['feature']} in {row['n_tasks']}" for row in told if row["n_tasks"] < n_tasks]
        notes += [f"Not all of the {n_tasks} {noun[1]} tell: {', '.join(fewer)}."] if fewer else []
        return notes + [
            f"{column}: {n} of its levels are of one {noun[0]} each, and compared with others of it."
            for column, n in nested.items()
        ]

    # -- what the script draws -------------------------------------------------------------------------------

    def embedded(self, noun: Noun) -> dict[str, Any]:
        """Numbers of the forests, on the scale of the linear predictor, and the facts of each card."""
        most = max(MOST_NUMBERS // (4 * len(self._model.tasks_)), 1)
        known = [row for row in self.rows if np.isfinite(row["average"]) or row["n_tasks"] > 0][:most]
        forests = {row["feature"]: self._forest(row) for row in known}
        return {
            "isRatio": bool(self.ratio),
            "title": self.title,
            "features": [
                {"name": row["feature"], "facts": self._facts(row, noun), **forests.get(row["feature"], {})}
                for row in self.rows[: MOST_NUMBERS // 20]
            ],
        }

    def _forest(self, row: dict[str, Any]) -> dict[str, Any]:
        every = task_effect_rows(self._model, row["feature"], self._coverage)
        own = [(t, one) for t, one in enumerate(every) if np.isfinite(one["effect"])]
        names = ("effect", "lower", "upper", "shrunk")
        return {
            "tasks": [t for t, _ in own],
            "rows": [one["n_rows"] for _, one in own],
            **{name: [shortened(one[name]) for _, one in own] for name in names},
            "average": [shortened(row[name]) for name in ("average", "lower", "upper")],
            "new": [shortened(row[f"new_task_{end}"]) for end in ("lower", "upper")],
        }

    def _facts(self, row: dict[str, Any], noun: Noun) -> list[tuple[str, str]]:
        """Everything else that is known of a feature, as name and value."""
        spread, (one, many) = number(row["spread"], 2), (noun[0], noun[1].capitalize())
        if np.isfinite([row["spread_lower"], row["spread_upper"]]).all():
            spread += f" ({number(row['spread_lower'], 2)} to {number(row['spread_upper'], 2)})"
        share = row["same_direction"]
        facts = [
            (f"{self.title} per unit", self._interval(row, "")),
            ("From lower to upper quartile", self._interval(row, "quartiles")),
            ("Per standard deviation", number(float(self.shown(row["per_sd"])))),
            (f"A new {one}", self._range(row["new_task_lower"], row["new_task_upper"])),
            (f"Spread between {noun[1]}" + (", log scale" if self.ratio else ""), spread),
            (f"{many} with the same direction", MISSING if np.isnan(share) else f"{100.0 * share:.0f} %"),
            (f"{many} in which it varies", number(row["n_tasks"])),
            ("p, and q over features", f"{p_value(row['p'])}, {p_value(row['q'])}"),
        ]
        if row["column"] in self.references:
            facts.append(("Compared with", self.references[row["column"]]))
        if row["column"] != row["feature"]:
            facts.append((f"All of {row['column']}, p", p_value(row["p_column"])))
        return [*facts, *([("In a word", f"{row['word']}: {row['note']}")] if row["note"] else [])]
