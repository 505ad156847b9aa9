"""Rows whose tasks scatter about a common part: the row problem with pooling; docs/model.md section 10.

    minimise over a in R^T   sum_t L_t/2 a_t^2 - g_t a_t + phi(rho),
    rho^p = S = min over m of   w |m|^p + sum_t |a_t - m|^p,      p = 1 or 2

Once phi'(rho) is known, so are m and the row: a linear system at p = 2, a lasso at p = 1. What remains is one
root in rho. A task in which the feature is constant (L_t = 0) says nothing, and its coefficient is m.

Rows of a group are solved as one block, row by row in g, L and out: each has a common part of its own, and S
is the sum of theirs. `n_tasks` is the length of a row.
"""

import math

import numpy as np
from numba import carray

from mmtfl.kernels.row_functions import (
    LOGARITHM,
    POWER,
    TINY,
    exact,
    fill,
    inner,
    phi,
    phi_slope,
)
from mmtfl.kernels.row_problem import compiled_row_solver
from mmtfl.kernels.sum_and_max_norms import sort_falling

_GRID, _GRID_STEP = 60, 0.75  # sizes tried for the concave members, down to 3e-8 of the largest
_NEAR = 4  # of these steps below the present row are close by


@inner
def _set_euclidean(g, L, w, ratio, out):
    """p = 2 with phi'(rho) / rho = ratio: set the row and return its S.

    With h = L + ratio: a_t = (g_t + ratio m) / h_t, where m (w + sum_t L_t / h_t) = sum_t g_t / h_t.
    """
    above, below = 0.0, w
    for t in range(g.size):
        share = 1.0 / (L[t] + ratio) if L[t] > 0.0 else 0.0
        above += g[t] * share
        below += L[t] * share
        out[t] = share
    m = above / below
    total = w * m * m
    for t in range(g.size):
        apart = (g[t] - L[t] * m) * out[t]
        out[t] = m + apart
        total += apart * apart
    return total


@inner
def _pull(g, L, threshold, m):
    """p = 1: the sum of the tasks' slopes at m, each within the threshold, and its derivative in -m."""
    total, slope = 0.0, 0.0
    for t in range(g.size):
        own = g[t] - L[t] * m
        total += min(max(own, -threshold), threshold)
        slope += L[t] if abs(own) <= threshold else 0.0
    return total, slope


@exact
def _common_part(g, L, w, threshold):
    """p = 1: the m at which the tasks' slopes sum to w thresholds, or 0 if they sum to less there."""
    total, slope = _pull(g, L, threshold, 0.0)
    wanted = math.copysign(w * threshold, total)
    if abs(total) <= abs(wanted):
        return 0.0
    m, near, far = 0.0, 0.0, 0.0  # the sum falls from `total` at m = 0 to no more than 0 at the farthest z
    for t in range(g.size):
        if g[t] * total > 0.0:
            far = math.copysign(max(abs(far), abs(g[t]) / L[t]), total)
    for _ in range(200):
        trial = m + (total - wanted) / slope if slope > 0.0 else far
        if not min(near, far) < trial < max(near, far):
            trial = 0.5 * (near + far)
        if abs(trial - m) <= 1e-15 * abs(trial):
            break
        m = trial
        total, slope = _pull(g, L, threshold, m)
        if (total - wanted) * far > 0.0:
            near = m
        elif total == wanted:
            break
        else:
            far = m
    return m


@exact
def _set_sum(g, L, w, threshold, out):
    """p = 1 with phi'(rho) = threshold: set the row and return its S."""
    m = _common_part(g, L, w, threshold)
    total = w * abs(m)
    for t in range(g.size):
        out[t] = m
        own = g[t] - L[t] * m
        if abs(own) > threshold:
            apart = (abs(own) - threshold) / L[t]
            out[t] = m + math.copysign(apart, own)
            total += apart
    return total


@exact
def _set_rows(g, L, n_tasks, p, w, rho, slope, out):
    """The rows of a block at which phi'(rho) is `slope`; their norm S^(1/p)."""
    total = 0.0
    for first in range(0, g.size, n_tasks):
        row = slice(first, first + n_tasks)
        if p == 1.0:
            total += _set_sum(g[row], L[row], w, slope, out[row])
        else:
            total += _set_euclidean(g[row], L[row], w, slope / rho, out[row])
    return total if p == 1.0 else math.sqrt(total)


@exact
def _norm(A, n_tasks, p, w):
    """S^(1/p) of the rows of a block."""
    total = 0.0
    for first in range(0, A.size, n_tasks):
        total += _size(A[first : first + n_tasks], p, w)
    return total if p == 1.0 else math.sqrt(total)


