"""Solutions along a whole path of penalties, each from the last, in one call without Python's lock.

At every penalty the blocks at work are minimised on Gram matrices of their own, or on residuals; then the
slopes of the others tell which of them join; docs/model.md section 6.
"""

from libc.math cimport fabs, sqrt
from libc.string cimport memset

import numpy as np
from scipy.linalg import cython_lapack

from mmtfl.core.descent cimport Blocks, Descent, Goal
from mmtfl.core.row_problems cimport Row, RowProblem, Workspace
from mmtfl.core.sources cimport compiled_function, Source
from mmtfl.core.storage cimport Buffer, GramStorage, Storage

cdef double MOSTLY = 0.7  # blocks at work are forgotten when a smaller share of them is kept
cdef double INEXACT = 3e-3  # sweeps on a Newton model end at this share of the last one's move, squared
cdef double FIRST = 100.0  # and on the first model of a penalty at so many tolerances
cdef double NOTHING = 1e-13  # eigenvalues below this share of the largest are rounding
cdef Py_ssize_t MOST_TURNED = 1 << 21  # numbers in the bases of one block of a storage

ctypedef void (*Dsyev)(
    char*, char*, int*, double*, int*, double*, double*, int*, int*
) noexcept nogil
cdef Dsyev dsyev = <Dsyev> compiled_function(cython_lapack, "dsyev")


