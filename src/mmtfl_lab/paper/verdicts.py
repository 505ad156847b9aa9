"""Expectations about the results, judged by the numbers of a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mmtfl_lab.paper.data_sets import PROBLEMS
from mmtfl_lab.paper.methods import MEMBERS, METHODS
from mmtfl_lab.paper.results import Results, Summary

__all__ = ["Verdict", "to_markdown", "verdicts"]

_LEAST = {  # scores that the best member is expected to reach
    ("sarcos", 0.25): (("pooled", 0.91), ("mean", 0.875)),
    ("usps", 0.25): (("mean", 0.92),),
}


@dataclass(frozen=True)
class Verdict:
    """One expectation: whether it held, and by what numbers."""

    claim: str
    holds: bool
    numbers: str


def verdicts(results: Results) -> list[Verdict]:
    """Judge every expectation that the run has the numbers for, in the order of the rows of Table 2."""
    return [verdict for row in results.rows for verdict in _Row(results, *row).verdicts()]


@dataclass(frozen=True)
class _Row:
    """One data set at one fraction."""

    results: Results
    dataset: str
    fraction: float

    def verdicts(self) -> Iterator[Verdict]:
        """The expectations of this row."""
        have = self.results.summaries(self.dataset, self.fraction, PROBLEMS[self.dataset].headline)
        members = [name for name in MEMBERS if name in have]
        first = {"D1": ("mmtfl21", 0.0), "D2": ("mmtfl12", 1.0)}.get(self.dataset)
        if first is not None and first[0] in have and len(have) > 1:
            yield self._first(have, *first)
        for score, least in _LEAST.get((self.dataset, self.fraction), ()) if members else ():
            yield self._at_least(members, score, least)
        if "auto" in have and len(members) == len(MEMBERS):
            top = max(members, key=lambda name: have[name].mean)
            gap = have[top].mean - have["auto"].mean
            numbers = f"{have['auto'].mean:.3f} against {have[top].mean:.3f} of {METHODS[top].title}"
            yield self._verdict(": MMTFL(auto) within 0.01 of the best member", gap <= 0.01, numbers)
        if PROBLEMS[self.dataset].file is not None and "stl" in have:
            yield from map(self._not_below, members)

    def _verdict(self, claim: str, holds: bool, numbers: str) -> Verdict:
        return Verdict(f"{PROBLEMS[self.dataset].title} at {100 * self.fraction:g} %{claim}", holds, numbers)

    def _first(self, have: dict[str, Summary], name: str, errors: float) -> Verdict:
        """First among all methods but auto, or within so many standard errors of the paired difference."""
        others = [other for other in have if other not in (name, "auto")]
        rival = max(others, key=lambda other: have[other].mean)
        mean, error = self._paired(name, rival)
        rank = "first" if errors == 0.0 else "first, or within a standard error of it"
        numbers = (
            f"{have[name].mean:.3f}, next {METHODS[rival].title} {have[rival].mean:.3f}, "
            f"difference {mean:+.3f} ± {error:.3f}"
        )
        return self._verdict(f": {METHODS[name].title} {rank}", mean >= -errors * error, numbers)

    def _at_least(self, members: list[str], score: str, least: float) -> Verdict:
        found = self.results.summaries(self.dataset, self.fraction, score)
        top = max(members, key=lambda name: found[name].mean)
        average = {"pooled": "all test rows", "mean": "mean over tasks"}[score]
        numbers = f"{found[top].mean:.4f} by {METHODS[top].title}"
        return self._verdict(f", {average}: at least {least:g}", found[top].mean >= least, numbers)

    def _not_below(self, name: str) -> Verdict:
        mean, error = self._paired(name, "stl")
        claim = f": {METHODS[name].title} not below STL by more than an error"
        return self._verdict(claim, mean >= -error, f"difference {mean:+.3f} ± {error:.3f}")

    def _paired(self, one: str, other: str) -> tuple[float, float]:
        """Mean difference of two methods over the same splits, and its standard error."""
        score = PROBLEMS[self.dataset].headline
        values = [self.results.values(self.dataset, self.fraction, name, score) for name in (one, other)]
        difference = values[0] - values[1]
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
