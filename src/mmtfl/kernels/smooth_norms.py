"""Rows of the Euclidean norm and of any other p-norm with 1 < p < inf; docs/model.md section 5.

Once the norm rho of the row is known, every task obeys a scalar equation: the solvers search for rho.
"""

import math

from mmtfl.kernels.row_functions import (
    LOGARITHM,
    POWER,
    fill,
    inner,
    norm_p,
    phi_bend,
    phi_slope,
    power_root,
    row_value,
)
from mmtfl.kernels.sum_and_max_norms import set_soft

_GRID, _GRID_STEP = 60, 0.75  # sizes tried for the concave members, down to 3e-8 of the largest
_LEAST_SIZE = 3e-8
_HALF_OF_THE_DIGITS = 1e-8
_NEAR = 1e-4  # first step from a present row, as a share of its norm


@inner
def _set_euclidean(g, L, ratio, out):
    """p = 2 with phi'(rho) / rho = ratio."""
    for t in range(g.size):
        out[t] = 0.0 if L[t] <= 0.0 else g[t] / (L[t] + ratio)


@inner
def _reciprocal_norm(g, L, slope, intercept, rho):
    """1 / ||g / ((L + slope) rho + intercept)|| - 1, concave in rho."""
    total = 0.0
    for t in range(g.size):
        share = g[t] / ((L[t] + slope) * rho + intercept)
        total += share * share
    return 1.0 / math.sqrt(total) - 1.0


@inner
def _largest_euclidean_root(g, L, r, alpha, top):
    """p = 2, r < 1: largest rho with ||g / (L rho + phi'(rho))|| = 1, or 0.

    The iterates come from the right and never pass a root. phi' is convex, so its tangent at rho bounds it
    from below; with the tangent in place of phi', 1 / ||.|| is concave in rho, and a chord of a concave
    function meets zero to the right of its root. With equal curvatures this is Newton's method.
    """
    rho = top
    for _ in range(500):
        power = alpha * r * rho ** (r - 2.0)
        first, bend = power * rho, power * (r - 1.0)
        change, total = 0.0, 0.0
        for t in range(g.size):
            inverse = 1.0 / (L[t] * rho + first)
            share = g[t] * inverse
            total += share * share
            change += share * share * inverse * (L[t] + bend)
        if total < 1e-300:
            return 0.0  # ||a(rho)|| is negligible against rho, here and for every smaller rho
        here = 1.0 / math.sqrt(total) - 1.0
        if here <= 0.0:
            return rho
        derivative, left = change / (total * math.sqrt(total)), 0.0
        if derivative > 0.0:
            left = max(left, rho - here / derivative)
        there = _reciprocal_norm(g, L, bend, first - bend * rho, left)
        trial = left if there > 0.0 else rho - here * (rho - left) / (here - there)
        if trial >= rho * (1.0 - 1e-15):
            return rho
        rho = trial
        if rho <= 1e-14 * top:
            return 0.0
    return rho


@inner
def solve_concave_euclidean(g, L, r, alpha, out):
    """p = 2, r < 1: the largest stationary row, or zero."""
    top = 0.0
    for t in range(g.size):
        if L[t] > 0.0:
            top += (g[t] / L[t]) * (g[t] / L[t])
        else:
            g[t] = 0.0  # the feature is constant in this task
    rho = _largest_euclidean_root(g, L, r, alpha, math.sqrt(top)) if top > 0.0 else 0.0
    if rho == 0.0:
        fill(out, 0.0)
    else:
        _set_euclidean(g, L, alpha * r * rho ** (r - 2.0), out)


@inner
def _group_lasso_norm(g, L, alpha, rho, top):
    """The rho in (0, top] with ||g / (L rho + alpha)|| = 1: Newton on 1 / ||.||, inside a bracket."""
    low, high = 0.0, top
    for _ in range(200):
        total, change = 0.0, 0.0
        for t in range(g.size):
            inverse = 1.0 / (L[t] * rho + alpha)
            share = g[t] * inverse
            total += share * share
            change += share * share * inverse * L[t]
        size = math.sqrt(total)
        if size > 1.0:
            low = rho
        else:
            high = rho
        step = (1.0 / size - 1.0) * total * size / change
        if abs(step) <= _HALF_OF_THE_DIGITS * rho:
            return rho - step  # Newton doubles the digits that are right
        rho = rho - step if low < rho - step < high else 0.5 * (low + high)
        if rho <= 1e-14 * top:
            break
    return rho


