"""Compiled coordinate descent along the lasso paths of tasks that do not meet, on Gram matrices.

    minimise over a (d)   1/2 a' G_t a - b_t' a + alpha ||a||_1

for every task t and one alpha after the other, each from the solution of the last. It is `gram_descent` for
rows of one entry, where calling a row solver would take longer than the rest: every task has active features
of its own, and a move of an entry is one line of their Gram matrix.
"""

import numpy as np

from mmtfl.kernels.gram_descent import MEMORY, mixing_weights, product_of_steps
from mmtfl.kernels.row_functions import copy, exact, exact_entry, fused

_MOSTLY = 0.7  # active features are forgotten when a smaller share of them is kept


@fused
def _follow(line, change, slopes):
    """What a change of an entry, whose line of the Gram matrix this is, makes of the slopes."""
    for i in range(slopes.size):
        slopes[i] -= change * line[i]


# -- the active features -------------------------------------------------------------------------------------


@exact
def _kept(a, is_active, active, m):
    """Make the entries that are not zero the active ones, unless most active ones are such; their number."""
    n_kept = 0
    for i in range(m):
        n_kept += a[active[i]] != 0.0
    if n_kept > _MOSTLY * m:
        return m
    n_kept = 0
    for i in range(m):
        j = active[i]
        is_active[j] = a[j] != 0.0
        if is_active[j]:
            active[n_kept] = j
            n_kept += 1
    return n_kept


@exact
def _join(curvature, slopes, alpha, tolerance, is_active, active, m):
    """Add the features that would not stay zero to the active ones; the number of active ones."""
    for j in range(slopes.size):
        excess = abs(slopes[j]) - alpha
        if excess > 0.0 and not is_active[j] and excess * excess > tolerance * curvature[j] > 0.0:
            is_active[j] = True
            active[m] = j
            m += 1
    return m


@exact
def _gather(gram, curvature, slopes, a, active, known, own_gram, own_curvature, own_slopes, own):
    """Copy what belongs to the active features; the Gram matrix of the first `known` is there."""
    for i in range(own.size):
        j = active[i]
        own_curvature[i], own_slopes[i], own[i] = curvature[j], slopes[j], a[j]
        for k in range(known if i < known else 0, own.size):
            own_gram[i, k] = gram[j, active[k]]


@exact
def _move_on(own_gram, own_slopes, own, before, active, share):
    """Move the active entries on by a share of their last move along the path."""
    for i in range(own.size):
        old = before[active[i]]
        if old != 0.0 and own[i] != 0.0:
            change = share * (own[i] - old)
            own[i] += change
            _follow(own_gram[i], change, own_slopes)


@exact
def _put_back(gram, slopes, a, active, own):
    """Write the active entries to a, and what their change makes of the slopes of all features."""
    for i in range(own.size):
        j = active[i]
        if own[i] != a[j]:
            _follow(gram[j], own[i] - a[j], slopes)
            a[j] = own[i]


# -- descent -------------------------------------------------------------------------------------------------


@exact
def _sweep(gram, curvature, slopes, a, alpha):
    """One sweep over the active entries; the largest square of a move, and the sum of them."""
    largest, total = 0.0, 0.0
    for i in range(a.size):
        L, new = curvature[i], 0.0
        g = slopes[i] + L * a[i]
        if abs(g) > alpha:
            new = (g - alpha if g > 0.0 else g + alpha) / L
        change = new - a[i]
        if change != 0.0:
            moved = L * change * change
            largest, total, a[i] = max(largest, moved), total + moved, new
            _follow(gram[i], change, slopes)
    return largest, total


@exact
def _extrapolate(points, products, weights, a, slopes):
    """Go to where the stored sweeps lead, and store their end as the first; whether there was a way."""
    m = a.size
    for i in range(MEMORY):
        for k in range(i + 1):
            products[i, k] = products[k, i] = product_of_steps(
                points[i, 0, :m], points[i + 1, 0, :m], points[k, 0, :m], points[k + 1, 0, :m]
            )
    found = mixing_weights(products, weights)
    _store(points[MEMORY, 0], points[MEMORY, 1], points[0], m)
    if found:
        for i in range(m):
            a[i], slopes[i] = 0.0, 0.0
            for k in range(MEMORY):
                a[i] += weights[k] * points[k + 1, 0, i]
                slopes[i] += weights[k] * points[k + 1, 1, i]
    return found


