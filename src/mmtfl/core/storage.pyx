"""Where the columns of a least-squares model are, and what a change of a row does; docs/model.md section 6.

    minimise over A (m, T)   sum_t 1/2 ||r_t - X_t (a_t - a0_t)||^2 + penalty(A)

The state of a model is one vector that is affine in A: the slopes X_t' r_t where Gram matrices are kept (a
change of a row costs m per task), or the residuals r_t themselves (it costs two passes over a column, of a
sparse one over its entries).
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy


cdef class Buffer:
    def __dealloc__(self):
        free(self.at)

    cdef bint reserve(self, Py_ssize_t n) noexcept nogil:
        """Make room for n numbers, those there kept; False if there is no memory."""
        cdef double* larger
        if n <= self.size:
            return True
        larger = <double*> realloc(self.at, n * sizeof(double))
        if larger == NULL:
            return False
        self.at, self.size = larger, n
        return True


cdef class Storage:
    cdef void look(self, Py_ssize_t j, double* slopes) noexcept nogil:
        """The slopes of row j: minus the derivative of the model, one per task."""

    cdef void move(self, Py_ssize_t j, const double* change) noexcept nogil:
        """Follow a change of row j in the state."""

    cdef void begin(self) noexcept nogil:
        """Values of `fit` are against the present state from now on."""

    cdef double fit(
        self, const double* state, const double* change, const Py_ssize_t* rows, Py_ssize_t n
    ) noexcept nogil:
        """The model at a state, up to a constant; its n rows have changed by `change` since `begin`."""
        return 0.0

    cdef bint products(
        self, Py_ssize_t j, const Py_ssize_t* others, Py_ssize_t n, double* out
    ) noexcept nogil:
        """Inner products (n, n_tasks) of column j with others; False where they would take long."""
        return False


cdef inline void subtract(double* state, const double* column, double change, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        state[i] -= change * column[i]


cdef inline double product(const double* a, const double* b, Py_ssize_t n) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        total += a[i] * b[i]
    return total


cdef class GramStorage(Storage):
    """Gram matrices (n_tasks or 1, room, room) and slopes (n_tasks, room) of the first `size` columns."""

    def __cinit__(self):
        self.first = Buffer()

    def __init__(self, const double[:, :, ::1] gram, double[:, ::1] slopes, Py_ssize_t size):
        self.n_tasks, self.n_grams, self._owner = slopes.shape[0], gram.shape[0], (gram, slopes)
        if size > 0:
            self.use(&gram[0, 0, 0], &slopes[0, 0], size, slopes.shape[1])

    cdef void use(self, const double* gram, double* slopes, Py_ssize_t size, Py_ssize_t room) noexcept nogil:
        """Work on other matrices of as many tasks."""
        self.gram, self.state, self.size, self.room = gram, slopes, size, room
        self.n_state = self.n_tasks * room

    cdef void look(self, Py_ssize_t j, double* slopes) noexcept nogil:
        cdef Py_ssize_t t
        for t in range(self.n_tasks):
            slopes[t] = self.state[t * self.room + j]

    cdef void move(self, Py_ssize_t j, const double* change) noexcept nogil:
        cdef Py_ssize_t t, step = self.room * self.room if self.n_grams > 1 else 0
        cdef const double* line = self.gram + j * self.room
        for t in range(self.n_tasks):
            if change[t] != 0.0:
                subtract(self.state + t * self.room, line + t * step, change[t], self.size)

    cdef void begin(self) noexcept nogil:
        if self.first.reserve(self.n_state):
            memcpy(self.first.at, self.state, self.n_state * sizeof(double))

    cdef double fit(
        self, const double* state, const double* change, const Py_ssize_t* rows, Py_ssize_t n
    ) noexcept nogil:
        cdef Py_ssize_t i, t, at
        cdef double total = 0.0
        for i in range(n):
            for t in range(self.n_tasks):
                at = t * self.room + rows[i]
                total += change[i * self.n_tasks + t] * (self.first.at[at] + state[at])
        return -0.5 * total


cdef class ColumnStorage(Storage):
    """Columns x (m, width) of which task t's begin at start[t], and the residuals, which begin at begin[t].

    With `weight` the columns are as they are, centred by `means` on the way, and the state is weight times
    the residuals; without, they are centred and scaled by the roots of the weights beforehand.
    """

    def __init__(
        self, const double[:, ::1] x, const Py_ssize_t[::1] start, const Py_ssize_t[::1] begin,
        const Py_ssize_t[::1] length, double[::1] state, const double[::1] weight, const double[:, ::1] means,
    ):
        self.x, self.start, self.begin_at, self.length = x, start, begin, length
        self.weight, self.means, self.is_weighted = weight, means, weight.shape[0] > 0
        self.n_tasks, self.n_state, self._owner = start.shape[0], state.shape[0], state
        if self.n_state > 0:
            self.state = &state[0]

    cdef void look(self, Py_ssize_t j, double* slopes) noexcept nogil:
        cdef const double* column = &self.x[self.features[j] if self.features != NULL else j, 0]
        cdef Py_ssize_t t
        for t in range(self.n_tasks):
            slopes[t] = product(column + self.start[t], self.state + self.begin_at[t], self.length[t])

    cdef bint products(
        self, Py_ssize_t j, const Py_ssize_t* others, Py_ssize_t n, double* out
    ) noexcept nogil:
        """Of columns that are centred and scaled beforehand."""
        cdef Py_ssize_t k, t
        for k in range(n if not self.is_weighted else 0):
            for t in range(self.n_tasks):
                out[k * self.n_tasks + t] = product(
                    &self.x[j, self.start[t]], &self.x[others[k], self.start[t]], self.length[t]
                )
        return not self.is_weighted

    cdef void move(self, Py_ssize_t j, const double* change) noexcept nogil:
        cdef const double* column = &self.x[self.features[j] if self.features != NULL else j, 0]
        cdef const double* weight
        cdef double* own
        cdef Py_ssize_t t, i, first
        for t in range(self.n_tasks):
            if change[t] == 0.0:
                continue
            own, first = self.state + self.begin_at[t], self.start[t]
            if self.is_weighted:
                weight = &self.weight[self.begin_at[t]]
                for i in range(self.length[t]):
                    own[i] -= change[t] * weight[i] * (column[first + i] - self.means[j, t])
            else:
                subtract(own, column + first, change[t], self.length[t])

    cdef double fit(
        self, const double* state, const double* change, const Py_ssize_t* rows, Py_ssize_t n
    ) noexcept nogil:
        cdef double total = 0.0
        cdef Py_ssize_t i
        if self.is_weighted:
            for i in range(self.n_state):
                total += state[i] * state[i] / self.weight[i]
        else:
            total = product(state, state, self.n_state)
        return 0.5 * total


cdef class SparseStorage(Storage):
    """Columns of which entry e, indptr[j] <= e < indptr[j + 1], is data[e] in row indices[e].

    Row i is of task[i] and weighs weight[i]; `total` are the sums of the weights of each task. The residual
    of row i is state[i] + state[n_rows + task[i]]: a change of a centred column moves the rows of its
    entries,
    and by its means (m, n_tasks) the shift of each task. Weighted sums of the residuals are zero where the
    columns are centred; where they are not, the means are zeros.
    """

    def __init__(
        self, matrix, const Py_ssize_t[::1] task, const double[::1] weight, const double[::1] total,
        const double[:, ::1] means, double[::1] state,
    ):
        self.data, self.indices, self.indptr = matrix
        self.task, self.weight, self.total, self.means = task, weight, total, means
        self.n_tasks, self.n_rows, self.n_state = total.shape[0], task.shape[0], state.shape[0]
        self._owner, self.state = state, &state[0]

    cdef void look(self, Py_ssize_t j, double* slopes) noexcept nogil:
        cdef Py_ssize_t column = self.features[j] if self.features != NULL else j, t, e, i
        cdef const double* shift = self.state + self.n_rows
        for t in range(self.n_tasks):
            slopes[t] = shift[t] * self.total[t] * self.means[column, t]
        for e in range(self.indptr[column], self.indptr[column + 1]):
            i = self.indices[e]
            slopes[self.task[i]] += self.weight[i] * self.data[e] * self.state[i]

    cdef void move(self, Py_ssize_t j, const double* change) noexcept nogil:
        cdef Py_ssize_t column = self.features[j] if self.features != NULL else j, t, e, i
        cdef double* shift = self.state + self.n_rows
        for t in range(self.n_tasks):
            shift[t] += change[t] * self.means[column, t]
        for e in range(self.indptr[column], self.indptr[column + 1]):
            i = self.indices[e]
            self.state[i] -= change[self.task[i]] * self.data[e]

    cdef double fit(
        self, const double* state, const double* change, const Py_ssize_t* rows, Py_ssize_t n
    ) noexcept nogil:
        cdef double total = 0.0, residual
        cdef Py_ssize_t i
        for i in range(self.n_rows):
            residual = state[i] + state[self.n_rows + self.task[i]]
            total += self.weight[i] * residual * residual
        return 0.5 * total
