"""Compiled descent over blocks of rows along a whole path, on Gram matrices; docs/model.md section 11.

The problem is that of `gram_descent`, where the rows of a group are penalised together, and the layout of
blocks that of `block_rows`. Groups are few, so all slopes are kept up to date; sweeps between two that look
at all blocks leave out those that are zero.
"""

import numpy as np

from mmtfl.kernels.block_rows import turn
from mmtfl.kernels.gram_descent import MEMORY, extrapolate, follow, gain, restore, solve_row, store
from mmtfl.kernels.row_functions import copy, exact, exact_entry


@exact
def _gather(members, first, size, slopes, A, old, own_slopes):
    """Copy the entries of a block and their slopes, row by row; whether an entry is not zero."""
    (d, n_tasks), kept = A.shape, False
    for i in range(size):
        j = members[first + i]
        for t in range(n_tasks):
            old[i * n_tasks + t], own_slopes[i * n_tasks + t] = A[j, t], slopes[t * d + j]
            kept = kept or A[j, t] != 0.0
    return kept


@exact
def _put_back(members, first, size, gram, n_grams, slopes, A, new, change):
    """Write the entries of a block to A, and what their change makes of the slopes of all features."""
    d, n_tasks = A.shape
    for i in range(size):
        j = members[first + i]
        for t in range(n_tasks):
            change[t] = new[i * n_tasks + t] - A[j, t]
            A[j, t] = new[i * n_tasks + t]
        follow(gram, slopes, d, n_grams, j, d, change)


@exact
def _sweep(
    solve, gram, n_grams, slopes, A, member, members, starts, records, places, curvature, bases, basis_at,
    thorough, g, old, turned, new, change,
):  # fmt: skip
    """One sweep over all blocks, or unless it is thorough those not zero; the largest move, and their sum."""
    n_tasks, largest, total = A.shape[1], 0.0, 0.0
    for b in range(starts.size - 1):
        first, size = starts[b], starts[b + 1] - starts[b]
        n = size * n_tasks
        kept = _gather(members, first, size, slopes, A, old, new)
        if not (thorough or kept):
            continue
        L = curvature[first * n_tasks : first * n_tasks + n]
        turn(bases, basis_at[b], True, new, size, n_tasks, g)
        turn(bases, basis_at[b], True, old, size, n_tasks, turned)
        for at in range(n):
            g[at] += L[at] * turned[at]
        record = records[places[b] : places[b + 1]]
        moved = solve_row(solve, g[:n], L, member, record, turned[:n], thorough, new[:n])
        if moved > 0.0:
            largest, total = max(largest, moved), total + moved
            copy(new[:n], g[:n])
            turn(bases, basis_at[b], False, g, size, n_tasks, new)
            _put_back(members, first, size, gram, n_grams, slopes, A, new, change)
    return largest, total


@exact
def _settle(
    solve, gram, n_grams, slopes, A, member, members, starts, records, places, curvature, bases, basis_at,
    mix, tolerance, max_sweeps, memory, g, old, turned, new, change,
):  # fmt: skip
    """Sweep until no block moves by more than the tolerance, as `gram_descent.settle` does over rows."""
    d, thorough, n_stored, extrapolated, last = A.shape[0], True, 0, False, np.inf
    store(A, slopes, d, memory[0])
    for _ in range(max_sweeps):
        largest, total = _sweep(
            solve, gram, n_grams, slopes, A, member, members, starts, records, places, curvature, bases,
            basis_at, thorough, g, old, turned, new, change,
        )  # fmt: skip
        if extrapolated and total > last:
            restore(A, slopes, d, memory[0])
            extrapolated = False
            continue
        if thorough and largest <= tolerance:
            return True
        thorough, last = largest <= tolerance, total
        n_stored, extrapolated = 0 if extrapolated else n_stored + 1, False
        store(A, slopes, d, memory[n_stored])
        if n_stored == MEMORY:
            n_stored = 0
            extrapolated = mix and extrapolate(A, slopes, d, memory)
    return False


@exact_entry
def block_path(
    solve, gram, first_slopes, slopes, A, member, members, starts, records, places, curvature, bases,
    basis_at, mix, tolerance, max_sweeps, out, gains, settled,
):  # fmt: skip
    """Solve the problem under every penalty, as `gram_descent.gram_path` does where rows are single.

    records[i] holds the records of all blocks under the i-th penalty.
    """
    (d, n_tasks), room = A.shape, 0
    for b in range(starts.size - 1):
        room = max(room, (starts[b + 1] - starts[b]) * n_tasks)
    g, old, turned, new = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
    change, memory, n_grams = np.empty(n_tasks), np.empty((MEMORY + 1, 2 * d * n_tasks)), gram.size // (d * d)
    for i in range(len(records)):
        settled[i] = _settle(
            solve, gram, n_grams, slopes, A, member, members, starts, records[i], places, curvature, bases,
            basis_at, mix, tolerance, max_sweeps, memory, g, old, turned, new, change,
        )  # fmt: skip
        gains[i] = gain(A, slopes, first_slopes)
        for j in range(d):
            copy(A[j], out[i, j])
