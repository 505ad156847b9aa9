"""Rows whose norm is a sum or a largest entry, and rows whose tasks are independent; docs/model.md section 5.

The tasks that are kept or clipped are the first ones of a sorted list, so the solvers walk along that list.
"""

import math

import numpy as np

from mmtfl.kernels.row_functions import (
    POWER,
    TINY,
    exact,
    fill,
    larger_root,
    norm_p,
    phi,
    phi_bend,
    phi_slope,
    power_root,
    row_value,
)

_FALLS, _SLOWLY = 20, 0.9  # steps that may show that a row is zero, and the share that each must take off


@exact
def solve_separable(g, L, p, alpha, out):
    """k = inf: phi = alpha sum_t |a_t|^p, so every task is solved on its own."""
    for t in range(g.size):
        size = abs(g[t])
        if L[t] <= 0.0 or size == 0.0:
            out[t] = 0.0
        elif p == 1.0:
            out[t] = max(size - alpha, 0.0) / L[t]
        else:
            out[t] = power_root(size, L[t], alpha * p, p - 1.0)
        if g[t] < 0.0:
            out[t] = -out[t]


@exact
def set_soft(g, L, threshold, out):
    """Soft threshold of g, divided by the curvatures."""
    for t in range(g.size):
        kept = abs(g[t]) - threshold
        out[t] = 0.0 if kept <= 0.0 or L[t] <= 0.0 else math.copysign(kept / L[t], g[t])


@exact
def _set_clip(g, L, bound, out):
    """g / L, clipped at the bound."""
    for t in range(g.size):
        out[t] = 0.0 if L[t] <= 0.0 else math.copysign(min(abs(g[t]) / L[t], bound), g[t])


@exact
def _sift(keys, order, root, n):
    """Restore the heap below `root`, the smallest key on top."""
    while 2 * root + 1 < n:
        child = 2 * root + 1
        if child + 1 < n and keys[order[child + 1]] < keys[order[child]]:
            child += 1
        if keys[order[root]] <= keys[order[child]]:
            return
        order[root], order[child] = order[child], order[root]
        root = child


