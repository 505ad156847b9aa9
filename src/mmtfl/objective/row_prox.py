"""The row problem: one feature of all tasks, solved in its own diagonal metric; docs/model.md section 5.

    minimise over a in R^T   sum_t L_t/2 a_t^2 - g_t a_t + phi(||a||_p)

with curvatures L_t >= 0 and slopes g_t (``g = L z`` for a prox at z). ``phi`` is a power ``alpha rho^r`` or
the logarithm ``alpha log(1 + rho^p / eps)``. At a stationary point every task obeys a scalar equation once
rho is known, so the row costs one root in rho. Everything here is compiled; `penalties` describes the same
functions in numpy.
"""

import math

import numpy as np
from numba import njit

POWER, LOGARITHM = 0, 1
TINY = 1e-150  # below this an entry is zero: powers and reciprocals of it would leave the range of floats

# Reordering sums is allowed, dropping nan and inf rules is not.
FAST = {"reassoc", "contract", "nsz"}
_compile = njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")


@_compile
def phi(rho, kind, p, r, alpha, eps):
    """Penalty of a row whose p-norm is rho."""
    if rho == 0.0:
        return 0.0
    if kind == POWER:
        return alpha * rho**r
    return alpha * math.log1p(rho**p / eps)


@_compile
def phi_slope(rho, kind, p, r, alpha, eps):
    """First derivative of phi at rho > 0."""
    if kind == POWER:
        if r == 1.0:
            return alpha
        return alpha * r * rho ** (r - 1.0)
    power = rho ** (p - 1.0)
    return alpha * p * power / (eps + power * rho)


@_compile
def phi_bend(rho, kind, p, r, alpha, eps):
    """Second derivative of phi at rho > 0."""
    if kind == POWER:
        if r == 1.0:
            return 0.0
        return alpha * r * (r - 1.0) * rho ** (r - 2.0)
    power = rho ** (p - 2.0)
    total = eps + power * rho * rho
    return alpha * p * power * ((p - 1.0) * eps - power * rho * rho) / (total * total)


@_compile
def norm_p(a, p):
    """p-norm of a row, scaled by its largest entry so that no power overflows."""
    largest = 0.0
    for t in range(a.size):
        largest = max(largest, abs(a[t]))
    if largest < TINY:
        return 0.0
    if p == np.inf:
        return largest
    total = 0.0
    if p == 1.0:
        for t in range(a.size):
            total += abs(a[t])
        return total
    if p == 2.0:
        for t in range(a.size):
            total += (a[t] / largest) ** 2
        return largest * math.sqrt(total)
    for t in range(a.size):
        total += (abs(a[t]) / largest) ** p
    return largest * total ** (1.0 / p)


@_compile
def row_value(a, g, L, kind, p, r, alpha, eps):
    """Value of the row problem at a."""
    total = phi(norm_p(a, p), kind, p, r, alpha, eps)
    for t in range(a.size):
        total += (0.5 * L[t] * a[t] - g[t]) * a[t]
    return total


@_compile
def _positive_root(size, L, weight, exponent):
    """Root x >= 0 of L x + weight x^exponent = size, exponent > 0; Newton from the right on a convex form."""
    if size <= 0.0:
        return 0.0
    if exponent == 1.0:
        return size / (L + weight)
    bound = (size / weight) ** (1.0 / exponent) if weight > 0.0 else np.inf
    x = min(size / L, bound) if L > 0.0 else bound
    if x == np.inf or weight == 0.0 or L == 0.0 or x == 0.0:
        return x if x < np.inf else 0.0
    if exponent > 1.0:
        for _ in range(60):
            power = weight * x ** (exponent - 1.0)
            step = (L * x + power * x - size) / (L + exponent * power)
            x -= step
            if step <= 1e-15 * x:
                break
        return max(x, 0.0)
    # exponent < 1: in u = x^exponent the equation is convex again
    u, inverse = x**exponent, 1.0 / exponent
    for _ in range(60):
        power = L * u ** (inverse - 1.0)
        step = (power * u + weight * u - size) / (inverse * power + weight)
        u -= step
        if step <= 1e-15 * u:
            break
    return max(u, 0.0) ** inverse


@_compile
def power_root(size, L, weight, exponent):
    """Root x >= 0 of L x + weight x^exponent = size; zero if it is below TINY."""
    x = _positive_root(size, L, weight, exponent)
    return x if x > TINY else 0.0


