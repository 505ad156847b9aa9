"""The losses of rows: value, slope and second derivative at linear predictors z; docs/model.md eq. (1).

`weight` has one entry per row and holds the 1/n of eq. (1). The weights of a Newton model lie between the
second derivative of the loss (share 0) and that of a parabola above it (share 1), on a log scale.
"""

from libc.math cimport exp, fabs, log, log1p, pow

cdef double LEAST = 1e-6  # share of the bound on second derivatives, which vanish where a class is certain

cdef double TINY = 1e-2  # of a loss: one plus less has lost digits
cdef double HUGE = 1e300


cdef inline double between(double bend, double above, double share) noexcept nogil:
    return bend if share == 0.0 else above if share == 1.0 else bend * pow(above / bend, share)


cdef class RowLoss:
    def __init__(self, const double[::1] y, const double[::1] weight):
        self.y, self.weight = y, weight

    cdef double value(self, const double[::1] z) noexcept nogil:
        """Weighted sum of the rows' losses."""
        return 0.0

    cdef void slopes(self, const double[::1] z, double[::1] out) noexcept nogil:
        """Derivatives in z, with the weights."""

    cdef void bends(self, const double[::1] z, double share, double[::1] out) noexcept nogil:
        """Weights of a Newton model."""


cdef class SquaredLoss(RowLoss):
    def __cinit__(self):
        self.is_quadratic = True

    cdef double value(self, const double[::1] z) noexcept nogil:
        cdef double total = 0.0
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            total += self.weight[i] * (z[i] - self.y[i]) * (z[i] - self.y[i])
        return 0.5 * total

    cdef void slopes(self, const double[::1] z, double[::1] out) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            out[i] = self.weight[i] * (z[i] - self.y[i])

    cdef void bends(self, const double[::1] z, double share, double[::1] out) noexcept nogil:
        out[:] = self.weight


cdef class LogisticLoss(RowLoss):
    """Labels are -1 and +1."""

    cdef double value(self, const double[::1] z) noexcept nogil:
        cdef double total = 0.0, margin, small, product = 1.0, weight = 0.0
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            margin = self.y[i] * z[i]
            small = exp(-fabs(margin))
            total += self.weight[i] * max(-margin, 0.0)
            if small < TINY:
                total += self.weight[i] * log1p(small)
                continue
            # rows of one weight, such as those of a task, have one logarithm: of a product
            if self.weight[i] != weight or product > HUGE:
                total += weight * log(product)
                product, weight = 1.0, self.weight[i]
            product *= 1.0 + small
        return total + weight * log(product)

    cdef void slopes(self, const double[::1] z, double[::1] out) noexcept nogil:
        cdef double margin, small
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            margin = self.y[i] * z[i]
            small = exp(-fabs(margin))
            out[i] = -self.weight[i] * self.y[i] * ((small if margin > 0.0 else 1.0) / (1.0 + small))

    cdef void bends(self, const double[::1] z, double share, double[::1] out) noexcept nogil:
        cdef double size, small, above
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            size = fabs(z[i])
            small = exp(-size)
            above = 0.25 if size < 1e-8 else (1.0 - small) / (1.0 + small) / (2.0 * size)
            out[i] = self.weight[i] * between(
                max(small / ((1.0 + small) * (1.0 + small)), 0.25 * LEAST), above, share
            )


cdef class HuberLoss(RowLoss):
    """r^2 / 2 up to |r| = delta, and linear beyond."""

    cdef double delta

    def __init__(self, const double[::1] y, const double[::1] weight, double delta):
        super().__init__(y, weight)
        self.delta = delta

    cdef double value(self, const double[::1] z) noexcept nogil:
        cdef double total = 0.0, size, near
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            size = fabs(z[i] - self.y[i])
            near = min(size, self.delta)
            total += self.weight[i] * near * (size - 0.5 * near)
        return total

    cdef void slopes(self, const double[::1] z, double[::1] out) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            out[i] = self.weight[i] * max(-self.delta, min(self.delta, z[i] - self.y[i]))

    cdef void bends(self, const double[::1] z, double share, double[::1] out) noexcept nogil:
        cdef double size
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            size = fabs(z[i] - self.y[i])
            out[i] = self.weight[i] * between(
                1.0 if size <= self.delta else LEAST, self.delta / max(size, self.delta), share
            )


