"""Sweeps of four rows at a time, against row descent written in numpy and against sweeps row by row."""

import numpy as np
import pytest

from mmtfl.kernels.row_functions import POWER
from mmtfl.kernels.row_problem import row_solver, solve_rows
from mmtfl.kernels.sweeps import shared_sweeps, sweeps

MEMBER = np.array([2.0, 1.0])


def make_model(n_rows, n_tasks, n=17, seed=0):
    """Columns (more of them than are swept), residuals, a start, and strengths; one row may not be used."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows + 2, n))
    x[-1] = 0.0  # a constant column
    A = rng.normal(size=(len(x), n_tasks)) * (rng.random((len(x), 1)) < 0.5)
    strengths = np.column_stack([np.full(len(x), 6.0), np.ones(len(x))])
    strengths[1, 0] = np.inf
    rows = rng.permutation(len(x))[:n_rows]
    curvature = np.repeat((x**2).sum(axis=1)[:, None], n_tasks, axis=1)
    return x, curvature, rng.normal(size=(n_tasks, n)), rows, A, strengths


def plain_sweep(x, curvature, residual, rows, A, strengths, solve):
    """One row after the other, in place; the largest move of a slope."""
    largest = 0.0
    for j in rows:
        new = np.zeros((1, A.shape[1]))
        slope = residual @ x[j] + curvature[j] * A[j]
        solve_rows(solve, slope[None], curvature[j : j + 1], MEMBER, strengths[j : j + 1], new)
        change = new[0] - A[j]
        A[j] = new[0]
        residual -= np.outer(change, x[j])
        largest = max(largest, np.abs(curvature[j] * change).max())
    return largest


@pytest.mark.parametrize("n_rows", [1, 3, 4, 9, 12])
@pytest.mark.parametrize("n_tasks", [1, 4, 5])
def test_blocks_of_four_make_the_iterates_of_one_row_after_the_other(n_rows, n_tasks):
    x, curvature, residual, rows, A, strengths = make_model(n_rows, n_tasks)
    solve, n_sweeps = row_solver(POWER, 2.0, 1.0), 3
    mine, state = A.copy(), residual.ravel().copy()
    iterates, states = np.empty((n_sweeps + 1, n_rows * n_tasks)), np.empty((n_sweeps + 1, state.size))
    moves = np.empty(n_sweeps)
    record = iterates, states, moves
    done = shared_sweeps(solve, x, curvature, state, rows, mine, MEMBER, strengths, True, -1.0, *record)
    assert done == n_sweeps and (n_rows == 1 or np.any(mine != A))
    for sweep in range(n_sweeps):
        np.testing.assert_allclose(iterates[sweep].reshape(n_rows, -1), A[rows], atol=1e-13)
        np.testing.assert_allclose(states[sweep].reshape(n_tasks, -1), residual, atol=1e-12)
        move = plain_sweep(x, curvature, residual, rows, A, strengths, solve)
        assert moves[sweep] == pytest.approx(move, rel=1e-10, abs=1e-12)
    np.testing.assert_allclose(mine, A, atol=1e-13)
    np.testing.assert_allclose(state.reshape(n_tasks, -1), residual, atol=1e-12)


def test_blocks_of_four_stop_where_sweeps_row_by_row_do():
    x, curvature, residual, rows, A, strengths = make_model(10, 3)
    n_tasks, n = residual.shape
    solve, found = row_solver(POWER, 2.0, 1.0), []
    for blocks in (True, False):
        mine, state = A.copy(), residual.ravel().copy()
        record = np.empty((201, rows.size * n_tasks)), np.empty((201, state.size)), np.empty(200)
        if blocks:
            fixed = solve, x, curvature, state, rows
            done = shared_sweeps(*fixed, mine, MEMBER, strengths, True, 1e-9, *record)
        else:
            begin = np.arange(n_tasks, dtype=np.intp) * n
            columns = x, np.zeros_like(begin), np.full_like(begin, n), np.empty(0), np.zeros_like(A)
            fixed = solve, *columns, curvature, state, begin, rows
            done = sweeps(*fixed, mine, MEMBER, strengths, True, 1e-9, *record)
        found.append((done, mine, state))
    assert 1 < found[0][0] == found[1][0] < 200
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-12)
    np.testing.assert_allclose(found[0][2], found[1][2], atol=1e-12)
