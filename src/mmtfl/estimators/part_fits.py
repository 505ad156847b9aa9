"""A chosen model fitted to parts of its rows, many times: to half samples, and without each fold."""

import numpy as np
from sklearn.base import clone

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.family import FamilyMember
from mmtfl.estimators.prepared import Prepared
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.path import Paths, Start
from mmtfl.tasks.container import Tasks

_TOL = 1e-4  # whether a row is zero is known long before its last digits
_STRONGER = np.geomspace(50.0, 1.0, 20)  # where a path stops at a number of features


def plain_copy(estimator: TaskModel) -> TaskModel:
    """An unfitted copy of a model for many fits to parts of the rows: here, silent, and not too exact."""
    model = clone(estimator)
    here = {"tol": max(model.tol, _TOL), "verbose": 0, "n_jobs": None, "engine": None, "checkpoint": None}
    known = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in here.items() if name in known})
    model._check_parameters()
    return model


def fit_part(
    model: TaskModel, part: Tasks, max_features: int | None = None, known: Start | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (n_tasks, n_features) and intercepts of a model on some rows, in the units of the data.

    With `max_features` a path from strong to weak penalties stops before it keeps more features. Where the
    solution is known, in the units of the model's problem, only the units change.
    """
    prepared = Prepared.of(model, part)
    if known is not None:
        A, intercept = known
    elif isinstance(model, FamilyMember):
        problem = prepared.problem(model._loss, fit_intercept=model.fit_intercept)
        A, intercept = _member_on(problem, prepared, model, max_features)
    elif max_features is None:
        solution, _ = model._solve(prepared)
        A, intercept = solution.A, solution.intercept
    else:
        raise TypeError(f"max_features needs a model of the (p, k) family, got {type(model).__name__}.")
    if part.absent is not None:
        A = np.where(part.absent.T, 0.0, A)
    scale = 1.0 if prepared.target_scale is None else prepared.target_scale
    return prepared.to_original(A).T, intercept * scale


def _member_on(
    problem: Problem, prepared: Prepared, model: FamilyMember, max_features: int | None
) -> tuple[np.ndarray, np.ndarray]:
    numbers = {"pooling": model.pooling, "known": prepared.known, **model._penalty_numbers()}
    penalty = make_penalty(model.p, model.k, model.alpha, **numbers)
    alphas = model.alpha * (_STRONGER[-1:] if max_features is None else _STRONGER)
    path = Paths(problem).solve(penalty, alphas, max_iter=model.max_iter, tol=model.tol)
    last = 0
    if max_features is not None:
        few = np.maximum.accumulate(path.n_kept) <= max_features
        if not few[0]:
            return np.zeros((path.n_features, problem.design.n_tasks)), path.intercepts[0]
        last = int(np.flatnonzero(few)[-1])
    return path.coef(last).T, path.intercepts[last]
