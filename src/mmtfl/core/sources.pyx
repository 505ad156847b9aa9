"""The data of a path: Gram matrices of all features, residuals, or columns and a loss; model.md section 6.

A path works on a few features at a time. It asks its source for the slopes of all features, which tell who
joins, and for Gram matrices of those at work. Where the loss is not quadratic a source has one least-squares
model after the other, whose weights are second derivatives of the loss; where a model turns out to lie below
the loss at its own minimum, the next one has weights closer to those of a parabola above the loss. The fall
of a model that does not lie below is a fall of the objective, so that no value of the penalty is needed.
"""

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport sqrt
from libc.string cimport memcpy

import numpy as np
from scipy.linalg import cython_blas

from mmtfl.core.losses cimport RowLoss
from mmtfl.core.storage cimport Storage

cdef int STEPS = 4  # from the second derivative of a loss to the parabola above it
cdef double ROUNDING = 1e-14
cdef double ENOUGH = 0.5  # of what a model and its penalty fall by, which the loss may be above the model
cdef double SHORTEST = 1e-12  # share of a step
cdef double SLOW = 0.03  # share of the last move, squared: weights that leave more of it are renewed

ctypedef void (*Dgemm)(
    char*, char*, int*, int*, int*, double*, double*, int*, double*, int*, double*, double*, int*
) noexcept nogil
ctypedef void (*Dsyrk)(
    char*, char*, int*, int*, double*, double*, int*, double*, double*, int*
) noexcept nogil

cdef void* compiled_function(module, name):
    """A function of BLAS or LAPACK, found at import, so that nothing of scipy is needed to compile."""
    capsule = module.__pyx_capi__[name]
    return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule))


cdef Dgemm dgemm = <Dgemm> compiled_function(cython_blas, "dgemm")
cdef Dsyrk dsyrk = <Dsyrk> compiled_function(cython_blas, "dsyrk")


cdef class Source:
    cdef bint renew(self) noexcept nogil:
        """Make the slopes of all features those of the present A; whether Gram matrices have changed."""
        return False

    cdef void fill_gram(
        self, const Py_ssize_t* rows, Py_ssize_t known, Py_ssize_t m, double* gram, Py_ssize_t room
    ) noexcept nogil:
        """Gram matrices (n_grams, room, room) of some rows, of which those of the first `known` are there."""

    cdef bint advance(
        self, const Py_ssize_t* rows, Py_ssize_t m, const double* goal, double gain
    ) noexcept nogil:
        """Move some rows of A to a goal (m, n_tasks); False if the model was too far from the loss there."""
        return True

    cdef void keep_pace(self, double moved) noexcept nogil:
        """Hear what the last advance moved a row, squared: a model that serves is kept."""

    cdef double loss(self) noexcept nogil:
        """The loss where the path stands."""
        return 0.0

    cdef object error(self):
        """What went wrong in a loss that is written in Python, or None."""

    cdef bint has_failed(self) noexcept nogil:
        return False


