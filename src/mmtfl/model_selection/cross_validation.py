"""Cross-validation: candidates are solved and scored on every fold, then one of them is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy import sparse

from mmtfl.engines import Engine
from mmtfl.engines.threads import one_blas_thread
from mmtfl.inference.task_levels import (
    LevelPrior,
    TaskLevels,
    are_in_the_fit,
    effective_parameters,
    follow_the_fit,
    marginal_model,
)
from mmtfl.model_selection.folds import Fold, take
from mmtfl.model_selection.heldout import class_sums, deviances, error_unit, squared_errors
from mmtfl.model_selection.metrics import Metric, mean_task_score, pooled_score
from mmtfl.model_selection.progress import Pace, Progress
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.losses.by_rows import LossOnRows, TaskLoss, on_rows, target_units
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.checkpoint import Checkpoint, Expected, below, finite, numbers
from mmtfl.solvers.path import Paths, Start, alpha_grid
from mmtfl.solvers.shards import as_is, in_order
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.scaling import (
    column_spread,
    task_factors,
    task_totals,
    with_task_factors,
)

# Of a list of candidates on one fold: scores, sums by_task, and the models if later ones start from them
ListScores = dict[str, np.ndarray]


class Linear(NamedTuple):
    """A model on the training rows of a fold: features kept, their coefficients, and the intercepts.

    `loss` is the objective without the penalty, if that is known.
    """

    features: np.ndarray
    values: np.ndarray
    intercept: np.ndarray
    loss: float = np.nan
    penalty: RowPenalty | None = None


_STAYS = 1 << 21  # entries of X up to which folds stay in memory between the stages of a search
_ENTRIES = 1 << 22  # of coefficients or predictions that are held at a time


@dataclass(frozen=True)
class Settings:
    """What all folds and candidates of one search have in common."""

    loss: TaskLoss
    fit_intercept: bool
    standardize: bool
    scale_targets: bool
    max_iter: int
    tol: float
    metric: Metric | None
    pooled: bool
    classes: np.ndarray | None
    task_weight: Any = None
    keep_models: bool = False
    levels: str = "free"

    def shrink_after(self, tasks: Tasks) -> bool:
        """Whether levels of these tasks are shrunk once their coefficients are known."""
        shared = tasks.rows is not None
        after = follow_the_fit(self.loss, n_tasks=tasks.n_tasks, rows_are_shared=shared)
        return self.levels == "shrunk" and self.fit_intercept and after

    def problem(self, tasks: Tasks, design: Design, totals: np.ndarray) -> Problem:
        """The problem of tasks; levels of classes and counts have a prior, found without any slopes."""
        shrunk = self.levels == "shrunk" and self.fit_intercept
        if not (shrunk and are_in_the_fit(self.loss, tasks)):
            return Problem(design, self.loss)
        assert isinstance(self.loss, Loss)
        of_tasks = TaskLevels.of(design, None, totals)
        prior = LevelPrior.of(of_tasks, marginal_model(of_tasks, tasks, self.loss, rough=True))
        return prior.problem(tasks, self.loss, 1.0 / design.inverse_scale)


# -- candidates --------------------------------------------------------------------------------------------


class Candidates(Protocol):
    """A list of models to choose from, which are solved one after the other on the same rows."""

    @property
    def effort(self) -> tuple:
        """Sort key by expected computing time."""

    def columns(self) -> dict[str, np.ndarray]:
        """The parameters of the models: the first columns of ``cv_results_``."""

    def solve(
        self, paths: Paths, fold: int, *, max_iter: int, tol: float,
        report: Callable[[float], None] | None = None,
    ) -> Iterable[Linear]:  # fmt: skip
        """The model of every candidate on the training rows of a fold, in the units of their problem."""


@dataclass(frozen=True)
class MemberPath:
    """A member of the family at every alpha, largest first.

    Attributes
    ----------
    member : RowPenalty
        The member; its own strength does not matter.
    alphas : ndarray
        The strengths.
    starts : list of Start, or None
        For each fold the solution at the alpha before the first one that is solved.
    curves : bool
        Whether its features have curves.
    """

    member: RowPenalty
    alphas: np.ndarray
    starts: Sequence[Start] | None = None
    curves: bool = False

    @property
    def effort(self) -> tuple:
        """Concave members take longer than convex ones, and those with pooling than those without."""
        return not self.member.is_convex, self.starts is None, float(self.member.pooling), len(self.alphas)

    def columns(self) -> dict[str, np.ndarray]:
        """p, k (0 at the log edge), pooling, curves and alpha."""
        names, n = ("p", "k", "pooling"), len(self.alphas)
        same = {name: np.full(n, float(getattr(self.member, name))) for name in names}
        return {**same, "curves": np.full(n, self.curves), "alpha": self.alphas}

    @property
    def place(self) -> tuple:
        """Sort key among members that tie: lines, convexity, and much pooling come first."""
        return self.curves, not self.member.is_convex, -float(self.member.pooling)

    def part(self, index: np.ndarray, starts: Sequence[Start] | None = None) -> MemberPath:
        """The same member at some of the alphas."""
        return replace(self, alphas=self.alphas[index], starts=starts)

    def solve(self, paths: Paths, fold: int, **options: Any) -> Iterable[Linear]:
        """Coefficients and intercepts along the path."""
        start = None if self.starts is None else self.starts[fold]
        path = paths.solve(self.member, self.alphas, start=start, **options)
        assert path.losses is not None
        member = paths.here(self.member)
        penalties = [member.at(alpha) for alpha in path.alphas]
        parts = path.features, path.values, path.intercepts, path.losses, penalties
        return (Linear(*one) for one in zip(*parts, strict=True))


def member_paths(
    paths: Paths, members: Sequence[RowPenalty], alphas: int | np.ndarray, ratio: float | None, *,
    curves: bool = False, rough: bool = False,
) -> list[MemberPath]:  # fmt: skip
    """Each member with the alphas that are tried for it; `paths` are on all rows. See `alpha_max`."""
    if isinstance(alphas, int | np.integer):
        grids = [
            alpha_grid(paths.problem, one, int(alphas), ratio, paths=paths, rough=rough) for one in members
        ]
        return [MemberPath(*both, curves=curves) for both in zip(members, grids, strict=True)]
    given = np.sort(np.asarray(alphas, dtype=float))[::-1]
    return [MemberPath(member, given, curves=curves) for member in members]


# -- scores on folds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldScores:
    """Results of each list of candidates on the folds; some may have been tried on the first folds only."""

    found: list[list[ListScores]]

    @property
    def scores(self) -> list[np.ndarray]:
        """Held-out scores of each list, (n_candidates, n_folds); NaN on folds that it was not tried on."""
        n_folds = max(map(len, self.found))
        known = [np.column_stack([fold["scores"] for fold in folds]) for folds in self.found]
        return [
            np.pad(part, ((0, 0), (0, n_folds - part.shape[1])), constant_values=np.nan) for part in known
        ]

    def by_task(self, m: int, i: int) -> np.ndarray:
        """Sums by task of the i-th candidate of a list, (n_folds, n_sums, n_tasks)."""
        return np.array([fold["by_task"][i] for fold in self.found[m]])

    def models(self, m: int, i: int) -> list[Start] | None:
        """The i-th model of a list on every fold, if models were kept."""
        if any("ends" not in fold for fold in self.found[m]):
            return None
        return [_unpacked(fold, i) for fold in self.found[m]]


def _packed(found: Sequence[Linear], n_features: int) -> ListScores:
    """Pack models into a few arrays: the nonzero rows of all models, stacked."""
    features, values, intercepts = zip(*(one[:3] for one in found), strict=True)
    return {
        "ends": np.cumsum([len(kept) for kept in features]),
        "features": np.concatenate(features),
        "values": np.concatenate(values),
        "intercepts": np.array(intercepts),
        "n_features": np.array([n_features]),
    }


def _expected(n: int, tasks: Tasks, keep_models: bool) -> dict[str, Expected]:
    """Types and shapes of the checkpointed results of n candidates on one fold; scores may be NaN."""
    T, d = tasks.n_tasks, tasks.n_features
    scores: dict[str, Expected] = {"scores": (numbers, n), "by_task": (numbers, n, None, T)}
    if not keep_models:
        return scores
    rows: dict[str, Expected] = {"ends": (below(n * d + 1), n), "features": (below(d), None)}
    values: dict[str, Expected] = {"values": (finite, None, T), "intercepts": (finite, n, T)}
    return {**scores, **rows, **values, "n_features": (lambda kept: kept.tolist() == [d], 1)}


def merged(first: ListScores, second: ListScores, order: np.ndarray) -> ListScores:
    """Scores of two lists on one fold as those of one list in another order, models included if both have."""
    both = {name: np.concatenate([first[name], second[name]])[order] for name in ("scores", "by_task")}
    if "ends" not in first or "ends" not in second:
        return both
    models = [_model(part, i) for part in (first, second) for i in range(len(part["ends"]))]
    return {**both, **_packed([models[i] for i in order], int(first["n_features"][0]))}


def _model(packed: ListScores, i: int) -> Linear:
    rows = slice(packed["ends"][i - 1] if i else 0, packed["ends"][i])
    return Linear(packed["features"][rows], packed["values"][rows], packed["intercepts"][i])


def _unpacked(packed: ListScores, i: int) -> Start:
    features, values, intercepts = _model(packed, i)[:3]
    A = np.zeros((int(packed["n_features"][0]), packed["intercepts"].shape[1]))
    A[features] = values
    return A, intercepts


def fold_scores(
    tasks: Tasks,
    folds: Sequence[Fold],
    settings: Settings,
    candidates: Sequence[Candidates],
    *,
    on: Sequence[int] | None = None,
    n_jobs: int | None = None,
    stage: str = "",
    keep_models: bool = False,
    verbose: int = 0,
    pace: Pace | None = None,
    engine: Engine | None = None,
    kept: Checkpoint | None = None,
    made: dict[int, Any] | None = None,
) -> FoldScores:
    """Score every list of candidates on every fold, or `on` those of the given numbers.

    All lists share what is made of a fold: its rows, the first pass over them and the Gram matrices. An
    engine whose data are elsewhere gets whole lists to work on; finished ones are kept in a checkpoint, under
    the name of the `stage` of a search that has several. Models are kept where later lists start from them.
    What was made of folds of moderate size stays in `made`, for later stages.
    """
    settings = replace(settings, keep_models=keep_models)

    def name(step: tuple[int, int]) -> str:
        return f"{stage}fold-{step[0]}-member-{step[1]}"

    on = range(len(folds)) if on is None else on
    every = [(f, m) for f in on for m in range(len(candidates))]
    known = {}
    if kept is not None:
        lengths = [len(next(iter(part.columns().values()))) for part in candidates]
        expected = [_expected(n, tasks, keep_models) for n in lengths]
        found = {step: kept.read(name(step), expected[step[1]]) for step in every}
        known = {step: scores for step, scores in found.items() if scores is not None}
    left = [step for step in every if step not in known]
    elsewhere = None if engine is None or engine.is_here else engine
    n_slots = min(effective_n_jobs(n_jobs), len(left)) if elsewhere is None else elsewhere.n_slots
    progress = Progress(f"{stage}cross-validation", len(every), "paths", shown=verbose > 0, pace=pace)

    def done(step: tuple[int, int], found: ListScores) -> None:
        known[step] = found
        if kept is not None:
            kept.write(name(step), found)
        progress.finish(step)

    with progress:
        for step in known:
            progress.finish(step)
        if elsewhere is None:
            stays = made if made is not None and tasks.X.shape[0] * tasks.n_features <= _STAYS else None
            _score_here(tasks, folds, candidates, settings, n_slots, left, done, progress, stays)
        else:
            _score_elsewhere(tasks, folds, candidates, settings, elsewhere, left, done)
    return FoldScores([[known[f, m] for f in on] for m in range(len(candidates))])


def _score_here(tasks, folds, candidates, settings, n_threads, left, done, progress: Progress, made) -> None:
    """Score what is left, as pairs (fold, list), in threads."""

    def work(fold: _Fold, step: tuple[int, int]) -> None:
        done(step, fold.scores(candidates[step[1]], lambda share: progress.reach(step, share)))

    def calls() -> Iterator[Any]:
        # fold by fold, made when their turn comes: only those at work are in memory
        for f, steps in groupby(left, key=itemgetter(0)):
            fold = _Fold.of(tasks, folds, f, settings) if made is None or f not in made else made[f]
            if made is not None:
                made[f] = fold = replace(fold, settings=settings)
            for step in steps:
                yield delayed(work)(fold, step)

    if n_threads > 1:
        Parallel(n_jobs=n_threads, backend="threading")(calls())
    else:
        for function, arguments, keywords in calls():
            function(*arguments, **keywords)


def _score_elsewhere(tasks, folds, candidates, settings, engine: Engine, left, done) -> None:
    """Score what is left where an engine has the data: in a queue, what takes longest first."""
    queue = sorted(left, key=lambda step: candidates[step[1]].effort, reverse=True)
    data, splits = (engine.place(as_is, [part], name="data") * len(queue) for part in (tasks, list(folds)))
    lists = [candidates[m] for _, m in queue]
    numbers, same = [f for f, _ in queue], [settings] * len(queue)
    # all calls are handed in at once; each result is fetched, and let go, in its turn
    kept = engine.map(_scores_there, data, splits, numbers, lists, same, keep=True, name="paths")[::-1]
    for step in queue:
        (found,) = engine.map(as_is, [kept.pop()], name="scores")
        done(step, found)


def _scores_there(
    tasks: Tasks, folds: Sequence[Fold], f: int, candidates: Candidates, settings: Settings
) -> ListScores:
    """Scores of one list on one fold, where the data are."""
    with one_blas_thread():
        return _Fold.of(in_order(tasks), folds, f, settings).scores(candidates)


@dataclass(frozen=True)
class _Fold:
    """One fold: the training rows as a scaled problem, and the held-out rows with the data to score them."""

    number: int
    paths: Paths
    column_scale: np.ndarray | None
    target_scale: np.ndarray | None
    rows: Tasks
    weights: np.ndarray  # of these rows
    trained_task: np.ndarray  # position of each held-out row's task among those trained
    observation_task: np.ndarray  # and among all tasks
    unit: np.ndarray  # of the squared errors of each task
    settings: Settings
    loss: Loss  # on the rows held out
    levels: TaskLevels | None  # of the rows fitted, where they are shrunk after the fit

    @classmethod
    def of(cls, tasks: Tasks, folds: Sequence[Fold], f: int, settings: Settings) -> _Fold:
        fitted, rows = (take(tasks, part) for part in folds[f])
        totals = task_totals(fitted)
        fitted = with_task_factors(fitted, task_factors(fitted, settings.task_weight))
        column_scale = column_spread(fitted) if settings.standardize else None
        unit, target_scale = error_unit(tasks, settings), None
        if settings.scale_targets:
            target_scale = target_units(fitted, settings.loss, otherwise=float(np.median(unit)))
            fitted = fitted.with_y(fitted.y / target_scale[fitted.observation_task])
        design = Design(fitted, column_scale=column_scale, fit_intercept=settings.fit_intercept)
        problem = settings.problem(fitted, design, totals)
        _ = problem.scale  # the first pass over the data is made here, for all candidates
        trained, among_all = (
            _places(labels, rows.labels)[rows.observation_task] for labels in (fitted.labels, tasks.labels)
        )
        loss = settings.loss
        if not isinstance(loss, Loss) or rows.known is not None:
            assert isinstance(problem.loss, LossOnRows)
            factors = problem.loss.factors if problem.loss.prior_rows is None else None
            loss = on_rows(loss, rows, None if factors is None else factors[trained[rows.offsets[:-1]]])
        some = None if fitted.n_tasks == tasks.n_tasks else _places(tasks.labels, fitted.labels)
        weights = np.ones_like(rows.y) if rows.weights is None else rows.weights
        levels = TaskLevels.of(design, target_scale, totals) if settings.shrink_after(fitted) else None
        return cls(
            f, Paths(problem, some), column_scale, target_scale, rows, weights, trained, among_all, unit,
            settings, loss, levels,
        )  # fmt: skip

    def scores(self, candidates: Candidates, report: Callable[[float], None] | None = None) -> ListScores:
        """Score of every candidate on the held-out rows, and its sums by task."""
        settings = self.settings
        found = list(
            candidates.solve(
                self.paths, self.number, max_iter=settings.max_iter, tol=settings.tol, report=report
            )
        )
        scores, sums = [], []
        for Z in self._predictions(found):
            scores += self._scores(Z)
            sums.append(self._sums(Z))
        models = _packed(found, self.rows.n_features) if settings.keep_models else {}
        return {"scores": np.array(scores), "by_task": np.concatenate(sums), **models}

    def _predictions(self, found: Sequence[Linear]) -> Iterator[np.ndarray]:
        """Linear predictors (models, held-out rows), in the units of the targets, some models at a time."""
        used = np.unique(np.concatenate([one.features for one in found]))
        block = self.rows.X[:, used]
        block = block.toarray() if sparse.issparse(block) else np.asarray(block)
        if self.rows.rows is not None:
            block = block[self.rows.rows]
        n_tasks = len(found[0].intercept)
        n_together = max(1, _ENTRIES // max(len(self.rows.y), n_tasks * len(used)))
        for first in range(0, len(found), n_together):
            models = found[first : first + n_together]
            coefficients = np.zeros((n_tasks, len(used), len(models)))
            kept, values = [one.features for one in models], [one.values for one in models]
            which = np.repeat(np.arange(len(models)), [len(features) for features in kept])
            coefficients[:, np.searchsorted(used, np.concatenate(kept)), which] = np.concatenate(values).T
            yield self._predict(block, used, coefficients, self._intercepts(models))

    def _intercepts(self, models: Sequence[Linear]) -> np.ndarray:
        """Intercepts to predict with, (n_tasks, n_models)."""
        if self.levels is None:
            return np.column_stack([one.intercept for one in models])
        design = self.paths.problem.design
        n_parameters = np.array([effective_parameters(one, design.curvature) for one in models])
        losses = design.mean_size * np.array([one.loss for one in models])
        return self.levels.intercepts(models, losses, n_parameters).T

    def _predict(self, block, used, coefficients, intercepts) -> np.ndarray:
        if self.column_scale is not None:
            coefficients /= self.column_scale[used, None]
        offsets, out = self.rows.offsets, np.empty((intercepts.shape[1], len(self.rows.y)))
        for first, last in pairwise(offsets):
            t = self.trained_task[first]
            predicted = block[first:last] @ coefficients[t] + intercepts[t]
            unit = 1.0 if self.target_scale is None else self.target_scale[t]
            out[:, first:last] = unit * predicted.T
        return out

    def _sums(self, Z: np.ndarray) -> np.ndarray:
        y, weights = self.rows.y, self.weights
        if self.settings.classes is None and self.settings.loss.is_quadratic:
            return squared_errors(y, Z, weights, self.observation_task, self.unit)
        if self.settings.classes is None:
            return deviances(self.settings.loss, self.rows, Z, weights, self.observation_task, self.unit)
        return np.array([class_sums(y, z, weights, self.observation_task, len(self.unit)) for z in Z])

    def _scores(self, Z: np.ndarray) -> list[float]:
        """Scores of some models, from their linear predictors (models, held-out rows)."""
        if self.settings.metric is not None:
            return [self._measured(self.settings.metric, z) for z in Z]
        scale = 1.0 if self.target_scale is None else self.target_scale[self.trained_task]
        # the loss part of the objective, for the same reason that the fit weighs rows and tasks with it
        y, share = self.rows.y / scale, self.weights / self.weights.sum()
        return [-self.loss.value(y, z, share) for z in Z / scale]

    def _measured(self, metric: Metric, z: np.ndarray) -> float:
        settings, rows, y = self.settings, self.rows, self.rows.y
        if settings.classes is not None:
            y = settings.classes[(y > 0.0).astype(np.intp)]
            if "decision_function" not in metric.responses:
                by_probability = "predict_proba" in metric.responses
                z = self.loss.mean(z) if by_probability else settings.classes[(z > 0.0).astype(np.intp)]
        else:
            z = self.loss.mean(z)
        if settings.pooled:
            return pooled_score(y, z, metric, rows.weights)
        return mean_task_score(y, z, rows.labels[rows.observation_task], metric, rows.weights)


def _places(labels: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Position of each wanted label."""
    where = {label: t for t, label in enumerate(labels.tolist())}
    return np.array([where[label] for label in wanted.tolist()], dtype=np.intp)