@exact
def _size(a, p, w):
    """S of a row."""
    total, n_tasks = 0.0, a.size
    if p == 2.0:
        for t in range(n_tasks):
            total += a[t]
        m = total / (n_tasks + w)
        total = w * m * m
        for t in range(n_tasks):
            total += (a[t] - m) * (a[t] - m)
        return total
    order = np.empty(n_tasks, np.intp)
    for t in range(n_tasks):
        order[t] = t
    sort_falling(a, order, n_tasks)
    n_beyond = int(0.5 * (n_tasks + w))
    m = 0.0
    if n_beyond < n_tasks:
        m = max(a[order[n_beyond]], 0.0) + min(a[order[n_tasks - 1 - n_beyond]], 0.0)
    total = w * abs(m)
    for t in range(n_tasks):
        total += abs(a[t] - m)
    return total


@exact
def _value(a, g, L, norm, kind, p, r, alpha, eps):
    """Value of the row problem at a row of this norm."""
    total = phi(norm, kind, p, r, alpha, eps)
    for t in range(a.size):
        total += (0.5 * L[t] * a[t] - g[t]) * a[t]
    return total


@exact
def _root(g, L, n_tasks, kind, p, r, alpha, eps, w, low, high, start, last, last_excess, out):
    """The rho in (low, high) at which the norm of the row at phi'(rho) falls below rho; sets that row.

    Secant steps on rho / norm - 1, which is nearly linear at p = 2, inside the bracket. `last` is a place
    where its value, `last_excess`, is known; if it is negative there is none.
    """
    rho = start
    for _ in range(200):
        norm = _set_rows(g, L, n_tasks, p, w, rho, phi_slope(rho, kind, p, r, alpha, eps), out)
        trial = -1.0
        if norm > 0.0:
            excess = rho / norm - 1.0
            if last < 0.0:
                trial = norm
            elif excess != last_excess:
                trial = rho - excess * (rho - last) / (excess - last_excess)
            last, last_excess = rho, excess
        if norm < rho:
            high = rho
        else:
            low = rho
        if norm == rho or high - low <= 1e-15 * high:
            break
        if not low < trial < high:
            trial = 0.5 * (low + high)
        if abs(trial - rho) <= 1e-15 * rho:
            break
        rho = trial
    return rho


@exact
def _dual_norm(g, n_tasks, p, w):
    """Dual of the norm of a block's rows at g; eq. (13)."""
    total, largest = 0.0, 0.0
    for first in range(0, g.size, n_tasks):
        pooled = 0.0
        for t in range(first, first + n_tasks):
            total += g[t] * g[t]
            largest = max(largest, abs(g[t]))
            pooled += g[t]
        total += pooled * pooled / w
        largest = max(largest, abs(pooled) / w)
    return largest if p == 1.0 else math.sqrt(total)


@exact
def _solve_convex(g, L, n_tasks, r, alpha, w, top, start, out):
    """p = 2, r >= 1: there is one root, or the row is zero."""
    excess = -1.0  # of rho / norm - 1 at rho = 0
    if r == 1.0:
        dual = _dual_norm(g, n_tasks, 2.0, w)
        if dual <= alpha:
            fill(out, 0.0)
            return
        excess = alpha / dual - 1.0
    rho = start if 0.0 < start < top else top
    _root(g, L, n_tasks, POWER, 2.0, r, alpha, 1.0, w, 0.0, top, rho, 0.0, excess, out)


@exact
def _near(g, L, n_tasks, kind, p, r, alpha, eps, w, top, start, out):
    """The norm of the local minimum next to a row of norm `start`; 0 if there is none close by."""
    norm = _set_rows(g, L, n_tasks, p, w, start, phi_slope(start, kind, p, r, alpha, eps), out)
    if norm >= start:
        return _root(g, L, n_tasks, kind, p, r, alpha, eps, w, start, top, min(norm, top), -1.0, 0.0, out)
    high, guess = start, norm
    for _ in range(_NEAR):
        low = _GRID_STEP * high
        norm = _set_rows(g, L, n_tasks, p, w, low, phi_slope(low, kind, p, r, alpha, eps), out)
        if norm >= low:
            guess = guess if low < guess < high else 0.5 * (low + high)
            return _root(g, L, n_tasks, kind, p, r, alpha, eps, w, low, high, guess, -1.0, 0.0, out)
        high = low
    return 0.0


