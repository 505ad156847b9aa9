"""What was expected of the results, judged on the numbers of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mmtfl_lab.paper.methods import MEMBERS, METHODS
from mmtfl_lab.paper.problems import PROBLEMS
from mmtfl_lab.paper.results import Results, summaries

__all__ = ["Verdict", "to_markdown", "verdicts"]


@dataclass(frozen=True)
class Verdict:
    """One expectation: whether it held, and by what numbers."""

    claim: str
    holds: bool
    numbers: str


def verdicts(results: Results) -> list[Verdict]:
    """Judge every expectation that the run has the numbers for.

    Parameters
    ----------
    results : Results
        Finished cells.

    Returns
    -------
    list of Verdict
        In the order of the rows.
    """
    return [verdict for row in results.rows for verdict in _of_row(results, *row)]


def _of_row(results: Results, dataset: str, fraction: float) -> Iterator[Verdict]:
    where = f"{PROBLEMS[dataset].title} at {100 * fraction:g} %"
    have = {
        name: found
        for name in results.plan.methods
        if (found := results.headline(dataset, fraction, name)) is not None
    }
    members = [name for name in MEMBERS if name in have]
    if dataset == "D1" and "mmtfl21" in have and len(have) > 1:
        yield _first(results, dataset, fraction, "mmtfl21", have, errors=0.0)
    if dataset == "D2" and "mmtfl12" in have and len(have) > 1:
        yield _first(results, dataset, fraction, "mmtfl12", have, errors=1.0)
    if dataset == "sarcos" and fraction == 0.25 and members:
        for score, least in (("pooled", 0.91), ("mean", 0.875)):
            yield _at_least(results, dataset, fraction, members, score, least)
    if dataset == "usps" and fraction == 0.25 and members:
        yield _at_least(results, dataset, fraction, members, "mean", 0.92)
    if "auto" in have and len(members) == len(MEMBERS):
        top = max(members, key=lambda name: have[name].mean)
        gap = have[top].mean - have["auto"].mean
        numbers = f"{have['auto'].mean:.3f} against {have[top].mean:.3f} of {METHODS[top].title}"
        yield Verdict(f"{where}: MMTFL(auto) within 0.01 of the best member", gap <= 0.01, numbers)
    if PROBLEMS[dataset].file is not None and "stl" in have:
        for name in members:
            yield _not_below(results, dataset, fraction, name)


def _first(
    results: Results, dataset: str, fraction: float, name: str, have: dict, *, errors: float
) -> Verdict:
    """First among all methods but auto, or within so many standard errors of the paired difference."""
    others = [other for other in have if other not in (name, "auto")]
    rival = max(others, key=lambda other: have[other].mean)
    mean, error = _paired(results, dataset, fraction, name, rival)
    rank = "first" if errors == 0.0 else "first, or within a standard error of it"
    claim = f"{PROBLEMS[dataset].title} at {100 * fraction:g} %: {METHODS[name].title} {rank}"
    numbers = (
        f"{have[name].mean:.3f}, next {METHODS[rival].title} {have[rival].mean:.3f}, "
        f"difference {mean:+.3f} ± {error:.3f}"
    )
    return Verdict(claim, bool(mean >= -errors * error), numbers)


def _at_least(
    results: Results, dataset: str, fraction: float, members: list[str], score: str, least: float
) -> Verdict:
    found = summaries(results, (dataset, fraction), members, score)
    top = max(found, key=lambda name: found[name].mean)
    average = {"pooled": "all test rows", "mean": "mean over tasks"}[score]
    claim = f"{PROBLEMS[dataset].title} at {100 * fraction:g} %, {average}: at least {least:g}"
    return Verdict(claim, found[top].mean >= least, f"{found[top].mean:.4f} by {METHODS[top].title}")


def _not_below(results: Results, dataset: str, fraction: float, name: str) -> Verdict:
    mean, error = _paired(results, dataset, fraction, name, "stl")
    title = METHODS[name].title
    claim = f"{PROBLEMS[dataset].title} at {100 * fraction:g} %: {title} not below STL by more than an error"
    return Verdict(claim, bool(mean >= -error), f"difference {mean:+.3f} ± {error:.3f}")


def _paired(results: Results, dataset: str, fraction: float, one: str, other: str) -> tuple[float, float]:
    """Mean difference of two methods over the same splits, and its standard error."""
    score = PROBLEMS[dataset].headline
    difference = results.values(dataset, fraction, one, score) - results.values(
        dataset, fraction, other, score
    )
    difference = difference[np.isfinite(difference)]
    if len(difference) < 2:
        return float(difference.sum()), 0.0
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference)))


def to_markdown(found: list[Verdict]) -> str:
    """The verdicts as a list, those that do not hold first."""
    ordered = sorted(found, key=lambda verdict: verdict.holds)
    n_held = sum(verdict.holds for verdict in found)
    lines = [f"## Expectations\n\n{n_held} of {len(found)} hold.\n"]
    lines += [f"- {'holds' if v.holds else '**does not hold**'}: {v.claim} ({v.numbers})." for v in ordered]
    return "\n".join(lines) + "\n"
