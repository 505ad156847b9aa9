"""A new task beside fitted ones: its own problem, with what the tasks share held.

With c and the common part m of eq. (10) held, the new task's coefficients a minimise its loss plus
``sum_j w_j |a_j - m_j|^p``, where w_j = gamma1 c_j^-p is the weight that Algorithm 1 gives the feature. n of
the loss is that of the fit, so that a row weighs as much as it did there.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

from mmtfl.estimators.inputs import first_few, n_dimensions, read_weights, single_column, take_task_column
from mmtfl.estimators.prepared import BaseRates
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Loss
from mmtfl.objective.penalties import RowPenalty, RowPower
from mmtfl.objective.problem import Problem
from mmtfl.solvers import solve
from mmtfl.solvers.solution import Solution
from mmtfl.tasks.checks import check_finite_design, check_task_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.converters import group_checked_rows
from mmtfl.tasks.scaling import could_use, target_spread
from mmtfl.tasks.wording import show

__all__ = ["with_new_task"]

_POLISH = 20  # passes; the answer is then that of the problem, not of where it started


def with_new_task(model: Any, X: Any, y: Any, task: Any, sample_weight: Any) -> Any:
    """Return a copy of a fitted model of the family with one more task; see `ProductForm.add_task`."""
    penalty = _penalty_of(model)
    tasks = _read_task(model, X, y, task, sample_weight)
    unit = float(target_spread(tasks)[0]) if model.target_scale_ is not None else 1.0
    columns = np.ones(tasks.n_features) if model.column_scale_ is None else model.column_scale_
    fitted = ~np.isin(model.tasks_, [*_added(model), *getattr(model, "base_rate_tasks_", ())])
    units = 1.0 if model.target_scale_ is None else model.target_scale_[fitted]
    common = model.common_ * columns / np.mean(units)
    weights = penalty.weights(model.coef_[fitted].T * columns[:, None] / units)
    weights = np.where(model.c_ > 0.0, weights, np.inf)  # what no task uses stays unused
    found = _solve_about(model, tasks.with_y(tasks.y / unit), common, RowPower(penalty.p, weights, np.inf))
    a = (common + found.A[:, 0]) * unit / columns
    return _widened(model, tasks, a, float(found.intercept[0]) * unit, unit)


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


# -- what is passed ------------------------------------------------------------------------------------------


def _read_task(model: Any, X: Any, y: Any, task: Any, sample_weight: Any) -> Tasks:
    """Return the new task, its targets encoded for the loss."""
    X, label = _separate_label(model, X, task)
    X, names = model._read_design(X, reset=False)
    labels = np.full(X.shape[0], label)
    check_finite_design(X, observation_task=np.zeros(len(labels), dtype=np.intp), labels=labels[:1])
    if n_dimensions(y) == 2:
        y = single_column(y)
    y, classes = model._read_targets(y, labels, X.shape[0])
    weights = read_weights(sample_weight, X.shape[0])
    tasks = Tasks(*group_checked_rows(X, y, labels, weights, names))
    if tasks.weights is not None:
        tasks = tasks.select(np.flatnonzero(tasks.weights))
    if classes is None:
        return model._encode_targets(tasks, None)[0]
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
                f"Column {column!r} has {len(labels)} labels ({first_few(labels)}): add one task at a time."
            )
    else:
        labels = check_task_labels([task], 1)
    if labels.dtype.kind != model.tasks_.dtype.kind:
        raise TypeError(
            f"The new label {show(labels, 0)} is of another type than those of the fit "
            f"({first_few(model.tasks_)}): use {'a string' if model.tasks_.dtype.kind == 'U' else 'an int'}."
        )
    if labels[0] in model.tasks_:
        raise ValueError(
            f"The model has a task {show(labels, 0)} already: choose another label, or fit all tasks again."
        )
    return X, labels[0]


def _signs(model: Any, tasks: Tasks, classes: np.ndarray) -> np.ndarray:
    """Encode the classes of the new task, which must be both of those of the fit, as -1 and +1."""
    found = classes[np.unique(tasks.y).astype(np.intp)]
    if len(found) != 2 or not np.array_equal(found, model.classes_):
        raise ValueError(
            f"The new task has the {'class' if len(found) == 1 else 'classes'} {first_few(found)}, and needs "
            f"rows of both of the fit: {first_few(model.classes_)}."
        )
    return np.where(classes[tasks.y.astype(np.intp)] == model.classes_[1], 1.0, -1.0)


# -- the problem of one task ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Offset(Loss):
    """A loss of rows whose linear predictor has a known part."""

    loss: Loss
    offset: np.ndarray

    @property
    def curvature(self) -> float | None:  # type: ignore[override]
        """That of the loss itself."""
        return self.loss.curvature

    def value(self, y, z, weight):
        """Weighted sum of the rows' losses."""
        return self.loss.value(y, z + self.offset, weight)

    def gradient(self, y, z, weight):
        """Derivative in z, row by row."""
        return self.loss.gradient(y, z + self.offset, weight)

    def hessian(self, y, z, weight):
        """Second derivative in z, row by row."""
        return self.loss.hessian(y, z + self.offset, weight)

    def majorant(self, y, z, weight):
        """Second derivative of a parabola above the loss, row by row."""
        return self.loss.majorant(y, z + self.offset, weight)

    def shift_range(self, y, z):
        """For each row, two shifts of z between which its loss is least."""
        return self.loss.shift_range(y, z + self.offset)

    def null_intercept(self, y, weight):
        """Best constant beside the known part: where the slopes sum to zero."""
        low, high = self.shift_range(y, np.zeros_like(y))

        def slope(b: float) -> float:
            return float(self.gradient(y, np.full_like(y, b), weight).sum())

        return float(brentq(slope, low.min(), high.max(), xtol=1e-12))


