"""Step 1 of Algorithm 1 on many tasks of few rows: one task after the other, each to its own end.

    minimise over a_t (m), b_t   loss_t(X_t a_t + b_t) + sum_j w_j |a_jt - c_j|^p

Each step is a least-squares model whose weights are the second derivatives of the loss. At p = 2 it is a
ridge, solved in the space of the task's rows; at any other p it is the descent on one task.
"""

from libc.math cimport fabs, NAN, sqrt

import numpy as np

from mmtfl.core.descent cimport Blocks, Descent, Goal
from mmtfl.core.losses cimport RowLoss
from mmtfl.core.row_problems cimport Row, RowProblem
from mmtfl.core.storage cimport ColumnStorage

cdef double LARGEST = 1e200   # inverse of a weight that is next to none
cdef double MODEL = 0.03      # accuracy of a model, as a share of the largest slope before it
cdef double FINER = 0.3       # and of what is asked of the task
cdef double FALL = 0.1        # of the largest slope, at least, in every call
cdef double SHORTEST = 1e-9   # step, as a share of Newton's
cdef double ROUNDING = 1e-15  # of the objective: what rises by less has not risen


cdef class TaskSteps:
    """Tasks of rows X (n_rows, n_features), which begin at offsets, with a loss of the same rows.

    Centred square sums below `constant` times the raw ones are rounding.
    """

    cdef const double[:, ::1] X
    cdef const Py_ssize_t[::1] offsets
    cdef RowLoss loss
    cdef const double[::1] y, weight
    cdef bint is_centred
    cdef double constant
    cdef Py_ssize_t most, m, n, first  # rows of the largest task; features and rows at work, where they begin
    cdef double[:, ::1] x, raw, H      # columns at work: centred and weighted, and as they are
    cdef double[::1] h, slope, z, trial, state, means, L, a, goal, numbers
    cdef double shift
    cdef Py_ssize_t[::1] length
    cdef const Py_ssize_t[::1] kept
    cdef Descent descent
    cdef ColumnStorage storage
    cdef bint is_ridge

    def __init__(
        self, const double[:, ::1] X, const Py_ssize_t[::1] offsets, RowLoss loss not None, bint is_centred,
        double constant,
    ):
        self.X, self.offsets, self.loss = X, offsets, loss
        self.is_centred, self.constant = is_centred, constant
        self.y, self.weight = loss.y, loss.weight
        self.most = int(np.diff(offsets).max(initial=1))
        self.h, self.slope, self.z, self.trial, self.state = np.zeros((5, self.most))
        self.H, self.length = np.zeros((self.most, self.most)), np.zeros(1, np.intp)

    def solve(
        self, RowProblem problem not None, const double[:, ::1] numbers, const Py_ssize_t[::1] kept, *,
        bint is_ridge, const double[::1] common, const double[::1] goal, const double[::1] finest,
        double[:, ::1] A, double[::1] intercept, Py_ssize_t max_steps, Py_ssize_t max_sweeps,
    ):
        """Minimise over the kept features, from A (n_tasks, n_features) and the intercepts, in place.

        `numbers` are those of the row problem for each kept feature, the weight first, and `common` its
        common part (zero but for a ridge).
        A task is done when no slope exceeds goal[t]; those below finest[t] are
        rounding. Returns the losses, nan where rounding prevents an answer, and whether all tasks are done.
        """
        cdef double[::1] losses = np.zeros(intercept.shape[0])
        cdef Py_ssize_t t, k
        cdef bint all_done = True
        self._prepare(problem, numbers, kept, is_ridge)
        with nogil:
            for t in range(intercept.shape[0]):
                self.open(t, A, intercept[t], common)
                all_done &= self.minimise(&intercept[t], goal[t], finest[t], max_steps, max_sweeps)
                for k in range(self.m):
                    A[t, kept[k]] = self.a[k] + common[k]
                losses[t] = self.loss.value(self.z[:self.n]) if self.n > 0 else NAN
                if self.descent.error is not None:
                    break
        self.loss.y, self.loss.weight = self.y, self.weight
        if self.descent.error is not None:
            raise self.descent.error
        return np.asarray(losses), bool(all_done)

    def _prepare(self, problem, numbers, kept, is_ridge):
        self.kept, self.m, self.is_ridge = kept, len(kept), is_ridge
        self.x, self.raw = np.zeros((2, self.m, self.most))
        self.means, self.a, self.goal = np.zeros((3, self.m))
        curvature, goal, self.numbers = np.zeros((self.m, 1)), np.zeros((self.m, 1)), np.ravel(numbers)
        self.L, self.goal = curvature[:, 0], goal[:, 0]
        nothing = np.zeros(1, np.intp)
        self.storage = ColumnStorage(
            self.x, nothing, nothing, self.length, self.state, np.empty(0), np.empty((0, 1))
        )
        blocks = Blocks.of_rows(np.arange(self.m), np.asarray(numbers), curvature)
        self.descent = Descent(self.storage, problem, blocks, goal)

    cdef void open(
        self, Py_ssize_t t, double[:, ::1] A, double intercept, const double[::1] common
    ) noexcept nogil:
        """Copy what belongs to a task."""
        cdef Py_ssize_t i, k
        self.first, self.n = self.offsets[t], self.offsets[t + 1] - self.offsets[t]
        self.length[0] = self.storage.n_state = self.n
        self.loss.y = self.y[self.first : self.first + self.n]
        self.loss.weight = self.weight[self.first : self.first + self.n]
        for k in range(self.m):
            self.a[k] = A[t, self.kept[k]] - common[k]
            for i in range(self.n):
                self.raw[k, i] = self.X[self.first + i, self.kept[k]]
        for i in range(self.n):
            self.z[i] = intercept
            for k in range(self.m):
                self.z[i] += self.raw[k, i] * A[t, self.kept[k]]

    cdef bint minimise(
        self, double* intercept, double goal, double finest, Py_ssize_t max_steps, Py_ssize_t max_sweeps
    ) noexcept nogil:
        """Newton steps on the task; whether its goal was met. Where rounding prevents one, n is 0."""
        cdef double value = self.value(self.a, self.z), enough = -1.0, size, slope, change, share
        cdef Py_ssize_t _step, k
        for _step in range(max_steps):
            slope = self.open_model()
            if self.loss.is_quadratic:
                size, enough = 0.0, goal
            else:
                size = max(slope, self.steepest())
                if enough < 0.0:  # at least one step, unless the task stands still
                    enough = min(goal, max(FALL * size, finest))
                if size <= enough:
                    return True
            if not self.minimise_model(max(FINER * enough, MODEL * size), max_sweeps):
                return False
            change = self.shift
            if self.is_centred:
                for k in range(self.m):
                    change -= self.means[k] * (self.goal[k] - self.a[k])
            share = self.follow(change, &value)
            intercept[0] += share * change
            if share == 0.0 or self.n == 0:
                return False
            if self.loss.is_quadratic:
                return self.is_ridge or self.descent.n_sweeps < max_sweeps
        return False

    cdef double value(self, const double[::1] a, const double[::1] z) noexcept nogil:
        cdef Row* row = &self.descent.work.row
        cdef double total = self.loss.value(z[:self.n])
        cdef Py_ssize_t k, width = self.numbers.shape[0] // max(self.m, 1)
        row.n = 1
        for k in range(self.m):
            row.numbers = &self.numbers[k * width]
            total += self.descent.problem.cost(row, &a[k])
        return total

    cdef double open_model(self) noexcept nogil:
        """Columns, state and curvatures of the model at z; the slope of the intercept."""
        cdef Py_ssize_t i, k
        cdef double total = 0.0, slope = 0.0, mean, raw, square
        self.loss.slopes(self.z[:self.n], self.slope[:self.n])
        self.loss.bends(self.z[:self.n], 0.0, self.h[:self.n])
        for i in range(self.n):
            total += self.h[i]
            slope += self.slope[i]
        self.shift = -slope / total if self.is_centred else 0.0
        for i in range(self.n):
            self.trial[i] = sqrt(self.h[i])
            self.state[i] = -self.slope[i] / self.trial[i] - self.trial[i] * self.shift
        for k in range(self.m):
            mean = raw = square = 0.0
            for i in range(self.n):
                mean += self.h[i] * self.raw[k, i]
                raw += self.h[i] * self.raw[k, i] * self.raw[k, i]
            mean = mean / total if self.is_centred else 0.0
            for i in range(self.n):
                self.x[k, i] = self.trial[i] * (self.raw[k, i] - mean)
                square += self.x[k, i] * self.x[k, i]
            if self.is_centred and square <= self.constant * raw:
                square = 0.0
                self.x[k, :self.n] = 0.0
            self.means[k], self.L[k], self.goal[k] = mean, square, self.a[k]
        return fabs(slope) if self.is_centred else 0.0

    cdef double steepest(self) noexcept nogil:
        """How far a sweep would move a slope, at most."""
        cdef Row* row = &self.descent.work.row
        cdef Py_ssize_t i, k, width = self.numbers.shape[0] // max(self.m, 1)
        cdef double out = 0.0
        row.n, row.thorough = 1, False
        for k in range(self.m):
            row.slope[0] = self.L[k] * self.a[k]
            for i in range(self.n):
                row.slope[0] += self.x[k, i] * self.state[i]
            row.numbers, row.curvature, row.present = &self.numbers[k * width], &self.L[k], &self.a[k]
            self.descent.problem.solve(row)
            out = max(out, self.L[k] * fabs(row.out[0] - self.a[k]))
        return out

    cdef bint minimise_model(self, double tolerance, Py_ssize_t max_sweeps) noexcept nogil:
        if self.is_ridge:
            if self.ridge():
                return True
            self.n = 0
            return False
        self.descent.use(&self.goal[0] if self.m > 0 else NULL)
        self.descent.settle(Goal(tolerance, 0.0, 0.0, max_sweeps, True))
        return self.descent.n_sweeps >= 0

    cdef bint ridge(self) noexcept nogil:
        """The least model in the space of the rows; False if rounding prevents it.

        With D = 1 / (2 w): a = D X' v where (1 + X D X') v = r + X a.
        """
        cdef Py_ssize_t i, j, k, width = self.numbers.shape[0] // max(self.m, 1)
        cdef double D
        for i in range(self.n):
            for j in range(i + 1):
                self.H[i, j] = 1.0 if i == j else 0.0
        for k in range(self.m):
            D = 0.5 / self.numbers[k * width]
            if not D < LARGEST:
                return False
            for i in range(self.n):
                self.state[i] += self.x[k, i] * self.a[k]
                for j in range(i + 1):
                    self.H[i, j] += self.x[k, i] * D * self.x[k, j]
        if not solve_definite(self.H, self.state, self.n):
            return False
        for k in range(self.m):
            self.goal[k] = 0.0
            for i in range(self.n):
                self.goal[k] += self.x[k, i] * self.state[i]
            self.goal[k] *= 0.5 / self.numbers[k * width]
        return True

    cdef double follow(self, double change, double* value) noexcept nogil:
        """Go from a to `goal`, or as far as the objective falls; the share of the way."""
        cdef double share = 1.0, trial
        cdef Py_ssize_t i, k
        while share > SHORTEST:
            for i in range(self.n):
                self.trial[i] = self.z[i] + share * change
            for k in range(self.m):
                if share < 1.0:
                    self.goal[k] = 0.5 * (self.a[k] + self.goal[k])
                for i in range(self.n):
                    self.trial[i] += self.raw[k, i] * (self.goal[k] - self.a[k])
            trial = value[0] if self.loss.is_quadratic else self.value(self.goal, self.trial)
            if trial <= value[0] + ROUNDING * fabs(value[0]):
                value[0] = trial
                self.a[:] = self.goal
                self.z[:self.n] = self.trial[:self.n]
                return share
            share *= 0.5
        return 0.0


cdef bint solve_definite(double[:, ::1] H, double[::1] v, Py_ssize_t n) noexcept nogil:
    """Solve H u = v by Cholesky, in place, from the lower half of H; False if H is not positive definite."""
    cdef Py_ssize_t i, k, m
    for i in range(n):  # the factor, and the first of two triangular systems
        for k in range(i):
            for m in range(k):
                H[i, k] -= H[i, m] * H[k, m]
            H[i, k] /= H[k, k]
        for m in range(i):
            H[i, i] -= H[i, m] * H[i, m]
            v[i] -= H[i, m] * v[m]
        if not H[i, i] > 0.0:
            return False
        H[i, i] = sqrt(H[i, i])
        v[i] /= H[i, i]
    for i in range(n - 1, -1, -1):
        for m in range(i + 1, n):
            v[i] -= H[m, i] * v[m]
        v[i] /= H[i, i]
    return True