cdef class GramSource(Source):
    """The squared loss by its moments: Gram matrices (n_tasks or 1, d, d), slopes (n_tasks, d) at A = 0."""

    def __init__(
        self, const double[:, :, ::1] gram, const double[:, ::1] slopes, curvature, double null_loss, start
    ):
        self.gram, self.first_slopes, self.null_loss = gram, slopes, null_loss
        self.n_tasks, self.n_features, self.n_grams = slopes.shape[0], slopes.shape[1], gram.shape[0]
        self.is_quadratic, self.curvature = True, np.array(curvature, order="C")
        self.A, self.intercept = np.array(start, order="C"), np.zeros(self.n_tasks)
        self.slopes = slopes - np.matmul(gram, np.asarray(start).T[:, :, None])[:, :, 0]

    cdef void fill_gram(
        self, const Py_ssize_t* rows, Py_ssize_t known, Py_ssize_t m, double* gram, Py_ssize_t room
    ) noexcept nogil:
        cdef Py_ssize_t s, a, b
        cdef double* out
        for s in range(self.n_grams):
            for a in range(m):
                out = gram + (s * room + a) * room
                for b in range(known if a < known else 0, m):
                    out[b] = self.gram[s, rows[a], rows[b]]

    cdef bint advance(
        self, const Py_ssize_t* rows, Py_ssize_t m, const double* goal, double gain
    ) noexcept nogil:
        cdef Py_ssize_t a, i, t, j
        cdef double change
        cdef const double* line
        cdef double* own
        for a in range(m):
            j = rows[a]
            for t in range(self.n_tasks):
                change = goal[a * self.n_tasks + t] - self.A[j, t]
                if change != 0.0:
                    self.A[j, t] = goal[a * self.n_tasks + t]
                    line, own = &self.gram[t if self.n_grams > 1 else 0, j, 0], &self.slopes[t, 0]
                    for i in range(self.n_features):
                        own[i] -= change * line[i]
        return True

    cdef double loss(self) noexcept nogil:
        cdef double total = 0.0
        cdef Py_ssize_t j, t
        for t in range(self.n_tasks):
            for j in range(self.n_features):
                total += self.A[j, t] * (self.slopes[t, j] + self.first_slopes[t, j])
        return self.null_loss - 0.5 * total


cdef class ResidualSource(Source):
    """The squared loss by its residuals: a storage with a column per feature, whose state is at `start`."""

    def __init__(self, Storage storage not None, curvature, start):
        self.storage, self.is_quadratic, self.curvature = storage, True, np.array(curvature, order="C")
        self.A = np.array(start, order="C")
        self.n_features, self.n_tasks = self.A.shape[0], self.A.shape[1]
        self.intercept, self.row = np.zeros((2, self.n_tasks))
        self.slopes = np.empty((self.n_tasks, self.n_features))

    cdef bint renew(self) noexcept nogil:
        cdef Py_ssize_t j, t
        self.storage.features = NULL
        for j in range(self.n_features):
            self.storage.look(j, &self.row[0])
            for t in range(self.n_tasks):
                self.slopes[t, j] = self.row[t] if self.curvature[j, t] > 0.0 else 0.0
        return False

    cdef bint advance(
        self, const Py_ssize_t* rows, Py_ssize_t m, const double* goal, double gain
    ) noexcept nogil:
        """The state of the storage has moved already."""
        cdef Py_ssize_t a
        for a in range(m):
            memcpy(&self.A[rows[a], 0], goal + a * self.n_tasks, self.n_tasks * sizeof(double))
        return True

    cdef double loss(self) noexcept nogil:
        return self.storage.fit(self.storage.state, NULL, NULL, 0)


