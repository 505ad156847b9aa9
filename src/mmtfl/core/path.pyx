"""Solutions along a whole path of penalties, each from the last, in one call without Python's lock.

At every penalty the blocks at work are minimised on Gram matrices of their own, or on residuals; then the
slopes of the others tell which of them join; docs/model.md section 6.
"""

from libc.math cimport fabs, sqrt
from libc.string cimport memset

import numpy as np

from mmtfl.core.descent cimport Blocks, Descent, Goal
from mmtfl.core.row_problems cimport Row, RowProblem, Workspace
from mmtfl.core.sources cimport Source
from mmtfl.core.storage cimport Buffer, GramStorage, Storage

cdef double MOSTLY = 0.7  # blocks at work are forgotten when a smaller share of them is kept
cdef double INEXACT = 3e-3  # sweeps on a Newton model end at this share of the last one's move, squared
cdef Py_ssize_t SMALL = 32  # rows of a block up to which powers of its Gram matrices cost little
cdef double FIRST = 100.0  # and on the first model of a penalty at so many tolerances


cdef class Path:
    """The path of one penalty on a source.

    Block b has the rows members[starts[b]:starts[b + 1]] and the numbers from places[b] on.
    """

    cdef Source source
    cdef RowProblem problem
    cdef const Py_ssize_t[::1] members, starts, places
    cdef Py_ssize_t n_blocks, n_active, m, known, room
    cdef unsigned char[::1] is_active
    cdef Py_ssize_t[::1] active, rows, own_starts, own_places, own_members
    cdef Buffer gram, slopes, A, curvature, matrix
    cdef GramStorage grams
    cdef Storage storage
    cdef Blocks blocks
    cdef Descent descent
    cdef Workspace work
    cdef bint is_short_of_memory

    def __init__(self, Source source, RowProblem problem, members, starts, places):
        cdef Py_ssize_t largest
        self.source, self.problem = source, problem
        self.members, self.starts, self.places = members, starts, places
        self.n_blocks, largest = len(starts) - 1, int(np.diff(starts).max(initial=1))
        self.is_active, self.active = np.zeros(self.n_blocks, np.uint8), np.empty(self.n_blocks, np.intp)
        self.rows, self.own_members = np.empty(len(members), np.intp), np.arange(len(members))
        self.own_starts, self.own_places = np.zeros((2, self.n_blocks + 1), np.intp)
        self.gram, self.slopes, self.A, self.curvature = Buffer(), Buffer(), Buffer(), Buffer()
        self.matrix = Buffer()
        nothing = np.zeros(1)
        self.blocks = Blocks(self.own_members, self.own_starts[:1], nothing, self.own_places, nothing)
        self.storage = source.storage
        if self.storage is None:
            self.storage = self.grams = GramStorage(
                np.zeros((source.n_grams, 1, 1)), np.zeros((source.n_tasks, 1)), 1
            )
        self.blocks.members, self.blocks.starts = &self.own_members[0], &self.own_starts[0]
        self.blocks.places, self.blocks.largest = &self.own_places[0], largest
        self.descent = Descent(self.storage, problem, self.blocks, np.zeros((1, source.n_tasks)))
        self.work = Workspace(largest * source.n_tasks)

    def solve(
        self, const double[:, ::1] numbers, double tolerance, Py_ssize_t max_rounds, Py_ssize_t max_sweeps
    ):
        """Solve under every penalty, one row of `numbers` each.

        A round ends when no block moves by more than the root of the tolerance in the metric of the loss.
        Returns coefficients, intercepts, losses, and which solutions have settled.
        """
        n, T, d = numbers.shape[0], self.source.n_tasks, self.source.n_features
        cdef double[:, :, ::1] out = np.empty((n, d, T))
        cdef double[:, ::1] intercepts = np.empty((n, T))
        cdef double[::1] losses = np.empty(n)
        cdef unsigned char[::1] settled = np.zeros(n, np.uint8)
        cdef Py_ssize_t i
        with nogil:
            for i in range(numbers.shape[0]):
                settled[i] = self.solve_one(
                    &numbers[i, 0], Goal(0.0, tolerance, 0.0, max_sweeps, False), max_rounds
                )
                out[i] = self.source.A
                intercepts[i] = self.source.intercept
                losses[i] = self.source.loss()
                if self.descent.error is not None or self.source.has_failed() or self.is_short_of_memory:
                    break
        error = self.descent.error or self.source.error()
        if error is not None:
            raise error
        if self.is_short_of_memory:
            raise MemoryError(f"There is no memory for Gram matrices of {self.m} features in {T} tasks.")
        return np.asarray(out), np.asarray(intercepts), np.asarray(losses), np.asarray(settled).astype(bool)

    cdef bint solve_one(self, const double* numbers, Goal goal, Py_ssize_t max_rounds) noexcept nogil:
        """Solve under one penalty from where the source stands; whether rounds and sweeps were enough."""
        cdef double tolerance = goal.energy, last = tolerance * FIRST / INEXACT, moved, gain
        cdef bint is_done = False, enough
        cdef Py_ssize_t n_before
        self.keep_active()
        for _ in range(max_rounds):
            if self.source.renew():
                self.known = 0
            n_before = self.n_active
            self.join(numbers, tolerance)
            if is_done and self.n_active == n_before:
                return True
            if not self.gather(numbers):
                self.is_short_of_memory = True
                return False
            goal.energy = tolerance if self.source.is_quadratic else max(tolerance, INEXACT * last)
            if not self.source.is_quadratic:
                enough, gain = self.descent.settle_and_compare(goal), self.descent.gain
            else:
                enough, gain = self.descent.settle(goal), 0.0
            if self.descent.error is not None or self.source.has_failed():
                return False
            moved = self.largest_move()
            if not self.source.advance(&self.rows[0], self.m, self.A.at, gain):
                continue
            self.source.keep_pace(moved)
            last, is_done = moved, enough if self.source.is_quadratic else moved <= tolerance
        return False

    # -- the blocks at work ----------------------------------------------------------------------------------

    cdef bint is_kept(self, Py_ssize_t b) noexcept nogil:
        cdef Py_ssize_t i, t
        for i in range(self.starts[b], self.starts[b + 1]):
            for t in range(self.source.n_tasks):
                if self.source.A[self.members[i], t] != 0.0:
                    return True
        return False

    cdef void keep_active(self) noexcept nogil:
        """Have the blocks that are not zero at work, unless most of those at work are such."""
        cdef Py_ssize_t b, n_kept = 0
        for b in range(self.n_blocks):
            n_kept += self.is_kept(b)
        if n_kept > MOSTLY * self.n_active and self.n_active > 0:
            return
        self.n_active = self.m = self.known = 0
        for b in range(self.n_blocks):
            self.is_active[b] = self.is_kept(b)
            if self.is_active[b]:
                self.add(b)

    cdef void add(self, Py_ssize_t b) noexcept nogil:
        cdef Py_ssize_t i
        self.is_active[b], self.active[self.n_active] = True, b
        self.n_active += 1
        for i in range(self.starts[b], self.starts[b + 1]):
            self.rows[self.m] = self.members[i]
            self.m += 1

    cdef void join(self, const double* numbers, double tolerance) noexcept nogil:
        """Add the blocks that would not stay zero; a bound on their curvature is enough to tell."""
        cdef Py_ssize_t b, i, t, at, T = self.source.n_tasks, size
        cdef Row* row = &self.work.row
        cdef double moved, total
        for b in range(self.n_blocks):
            if self.is_active[b]:
                continue
            size = self.starts[b + 1] - self.starts[b]
            row.n, row.numbers, row.thorough = size * T, numbers + self.places[b], True
            row.curvature, row.present = self.work.curvature, self.work.present
            for t in range(T):
                total = 0.0
                for i in range(size):
                    total += self.source.curvature[self.members[self.starts[b] + i], t]
                for i in range(size):
                    at = i * T + t
                    row.slope[at] = self.source.slopes[t, self.members[self.starts[b] + i]]
                    self.work.present[at], self.work.curvature[at] = 0.0, total
            self.problem.solve(row)
            moved = 0.0
            for at in range(row.n):
                moved += self.work.curvature[at] * row.out[at] * row.out[at]
            if moved > tolerance:
                self.add(b)

    cdef bint gather(self, const double* numbers) noexcept nogil:
        """Copy what belongs to the blocks at work; False if there is no memory."""
        cdef Py_ssize_t a, t, b, i, T = self.source.n_tasks, place = 0
        if self.m > self.room or self.room == 0:
            self.room, self.known = min(self.source.n_features, max(2 * self.m, 32)), 0
        if not (self.A.reserve(T * self.room) and self.curvature.reserve(T * self.room)):
            return False
        if self.grams is not None and not self.gather_grams():
            return False
        for a in range(self.m):
            for t in range(T):
                self.A.at[a * T + t] = self.source.A[self.rows[a], t]
        for i in range(self.n_active):
            b = self.active[i]
            self.own_starts[i], self.own_places[i] = place, self.places[b]
            place += self.starts[b + 1] - self.starts[b]
            self.own_starts[i + 1] = place
            if not self.weigh_block(i):
                return False
        self.known = self.m
        self.blocks.n, self.blocks.n_members, self.blocks.numbers = self.n_active, self.m, numbers
        self.blocks.curvature = self.curvature.at
        if self.grams is not None:
            self.grams.use(self.gram.at, self.slopes.at, self.m, self.room)
        else:
            self.storage.features = &self.rows[0]
        self.descent.use(self.A.at)
        return True

    cdef bint gather_grams(self) noexcept nogil:
        cdef Py_ssize_t a, t, T = self.source.n_tasks
        if not (
            self.gram.reserve(self.source.n_grams * self.room * self.room)
            and self.slopes.reserve(T * self.room)
        ):
            return False
        self.source.fill_gram(&self.rows[0], self.known, self.m, self.gram.at, self.room)
        memset(self.slopes.at, 0, T * self.room * sizeof(double))  # a mix of states has the unused places too
        for a in range(self.m):
            for t in range(T):
                self.slopes.at[t * self.room + a] = self.source.slopes[t, self.rows[a]]
        return True

    cdef bint weigh_block(self, Py_ssize_t i) noexcept nogil:
        """The curvature of the entries of a block; False if there is no memory.

        Of several rows it is a bound, task by task: their sum, or by inner products of columns with
        a square of one a bound on the largest eigenvalue, in units of the curvature of each entry. It is
        known where the columns are those of the last round. Of large blocks it is a rough one.
        """
        cdef Py_ssize_t T = self.source.n_tasks, first = self.own_starts[i], t, a, b
        cdef Py_ssize_t size = self.own_starts[i + 1] - first
        cdef double* L = self.curvature.at + first * T
        cdef double bound, product, square
        cdef bint is_small = size <= SMALL, has_products = is_small or self.grams is not None
        if size > 1 and first < self.known:
            return True
        for a in range(size):
            for t in range(T):
                L[a * T + t] = self.source.curvature[self.rows[first + a], t]
        if size == 1:
            return True
        if not self.matrix.reserve((T + 2 if is_small else 2) * size * size):
            return False
        for a in range(size if self.grams is None and is_small else 0):
            has_products = has_products and self.storage.products(
                self.rows[first + a], &self.rows[first], size, self.matrix.at + (a * T + 2 * size) * size
            )
        for t in range(T):
            bound = 0.0
            for a in range(size):
                bound += L[a * T + t]
                for b in range(size if has_products else 0):
                    square = L[a * T + t] * L[b * T + t]
                    product = self.product_in_block(i, a, b, t)
                    self.matrix.at[a * size + b] = product / sqrt(square) if square > 0.0 else 0.0
            if has_products:
                bound = bound_on_eigenvalues(
                    self.matrix.at, self.matrix.at + size * size, size, 2 if is_small else 0
                )
            for a in range(size):
                if has_products:
                    L[a * T + t] *= bound
                elif L[a * T + t] > 0.0:
                    L[a * T + t] = bound
        return True

    cdef inline double product_in_block(
        self, Py_ssize_t i, Py_ssize_t a, Py_ssize_t b, Py_ssize_t t
    ) noexcept nogil:
        """The inner product of two columns of a block in one task."""
        cdef Py_ssize_t first = self.own_starts[i], size = self.own_starts[i + 1] - first
        if self.grams is None:
            return self.matrix.at[(a * self.source.n_tasks + 2 * size) * size + b * self.source.n_tasks + t]
        if self.source.n_grams == 1:
            t = 0
        return self.gram.at[(t * self.room + first + a) * self.room + first + b]

    cdef double largest_move(self) noexcept nogil:
        """The largest square of a block's move since the source has last advanced."""
        cdef Py_ssize_t i, a, t, T = self.source.n_tasks
        cdef double largest = 0.0, moved, change
        for i in range(self.n_active):
            moved = 0.0
            for a in range(self.own_starts[i], self.own_starts[i + 1]):
                for t in range(T):
                    change = self.A.at[a * T + t] - self.source.A[self.rows[a], t]
                    moved += self.source.curvature[self.rows[a], t] * change * change
            largest = max(largest, moved)
        return largest


cdef double bound_on_eigenvalues(
    double* G, double* power, Py_ssize_t n, Py_ssize_t n_squarings
) noexcept nogil:
    """A bound on the eigenvalues of a symmetric matrix, squared so often, by the sums of its rows."""
    cdef Py_ssize_t a, b, k
    cdef double total, largest = 0.0
    for _ in range(n_squarings):
        for a in range(n):
            for b in range(n):
                total = 0.0
                for k in range(n):
                    total += G[a * n + k] * G[b * n + k]
                power[a * n + b] = total
        G, power = power, G
    for a in range(n):
        total = 0.0
        for b in range(n):
            total += fabs(G[a * n + b])
        largest = max(largest, total)
    for _ in range(n_squarings):
        largest = sqrt(largest)
    return largest
