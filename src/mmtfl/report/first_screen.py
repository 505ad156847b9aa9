"""The first screen of the report: how well, how sure, what everywhere, what somewhere, what is undecided."""

from typing import Any

import numpy as np

from mmtfl.estimators.intervals import half_widths, reliability
from mmtfl.estimators.supported_features import SOMEWHERE, features_with, in_which_tasks, promise
from mmtfl.report.sentences import calibration, number
from mmtfl.wording import count

COVERAGE = 0.9
_MOST_NAMED = 6  # features that matter somewhere, each with its tasks
_MOST_LISTED = 12
NOT_ASKED = (
    "What the model uses stands below; what the rows support was not asked: fit a search with stability=50 "
    "(mmtfl cv --stability 50)."
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
    found = getattr(model, "stability_", None)
    known = verdict[:1] or ["Nothing is known of new rows: the model was not tuned, and no table was given."]
    answers = [("How well does it predict?", known), ("How far off may it be?", [_errors(model)])]
    if found is None:
        return [*answers, ("What matters?", [NOT_ASKED])]
    return [
        *answers,
        ("What matters everywhere?", [_everywhere(found)]),
        ("What matters somewhere?", _somewhere(found)),
        ("What could not be decided?", [_undecided(found)]),
        ("How sure is that?", _how_sure(found)),
    ]


# -- predictions ---------------------------------------------------------------------------------------------


def _errors(model: Any) -> str:
    errors = getattr(model, "heldout_errors_", None)
    if errors is None and not getattr(model, "_errors_tell", True):
        return "Not known: there are intervals for the squared and the huber loss."
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


# -- features ------------------------------------------------------------------------------------------------


def _everywhere(found: Any) -> str:
    names = features_with(found, "all")
    return f"{_listed(names)}." if names else "Nothing was found to matter in all tasks."


def _somewhere(found: Any) -> list[str]:
    names = [name for word in SOMEWHERE[1:] for name in features_with(found, word)]
    if not names:
        return ["Nothing was found to matter in some tasks only."]
    at = [found.feature_names_.index(name) for name in names[:_MOST_NAMED]]
    lines = [f"{found.feature_names_[j]}: {in_which_tasks(found, j)}." for j in at]
    more = names[_MOST_NAMED:]
    return [*lines, f"And {count(len(more), 'more feature')}: {_listed(more)}."] if more else lines


def _listed(names: list[str]) -> str:
    more = [f"{len(names) - _MOST_LISTED} more"] if len(names) > _MOST_LISTED else []
    return ", ".join([*names[:_MOST_LISTED], *more])


def _undecided(found: Any) -> str:
    names, n_none = features_with(found, "undecided"), int((found.supported_ == "none").sum())
    nowhere = (
        f" As far as the rows tell, {count(n_none, 'feature')} matter{'s' if n_none == 1 else ''} nowhere."
    )
    first = f"{count(len(names), 'feature')}: {_listed(names)}." if names else "Nothing."
    return first + (nowhere if n_none else "")


def _how_sure(found: Any) -> list[str]:
    said = found.probability_[np.isin(found.supported_, SOMEWHERE)]
    lines = [promise(found)]
    if said.size:
        lines.insert(
            0,
            f"Each statement has a probability of at least {1.0 - found.level_:.0%}, {said.mean():.0%} on "
            f"average ({count(found.n_pairs_, 'pair')} of half samples, and tests within the tasks).",
        )
    return lines
