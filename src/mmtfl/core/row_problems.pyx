"""What every row problem is, rows of which more is known, and rows whose solver comes from outside.

The other row problems are in `sum_and_max_rows`, `smooth_rows`, `searched_rows`, `pooled_rows` and
`split_rows`. They hold nothing that changes, so several threads may use one of them at once; what changes is
in the row, or in a workspace.
"""

from cpython.pycapsule cimport PyCapsule_GetContext, PyCapsule_GetName, PyCapsule_GetPointer
from libc.math cimport INFINITY, NAN, fabs
from libc.stdint cimport intptr_t

import numpy as np

from mmtfl.core.row_functions cimport copy, fill

cdef double STRONGEST = 1e300  # from this strength on, only entries free of penalty are left
GONE = STRONGEST


cdef class RowProblem:
    """The problem of one row: minimise sum_t (L_t/2 a_t^2 - g_t a_t) + penalty(a)."""

    cdef void minimise(self, Row* row) noexcept nogil:
        """Write the answer to row.out; the strength is finite."""
        fill(row.out, row.n, 0.0)

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        """penalty(a), with the numbers of the row; NaN where it is not known."""
        return NAN


cdef class Workspace:
    """Memory for rows of up to n entries; one per thread."""

    def __init__(self, Py_ssize_t n):
        self.memory = np.zeros(12 * max(n, 1))
        self.row.n, self.row.thorough, self.row.numbers = n, True, NULL
        self.row.room = &self.memory[0]
        self.row.slope, self.row.out = self.row.room + 8 * n, self.row.room + 9 * n
        self.curvature, self.present = self.row.room + 10 * n, self.row.room + 11 * n
        self.row.curvature, self.row.present = self.curvature, self.present


# -- rows of which more is known: scales, signs, zeros; docs/model.md section 11 -----------------------------


cdef class ScaledRow(RowProblem):
    """Another row problem in the scales of the entries, some of which may have to be positive.

    The problem is diagonal in the entries, so with scales s it is that of g / s and L / s^2, of which the
    answer is divided by s. What is excluded (s = inf) is zero, what is free of penalty (s = 0) has no part in
    the norm, and an entry that may not be negative has no use for a negative slope. The numbers of a row are
    its alpha and eps, the scales of its entries, and which of them are positive. The other problem has half
    of the room.
    """

    cdef readonly RowProblem inner

    def __init__(self, RowProblem inner not None):
        self.inner, self.has_short_cut = inner, inner.has_short_cut

    cdef void minimise(self, Row* row) noexcept nogil:
        cdef const double* g = row.slope
        cdef const double* L = row.curvature
        cdef double* out = row.out
        cdef Row scaled = part_of(row)
        cdef double* curvature = row.room + row.n
        cdef double* present = row.room + 2 * row.n
        cdef const double* scale = row.numbers + 2
        cdef const double* positive = row.numbers + 2 + row.n
        cdef double slope
        cdef Py_ssize_t t
        scaled.n = 0
        for t in range(row.n):
            slope = max(g[t], 0.0) if positive[t] > 0.0 else g[t]
            out[t] = 0.0
            if scale[t] == 0.0:
                out[t] = slope / L[t] if L[t] > 0.0 else 0.0
            elif scale[t] < INFINITY:
                scaled.slope[scaled.n] = slope / scale[t]
                curvature[scaled.n] = L[t] / scale[t] / scale[t]
                present[scaled.n] = row.present[t] * scale[t]
                if positive[t] > 0.0 and row.present[t] < 0.0:
                    present[scaled.n] = 0.0
                scaled.n += 1
        if scaled.n == 0 or row.numbers[0] >= STRONGEST:
            return
        scaled.curvature, scaled.present = curvature, present
        self.inner.minimise(&scaled)
        scaled.n = 0
        for t in range(row.n):
            if 0.0 < scale[t] < INFINITY:
                out[t] = scaled.out[scaled.n] / scale[t]
                scaled.n += 1

    cdef double cost(self, Row* row, const double* a) noexcept nogil:
        cdef Row scaled = part_of(row)
        cdef const double* scale = row.numbers + 2
        cdef const double* positive = row.numbers + 2 + row.n
        cdef Py_ssize_t t
        scaled.n = 0
        for t in range(row.n):
            if (positive[t] > 0.0 and a[t] < 0.0) or (scale[t] == INFINITY and a[t] != 0.0):
                return INFINITY
            if 0.0 < scale[t] < INFINITY:
                scaled.slope[scaled.n] = a[t] * scale[t]
                scaled.n += 1
        return self.inner.cost(&scaled, scaled.slope) if scaled.n > 0 and row.numbers[0] < STRONGEST else 0.0


cdef Row part_of(Row* row) noexcept nogil:
    """A row for some of the entries of another one, inside its room."""
    cdef Row part = row[0]
    part.slope, part.out, part.room = row.room, row.room + 3 * row.n, row.room + 4 * row.n
    return part


# -- a row solver from outside -------------------------------------------------------------------------------

ctypedef void (*RowSolver)(
    intptr_t n, double* g, const double* L, const double* numbers, const double* present, int thorough,
    double* out, void* user_data,
) noexcept nogil

SIGNATURE = (
    "void f(intptr_t n, double *g, const double *L, const double *numbers, const double *present, "
    "int thorough, double *out, void *user_data)"
)