@exact
def sort_falling(keys, order, n):
    """Heapsort the first n of `order` by falling key; numpy's sort would take seconds to compile."""
    for root in range(n // 2 - 1, -1, -1):
        _sift(keys, order, root, n)
    for last in range(n - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        _sift(keys, order, 0, last)


@exact
def _near_sum_norm(g, L, kind, r, alpha, eps, start, out):
    """p = 1: Newton on the norm s from a start; False if it does not reach a local minimum."""
    s = start
    for _ in range(30):
        threshold = phi_slope(s, kind, 1.0, r, alpha, eps)
        bend = 1.0
        excess = s
        change = phi_bend(s, kind, 1.0, r, alpha, eps)
        for t in range(g.size):
            kept = abs(g[t]) - threshold
            if kept > 0.0 and L[t] > 0.0:
                excess -= kept / L[t]
                bend += change / L[t]
        if bend <= 0.0:
            return False
        step = excess / bend
        s -= step
        if s <= 0.0:
            return False
        if abs(step) <= 1e-13 * s:
            set_soft(g, L, phi_slope(s, kind, 1.0, r, alpha, eps), out)
            return True
    return False


@exact
def _slope_inverse(slope, r, alpha):
    """The size at which the slope of the power alpha s^r, r < 1, has fallen to `slope`."""
    return (slope / (alpha * r)) ** (1.0 / (r - 1.0)) if slope > 0.0 else np.inf


@exact
def _best_sum_norm(g, L, kind, r, alpha, eps, out):
    """p = 1: the kept tasks are the largest |g|; each number of kept tasks has at most one local minimum."""
    size, order = np.empty(g.size), np.empty(g.size, np.intp)
    n = 0
    for t in range(g.size):
        size[t] = abs(g[t])
        if size[t] > 0.0 and L[t] > 0.0:
            order[n] = t
            n += 1
    sort_falling(size, order, n)
    best, best_value = 0.0, 0.0  # zero is always a candidate
    sum_z, sum_inverse, quadratic = 0.0, 0.0, 0.0
    concave = kind == POWER and r < 1.0
    high = _slope_inverse(size[order[0]], r, alpha) if concave and n > 0 else 0.0
    for m in range(n):
        t = order[m]
        sum_z += size[t] / L[t]
        sum_inverse += 1.0 / L[t]
        quadratic += size[t] * size[t] / L[t]
        following = size[order[m + 1]] if m + 1 < n else 0.0
        # with these tasks kept: s + D phi'(s) = Z, and phi'(s) between the last kept |g| and the next
        if concave:
            low, high = high, _slope_inverse(following, r, alpha)
            if high + sum_inverse * following < sum_z:
                continue  # the root lies where more tasks are kept
            bend = 1.0 + sum_inverse * (r - 1.0) * size[t] / low
            if low + sum_inverse * size[t] > sum_z * (1.0 + 1e-12) and bend >= 0.0:
                continue  # where fewer are
        s = larger_root(1.0 / sum_inverse, sum_z / sum_inverse, 0.0, sum_z, kind, 1.0, r, alpha, eps)
        if s <= 0.0:
            continue
        threshold = phi_slope(s, kind, 1.0, r, alpha, eps)
        if threshold > size[t] * (1.0 + 1e-12) or threshold < following * (1.0 - 1e-12):
            continue
        value = 0.5 * (threshold * threshold * sum_inverse - quadratic)
        value += phi(s, kind, 1.0, r, alpha, eps)
        if value < best_value:
            best, best_value = s, value
    if best == 0.0:
        fill(out, 0.0)
    else:
        set_soft(g, L, phi_slope(best, kind, 1.0, r, alpha, eps), out)


@exact
def _falls_to_zero(g, L, r, alpha):
    """p = 1, r < 1: whether zero is the only stationary row, as a few steps s -> ||a(s)||_1 from above show.

    The map rises with s, so its iterates pass no stationary row on their way down. This saves sorting the
    tasks of a row that is far from being kept.
    """
    s = 0.0
    for t in range(g.size):
        if L[t] > 0.0:
            s += abs(g[t]) / L[t]
    for _ in range(_FALLS):
        if s < TINY:
            return True
        threshold = alpha * r * s ** (r - 1.0)
        total = 0.0
        for t in range(g.size):
            kept = abs(g[t]) - threshold
            if kept > 0.0 and L[t] > 0.0:
                total += kept / L[t]
        if total > _SLOWLY * s:
            return False
        s = total
    return False


@exact
def solve_sum_norm(g, L, kind, r, alpha, eps, present, thorough, out):
    """p = 1: the best local minimum if thorough, else the one next to the present row."""
    start = 0.0 if thorough else norm_p(present, 1.0)
    if start > 0.0 and _near_sum_norm(g, L, kind, r, alpha, eps, start, out):
        return
    if kind == POWER and r < 1.0 and _falls_to_zero(g, L, r, alpha):
        fill(out, 0.0)
    else:
        _best_sum_norm(g, L, kind, r, alpha, eps, out)


@exact
def solve_max_norm(g, L, kind, r, alpha, eps, out):
    """p = inf: entries are clipped at m with phi'(m) = sum_t (|g_t| - L_t m)+; r = 1 is the l1,inf norm."""
    limit, order = np.empty(g.size), np.empty(g.size, np.intp)  # limit: where task t leaves the clipped set
    n_tasks = 0
    total = 0.0
    for t in range(g.size):
        if L[t] > 0.0 and g[t] != 0.0:
            limit[t] = abs(g[t]) / L[t]
            total += abs(g[t])
            order[n_tasks] = t
            n_tasks += 1
    if r == 1.0 and total <= alpha:
        fill(out, 0.0)
        return
    sort_falling(limit, order, n_tasks)
    best, best_value = 0.0, 0.0
    sum_g, sum_L = 0.0, 0.0
    for m in range(n_tasks):
        t = order[m]
        sum_g += abs(g[t])
        sum_L += L[t]
        low = limit[order[m + 1]] if m + 1 < n_tasks else 0.0
        bound = larger_root(sum_L, sum_g, low, limit[t], kind, 1.0, r, alpha, eps)
        if bound <= 0.0:
            continue
        _set_clip(g, L, bound, out)
        value = row_value(out, g, L, kind, np.inf, r, alpha, eps)
        if value < best_value:
            best, best_value = bound, value
    _set_clip(g, L, best, out)