@exact
def _store(a, slopes, point, m):
    copy(a[:m], point[0, :m])
    copy(slopes[:m], point[1, :m])


@exact
def _settle(gram, curvature, slopes, a, alpha, tolerance, max_sweeps, points, products, weights):
    """Sweep until no entry moves by more than the tolerance; whether the sweeps were enough.

    After every few sweeps the entries go where the last ones lead, and come back if the next sweep moves them
    more than the last one did.
    """
    m, n_stored, extrapolated, last = a.size, 0, False, np.inf
    _store(a, slopes, points[0], m)
    for _ in range(max_sweeps):
        largest, total = _sweep(gram, curvature, slopes, a, alpha)
        if extrapolated and total > last:
            copy(points[0, 0, :m], a)
            copy(points[0, 1, :m], slopes)
            extrapolated = False
            continue
        if largest <= tolerance:
            return True
        n_stored, extrapolated, last = 0 if extrapolated else n_stored + 1, False, total
        _store(a, slopes, points[n_stored], m)
        if n_stored == MEMORY:
            n_stored = 0
            extrapolated = _extrapolate(points, products, weights, a, slopes)
    return False


@exact
def _gain(a, slopes, first_slopes):
    """How much lower the loss is than at zero."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * (slopes[j] + first_slopes[j])
    return 0.5 * total


@exact
def _path(
    gram, curvature, first_slopes, slopes, a, alphas, tolerance, max_rounds, max_sweeps, out, gains, settled
):  # fmt: skip
    """The path of one task: see `lasso_paths`."""
    d, m, known = a.size, 0, 0
    is_active, active = np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.intp)
    for j in range(d):
        if a[j] != 0.0:
            is_active[j], active[m] = True, j
            m += 1
    own_gram, own_curvature, own_slopes, own = np.empty((d, d)), np.empty(d), np.empty(d), np.empty(d)
    points, products, weights = np.empty((MEMORY + 1, 2, d)), np.empty((MEMORY, MEMORY)), np.empty(MEMORY)
    for i in range(alphas.size):
        before, enough = m, True
        m = _kept(a, is_active, active, m)
        known = known if m == before else 0
        m = _join(curvature, slopes, alphas[i], tolerance, is_active, active, m)
        for n_rounds in range(max_rounds):
            _gather(
                gram, curvature, slopes, a, active, known, own_gram, own_curvature, own_slopes[:m], own[:m]
            )
            known = m
            if n_rounds == 0 and i > 1 and alphas[i - 1] != alphas[i - 2]:
                share = min((alphas[i] - alphas[i - 1]) / (alphas[i - 1] - alphas[i - 2]), 1.0)
                _move_on(own_gram, own_slopes[:m], own[:m], out[i - 2], active, share)
            enough = _settle(
                own_gram, own_curvature, own_slopes[:m], own[:m], alphas[i], tolerance, max_sweeps,
                points, products, weights,
            )  # fmt: skip
            _put_back(gram, slopes, a, active, own[:m])
            m = _join(curvature, slopes, alphas[i], tolerance, is_active, active, m)
            if m == known:
                break
        settled[i] &= enough and m == known
        gains[i] += _gain(a, slopes, first_slopes)
        copy(a, out[i])


@exact_entry
def lasso_paths(
    gram, curvature, first_slopes, slopes, A, alphas, tolerance, max_rounds, max_sweeps, out, gains, settled
):  # fmt: skip
    """Solve every task at every alpha; the i-th solution of task t goes to out[t, i].

    gram has one matrix per task, or one for all; first_slopes are b, and curvature are the diagonals, both
    (n_tasks, n_features). A, and the slopes that belong to it, are where the paths begin, and change in
    place. gains[i] receives how much lower the loss is than at zero, and settled[i] whether the rounds and
    sweeps were enough.
    """
    for i in range(alphas.size):
        gains[i], settled[i] = 0.0, True
    for t in range(len(A)):
        _path(
            gram[t if len(gram) > 1 else 0], curvature[t], first_slopes[t], slopes[t], A[t], alphas,
            tolerance, max_rounds, max_sweeps, out[t], gains, settled,
        )  # fmt: skip
