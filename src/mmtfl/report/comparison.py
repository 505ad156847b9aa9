"""Methods compared on one table: which predicts best, and which cannot be told apart from it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from mmtfl.estimators.search import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.estimators.two_strengths import (
    DirtyClassifier,
    DirtyRegressor,
    RobustClassifier,
    RobustRegressor,
)
from mmtfl.model_selection.splitting import TaskKFold, TaskTimeSplit
from mmtfl.report import rivals
from mmtfl.report.judging import BETTER, SLIGHTLY_BETTER, HeldOut, Paired
from mmtfl.report.rows import Fold, Rows

N_STRENGTHS, N_PAIRS = 30, 8
MEMBERS = ((2, 2), (1, 1), (2, 1), (1, 2))
POOLINGS = (0.9, 0.98, 0.998)  # of models that predict new tasks by their common part

Fit = Callable[[Rows, Mapping[str, Any]], Callable[[Rows], np.ndarray]]


@dataclass(frozen=True)
class Method:
    """A way to predict: its title, and a function from training rows to a function that predicts."""

    title: str
    fit: Fit


def _search(rows: Rows, options: Mapping[str, Any], **own: Any) -> Callable[[Rows], np.ndarray]:
    """A search of this library, with folds that keep groups and time."""
    own = {**options, "alphas": N_STRENGTHS, **own}
    n_folds = own.pop("folds", 3)
    kind: Any = MMTFLClassifierCV if rows.kind == "classes" else MMTFLRegressorCV
    if rows.kind == "classes":
        own.pop("scale_targets", None)
    if rows.kind == "counts":
        own |= {"loss": "poisson", "scale_targets": False}
    known = kind().get_params(deep=False)
    quick = {"effects": False} if "effects" in known else {}
    model = kind(cv=rows.folds(n_folds), **quick, **own).fit(rows.design, rows.y, task=rows.labels)
    return lambda asked: asked.means(model)


def _two_strengths(
    pair: tuple[Any, Any], rows: Rows, options: Mapping[str, Any]
) -> Callable[[Rows], np.ndarray]:
    own = {name: value for name, value in options.items() if name in ("standardize", "scale_targets")}
    if rows.kind == "classes":
        own.pop("scale_targets", None)
    if rows.kind == "counts":
        own |= {"loss": "poisson", "scale_targets": False}
    one = pair[rows.kind == "classes"](**own)
    model = TwoStrengthCV(one, strengths=N_PAIRS, cv=rows.folds(options.get("folds", 3)))
    model.fit(rows.design, rows.y, task=rows.labels)
    return lambda asked: asked.means(model)


def _rival(fit: Any, rows: Rows, options: Mapping[str, Any]) -> Callable[[Rows], np.ndarray]:
    predict = rivals.fit_quietly(rivals.Rival("", "", fit), rows.X, rows.value, rows.task, str(rows.kind))
    return lambda asked: predict(asked.X, asked.task)


METHODS = {
    "mmtfl": Method("MMTFL, as mmtfl cv", _search),
    **{
        f"mmtfl{p}{k}": Method(f"MMTFL({p},{k})", partial(_search, pk=(p, k), poolings=(0,)))
        for p, k in MEMBERS
    },
    "dirty": Method("Dirty model", partial(_two_strengths, (DirtyRegressor, DirtyClassifier))),
    "robust": Method("Robust model", partial(_two_strengths, (RobustRegressor, RobustClassifier))),
    "separate": Method("Ridge per task", partial(_rival, rivals.fit_separate)),
    "lasso": Method("Lasso per task", partial(_rival, partial(rivals.fit_separate, lasso=True))),
    "pooled": Method("One ridge for all", partial(_rival, rivals.fit_pooled)),
    "boosting": Method("Boosted trees", partial(_rival, rivals.fit_boosting)),
}
USUAL = ("mmtfl", "mmtfl21", "dirty", "robust", "separate", "lasso", "pooled", "boosting")
FOR_NEW_TASKS = {  # tasks without a row in training
    "common": Method(
        "Common part", partial(_search, pk=((2, 2), (2, 1)), poolings=POOLINGS, unknown_task="common")
    ),
    "mean": Method("Mean of the tasks", partial(_search, poolings=(0.0,), unknown_task="mean")),
    "pooled": Method("One ridge for all", partial(_rival, rivals.fit_for_new_tasks)),
    "boosting": Method("Boosted trees", partial(_rival, partial(rivals.fit_boosting, with_task=False))),
}


@dataclass(frozen=True)
class Standing:
    """What one method explains, and the verdict on it beside the best.

    Attributes
    ----------
    method, title : str
        Its name.
    overall, within : float
        Share of all differences, and of those within tasks, that it explains on held-out rows; for classes
        the share of pairs that it ranks rightly.
    outcome : str
        "best", or the outcome of the best beside this one, said of the best.
    beside : Paired or None
        The best method beside this one; None for the best, and where no task can be judged by.
    seconds : float
        To tune and fit once.
    """

    method: str
    title: str
    overall: float
    within: float
    outcome: str
    beside: Paired | None
    seconds: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Standings of methods, the best first, and the held-out rows that they follow from."""

    kind: str
    standings: list[Standing]
    heldout: HeldOut
    tasks: list[dict[str, Any]]
    n_splits: int
    one_unit: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without the rows."""
        found = {name: getattr(self, name) for name in ("kind", "tasks", "n_splits")}
        return {**found, "standings": [asdict(standing) for standing in self.standings]}


def splits(rows: Rows, repeats: int, fraction: float, seed: int, *, new_tasks: bool = False) -> list[Fold]:
    """Parts to train and to test on: whole tasks, windows in time, or random rows of every task."""
    if new_tasks:
        part = np.random.default_rng(seed).permutation(int(rows.task.max()) + 1) % repeats
        return [
            (np.flatnonzero(part[rows.task] != i), np.flatnonzero(part[rows.task] == i))
            for i in range(min(repeats, len(part)))
        ]
    stratify = rows.kind == "classes"
    if rows.in_time:
        return rows.split(TaskTimeSplit(repeats, first=fraction, stratify=stratify))
    n_parts = max(2, round(1.0 / (1.0 - fraction))) if fraction >= 0.5 else max(2, round(1.0 / fraction))
    found: list[Fold] = []
    while len(found) < repeats:
        found += rows.split(TaskKFold(n_parts, random_state=seed + len(found), stratify=stratify))
    found = found if fraction >= 0.5 else [(test, train) for train, test in found]
    return found[:repeats]


def compare(
    rows: Rows,
    parts: Sequence[Fold],
    methods: Mapping[str, Method],
    *,
    options: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: Callable[[str, float], None] | None = None,
) -> Comparison:
    """Fit every method to the same training parts, and judge them by the same held-out rows.

    Parameters
    ----------
    rows : Rows
        The table.
    parts : sequence of (train, test)
        Row numbers, as `splits` gives them.
    methods : mapping of str to Method
        By name.
    options : mapping, optional
        ``standardize``, ``scale_targets`` and ``folds`` of this library's methods.
    jobs : int
        Processes.
    progress : callable, optional
        Called with a method and its seconds after each fit.

    Returns
    -------
    Comparison
        The standings, the best first.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.report.comparison import METHODS, compare, splits
    >>> from mmtfl.report.rows import Rows
    >>> data = make_tasks(4, 40, 10, n_informative=3, noise=0.5, random_state=0)
    >>> rows = Rows.of_table(data.X, data.y, data.task, names=[f"x{j}" for j in range(10)], kind="numbers")
    >>> methods = {name: METHODS[name] for name in ("mmtfl21", "pooled")}
    >>> found = compare(rows, splits(rows, 2, 0.5, 0), methods)
    >>> [standing.method for standing in found.standings]
    ['mmtfl21', 'pooled']
    """
    cells = [(name, i) for i in range(len(parts)) for name in methods]
    run = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    means = {name: [np.empty(0)] * len(parts) for name in methods}
    seconds = dict.fromkeys(methods, 0.0)
    for name, i, found, took in run(
        delayed(_cell)(name, i, methods[name], rows.select(parts[i][0]), rows.select(parts[i][1]), options)
        for name, i in cells
    ):
        means[name][i], seconds[name] = found, seconds[name] + took / len(parts)
        if progress is not None:
            progress(name, took)
    tested = np.concatenate([test for _, test in parts])
    split = np.repeat(np.arange(len(parts)), [len(test) for _, test in parts])
    every = {name: np.concatenate(own) for name, own in means.items()}
    heldout = rows.select(tested).judged(every, split, tested)
    titles = {name: method.title for name, method in methods.items()}
    ranked = _standings(heldout, titles, seconds, one_unit=not rows.has_several_targets)
    return Comparison(
        heldout.kind,
        ranked,
        heldout,
        _tasks(rows, heldout),
        len(parts),
        not rows.has_several_targets,
    )


def _cell(
    name: str, i: int, method: Method, part: Rows, asked: Rows, options: Mapping[str, Any] | None
) -> tuple[str, int, np.ndarray, float]:
    start = time.process_time()
    with warnings.catch_warnings(action="ignore"):
        found = method.fit(part, options or {})(asked)
    return name, i, found, time.process_time() - start


def _standings(
    heldout: HeldOut, titles: Mapping[str, str], seconds: Mapping[str, float], *, one_unit: bool
) -> list[Standing]:
    """Methods by their error, after the first of them that no other beats."""
    order = sorted(titles, key=lambda who: float(heldout.losses[who].sum()))

    def beaten(who: str) -> bool:
        found = (heldout.beside(other, who) for other in order if other != who)
        return any(one is not None and one.outcome in (BETTER, SLIGHTLY_BETTER) for one in found)

    best = next((who for who in order if not beaten(who)), order[0])
    standings = []
    for who in [best, *(who for who in order if who != best)]:
        beside = None if who == best else heldout.beside(best, who)
        outcome = "best" if who == best else "not judged" if beside is None else beside.outcome
        if heldout.kind == "classes":
            scores = heldout.concordance_overall(who), heldout.concordance(who)[0]
        else:
            overall = heldout.explained(who) if one_unit else math.nan
            scores = overall, heldout.explained_within(who)
        standings.append(Standing(who, titles[who], *scores, outcome, beside, seconds[who]))
    return standings


def _tasks(rows: Rows, heldout: HeldOut) -> list[dict[str, Any]]:
    """One row per task: its label, how many of its rows were held out, and the score of each method."""
    labels = np.unique(rows.labels).tolist()
    scores = {who: heldout.score_by_task(who) for who in heldout.means}
    return [
        {
            "task": labels[t],
            "held_out": int(heldout.sizes[t]),
            "judged": bool(heldout.counted[t]),
            **{who: float(values[t]) for who, values in scores.items()},
        }
        for t in range(heldout.n_tasks)
    ]
