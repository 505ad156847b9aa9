"""The cells of a run as one table, means over the splits, and the expectations that they meet or not."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mmtfl_lab.paper.data_sets import PROBLEMS
from mmtfl_lab.paper.methods import MEMBERS, METHODS
from mmtfl_lab.paper.protocol import Cell, Plan, Store

SCORES = ("pooled", "mean", "support_f1", "seconds")
_FIELDS = ("dataset", "fraction", "repeat", "method", "metric", *SCORES, "chosen", "warnings")


@dataclass(frozen=True)
class Summary:
    """Mean over splits, their standard deviation, and their number."""

    mean: float
    deviation: float
    n: int


@dataclass(frozen=True)
class Results:
    """All finished cells of a plan, each with what `mmtfl_lab.paper.protocol.run_cell` found."""

    plan: Plan
    cells: dict[Cell, dict[str, Any]]

    @classmethod
    def of(cls, plan: Plan, store: Store) -> Results:
        """Read the cells of a plan from a store; those not finished are left out."""
        found = {cell: store.read(cell) for cell in plan.cells()}
        return cls(plan, {cell: result for cell, result in found.items() if result is not None})

    @property
    def rows(self) -> list[tuple[str, float]]:
        """Data set and fraction of every row of Table 2 that has a cell."""
        have = {(cell.dataset, cell.fraction) for cell in self.cells}
        every = [(dataset, fraction) for dataset in self.plan.datasets for fraction in self.plan.fractions]
        return [row for row in every if row in have]

    def values(self, dataset: str, fraction: float, method: str, score: str) -> np.ndarray:
        """A score at every repeat; NaN where the cell is missing or has no such score."""
        cells = [Cell(dataset, fraction, repeat, method) for repeat in range(self.plan.repeats)]
        return np.array([self.cells.get(cell, {}).get(score, np.nan) for cell in cells], dtype=float)

    def summaries(self, dataset: str, fraction: float, score: str) -> dict[str, Summary]:
        """Mean and deviation of a score over the repeats that are there, for the methods that have it."""
        found = {}
        for method in self.plan.methods:
            values = self.values(dataset, fraction, method, score)
            values = values[np.isfinite(values)]
            if len(values):
                deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
                found[method] = Summary(float(values.mean()), deviation, len(values))
        return found

    def means(self) -> list[dict[str, Any]]:
        """One row per data set, fraction, method and score: mean, deviation and number of splits."""
        return [
            {
                "dataset": dataset,
                "fraction": fraction,
                "method": method,
                "score": score,
                "mean": found.mean,
                "deviation": found.deviation,
                "splits": found.n,
            }
            for dataset, fraction in self.rows
            for score in SCORES
            for method, found in self.summaries(dataset, fraction, score).items()
        ]

    def tidy(self) -> list[dict[str, Any]]:
        """One row per cell, with plain values."""
        return [
            {
                **asdict(cell),
                "metric": PROBLEMS[cell.dataset].metric,
                **{name: result.get(name) for name in (*SCORES, "chosen", "warnings")},
            }
            for cell, result in self.cells.items()
        ]

    def to_csv(self) -> str:
        """The tidy table as CSV."""
        return csv_of_cells(self.tidy(), _FIELDS)

    def to_json(self) -> str:
        """Settings and the tidy table as JSON."""
        plan = {**self.plan.settings, "repeats": self.plan.repeats, "fractions": list(self.plan.fractions)}
        return json.dumps({"settings": plan, "cells": self.tidy()}, indent=1, allow_nan=False)


def csv_of_cells(rows: Sequence[dict[str, Any]], fields: Sequence[str]) -> str:
    """Some fields of finished cells as CSV; what a method chose is JSON in its column."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fields, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for row in rows:
        texts = {"chosen": json.dumps(row["chosen"]), "warnings": "; ".join(row["warnings"])}
        writer.writerow({**row, **texts})
    return out.getvalue()


# -- expectations, judged by the numbers of a run ------------------------------------------------------------

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


def verdicts_to_markdown(found: list[Verdict]) -> str:
    """The verdicts as a list, those that do not hold first."""
    ordered = sorted(found, key=lambda verdict: verdict.holds)
    n_held = sum(verdict.holds for verdict in found)
    lines = [f"## Expectations\n\n{n_held} of {len(found)} hold.\n"]
    lines += [f"- {'holds' if v.holds else '**does not hold**'}: {v.claim} ({v.numbers})." for v in ordered]
    return "\n".join(lines) + "\n"