cdef class Path:
    """The path of one penalty on a source.

    Block b has the rows members[starts[b]:starts[b + 1]] and the numbers from places[b] on; where
    can_turn[b], the penalty does not change under rotations of its rows within a task.
    """

    cdef Source source
    cdef RowProblem problem
    cdef const Py_ssize_t[::1] members, starts, places
    cdef const unsigned char[::1] can_turn
    cdef Py_ssize_t n_blocks, n_active, m, known, room, n_bases
    cdef unsigned char[::1] is_active
    cdef Py_ssize_t[::1] active, rows, own_starts, own_places, own_basis, own_members
    cdef Buffer gram, slopes, A, curvature, bases, matrix
    cdef GramStorage grams
    cdef Storage storage
    cdef Blocks blocks
    cdef Descent descent
    cdef Workspace work
    cdef bint is_short_of_memory

    def __init__(self, Source source, RowProblem problem, members, starts, places, can_turn):
        cdef Py_ssize_t largest
        self.source, self.problem = source, problem
        self.members, self.starts, self.places, self.can_turn = members, starts, places, can_turn
        self.n_blocks, largest = len(starts) - 1, int(np.diff(starts).max(initial=1))
        self.is_active, self.active = np.zeros(self.n_blocks, np.uint8), np.empty(self.n_blocks, np.intp)
        self.rows, self.own_members = np.empty(len(members), np.intp), np.arange(len(members))
        self.own_starts, self.own_places, self.own_basis = np.zeros((3, self.n_blocks + 1), np.intp)
        self.gram, self.slopes, self.A, self.curvature = Buffer(), Buffer(), Buffer(), Buffer()
        self.bases, self.matrix = Buffer(), Buffer()
        nothing = np.zeros(1)
        self.blocks = Blocks(
            self.own_members, self.own_starts[:1], nothing, self.own_places, nothing, np.empty(0),
            self.own_basis,
        )
        self.storage = source.storage
        if self.storage is None:
            self.storage = self.grams = GramStorage(
                np.zeros((source.n_grams, 1, 1)), np.zeros((source.n_tasks, 1)), 1
            )
        self.blocks.members, self.blocks.starts = &self.own_members[0], &self.own_starts[0]
        self.blocks.places, self.blocks.basis_at = &self.own_places[0], &self.own_basis[0]
        self.blocks.largest = largest
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
        if self.known == 0:
            self.n_bases = 0
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
            if not self.weigh_block(i, b):
                return False
        self.known = self.m
        self.blocks.n, self.blocks.n_members, self.blocks.numbers = self.n_active, self.m, numbers
        self.blocks.curvature, self.blocks.bases = self.curvature.at, self.bases.at
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

    cdef bint weigh_block(self, Py_ssize_t i, Py_ssize_t b) noexcept nogil:
        """The curvature of the entries of a block: exact in a basis of each task, or a bound."""
        cdef Py_ssize_t T = self.source.n_tasks, first = self.own_starts[i], t
        cdef Py_ssize_t size = self.own_starts[i + 1] - first
        cdef double* L = self.curvature.at + first * T
        cdef double* vectors = NULL
        if size == 1:
            for t in range(T):
                L[t] = self.source.curvature[self.rows[first], t]
            self.own_basis[i] = -1
            return True
        if first < self.known:
            return True  # its Gram matrices are those of the last round
        if self.grams is None:
            return self.weigh_by_products(i, b)
        if not self.matrix.reserve(size * (size + 35)):
            return False
        if not self.bases.reserve(self.n_bases + T * size * size):
            return False
        self.own_basis[i] = self.n_bases if self.can_turn[b] else -1
        for t in range(T):
            self.copy_block(t, first, size, not self.can_turn[b])
            if self.can_turn[b]:
                vectors = self.bases.at + self.n_bases
                self.n_bases += size * size
            eigenvalues(self.matrix.at, size, self.matrix.at + size * size, vectors)
            self.set_curvature(i, t)
        return True

    cdef bint weigh_by_products(self, Py_ssize_t i, Py_ssize_t b) noexcept nogil:
        """The same without Gram matrices: of blocks too large for bases, a bound by sums of their rows."""
        cdef Py_ssize_t T = self.source.n_tasks, first = self.own_starts[i], t, a, k
        cdef Py_ssize_t size = self.own_starts[i + 1] - first
        cdef bint turns = self.can_turn[b] and T * size * size <= MOST_TURNED
        cdef const Py_ssize_t* rows = &self.rows[first]
        cdef double* L = self.curvature.at + first * T
        cdef double* block
        cdef double* bound
        cdef double total, square
        if not self.matrix.reserve(size * (size + 35 + size * T) if turns else (size + 1) * T):
            return False
        if turns and not self.bases.reserve(self.n_bases + T * size * size):
            return False
        block, self.own_basis[i] = self.matrix.at, -1
        if turns:
            block, self.own_basis[i] = block + size * (size + 35), self.n_bases
        bound = block + size * T
        if not turns:
            memset(bound, 0, T * sizeof(double))
        for a in range(size):
            if not self.storage.products(rows[a], rows, size, block + (a * size * T if turns else 0)):
                return False
            for t in range(0 if turns else T):
                total, square = 0.0, self.source.curvature[rows[a], t]
                for k in range(size if square > 0.0 else 0):
                    if self.source.curvature[rows[k], t] > 0.0:
                        total += fabs(block[k * T + t]) / sqrt(square * self.source.curvature[rows[k], t])
                bound[t] = max(bound[t], total)
        for t in range(T):
            if turns:
                for k in range(size * size):
                    self.matrix.at[k] = block[k * T + t]
                eigenvalues(self.matrix.at, size, self.matrix.at + size * size, self.bases.at + self.n_bases)
                self.n_bases += size * size
                self.set_curvature(i, t)
            else:
                for k in range(size):
                    L[k * T + t] = bound[t] * self.source.curvature[rows[k], t]
        return True

    cdef void copy_block(self, Py_ssize_t t, Py_ssize_t first, Py_ssize_t size, bint unit) noexcept nogil:
        """The Gram matrix of a block in one task goes to `matrix`, with a diagonal of ones if `unit`."""
        cdef const double* gram = self.gram.at + (t if self.source.n_grams > 1 else 0) * self.room * self.room
        cdef double product
        cdef Py_ssize_t a, b, row
        for a in range(size):
            row = (first + a) * self.room + first
            for b in range(size):
                product = gram[row + a] * gram[(first + b) * self.room + first + b]
                self.matrix.at[a * size + b] = (
                    gram[row + b] if not unit else gram[row + b] / sqrt(product) if product > 0.0 else 0.0
                )

    cdef void set_curvature(self, Py_ssize_t i, Py_ssize_t t) noexcept nogil:
        """The eigenvalues, or the largest of them in units of the single curvatures, which is a bound."""
        cdef Py_ssize_t at = (t if self.source.n_grams > 1 else 0) * self.room * self.room
        cdef Py_ssize_t k, T = self.source.n_tasks, first = self.own_starts[i]
        cdef Py_ssize_t size = self.own_starts[i + 1] - first
        cdef const double* values = self.matrix.at + size * size
        cdef double* L = self.curvature.at + first * T + t
        cdef double largest = 0.0
        for k in range(size):
            largest = max(largest, values[k])
        for k in range(size):
            if self.own_basis[i] >= 0:
                L[k * T] = values[k] if values[k] > NOTHING * largest else 0.0
            else:
                L[k * T] = largest * self.gram.at[at + (first + k) * (self.room + 1)]

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


cdef void eigenvalues(double* G, Py_ssize_t n, double* values, double* vectors) noexcept nogil:
    """Eigenvalues of a symmetric matrix, which is destroyed, by LAPACK; `values` has room for 35 n.

    vectors[k, i] is entry k of the i-th eigenvector.
    """
    cdef int size = <int> n, room = <int> (34 * n), failed = 0
    cdef char* job = b"N" if vectors == NULL else b"V"
    cdef double trace = 0.0
    cdef Py_ssize_t i, k
    for i in range(n):
        trace += G[i * n + i]
    dsyev(job, b"U", &size, G, &size, values, values + n, &room, &failed)
    for i in range(n):
        values[i] = trace if failed else max(values[i], 0.0)  # the trace is a bound in any basis
        for k in range(n if vectors != NULL else 0):
            vectors[k * n + i] = <double> (i == k) if failed else G[i * n + k]
