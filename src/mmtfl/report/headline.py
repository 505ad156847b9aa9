"""The one line that says how well a tuned model predicts rows held out of its fits.

The command line and the report show the same numbers: those of ``heldout_scores_``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.model_selection.metrics import FEW_ROWS
from mmtfl.tasks.wording import count

__all__ = ["OverTasks", "heldout_headline", "over_tasks"]


@dataclass(frozen=True)
class OverTasks:
    """One score over the tasks that count.

    Attributes
    ----------
    median, mean : float
        Over these tasks; NaN with none.
    n_tasks : int
        How many count: those that have a score and at least `FEW_ROWS` rows, or, where there is none, those
        that have a score.
    n_few, n_undefined : int
        How many are left out because they have fewer rows, or no score.
    only_few : bool
        Whether all that count have fewer rows.
    """

    median: float
    mean: float
    n_tasks: int
    n_few: int
    n_undefined: int
    only_few: bool


def over_tasks(scores: Sequence[float | None], n_rows: Sequence[int]) -> OverTasks:
    """Median and mean of the scores of tasks, those with a handful of rows apart.

    Examples
    --------
    >>> from mmtfl.report.headline import over_tasks
    >>> found = over_tasks([0.5, 0.75, 1.0, -30.0, None], [40, 50, 60, 2, 10])
    >>> found.median, found.n_tasks, found.n_few, found.n_undefined
    (0.75, 3, 1, 1)
    """
    values = np.array([math.nan if score is None else score for score in scores], dtype=float)
    known, few = ~np.isnan(values), np.asarray(n_rows) < FEW_ROWS
    only_few = not np.any(known & ~few)
    if only_few:
        few = np.zeros_like(few)
    counted = values[known & ~few]
    return OverTasks(
        median=float(np.median(counted)) if len(counted) else math.nan,
        mean=float(np.mean(counted)) if len(counted) else math.nan,
        n_tasks=len(counted),
        n_few=int(few.sum()),
        n_undefined=int(np.count_nonzero(~known & ~few)),
        only_few=only_few,
    )


def plain_score(value: float) -> str:
    """A score with two decimals, or none where it is far below zero."""
    return f"{value:.2f}" if value > -10 else f"{value:.0f}"


def heldout_headline(
    search: Any, *, r2: str = "R^2", show: Callable[[float], str] = plain_score
) -> str | None:
    """How well the held-out rows of a search were predicted, in one line; None if it is not known.

    Parameters
    ----------
    search : SearchSummary
        With the scores of each task in ``held_out``.
    r2 : str
        How R^2 is written.
    show : callable
        Writes a score.
    """
    if search.held_out is None:
        return None
    table = search.held_out
    folds = count(search.n_folds, "fold")
    if "r2" in table:
        return f"Held-out {r2}: {_in_words(over_tasks(table['r2'], table['n_rows']), show)}; {folds}"
    accuracy, base = (over_tasks(table[name], table["n_rows"]).mean for name in ("accuracy", "base_rate"))
    return (
        f"Held-out AUC: {_in_words(over_tasks(table['auc'], table['n_rows']), show)}; "
        f"{'mean ' if len(table['task']) > 1 else ''}{accuracy_beside_base(accuracy, base)}; {folds}"
    )


def accuracy_beside_base(accuracy: float, base_rate: float) -> str:
    """An accuracy, and that of a model that always says the commoner class of each task."""
    return f"accuracy {accuracy:.3f} (always the commoner class: {base_rate:.3f})"


def _in_words(found: OverTasks, show: Callable[[float], str]) -> str:
    if found.n_tasks == 0:
        return "not defined"
    value = show(found.median)
    if found.n_tasks > 1:
        value = f"median {value} over {found.n_tasks} tasks (mean {show(found.mean)})"
    if found.only_few:
        value += f", fewer than {FEW_ROWS} held-out rows {'each' if found.n_tasks > 1 else 'only'}"
    if found.n_few:
        value += f", {count(found.n_few, 'task')} with fewer than {FEW_ROWS} held-out rows apart"
    if found.n_undefined:
        value += f", {count(found.n_undefined, 'task')} without a score apart"
    return value
