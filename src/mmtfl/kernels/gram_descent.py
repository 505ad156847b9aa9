"""Compiled row descent along a whole path, on Gram matrices; docs/model.md section 6.

    minimise over A (d, T)   sum_t 1/2 a_t' G_t a_t - b_t' a_t + sum_j phi_j(a_j)

for one penalty after the other, each from the solution of the last. The slopes b_t - G_t a_t of all features
are known at every penalty. Sweeps touch the active features alone, whose part of the Gram matrices is copied
to one place; then the slopes of the others tell which of them join.

The code has plain loops and no array expressions, because a first search waits for this file to compile.
"""

import numpy as np

from mmtfl.kernels.row_functions import copy, exact, exact_entry
from mmtfl.kernels.row_problem import call

MEMORY = 5  # sweeps behind one extrapolation
_RIDGE = 1e-12
_MOSTLY = 0.7  # active features are forgotten when a smaller share of them is kept


@exact
def follow(gram, slopes, d, n_grams, row, n, change):
    """What a change of a row makes of the first n slopes of every task.

    gram has n_grams matrices (d, d), and slopes d entries of each task, one after the other. Slices would
    cost more than short rows do, and only indices that cannot be negative are vectorised.
    """
    for t in range(change.size):
        factor = change[t]
        if factor != 0.0:
            at = np.uint64(t * d)
            begin = np.uint64(((t * d if n_grams > 1 else 0) + row) * d)
            for i in range(np.uint64(n)):
                slopes[at + i] -= factor * gram[begin + i]


@exact
def solve_row(solve, g, L, member, strengths, present, thorough, new):
    """Solve one row; the square of its move in the metric of the loss."""
    n_tasks = g.size
    if strengths[0] < np.inf:
        call(solve, g, L, member, strengths, present, thorough, new)
    else:
        for t in range(n_tasks):
            new[t] = 0.0
    moved = 0.0
    for t in range(n_tasks):
        change = new[t] - present[t]
        moved += L[t] * change * change
    return moved


# -- the active features -------------------------------------------------------------------------------------


@exact
def _is_zero(row):
    for t in range(row.size):  # noqa: SIM110 (the compiler takes no generators)
        if row[t] != 0.0:
            return False
    return True


@exact
def kept_rows(A, is_active, active, m):
    """Make the rows that are not zero the active ones, unless most active ones are such; their number."""
    n_kept = 0
    for j in range(A.shape[0]):
        n_kept += not _is_zero(A[j])
    if n_kept > _MOSTLY * m and m > 0:
        return m
    m = 0
    for j in range(A.shape[0]):
        is_active[j] = not _is_zero(A[j])
        if is_active[j]:
            active[m] = j
            m += 1
    return m


@exact
def join(solve, curvature, slopes, member, strengths, is_active, active, m, tolerance, g, new, zero):
    """Add the features that would not stay zero to the active ones; the number of active ones."""
    d = is_active.size
    for j in range(d):
        if is_active[j]:
            continue
        for t in range(g.size):
            g[t] = slopes[t * d + j]
        if solve_row(solve, g, curvature[j], member, strengths[j], zero, True, new) > tolerance:
            is_active[j] = True
            active[m] = j
            m += 1
    return m


@exact
def _gather(gram, n_grams, slopes, A, active, known, m, own_gram, own_slopes, own_A):
    """Copy what belongs to the active features; the Gram matrices of the first `known` are there."""
    d, room = A.shape[0], own_A.shape[0]
    for s in range(n_grams):
        for a in range(m):
            row, own = (s * d + active[a]) * d, (s * room + a) * room
            for b in range(known if a < known else 0, m):
                own_gram[own + b] = gram[row + active[b]]
    for a in range(m):
        for t in range(A.shape[1]):
            own_A[a, t], own_slopes[t * room + a] = A[active[a], t], slopes[t * d + active[a]]


@exact
def _move_on(own_gram, n_grams, own_slopes, own_A, before, active, m, share, change):
    """Move the active entries on by a share of their last move along the path."""
    for a in range(m):
        for t in range(change.size):
            old = before[active[a], t]
            change[t] = share * (own_A[a, t] - old) if old != 0.0 and own_A[a, t] != 0.0 else 0.0
            own_A[a, t] += change[t]
        follow(own_gram, own_slopes, own_A.shape[0], n_grams, a, m, change)


