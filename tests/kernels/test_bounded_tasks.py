"""Tasks under bounds of their rows: their minima, their pull at the bounds, and Newton's steps on these."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.kernels.bounded_tasks import settle_bounded
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Squared
from mmtfl.objective.norms import EntryNorm, RowNorm, SplitRows
from mmtfl.objective.problem import Problem
from mmtfl.solvers import working_set
from mmtfl.solvers.row_descent import RowDescent
from mmtfl.tasks import Tasks

LENGTH = np.array([3, 5, 4, 12, 6], dtype=np.intp)
BEGIN = np.concatenate([[0], np.cumsum(LENGTH)[:-1]]).astype(np.intp)
EPS = np.array([0.6, 0.4, 0.8, 0.5, 0.7, 0.3])


class Model(NamedTuple):
    """Columns, targets and weights of some tasks, before anything is fitted."""

    x: np.ndarray
    target: np.ndarray
    h: np.ndarray

    def settled(
        self, bound: np.ndarray, A: np.ndarray | None = None, old: np.ndarray | None = None, *,
        max_sweeps: int = 1000,
    ) -> Any:  # fmt: skip
        """A, the residuals, forces and curvatures at the minimum under bounds, from A or from zero."""
        m, n_tasks = len(self.x), len(LENGTH)
        bend = self.h if self.h.size else np.ones(len(self.target))
        A = np.zeros((m, n_tasks)) if A is None else A.copy()
        state = bend * (self.target - self.predictor(A))
        forces, curvatures = np.empty(m), np.empty((m, m))
        settle_bounded(
            self.x, BEGIN, LENGTH, self.h, np.zeros((m, n_tasks)),
            np.add.reduceat(bend * self.x**2, BEGIN, axis=1), state, BEGIN, np.arange(m), A,
            bound if old is None else old, bound, EPS, 1e-13, max_sweeps, forces, curvatures,
        )  # fmt: skip
        return A, state, forces, np.tril(curvatures) + np.tril(curvatures, -1).T

    def predictor(self, A: np.ndarray) -> np.ndarray:
        """The linear predictor of all rows."""
        return np.einsum("ji,ji->i", self.x, np.repeat(A, LENGTH, axis=1))

    def value(self, A: np.ndarray, bound: np.ndarray) -> float:
        """The model at A."""
        bend = self.h if self.h.size else 1.0
        beyond = np.maximum(np.abs(A) - bound[:, None], 0.0)
        return float(np.sum(0.5 * bend * (self.target - self.predictor(A)) ** 2) + np.sum(EPS @ beyond))


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def model(request):
    rng = np.random.default_rng(0)
    n_rows = LENGTH.sum()
    h = rng.uniform(0.2, 2.0, n_rows) if request.param else np.empty(0)
    return Model(rng.normal(size=(6, n_rows)), 2.0 * rng.normal(size=n_rows), h)


BOUND = np.array([0.3, 0.5, 0.2, 0.4, 0.0, 0.6])


def test_entries_inside_at_and_beyond_their_bounds_meet_the_optimality_conditions(model):
    A, state, forces, _ = model.settled(BOUND)
    bend = model.h if model.h.size else 1.0
    assert_allclose(state, bend * (model.target - model.predictor(A)), atol=1e-12)
    pull = np.add.reduceat(model.x * state, BEGIN, axis=1) * np.where(A < 0.0, -1.0, 1.0)
    size, bound = np.abs(A), BOUND[:, None]
    inside, held, beyond = size < bound, size == bound, size > bound
    assert inside.sum() > 3 and held.sum() > 3 and beyond.sum() > 3
    eps = np.broadcast_to(EPS[:, None], A.shape)
    assert_allclose(pull[inside], 0.0, atol=1e-9)
    assert_allclose(pull[beyond], eps[beyond], atol=1e-9)
    assert np.all(pull[held] <= eps[held] + 1e-9)
    assert np.all(np.where(bound > 0.0, pull, 0.0)[held] >= -1e-9)
    used = BOUND > 0.0
    expected = (np.where(held, pull, 0.0) + np.where(beyond, eps, 0.0)).sum(axis=1)
    assert_allclose(forces[used], expected[used], atol=1e-8)


def test_forces_and_curvatures_are_derivatives_in_the_bounds(model):
    A, _, forces, curvatures = model.settled(BOUND)
    assert np.count_nonzero(np.diag(curvatures)) > 2 and np.count_nonzero(np.triu(curvatures, 1)) > 1
    step = 1e-5
    for j in np.flatnonzero(BOUND > 0.0):
        ends = [BOUND + sign * step * np.eye(6)[j] for sign in (1.0, -1.0)]
        (up, _, force_up, _), (down, _, force_down, _) = (model.settled(end, A, BOUND) for end in ends)
        slope = (model.value(up, ends[0]) - model.value(down, ends[1])) / (2.0 * step)
        assert_allclose(-forces[j], slope, atol=1e-6)
        used = BOUND > 0.0
        assert_allclose(-curvatures[used, j], (force_up - force_down)[used] / (2.0 * step), atol=1e-6)


def test_the_minimum_does_not_depend_on_where_the_tasks_come_from(model):
    bound = np.array([0.5, 0.1, 0.3, 0.2, 0.1, 0.4])
    A, _, _, _ = model.settled(BOUND)
    from_zero, moved = model.settled(bound)[0], model.settled(bound, A, BOUND)[0]
    assert np.abs(from_zero - A).max() > 0.1
    assert_allclose(model.value(moved, bound), model.value(from_zero, bound), rtol=1e-12)


def test_nearly_equal_columns_take_a_few_sweeps():
    """Thousands would be too few for these columns; a linear system goes to the end at once."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(6, LENGTH.sum()))
    x[1] = x[0] + 1e-4 * rng.normal(size=LENGTH.sum())
    model, bound = Model(x, rng.normal(size=LENGTH.sum()), np.empty(0)), np.full(6, 1e6)
    A, state, forces, _ = model.settled(bound, max_sweeps=10)
    assert np.abs(A).max() > 20.0 and np.all(np.abs(A) < bound[:, None])
    assert_allclose(np.add.reduceat(x * state, BEGIN, axis=1), 0.0, atol=1e-9)
    assert_allclose(forces, 0.0, atol=1e-12)


def test_bounds_of_many_tasks_are_found_in_a_few_sweeps(monkeypatch):
    """Newton's steps move all bounds at once, where sweeps over rows move one after the other."""
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(300), 5)
    X = rng.normal(size=(len(labels), 12))
    y = np.einsum("ij,ij->i", X, rng.normal(size=(300, 12))[labels]) + rng.normal(size=len(labels))
    problem = Problem(Design(Tasks.from_rows(X, y, labels)), Squared())
    penalty, found = SplitRows.of(RowNorm(10.0, p=np.inf), EntryNorm(0.7)), {}
    for many in (299, 1000):
        monkeypatch.setattr(working_set, "MANY_TASKS", many)
        descent = RowDescent(problem)
        solution = descent.solve(penalty, max_iter=1000, tol=1e-9)
        found[many] = solution, descent.working_set.n_sweeps
    (by_bounds, few), (by_rows, n_sweeps) = found[299], found[1000]
    P, Q = penalty.split(by_bounds.A)
    assert by_bounds.converged and P.any() and Q.any()
    assert_allclose(by_bounds.objective, by_rows.objective, rtol=1e-9)
    assert few < 30 and few < 0.5 * n_sweeps
