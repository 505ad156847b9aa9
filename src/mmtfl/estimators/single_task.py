"""Single-task models, ridge or lasso, with one strength for all tasks or one for each.

They are the edge k = inf of the family, where tasks do not meet: the search over one strength for all is that
of the family, and the search per task is the same search on every task alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils._param_validation import Options

from mmtfl.estimators.classification import TaskClassifier
from mmtfl.estimators.cross_validated import CV, heldout_errors
from mmtfl.estimators.parameters import parameter
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.regression import TaskRegressor
from mmtfl.estimators.search import ALPHAS, TaskSearch
from mmtfl.model_selection.folds import by_rows
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers.solution import Solution
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.scaling import column_spread


class SingleTaskSearch(TaskSearch):
    """The search over strengths on the edge k = inf.

    Parameters
    ----------
    p : {1, 2}
        2 is ridge, 1 the lasso.
    per_task : bool
        Whether every task has a strength of its own, chosen on its own rows, instead of one for all tasks.
        With ``standardize`` each task is then on its own scale.

    Attributes
    ----------
    alpha_ : float, or ndarray of shape (n_tasks,) with ``per_task``
        The strength chosen, in units of the loss of all tasks: ``MMTFLRegressor(p, inf, alpha)`` has the same
        coefficients in the tasks of that strength.
    alphas_ : ndarray of shape (n_tried,), or (n_tasks, n_alphas)
        Strengths scored, largest first; with ``per_task`` always all of them.
    cv_results_ : dict of ndarrays
        One row per alpha that was scored, and per task with ``per_task``: alpha, mean_test_score,
        std_test_score, rank_test_score and a column per fold.
    best_score_ : float
        Mean held-out score of the choice, over tasks too: of ``scoring``, or with None minus half the mean
        squared error (in units of each task's spread with ``scale_targets``), or minus the mean logistic
        loss.
    heldout_scores_ : dict of ndarrays
        Scores of each task on held-out rows, as in `MMTFLRegressorCV`: task, n_rows, and r2, or accuracy, auc
        and base_rate.
    best_p_, best_k_ : float
        The member of the family: p and inf.
    path_ : Path, or a list with one for each task
        Coefficients at all alphas, on all rows.
    """

    p: float = parameter(
        Options(Real, {1, 2}), default=2, remedy="Use p=2 for ridge, or p=1 for the lasso.", kw_only=False
    )
    alphas: Any = ALPHAS
    cv: Any = CV
    per_task: bool = parameter("boolean", default=False)
    levels: str = parameter(default="free")  # the tasks of the baseline share nothing

    # the family's options that have nothing to choose here
    solver, engine, checkpoint, eps = "auto", None, None, 1e-2

    def _has_prior(self, tasks: Any) -> bool:
        return super()._has_prior(tasks) and not self.per_task  # every task for itself

    @property
    def pk(self) -> tuple[float, float]:
        """The member of the family."""
        return float(self.p), np.inf

    def _search(self, prepared: Prepared) -> tuple[Prepared, Any, Any, Any]:
        if not self.per_task:
            return super()._search(prepared)
        alone = list(_each_task(prepared, self.standardize))
        searches, solutions, on_folds = zip(*(self._search_alone(*task) for task in alone), strict=True)
        shares = np.array([share for _, share in alone])
        tables = [
            {**search.cv_results_, "alpha": share * search.cv_results_["alpha"]}
            for search, share in zip(searches, shares, strict=True)
        ]
        self.cv_results_ = _stacked(tables, prepared.tasks.labels)
        self.heldout_scores_ = {
            name: np.concatenate([search.heldout_scores_[name] for search in searches])
            for name in searches[0].heldout_scores_
        }
        self.alphas_ = np.array([table["alpha"] for table in tables])
        self.alpha_ = shares * np.array([search.alpha_ for search in searches])
        self.best_score_ = float(np.mean([search.best_score_ for search in searches]))
        (self.best_p_, self.best_k_), self.best_pooling_ = self.pk, 0.0
        self.best_curves_ = prepared.tasks.curves is not None
        self.path_ = [search.path_ for search in searches]  # type: ignore[assignment]
        own = [task.column_scale for task, _ in alone]
        solution = _together(solutions, shares, own, prepared.column_scale)
        return prepared, solution, make_penalty(*self.pk, 1.0), on_folds

    def _search_alone(self, task: Prepared, share: float) -> tuple[Any, Solution, Any]:
        """The search for one strength on one task, in units of its own loss; its solution and folds."""
        alphas = self.alphas if isinstance(self.alphas, Integral) else self._alphas() / share
        search = clone(self).set_params(per_task=False, alphas=alphas, search="full")
        if is_classifier(self):
            search.classes_ = self.classes_
        _, solution, _, on_folds = search._search(task)
        return search, solution, on_folds

    def _heldout_errors(self, prepared: Prepared, on_folds: Any) -> dict[str, np.ndarray]:
        if not self.per_task:
            return super()._heldout_errors(prepared, on_folds)
        model = self._member_at(1.0)  # the fits are known: their strengths do not matter
        alone = zip(_each_task(prepared, self.standardize), on_folds, strict=True)
        found = [heldout_errors(model, task, models) for (task, _), models in alone]
        return {name: np.concatenate([errors[name] for errors in found]) for name in found[0]}


def _each_task(prepared: Prepared, standardize: bool) -> Iterator[tuple[Prepared, float]]:
    """Yield every task alone, with its folds and its own scaling, and its share n_t / n of the loss."""
    tasks = prepared.tasks
    sizes = prepared.task_weights
    for t in range(tasks.n_tasks):
        first, last = int(tasks.offsets[t]), int(tasks.offsets[t + 1])
        alone = tasks.select(np.arange(first, last))
        scale = None if prepared.target_scale is None else prepared.target_scale[t : t + 1]
        folds = prepared.folds if by_rows(tasks) else _folds_of(prepared.folds, tasks, t)
        spread = column_spread(alone) if standardize else None
        counts = None if prepared.row_counts is None else prepared.row_counts[t : t + 1]
        own = replace(
            prepared, tasks=alone, column_scale=spread, target_scale=scale, task_factors=None,
            row_counts=counts, folds=folds,
        )  # fmt: skip
        yield own, float(sizes[t] / sizes.mean())


def _folds_of(folds: Sequence, tasks: Tasks, t: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The folds as rows of task t; those that do not test it are left out."""
    first, last = tasks.offsets[t], tasks.offsets[t + 1]
    cut = [[part[(part >= first) & (part < last)] - first for part in fold] for fold in folds]
    kept = [(train, test) for train, test in cut if len(test)]
    if not kept:
        raise ValueError(
            f"No fold of cv tests task {tasks.labels[t].item()!r}, so it has no strength. Use more "
            "rows of that task, or per_task=False."
        )
    return kept


def _stacked(tables: list[dict[str, Any]], labels: np.ndarray) -> dict[str, Any]:
    """One table of all tasks' results; a fold that does not test a task has no score there."""
    n_rows = [len(table["alpha"]) for table in tables]
    names = max((list(table) for table in tables), key=len)
    columns = {
        name: np.concatenate(
            [table.get(name, np.full(n, np.nan)) for table, n in zip(tables, n_rows, strict=True)]
        )
        for name in names
    }
    return {"task": np.repeat(labels, n_rows), **columns}


def _together(solutions: tuple, shares: np.ndarray, own: list, common: np.ndarray | None) -> Solution:
    """One solution of all tasks: its objective is the sum of theirs, each with its share of the loss."""
    columns = [
        solution.A[:, 0] if common is None else solution.A[:, 0] * (common / scale)
        for solution, scale in zip(solutions, own, strict=True)
    ]
    gaps = [solution.dual_gap for solution in solutions]
    objective = float(shares @ [solution.objective for solution in solutions])
    return Solution(
        A=np.column_stack(columns),
        intercept=np.concatenate([solution.intercept for solution in solutions]),
        objective=objective,
        violation=max(solution.violation for solution in solutions),
        dual_gap=None if None in gaps else float(shares @ gaps),
        n_iter=max(solution.n_iter for solution in solutions),
        history=np.array([objective]),
        converged=all(solution.converged for solution in solutions),
        solver=solutions[0].solver,
    )


class SingleTaskRegressorCV(SingleTaskSearch, TaskRegressor):
    """One ridge or lasso per task, with strengths chosen by cross-validation.

    The baseline of multitask learning: tasks share nothing but, unless ``per_task``, their strength.

    Examples
    --------
    >>> from mmtfl import SingleTaskRegressorCV
    >>> from mmtfl.datasets import make_tasks
    >>> data = make_tasks(n_tasks=3, n_samples=50, n_features=6, n_informative=3, noise=1.0, random_state=0)
    >>> model = SingleTaskRegressorCV(p=1, alphas=20, per_task=True, cv=3)
    >>> model.fit(data.X, data.y, task=data.task).alpha_.shape
    (3,)
    """


class SingleTaskClassifierCV(SingleTaskSearch, TaskClassifier):
    """One penalised logistic regression per task, with strengths chosen by cross-validation.

    The baseline of multitask learning: tasks share nothing but, unless ``per_task``, their strength.

    Examples
    --------
    >>> from mmtfl import SingleTaskClassifierCV
    >>> from mmtfl.datasets import make_tasks
    >>> data = make_tasks(n_tasks=3, n_samples=80, n_features=6, n_informative=2, classification=True,
    ...                   noise=0.5, random_state=0)
    >>> model = SingleTaskClassifierCV(p=1, alphas=10, cv=3).fit(data.X, data.y, task=data.task)
    >>> model.score(data.X, data.y, task=data.task) > 0.7
    True
    """
