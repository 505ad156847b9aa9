"""Questions to a shard about its rows: asked once before the passes of Algorithm 1, and after them."""

from typing import NamedTuple

import numpy as np

from mmtfl.solvers.blas import one_blas_thread
from mmtfl.solvers.distributed.shards import Shard, Spec
from mmtfl.tasks.scaling import could_use


class Null(NamedTuple):
    """Numbers per task at A = 0: intercepts, losses (with and without them), and the largest slope and y."""

    intercept: np.ndarray
    loss: np.ndarray
    bare_loss: np.ndarray
    steepest: np.ndarray
    largest_y: np.ndarray


def null(shard: Shard, spec: Spec) -> Null:
    """What is known of every task before any feature is used."""
    found = []
    with one_blas_thread():
        for step in shard.steps(spec):
            problem, y = step.problem, step.design.y
            bare, largest = problem.loss_value(np.zeros_like(y)), np.abs(y).max(initial=0.0)
            found.append((problem.null_intercept[0], problem.null_value, bare, problem.steepest, largest))
    return Null(*(np.array(column, dtype=float) for column in zip(*found, strict=True)))


class Rows(NamedTuple):
    """Targets and weights of a shard's rows, and how many each task has."""

    y: np.ndarray
    row_weight: np.ndarray
    lengths: np.ndarray


def rows(shard: Shard, spec: Spec) -> Rows:
    """Everything about the rows but their features."""
    designs = [step.design for step in shard.steps(spec)]
    return Rows(
        np.concatenate([design.y for design in designs]),
        np.concatenate([design.row_weight for design in designs]),
        np.array([len(design.y) for design in designs]),
    )


def correlate(shard: Shard, spec: Spec, v: np.ndarray) -> np.ndarray:
    """X_t.T @ v_t of every task, as (n_tasks, n_features)."""
    out, done = [], 0
    with one_blas_thread():
        for step in shard.steps(spec):
            n_rows = len(step.design.y)
            out.append(step.design.correlate(v[done : done + n_rows])[:, 0])
            done += n_rows
    return np.array(out)


def curvature(shard: Shard, spec: Spec) -> np.ndarray:
    """Weighted square sum of every column in every task, as (n_tasks, n_features)."""
    return np.array([step.design.curvature[:, 0] for step in shard.steps(spec)])


def gather(shard: Shard, spec: Spec, index: np.ndarray) -> np.ndarray:
    """Some columns, a row of the result each, over the rows of all tasks of the shard."""
    blocks = [step.design.columns(index, expand=True) for step in shard.steps(spec)]
    return np.ascontiguousarray(np.concatenate(blocks).T)


class Judged(NamedTuple):
    """At given coefficients: slopes (n_tasks, n_features), slopes of the intercepts, and losses."""

    gradient: np.ndarray
    intercept_slope: np.ndarray
    loss: np.ndarray


def judge(shard: Shard, spec: Spec, pair: tuple) -> Judged:
    """Slopes and losses at the coefficients that the shard holds."""
    held, found = pair[0], []
    with one_blas_thread():
        for t, step in enumerate(shard.steps(spec)):
            z = _predictor(step.design, held.A[t], held.intercept[t])
            slope = spec.loss.gradient(step.design.y, z, step.design.row_weight)
            loss = spec.loss.value(step.design.y, z, step.design.row_weight)
            found.append((step.design.correlate(slope)[:, 0], slope.sum(), loss))
    return Judged(*(np.array(column) for column in zip(*found, strict=True)))


def dual(shard: Shard, spec: Spec, pair: tuple, shrink: float) -> np.ndarray:
    """Dual value of every task at `shrink` times the dual point of its coefficients; eq. (9)."""
    held, found = pair[0], []
    for t, step in enumerate(shard.steps(spec)):
        z = _predictor(step.design, held.A[t], held.intercept[t])
        found.append(spec.loss.dual(step.design.y, z, step.design.row_weight, shrink))
    return np.array(found)


def _predictor(design, a: np.ndarray, intercept: float) -> np.ndarray:
    return design.predict(a[:, None]) + intercept


class ColumnMoments(NamedTuple):
    """Weight (n_tasks,), means and centred square sums (n_tasks, n_features + 1), the target last.

    And which tasks could use which features, (n_tasks, n_features).
    """

    weight: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    could_use: np.ndarray


def column_moments(shard: Shard, spec: Spec) -> ColumnMoments:
    """How wide the columns of every task are, in the units of the files."""
    found = []
    for view in shard.tasks:
        Z = np.column_stack([view.X, view.y])
        w = np.ones(len(view.y)) if view.weights is None else view.weights
        mean = w @ Z / w.sum()
        found.append((w.sum(), mean, w @ (Z - mean) ** 2))
    weight, mean, squares = (np.array(column) for column in zip(*found, strict=True))
    possible = could_use(shard.tasks, fit_intercept=spec.fit_intercept)
    return ColumnMoments(weight, mean, squares, possible)


def column_maxima(shard: Shard, spec: Spec) -> np.ndarray:
    """The largest entry of every column, in the units of the files."""
    return np.abs(shard.tasks.X).max(axis=0, initial=0.0)
