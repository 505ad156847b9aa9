"""Choosing alpha, p and k by cross-validation: paths on folds, one table of scores, one choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from time import monotonic
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse

from mmtfl.engines.base import Engine
from mmtfl.model_selection.heldout import class_sums, heldout_scores, squared_errors
from mmtfl.model_selection.metrics import Metric
from mmtfl.model_selection.progress import Progress
from mmtfl.model_selection.scoring import score_predictions
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.blas import one_blas_thread
from mmtfl.solvers.checkpoint import Checkpoint
from mmtfl.solvers.distributed.shards import as_is, in_order
from mmtfl.solvers.path import Path, alpha_grid, solve_path
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.scaling import column_spread, target_spread

PathScores = dict[str, np.ndarray]  # of the candidates on a path: scores, and sums by_task


@dataclass(frozen=True)
class Settings:
    """What all folds and members of one search have in common."""

    loss: Loss
    fit_intercept: bool
    standardize: bool
    scale_targets: bool
    max_iter: int
    tol: float
    metric: Metric | None
    pooled: bool
    classes: np.ndarray | None


def member_grids(
    problem: Problem, members: Sequence[RowPenalty], alphas: int | np.ndarray, ratio: float | None
) -> list[np.ndarray]:
    """The alphas tried for each member, largest first."""
    if not isinstance(alphas, int | np.integer):
        return [np.sort(np.asarray(alphas, dtype=float))[::-1] for _ in members]
    return [alpha_grid(problem, member, int(alphas), ratio) for member in members]


def fold_scores(
    tasks: Tasks,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    members: Sequence[RowPenalty],
    grids: Sequence[np.ndarray],
    settings: Settings,
    n_jobs: int | None,
    *,
    verbose: int = 0,
    engine: Engine | None = None,
    kept: Checkpoint | None = None,
) -> FoldScores:
    """Score every member's path on every fold.

    All members share what is made of a fold: its rows, the first pass over them and the curvatures. The
    columns gathered on a path are not shared: they suit the member that asked for them. An engine whose data
    are elsewhere gets whole paths to work on; finished ones are kept in a checkpoint.
    """
    every = [(f, m) for f in range(len(folds)) for m in range(len(members))]
    known = {path: found for path in every if (found := _known_scores(kept, path)) is not None}
    left = [path for path in every if path not in known]
    elsewhere = None if engine is None or engine.is_here else engine
    n_slots = min(effective_n_jobs(n_jobs), len(left)) if elsewhere is None else elsewhere.n_slots
    # a member takes about as long on one fold as on another, and members differ widely
    progress = Progress(
        "cross-validation", {(f, m): m for f, m in every}, "paths",
        shown=verbose > 0, n_slots=n_slots, in_batches=elsewhere is not None,
    )  # fmt: skip

    def done(path: tuple[int, int], found: PathScores, seconds: float | None = None) -> None:
        known[path] = found
        if kept is not None:
            kept.write(_step(path), found)
        progress.finish(path, seconds)

    with progress:
        for path in known:
            progress.finish(path)
        if elsewhere is None:
            _score_here(tasks, folds, members, grids, settings, n_slots, left, done, progress)
        else:
            _score_elsewhere(tasks, folds, members, grids, settings, elsewhere, left, done, progress)
    return FoldScores([[known[f, m] for f in range(len(folds))] for m in range(len(members))])


def _step(path: tuple[int, int]) -> str:
    return f"fold-{path[0]}-member-{path[1]}"


def _known_scores(kept: Checkpoint | None, path: tuple[int, int]) -> PathScores | None:
    known = None if kept is None else kept.read(_step(path))
    return known if known is not None and "by_task" in known else None


def _score_here(tasks, folds, members, grids, settings, n_threads, left, done, progress: Progress) -> None:
    """Score the paths (fold, member) that are left, in threads."""

    def work(fold: _Fold, path: tuple[int, int]) -> None:
        progress.begin(path)
        member, alphas = members[path[1]], grids[path[1]]
        done(path, fold.scores(member, alphas, settings, lambda share: progress.reach(path, share)))

    def calls() -> Iterator[Any]:
        # fold by fold, made when their turn comes: only those at work are in memory
        for f, paths in groupby(left, key=itemgetter(0)):
            train, test = folds[f]
            fold = _Fold.of(tasks, train, test, settings)
            for path in paths:
                yield delayed(work)(fold, path)

    if n_threads > 1:
        Parallel(n_jobs=n_threads, backend="threading")(calls())
    else:
        for function, arguments, keywords in calls():
            function(*arguments, **keywords)


def _score_elsewhere(
    tasks, folds, members, grids, settings, engine: Engine, left, done, progress: Progress
) -> None:
    """Score the paths that are left where an engine has the data, as many at a time as it has places."""
    data = engine.place(as_is, [tasks], name="data")
    for first in range(0, len(left), engine.n_slots):
        batch = left[first : first + engine.n_slots]
        columns = [
            data * len(batch),
            [folds[f] for f, _ in batch],
            [members[m] for _, m in batch],
            [grids[m] for _, m in batch],
            [settings] * len(batch),
        ]
        for path in batch:
            progress.begin(path)
        scored = engine.map(_path_scores, *columns, name=f"paths-{first}")
        for path, (found, seconds) in zip(batch, scored, strict=True):
            done(path, found, seconds)


def _path_scores(
    tasks: Tasks,
    fold: tuple[np.ndarray, np.ndarray],
    member: RowPenalty,
    alphas: np.ndarray,
    settings: Settings,
) -> tuple[PathScores, float]:
    """Scores of one path, and the seconds that it took."""
    began = monotonic()
    with one_blas_thread():
        train, test = fold
        scores = _Fold.of(in_order(tasks), train, test, settings).scores(member, alphas, settings)
    return scores, monotonic() - began


@dataclass(frozen=True)
class _Fold:
    """Training rows as a problem in scales of their own, and the rows held out."""

    problem: Problem
    column_scale: np.ndarray | None
    held_out: HeldOut

    @classmethod
    def of(cls, tasks: Tasks, train: np.ndarray, test: np.ndarray, settings: Settings) -> _Fold:
        design, column_scale, target_scale = training_design(take(tasks, train), settings)
        held_out = HeldOut.of(tasks, test, design.tasks.labels, target_scale, settings)
        problem = Problem(design, settings.loss)
        _ = problem.scale  # the first pass over the data is made here, for all members
        return cls(problem, column_scale, held_out)

    def scores(
        self,
        member: RowPenalty,
        alphas: np.ndarray,
        settings: Settings,
        report: Callable[[float], None] | None = None,
    ) -> PathScores:
        """Scores on the held-out rows of the member's path on the training rows."""
        path = solve_path(
            self.problem, member, alphas, max_iter=settings.max_iter, tol=settings.tol, report=report
        )
        path = path.scaled(self.column_scale, self.held_out.target_scale)
        return self.held_out.scores((path, i) for i in range(len(path)))


