"""The rows of a fit, here or where an engine keeps them, asked for what effects are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from mmtfl.inference.row_moments import Columns, RowsAtFit, TaskMoments, Totals
from mmtfl.inference.unshrunk_effects import Plan, Steps
from mmtfl.tasks.container import Tasks

_MOST_NUMBERS = 10_000_000  # of moments that are kept: 80 MB


@dataclass(frozen=True, eq=False)
class Asked:
    """What is needed beside the rows of some tasks, to sum them up at the fit."""

    coef: np.ndarray
    intercept: np.ndarray
    target_scale: np.ndarray
    loss: Any
    centred: bool
    factors: np.ndarray | None = None
    columns: Columns | None = None
    shift: np.ndarray | None = None
    noise: np.ndarray | None = None
    usable: np.ndarray | None = None

    def rows(self, tasks: Tasks) -> RowsAtFit:
        """The rows with their own weights, and targets in the units of the loss."""
        tasks = replace(tasks, y=tasks.y / np.repeat(self.target_scale, tasks.sizes))
        if self.factors is not None and tasks.weights is not None:
            tasks = replace(tasks, weights=tasks.weights / np.repeat(self.factors, tasks.sizes))
        return RowsAtFit(
            tasks, self.loss, self.coef, self.intercept, self.columns, self.centred, self.shift, self.noise,
            self.usable,
        )  # fmt: skip


def _scores(rows: RowsAtFit) -> np.ndarray:
    return rows.scores()


def _totals(rows: RowsAtFit) -> Totals:
    return Totals.of(rows.moments())


def _steps(rows: RowsAtFit, plan: Plan) -> Steps:
    noise = np.ones(len(rows.coef)) if rows.noise is None else rows.noise
    return Steps.of(plan, rows.moments(), rows.column_coef(), noise, rows.by_group())


def _on_shard(shard: Any, spec: Any, asked: Asked, function: Callable[..., Any], arguments: tuple) -> Any:
    return function(asked.rows(shard.tasks), *arguments)


@dataclass(frozen=True, eq=False)
class FitRows:
    """The rows of a fit, in the memory of this process or where they are placed.

    Attributes
    ----------
    asked : list of Asked
        Of all tasks here, or of those of each shard.
    tasks : Tasks, or None
        All rows, where they are here.
    placed : Placed, or None
        Rows that stay in their files, or with the workers of an engine.
    """

    asked: list[Asked]
    tasks: Tasks | None = None
    placed: Any = None

    @classmethod
    def of(
        cls, model: Any, prepared: Any, coef: np.ndarray, intercept: np.ndarray, unit: np.ndarray
    ) -> FitRows:
        """The rows of prepared data, seen at coefficients and levels in these units."""
        options = {"loss": model._loss, "centred": model.fit_intercept}
        if isinstance(prepared.tasks, Tasks):
            further = unit if prepared.target_scale is None else unit / prepared.target_scale
            return cls([Asked(coef, intercept, further, **options)], tasks=prepared.tasks)
        placed, factors = prepared.tasks.placed, prepared.tasks.stored.task_factors
        asked = [
            Asked(
                coef[lo:hi], intercept[lo:hi], unit[lo:hi],
                factors=None if factors is None else factors[lo:hi], **options,
            )
            for lo, hi in pairwise([*placed.firsts, len(coef)])
        ]  # fmt: skip
        return cls(asked, placed=placed)

    def only(self, columns: Columns, usable: np.ndarray) -> FitRows:
        """The same for some columns, and the tasks (n_tasks, n) in which these vary."""
        parts = zip(self.asked, np.split(usable, self._cuts), strict=True)
        return replace(self, asked=[replace(one, columns=columns, usable=own) for one, own in parts])

    def steps(self, plan: Plan, shift: np.ndarray | None = None, noise: np.ndarray | None = None) -> Steps:
        """The steps of all tasks, from coefficients so much beside those of the fit."""
        if noise is None:
            noise = np.ones(sum(len(one.coef) for one in self.asked))
        if self._moments is not None:  # the parabola of the squared loss is the same everywhere
            return Steps.of(plan, self._moments, self._here.column_coef(), noise)
        return Steps.joined(self._at(shift, noise)._each(_steps, plan))

    def _at(self, shift: np.ndarray | None, noise: np.ndarray) -> FitRows:
        shifts = [None] * len(self.asked) if shift is None else np.split(shift, self._cuts)
        parts = zip(self.asked, shifts, np.split(noise, self._cuts), strict=True)
        return replace(self, asked=[replace(one, shift=by, noise=own) for one, by, own in parts])

    @property
    def _cuts(self) -> np.ndarray:
        """Where the tasks of each part but the first begin."""
        return np.cumsum([len(one.coef) for one in self.asked])[:-1]

    @property
    def n_shared(self) -> float:
        """Number of rows that tasks share, as the targets of one table do; infinite where they share none."""
        tasks = self.tasks
        return np.inf if tasks is None or tasks.rows is None else float(tasks.X.shape[0])

    def scores(self) -> np.ndarray:
        """How much each feature could still explain."""
        return np.sum(self._each(_scores), axis=0)

    def totals(self) -> Totals:
        """The sums over all tasks."""
        return Totals.of(self._moments) if self._moments is not None else Totals.joined(self._each(_totals))

    @cached_property
    def _moments(self) -> list[TaskMoments] | None:
        """The moments of all tasks, where these are few and moments do not depend on coefficients."""
        if self.tasks is None or self.tasks.groups is not None or not self.asked[0].loss.is_quadratic:
            return None
        n = self._here.column_coef().shape[1]
        return list(self._here.moments()) if self.tasks.n_tasks * n**2 <= _MOST_NUMBERS else None

    @property
    def _here(self) -> RowsAtFit:
        assert self.tasks is not None
        return self.asked[0].rows(self.tasks)

    def correlation(self) -> np.ndarray | None:
        """Correlation between the errors of tasks that share rows; stored tasks share none."""
        tasks = self.tasks
        if tasks is None or tasks.rows is None or tasks.n_tasks < 2:
            return None
        table = np.zeros((tasks.X.shape[0], tasks.n_tasks))
        for t, own in enumerate(self.asked[0].rows(tasks).residuals()):
            table[tasks.rows[tasks.offsets[t] : tasks.offsets[t + 1]], t] = own
        size = np.sqrt((table**2).sum(axis=0))
        return (table.T @ table) / np.maximum(np.outer(size, size), np.finfo(float).tiny)

    def _each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function of the rows of each part."""
        if self.tasks is not None:
            return [function(self.asked[0].rows(self.tasks), *arguments)]
        columns = ([one] * len(self.asked) for one in (function, arguments))
        return self.placed.ask(_on_shard, self.asked, *columns, name=f"effect{function.__name__}")
