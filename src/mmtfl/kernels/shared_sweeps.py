"""Compiled row descent on columns that all tasks share, four rows at a time; docs/model.md section 6.

The slopes of four rows are taken from the residuals at once, corrected by the products of the four columns as
one row after the other moves, and the residuals are brought up to date at the end of the block. The
iterates are those of `sweeps`, but every residual is read and written once for four rows.
"""

import numpy as np

from mmtfl.kernels.row_functions import copy, entry, exact, fused, inner
from mmtfl.kernels.sweeps import _keep, _product, _solve_row

BLOCK = 4


@inner
def _products(first, second, third, fourth, state, next_state, out, next_out):
    """Products of four columns with the states of two tasks: each number read serves several products."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(state.size):
        here, there = state[i], next_state[i]
        a += first[i] * here
        b += second[i] * here
        c += third[i] * here
        d += fourth[i] * here
        e += first[i] * there
        f += second[i] * there
        g += third[i] * there
        h += fourth[i] * there
    out[0], out[1], out[2], out[3] = a, b, c, d
    next_out[0], next_out[1], next_out[2], next_out[3] = e, f, g, h


@fused
def _subtract(state, first, second, third, fourth, change):
    """Subtract four columns from the state of a task."""
    a, b, c, d = change[0], change[1], change[2], change[3]
    for i in range(state.size):
        state[i] = state[i] - a * first[i] - b * second[i] - c * third[i] - d * fourth[i]


@inner
def _block_products(x, rows, cross):
    """cross[k, b, c]: product of columns b and c < b of block k."""
    last = rows.size - 1
    for k in range(cross.shape[0]):
        for b in range(1, BLOCK):
            for c in range(b):
                cross[k, b, c] = _product(
                    x[rows[min(BLOCK * k + b, last)]], x[rows[min(BLOCK * k + c, last)]]
                )


@exact
def _solve_block(solve, rows, first, cross, curvature, A, member, strengths, thorough, slopes, changes):
    """Solve the rows of a block one after the other; the largest move of a slope.

    slopes (tasks, BLOCK) are those before the block, and changes (tasks, BLOCK) receives how the rows move.
    """
    n_tasks = A.shape[1]
    g, move, largest = np.empty(n_tasks), np.empty(n_tasks), 0.0
    for b in range(BLOCK):
        if first + b >= rows.size:
            for t in range(n_tasks):
                changes[t, b] = 0.0
            continue
        j = rows[first + b]
        for t in range(n_tasks):
            g[t] = slopes[t, b] + curvature[j, t] * A[j, t]
            for c in range(b):
                g[t] -= cross[b, c] * changes[t, c]
        moved = _solve_row(solve, g, curvature[j], member, strengths[j], A[j], thorough, move)
        largest = max(largest, moved)
        for t in range(n_tasks):
            changes[t, b] = move[t]
    return largest


@inner
def _take_slopes(x, rows, first, state, slopes):
    """Slopes (tasks, BLOCK) of the rows of a block."""
    n, n_tasks, last = x.shape[1], slopes.shape[0], rows.size - 1
    a, b = x[rows[min(first, last)]], x[rows[min(first + 1, last)]]
    c, d = x[rows[min(first + 2, last)]], x[rows[min(first + 3, last)]]
    for t in range(0, n_tasks, 2):
        u = min(t + 1, n_tasks - 1)
        _products(a, b, c, d, state[n * t : n * t + n], state[n * u : n * u + n], slopes[t], slopes[u])


@inner
def _move(x, rows, first, state, changes):
    """Bring the residuals up to date after a block."""
    n, last = x.shape[1], rows.size - 1
    a, b = x[rows[min(first, last)]], x[rows[min(first + 1, last)]]
    c, d = x[rows[min(first + 2, last)]], x[rows[min(first + 3, last)]]
    for t in range(changes.shape[0]):
        _subtract(state[n * t : n * t + n], a, b, c, d, changes[t])


@entry
def shared_sweeps(
    solve, x, curvature, state, rows, A, member, strengths, thorough, tolerance, iterates, states, moves
):
    """Sweep over `rows` as `sweeps` does, where the tasks share the columns x and the state is residuals."""
    n_tasks, n_blocks = A.shape[1], (rows.size + BLOCK - 1) // BLOCK
    cross = np.empty((n_blocks, BLOCK, BLOCK))
    _block_products(x, rows, cross)
    slopes, changes = np.empty((n_tasks, BLOCK)), np.empty((n_tasks, BLOCK))
    for sweep in range(moves.size):
        _keep(A, rows, iterates[sweep])
        copy(state, states[sweep])
        largest = 0.0
        for k in range(n_blocks):
            _take_slopes(x, rows, BLOCK * k, state, slopes)
            moved = _solve_block(
                solve, rows, BLOCK * k, cross[k], curvature, A, member, strengths, thorough and sweep == 0,
                slopes, changes,
            )  # fmt: skip
            if moved > 0.0:
                _move(x, rows, BLOCK * k, state, changes)
            largest = max(largest, moved)
        moves[sweep] = largest
        if largest <= tolerance:
            return sweep + 1
    _keep(A, rows, iterates[-1])
    copy(state, states[-1])
    return moves.size