def _solve_about(model: Any, tasks: Tasks, common: np.ndarray, penalty: RowPower) -> Solution:
    """Solve for what the task has beside the common part."""
    scale = {"column_scale": model.column_scale_, "fit_intercept": model.fit_intercept}
    loss, known = model._loss, Design(tasks, **scale).predict(common[:, None])
    if loss.is_quadratic:
        tasks = tasks.with_y(tasks.y - known)
    elif known.any():
        loss = Offset(loss, known)
    problem = Problem(Design(tasks, mean_size=_mean_size(model), **scale), loss)
    limits = {"max_iter": model.max_iter, "tol": model.tol, "polish": _POLISH}
    solution = solve(problem, penalty, **limits)
    if not solution.converged:
        message = (
            f"The new task's fit stopped after {solution.n_iter} passes at a violation of "
            f"{solution.violation:.2e}, short of tol={model.tol:g}. Raise max_iter (now {model.max_iter})."
        )
        warnings.warn(message, ConvergenceWarning, stacklevel=4)
    return solution


def _mean_size(model: Any) -> float:
    """Return n of the loss in the fit; a file of an earlier version knows the rows alone."""
    return float(getattr(model, "mean_size_", model.task_sizes_.mean()))


# -- the model with one more task ----------------------------------------------------------------------------


def _added(model: Any) -> np.ndarray:
    return getattr(model, "added_tasks_", model.tasks_[:0])


def _widened(model: Any, tasks: Tasks, a: np.ndarray, intercept: float, unit: float) -> Any:
    """Return a copy of the model with a last task of these coefficients."""
    label = tasks.labels
    labels = np.concatenate([model.tasks_, label])
    is_new = np.arange(len(labels)) == len(model.tasks_)
    wider = copy.copy(model)
    BaseRates(labels, is_new, np.array([intercept]), tasks.sizes).widen(wider)
    wider.coef_[-1] = a
    wider.B_[:, -1] = np.divide(a, model.c_, out=np.zeros_like(a), where=model.c_ > 0.0)
    wider.added_tasks_ = np.concatenate([_added(model), label])
    if model.target_scale_ is not None:
        wider.target_scale_ = np.append(model.target_scale_, unit)
    usable = could_use(tasks, fit_intercept=model.fit_intercept)
    if model.usable_ is not None or not usable.all():
        known = np.ones(model.coef_.shape, dtype=bool) if model.usable_ is None else model.usable_
        wider.usable_ = np.vstack([known, usable])
    return wider
