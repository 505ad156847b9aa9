"""A new task beside fitted ones: its own problem, with what the tasks share held.

With c and the common part m of eq. (10) held, the new task's coefficients a minimise its loss plus
``sum_j w_j |a_j - m_j|^p``, where w_j = gamma1 c_j^-p is the weight that Algorithm 1 gives the feature. n of
the loss is that of the fit, so that a row weighs as much as it did there.

A few rows say little of a level. With shrunk levels the new one has the prior of the fitted tasks: what its
columns say, and how far levels scatter about that. That takes one more row, at the point where levels are
compared, with the prior's mean as its target and a weight of (variance of the noise) / (variance of levels).
Else the intercepts of the fitted tasks, at x = 0, tell the same.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

from mmtfl.estimators.fitted_curves import join_curves, split_curves
from mmtfl.estimators.inputs import n_dimensions, read_weights, single_column, take_task_column
from mmtfl.estimators.prediction import expected_levels
from mmtfl.inference.learn_effects import add_effects
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.losses.by_rows import (
    WithLevelPrior,
    check_targets,
    prior_bend,
    with_known_in_targets,
    with_level_rows,
)
from mmtfl.objective.penalties import RowPenalty, RowPower
from mmtfl.objective.problem import Problem
from mmtfl.solvers import solve
from mmtfl.solvers.solution import Solution
from mmtfl.tasks.checks import check_task_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.converters import group_checked_rows
from mmtfl.tasks.scaling import could_use, target_spread
from mmtfl.wording import abbreviate, show

# what a fitted model has for each task, along the first axis
_PER_TASK = ("coef_", "intercept_", "task_sizes_", "shared_", "specific_", "outlier_", "usable_", "absent_")
_FEWEST = 3  # tasks; more are needed to tell how intercepts scatter
_MOST = 1e6  # rows: an intercept that is the same in all tasks


def with_new_task(model: Any, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any) -> Any:
    """Return a copy of a fitted model of the family with one more task; see `ProductForm.add_task`."""
    if not isinstance(model._loss, Loss):
        raise InvalidParameterError(
            "add_task needs one loss for all tasks: intercepts of different kinds of targets do not tell "
            "where that of a new task is. Fit all tasks together again."
        )
    tasks, basis = _read_task(model, X, y, task, sample_weight, offset), None
    if model.curves_ is not None:
        basis = model.curves_.basis
        tasks, model = basis.widened_tasks(tasks), join_curves(model)
    shared = Shared.of(model)
    prior = _level_prior(model, tasks)
    if prior is None and is_classifier(model) and np.ptp(tasks.y) == 0.0:
        raise ValueError(
            "The new task has a single class, and the model has too few tasks to tell how common the other "
            "one is: add rows of both classes."
        )
    known = model.target_scale_
    unit = 1.0 if known is None else float(target_spread(tasks, otherwise=float(np.median(known)))[0])
    scaled = tasks.with_y(tasks.y / unit)
    found = _solve_about(model, scaled, shared, None if prior is None else prior / unit)
    a = (shared.common + found.A[:, 0]) * unit / shared.columns
    wider = _widened(model, tasks, a, float(found.intercept[0]) * unit, unit)
    split_curves(wider, basis)
    return wider


@dataclass(frozen=True, eq=False)
class Shared:
    """What is held of a fitted model, in the units of its solver.

    Attributes
    ----------
    penalty : RowPower
        sum_j w_j |a_j - m_j|^p on what a new task has beside the common part.
    common : ndarray of shape (n_features,)
        m.
    columns : ndarray of shape (n_features,)
        What the columns of X are divided by.
    noise : float
        Mean squared residual of these tasks, where the loss is of y - z alone.
    """

    penalty: RowPower
    common: np.ndarray
    columns: np.ndarray
    noise: float

    @classmethod
    def of(cls, model: Any) -> Shared:
        """Read a fitted model."""
        penalty = _penalty_of(model)
        columns = np.ones(len(model.c_)) if model.column_scale_ is None else model.column_scale_
        fitted = ~np.isin(model.tasks_, _added(model))
        unit = np.ones(len(fitted)) if model.target_scale_ is None else model.target_scale_
        A = model.coef_[fitted].T * columns[:, None] / unit[fitted]
        weights = np.where(model.c_ > 0.0, penalty.weights(A), np.inf)  # what no task uses stays unused
        return cls(
            _of_new_task(penalty, weights),
            model.common_ * columns / unit[fitted].mean(),
            columns,
            2.0 * (model.objective_ - penalty.value(A)) / np.count_nonzero(fitted),
        )


def _level_prior(model: Any, tasks: Tasks) -> np.ndarray | None:
    """Return mean and spread of the new task's level at the reference point; None if they are not known.

    A model with shrunk levels has learned them; else the intercepts of the tasks, if they are more than
    three, tell how they scatter.
    """
    if not model.fit_intercept:
        return None
    if "levels_" in vars(model):
        new = np.full(tasks.n_samples, len(model.tasks_))
        level, variance = expected_levels(model, tasks.X, new, tasks.weights)
        return np.array([level[0], np.sqrt(variance[0])])
    fitted = ~np.isin(model.tasks_, _added(model))
    n, unit = np.count_nonzero(fitted), 1.0 if model.target_scale_ is None else model.target_scale_[fitted]
    if n <= _FEWEST:
        return None
    intercept = model.intercept_[fitted] / unit
    # the mean of the variance given what the tasks show, which few tasks hardly bound from above
    spread = np.sqrt(np.sum((intercept - intercept.mean()) ** 2) / (n - _FEWEST))
    return np.mean(unit) * np.array([np.average(intercept, weights=model.task_sizes_[fitted]), spread])


def _penalty_of(model: Any) -> RowPenalty:
    if np.ndim(getattr(model, "alpha_", 0.0)) > 0:
        raise InvalidParameterError(
            "add_task needs one strength for all tasks, and with per_task=True every task has its own: fit "
            "the new task by itself, or use per_task=False."
        )
    penalty = model._fitted_penalty()
    if np.isinf(penalty.p):
        raise InvalidParameterError(
            "add_task needs a finite p: at p = inf what is shared bounds the coefficients of a new task, and "
            "does not draw them anywhere. Fit with p = 1 or p = 2, or fit all tasks together again."
        )
    return penalty


def _of_new_task(penalty: RowPenalty, weights: np.ndarray) -> RowPower:
    """The penalty of one more task, whose weights are those of the features."""
    entries = penalty.weighted(weights)
    known = entries.known
    if known is None:
        return RowPower(penalty.p, weights, np.inf)
    return replace(entries, pooling=0.0, known=replace(known, scale=known.scale[:, :1]))


# -- what is passed ------------------------------------------------------------------------------------------


def _read_task(model: Any, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any) -> Tasks:
    """Return the new task, its targets encoded for the loss."""
    X, label = _separate_label(model, X, task)
    X, names = model._read_design(X, reset=False)
    labels = np.full(X.shape[0], label)
    y = single_column(y) if n_dimensions(y) == 2 else y
    y, classes = model._read_targets(y, labels, X.shape[0])
    weights = read_weights(sample_weight, X.shape[0])
    tasks = Tasks(*group_checked_rows(X, y, labels, weights, names, model.absent_features, offset))
    if tasks.weights is not None:
        tasks = tasks.select(np.flatnonzero(tasks.weights))
    if classes is None:
        check_targets(model._loss, tasks, fit_intercept=model.fit_intercept and "levels_" not in vars(model))
        return with_known_in_targets(model._loss, tasks)
    return tasks.with_y(_signs(model, tasks, classes))


def _separate_label(model: Any, X: Any, task: Any) -> tuple[Any, Any]:
    """Return the rows without their task column, and the one new label, of the type of the others."""
    column = model.task_column
    if task is None and column is None:
        raise ValueError("add_task needs the new task's label: pass task='its name'.")
    if task is None:
        X, labels, name = take_task_column(X, None, column)
        labels = np.unique(check_task_labels(labels, None, name=name))
        if len(labels) > 1:
            raise ValueError(
                f"Column {column!r} has {len(labels)} labels ({abbreviate(labels)}): add one task at a time."
            )
    else:
        labels = check_task_labels([task], 1)
    if labels.dtype.kind != model.tasks_.dtype.kind:
        raise TypeError(
            f"The new label {show(labels, 0)} is of another type than those of the fit "
            f"({abbreviate(model.tasks_)}): use {'a string' if model.tasks_.dtype.kind == 'U' else 'an int'}."
        )
    if labels[0] in model.tasks_:
        raise ValueError(
            f"The model has a task {show(labels, 0)} already: choose another label, or fit all tasks again."
        )
    return X, labels[0]


def _signs(model: Any, tasks: Tasks, classes: np.ndarray) -> np.ndarray:
    """Encode the classes of the new task, which must be those of the fit, as -1 and +1."""
    found = classes[np.unique(tasks.y).astype(np.intp)]
    if not np.isin(found, model.classes_).all():
        raise ValueError(
            f"The new task has the classes {abbreviate(found)}, and the model knows "
            f"{abbreviate(model.classes_)}: use the classes of the fit."
        )
    return np.where(classes[tasks.y.astype(np.intp)] == model.classes_[1], 1.0, -1.0)


# -- the problem of one task ---------------------------------------------------------------------------------


def _solve_about(model: Any, tasks: Tasks, shared: Shared, prior: np.ndarray | None) -> Solution:
    """Solve for what the task has beside the common part; `prior` has mean and spread of its level."""
    scale = {"column_scale": model.column_scale_, "fit_intercept": model.fit_intercept}
    loss, known = model._loss, Design(tasks, **scale).predict(shared.common[:, None])
    if known.any():  # beside the common part, which goes the way of an offset
        known = known if tasks.known is None else known + tasks.known
        tasks = with_known_in_targets(loss, replace(tasks, known=known))
    if prior is not None:
        reference = vars(model).get("levels_", {}).get("reference", np.zeros(tasks.n_features))
        middle = prior[0] - (reference / shared.columns) @ shared.common
        tasks, loss = _with_prior(tasks, loss, reference, np.array([middle]), float(prior[1]), shared.noise)
    problem = Problem(Design(tasks, mean_size=model.mean_size_, **scale), loss)
    solution = solve(problem, shared.penalty, max_iter=model.max_iter, tol=model.tol)
    if not solution.converged:
        message = (
            f"The new task's fit stopped after {solution.n_iter} passes at a violation of "
            f"{solution.violation:.2e}, short of tol={model.tol:g}. Raise max_iter (now {model.max_iter})."
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return solution


def _with_prior(
    tasks: Tasks, loss: Loss, reference: np.ndarray, middle: np.ndarray, spread: float, noise: float
) -> tuple[Tasks, Loss]:
    """The task with one more row, the prior of its level: weighed by the noise where targets have a unit."""
    precision = noise if loss.on_residuals else 1.0
    weight = min(precision / max(spread**2, precision / _MOST), _MOST) if precision > 0.0 else 1.0 / _MOST
    if loss.on_residuals:
        return with_level_rows(tasks, reference, middle, weight), loss
    return with_level_rows(tasks, reference, middle, weight / prior_bend(loss)), WithLevelPrior(loss)


# -- the model with one more task ----------------------------------------------------------------------------


def _added(model: Any) -> np.ndarray:
    return getattr(model, "added_tasks_", model.tasks_[:0])


def _widened(model: Any, tasks: Tasks, a: np.ndarray, intercept: float, unit: float) -> Any:
    """Return a copy of the model with a last task of these coefficients."""
    label = tasks.labels
    labels = np.concatenate([model.tasks_, label])
    wider = copy.copy(model)
    _widen(wider, labels, intercept, int(tasks.sizes[0]))
    wider.coef_[-1] = a
    if "effects_" in vars(wider):
        add_effects(wider, tasks, intercept, unit)
    wider.added_tasks_ = np.concatenate([_added(model), label])
    if model.target_scale_ is not None:
        wider.target_scale_ = np.append(model.target_scale_, unit)
        if "path_" in vars(wider):
            wider.path_ = replace(wider.path_, target_scale=wider.target_scale_)
    if tasks.absent is not None:
        lacking = vars(wider).get("absent_", np.zeros(wider.coef_.shape, dtype=bool))
        lacking[-1] = tasks.absent[0]
        wider._keep_absent(lacking)
    usable = could_use(tasks, fit_intercept=model.fit_intercept)
    if model.usable_ is not None or not usable.all():
        known = np.ones(model.coef_.shape, dtype=bool) if model.usable_ is None else model.usable_
        wider.usable_ = np.vstack([known, usable])
    return wider


def _widen(model: Any, labels: np.ndarray, intercept: float, n_rows: int) -> None:
    """Add a last task to every learned attribute that has one entry per task, with no features yet."""
    for name in _PER_TASK:
        if vars(model).get(name) is not None:
            setattr(model, name, _longer(getattr(model, name)))
    model.intercept_[-1], model.task_sizes_[-1], model.tasks_ = intercept, n_rows, labels
    if "path_" in vars(model):
        intercepts = _longer(model.path_.intercepts, 1, fill=intercept)
        values = [_longer(rows, 1) for rows in model.path_.values]
        model.path_ = replace(model.path_, values=values, intercepts=intercepts)
    if "heldout_scores_" in vars(model):
        scores = {name: _longer(column, fill=np.nan) for name, column in model.heldout_scores_.items()}
        model.heldout_scores_ = {**scores, "task": labels}
    if "heldout_errors_" in vars(model):
        none = {name: _longer(model.heldout_errors_[name]) for name in ("n_rows", "n_kept")}
        model.heldout_errors_ = {**model.heldout_errors_, **none, "task": labels}
    if "effects_" in vars(model):
        known = model.effects_
        none = {name: _longer(known[name], fill=np.nan) for name in ("effect", "error", "about")}
        wide = {**known, **none, "degrees": _longer(known["degrees"], fill=np.inf)}
        if "correlation" in known:
            wide["correlation"] = _longer(_longer(known["correlation"]), 1)
        model.effects_ = wide


def _longer(values: np.ndarray, axis: int = 0, fill: float = 0.0) -> np.ndarray:
    """An array with one more entry along an axis; integers have a zero there."""
    end = np.zeros((*values.shape[:axis], 1, *values.shape[axis + 1 :]), dtype=values.dtype)
    return np.concatenate([values, end + fill if values.dtype.kind == "f" else end], axis=axis)
