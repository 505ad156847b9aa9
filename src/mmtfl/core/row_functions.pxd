"""Scalar pieces of the row problem: the penalty of a row's norm and its derivatives, norms and roots.

phi(rho) is a power, alpha rho^r, or the logarithm alpha log(1 + rho^p / eps); docs/model.md section 5.
"""

from libc.math cimport INFINITY, fabs, log, log1p, pow, sqrt
from libc.stdlib cimport qsort

cdef extern from *:
    """
    static const double TINY = 1e-150;
    static const double SAFE = 1e280;
    """
    const double TINY  # below this an entry is zero: its powers and its reciprocal could leave the floats
    const double SAFE  # sums of squares between this and its reciprocal lost nothing


cdef struct Phi:
    bint logarithm
    double p, r, alpha, eps


cdef inline double power(double x, double exponent) noexcept nogil:
    """x^exponent for x > 0, without pow where members with p or k of 1/2, 1, 2 and 3 need it: pow is slow."""
    if exponent == 1.0:
        return x
    if exponent == -0.5:
        return 1.0 / sqrt(x)
    if exponent == 0.5:
        return sqrt(x)
    if exponent == 2.0:
        return x * x
    if exponent == 1.5:
        return x * sqrt(x)
    if exponent == 3.0:
        return x * x * x
    if exponent == -2.0:
        return 1.0 / (x * x)
    if exponent == 1.0 / (2.0 / 3.0 - 1.0):
        return 1.0 / (x * x * x)
    if exponent == 0.0:
        return 1.0
    return pow(x, exponent)


cdef inline double phi_value(const Phi* phi, double rho) noexcept nogil:
    """Penalty of a row of norm rho."""
    cdef double ratio
    if rho == 0.0:
        return 0.0
    if not phi.logarithm:
        return phi.alpha * power(rho, phi.r)
    ratio = power(rho, phi.p) / phi.eps
    return phi.alpha * (log1p(ratio) if ratio < INFINITY else phi.p * log(rho) - log(phi.eps))


cdef inline double phi_slope(const Phi* phi, double rho) noexcept nogil:
    """First derivative of phi at rho > 0."""
    cdef double root
    if not phi.logarithm:
        return phi.alpha * phi.r * power(rho, phi.r - 1.0) if phi.r != 1.0 else phi.alpha
    root = power(rho, phi.p - 1.0)
    return phi.alpha * phi.p * root / (phi.eps + root * rho)


cdef inline double phi_bend(const Phi* phi, double rho, double slope) noexcept nogil:
    """Second derivative of phi at rho > 0, where its first one is known."""
    if not phi.logarithm:
        return slope * (phi.r - 1.0) / rho
    return slope * ((phi.p - 1.0) / rho - slope / phi.alpha) if phi.alpha > 0.0 else 0.0


# Stationary rows, a row of zeros apart, have rho + ratio phi'(rho) <= free, docs/model.md section 5: `free`
# is the norm of the row without penalty, and ratio is `free` over the dual norm of its slopes. The left side
# is convex where phi' is; elsewhere a ratio of 0 makes the bounds trivial.


cdef inline double largest_norm(const Phi* phi, double free, double ratio) noexcept nogil:
    """A bound of the norms of stationary rows, by Newton from the right; 0 if there are none."""
    cdef double slope, bend, step, rho = free
    cdef int _
    for _ in range(20):
        slope = phi_slope(phi, rho)
        bend = 1.0 + ratio * phi_bend(phi, rho, slope)
        step = (rho + ratio * slope - free) / bend
        if not (bend > 0.0 and rho > step):
            return 0.0
        rho -= step
        if step <= 0.01 * rho:
            break
    return rho


cdef inline bint is_too_small(const Phi* phi, double rho, double free, double ratio) noexcept nogil:
    """Whether no stationary row has a norm of rho or less."""
    cdef double slope = phi_slope(phi, rho)
    return rho + ratio * slope > free and 1.0 + ratio * phi_bend(phi, rho, slope) <= 0.0


# -- rows ----------------------------------------------------------------------------------------------------


cdef inline void fill(double* out, Py_ssize_t n, double value) noexcept nogil:
    """Set every entry to a value."""
    cdef Py_ssize_t t
    for t in range(n):
        out[t] = value


cdef inline void copy(const double* source, Py_ssize_t n, double* out) noexcept nogil:
    """Copy one row into another."""
    cdef Py_ssize_t t
    for t in range(n):
        out[t] = source[t]


