"""The first screen of the report: how well, how far off, and what was found."""

import re
from typing import Any

import numpy as np

from mmtfl.inference.heldout_errors import half_widths, has_counts, reliability
from mmtfl.inference.quoted_effects import effect_sentences
from mmtfl.report.sentences import Noun, calibration, number
from mmtfl.wording import count

COVERAGE = 0.9
NOT_ASKED = "Not known: a search estimates effects, and a single fit does with effects=True."


def first_answers(
    model: Any, verdict: list[str], levels: list[str], noun: Noun
) -> list[tuple[str, list[str]]]:
    """The questions of the first screen with their answers.

    Parameters
    ----------
    model : fitted TaskModel
        A search has more to say than a plain model.
    verdict : list of str
        How well it predicts, the answer in the first sentence; empty where nothing is known.
    levels : list of str
        Sentences on the levels of the tasks.
    noun : tuple of str
        What one task and several are called.
    """
    found = [re.sub(r"(?<![\w.])-(?=\d)", "−", line) for line in effect_sentences(model)] or [NOT_ASKED]
    known = verdict[:1] or ["Nothing is known of new rows: the model was not tuned, and no table was given."]
    return [
        ("What matters?", [*found, *levels]),
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
    reach = half_widths(errors, COVERAGE)[:-1]
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
