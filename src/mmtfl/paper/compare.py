"""The protocol on anybody's table: which method wins, and whether the others can be told apart from it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from mmtfl.paper.methods import METHODS, Grid
from mmtfl.paper.problems import Part, Pool, Problem, make_split, pool_of_rows, pool_of_targets
from mmtfl.paper.protocol import FORMAT, measure, run_cells
from mmtfl.paper.store import Cell, Store

__all__ = ["Comparison", "Standing", "compare", "pool_of_table", "standings"]

_CONFIDENCE = 0.95
BEST, APART, SAME = "best", "worse", "cannot be told apart from the best"


@dataclass(frozen=True)
class Standing:
    """Where a method stands.

    Attributes
    ----------
    method : str
        Its name.
    mean, deviation : float
        Of its score over the splits.
    behind : float
        By how much it is behind the best on the same splits, on average.
    low, high : float
        95 % interval of that, with the variance corrected for splits that overlap.
    verdict : str
        ``"best"``, ``"worse"``, or ``"cannot be told apart from the best"``.
    seconds : float
        Processor seconds to tune and fit once.
    """

    method: str
    mean: float
    deviation: float
    behind: float
    low: float
    high: float
    verdict: str
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """Scores of all methods on the same splits.

    Attributes
    ----------
    metric, average : str
        What the scores are.
    fraction : float
        Part of the rows used for training.
    splits : list of dict
        One row per method and split.
    standings : list of Standing
        Best first.
    """

    metric: str
    average: str
    fraction: float
    splits: list[dict[str, Any]]
    standings: list[Standing]

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def standings(
    scores: Mapping[str, np.ndarray], fraction: float, seconds: Mapping[str, float] | None = None
) -> list[Standing]:
    """Rank methods by their mean score, with paired differences to the best.

    The training sets of random splits overlap, so their scores are not independent and the usual standard
    error of a difference is too small. Nadeau and Bengio (2003) multiply the variance by
    1/J + n_test/n_train in place of 1/J.

    Parameters
    ----------
    scores : mapping of str to ndarray (n_splits,)
        Scores of each method on the same splits; larger is better.
    fraction : float
        Part of the rows used for training.
    seconds : mapping of str to float, optional
        Time of each method.

    Returns
    -------
    list of Standing
        Best first.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.paper.compare import standings
    >>> found = standings({"a": np.array([0.5, 0.6, 0.4]), "b": np.array([0.8, 0.9, 0.7])}, 0.5)
    >>> [(standing.method, standing.verdict) for standing in found]
    [('b', 'best'), ('a', 'worse')]
    """
    order = sorted(scores, key=lambda name: -scores[name].mean())
    best, n_splits = scores[order[0]], len(scores[order[0]])
    found = []
    for name in order:
        own, behind = scores[name], best - scores[name]
        width = math.inf
        if n_splits > 1:
            error = math.sqrt((1.0 / n_splits + (1.0 - fraction) / fraction) * behind.var(ddof=1))
            width = float(student.ppf(0.5 + _CONFIDENCE / 2.0, n_splits - 1)) * error
        mean = float(behind.mean())
        verdict = BEST if name == order[0] else APART if mean > width else SAME
        low, high = (0.0, 0.0) if name == order[0] else (mean - width, mean + width)
        spread = float(own.std(ddof=1)) if n_splits > 1 else 0.0
        took = (seconds or {}).get(name, math.nan)
        found.append(Standing(name, float(own.mean()), spread, mean, low, high, verdict, took))
    return found


def pool_of_table(X: np.ndarray, y: np.ndarray, task: np.ndarray | None, *, classify: bool) -> Pool:
    """What a table offers to split: rows of tasks, or rows with several targets.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Features.
    y : ndarray of shape (n,) or (n, T)
        Targets; 0 and 1 for classes; NaN where one of several targets was not observed.
    task : ndarray of shape (n,) or None
        Task of each row; None with several targets.
    classify : bool
        Whether targets are classes, which splits then keep in proportion.

    Returns
    -------
    Pool
        For `mmtfl.paper.problems.make_split`.
    """
    if task is None:
        return pool_of_targets(X, y)
    return pool_of_rows(X, y, task, by_class=classify, one_unit=True)  # they are one column


def compare(
    pool: Pool,
    *,
    metric: str,
    average: str = "mean",
    options: Mapping[str, Any] | None = None,
    methods: Sequence[str] = tuple(METHODS),
    repeats: int = 10,
    fraction: float = 0.5,
    seed: int = 0,
    grid: Grid | None = None,
    jobs: int = 1,
    folder: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    fresh: bool = False,
    shown: bool = False,
) -> Comparison:
    """Run methods on the same random splits of a pool.

    Parameters
    ----------
    pool : Pool
        As `pool_of_table` makes it.
    metric : {"r2", "f1", "auc"}
        Score of the predictions.
    average : {"mean", "pooled"}
        Mean over tasks, or all test rows at once.
    options : mapping
        ``standardize`` and ``scale_targets`` of all methods.
    methods : sequence of str
        Names in `mmtfl.paper.methods.METHODS`.
    repeats : int
        Random splits.
    fraction : float
        Part of the rows of each task to train on.
    seed : int
        Of everything random.
    grid : Grid
        How finely methods are tuned.
    jobs : int
        Processes.
    folder : path, optional
        Keeps the finished cells, so that an interrupted run goes on.
    identity : mapping, optional
        What tells this table from others in that folder; plain values.
    fresh : bool
        Throw away the cells of an earlier run there.
    shown : bool
        Whether to tell of progress on stderr.

    Returns
    -------
    Comparison
        Scores of every split, and the standings.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.paper.compare import compare, pool_of_table
    >>> data = make_tasks(4, 40, 10, n_informative=3, noise=0.5, random_state=0)
    >>> pool = pool_of_table(data.X, data.y, data.task, classify=False)
    >>> found = compare(pool, metric="r2", methods=["stl", "mmtfl21", "pooled"], repeats=3)
    >>> found.standings[0].method, found.standings[-1].verdict
    ('mmtfl21', 'worse')
    """
    grid = grid or Grid()
    problem = Problem("table", "table", lambda seed: pool, metric, average, options or {})
    settings = {
        "format": FORMAT,
        "seed": seed,
        "grid": asdict(grid),
        "metric": metric,
        "options": dict(problem.options),
        **(identity or {}),
    }
    cells = [Cell("table", fraction, repeat, method) for repeat in range(repeats) for method in methods]
    with tempfile.TemporaryDirectory() as temporary:
        store = Store(folder or Path(temporary) / "run", settings)
        store.open(fresh=fresh)
        run_cells(cells, _TableCell(problem, seed, grid), store, jobs=jobs, shown=shown)
        found = {cell: store.read(cell) or {} for cell in cells}
    splits = [
        {"repeat": cell.repeat, "method": cell.method, **{k: v for k, v in result.items() if k != "cell"}}
        for cell, result in found.items()
    ]
    scores = {name: np.array([row[average] for row in splits if row["method"] == name]) for name in methods}
    took = {
        name: float(np.mean([row["seconds"] for row in splits if row["method"] == name])) for name in methods
    }
    return Comparison(metric, average, fraction, splits, standings(scores, fraction, took))


def _check_scored(test: Part) -> None:
    """A score measures how much of what varies is told: somewhere a target must vary."""
    if not any(np.ptp(test.y[test.task == label]) > 0 for label in np.unique(test.task)):
        raise ValueError(
            f"Nothing can be scored: no task has two different targets among the {len(test.y)} test rows of "
            "a split. Use a smaller --fraction, or a target that varies within tasks."
        )


@dataclass(frozen=True)
class _TableCell:
    """Computes the cells of one table."""

    problem: Problem
    seed: int
    grid: Grid

    def __call__(self, cell: Cell) -> dict[str, Any]:
        pool = self.problem.load(self.seed)
        split = make_split(self.problem, pool, cell.fraction, self.seed, "table", cell.fraction, cell.repeat)
        _check_scored(split.test)
        return measure(self.problem, pool, split, cell.method, self.grid)