@exact
def _put_back(gram, n_grams, slopes, A, active, m, own_A, change):
    """Write the active rows to A, and what their change makes of the slopes of all features."""
    for a in range(m):
        j = active[a]
        for t in range(change.size):
            change[t] = own_A[a, t] - A[j, t]
            A[j, t] = own_A[a, t]
        follow(gram, slopes, A.shape[0], n_grams, j, A.shape[0], change)


# -- extrapolation -------------------------------------------------------------------------------------------


@exact
def store(A, slopes, m, out):
    """Keep the first m rows and their slopes, one after the other."""
    room, n_tasks = A.shape
    for a in range(m):
        for t in range(n_tasks):
            out[a * n_tasks + t] = A[a, t]
            out[(m + a) * n_tasks + t] = slopes[t * room + a]


@exact
def restore(A, slopes, m, stored):
    room, n_tasks = A.shape
    for a in range(m):
        for t in range(n_tasks):
            A[a, t] = stored[a * n_tasks + t]
            slopes[t * room + a] = stored[(m + a) * n_tasks + t]


@exact
def product_of_steps(before, after, other_before, other_after):
    total = 0.0
    for i in range(before.size):
        total += (after[i] - before[i]) * (other_after[i] - other_before[i])
    return total


@exact
def mixing_weights(products, weights):
    """Weights of sum one that minimise the norm of the mixed steps, by elimination; whether there are any."""
    n, trace, total = weights.size, 0.0, 0.0
    for i in range(n):
        trace += products[i, i]
        weights[i] = 1.0
    for i in range(n):
        products[i, i] += _RIDGE * trace
    for i in range(n):
        if not products[i, i] > 0.0:
            return False
        for k in range(i + 1, n):
            factor = products[k, i] / products[i, i]
            for j in range(i, n):
                products[k, j] -= factor * products[i, j]
            weights[k] -= factor * weights[i]
    for back in range(n):
        i = n - 1 - back
        for j in range(i + 1, n):
            weights[i] -= products[i, j] * weights[j]
        weights[i] /= products[i, i]
        total += weights[i]
    for i in range(n):
        weights[i] /= total
    return abs(total) > 1e-14


@exact
def extrapolate(A, slopes, m, memory):
    """Go to where the stored sweeps lead, and store their end as the first; whether there was a way."""
    size = m * A.shape[1]
    products, weights = np.empty((MEMORY, MEMORY)), np.empty(MEMORY)
    for i in range(MEMORY):
        for k in range(i + 1):
            products[i, k] = products[k, i] = product_of_steps(
                memory[i, :size], memory[i + 1, :size], memory[k, :size], memory[k + 1, :size]
            )
    found = mixing_weights(products, weights)
    copy(memory[MEMORY, : 2 * size], memory[0, : 2 * size])
    if found:
        for i in range(2 * size):
            mixed = 0.0
            for k in range(MEMORY):
                mixed += weights[k] * memory[k + 1, i]
            memory[1, i] = mixed
        restore(A, slopes, m, memory[1])
    return found


# -- descent -------------------------------------------------------------------------------------------------


@exact
def _sweep(solve, gram, n_grams, curvature, slopes, A, m, member, strengths, active, thorough, g, new):
    """One sweep over the first m rows of the gathered problem; the largest move of a row, and their sum."""
    room, n_tasks = A.shape
    largest, total = 0.0, 0.0
    for a in range(m):
        L = curvature[active[a]]
        for t in range(n_tasks):
            g[t] = slopes[t * room + a] + L[t] * A[a, t]
        moved = solve_row(solve, g, L, member, strengths[active[a]], A[a], thorough, new)
        largest, total = max(largest, moved), total + moved
        for t in range(n_tasks):
            g[t] = new[t] - A[a, t]
            A[a, t] = new[t]
        follow(gram, slopes, room, n_grams, a, m, g)
    return largest, total


