"""The row problem: one feature of all tasks, solved in its own diagonal metric; docs/model.md section 5.

    minimise over a in R^T   sum_t L_t/2 a_t^2 - g_t a_t + phi(||a||_p)

with curvatures L_t >= 0 and slopes g_t (``g = L z`` for a prox at z). At a stationary point every task obeys
a scalar equation once the row's norm is known, so a row costs one root.

Each p has its own solver, compiled when it is first asked for and handed on as a pointer (`row_solver`): a
first fit pays for the one it needs, and what calls it is compiled once for all.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, cfunc, njit, types
from numba.extending import intrinsic

from mmtfl.kernels.row_functions import (
    FAST,
    INNER,
    LOGARITHM,
    OPTIONS,
    POWER,
    larger_root,
    norm_p,
    phi,
    phi_bend,
    phi_slope,
    power_root,
    row_value,
)

_compile = njit(**INNER)  # type: ignore[call-overload]
_entry = njit(**OPTIONS)  # type: ignore[call-overload]

# A row solver is called by its address: as an argument numba would take 30 us to pass it, more than many a
# kernel runs. Rows go as pointers: g, L, length, member, row, present row, thorough, out. `member` has the
# numbers that all rows share and `row` those of this one, its strength first: a penalty may bring any number.
_ROW = types.CPointer(types.float64)
_SIGNATURE = types.void(_ROW, _ROW, types.intp, _ROW, _ROW, _ROW, types.boolean, _ROW)


def _call(typing_context, address, g, L, member, row, present, thorough, out):
    """Call the row solver at an address; see `row_solver`."""
    signature = types.void(address, g, L, member, row, present, thorough, out)

    def generate(context, builder, signature, arguments):
        def array(i):
            return context.make_array(signature.args[i])(context, builder, arguments[i])

        flag = context.data_model_manager[types.boolean].as_argument(builder, arguments[6])
        rows = [array(i).data for i in range(1, 6)]
        passed = [*rows[:2], array(1).nitems, *rows[2:], flag, array(7).data]
        kinds = [context.get_argument_type(kind) for kind in _SIGNATURE.args]
        function = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), passed)
        return context.get_dummy_value()

    return signature, generate


call: Any = intrinsic(_call)


@_compile
def _set(out, value):
    for t in range(out.size):
        out[t] = value


@_compile
def _copy(source, out):
    for t in range(out.size):
        out[t] = source[t]


@_compile
def _separable(g, L, p, alpha, out):
    """k = inf: phi = alpha sum_t |a_t|^p, every task for itself."""
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


@_compile
def _set_soft(g, L, threshold, out):
    for t in range(g.size):
        kept = abs(g[t]) - threshold
        out[t] = 0.0 if kept <= 0.0 or L[t] <= 0.0 else math.copysign(kept / L[t], g[t])


@_compile
def _set_clip(g, L, bound, out):
    for t in range(g.size):
        out[t] = 0.0 if L[t] <= 0.0 else math.copysign(min(abs(g[t]) / L[t], bound), g[t])


@_compile
def _sift(keys, order, root, n):
    while 2 * root + 1 < n:
        child = 2 * root + 1
        if child + 1 < n and keys[order[child + 1]] < keys[order[child]]:
            child += 1
        if keys[order[root]] <= keys[order[child]]:
            return
        order[root], order[child] = order[child], order[root]
        root = child


@_compile
def _sort_falling(keys, order, n):
    """Heapsort of the first n of `order` by falling key; numpy's own sort takes seconds to compile."""
    for root in range(n // 2 - 1, -1, -1):
        _sift(keys, order, root, n)
    for last in range(n - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        _sift(keys, order, 0, last)


@_compile
def _sum_norm_near(g, L, kind, r, alpha, eps, start, out):
    """p = 1: Newton on the size s from a given one; False if it does not settle on a local minimum."""
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
            _set_soft(g, L, phi_slope(s, kind, 1.0, r, alpha, eps), out)
            return True
    return False


@_compile
def _slope_inverse(slope, r, alpha):
    """The size at which the slope of the power alpha s^r, r < 1, has fallen to `slope`."""
    return (slope / (alpha * r)) ** (1.0 / (r - 1.0)) if slope > 0.0 else np.inf


@_compile
def _sum_norm(g, L, kind, r, alpha, eps, out):
    """p = 1: the kept tasks are the largest |g|; each number of kept tasks has at most one local minimum."""
    size, order = np.empty(g.size), np.empty(g.size, np.intp)
    n = 0
    for t in range(g.size):
        size[t] = abs(g[t])
        if size[t] > 0.0 and L[t] > 0.0:
            order[n] = t
            n += 1
    _sort_falling(size, order, n)
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
        _set(out, 0.0)
    else:
        _set_soft(g, L, phi_slope(best, kind, 1.0, r, alpha, eps), out)


@_compile
def _max_norm(g, L, kind, r, alpha, eps, out):
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
        _set(out, 0.0)
        return
    _sort_falling(limit, order, n_tasks)
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


@_compile
def _sum_norm_best(g, L, kind, r, alpha, eps, present, thorough, out):
    """p = 1: the best local minimum, or unless thorough the one next to the present row."""
    start = 0.0 if thorough else norm_p(present, 1.0)
    if start <= 0.0 or not _sum_norm_near(g, L, kind, r, alpha, eps, start, out):
        _sum_norm(g, L, kind, r, alpha, eps, out)


@_compile
def _set_euclidean(g, L, ratio, out):
    """p = 2 with phi'(rho) / rho = ratio."""
    for t in range(g.size):
        out[t] = 0.0 if L[t] <= 0.0 else g[t] / (L[t] + ratio)


@_compile
def _reciprocal_norm(g, slope, intercept, rho):
    """1 / ||g / (slope rho + intercept)|| - 1, concave in rho; -1 where a denominator is not positive."""
    total = 0.0
    for t in range(g.size):
        if g[t] != 0.0:
            below = slope[t] * rho + intercept[t]
            if below <= 0.0:
                return -1.0
            total += (g[t] / below) ** 2
    return 1.0 / math.sqrt(total) - 1.0


@_compile
def _largest_euclidean_root(g, L, r, alpha, top):
    """p = 2, r < 1: largest rho with ||g / (L rho + phi'(rho))|| = 1, or 0.

    From the right, without ever passing a root. phi' is convex, so at rho its tangent bounds it from below;
    with the tangent in its place 1 / ||.|| is concave in rho, and a chord of a concave function ends to the
    right of its root. With equal curvatures the chord is the function, and this is Newton's method.
    """
    slope, intercept = np.empty(g.size), np.empty(g.size)
    rho = top
    for _ in range(500):
        first, bend = alpha * r * rho ** (r - 1.0), alpha * r * (r - 1.0) * rho ** (r - 2.0)
        left, change, total = 0.0, 0.0, 0.0
        for t in range(g.size):
            if g[t] == 0.0:
                continue
            slope[t], intercept[t] = L[t] + bend, first - bend * rho
            below = L[t] * rho + first
            share = (g[t] / below) ** 2
            total += share
            change += share * slope[t] / below
            if slope[t] > 0.0:
                left = max(left, -intercept[t] / slope[t])  # where the denominator of task t would vanish
        if total < 1e-300:
            return 0.0  # ||a(rho)|| is nothing against rho, and so are all smaller ones
        here = 1.0 / math.sqrt(total) - 1.0
        if here <= 0.0:
            return rho
        derivative = change / (total * math.sqrt(total))
        if derivative > 0.0:
            left = max(left, rho - here / derivative)
        there = _reciprocal_norm(g, slope, intercept, left)
        trial = left if there > 0.0 else rho - here * (rho - left) / (here - there)
        if trial >= rho * (1.0 - 1e-15):
            return rho
        rho = trial
        if rho <= 1e-14 * top:
            return 0.0
    return rho


@_compile
def _concave_euclidean(g, L, r, alpha, out):
    """p = 2, r < 1: the largest stationary row, or zero."""
    top = 0.0
    for t in range(g.size):
        if L[t] > 0.0:
            top += (g[t] / L[t]) ** 2
        else:
            g[t] = 0.0  # a task that the feature says nothing of
    rho = _largest_euclidean_root(g, L, r, alpha, math.sqrt(top)) if top > 0.0 else 0.0
    if rho == 0.0:
        _set(out, 0.0)
    else:
        _set_euclidean(g, L, alpha * r * rho ** (r - 2.0), out)


@_compile
def _euclidean(g, L, kind, r, alpha, eps, start, out):
    """p = 2: a = g / (L + phi'(rho) / rho); rho solves ||g / (L rho + phi'(rho))|| = 1.

    One over the norm is nearly linear in rho (exactly, when all L agree): a few Newton steps.
    """
    n_tasks = g.size
    top, norm_g, equal = 0.0, 0.0, True
    for t in range(n_tasks):
        equal = equal and L[t] == L[0]
        if L[t] > 0.0:
            top += (g[t] / L[t]) ** 2
            norm_g += g[t] * g[t]
        else:
            g[t] = 0.0  # a task that the feature says nothing of
    top, norm_g = math.sqrt(top), math.sqrt(norm_g)
    if top == 0.0 or (kind == POWER and r == 1.0 and norm_g <= alpha):
        _set(out, 0.0)
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
            # the logarithm may have several roots: its plain map rho -> ||a(rho)|| passes none of them
            trial = 0.5 * (low + high) if low > 0.0 or kind == POWER else rho * size
        if abs(trial - rho) <= 1e-15 * rho:
            rho = trial
            break
        rho = trial
        if rho <= 1e-14 * top:
            _set(out, 0.0)
            return
    _set_euclidean(g, L, phi_slope(rho, kind, 2.0, r, alpha, eps) / rho, out)


@_compile
def _set_general(g, L, rho, p, slope, out):
    """Other p: L x + phi'(rho) (x / rho)^(p-1) = |g|, in units of rho so that no power overflows."""
    for t in range(g.size):
        out[t] = 0.0
        if L[t] > 0.0 and g[t] != 0.0:
            out[t] = math.copysign(rho * power_root(abs(g[t]), L[t] * rho, slope, p - 1.0), g[t])


_GRID, _GRID_STEP = 60, 0.75  # sizes tried for the concave members, down to 3e-8 of the largest


@_compile
def _general_excess(g, L, kind, p, r, alpha, eps, rho, out):
    """rho - ||a(rho)||_p: negative where a stationary row is larger than rho."""
    _set_general(g, L, rho, p, phi_slope(rho, kind, p, r, alpha, eps), out)
    return rho - norm_p(out, p)


@_compile
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


@_compile
def _general(g, L, kind, p, r, alpha, eps, out):
    """Other p: fixed points of rho -> ||a(rho)||_p, by secant steps inside brackets."""
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
            _set(out, 0.0)
            return
    if kind == POWER and r >= 1.0:
        rho = _general_root(g, L, kind, p, r, alpha, eps, 0.0, top, out)
        _set_general(g, L, rho, p, phi_slope(rho, kind, p, r, alpha, eps), out)
        return
    # Several stationary rows: look for every upward crossing on a grid of sizes, and keep the best
    best, best_value = 0.0, 0.0
    high, excess_high = top, 0.0  # never negative there, whatever rounding says
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
        _set(out, 0.0)
    else:
        _set_general(g, L, best, p, phi_slope(best, kind, p, r, alpha, eps), out)


@_compile
def _smallest_root(g, L, p, alpha, eps, out):
    """Logarithm: the map from zero upwards, whose limit is the smallest stationary row."""
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
            _set_soft(g, L, slope, out)
        else:
            _set_general(g, L, rho, p, slope, out)
    for t in range(g.size):
        out[t] = math.copysign(out[t], g[t])


@_compile
def _present_is_better(g, L, kind, p, r, alpha, eps, present, out):
    """Put zero into out if a concave member is no worse there; whether the present row is better still."""
    value = row_value(out, g, L, kind, p, r, alpha, eps)
    if value >= 0.0:
        _set(out, 0.0)
        value = 0.0
    if norm_p(present, p) == 0.0:
        return False
    current = row_value(present, g, L, kind, p, r, alpha, eps)
    # up to rounding: near a minimum both values agree, and the move must still be made
    return value > current + 1e-12 * abs(current)


@_compile
def _step_euclidean(g, L, kind, r, alpha, eps, present, out):
    """p = 2: a step down from the present row, phi majorised there."""
    rho = norm_p(present, 2.0)
    _set_euclidean(g, L, phi_slope(rho, kind, 2.0, r, alpha, eps) / rho, out)


@_compile
def _step_general(g, L, kind, p, r, alpha, eps, present, out):
    """Other p: the same."""
    rho = norm_p(present, p)
    _set_general(g, L, rho, p, phi_slope(rho, kind, p, r, alpha, eps), out)


# The strength alpha is finite in all of these: a row of infinite strength is zero, and is not asked about.


def _separable_row(g, L, n, member, row, present, thorough, out):
    _separable(carray(g, n), carray(L, n), member[0], row[0], carray(out, n))


def _sum_norm_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    r, alpha, eps = member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    _sum_norm_best(g, L, POWER, r, alpha, eps, present, thorough, out)
    if r < 1.0 and _present_is_better(g, L, POWER, 1.0, r, alpha, eps, present, out):
        _copy(present, out)


def _euclidean_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    r, alpha, eps = member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    _euclidean(g, L, POWER, r, alpha, eps, norm_p(present, 2.0), out)


def _concave_euclidean_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    r, alpha, eps = member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    _concave_euclidean(g, L, r, alpha, out)
    if _present_is_better(g, L, POWER, 2.0, r, alpha, eps, present, out):
        _step_euclidean(g, L, POWER, r, alpha, eps, present, out)


def _max_norm_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    r, alpha, eps = member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    _max_norm(g, L, POWER, r, alpha, eps, out)
    if r < 1.0 and _present_is_better(g, L, POWER, np.inf, r, alpha, eps, present, out):
        _copy(present, out)


def _general_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    p, r, alpha, eps = member[0], member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    _general(g, L, POWER, p, r, alpha, eps, out)
    if r < 1.0 and _present_is_better(g, L, POWER, p, r, alpha, eps, present, out):
        _step_general(g, L, POWER, p, r, alpha, eps, present, out)


def _logarithm_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    p, r, alpha, eps = member[0], member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    if p == 1.0:
        _sum_norm_best(g, L, LOGARITHM, r, alpha, eps, present, thorough, out)
    elif p == 2.0:
        _euclidean(g, L, LOGARITHM, r, alpha, eps, norm_p(present, 2.0), out)
    else:
        _general(g, L, LOGARITHM, p, r, alpha, eps, out)
    smallest = np.empty(n)
    _smallest_root(g, L, p, alpha, eps, smallest)
    value = row_value(out, g, L, LOGARITHM, p, r, alpha, eps)
    if row_value(smallest, g, L, LOGARITHM, p, r, alpha, eps) < value:
        _copy(smallest, out)
    if _present_is_better(g, L, LOGARITHM, p, r, alpha, eps, present, out):
        if p == 1.0:
            _copy(present, out)
        elif p == 2.0:
            _step_euclidean(g, L, LOGARITHM, r, alpha, eps, present, out)
        else:
            _step_general(g, L, LOGARITHM, p, r, alpha, eps, present, out)


@cache
def compiled_row_solver(function):
    """Compile a row solver of the signature above."""
    return cfunc(_SIGNATURE, cache=True, error_model="numpy", fastmath=FAST)(function)


def row_solver(kind, p, r):
    """Address of the compiled solver of the row problem of a member (p, r).

    Without a present row (zeros) the answer is exact for convex members and for p = 1 and p = inf; for the
    other concave ones it is the better of zero and the largest stationary row (for p = 2 and equal
    curvatures that is exact too). The answer is never worse than the present row. With `thorough` off, a
    concave member with p = 1 looks only at zero and the local minimum next to the present row.
    """
    if kind == LOGARITHM:
        function = _logarithm_row
    elif r == p:
        function = _separable_row
    elif p == 1.0:
        function = _sum_norm_row
    elif p == 2.0:
        function = _euclidean_row if r >= 1.0 else _concave_euclidean_row
    else:
        function = _max_norm_row if p == np.inf else _general_row
    return compiled_row_solver(function).address


@_entry
def solve_rows(solve, G, L, member, strengths, out):
    """Solve every row of G (rows, tasks); `strengths` has the numbers of each row, alpha first."""
    zero = np.zeros(G.shape[1])
    for j in range(G.shape[0]):
        if strengths[j, 0] < np.inf:
            call(solve, G[j], L[j], member, strengths[j], zero, True, out[j])
        else:
            _set(out[j], 0.0)


@_entry
def row_violations(solve, A, gradient, L, member, strengths):
    """How far every row is from the answer of its own problem, in units of the gradient; eq. (8)."""
    n_rows, n_tasks = A.shape
    out = np.zeros(n_rows)
    g, best = np.empty(n_tasks), np.empty(n_tasks)
    for j in range(n_rows):
        for t in range(n_tasks):
            g[t] = L[j, t] * A[j, t] - gradient[j, t]
        if strengths[j, 0] < np.inf:
            call(solve, g, L[j], member, strengths[j], A[j], True, best)
        else:
            _set(best, 0.0)
        for t in range(n_tasks):
            out[j] = max(out[j], L[j, t] * abs(A[j, t] - best[t]))
    return out
