"""What every search has in common: the folds of the rows, the scores of candidates, and the choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils._param_validation import HasMethods, Interval, InvalidParameterError

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.inputs import check_nothing_else, take_task_column
from mmtfl.estimators.parameters import THREADS, Declared, choice, parameter
from mmtfl.estimators.prediction import predict_rows
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.shrunk_levels import free_levels
from mmtfl.inference.heldout_errors import sorted_errors
from mmtfl.model_selection.choosing import choose, results_table
from mmtfl.model_selection.cross_validation import (
    Candidates,
    FoldScores,
    Settings,
    fold_scores,
)
from mmtfl.model_selection.folds import (
    Fold,
    check_folds,
    folds_of_rows,
    folds_of_tasks,
    observations,
    take,
    usual_number,
    with_groups,
)
from mmtfl.model_selection.heldout import heldout_scores
from mmtfl.model_selection.progress import Pace
from mmtfl.model_selection.scoring import TaskScorer, task_scorer
from mmtfl.model_selection.splitting import TaskKFold, TaskSplitter
from mmtfl.solvers.path import Start
from mmtfl.tasks.checks import check_task_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.stored import StoredTasks
from mmtfl.tasks.summaries import SummarisedTasks

# declared by each kind of search, behind its other arguments by position
CV = parameter(
    Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), Iterable, default=None, kw_only=False
)
_PATH_TOL = 1e-4  # held-out scores and errors do not see more; the final fit uses tol


class Search(Declared):
    """What every search does: split the rows, score all candidates on every fold, and choose one.

    A kind of search lists its candidates and makes the last fit, on all rows.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
        None is 5, or 10 where tasks have less than two rows per feature on average. A number n is
        ``TaskKFold(n, random_state=0)`` (stratified for classifiers): every task is in the training part of
        every fold. With shrunk levels, tasks with a single row of a class are dealt as if they had no
        classes, so that this row is tested too. Where tasks are columns of y, it splits rows with all their
        targets if all are observed, and the single observations if some are not; other splitters always
        split rows. ``TaskTimeSplit`` tests rows that come later in their task. With ``fit(groups=)`` folds
        never separate a group.
    scoring : str or callable
        Score of held-out rows, averaged over tasks, as in ``task_scorer``; rows count by their weight where
        the metric takes weights. None is minus the loss of the rows.
    n_jobs : int
        Threads over folds; -1 for all processors. The result is the same for any number.
    """

    cv: Any
    scoring: Any = parameter(str, callable, default=None)
    n_jobs: int | None = parameter(
        *THREADS, default=None, remedy="Use None, a number of threads, or -1 for all processors."
    )
    search: str = choice(
        ("staged", "full"), "Use 'staged' to choose, 'full' to see the score of every candidate."
    )
    selection = "best"

    def _prepare_folds(
        self, model: Any, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any, groups: Any
    ) -> Prepared:
        """Read what was passed to `fit`; with the folds of a model's search, as positions in the tasks.

        They are rows of a complete shared X, and observations otherwise.
        """
        if isinstance(X, StoredTasks | SummarisedTasks):
            check_nothing_else(groups)
        prepared = model._prepare(X, y, task, sample_weight, offset)
        if prepared.folds:  # few rows in the place of many stored ones have folds already
            return prepared
        if isinstance(X, SummarisedTasks):
            folds = check_folds(self._agreed_folds(X), prepared.tasks, with_classes=False)
            return replace(prepared, folds=folds)
        tasks, with_classes = prepared.tasks, is_classifier(model)
        # levels with a prior need no row of every class in training
        bound = with_classes and not model._has_prior(tasks)
        labels = None if isinstance(X, StoredTasks) else take_task_column(X, task, model.task_column)[1]
        labels = None if labels is None else check_task_labels(labels, None)
        if groups is not None:
            tasks = with_groups(tasks, groups, labels)
        n_rows = tasks.X.shape[0]
        if n_rows < 2:
            raise ValueError(f"Cross-validation needs at least two rows, found n_samples = {n_rows}.")
        cv = self._splitter(tasks, stratify=with_classes)
        if isinstance(cv, TaskSplitter):
            folds = folds_of_tasks(cv, tasks, every_row=with_classes and not bound)
        elif isinstance(X, StoredTasks):
            raise ValueError(self._not_for_stored("TaskKFold"))
        else:
            folds = folds_of_rows(cv, y, labels, tasks, groups)
        folds = check_folds(folds, tasks, with_classes=bound)
        return replace(prepared, tasks=tasks, folds=folds)

    def _agreed_folds(self, summarised: SummarisedTasks) -> list[Fold]:
        """The folds that sites made their summaries with; others would need the rows."""
        number = self.cv if isinstance(self.cv, Integral) else getattr(self.cv, "n_splits", None)
        plain = self.cv is None or isinstance(self.cv, Integral | TaskKFold)
        if not plain or number not in (None, summarised.n_folds):
            raise ValueError(
                f"cv={self.cv!r} does not go with summaries of sites, which were made with "
                f"{summarised.n_folds} folds: leave cv None, or let the sites agree anew."
            )
        return summarised.rows.folds()

    def _splitter(self, tasks: Tasks | StoredTasks, *, stratify: bool) -> Any:
        """Resolve the parameter cv to a splitter or a list of folds."""
        if isinstance(self.cv, str):
            raise InvalidParameterError(f"cv={self.cv!r} is a string: give a number of folds, or a splitter.")
        cv = usual_number(tasks.sizes.mean(), tasks.n_lines) if self.cv is None else self.cv
        return TaskKFold(int(cv), random_state=0, stratify=stratify) if isinstance(cv, Integral) else cv

    def _folds_of_seed(self, prepared: Prepared, seed: int) -> list[Fold]:
        """As many folds as the search has, dealt anew."""
        splitter = TaskKFold(len(prepared.folds), random_state=seed, stratify=is_classifier(self))
        # classes are dealt as evenly as in the first folds, which were checked
        folds = folds_of_tasks(splitter, prepared.tasks, every_row=prepared.prior is not None)
        return check_folds(folds, prepared.tasks, with_classes=False)

    def _not_for_stored(self, splitter: str) -> str:
        return f"cv={self.cv!r} does not go with stored tasks: give a number of folds, or {splitter}."

    def _scorer(self, prepared: Prepared, settings: Settings, **options: Any) -> Callable[..., FoldScores]:
        """What scores lists of candidates on the folds of prepared data; folds are prepared once."""
        options = {"n_jobs": self.n_jobs, "made": {}, "pace": Pace(), **options}
        return partial(fold_scores, prepared.original_tasks(), prepared.folds, settings, **options)

    def _decide(
        self, prepared: Prepared, candidates: Sequence[Any], found: FoldScores, settings: Settings,
        repeated: Mapping[int, np.ndarray] | None = None,
    ) -> tuple[Candidates, int, list[Start] | None]:  # fmt: skip
        """Choose one of the candidates by their scores; what is found there is learned."""
        scores = found.scores
        order = [part.place for part in candidates] if hasattr(candidates[0], "place") else None
        m, i = choose(scores, self.selection, order, repeated)
        self.cv_results_ = results_table(candidates, scores, (m, i), order)
        data = prepared.original_tasks(), prepared.folds, found.by_task(m, i), settings
        self.heldout_scores_ = heldout_scores(*data, prepared.row_counts)
        self.best_score_ = float(scores[m][i].mean())
        return candidates[m], i, found.models(m, i)


def read_grid(given: Any) -> int | np.ndarray | None:
    """A number of strengths, or the strengths if all are positive and finite; None for what is neither."""
    if isinstance(given, Integral):
        return int(given) if int(given) >= 1 else None
    try:
        values = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        return None
    sound = values.ndim == 1 and values.size > 0 and bool(np.all((values > 0.0) & (values < np.inf)))
    return values if sound else None


def search_settings(model: Any, prepared: Prepared, scoring: Any) -> Settings:
    """The settings that all folds of a search over a model share."""
    classes = getattr(model, "classes_", None)
    scorer = scoring if scoring is None or isinstance(scoring, TaskScorer) else task_scorer(scoring)
    metric = None if scorer is None else scorer.metric
    if metric is not None and classes is not None:
        metric = metric.about(classes[1])
    return Settings(
        loss=model._loss,
        fit_intercept=model.fit_intercept,
        standardize=model.standardize,
        scale_targets=prepared.target_scale is not None,
        max_iter=model.max_iter,
        tol=max(model.tol, _PATH_TOL),
        metric=metric,
        pooled=scorer is not None and scorer.average == "pooled",
        classes=classes,
        task_weight=model.task_weight,
        levels=model.levels,
    )


# -- the chosen model without each fold ----------------------------------------------------------------------


def heldout_errors(
    model: TaskModel, prepared: Prepared, found: Sequence[Start] | None = None
) -> dict[str, np.ndarray]:
    """Errors on held-out rows, sorted within each task: what intervals are made of.

    Parameters
    ----------
    model : TaskModel
        With the strengths that were chosen.
    prepared : Prepared
        All rows with their folds.
    found : list of Start, or None
        What the model is on the rows of each fold, in the units of its problem; None where it must be fitted.

    Returns
    -------
    errors : dict of ndarrays
        See `sorted_errors`.
    """
    tasks = prepared.original_tasks()
    tests = [observations(tasks, test) for _, test in prepared.folds]
    rows = np.arange(tasks.n_samples) if tasks.rows is None else tasks.rows
    z = [
        predict_rows(tasks.X[rows[test]], *fit, tasks.observation_task[test])
        for test, fit in zip(tests, _fits_without_folds(model, prepared, tasks, found), strict=True)
    ]
    test = np.concatenate(tests)
    predicted = np.concatenate(z) + (0.0 if tasks.known is None else tasks.known[test])
    return sorted_errors(model._loss, tasks.y[test], predicted, tasks.observation_task[test], tasks.labels)


def fold_models(model: TaskModel, prepared: Prepared, found: Sequence[Start] | None) -> dict[str, np.ndarray]:
    """A model without each fold: coef (n_folds, n_tasks, n_columns) and intercept (n_folds, n_tasks)."""
    fits = _fits_without_folds(model, prepared, prepared.original_tasks(), found)
    coef, intercept = zip(*fits, strict=True)
    return {"coef": np.array(coef), "intercept": np.array(intercept)}


def _fits_without_folds(
    model: TaskModel, prepared: Prepared, tasks: Tasks, found: Sequence[Start] | None
) -> Iterator[Start]:
    """Coefficients and intercepts of a model on each training part; zero for tasks without a row there."""
    model = clone(model)
    here = {
        "tol": max(model.tol, _PATH_TOL),
        "verbose": 0,
        "n_jobs": None,
        "engine": None,
        "checkpoint": None,
    }
    model.set_params(**{name: here[name] for name in here.keys() & model.get_params(deep=False)})
    known = [None] * len(prepared.folds) if found is None else found
    for (train, _), start in zip(prepared.folds, known, strict=True):
        part = take(tasks, train)
        trained = np.isin(tasks.labels, part.labels)
        coef, intercept = np.zeros((tasks.n_tasks, tasks.n_features)), np.zeros(tasks.n_tasks)
        coef[trained], intercept[trained] = _fit_part(model, part, start)
        yield coef, intercept


def _fit_part(model: Any, part: Tasks, known: Start | None) -> Start:
    """Coefficients (n_tasks, n_features) and intercepts of a model on some rows, in the units of the data.

    Where the solution is known, in the units of the model's problem, only the units change.
    """
    prepared = Prepared.of(model, part)
    if known is None:
        prepared = model._with_prior(prepared)
        solution, penalty = model._solve(prepared)
        known = solution.A, solution.intercept
    else:
        penalty = model._penalty(prepared.known)
    A, intercept = known
    if part.absent is not None:
        A = np.where(part.absent.T, 0.0, A)
    free = free_levels(model, prepared, A, intercept, penalty)
    if free is not None:
        of_tasks, fit, n_parameters = free
        intercept = of_tasks.intercepts([fit], np.array([fit.loss]), np.array([n_parameters]))[0]
    scale = 1.0 if prepared.target_scale is None else prepared.target_scale
    return prepared.to_original(A), intercept * scale