@exact
def _solve_concave(g, L, n_tasks, kind, p, r, alpha, eps, w, top, out):
    """The best of the local minima that a grid of norms brackets, and zero; its norm.

    The norm of the row at phi'(rho) rises with rho, so there is no root between rho and a norm below it.
    Where phi' falls in rho there is none below the rho at which phi' is the dual norm of g; and a row of norm
    rho has a value of at least -rho times that dual norm.
    """
    best, best_value, dual = 0.0, 0.0, _dual_norm(g, n_tasks, p, w)
    has_barrier = kind == POWER or p == 1.0
    high, falls, norm = top, True, top  # the norm of the row at phi'(top) is not above top
    for _ in range(_GRID):
        low = min(_GRID_STEP * high, norm) if falls else _GRID_STEP * high
        slope = phi_slope(low, kind, p, r, alpha, eps) if low > TINY else np.inf
        hopeless = best_value <= -dual * low or (has_barrier and slope >= dual and falls)
        if hopeless or slope == np.inf:
            break
        norm = _set_rows(g, L, n_tasks, p, w, low, slope, out)
        if falls and norm > low:
            rho = _root(
                g, L, n_tasks, kind, p, r, alpha, eps, w, low, high, 0.5 * (low + high), -1.0, 0.0, out
            )
            value = _value(out, g, L, rho, kind, p, r, alpha, eps)
            if value < best_value:
                best, best_value = rho, value
        high, falls = low, norm <= low
    if kind == LOGARITHM and falls and best_value > -dual * high:
        rho = high  # there is no barrier at zero: follow the norm down to its next fixed point
        for _ in range(500):
            norm = _set_rows(g, L, n_tasks, p, w, rho, phi_slope(rho, kind, p, r, alpha, eps), out)
            if norm < TINY or abs(norm - rho) <= 1e-14 * rho:
                break
            rho = norm
        if norm >= TINY and _value(out, g, L, norm, kind, p, r, alpha, eps) < best_value:
            best = norm
    if best == 0.0:
        fill(out, 0.0)
    else:
        _set_rows(g, L, n_tasks, p, w, best, phi_slope(best, kind, p, r, alpha, eps), out)
    return best


@exact
def _solve(g, L, n_tasks, kind, p, r, alpha, eps, w, present, thorough, out):
    for t in range(g.size):
        if L[t] <= 0.0:
            g[t] = 0.0  # the feature is constant in this task
    if kind == POWER and r == p:  # phi is alpha S: nothing to search for
        _set_rows(g, L, n_tasks, p, w, 1.0, alpha * p, out)
        return
    top = _set_rows(g, L, n_tasks, p, w, 1.0, 0.0, out)  # of the row without penalty, or more
    start = _norm(present, n_tasks, p, w)
    if top < TINY:
        fill(out, 0.0)
    elif kind == POWER and r >= 1.0:
        _solve_convex(g, L, n_tasks, r, alpha, w, top, start, out)
    else:
        rho = 0.0
        if TINY < start < top and not thorough:
            rho = _near(g, L, n_tasks, kind, p, r, alpha, eps, w, top, start, out)
        if rho == 0.0:
            rho = _solve_concave(g, L, n_tasks, kind, p, r, alpha, eps, w, top, out)
        value = _value(out, g, L, rho, kind, p, r, alpha, eps)
        if value >= 0.0:
            fill(out, 0.0)
            value = 0.0
        current = _value(present, g, L, start, kind, p, r, alpha, eps)
        # up to rounding: near a minimum both values agree, and the move must still be made
        if start > TINY and value > current + 1e-12 * abs(current):
            # the best row for the tangent of phi in S at the present row is no worse than that row
            _set_rows(g, L, n_tasks, p, w, start, phi_slope(start, kind, p, r, alpha, eps), out)


# alpha is finite here: the callers set a row of infinite strength to zero themselves.


def _power_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    p, r, pooling, alpha, eps = member[0], member[1], member[2], row[0], row[1]
    n_tasks = int(member[3]) if member[3] > 0.0 else n
    w = n_tasks * (1.0 - pooling) / pooling
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    _solve(g, L, n_tasks, POWER, p, r, alpha, eps, w, present, thorough, out)


def _logarithm_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    p, r, pooling, alpha, eps = member[0], member[1], member[2], row[0], row[1]
    n_tasks = int(member[3]) if member[3] > 0.0 else n
    w = n_tasks * (1.0 - pooling) / pooling
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    _solve(g, L, n_tasks, LOGARITHM, p, r, alpha, eps, w, present, thorough, out)


def row_solver(kind):
    """Address of the compiled solver of a member with pooling, p = 1 or p = 2; see `row_problem.row_solver`.

    The answer is exact for convex members. For concave ones it is the best of zero and the local minima that
    steps of 25 % in the row's norm tell apart, or with `thorough` off the one next to the present row; it is
    never worse than the present row.
    """
    return compiled_row_solver(_logarithm_row if kind == LOGARITHM else _power_row).address