cdef class PoissonLoss(RowLoss):
    """Half the deviance of counts with the mean exp(z), and `constant` for its part that is free of z."""

    cdef double constant, bound

    def __init__(self, const double[::1] y, const double[::1] weight, double constant, double bound):
        super().__init__(y, weight)
        self.constant, self.bound = constant, bound

    cdef double value(self, const double[::1] z) noexcept nogil:
        cdef double total = self.constant, mean
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            mean = exp(min(z[i], 300.0)) * (1.0 + max(z[i] - 300.0, 0.0))  # beyond, a line
            total += self.weight[i] * (mean - self.y[i] * z[i])
        return total

    cdef void slopes(self, const double[::1] z, double[::1] out) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            out[i] = self.weight[i] * (exp(min(z[i], 300.0)) - self.y[i])

    cdef void bends(self, const double[::1] z, double share, double[::1] out) noexcept nogil:
        cdef double bend
        cdef Py_ssize_t i
        for i in range(z.shape[0]):
            bend = exp(min(z[i], 299.0))
            out[i] = self.weight[i] * between(max(bend, LEAST * self.bound), 2.718281828459045 * bend, share)


cdef class LossWithParabolas(RowLoss):
    """A loss, and at some rows, which have no weight in it, a parabola about y instead."""

    cdef RowLoss inner
    cdef const Py_ssize_t[::1] at

    def __init__(
        self, RowLoss inner, const Py_ssize_t[::1] at, const double[::1] y, const double[::1] weight
    ):
        super().__init__(y, weight)
        self.inner, self.at = inner, at

    cdef double value(self, const double[::1] z) noexcept nogil:
        cdef double total = self.inner.value(z), apart
        cdef Py_ssize_t i
        for i in range(self.at.shape[0]):
            apart = z[self.at[i]] - self.y[i]
            total += 0.5 * self.weight[i] * apart * apart
        return total

    cdef void slopes(self, const double[::1] z, double[::1] out) noexcept nogil:
        cdef Py_ssize_t i
        self.inner.slopes(z, out)
        for i in range(self.at.shape[0]):
            out[self.at[i]] = self.weight[i] * (z[self.at[i]] - self.y[i])

    cdef void bends(self, const double[::1] z, double share, double[::1] out) noexcept nogil:
        cdef Py_ssize_t i
        self.inner.bends(z, share, out)
        for i in range(self.at.shape[0]):
            out[self.at[i]] = self.weight[i]


cdef class PythonLoss(RowLoss):
    """A loss written in Python: its functions are called on whole vectors, a few times for each Newton step.

    `functions` are value(z), slopes(z) and bends(z, share); an exception in one of them ends the descent.
    """

    cdef tuple functions

    def __init__(self, const double[::1] y, const double[::1] weight, functions):
        super().__init__(y, weight)
        self.functions = tuple(functions)

    cdef object call(self, int which, tuple arguments):
        try:
            return self.functions[which](*arguments)
        except BaseException as error:
            self.error = self.error or error
            return None

    cdef double value(self, const double[::1] z) noexcept nogil:
        with gil:
            found = self.call(0, (z.base,))
            return 0.0 if found is None else found

    cdef void slopes(self, const double[::1] z, double[::1] out) noexcept nogil:
        with gil:
            found = self.call(1, (z.base,))
            out.base[:] = 0.0 if found is None else found

    cdef void bends(self, const double[::1] z, double share, double[::1] out) noexcept nogil:
        with gil:
            found = self.call(2, (z.base, share))
            out.base[:] = 1.0 if found is None else found


def evaluate(RowLoss loss not None, const double[::1] z, double share):
    """Value, slopes and weights of a Newton model at z, for Python."""
    import numpy as np

    slopes, bends = np.empty(z.shape[0]), np.empty(z.shape[0])
    loss.slopes(z, slopes)
    loss.bends(z, share, bends)
    return loss.value(z), slopes, bends
