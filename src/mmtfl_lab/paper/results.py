"""The cells of a run as one table: a row per split and method, and means over the splits."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mmtfl_lab.paper.data_sets import PROBLEMS
from mmtfl_lab.paper.protocol import Plan
from mmtfl_lab.paper.store import Cell, Store

__all__ = ["Results", "Summary"]

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