@exact
def settle(
    solve, gram, n_grams, curvature, slopes, A, m, member, strengths, active, short_cut, mix, tolerance,
    max_sweeps, memory, g, new,
):  # fmt: skip
    """Sweep until no row moves by more than the tolerance; whether the sweeps were enough.

    Only the first and the last sweep are thorough, where short cuts exist. After every few sweeps the rows go
    where the last ones lead, and come back if the next sweep moves them more than the last one did.
    """
    thorough, n_stored, extrapolated, last = True, 0, False, np.inf
    store(A, slopes, m, memory[0])
    for _ in range(max_sweeps):
        largest, total = _sweep(
            solve, gram, n_grams, curvature, slopes, A, m, member, strengths, active, thorough, g, new
        )
        if extrapolated and total > last:
            restore(A, slopes, m, memory[0])
            extrapolated = False
            continue
        n_stored, extrapolated, last = 0 if extrapolated else n_stored + 1, False, total
        store(A, slopes, m, memory[n_stored])
        if largest > tolerance:
            thorough = False
        elif thorough or not short_cut:
            return True
        else:
            thorough = True
        if n_stored == MEMORY:
            n_stored = 0
            extrapolated = mix and extrapolate(A, slopes, m, memory)
    return False


@exact
def gain(A, slopes, first_slopes):
    """How much lower the loss is than at zero."""
    (d, n_tasks), total = A.shape, 0.0
    for j in range(d):
        for t in range(n_tasks):
            total += A[j, t] * (slopes[t * d + j] + first_slopes[t * d + j])
    return 0.5 * total


@exact_entry
def gram_path(
    solve, gram, curvature, first_slopes, slopes, A, member, strengths, short_cut, mix, tolerance, max_rounds,
    max_sweeps, out, gains, settled,
):  # fmt: skip
    """Solve the problem under every penalty; the i-th solution goes to out[i].

    gram has one matrix per task, or one for all, and first_slopes (n_tasks, n_features) are b; they are flat,
    as are the slopes. A, and the slopes that belong to it, are where the path begins, and change in place.
    strengths[i] holds the numbers of each row of the i-th penalty. Sweeps, and the path itself, are
    extrapolated if `mix`. gains[i] receives how much lower the loss is than at zero, and settled[i] whether
    the rounds and sweeps were enough.
    """
    d, n_tasks = A.shape
    g, new, zero = np.empty(n_tasks), np.empty(n_tasks), np.zeros(n_tasks)
    is_active, active, room = np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.intp), 0
    own_gram, own_A, own_slopes = np.empty(1), np.empty((1, 1)), np.empty(1)
    memory = np.empty((1, 1))
    n_grams, m, known = gram.size // (d * d), 0, 0
    for i in range(len(strengths)):
        before, enough = m, True
        m = kept_rows(A, is_active, active, m)
        known = known if m == before else 0
        for n_rounds in range(max_rounds):
            if m > 0:
                if m > room:
                    room = min(d, max(2 * m, 32))
                    own_gram = np.empty(n_grams * room * room)
                    own_A, own_slopes = np.empty((room, n_tasks)), np.empty(n_tasks * room)
                    memory, known = np.empty((MEMORY + 1, 2 * room * n_tasks)), 0
                _gather(gram, n_grams, slopes, A, active, known, m, own_gram, own_slopes, own_A)
                known = m
                if mix and n_rounds == 0 and i > 1:
                    step = strengths[i, 0, 0] - strengths[i - 1, 0, 0]
                    last = strengths[i - 1, 0, 0] - strengths[i - 2, 0, 0]
                    share = min(step / last, 1.0) if last != 0.0 else 0.0
                    _move_on(own_gram, n_grams, own_slopes, own_A, out[i - 2], active, m, share, g)
                enough = settle(
                    solve, own_gram, n_grams, curvature, own_slopes, own_A, m, member, strengths[i], active,
                    short_cut, mix, tolerance, max_sweeps, memory, g, new,
                )  # fmt: skip
                _put_back(gram, n_grams, slopes, A, active, m, own_A, g)
            before = m
            m = join(
                solve, curvature, slopes, member, strengths[i], is_active, active, m, tolerance, g, new, zero
            )
            if m == before:
                break
        settled[i] = enough and m == before
        gains[i] = gain(A, slopes, first_slopes)
        for j in range(d):
            copy(A[j], out[i, j])