cdef class ColumnSource(Source):
    """Columns x, task by task (its rows as they are, one feature after the other), and rows of z.

    Task t has the columns from d start[t] on, and the rows from begin[t] on. Centred square sums below
    `constant` times the raw ones are rounding. `z` is the linear predictor at the start.
    """

    def __init__(
        self, const double[::1] x, const Py_ssize_t[::1] start, const Py_ssize_t[::1] begin,
        const Py_ssize_t[::1] length, RowLoss row_loss, bint is_centred, double constant, A, intercept, z,
    ):
        self.x, self.start, self.begin, self.length = x, start, begin, length
        self.row_loss, self.is_centred, self.constant = row_loss, is_centred, constant
        self.is_quadratic, self.is_stale = row_loss.is_quadratic, True
        self.A, self.intercept, self.z = np.array(A, order="C"), np.array(intercept), np.array(z)
        self.n_features, self.n_tasks, n = self.A.shape[0], self.A.shape[1], len(z)
        self.n_grams = self.n_tasks
        self.trial, self.slope_z, self.weight, self.pull = np.empty((4, n))
        self.shift, self.totals = np.zeros((2, self.n_tasks))
        self.slopes = np.empty((self.n_tasks, self.n_features))
        self.means, self.curvature = np.zeros((2, self.n_features, self.n_tasks))
        self.value, self.scaled = row_loss.value(self.z), np.empty(0)

    cdef const double* column(self, Py_ssize_t t, Py_ssize_t j) noexcept nogil:
        return &self.x[self.start[t] * self.n_features + j * self.length[t]]

    cdef bint renew(self) noexcept nogil:
        # weights are kept as long as they serve: then so are the Gram matrices
        cdef Py_ssize_t t
        self.is_old = not self.is_stale
        if self.is_known and self.is_old:
            return False
        if self.is_stale:
            self.row_loss.bends(self.z, (<double> self.damping) / STEPS, self.weight)
        if not self.is_known:
            self.row_loss.slopes(self.z, self.slope_z)
        for t in range(self.n_tasks):  # both at once: of a small task all columns are near by then
            if self.is_stale:
                self.weigh(t)
            self.look(t)
        self.is_stale, self.is_known = False, True
        return not self.is_old

    cdef void weigh(self, Py_ssize_t t) noexcept nogil:
        """Under the weights of a new model, the mean and square sum of every column of a task."""
        cdef Py_ssize_t j, i, n = self.length[t]
        cdef const double* column
        cdef const double* h = &self.weight[self.begin[t]]
        cdef double mean, square, total = 0.0
        for i in range(n):
            total += h[i]
        self.totals[t] = total
        for j in range(self.n_features):
            column, mean, square = self.column(t, j), 0.0, 0.0
            if self.is_centred:
                for i in range(n):
                    mean += h[i] * column[i]
                mean /= total
            for i in range(n):
                square += h[i] * (column[i] - mean) * (column[i] - mean)
            # else the column is constant in the task, and this is rounding
            self.curvature[j, t] = square if square > self.constant * mean * mean * total else 0.0
            self.means[j, t] = mean

    cdef void look(self, Py_ssize_t t) noexcept nogil:
        """The slope of the model in every entry of a task, where its intercept is the best one."""
        cdef Py_ssize_t j, i, n = self.length[t], first = self.begin[t]
        cdef const double* column
        cdef const double* pull = &self.pull[first]
        cdef double total = 0.0
        if self.is_centred:
            for i in range(first, first + n):
                total += self.slope_z[i]
        self.shift[t] = -total / self.totals[t]
        for i in range(first, first + n):
            self.pull[i] = -self.slope_z[i] - self.weight[i] * self.shift[t]
        for j in range(self.n_features):
            column, total = self.column(t, j), 0.0
            for i in range(n):
                total += column[i] * pull[i]
            self.slopes[t, j] = total if self.curvature[j, t] > 0.0 else 0.0

    cdef void fill_gram(
        self, const Py_ssize_t* rows, Py_ssize_t known, Py_ssize_t m, double* gram, Py_ssize_t room
    ) noexcept nogil:
        cdef Py_ssize_t t, a, i, longest = 0, n
        cdef int width, n_new = <int> (m - known), n_all = <int> m, stride = <int> room
        cdef double one = 1.0, nothing = 0.0
        cdef char* no = b"N"
        cdef char* yes = b"T"
        cdef char* upper = b"U"
        cdef double* own
        cdef double* out
        cdef const double* column
        cdef const double* h
        if known >= m:
            return
        for t in range(self.n_tasks):
            longest = max(longest, self.length[t])
        if self.scaled.shape[0] < m * longest:
            with gil:
                self.scaled = np.empty(2 * m * longest)
        own = &self.scaled[0]
        for t in range(self.n_tasks):
            n, h, width = self.length[t], &self.weight[self.begin[t]], <int> self.length[t]
            for i in range(n):
                self.trial[i] = sqrt(h[i])
            for a in range(m):
                column = self.column(t, rows[a])
                for i in range(n):
                    own[a * n + i] = self.trial[i] * (column[i] - self.means[rows[a], t])
            out = gram + t * room * room
            # rows known..m of the matrix, which is symmetric: columns of it to BLAS
            if known == 0:
                dsyrk(upper, yes, &n_all, &width, &one, own, &width, &nothing, out, &stride)
            else:
                dgemm(
                    yes, no, &n_all, &n_new, &width, &one, own, &width, own + known * n, &width, &nothing,
                    out + known * room, &stride,
                )
            for a in range(known if known > 0 else m):
                for i in range(known if known > 0 else a + 1, m):
                    out[a * room + i] = out[i * room + a]

    cdef bint advance(
        self, const Py_ssize_t* rows, Py_ssize_t m, const double* goal, double gain
    ) noexcept nogil:
        cdef Py_ssize_t i, n = self.z.shape[0], t, a
        cdef double slope = 0.0, bend = 0.0, share = 1.0, reached, allowed
        self.step_to(rows, m, goal)
        for i in range(n):
            slope += self.slope_z[i] * self.pull[i]
            bend += 0.5 * self.weight[i] * self.pull[i] * self.pull[i]
        reached = self.value_after(share)
        if not self.is_quadratic:
            allowed = max(0.0, ENOUGH * gain)
            if self.is_above(reached, slope + bend + allowed) and (self.is_old or self.damping < STEPS):
                self.damping += 0 if self.is_old else 1
                self.is_stale = True
                return False
            while self.is_above(reached, share * (slope + share * bend + allowed)) and share > SHORTEST:
                share *= 0.5  # no parabola is above a loss whose second derivative has no bound
                reached = self.value_after(share)
        for a in range(m):
            for t in range(self.n_tasks):
                self.A[rows[a], t] = (
                    goal[a * self.n_tasks + t] if share == 1.0
                    else self.A[rows[a], t] + share * (goal[a * self.n_tasks + t] - self.A[rows[a], t])
                )
        for t in range(self.n_tasks):
            self.intercept[t] += share * self.shift[t]
        self.z[:] = self.trial
        self.value, self.is_known = reached, False
        return True

    cdef double value_after(self, double share) noexcept nogil:
        """The loss after a share of the step, whose linear predictor goes to `trial`."""
        cdef Py_ssize_t i
        for i in range(self.z.shape[0]):
            self.trial[i] = self.z[i] + share * self.pull[i]
        return self.row_loss.value(self.trial)

    cdef bint is_above(self, double reached, double rise) noexcept nogil:
        """Whether the loss is above its model, which rises by this."""
        return not reached <= self.value + rise + ROUNDING * self.value

    cdef void step_to(self, const Py_ssize_t* rows, Py_ssize_t m, const double* goal) noexcept nogil:
        """The change of the linear predictor goes to `pull`, that of the intercepts to `shift`."""
        cdef Py_ssize_t t, a, i
        cdef double change
        cdef const double* column
        cdef double* out
        for t in range(self.n_tasks):
            for a in range(m):
                self.shift[t] -= self.means[rows[a], t] * (goal[a * self.n_tasks + t] - self.A[rows[a], t])
            out = &self.pull[self.begin[t]]
            for i in range(self.length[t]):
                out[i] = self.shift[t]
            for a in range(m):
                change = goal[a * self.n_tasks + t] - self.A[rows[a], t]
                column = self.column(t, rows[a])
                if change != 0.0:
                    for i in range(self.length[t]):
                        out[i] += change * column[i]

    cdef void keep_pace(self, double moved) noexcept nogil:
        if not self.is_quadratic:
            self.is_stale = self.is_stale or (self.is_old and moved > SLOW * self.last_move)
        self.last_move = moved

    cdef double loss(self) noexcept nogil:
        return self.value

    cdef object error(self):
        return self.row_loss.error

    cdef bint has_failed(self) noexcept nogil:
        return self.row_loss.error is not None