@_compile
def larger_root(slope, size, low, high, kind, p, r, alpha, eps):
    """Largest root in [low, high] of slope s + phi'(s) = size that is crossed upwards, or -1.

    Such a root is a local minimum of the row along its size s. Newton from the right, inside a bracket.
    """
    excess = slope * high + phi_slope(high, kind, p, r, alpha, eps) - size
    if excess < -1e-13 * size:
        return -1.0
    s, below = high, -1.0
    for _ in range(100):
        bend = slope + phi_bend(s, kind, p, r, alpha, eps)
        if bend > 0.0:
            trial = s - excess / bend
        elif below >= 0.0:
            trial = 0.5 * (below + high)
        else:
            return -1.0  # rising to the left of here: no crossing below
        if below >= 0.0 and not below < trial < high:
            trial = 0.5 * (below + high)
        if trial <= low:
            if low <= 0.0:
                trial = 0.5 * s if s > 1e-300 else 0.0
                if trial == 0.0:
                    return -1.0
            else:
                edge = slope * low + phi_slope(low, kind, p, r, alpha, eps) - size
                if edge > 0.0:
                    return -1.0
                trial = low
        if abs(trial - s) <= 1e-15 * s:
            return trial
        s = trial
        excess = slope * s + phi_slope(s, kind, p, r, alpha, eps) - size
        if excess >= 0.0:
            high = s
        else:
            below = s
    return s


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
def _sum_norm(g, L, kind, r, alpha, eps, out):
    """p = 1: the kept tasks are the largest |g|; each number of kept tasks has at most one local minimum."""
    n_tasks = g.size
    order = np.argsort(-np.abs(g))
    best, best_value = 0.0, 0.0  # zero is always a candidate
    sum_z, sum_inverse, quadratic = 0.0, 0.0, 0.0
    for m in range(n_tasks):
        t = order[m]
        if g[t] == 0.0:
            break
        if L[t] <= 0.0:
            continue
        sum_z += abs(g[t]) / L[t]
        sum_inverse += 1.0 / L[t]
        quadratic += g[t] * g[t] / L[t]
        following = 0.0
        for later in range(m + 1, n_tasks):
            if L[order[later]] > 0.0:
                following = abs(g[order[later]])
                break
        # with these tasks kept: s / D + phi'(s) = Z / D, and phi'(s) between the last kept |g| and the next
        s = larger_root(1.0 / sum_inverse, sum_z / sum_inverse, 0.0, sum_z, kind, 1.0, r, alpha, eps)
        if s <= 0.0:
            continue
        threshold = phi_slope(s, kind, 1.0, r, alpha, eps)
        if threshold > abs(g[t]) * (1.0 + 1e-12) or threshold < following * (1.0 - 1e-12):
            continue
        value = 0.5 * (threshold * threshold * sum_inverse - quadratic)
        value += phi(s, kind, 1.0, r, alpha, eps)
        if value < best_value:
            best, best_value = s, value
    if best == 0.0:
        out[:] = 0.0
    else:
        _set_soft(g, L, phi_slope(best, kind, 1.0, r, alpha, eps), out)