cdef class ForeignRow(RowProblem):
    """A row problem that a C function solves: a ctypes function, a capsule, or scipy's LowLevelCallable.

    The function is called without Python's lock, with the signature of `SIGNATURE`. A ctypes callback that is
    written in Python takes the lock by itself. `out` is zero when it is called, and g may be overwritten.
    With `has_short_cut`, `thorough` is 0 where the local minimum next to the present row is enough.
    """

    cdef RowSolver function
    cdef void* user_data
    cdef object owner

    def __init__(self, function, *, bint has_short_cut=False):
        from scipy import LowLevelCallable

        self.owner = function if isinstance(function, LowLevelCallable) else LowLevelCallable(function)
        capsule = tuple.__getitem__(self.owner, 0)
        name = PyCapsule_GetName(capsule)
        check_signature(name.decode() if name != NULL else "")
        self.function = <RowSolver> PyCapsule_GetPointer(capsule, name)
        self.user_data, self.has_short_cut = PyCapsule_GetContext(capsule), has_short_cut

    cdef void minimise(self, Row* row) noexcept nogil:
        fill(row.out, row.n, 0.0)
        self.function(
            row.n, row.slope, row.curvature, row.numbers, row.present, row.thorough, row.out, self.user_data
        )


def check_signature(found):
    """Refuse a function of another number of arguments, or one that returns something."""
    if found.count(",") != SIGNATURE.count(",") or not found.startswith("void"):
        raise ValueError(f"A row solver has the signature {SIGNATURE!r}, but this function has {found!r}.")


# -- all rows of a matrix ------------------------------------------------------------------------------------
#
# Block b is members[starts[b]:starts[b + 1]] of the rows. Its entries are one long row, row by row, with the
# numbers records[places[b]:places[b + 1]].


def rows_alone(numbers):
    """(members, starts, records, places) of rows that are penalised each for itself."""
    n, n_numbers = numbers.shape
    starts = np.arange(n + 1, dtype=np.intp)
    return starts[:n], starts, numbers.ravel(), n_numbers * starts


def solve_rows(RowProblem problem, G, L, numbers, out):
    """Solve the problem of every row; `numbers` (n_rows, n_numbers) has the strength first."""
    solve_blocks(problem, G, L, *rows_alone(numbers), out)


def row_violations(RowProblem problem, A, gradient, L, numbers):
    """Distance of every row from the answer to its own problem, in units of the gradient; eq. (8)."""
    return block_violations(problem, A, gradient, L, *rows_alone(numbers))


def row_costs(RowProblem problem, const double[:, ::1] A, const double[:, ::1] numbers):
    """The penalty of every row; NaN where it is not known."""
    cdef Py_ssize_t j
    cdef double[::1] out = np.empty(A.shape[0])
    cdef Workspace work = Workspace(A.shape[1])
    with nogil:
        for j in range(A.shape[0]):
            work.row.numbers = &numbers[j, 0]
            out[j] = problem.cost(&work.row, &A[j, 0])
    return np.asarray(out)


def next_row(
    RowProblem problem, const double[::1] g, const double[::1] L, const double[::1] numbers,
    const double[::1] present, *, bint thorough,
):
    """The row that replaces the present one in a sweep."""
    cdef double[::1] out = np.empty(g.shape[0])
    cdef Workspace work = Workspace(g.shape[0])
    copy(&g[0], g.shape[0], work.row.slope)
    work.row.curvature, work.row.numbers, work.row.present = &L[0], &numbers[0], &present[0]
    work.row.out, work.row.thorough = &out[0], thorough
    problem.solve(&work.row)
    return np.asarray(out)


def solve_blocks(
    RowProblem problem, const double[:, ::1] G, const double[:, ::1] L, const Py_ssize_t[::1] members,
    const Py_ssize_t[::1] starts, const double[::1] records, const Py_ssize_t[::1] places, double[:, ::1] out,
):
    """Solve the problem of every block of rows."""
    cdef Py_ssize_t b, i, j, T = G.shape[1]
    cdef Workspace work = Workspace(T * np.diff(starts).max(initial=1))
    with nogil:
        for b in range(starts.shape[0] - 1):
            work.row.n = T * (starts[b + 1] - starts[b])
            work.row.numbers = &records[places[b]]
            for i in range(starts[b + 1] - starts[b]):
                j = members[starts[b] + i]
                copy(&G[j, 0], T, work.row.slope + i * T)
                copy(&L[j, 0], T, work.curvature + i * T)
            problem.solve(&work.row)
            for i in range(starts[b + 1] - starts[b]):
                copy(work.row.out + i * T, T, &out[members[starts[b] + i], 0])


def block_violations(
    RowProblem problem, const double[:, ::1] A, const double[:, ::1] gradient, const double[:, ::1] L,
    const Py_ssize_t[::1] members, const Py_ssize_t[::1] starts, const double[::1] records,
    const Py_ssize_t[::1] places,
):
    """Distance of every row from the answer to its block's own problem, in units of the gradient; eq. (8)."""
    cdef Py_ssize_t b, i, j, t, T = A.shape[1]
    cdef double[::1] out = np.zeros(A.shape[0])
    cdef Workspace work = Workspace(T * np.diff(starts).max(initial=1))
    cdef double distance, largest
    with nogil:
        for b in range(starts.shape[0] - 1):
            work.row.n = T * (starts[b + 1] - starts[b])
            work.row.numbers = &records[places[b]]
            for i in range(starts[b + 1] - starts[b]):
                j = members[starts[b] + i]
                copy(&A[j, 0], T, work.present + i * T)
                copy(&L[j, 0], T, work.curvature + i * T)
                for t in range(T):
                    work.row.slope[i * T + t] = L[j, t] * A[j, t] - gradient[j, t]
            problem.solve(&work.row)
            largest = 0.0
            for t in range(work.row.n):
                distance = work.curvature[t] * fabs(work.present[t] - work.row.out[t])
                largest = distance if distance > largest else largest
            for i in range(starts[b + 1] - starts[b]):
                out[members[starts[b] + i]] = largest
    return np.asarray(out)