@dataclass(frozen=True)
class HeldOut:
    """Rows that a fold holds out, and what is needed to judge predictions of them."""

    rows: Tasks
    trained: np.ndarray  # position of each row's task among those trained
    task: np.ndarray  # and among all tasks
    target_scale: np.ndarray | None  # of the tasks trained
    unit: np.ndarray  # of the squared errors of each task
    settings: Settings

    @classmethod
    def of(
        cls, tasks: Tasks, test: np.ndarray, trained: np.ndarray, target_scale: Any, settings: Settings
    ) -> HeldOut:
        """The test rows of a fold whose training part has the tasks labelled ``trained``."""
        rows = take(tasks, test)
        index, task = (
            places(labels, rows.labels)[rows.observation_task] for labels in (trained, tasks.labels)
        )
        return cls(rows, index, task, target_scale, error_unit(tasks, settings), settings)

    def scores(self, candidates: Iterable[tuple[Path, int]]) -> PathScores:
        """Score of every candidate, which is a place on a path, and its sums by task."""
        predicted = (self._predict(*candidate) for candidate in candidates)
        scores, sums = zip(*((self._score(z), self._sums(z)) for z in predicted), strict=True)
        return {"scores": np.array(scores), "by_task": np.array(sums)}

    def _predict(self, path: Path, i: int) -> np.ndarray:
        z = predict_observations(self.rows, path.features[i], path.values[i], self.trained)
        return z + path.intercepts[i][self.trained]

    def _sums(self, z: np.ndarray) -> np.ndarray:
        weights = np.ones_like(z) if self.rows.weights is None else self.rows.weights
        if self.settings.classes is None:
            mean = self.settings.loss.mean(z)
            return squared_errors(self.rows.y, mean, weights, self.task, self.unit)
        return class_sums(self.rows.y, z, weights, self.task, len(self.unit))

    def _score(self, z: np.ndarray) -> float:
        settings, rows, y = self.settings, self.rows, self.rows.y
        if settings.metric is None:
            weight = np.ones_like(y) if rows.weights is None else rows.weights
            scale = 1.0 if self.target_scale is None else self.target_scale[self.trained]
            # the loss part of the objective, for the same reason that the fit weighs rows and tasks with it
            return -settings.loss.value(y / scale, z / scale, weight / weight.sum())
        metric = settings.metric
        if settings.classes is not None:
            y = settings.classes[(y > 0.0).astype(np.intp)]
            if "decision_function" not in metric.responses:
                by_probability = "predict_proba" in metric.responses
                z = settings.loss.mean(z) if by_probability else settings.classes[(z > 0.0).astype(np.intp)]
        else:
            z = settings.loss.mean(z)
        labels = rows.labels[rows.observation_task]
        return score_predictions(y, z, labels, rows.weights, metric=metric, pooled=settings.pooled)


