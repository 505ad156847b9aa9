"""What half samples say about the features, in sentences; `docs/how_sure.md` has the rules behind them."""

from __future__ import annotations

from typing import Any

from mmtfl.tasks.frames import abbreviate
from mmtfl.tasks.wording import count

__all__ = ["in_which_tasks", "support_sentences"]


def support_sentences(found: Any) -> list[str]:
    """How many features are supported where, how sure that is, and what could not be decided.

    Parameters
    ----------
    found : Stability or None
        ``stability_`` of a search; None gives no sentence.
    """
    if found is None:
        return []
    words = found.supported_.tolist()
    n_all, n_some, n_one, n_none, n_open = (
        words.count(word) for word in ("all", "some", "one", "none", "undecided")
    )
    pairs = f"{count(found.n_pairs_, 'pair')} of half samples"
    how = f"{pairs}, statements wrong in at most {found.level_:.0%}"
    if n_all + n_some + n_one == 0:
        first = f"Nothing was found: no feature is supported in any task ({how}; undecided: {n_open})."
    else:
        first = (
            f"Supported ({how}): {count(n_all, 'feature')} in all tasks, {n_some} in some, {n_one} in one; "
            f"{n_none} in none, {n_open} undecided."
        )
    return [first, *_named(found), _promise(found)]


def _named(found: Any) -> list[str]:
    """The features that are supported, most frequent first."""
    order = (-found.feature_frequency_).argsort(kind="stable").tolist()
    parts = [
        f"{where}: {abbreviate(names)}"
        for word, where in (("all", "in all tasks"), ("some", "in some"), ("one", "in one"))
        if (names := [found.feature_names_[j] for j in order if found.supported_[j] == word])
    ]
    text = "; ".join(parts)
    return [f"{text[0].upper()}{text[1:]}."] if parts else []


def _promise(found: Any) -> str:
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
    """Where feature j is supported: "all tasks", "2 tasks (a, b)", "one task (c)", "none", "undecided"."""
    if found is None:
        return None
    word, tasks = str(found.supported_[j]), found.supporting_tasks(j)
    named = [str(label) for label in tasks]
    if word == "one":
        return f"one task ({named[0]})" if named else "one task"
    if word == "some":
        return f"some tasks ({abbreviate(named)})" if named else "some tasks"
    return "all tasks" if word == "all" else word
