"""The methods compared on a user's table: which predicts best, and which cannot be told apart from it."""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mmtfl.report.paired_tests import (
    BETTER,
    EQUAL,
    SLIGHTLY_BETTER,
    HeldOutErrors,
    Paired,
    class_errors,
    errors_by_task,
    f1_errors,
    relative_errors,
    task_spread,
)
from mmtfl.report.paired_tests import SAME as THE_SAME
from mmtfl_lab.paper.data_sets import (
    Part,
    Pool,
    Problem,
    Split,
    leave_tasks_out,
    make_split,
    pool_of_rows,
    pool_of_targets,
    window_in_time,
)
from mmtfl_lab.paper.methods import COMPARED, FOR_NEW_TASKS, Grid
from mmtfl_lab.paper.protocol import Cell, Store, measure, run_cells

FORMAT = 2  # raised when the numbers of a cell change their meaning
BEST, SAME = "best", "cannot be told apart from the best"
VERDICTS = {  # of the best beside a method, said of the method
    BETTER: "worse",
    SLIGHTLY_BETTER: "slightly worse",
    EQUAL: "about as good as the best",
    THE_SAME: "the same as the best",
}


@dataclass(frozen=True)
class Standing:
    """The scores of one method, and the verdict on it beside the best.

    Attributes
    ----------
    method : str
        Its name.
    median : float or None
        Over the tasks that methods are judged by, of its score, which is averaged over splits first.
    mean, deviation : float
        Over the splits, of its average score.
    verdict : str
        "best", "worse", "slightly worse", "about as good as the best", "the same as the best" or "cannot be
        told apart from the best".
    beside : Paired or None
        The best method beside this one; None for the best, and where no task can be judged by.
    seconds : float
        Processor seconds to tune and fit once.
    """

    method: str
    median: float | None
    mean: float
    deviation: float
    verdict: str
    beside: Paired | None
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """Scores of all methods on the same splits.

    Attributes
    ----------
    metric, average : str
        What the scores are.
    fraction : float or None
        Part of the rows used for training; None where whole tasks were left out.
    splits : list of dict
        One row per method and split.
    standings : list of Standing
        Best first.
    tasks : list of dict
        One row per task: its label, how many of its rows were ever held out, whether methods are judged by it
        and the score of each method, averaged over splits.
    kept_together, in_time : bool
        Whether splits kept groups of rows together, and whether they were made in time order.
    """

    metric: str
    average: str
    fraction: float | None
    splits: list[dict[str, Any]]
    standings: list[Standing]
    tasks: list[dict[str, Any]]
    kept_together: bool = False
    in_time: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def standings(
    errors: HeldOutErrors, scores: Mapping[str, np.ndarray], seconds: Mapping[str, float] | None = None
) -> list[Standing]:
    """Rank methods by their errors in the typical task, and judge each beside the best.

    Parameters
    ----------
    errors : HeldOutErrors
        Errors of each method, averaged over splits.
    scores : mapping of str to ndarray (n_splits,)
        Average scores of each method on the same splits; larger is better.
    seconds : mapping of str to float, optional
        Time of each method.

    Returns
    -------
    list of Standing
        Best first.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.paper.table_comparison import standings
    >>> from mmtfl.report.paired_tests import HeldOutErrors
    >>> errors = {"a": np.linspace(0.5, 0.9, 8), "b": np.linspace(0.2, 0.3, 8)}
    >>> found = standings(HeldOutErrors("r2", errors, np.full(8, 20)), {"a": np.ones(2), "b": np.ones(2)})
    >>> [(standing.method, standing.verdict) for standing in found]
    [('b', 'best'), ('a', 'worse')]
    """
    order = _ranked(errors, scores)
    found = []
    for name in order:
        own, beside = scores[name], None if name == order[0] else errors.beside(order[0], name)
        verdict = BEST if name == order[0] else SAME if beside is None else VERDICTS.get(beside.outcome, SAME)
        spread = float(own.std(ddof=1)) if len(own) > 1 else 0.0
        took = (seconds or {}).get(name, math.nan)
        median = errors.median(name)
        found.append(Standing(name, median, float(own.mean()), spread, verdict, beside, took))
    return found