@dataclass(frozen=True)
class FoldScores:
    """What was found on every fold, for each member (or other list of candidates)."""

    found: list[list[PathScores]]

    @property
    def scores(self) -> list[np.ndarray]:
        """Held-out scores of each member, (n_alphas, n_folds)."""
        return [np.column_stack([fold["scores"] for fold in folds]) for folds in self.found]

    def by_task(self, m: int, i: int) -> np.ndarray:
        """Sums by task of the i-th candidate of a member, (n_folds, n_sums, n_tasks)."""
        return np.array([fold["by_task"][i] for fold in self.found[m]])


def scores_by_task(
    tasks: Tasks,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    sums: np.ndarray,
    settings: Settings,
    **options,
) -> dict[str, Any]:
    """``heldout_scores_`` from the sums by task of the choice."""
    tested = [observations(tasks, test) for _, test in folds]
    unit, classify = error_unit(tasks, settings), settings.classes is not None
    return heldout_scores(tasks, tested, sums, unit=unit, classify=classify, **options)


def error_unit(tasks: Tasks, settings: Settings) -> np.ndarray:
    """The unit of each task's errors: its spread over all rows, so that no square overflows."""
    return np.ones(tasks.n_tasks) if settings.classes is not None else target_spread(tasks)


def training_design(fitted: Tasks, settings: Settings) -> tuple[Design, np.ndarray | None, np.ndarray | None]:
    """Training rows as the solvers see them, and their own scales of columns and of targets."""
    column_scale = column_spread(fitted) if settings.standardize else None
    target_scale = target_spread(fitted) if settings.scale_targets else None
    if target_scale is not None:
        fitted = fitted.with_y(fitted.y / target_scale[fitted.observation_task])
    design = Design(fitted, column_scale=column_scale, fit_intercept=settings.fit_intercept)
    return design, column_scale, target_scale


def by_rows(tasks: Tasks) -> bool:
    """Whether folds split the rows of X (several targets, all observed) and not the observations."""
    if not tasks.is_complete or tasks.n_tasks == 1:
        return False
    weights = None if tasks.weights is None else tasks.weights.reshape(tasks.n_tasks, -1)
    return weights is None or bool(np.all(weights > 0.0))