cdef inline int compare(const void* one, const void* other) noexcept nogil:
    """Which of two numbers comes first in falling order."""
    cdef double a = (<const double*> one)[0], b = (<const double*> other)[0]
    return (a < b) - (a > b)


cdef inline void sort_falling(double* a, Py_ssize_t n) noexcept nogil:
    """Sort the entries of a row by falling value."""
    qsort(a, n, sizeof(double), compare)


cdef inline double largest_size(const double* a, Py_ssize_t n) noexcept nogil:
    """The largest absolute entry."""
    cdef Py_ssize_t t
    cdef double largest = 0.0
    for t in range(n):
        largest = fabs(a[t]) if fabs(a[t]) > largest else largest
    return largest


cdef inline double square_sum(const double* a, Py_ssize_t n) noexcept nogil:
    """Sum of squares."""
    cdef Py_ssize_t t
    cdef double total = 0.0
    for t in range(n):
        total += a[t] * a[t]
    return total


cdef inline double size_sum(const double* a, Py_ssize_t n) noexcept nogil:
    """Sum of absolute entries."""
    cdef Py_ssize_t t
    cdef double total = 0.0
    for t in range(n):
        total += fabs(a[t])
    return total


cdef inline double power_norm(const double* a, Py_ssize_t n, double p) noexcept nogil:
    """p-norm of a row, scaled by its largest entry so that no power overflows."""
    cdef Py_ssize_t t
    cdef double total = 0.0, largest = largest_size(a, n)
    if largest < TINY:
        return 0.0
    for t in range(n):
        if a[t] != 0.0:
            total += power(fabs(a[t]) / largest, p)
    return largest * power(total, 1.0 / p)


cdef inline double norm_p(const double* a, Py_ssize_t n, double p) noexcept nogil:
    """p-norm of a row; 0 if all entries are below TINY."""
    cdef double size
    if p == 2.0:
        size = square_sum(a, n)
        return sqrt(size) if 1.0 / SAFE < size < SAFE or size == 0.0 else power_norm(a, n, 2.0)
    if p == 1.0 or p == INFINITY:
        size = size_sum(a, n) if p == 1.0 else largest_size(a, n)
        return size if size >= TINY else 0.0
    return power_norm(a, n, p)


# -- roots ---------------------------------------------------------------------------------------------------


cdef inline double quadratic_root(
    double size, double L, double weight, double exponent, double bound
) noexcept nogil:
    """The root of L x + weight x^exponent = size for the exponents 2 and 1/2 (p = 3 and p = 1.5).

    `bound` is where one of the two terms alone makes up `size`; in units of it all shares are at most one.
    """
    cdef double root, linear = L * bound / size, square = weight * power(bound, exponent) / size
    if exponent == 2.0:
        return bound * 2.0 / (linear + sqrt(linear * linear + 4.0 * square))
    root = 2.0 / (square + sqrt(square * square + 4.0 * linear))
    return bound * root * root


cdef inline double newton_root(
    double size, double L, double weight, double exponent, double x
) noexcept nogil:
    """The root of L x + weight x^exponent = size, exponent > 1: Newton from x, which is not below it."""
    cdef double step, slope
    cdef int _
    for _ in range(60):
        slope = weight * power(x, exponent - 1.0)
        step = (L * x + slope * x - size) / (L + exponent * slope)
        x -= step
        if step <= 1e-15 * x:
            break
    return x if x > 0.0 else 0.0


cdef inline double power_root(double size, double L, double weight, double exponent) noexcept nogil:
    """Root x >= 0 of L x + weight x^exponent = size, exponent > 0; zero if it is below TINY."""
    cdef double x, bound
    if size <= 0.0:
        return 0.0
    if exponent == 1.0:
        x = size / (L + weight)
        return x if x > TINY else 0.0
    bound = power(size / weight, 1.0 / exponent) if weight > 0.0 else INFINITY
    x = size / L if L > 0.0 and size / L < bound else bound
    if x == INFINITY or x == 0.0:
        return 0.0
    if weight > 0.0 and L > 0.0:
        if exponent == 2.0 or exponent == 0.5:
            x = quadratic_root(size, L, weight, exponent, x)
        elif exponent > 1.0:
            x = newton_root(size, L, weight, exponent, x)
        else:  # in u = x^exponent the equation is convex again
            x = pow(newton_root(size, weight, L, 1.0 / exponent, pow(x, exponent)), 1.0 / exponent)
    return x if x > TINY else 0.0
