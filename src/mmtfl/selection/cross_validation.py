"""Choosing alpha, p and k by cross-validation: paths on folds, one table of scores, one choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse
from scipy.special import expit

from mmtfl.data.tasks import Tasks
from mmtfl.estimators.metrics import Metric, mean_task_score, pooled_score
from mmtfl.estimators.scaling import column_spread, target_spread
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.objective import Objective
from mmtfl.objective.penalties import LogRows, RowPower
from mmtfl.selection.path import Path, alpha_grid, solve_path

Member = RowPower | LogRows


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
    design: Design, loss: Loss, members: Sequence[Member], alphas: int | np.ndarray, ratio: float | None
) -> list[np.ndarray]:
    """The alphas tried for each member, largest first; they share the null gradient and the curvature."""
    if not isinstance(alphas, int | np.integer):
        return [np.sort(np.asarray(alphas, dtype=float))[::-1] for _ in members]
    first = Objective(design, loss, members[0])
    grids = []
    for member in members:
        objective = Objective(design, loss, member)
        objective.__dict__["null_gradient"] = first.null_gradient
        grids.append(alpha_grid(objective, int(alphas), ratio))
    return grids


def fold_scores(
    tasks: Tasks,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    members: Sequence[Member],
    grids: Sequence[np.ndarray],
    settings: Settings,
    n_jobs: int | None,
) -> list[np.ndarray]:
    """Held-out scores of each member, (n_alphas, n_folds)."""
    jobs = [(m, f) for f in range(len(folds)) for m in range(len(members))]
    run = delayed(_score_fold)
    calls = (run(tasks, *folds[f], members[m], grids[m], settings) for m, f in jobs)
    n_threads = min(effective_n_jobs(n_jobs), len(jobs))
    if n_threads > 1:
        results = Parallel(n_jobs=n_threads, backend="threading")(calls)
    else:
        results = [function(*arguments, **keywords) for function, arguments, keywords in calls]
    scores = [np.empty((len(grid), len(folds))) for grid in grids]
    for (m, f), column in zip(jobs, results, strict=True):
        scores[m][:, f] = column
    return scores


def _score_fold(
    tasks: Tasks, train: np.ndarray, test: np.ndarray, member: Member, alphas: np.ndarray, settings: Settings
) -> np.ndarray:
    """Scores on the test rows of the path fitted on the training rows; scales are those of the training."""
    design, column_scale, target_scale = training_design(take(tasks, train), settings)
    held_out = take(tasks, test)
    path = solve_path(design, settings.loss, member, alphas, max_iter=settings.max_iter, tol=settings.tol)
    path = path.scaled(column_scale, target_scale)
    index = places(design.tasks.labels, held_out.labels)[held_out.observation_task]
    return np.array([score_at(path, i, held_out, index, target_scale, settings) for i in range(len(path))])


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
    if not by_rows(tasks):
        return tasks.select(part)
    n_rows = tasks.X.shape[0]
    chosen = (np.arange(tasks.n_tasks)[:, None] * n_rows + part).ravel()
    return replace(tasks.select(chosen), X=tasks.X[part], rows=np.tile(np.arange(len(part)), tasks.n_tasks))


def places(labels: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Position of each wanted label."""
    where = {label: t for t, label in enumerate(labels.tolist())}
    return np.array([where[label] for label in wanted.tolist()], dtype=np.intp)


def score_at(
    path: Path, i: int, held_out: Tasks, index: np.ndarray, target_scale, settings: Settings
) -> float:
    """Score of held-out rows, whose tasks are at `index`, by the i-th coefficients of a path."""
    z = predict_observations(held_out, path.features[i], path.values[i], index) + path.intercepts[i][index]
    y = held_out.y
    if settings.metric is None:
        weight = np.ones_like(y) if held_out.weights is None else held_out.weights
        scale = 1.0 if target_scale is None else target_scale[index]
        # the loss part of the objective, for the same reason that the fit weighs rows and tasks with it
        return -settings.loss.value(y / scale, z / scale, weight / weight.sum())
    metric = settings.metric
    if settings.classes is not None:
        y = settings.classes[(y > 0.0).astype(np.intp)]
        if "decision_function" not in metric.responses:
            by_probability = "predict_proba" in metric.responses
            z = expit(z) if by_probability else settings.classes[(z > 0.0).astype(np.intp)]
    if settings.pooled:
        return pooled_score(y, z, metric)
    return mean_task_score(y, z, held_out.labels[held_out.observation_task], metric)


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
    members: Sequence[Member], grids: Sequence[np.ndarray], scores: Sequence[np.ndarray]
) -> dict[str, Any]:
    """One row per (p, k, alpha): the columns of ``cv_results_``."""
    stacked = np.concatenate(scores)
    mean = stacked.mean(axis=1)
    table: dict[str, Any] = {
        "p": np.repeat([float(member.p) for member in members], [len(grid) for grid in grids]),
        "k": np.repeat([member_k(member) for member in members], [len(grid) for grid in grids]),
        "alpha": np.concatenate(grids),
        "mean_test_score": mean,
        "std_test_score": stacked.std(axis=1),
        "rank_test_score": np.argsort(np.argsort(-mean, kind="stable"), kind="stable") + 1,
    }
    for fold in range(stacked.shape[1]):
        table[f"split{fold}_test_score"] = stacked[:, fold]
    return table


def member_k(member: Member) -> float:
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
    error = folds.std(ddof=1) / np.sqrt(len(folds)) if len(folds) > 1 else 0.0
    return member, int(np.flatnonzero(mean >= mean[best] - error)[0])  # alphas fall: the first is strongest
