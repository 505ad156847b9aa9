"""What half samples say about the features, in sentences; `docs/how_sure.md` has the rules behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmtfl.estimators.supported_features import SOMEWHERE, SUPPORTED
from mmtfl.tasks.wording import abbreviate, count

__all__ = ["in_which_tasks", "named", "promise", "support_sentences"]


def support_sentences(found: Any) -> list[str]:
    """How many features are supported where, how sure that is, and what could not be decided.

    Parameters
    ----------
    found : Stability or None
        ``stability_`` of a search; None gives no sentence.
    """
    if found is None:
        return []
    n = {word: int((found.supported_ == word).sum()) for word in SUPPORTED}
    how = f"{count(found.n_pairs_, 'pair')} of half samples"
    if not any(n[word] for word in SOMEWHERE):
        first = (
            f"Nothing was found: no feature is supported in any task ({how}; undecided: {n['undecided']})."
        )
        return [first, promise(found)]
    said = found.probability_[np.isin(found.supported_, SOMEWHERE)]
    sure = f"statements with a probability of at least {1.0 - found.level_:.0%}, {said.mean():.0%} on average"
    first = (
        f"Supported ({how}; {sure}): {count(n['all'], 'feature')} in all tasks, {n['some']} in some, "
        f"{n['several']} in several (two or more, perhaps all), {n['one']} in one; {n['none']} in none, "
        f"{n['undecided']} undecided."
    )
    return [first, *_named(found), promise(found)]


def named(found: Any, word: str) -> list[str]:
    """The features of which this is said, most frequent first."""
    order = (-found.feature_frequency_).argsort(kind="stable").tolist()
    return [found.feature_names_[j] for j in order if found.supported_[j] == word]


def _named(found: Any) -> list[str]:
    """The features that are supported, by their words."""
    parts = [
        f"{where}: {abbreviate(names)}"
        for word, where in zip(SOMEWHERE, ("in all tasks", "in some", "in several", "in one"), strict=True)
        if (names := named(found, word))
    ]
    text = "; ".join(parts)
    return [f"{text[0].upper()}{text[1:]}."]


def promise(found: Any) -> str:
    """How many of the selected features are expected to be false."""
    n, share = int(found.selected_.sum()), f"at least {found.threshold_:.0%} of the half samples"
    if found.threshold_ == 1.0:
        share = "all half samples"
    if not n:
        return f"No feature is selected: none is kept by {share}."
    which = f"{count(n, 'feature')} {'is' if n == 1 else 'are'} kept by {share}"
    if found.promises_:
        return f"{which}; at most {found.bound_:.2g} of these are expected to be false."
    return (
        f"{which}, but nothing can be promised of how many of these are false: half samples keep too large a "
        "part of all features."
    )


def in_which_tasks(found: Any, j: int) -> str | None:
    """Where feature j is supported: "all tasks", "some tasks (a, b)", "one task (c)", "none", "undecided"."""
    if found is None:
        return None
    word, tasks = str(found.supported_[j]), found.supporting_tasks(j)
    labels = [str(label) for label in tasks]
    if word == "one":
        return f"one task ({labels[0]})" if labels else "one task"
    if word in ("some", "several"):
        which = f"{word} tasks" if word == "some" else "two or more tasks, perhaps all"
        return f"{which} ({abbreviate(labels)})" if labels else which
    if word != "all":
        return word
    unknown = [str(label) for label in found.untested_tasks(j)]
    return f"all tasks that could be tested (not {abbreviate(unknown)})" if unknown else "all tasks"