@_compile
def _max_norm(g, L, kind, r, alpha, eps, out):
    """p = inf: entries are clipped at m with phi'(m) = sum_t (|g_t| - L_t m)+; r = 1 is the l1,inf norm."""
    n_tasks = g.size
    limit = np.zeros(n_tasks)  # where task t leaves the clipped set
    total = 0.0
    for t in range(n_tasks):
        if L[t] > 0.0:
            limit[t] = abs(g[t]) / L[t]
            total += abs(g[t])
    if r == 1.0 and total <= alpha:
        out[:] = 0.0
        return
    order = np.argsort(-limit)
    best, best_value = 0.0, 0.0
    sum_g, sum_L = 0.0, 0.0
    for m in range(n_tasks):
        t = order[m]
        if limit[t] == 0.0:
            break
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
def _euclidean(g, L, kind, r, alpha, eps, start, out):
    """p = 2: a = g / (L + phi'(rho) / rho); rho solves ||g / (L rho + phi'(rho))|| = 1.

    One over the norm is nearly linear in rho (exactly, when all L agree): a few Newton steps.
    """
    n_tasks = g.size
    top, norm_g = 0.0, 0.0
    for t in range(n_tasks):
        if L[t] > 0.0:
            top += (g[t] / L[t]) ** 2
            norm_g += g[t] * g[t]
        else:
            g[t] = 0.0  # a task that the feature says nothing of
    top, norm_g = math.sqrt(top), math.sqrt(norm_g)
    if top == 0.0 or (kind == POWER and r == 1.0 and norm_g <= alpha):
        out[:] = 0.0
        return
    if kind == POWER and r < 1.0:
        rho = _largest_euclidean_root(g, L, r, alpha, top)
        if rho == 0.0:
            out[:] = 0.0
        else:
            _set_euclidean(g, L, alpha * r * rho ** (r - 2.0), out)
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
            out[:] = 0.0
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
            out[:] = 0.0
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
        out[:] = 0.0
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
def solve_row(g, L, kind, p, r, alpha, eps, start, out):
    """Write the minimiser of the row problem into out; `start` is a guess of its p-norm (0: none).

    Without a guess: exact for convex members and for p = 1 and p = inf; for the other concave ones the
    better of zero and the largest stationary row (for p = 2 and equal curvatures that is exact too). With
    one, a concave member with p = 1 takes the better of zero and the local minimum next to the guess.
    """
    if alpha == np.inf:
        out[:] = 0.0
        return
    if kind == POWER and r == p:
        _separable(g, L, p, alpha, out)
        return
    if p == 1.0:
        if start <= 0.0 or not _sum_norm_near(g, L, kind, r, alpha, eps, start, out):
            _sum_norm(g, L, kind, r, alpha, eps, out)
    elif p == 2.0:
        _euclidean(g, L, kind, r, alpha, eps, start, out)
    elif p == np.inf:
        _max_norm(g, L, kind, r, alpha, eps, out)
    else:
        _general(g, L, kind, p, r, alpha, eps, out)
    if kind == POWER and r >= 1.0:
        return
    if kind == LOGARITHM:
        other = np.empty_like(out)
        _smallest_root(g, L, p, alpha, eps, other)
        if row_value(other, g, L, kind, p, r, alpha, eps) < row_value(out, g, L, kind, p, r, alpha, eps):
            out[:] = other
    if row_value(out, g, L, kind, p, r, alpha, eps) >= 0.0:
        out[:] = 0.0


@_compile
def improve_row(a, g, L, kind, p, r, alpha, eps, out):
    """From a kept row a, 1 < p < inf, the minimiser with phi majorised at a: never worse than a."""
    rho = norm_p(a, p)
    slope = phi_slope(rho, kind, p, r, alpha, eps)
    if p == 2.0:
        _set_euclidean(g, L, slope / rho, out)
    else:
        _set_general(g, L, rho, p, slope, out)


@_compile
def solve_rows(G, L, kind, p, r, alpha, eps, out):
    """Solve every row of G (rows, tasks); alpha and eps have one entry per row."""
    for j in range(G.shape[0]):
        solve_row(G[j], L[j], kind, p, r, alpha[j], eps[j], 0.0, out[j])


@_compile
def _slope_violation(a, g, L, kind, p, r, alpha, eps):
    """Largest slope of the row problem at a kept row, 1 < p < inf."""
    rho = norm_p(a, p)
    slope = phi_slope(rho, kind, p, r, alpha, eps)
    largest = 0.0
    for t in range(a.size):
        if L[t] > 0.0:
            pull = slope * (abs(a[t]) / rho) ** (p - 1.0)
            largest = max(largest, abs(g[t] - L[t] * a[t] - math.copysign(pull, a[t])))
    return largest


@_compile
def row_violations(A, gradient, L, kind, p, r, alpha, eps):
    """How far every row is from the answer of its own problem, in units of the gradient; eq. (8)."""
    n_rows, n_tasks = A.shape
    out = np.zeros(n_rows)
    g, best = np.empty(n_tasks), np.empty(n_tasks)
    guarded = (kind == LOGARITHM or r < 1.0) and p != 1.0 and p != np.inf
    for j in range(n_rows):
        for t in range(n_tasks):
            g[t] = L[j, t] * A[j, t] - gradient[j, t]
        solve_row(g, L[j], kind, p, r, alpha[j], eps[j], 0.0, best)
        if guarded and norm_p(A[j], p) > 0.0:
            # the row solver takes the largest stationary row: a smaller one may be better, and is kept
            current = row_value(A[j], g, L[j], kind, p, r, alpha[j], eps[j])
            if current < row_value(best, g, L[j], kind, p, r, alpha[j], eps[j]):
                out[j] = _slope_violation(A[j], g, L[j], kind, p, r, alpha[j], eps[j])
                continue
        for t in range(n_tasks):
            out[j] = max(out[j], L[j, t] * abs(A[j, t] - best[t]))
    return out