@inner
def solve_group_lasso(g, L, alpha, present, out):
    """p = 2, r = 1: the row problem of the group lasso; `solve_euclidean` for phi = alpha rho alone."""
    top, norm_g, start, equal = 0.0, 0.0, 0.0, True
    for t in range(g.size):
        equal = equal and L[t] == L[0]
        g[t] = g[t] if L[t] > 0.0 else 0.0  # the feature may be constant in this task
        out[t] = g[t] / L[t] if L[t] > 0.0 else 0.0
        top += out[t] * out[t]
        norm_g += g[t] * g[t]
        start += present[t] * present[t]
    top, norm_g, start = math.sqrt(top), math.sqrt(norm_g), math.sqrt(start)
    if norm_g <= alpha or top == 0.0:
        fill(out, 0.0)
    elif equal:
        for t in range(g.size):
            out[t] *= 1.0 - alpha / norm_g
    elif alpha > 0.0:
        rho = _group_lasso_norm(g, L, alpha, start if 0.0 < start < top else top, top)
        if rho <= 1e-14 * top:
            fill(out, 0.0)
        else:
            for t in range(g.size):
                out[t] = g[t] * rho / (L[t] * rho + alpha)


@inner
def solve_euclidean(g, L, kind, r, alpha, eps, start, out):
    """p = 2: a = g / (L + phi'(rho) / rho); rho solves ||g / (L rho + phi'(rho))|| = 1.

    1 / ||.|| is nearly linear in rho, and exactly linear if all L are equal: Newton takes a few steps.
    """
    n_tasks = g.size
    top, norm_g, equal = 0.0, 0.0, True
    for t in range(n_tasks):
        equal = equal and L[t] == L[0]
        if L[t] > 0.0:
            top += (g[t] / L[t]) * (g[t] / L[t])
            norm_g += g[t] * g[t]
        else:
            g[t] = 0.0  # the feature is constant in this task
    top, norm_g = math.sqrt(top), math.sqrt(norm_g)
    if top == 0.0 or (kind == POWER and r == 1.0 and norm_g <= alpha):
        fill(out, 0.0)
        return
    if equal and kind == POWER and r == 1.0:  # the group lasso's own shrinkage
        _set_euclidean(g, L, alpha * L[0] / (norm_g - alpha), out)
        return
    high, low = top, 0.0
    rho = start if 0.0 < start < top else top
    for _ in range(200):
        slope = phi_slope(rho, kind, 2.0, r, alpha, eps)
        bend = phi_bend(rho, kind, 2.0, r, alpha, eps)
        total, change = 0.0, 0.0
        for t in range(n_tasks):
            if L[t] > 0.0:
                share = g[t] / (L[t] * rho + slope)
                total += share * share
                change += share * share * (L[t] + bend) / (L[t] * rho + slope)
        size = math.sqrt(total)
        if size > 1.0:
            low = rho
        else:
            high = rho
        # Newton on 1/size - 1, inside the bracket
        derivative = change / (total * size)
        trial = rho - (1.0 / size - 1.0) / derivative if derivative > 0.0 else -1.0
        if not low < trial < high:
            # the logarithm may have several roots: the map rho -> ||a(rho)|| passes none of them
            trial = 0.5 * (low + high) if low > 0.0 or kind == POWER else rho * size
        if abs(trial - rho) <= 1e-15 * rho:
            rho = trial
            break
        rho = trial
        if rho <= 1e-14 * top:
            fill(out, 0.0)
            return
    _set_euclidean(g, L, phi_slope(rho, kind, 2.0, r, alpha, eps) / rho, out)


@inner
def step_euclidean(g, L, kind, r, alpha, eps, present, out):
    """p = 2: minimise with phi replaced by its quadratic majoriser at the present row."""
    rho = norm_p(present, 2.0)
    _set_euclidean(g, L, phi_slope(rho, kind, 2.0, r, alpha, eps) / rho, out)


@inner
def _set_general(g, L, rho, p, slope, out):
    """Other p: L x + phi'(rho) (x / rho)^(p-1) = |g|, in units of rho so that no power overflows."""
    for t in range(g.size):
        out[t] = 0.0
        if L[t] > 0.0 and g[t] != 0.0:
            out[t] = math.copysign(rho * power_root(abs(g[t]), L[t] * rho, slope, p - 1.0), g[t])


@inner
def _general_excess(g, L, kind, p, r, alpha, eps, rho, out):
    """rho - ||a(rho)||_p: negative where a stationary row is larger than rho."""
    _set_general(g, L, rho, p, phi_slope(rho, kind, p, r, alpha, eps), out)
    return rho - norm_p(out, p)


