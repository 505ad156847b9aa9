"""The row problem of two parts, compiled; docs/additive.md section 3.

    minimise over p, q in R^T   sum_t L_t/2 (p_t + q_t)^2 - g_t (p_t + q_t) + alpha ||p|| + eps ||q||_1

Given p, q is a soft threshold, and p follows from one root in its norm. The code has plain loops and no array
expressions, because a first fit waits for this file to compile.
"""

import math

import numpy as np
from numba import carray

from mmtfl.kernels.row_functions import exact
from mmtfl.kernels.row_problem import compiled_row_solver


@exact
def euclidean_size(g, L, first, last, alpha, eps, start):
    """||p||_2: the root of sum_t min(|g_t| / (L_t rho + alpha), eps / alpha)^2 = 1, or 0.

    The sum runs over the entries from `first` to `last`; `start` is a guess of the root.
    """
    held, top = 0.0, 0.0
    for t in range(first, last):
        if L[t] > 0.0:
            clipped = min(abs(g[t]), eps)
            held += clipped * clipped
            top += (g[t] / L[t]) * (g[t] / L[t])
    if held <= alpha * alpha:
        return 0.0
    most = eps / alpha
    low, high = 0.0, math.sqrt(top)
    rho = start if 0.0 < start < high else high
    for _ in range(100):
        total, change = 0.0, 0.0
        for t in range(first, last):
            if L[t] > 0.0:
                below = L[t] * rho + alpha
                share = abs(g[t]) / below
                if share < most:
                    change += share * share * L[t] / below
                else:
                    share = most
                total += share * share
        size = math.sqrt(total)
        if size > 1.0:
            low = rho
        else:
            high = rho
        # Newton on 1 / size - 1, nearly linear in rho, inside the bracket
        trial = rho - (1.0 / size - 1.0) * total * size / change if change > 0.0 else -1.0
        if not low < trial < high:
            trial = 0.5 * (low + high)
        if abs(trial - rho) <= 1e-15 * rho:
            return trial
        rho = trial
    return rho


@exact
def _largest_size(g, L, alpha, eps, start):
    """max |p_t|: the root m of sum_t min((|g_t| - L_t m)+, eps) = alpha, or 0."""
    held, top = 0.0, 0.0
    for t in range(g.size):
        if L[t] > 0.0:
            held += min(abs(g[t]), eps)
            top = max(top, abs(g[t]) / L[t])
    if held <= alpha:
        return 0.0
    low, high = 0.0, top
    m = start if 0.0 < start < high else 0.5 * high
    for _ in range(200):
        excess, change = -alpha, 0.0
        for t in range(g.size):
            if L[t] > 0.0:
                left = abs(g[t]) - L[t] * m
                if left >= eps:
                    excess += eps
                elif left > 0.0:
                    excess += left
                    change += L[t]
        if excess > 0.0:
            low = m
        else:
            high = m
        trial = m + excess / change if change > 0.0 else -1.0
        if abs(trial - m) <= 1e-15 * m:
            return trial
        if not low < trial < high:
            trial = 0.5 * (low + high)
            if trial <= low or trial >= high:
                return trial
        m = trial
    return m


@exact
def _set_row(g, L, t, shared, eps, out):
    """a_t = p_t + q_t, where q_t is the soft threshold of what p_t leaves."""
    rest = max(abs(g[t]) - L[t] * shared - eps, 0.0) / L[t]
    out[t] = math.copysign(shared + rest, g[t])


@exact
def _euclidean(g, L, alpha, eps, present, out):
    """The row for p = 2."""
    start = 0.0
    for t in range(g.size):
        start += present[t] * present[t]
    size = euclidean_size(g, L, 0, g.size, alpha, eps, math.sqrt(start))
    for t in range(g.size):
        out[t] = 0.0
        if L[t] > 0.0:
            shared = 0.0
            if size > 0.0:
                shared = size * min(abs(g[t]) / (L[t] * size + alpha), eps / alpha)
            _set_row(g, L, t, shared, eps, out)


@exact
def _largest(g, L, alpha, eps, present, out):
    """The row for p = inf."""
    start = 0.0
    for t in range(g.size):
        start = max(start, abs(present[t]))
    size = _largest_size(g, L, alpha, eps, start)
    for t in range(g.size):
        out[t] = 0.0
        if L[t] > 0.0:
            _set_row(g, L, t, min(abs(g[t]) / L[t], size), eps, out)


def _euclidean_row(g, L, n, member, row, present, thorough, out):
    _euclidean(carray(g, n), carray(L, n), row[0], row[1], carray(present, n), carray(out, n))


def _largest_row(g, L, n, member, row, present, thorough, out):
    _largest(carray(g, n), carray(L, n), row[0], row[1], carray(present, n), carray(out, n))


def row_solver(p):
    """Address of the solver for p = 2 or p = inf; see `mmtfl.kernels.row_problem.row_solver`."""
    return compiled_row_solver(_largest_row if p == np.inf else _euclidean_row).address
