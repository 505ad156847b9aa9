"""The sentences of the report: what was found, said plainly, also when it is not what one hoped for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mmtfl.data.words import count
from mmtfl.report.evaluation import ALTERNATIVES, Comparison, Evaluation
from mmtfl.report.headline import heldout_headline
from mmtfl.report.summary import ModelSummary

ALTERNATIVE_NAMES = {"pooled": "one pooled model", "separate": "separate models"}
MISSING = "–"
VISIBLE = 0.005  # a difference of scores that two decimals show
ROUNDING = 1e-9


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


def score(value: float | None) -> str:
    """A score with two decimals."""
    if value is None:
        return MISSING
    return (f"{value:.2f}" if value > -10 else f"{value:.0f}").replace("-", "−")


def gain(value: float) -> str:
    """The size of a difference of scores, with as many digits as it needs."""
    return f"{abs(value):.2f}" if abs(value) >= 0.01 else f"{abs(value):.1g}"


def verdict(evaluation: Evaluation) -> list[str]:
    """Which of the three predicts best, by how much, and in how many tasks."""
    means = {who: evaluation.mean(who) for who in ("own", *ALTERNATIVES)}
    known = {who: mean for who, mean in means.items() if mean is not None}
    if "own" not in known:
        return []
    others = [f"{score(known[who])} for {ALTERNATIVE_NAMES[who]}" for who in ALTERNATIVES if who in known]
    line = f"mean {evaluation.metric} {score(known['own'])} over tasks, against {' and '.join(others)}."
    winner = clear_winner(evaluation)
    if winner == "own":
        first = f"this model predicts best: {line}"
    elif winner is None:
        *alike, last = ["this model", *(ALTERNATIVE_NAMES[who] for who in _rivals(evaluation))]
        first = f"{', '.join(alike)} and {last} predict about equally well: {line}"
    else:
        verb = "predict" if winner == "separate" else "predicts"
        first = f"{ALTERNATIVE_NAMES[winner]} {verb} better than this model: {line}"
    return [
        f"On held-out rows {first}",
        *(_beside(who, evaluation.against(who)) for who in ALTERNATIVES if who in known),
    ]


def clear_winner(evaluation: Evaluation) -> str | None:
    """The one with the largest mean score; None if between it and the model it may be chance."""
    means = {who: mean for who in ("own", *ALTERNATIVES) if (mean := evaluation.mean(who)) is not None}
    best = max(means, key=lambda who: means[who], default=None)
    rivals = _rivals(evaluation)
    return None if best in rivals or (best == "own" and rivals) else best


def _rivals(evaluation: Evaluation) -> list[str]:
    """Alternatives whose difference to the model is within what chance gives, or too small to matter."""
    found = {who: evaluation.against(who) for who in ALTERNATIVES}
    return [
        who
        for who, beside in found.items()
        if beside is not None and (beside.is_chance or abs(beside.difference) < VISIBLE)
    ]


def _beside(who: str, found: Comparison | None) -> str:
    assert found is not None  # both columns have scores
    name = ALTERNATIVE_NAMES[who]
    if abs(found.difference) < ROUNDING:
        return f"Beside {name} there is no difference."
    word = "better" if found.difference > 0 else "worse"
    error = "" if found.error is None else f" (standard error over tasks {gain(found.error)})"
    chance = " This is within what chance gives." if found.is_chance else ""
    return (
        f"Beside {name} this model is {word} by {gain(found.difference)} on average{error}; it has the "
        f"larger score in {found.n_better} of {count(found.n_tasks, 'task')}.{chance}"
    )


def caution(evaluation: Evaluation, *, tuned: bool) -> list[str]:
    """How far the scores can be trusted."""
    where = {
        True: "The table is the one the model was trained on: scores of the model as saved are optimistic.",
        None: "It is not known whether the model was trained on this table: take scores of the model as "
        "saved as optimistic.",
        False: "The table is not the one the model was trained on: scores of the model as saved are a fair "
        "test, unless some rows are in both.",
    }[evaluation.seen]
    if evaluation.n_folds is None:
        return [where]
    lines = [
        where,
        f"The comparison is fairer: the rows were cut in {evaluation.n_folds} parts, each predicted by "
        "models that were fitted again without it. Pooled and separate models are the better of ridge and "
        "lasso, with a strength chosen inside the training part.",
    ]
    if tuned and evaluation.seen is not False:
        lines.append("The strength of this model was chosen with all rows, which favours it a little.")
    return lines


def search_headline(summary: ModelSummary) -> str | None:
    """What the search says of predictions, for a report without a table."""
    search = summary.search
    if search is None:
        return None
    headline = heldout_headline(search, r2="R²", show=score)
    if headline is not None:
        return headline + "."
    line = f"In the search, the score on held-out rows was {number(search.best_score)} ({search.score_name})"
    without = search.score_without_features
    if without is not None and without < 0 and search.best_score < 0:
        saved = 1 - search.best_score / without
        line += f": the loss is {saved:.0%} smaller than without any feature"
    return line + "."


def how_chosen(summary: ModelSummary) -> str:
    """How the strength, and (p, k), came about."""
    strengths = ", ".join(_strength(name, value) for name, value in summary.strengths.items())
    search = summary.search
    if search is None:
        return f"The strength was given, not chosen: {strengths}."
    folds = f"{search.n_folds}-fold cross-validation over {search.n_candidates} candidates"
    member = (
        "" if summary.member is None or len(search.curves) < 2 else f"(p, k) = {pair(summary.member)} and "
    )
    if isinstance(next(iter(summary.strengths.values())), list):
        member = ""
    rule = "the best mean score"
    if search.selection == "one_se":
        rule = "the strongest penalty within one standard error of the best mean score"
    return f"By {folds}, {member}{strengths} had {rule} on held-out rows."


def _strength(name: str, value: float | list[float]) -> str:
    if not isinstance(value, list):
        return f"{name} = {number(value)}"
    return f"{name} from {number(min(value))} to {number(max(value))} (each task has its own)"


def pair(member: tuple[float, float | str]) -> str:
    """(p, k) as it is written."""
    p, k = member
    return f"({_plain(p)}, {_plain(k)})"


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else ("∞" if math.isinf(value) else f"{value:g}")
