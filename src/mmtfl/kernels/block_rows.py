"""Row descent where several rows are penalised together, as one block; docs/model.md section 11.

A block is a run members[starts[b]:starts[b + 1]] of rows. Its entries are one long row, row by row, with the
record records[places[b]:places[b + 1]].
"""

import numpy as np

from mmtfl.kernels.row_functions import copy, entry, exact, fill, inner, product
from mmtfl.kernels.row_problem import call
from mmtfl.kernels.sweeps import keep, subtract


@entry
def block_violations(solve, A, gradient, L, member, members, starts, records, places):
    """Distance of every row from the answer to its block's own problem, in units of the gradient; eq. (8)."""
    n_tasks = A.shape[1]
    out = np.zeros(A.shape[0])
    for b in range(starts.size - 1):
        rows = members[starts[b] : starts[b + 1]]
        n = rows.size * n_tasks
        g, own_L, present, best = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
        for i in range(rows.size):
            for t in range(n_tasks):
                at, j = i * n_tasks + t, rows[i]
                own_L[at], present[at] = L[j, t], A[j, t]
                g[at] = L[j, t] * A[j, t] - gradient[j, t]
        record = records[places[b] : places[b + 1]]
        if record[0] < np.inf:
            call(solve, g, own_L, member, record, present, True, best)
        else:
            fill(best, 0.0)
        largest = 0.0
        for at in range(n):
            largest = max(largest, own_L[at] * abs(present[at] - best[at]))
        for i in range(rows.size):
            out[rows[i]] = largest
    return out


@entry
def block_gram(x, start, length, h, means, begin, rows, out):
    """Gram matrix of some columns in every task, (n_tasks, n, n); with an h weighted by it, and centred."""
    for t in range(out.shape[0]):
        for i in range(rows.size):
            left = x[rows[i], start[t] : start[t] + length[t]]
            for k in range(i + 1):
                right = x[rows[k], start[t] : start[t] + length[t]]
                total = 0.0
                if h.size > 0:
                    weight = h[begin[t] : begin[t] + length[t]]
                    left_mean, right_mean = means[rows[i], t], means[rows[k], t]
                    for s in range(weight.size):
                        total += weight[s] * (left[s] - left_mean) * (right[s] - right_mean)
                else:
                    total = product(left, right)
                out[t, i, k] = out[t, k, i] = total


@exact
def turn(bases, begin, transposed, v, size, n_tasks, out):
    """A block in the basis of every task, or back from it (not `transposed`); a copy without a basis."""
    if begin < 0:
        copy(v[: size * n_tasks], out[: size * n_tasks])
        return
    for t in range(n_tasks):
        basis = bases[begin + t * size * size : begin + (t + 1) * size * size]
        for i in range(size):
            total = 0.0
            for k in range(size):
                total += basis[k * size + i if transposed else i * size + k] * v[k * n_tasks + t]
            out[i * n_tasks + t] = total


@inner
def _take_off(own, column, change, h, mean):
    """Change of the residuals where a coefficient changes; h as in `sweeps`."""
    if h.size == 0:
        subtract(own, column, change)
        return
    for i in range(own.size):
        own[i] -= change * h[i] * (column[i] - mean)


@inner
def _slopes_of(members, first, size, use_gram, x, start, length, state, begin, A, old, slopes):
    """Copy the entries of a block and their slopes, row by row."""
    n_tasks = A.shape[1]
    for i in range(size):
        j = members[first + i]
        for t in range(n_tasks):
            old[i * n_tasks + t] = A[j, t]
            if use_gram:
                slopes[i * n_tasks + t] = state[begin[t] + j]
            else:
                own = state[begin[t] : begin[t] + length[t]]
                slopes[i * n_tasks + t] = product(x[j, start[t] : start[t] + length[t]], own)


@inner
def _move(
    members, first, size, use_gram, x, start, length, h, means, gram, state, begin, A, new
):  # fmt: skip
    """Write the new entries of a block to A, and what their change makes of the state."""
    m, n_tasks = A.shape
    for i in range(size):
        j = members[first + i]
        for t in range(n_tasks):
            change = new[i * n_tasks + t] - A[j, t]
            A[j, t] = new[i * n_tasks + t]
            if change == 0.0:
                continue
            if use_gram:
                subtract(state[begin[t] : begin[t] + m], gram[t if gram.shape[0] > 1 else 0, j], change)
                continue
            own = state[begin[t] : begin[t] + length[t]]
            column = x[j, start[t] : start[t] + length[t]]
            weight = h[begin[t] : begin[t] + length[t]] if h.size > 0 else h
            _take_off(own, column, change, weight, means[j, t])


@entry
def block_sweeps(
    solve, use_gram, x, start, length, h, means, gram, state, begin, rows, A, member, members, starts,
    records, places, curvature, bases, basis_at, thorough, tolerance, iterates, states, moves,
):  # fmt: skip
    """Sweep over blocks of rows as `sweeps.sweeps` does over rows; `rows` are all their members.

    `curvature` holds that of every entry of the blocks, block by block. Where basis_at[b] is not negative a
    block's entries are turned, task by task, into those of the basis that begins there in `bases`, in which
    the problem is diagonal. Elsewhere the curvature is a bound, and a block makes a step towards its best.
    """
    n_tasks, room = A.shape[1], 0
    for b in range(starts.size - 1):
        room = max(room, (starts[b + 1] - starts[b]) * n_tasks)
    g, old, turned, new = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
    for sweep in range(moves.size):
        keep(A, rows, iterates[sweep])
        copy(state, states[sweep])
        largest = 0.0
        for b in range(starts.size - 1):
            first, size = starts[b], starts[b + 1] - starts[b]
            n = size * n_tasks
            L = curvature[first * n_tasks : first * n_tasks + n]
            _slopes_of(members, first, size, use_gram, x, start, length, state, begin, A, old, new)
            turn(bases, basis_at[b], True, new, size, n_tasks, g)
            turn(bases, basis_at[b], True, old, size, n_tasks, turned)
            for at in range(n):
                g[at] += L[at] * turned[at]
            record = records[places[b] : places[b + 1]]
            if record[0] < np.inf:
                call(solve, g[:n], L, member, record, turned[:n], thorough and sweep == 0, new[:n])
            else:
                fill(new[:n], 0.0)
            for at in range(n):
                largest = max(largest, L[at] * abs(new[at] - turned[at]))
            copy(new[:n], g[:n])
            turn(bases, basis_at[b], False, g, size, n_tasks, new)
            _move(
                members, first, size, use_gram, x, start, length, h, means, gram, state, begin, A, new
            )  # fmt: skip
        moves[sweep] = largest
        if moves[sweep] <= tolerance:
            return sweep + 1
    keep(A, rows, iterates[-1])
    copy(state, states[-1])
    return moves.size
