"""The first screen of the report: how well it predicts, how far off it may be, and what matters."""

from typing import Any

import numpy as np

from mmtfl.estimators.effects import effect_sentences
from mmtfl.estimators.intervals import half_widths, reliability
from mmtfl.report.sentences import calibration, number
from mmtfl.wording import count

COVERAGE = 0.9
NOT_ASKED = (
    "What the model uses stands below; its effects were not asked for: fit a search (mmtfl cv), or a model "
    "with effects=True."
)


def first_answers(model: Any, verdict: list[str]) -> list[tuple[str, list[str]]]:
    """The questions of the first screen with their answers.

    Parameters
    ----------
    model : fitted TaskModel
        A search has more to say than a plain model.
    verdict : list of str
        How well it predicts, the answer in the first sentence; empty where nothing is known.
    """
    known = verdict[:1] or ["Nothing is known of new rows: the model was not tuned, and no table was given."]
    answers = [("How well does it predict?", known), ("How far off may it be?", [_errors(model)])]
    said = effect_sentences(model)
    if not said:
        return [*answers, ("What matters?", [NOT_ASKED])]
    questions = ("What holds everywhere?", "What differs?", "What was not found?")
    return [*answers, *((question, [one]) for question, one in zip(questions, said, strict=True))]


# -- predictions ---------------------------------------------------------------------------------------------


def _errors(model: Any) -> str:
    errors = getattr(model, "heldout_errors_", None)
    if errors is None and not getattr(model, "_errors_tell", True):
        return "Not known: there are intervals for the squared and the huber loss."
    if "agreement_" in vars(model) and errors is None:
        return "Not known here: the rows are at their sites, where mmtfl finish gives the model intervals."
    if errors is None:
        return (
            "Not known: a model that is tuned (mmtfl cv), or calibrated with rows that it was not fitted to "
            "(mmtfl calibrate), has intervals."
        )
    if "is_second" in errors:
        return calibration(reliability(errors))
    reach = half_widths(errors, COVERAGE)[:-1]
    borrowing = int(model.borrowing_tasks_.size)
    borrow = "borrows" if borrowing == 1 else "borrow"
    thin = f" {count(borrowing, 'task')} with few held-out rows {borrow} from all." if borrowing else ""
    return _of_numbers(reach) + thin


def _of_numbers(reach: np.ndarray) -> str:
    over = ""
    if len(reach) > 1:
        low, high = (number(float(end)) for end in (reach.min(), reach.max()))
        over = f" (median over {count(len(reach), 'task')}; from {low} to {high})"
    middle = number(float(np.median(reach)))
    return f"{COVERAGE:.0%} of new rows are expected within {middle} of the prediction{over}."
