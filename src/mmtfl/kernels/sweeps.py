"""Compiled row descent on a least-squares model of a few columns; docs/model.md section 6.

    minimise over A (m, T)   sum_t 1/2 ||r_t - X_t (a_t - a0_t)||_h^2 + sum_j phi_j(||a_j||_p)

The state of the model is one vector that is affine in A: the residuals (a row update costs 2 N), or the
slopes X_t.T r_t where there are Gram matrices (m T). There are two kinds of residuals. If `h` is empty, the
columns are centred and scaled by the root of the weights. If `h` holds weights, which change from one model
to the next, the columns are left as they are and the state is h r, centred by the columns' weighted means.

The code has plain loops and no array expressions, because a first fit waits for this file to compile.
"""

import numpy as np

from mmtfl.kernels.row_functions import copy, entry, exact, fused, inner, product
from mmtfl.kernels.row_problem import call

# The functions take slices: the compiler vectorises `column[i]`, but not `x[j, start + i]`.


@inner
def subtract(state, column, change):
    for i in range(state.size):
        state[i] -= change * column[i]


@inner
def _subtract_then_product(state, column, change, following):
    """Subtract a column from the state and multiply the result with the next column, in one pass."""
    total = 0.0
    for i in range(state.size):
        value = state[i] - change * column[i]
        state[i] = value
        total += value * following[i]
    return total


@inner
def _subtract_weighted(state, column, change, following, h, mean):
    """The same for columns that are weighted by h and centred on the way."""
    total = 0.0
    for i in range(state.size):
        value = state[i] - change * h[i] * (column[i] - mean)
        state[i] = value
        total += value * following[i]
    return total


@inner
def keep(A, rows, iterate):
    """Store these rows of A, one after the other."""
    n_tasks = A.shape[1]
    for index in range(rows.size):
        for t in range(n_tasks):
            iterate[index * n_tasks + t] = A[rows[index], t]


@inner
def _solve_row(solve, g, L, member, strength, A, thorough, new):
    """Replace a row by the solution of its problem, `new` by how it moves; the largest move of a slope."""
    if strength[0] < np.inf:
        call(solve, g, L, member, strength, A, thorough, new)
    else:
        for t in range(new.size):
            new[t] = 0.0
    largest = 0.0
    for t in range(new.size):
        change = new[t] - A[t]
        A[t], new[t] = new[t], change
        largest = max(largest, L[t] * abs(change))
    return largest


@entry
def sweeps(
    solve, x, start, length, h, means, curvature, state, begin, rows, A, member, strengths, thorough,
    tolerance, iterates, states, moves,
):  # fmt: skip
    """Sweep over `rows` until no slope moves by more than tolerance, and return the number of sweeps.

    At most moves.size sweeps are made. A and state change in place. iterates and states receive both before
    the first and after every sweep, and moves the largest move of a slope in each sweep. Task t's part of the
    state, its residuals, begins at begin[t], and its columns at start[t] of x; both have length[t] entries.
    Only the first sweep may be thorough.
    """
    n_tasks = A.shape[1]
    g, move = np.empty(n_tasks), np.empty(n_tasks)
    for sweep in range(moves.size):
        keep(A, rows, iterates[sweep])
        copy(state, states[sweep])
        largest = 0.0
        if rows.size > 0:
            for t in range(n_tasks):
                own = state[begin[t] : begin[t] + length[t]]
                g[t] = product(x[rows[0], start[t] : start[t] + length[t]], own)
        for index in range(rows.size):
            j = rows[index]
            following = rows[index + 1] if index + 1 < rows.size else rows[0]
            L = curvature[j]
            for t in range(n_tasks):
                g[t] += L[t] * A[j, t]
            moved = _solve_row(solve, g, L, member, strengths[j], A[j], thorough and sweep == 0, move)
            largest = max(largest, moved)
            for t in range(n_tasks):
                own = state[begin[t] : begin[t] + length[t]]
                column = x[j, start[t] : start[t] + length[t]]
                next_column = x[following, start[t] : start[t] + length[t]]
                if move[t] == 0.0:
                    g[t] = product(next_column, own)
                elif h.size > 0:
                    weight = h[begin[t] : begin[t] + length[t]]
                    g[t] = _subtract_weighted(own, column, move[t], next_column, weight, means[j, t])
                else:
                    g[t] = _subtract_then_product(own, column, move[t], next_column)
        moves[sweep] = largest
        if moves[sweep] <= tolerance:
            return sweep + 1
    keep(A, rows, iterates[-1])
    copy(state, states[-1])
    return moves.size


@entry
def gram_sweeps(
    solve, gram, curvature, state, begin, rows, A, member, strengths, thorough, tolerance, iterates, states,
    moves,
):  # fmt: skip
    """The same where the state holds the slopes of all m rows in every task, by Gram matrices of the tasks.

    A single Gram matrix is that of all tasks.
    """
    m, n_tasks = A.shape
    g, move = np.empty(n_tasks), np.empty(n_tasks)
    for sweep in range(moves.size):
        keep(A, rows, iterates[sweep])
        copy(state, states[sweep])
        largest = 0.0
        for index in range(rows.size):
            j = rows[index]
            L = curvature[j]
            for t in range(n_tasks):
                g[t] = state[begin[t] + j] + L[t] * A[j, t]
            moved = _solve_row(solve, g, L, member, strengths[j], A[j], thorough and sweep == 0, move)
            largest = max(largest, moved)
            for t in range(n_tasks):
                if move[t] != 0.0:
                    own = gram[t if gram.shape[0] > 1 else 0, j]
                    subtract(state[begin[t] : begin[t] + m], own, move[t])
        moves[sweep] = largest
        if moves[sweep] <= tolerance:
            return sweep + 1
    keep(A, rows, iterates[-1])
    copy(state, states[-1])
    return moves.size


# -- tasks that share one X: four rows at a time -------------------------------------------------------------
# The slopes of four rows are taken from the residuals at once, corrected by the products of the four columns
# as one row after the other moves, and the residuals are brought up to date at the end of the block. The
# iterates are those of `sweeps`, but every residual is read and written once for four rows.


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
def _subtract_four(state, first, second, third, fourth, change):
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
                cross[k, b, c] = product(x[rows[min(BLOCK * k + b, last)]], x[rows[min(BLOCK * k + c, last)]])


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
        _subtract_four(state[n * t : n * t + n], a, b, c, d, changes[t])


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
        keep(A, rows, iterates[sweep])
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
    keep(A, rows, iterates[-1])
    copy(state, states[-1])
    return moves.size
