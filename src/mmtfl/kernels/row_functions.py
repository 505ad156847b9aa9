"""Scalar pieces of the row problem, compiled: the penalty of a row, its slope, norms and roots.

``phi`` is a power ``alpha rho^r`` or the logarithm ``alpha log(1 + rho^p / eps)``; docs/model.md section 5.
`mmtfl.objective.penalties` has the same functions in numpy.
"""

import math

import numpy as np

from mmtfl.kernels.compiling import compiled

POWER, LOGARITHM = 0, 1
TINY = 1e-150  # below this an entry is zero: powers and reciprocals of it would leave the range of floats

_OPTIONS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
# Sums over rows may be reordered, but the rules of nan and inf hold.
_FAST = {**_OPTIONS, "fastmath": {"reassoc", "contract", "nsz"}}
# Functions that only compiled code calls need no Python wrapper; it would take longer to compile than they.
entry = compiled(**_FAST)
inner = compiled(**_FAST, no_cpython_wrapper=True)
# Scalar pieces and sorted row problems keep the arithmetic as written.
exact = compiled(**_OPTIONS, no_cpython_wrapper=True)
exact_entry = compiled(**_OPTIONS)
# The same for loops without sums, where a product and the sum it goes into may be one instruction.
fused = compiled(**_OPTIONS, fastmath={"contract"}, no_cpython_wrapper=True)


@exact
def fill(out, value):
    """Set every entry to a value."""
    for t in range(out.size):
        out[t] = value


@exact
def copy(source, out):
    """Copy one array into another."""
    for t in range(out.size):
        out[t] = source[t]


@inner
def product(a, b):
    """Inner product of two vectors."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@exact
def phi(rho, kind, p, r, alpha, eps):
    """Penalty of a row whose p-norm is rho."""
    if rho == 0.0:
        return 0.0
    if kind == POWER:
        return alpha * rho**r
    ratio = rho**p / eps
    return alpha * (math.log1p(ratio) if ratio < np.inf else p * math.log(rho) - math.log(eps))


@exact
def phi_slope(rho, kind, p, r, alpha, eps):
    """First derivative of phi at rho > 0."""
    if kind == POWER:
        if r == 1.0:
            return alpha
        return alpha * r * rho ** (r - 1.0)
    power = rho ** (p - 1.0)
    return alpha * p * power / (eps + power * rho)


@exact
def phi_bend(rho, kind, p, r, alpha, eps):
    """Second derivative of phi at rho > 0."""
    if kind == POWER:
        if r == 1.0:
            return 0.0
        return alpha * r * (r - 1.0) * rho ** (r - 2.0)
    power = rho ** (p - 2.0)
    total = eps + power * rho * rho
    return alpha * p * power * ((p - 1.0) * eps - power * rho * rho) / (total * total)


@exact
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
            total += (a[t] / largest) * (a[t] / largest)
        return largest * math.sqrt(total)
    for t in range(a.size):
        total += (abs(a[t]) / largest) ** p
    return largest * total ** (1.0 / p)


@exact
def row_value(a, g, L, kind, p, r, alpha, eps):
    """Value of the row problem at a."""
    total = phi(norm_p(a, p), kind, p, r, alpha, eps)
    for t in range(a.size):
        total += (0.5 * L[t] * a[t] - g[t]) * a[t]
    return total


@exact
def _quadratic_root(size, L, weight, exponent, bound):
    """The same for exponents 2 and 1/2, p = 3 and p = 1.5, where the equation is quadratic in x or its root.

    `bound` is where one of the two terms alone makes up `size`; in units of it all shares are at most one.
    """
    linear, power = L * bound / size, weight * bound**exponent / size
    if exponent == 2.0:
        return bound * 2.0 / (linear + math.sqrt(linear * linear + 4.0 * power))
    root = 2.0 / (power + math.sqrt(power * power + 4.0 * linear))
    return bound * root * root


@exact
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
    if exponent == 2.0 or exponent == 0.5:
        return _quadratic_root(size, L, weight, exponent, x)
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


@exact
def power_root(size, L, weight, exponent):
    """Root x >= 0 of L x + weight x^exponent = size; zero if it is below TINY."""
    x = _positive_root(size, L, weight, exponent)
    return x if x > TINY else 0.0


@exact
def larger_root(slope, size, low, high, kind, p, r, alpha, eps):
    """Largest root in [low, high] of slope s + phi'(s) = size that is crossed upwards, or -1.

    Such a root is a local minimum of the row problem along the row's norm s. Newton's method comes from the
    right, inside a bracket.
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