def _ranked(errors: HeldOutErrors, scores: Mapping[str, np.ndarray]) -> list[str]:
    """Methods by their error in the typical task, after the first of them that no other beats."""
    if not errors.counted.any():
        return sorted(scores, key=lambda name: -scores[name].mean())
    typical = errors.standing()
    order = sorted(scores, key=lambda name: typical[name])
    rivals = {name: [other for other in order if other != name] for name in order}
    unbeaten = (name for name in order if not any(_beats(errors, other, name) for other in rivals[name]))
    best = next(unbeaten, order[0])
    return [best, *rivals[best]]


def _beats(errors: HeldOutErrors, one: str, other: str) -> bool:
    found = errors.beside(one, other)
    return found is not None and found.outcome in (BETTER, SLIGHTLY_BETTER)


def pool_of_table(
    X: np.ndarray,
    y: np.ndarray,
    task: np.ndarray | None,
    *,
    classify: bool,
    groups: np.ndarray | None = None,
    in_time: bool = False,
) -> Pool:
    """The pool of a table: rows of tasks, or rows with several targets.

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
    groups : ndarray of shape (n,), optional
        Groups of rows that no split separates.
    in_time : bool
        Whether rows are in time order, and are tested after what is trained on.

    Returns
    -------
    Pool
        For `mmtfl_lab.paper.data_sets.make_split`.
    """
    together = None if groups is None else np.unique(groups, return_inverse=True)[1]
    known: dict[str, Any] = {"together": together, "in_time": in_time}
    if task is None:
        return replace(pool_of_targets(X, y), **known)
    # they are one column; in time order classes come as they come
    return pool_of_rows(X, y, task, by_class=classify and not in_time, one_unit=True, **known)


def compare(
    pool: Pool,
    *,
    metric: str,
    average: str = "mean",
    options: Mapping[str, Any] | None = None,
    methods: Sequence[str] = tuple(COMPARED),
    repeats: int = 10,
    fraction: float = 0.5,
    seed: int = 0,
    grid: Grid | None = None,
    jobs: int = 1,
    folder: Path | None = None,
    identity: Mapping[str, Any] | None = None,
    fresh: bool = False,
    shown: bool = False,
    on_new_tasks: bool = False,
) -> Comparison:
    """Run methods on the same random splits of a pool, or on the same tasks left out.

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
        Names in `mmtfl_lab.paper.methods.COMPARED`, or in its `FOR_NEW_TASKS`.
    repeats : int
        Random splits, or groups of tasks that are left out.
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
    on_new_tasks : bool
        Whether whole tasks are left out, each once: how well will the methods do at the next one?

    Returns
    -------
    Comparison
        Scores of every split, and the standings.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl_lab.paper.table_comparison import compare, pool_of_table
    >>> data = make_tasks(4, 40, 10, n_informative=3, noise=0.5, random_state=0)
    >>> pool = pool_of_table(data.X, data.y, data.task, classify=False)
    >>> found = compare(pool, metric="r2", methods=["stl", "mmtfl21", "pooled"], repeats=3)
    >>> found.standings[0].method, found.standings[-1].verdict
    ('mmtfl21', 'worse')
    """
    grid = grid or Grid()
    problem = Problem("table", "table", lambda seed: pool, metric, average, options or {})
    settings = {"format": FORMAT, "seed": seed, "grid": asdict(grid), "metric": metric}
    settings |= {"options": dict(problem.options), **(identity or {})}
    if on_new_tasks:
        repeats, fraction = min(repeats, len(np.unique(pool.rows.task))), 0.0
        settings["groups"] = repeats
    compute = _TableCell(problem, seed, grid, repeats, on_new_tasks)
    cells = [Cell("table", fraction, repeat, method) for repeat in range(repeats) for method in methods]
    with tempfile.TemporaryDirectory() as temporary:
        store = Store(folder or Path(temporary) / "run", settings)
        store.open(fresh=fresh)
        run_cells(cells, compute, store, jobs=jobs, shown=shown)
        found = {cell: store.read(cell) or {} for cell in cells}
    results = {name: [found[cell] for cell in cells if cell.method == name] for name in methods}
    scores = {name: np.array([cell[average] for cell in results[name]]) for name in methods}
    seconds = {name: float(np.mean([cell["seconds"] for cell in results[name]])) for name in methods}
    errors = _errors(metric, pool, results)
    ranks = standings(errors, scores, seconds)
    of_rows = None if on_new_tasks else fraction
    structure = pool.together is not None, pool.in_time
    return Comparison(metric, average, of_rows, _splits(found), ranks, _tasks(pool, errors), *structure)