@inner
def _general_root(g, L, kind, p, r, alpha, eps, low, high, out):
    """The rho in (low, high] where the excess turns positive: secant steps inside a bracket."""
    rho = high
    excess = _general_excess(g, L, kind, p, r, alpha, eps, rho, out)
    last_rho, last_excess = -1.0, 0.0
    for _ in range(200):
        if abs(excess) <= 1e-14 * rho or high - low <= 1e-15 * high:
            break
        if excess > 0.0:
            high = rho
        else:
            low = rho
        trial = -1.0
        if last_rho > 0.0 and excess != last_excess:
            trial = rho - excess * (rho - last_rho) / (excess - last_excess)
        last_rho, last_excess = rho, excess
        if not low < trial < high:
            trial = 0.5 * (low + high)
        rho = trial
        excess = _general_excess(g, L, kind, p, r, alpha, eps, rho, out)
    return rho


@inner
def _near_general(g, L, kind, p, r, alpha, eps, start, top, out):
    """The norm of the stationary row that rho -> ||a(rho)||_p leads to from `start`; 0 if that is zero."""
    rho, share = min(start, top), _NEAR
    rises = _general_excess(g, L, kind, p, r, alpha, eps, rho, out) < 0.0
    while _LEAST_SIZE * top < rho:
        last = rho
        rho = min(rho / (1.0 - share), top) if rises else rho * (1.0 - share)
        if rho == top or (_general_excess(g, L, kind, p, r, alpha, eps, rho, out) < 0.0) != rises:
            return _general_root(g, L, kind, p, r, alpha, eps, min(last, rho), max(last, rho), out)
        share = min(4.0 * share, 1.0 - _GRID_STEP)
    return 0.0


@inner
def solve_general(g, L, kind, p, r, alpha, eps, start, out):
    """Other p: fixed points of rho -> ||a(rho)||_p, by secant steps inside brackets.

    Of several, the one next to a row of norm `start`, or with 0 the best.
    """
    n_tasks = g.size
    dual = p / (p - 1.0)
    for t in range(n_tasks):
        out[t] = g[t] / L[t] if L[t] > 0.0 else 0.0
    top = norm_p(out, p)
    if top == 0.0:
        return
    if kind == POWER and r == 1.0:
        for t in range(n_tasks):
            out[t] = g[t] if L[t] > 0.0 else 0.0
        if norm_p(out, dual) <= alpha:
            fill(out, 0.0)
            return
    if kind == POWER and r >= 1.0:
        rho = _general_root(g, L, kind, p, r, alpha, eps, 0.0, top, out)
        _set_general(g, L, rho, p, phi_slope(rho, kind, p, r, alpha, eps), out)
        return
    if start > 0.0:
        rho = _near_general(g, L, kind, p, r, alpha, eps, start, top, out)
        if rho > 0.0:
            _set_general(g, L, rho, p, phi_slope(rho, kind, p, r, alpha, eps), out)
            return
    # there may be several stationary rows: find every upward crossing on a grid of sizes, and keep the best
    best, best_value = 0.0, 0.0
    high, excess_high = top, 0.0  # the excess at the top is not negative, but for rounding
    for _ in range(_GRID):
        low = _GRID_STEP * high
        excess_low = _general_excess(g, L, kind, p, r, alpha, eps, low, out)
        if excess_low < 0.0 <= excess_high:
            rho = _general_root(g, L, kind, p, r, alpha, eps, low, high, out)
            _set_general(g, L, rho, p, phi_slope(rho, kind, p, r, alpha, eps), out)
            value = row_value(out, g, L, kind, p, r, alpha, eps)
            if value < best_value:
                best, best_value = rho, value
        high, excess_high = low, excess_low
    if best == 0.0:
        fill(out, 0.0)
    else:
        _set_general(g, L, best, p, phi_slope(best, kind, p, r, alpha, eps), out)


@inner
def step_general(g, L, kind, p, r, alpha, eps, present, out):
    """Other p: minimise with phi replaced by its majoriser at the present row."""
    rho = norm_p(present, p)
    _set_general(g, L, rho, p, phi_slope(rho, kind, p, r, alpha, eps), out)


@inner
def smallest_root(g, L, p, alpha, eps, out):
    """Logarithm: iterate rho -> ||a(rho)||_p upwards from zero; the limit is the smallest stationary row."""
    rho = 0.0
    for t in range(g.size):
        out[t] = 0.0
        if L[t] > 0.0:
            if p == 1.0:
                out[t] = max(abs(g[t]) - alpha / eps, 0.0) / L[t]
            else:
                out[t] = power_root(abs(g[t]), L[t], alpha * p / eps, p - 1.0)
    for _ in range(500):
        size = norm_p(out, p)
        if size == 0.0 or abs(size - rho) <= 1e-14 * size:
            break
        rho = size
        slope = phi_slope(rho, LOGARITHM, p, 1.0, alpha, eps)
        if p == 1.0:
            set_soft(g, L, slope, out)
        else:
            _set_general(g, L, rho, p, slope, out)
    for t in range(g.size):
        out[t] = math.copysign(out[t], g[t])