def take(tasks: Tasks, part: np.ndarray) -> Tasks:
    """The observations of a fold; where folds split rows, those rows with all their targets."""
    chosen = tasks.select(observations(tasks, part))
    if not by_rows(tasks):
        return chosen
    return replace(chosen, X=tasks.X[part], rows=np.tile(np.arange(len(part)), tasks.n_tasks))


def observations(tasks: Tasks, part: np.ndarray) -> np.ndarray:
    """The part of a fold as positions of observations."""
    if not by_rows(tasks):
        return part
    return (np.arange(tasks.n_tasks)[:, None] * tasks.X.shape[0] + part).ravel()


def places(labels: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Position of each wanted label."""
    where = {label: t for t, label in enumerate(labels.tolist())}
    return np.array([where[label] for label in wanted.tolist()], dtype=np.intp)


def predict_observations(
    tasks: Tasks, features: np.ndarray, values: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Linear predictor of every observation from a few rows of A, without intercept."""
    block = tasks.X[:, features]
    block = block.toarray() if sparse.issparse(block) else np.asarray(block)
    if tasks.rows is not None:
        block = block[tasks.rows]
    return np.einsum("ij,ji->i", block, values[:, index])


def results_table(
    members: Sequence[RowPenalty], grids: Sequence[np.ndarray], scores: Sequence[np.ndarray]
) -> dict[str, Any]:
    """One row per (p, k, alpha): the columns of ``cv_results_``."""
    table: dict[str, Any] = {
        "p": np.repeat([float(member.p) for member in members], [len(grid) for grid in grids]),
        "k": np.repeat([member_k(member) for member in members], [len(grid) for grid in grids]),
        "alpha": np.concatenate(grids),
    }
    return {**table, **score_columns(np.concatenate(scores))}


def score_columns(scores: np.ndarray) -> dict[str, np.ndarray]:
    """Mean, spread and rank of scores (n_candidates, n_folds), and a column per fold."""
    mean = scores.mean(axis=1)
    table = {
        "mean_test_score": mean,
        "std_test_score": _deviation(scores, ddof=0),
        "rank_test_score": np.argsort(np.argsort(-mean, kind="stable"), kind="stable") + 1,
    }
    return {**table, **{f"split{fold}_test_score": column for fold, column in enumerate(scores.T)}}


def _deviation(scores: np.ndarray, *, ddof: int) -> np.ndarray:
    """Standard deviation over folds, in units of the largest score so that no square overflows."""
    size = np.abs(scores).max(axis=-1)
    unit = np.where((size > 0.0) & np.isfinite(size), size, 1.0)
    with np.errstate(invalid="ignore"):  # a score of minus infinity has no deviation
        return unit * np.std(scores / unit[..., None], axis=-1, ddof=ddof)


def member_k(member: RowPenalty) -> float:
    """k as a number: 0 for the log edge."""
    return float(member.k)


def choose(scores: Sequence[np.ndarray], selection: str) -> tuple[int, int]:
    """Position (member, alpha) of the choice: the best mean, or the strongest alpha within an error of it."""
    means = [np.nan_to_num(part.mean(axis=1), nan=-np.inf) for part in scores]
    if all(np.isneginf(mean).all() for mean in means):
        raise ValueError(
            "No candidate has a score on every fold: the metric is not defined on the test rows. "
            "Use fewer folds (more rows of each task in each), scoring=None, or a pooled task_scorer."
        )
    member = int(np.argmax([mean.max() for mean in means]))
    mean = means[member]
    best = int(np.argmax(mean))
    if selection == "best":
        return member, best
    folds = scores[member][best]
    error = _deviation(folds, ddof=1) / np.sqrt(len(folds)) if len(folds) > 1 else 0.0
    return member, int(np.flatnonzero(mean >= mean[best] - error)[0])  # alphas fall: the first is strongest
