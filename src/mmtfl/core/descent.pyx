"""The descent: sweeps over blocks of rows, one row problem after the other; docs/model.md section 6.

A row is a block of one, a group of features or a curve is a block of several. The descent knows nothing of
where the columns are (`storage`) nor of what is penalised (`row_problems`).
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, INFINITY, isfinite
from libc.string cimport memcpy

import numpy as np

from mmtfl.core.row_problems cimport Row, RowProblem, Workspace
from mmtfl.core.storage cimport Buffer, Storage

cdef enum:
    MEMORY = 5  # sweeps behind one extrapolation

cdef double RIDGE = 1e-12     # of the system for the weights of an extrapolation, as a share of its trace
cdef double FARTHEST = 1e7    # steps of a drift that are tried at once, at most
cdef Py_ssize_t WORK_BETWEEN_LOOKS = 200_000_000  # products of numbers, about a tenth of a second
cdef double SQUARABLE = 1e70  # numbers up to this size can be squared, weighted and summed


cdef class Blocks:
    """Blocks members[starts[b]:starts[b + 1]] of rows, with numbers[places[b]:] for the row problem.

    `curvature` has one entry for each row of a block and each task; of a block of several rows it is a bound.
    """

    def __init__(
        self, Py_ssize_t[::1] members, Py_ssize_t[::1] starts, const double[::1] numbers,
        Py_ssize_t[::1] places, const double[::1] curvature,
    ):
        cdef Py_ssize_t b
        self.n, self.n_members = starts.shape[0] - 1, members.shape[0]
        self._owner = (members, starts, numbers, places, curvature)
        for b in range(self.n):
            self.largest = max(self.largest, starts[b + 1] - starts[b])
        self.starts = &starts[0]
        if self.n > 0:
            self.members, self.places = &members[0], &places[0]
            self.numbers, self.curvature = &numbers[0], &curvature[0]

    @staticmethod
    def of_rows(rows, numbers, curvature):
        """Every row for itself: its numbers (n_rows, n_numbers) and curvature (n_rows, n_tasks)."""
        n = len(rows)
        return Blocks(
            np.array(rows, dtype=np.intp), np.arange(n + 1, dtype=np.intp), numbers.ravel(),
            numbers.shape[1] * np.arange(n, dtype=np.intp), curvature.ravel(),
        )


cdef class Descent:
    """Minimise the model of a storage under a penalty over blocks of rows of A (m, n_tasks), in place."""

    def __cinit__(self):
        self.iterates, self.states, self.origin = Buffer(), Buffer(), Buffer()
        self.mixed = Buffer()

    def __init__(self, Storage storage, RowProblem problem, Blocks blocks, double[:, ::1] A):
        self.storage, self.problem, self._owner = storage, problem, A
        self.work = Workspace(max(1, blocks.largest) * storage.n_tasks)
        self.blocks = blocks
        self.use(&A[0, 0] if A.shape[0] > 0 else NULL)

    cdef void use(self, double* A) noexcept nogil:
        """Work on other rows; the blocks may have changed too."""
        self.A = A

    def run(self, double slope=0.0, double energy=0.0, double relative=0.0, Py_ssize_t max_sweeps=200):
        """Sweep until no slope, or no block's square, moves by more.

        With `relative` a share of what the first sweep moved a slope is enough. Returns whether the sweeps
        were enough, their number, and how much the first one moved a slope at most.
        """
        cdef Goal goal = Goal(slope, energy, relative, max_sweeps, False)
        cdef bint is_settled
        with nogil:
            is_settled = self.settle(goal)
        if self.error is not None:
            raise self.error
        if self.n_sweeps < 0:
            raise MemoryError("There is no memory left for the extrapolation of a descent.")
        return is_settled, self.n_sweeps, self.first

    cdef bint settle(self, Goal goal) noexcept nogil:
        """Sweep until the goal is reached; whether the sweeps were enough.

        Only the first and the last sweep are thorough, where short cuts exist. After every few sweeps the
        rows go where the last ones lead, if that is lower.
        """
        cdef Py_ssize_t n_stored = 0
        cdef bint thorough = True, kept_only = False
        cdef Moves moves
        if not self.make_room():
            return False
        while self.n_sweeps < goal.max_sweeps and not self.is_interrupted():
            moves = self.sweep(thorough, kept_only)
            self.n_sweeps += 1
            if self.n_sweeps == 1:
                self.first = moves.slope
                goal.slope = max(goal.slope, goal.relative * moves.slope)
            if moves.slope <= goal.slope or moves.energy <= goal.energy:
                if not kept_only and (thorough or not self.problem.has_short_cut):
                    return True
                thorough, kept_only, n_stored = True, False, 0
                self.store(0)
                continue
            thorough, kept_only = False, goal.by_support
            n_stored += 1
            self.store(n_stored)
            if n_stored == MEMORY:
                self.extrapolate()
                n_stored = 0
                self.store(0)
        return False

    cdef bint make_room(self) noexcept nogil:
        """Begin where the rows are now; False if there is no memory."""
        cdef Py_ssize_t T = self.storage.n_tasks, size = self.blocks.n_members * T
        cdef bint has_room = (
            self.iterates.reserve((MEMORY + 2) * size) and self.origin.reserve(size)
            and self.states.reserve((MEMORY + 2) * self.storage.n_state)
            and self.mixed.reserve(size)
        )
        self.n_sweeps, self.first = (0 if has_room else -1), 0.0
        if has_room:
            self.storage.begin()
            self.store(0)
            if size > 0:
                memcpy(self.origin.at, self.iterates.at, size * sizeof(double))
        return has_room

    cdef bint settle_and_compare(self, Goal goal) noexcept nogil:
        """The same, with how much lower the model and its penalty are afterwards, in `gain`."""
        cdef bint enough
        cdef double first = self.value_here() if self.make_room() else 0.0
        enough = self.settle(goal)
        self.gain = first - self.value_here() if self.n_sweeps > 0 else 0.0
        return enough

    cdef double value_here(self) noexcept nogil:
        self.store(0)
        return self.value(self.iterates.at, self.states.at)

    cdef bint is_interrupted(self) noexcept nogil:
        """Whether somebody wants an end (Ctrl-C), which is asked for every tenth of a second or so."""
        self.work_done += self.blocks.n_members * (self.storage.n_state + 20 * self.storage.n_tasks)
        if self.work_done > WORK_BETWEEN_LOOKS:
            self.work_done = 0
            with gil:
                try:
                    PyErr_CheckSignals()
                except BaseException as error:
                    self.error = error
        return self.error is not None

    cdef Moves sweep(self, bint thorough, bint kept_only) noexcept nogil:
        """Replace one block after the other by the answer to its row problem."""
        cdef Moves moves = Moves(0.0, 0.0, 0.0)
        cdef Py_ssize_t b
        for b in range(self.blocks.n):
            if kept_only and self.is_zero(b):
                continue
            self.replace(b, thorough, &moves)
        return moves

    cdef bint is_zero(self, Py_ssize_t b) noexcept nogil:
        cdef Py_ssize_t i, t, T = self.storage.n_tasks
        cdef double* row
        for i in range(self.blocks.starts[b], self.blocks.starts[b + 1]):
            row = self.A + self.blocks.members[i] * T
            for t in range(T):
                if row[t] != 0.0:
                    return False
        return True

    cdef void replace(self, Py_ssize_t b, bint thorough, Moves* moves) noexcept nogil:
        """Replace one block."""
        cdef Py_ssize_t T = self.storage.n_tasks, first = self.blocks.starts[b], i, t
        cdef Py_ssize_t size = self.blocks.starts[b + 1] - first
        cdef const Py_ssize_t* members = self.blocks.members + first
        cdef const double* L = self.blocks.curvature + first * T
        cdef Row* row = &self.work.row
        cdef double change, slope = 0.0, square = 0.0
        cdef double* a
        cdef double* out
        row.n, row.curvature, row.present, row.thorough = size * T, L, self.work.present, thorough
        for i in range(size):
            self.storage.look(members[i], row.slope + i * T)
            memcpy(self.work.present + i * T, self.A + members[i] * T, T * sizeof(double))
        for t in range(row.n):
            row.slope[t] += row.curvature[t] * row.present[t]
        row.numbers = self.blocks.numbers + self.blocks.places[b]
        self.problem.solve(row)
        for i in range(size):
            a, out, L = self.A + members[i] * T, row.out + i * T, row.curvature + i * T
            for t in range(T):
                change = out[t] - a[t]
                a[t] = out[t]
                out[t] = change
                slope = max(slope, L[t] * fabs(change))
                square += L[t] * change * change
            self.storage.move(members[i], out)
        moves.slope, moves.energy = max(moves.slope, slope), max(moves.energy, square)
        moves.total += square

    # -- extrapolation: Anderson mixing of the last sweeps ---------------------------------------------------

    cdef void store(self, Py_ssize_t k) noexcept nogil:
        """Keep the rows and the state as the k-th place of the track."""
        cdef Py_ssize_t i, T = self.storage.n_tasks, n_state = self.storage.n_state
        cdef double* place = self.iterates.at + k * self.blocks.n_members * T
        for i in range(self.blocks.n_members):
            memcpy(place + i * T, self.A + self.blocks.members[i] * T, T * sizeof(double))
        memcpy(self.states.at + k * n_state, self.storage.state, n_state * sizeof(double))

    cdef void go_to(self, const double* place, const double* state) noexcept nogil:
        cdef Py_ssize_t i, T = self.storage.n_tasks
        for i in range(self.blocks.n_members):
            memcpy(self.A + self.blocks.members[i] * T, place + i * T, T * sizeof(double))
        memcpy(self.storage.state, state, self.storage.n_state * sizeof(double))

    cdef double value(self, const double* place, const double* state) noexcept nogil:
        """The model and its penalty at a place, up to a constant; NaN where the penalty is not known."""
        cdef Py_ssize_t b, i, T = self.storage.n_tasks, size = self.blocks.n_members * T
        cdef Row* row = &self.work.row
        cdef double* change = self.iterates.at + (MEMORY + 1) * size
        cdef double total
        for i in range(size):
            change[i] = place[i] - self.origin.at[i]
        total = self.storage.fit(state, change, self.blocks.members, self.blocks.n_members)
        for b in range(self.blocks.n):
            row.n = (self.blocks.starts[b + 1] - self.blocks.starts[b]) * T
            row.numbers = self.blocks.numbers + self.blocks.places[b]
            if row.numbers[0] < INFINITY:  # else the block is zero
                total += self.problem.cost(row, place + self.blocks.starts[b] * T)
        return total

    cdef bint extrapolate(self) noexcept nogil:
        """Go to where the last sweeps lead, if the model and its penalty are lower there; whether they are.

        The state of a mix of iterates is the mix of their states, so that it costs no sweep.
        """
        cdef Py_ssize_t i, k, n_state = self.storage.n_state
        cdef Py_ssize_t size = self.blocks.n_members * self.storage.n_tasks
        cdef double* place = self.iterates.at
        cdef double* state = self.states.at
        cdef double value, reach = 10.0
        cdef double[MEMORY] weights
        value = self.value(place + MEMORY * size, state + MEMORY * n_state)
        if not isfinite(value):
            return False
        if mixing_weights(place, size, weights):
            mix(state + n_state, n_state, weights, state + (MEMORY + 1) * n_state)
            mix(place + size, size, weights, self.mixed.at)
            if self.try_place(self.mixed.at, state + (MEMORY + 1) * n_state, &value):
                return True
        # a steady drift has nothing to extrapolate, for its steps are equal: follow it while it goes down
        while reach < FARTHEST:
            for i in range(size):
                self.mixed.at[i] = place[MEMORY * size + i] + reach * (place[MEMORY * size + i] - place[i])
            for i in range(n_state):
                k = MEMORY * n_state + i
                state[(MEMORY + 1) * n_state + i] = state[k] + reach * (state[k] - state[i])
            if not self.try_place(self.mixed.at, state + (MEMORY + 1) * n_state, &value):
                break
            reach *= 10.0
        return reach > 10.0

    cdef bint try_place(self, double* place, double* state, double* value) noexcept nogil:
        """Go there if it is lower than `value`, which is then the value there."""
        cdef double there
        if not largest(place, self.blocks.n_members * self.storage.n_tasks) < SQUARABLE:
            return False
        if not largest(state, self.storage.n_state) < SQUARABLE:
            return False
        there = self.value(place, state)
        if not there < value[0]:
            return False
        value[0] = there
        self.go_to(place, state)
        return True


cdef double largest(const double* v, Py_ssize_t n) noexcept nogil:
    """The largest absolute entry, or infinity where there is one that is no number."""
    cdef double out = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        if not fabs(v[i]) <= out:
            out = fabs(v[i]) if v[i] == v[i] else INFINITY
    return out


cdef void mix(const double* rows, Py_ssize_t n, const double* weights, double* out) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef double total
    for i in range(n):
        total = 0.0
        for k in range(MEMORY):
            total += weights[k] * rows[k * n + i]
        out[i] = total


cdef double product_of_steps(const double* one, const double* other, Py_ssize_t n) noexcept nogil:
    """Inner product of two steps, each from the place given to the following one."""
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        total += (one[n + i] - one[i]) * (other[n + i] - other[i])
    return total


cdef bint mixing_weights(const double* places, Py_ssize_t n, double* weights) noexcept nogil:
    """Weights of sum one that minimise the norm of the mixed steps; whether there are any."""
    cdef double[MEMORY][MEMORY] products
    cdef double trace = 0.0, total = 0.0, factor
    cdef Py_ssize_t i, j, k
    for i in range(MEMORY):
        for k in range(i + 1):
            products[i][k] = products[k][i] = product_of_steps(places + i * n, places + k * n, n)
        trace += products[i][i]
        weights[i] = 1.0
    if not 1.0 / SQUARABLE < trace < SQUARABLE:
        return False
    for i in range(MEMORY):
        products[i][i] += RIDGE * trace
    for i in range(MEMORY):  # elimination
        if not products[i][i] > 0.0:
            return False
        for k in range(i + 1, MEMORY):
            factor = products[k][i] / products[i][i]
            for j in range(i, MEMORY):
                products[k][j] -= factor * products[i][j]
            weights[k] -= factor * weights[i]
    for i in range(MEMORY - 1, -1, -1):
        for j in range(i + 1, MEMORY):
            weights[i] -= products[i][j] * weights[j]
        weights[i] /= products[i][i]
        total += weights[i]
    if not fabs(total) > 1e-14:
        return False
    for i in range(MEMORY):
        weights[i] /= total
    return True