def _splits(found: Mapping[Cell, dict[str, Any]]) -> list[dict[str, Any]]:
    """One row per method and split, without what is kept for the tests alone."""
    left_out = ("cell", "rows", "predictions")
    kept = {cell: {k: v for k, v in result.items() if k not in left_out} for cell, result in found.items()}
    return [{"repeat": cell.repeat, "method": cell.method, **result} for cell, result in kept.items()]


def _errors(metric: str, pool: Pool, results: Mapping[str, list[dict[str, Any]]]) -> HeldOutErrors:
    """Errors of every method by task and by row, averaged over the splits that held the row out."""
    task = np.unique(pool.rows.task, return_inverse=True)[1]
    second = pool.rows.y > 0
    averaged = {}
    for name, cells in results.items():
        by_split = (_errors_of_split(metric, pool, cell) for cell in cells)
        averaged[name] = [_mean_known(np.array(part)) for part in zip(*by_split, strict=True)]
    held_out = np.unique(np.concatenate([cell["rows"] for cells in results.values() for cell in cells]))
    known = np.logical_and.reduce([np.isfinite(rows) for _, rows in averaged.values()])
    return HeldOutErrors(
        metric,
        {name: tasks for name, (tasks, _) in averaged.items()},
        np.bincount(task[held_out], minlength=int(task.max()) + 1),
        {} if metric == "f1" else {name: rows[known] for name, (_, rows) in averaged.items()},
        task[known],
        second[known] if metric == "auc" else None,
    )


def _errors_of_split(metric: str, pool: Pool, cell: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the tasks and of the rows of the pool in one split; NaN of what was not held out."""
    labels, task = np.unique(pool.rows.task, return_inverse=True)
    at, z = np.array(cell["rows"]), np.array(cell["predictions"])
    y, t, second = pool.rows.y[at], task[at], pool.rows.y[at] > 0
    rows = np.full(len(task), np.nan)
    if metric == "f1":  # which is no sum over rows
        return f1_errors(second, z, t, len(labels)), rows
    if metric == "auc":
        rows[at] = class_errors(second, z, t)
    else:
        rows[at] = relative_errors(y, z, t, task_spread(pool.rows.y, task))
    return errors_by_task(rows[at], t, len(labels), second if metric == "auc" else None), rows


def _mean_known(values: np.ndarray) -> np.ndarray:
    """Mean over splits, without those that have no value."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.divide(total, known.sum(axis=0), out=np.full(total.shape, np.nan), where=known.any(axis=0))


def _tasks(pool: Pool, errors: HeldOutErrors) -> list[dict[str, Any]]:
    labels = np.unique(pool.rows.task).tolist()
    return [
        {
            "task": label,
            "held_out": int(errors.n_rows[t]),
            "judged": bool(errors.counted[t]),
            **{name: 1.0 - float(values[t]) for name, values in errors.tasks.items()},
        }
        for t, label in enumerate(labels)
    ]


def _check_scored(test: Part) -> None:
    """Refuse test rows that cannot be scored: in some task the target must vary."""
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
    n_parts: int  # windows in time, or groups of tasks left out
    on_new_tasks: bool

    def split(self, pool: Pool, cell: Cell) -> Split:
        """Some tasks to train on, or part of the rows of every task."""
        if self.on_new_tasks:
            return leave_tasks_out(pool, self.n_parts, cell.repeat, self.seed, "table")
        if pool.in_time:
            purpose = self.seed, "table", cell.fraction, cell.repeat
            return window_in_time(self.problem, pool, cell.fraction, self.n_parts, cell.repeat, *purpose)
        return make_split(self.problem, pool, cell.fraction, self.seed, "table", cell.fraction, cell.repeat)

    def __call__(self, cell: Cell) -> dict[str, Any]:
        pool = self.problem.load(self.seed)
        split = self.split(pool, cell)
        _check_scored(split.test)
        method = (FOR_NEW_TASKS if self.on_new_tasks else COMPARED)[cell.method]
        result, z = measure(self.problem, pool, split, method, self.grid)
        rows = _positions(pool.rows, split.test)
        return {**result, "rows": rows.tolist(), "predictions": [float(f"{value:.9g}") for value in z]}


def _positions(rows: Part, some: Part) -> np.ndarray:
    """Positions in the pool of the rows of a part, which unit and task identify."""
    labels, task = np.unique(rows.task, return_inverse=True)
    key = rows.unit * len(labels) + task
    order = np.argsort(key)
    wanted = some.unit * len(labels) + np.searchsorted(labels, some.task)
    return order[np.searchsorted(key, wanted, sorter=order)]
