"""Compiled minima of many small tasks under bounds of their rows, and how they change with these.

    v(m) = sum_t min over a_t of 1/2 ||r_t - X_t (a_t - a0_t)||_h^2 + sum_j eps_j max(|a_jt| - m_j, 0)

In every task an entry is held at its bound, or free: inside the bound, or beyond it. Sweeps over the entries
tell which are free, and one linear system where these go (docs/additive.md section 3). The free ones follow
the bounds, so v bends as far as the columns of held entries differ from those of free ones.

Within a task the columns are centred and scaled by the roots of the weights h.
"""

import math

import numpy as np

from mmtfl.kernels.row_functions import exact, exact_entry, fill
from mmtfl.kernels.task_sweeps import best_entry, solve_definite

_ROOM = 32  # free entries of a task whose linear system is solved
_NOT_SINGULAR = 1.0 + 1e-11  # factor of the diagonal of a Gram matrix of more columns than rows
_LARGEST = 1e200  # change of an entry that is no number to trust
_NO_FORCE = 1e-12  # an entry whose bound moves its slope by more than this is held by it
_DEPENDENT = 1e-9  # share of a column's length that is left of it if it depends on others


@exact
def _product(a, b, n):
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@exact
def _move(x, n, a, r, j, change):
    """Change an entry, and the residual with it."""
    a[j] += change
    for i in range(n):
        r[i] -= change * x[j, i]


@exact
def _value(n, a, r, bound, eps):
    """The model of one task."""
    total = 0.5 * _product(r, r, n)
    for j in range(a.size):
        if abs(a[j]) > bound[j]:
            total += eps[j] * (abs(a[j]) - bound[j])
    return total


@exact
def _sweep(x, n, L, a, r, bound, eps):
    """One sweep over the entries of a task; the largest move of a slope."""
    largest = 0.0
    for j in range(a.size):
        best = best_entry(L[j] * a[j] + _product(x[j], r, n), L[j], np.inf, bound[j], eps[j])
        if best != a[j]:
            largest = max(largest, L[j] * abs(best - a[j]))
            _move(x, n, a, r, j, best - a[j])
            a[j] = best  # exactly at a bound, where it is held there
    return largest


@exact
def _next_bound(a, change, bound):
    """Where a free entry that changes meets a bound, which may be infinitely far."""
    if abs(a) < bound:
        return math.copysign(bound, change)
    return math.copysign(bound, a) if (a > 0.0) != (change > 0.0) else math.copysign(np.inf, change)


@exact
def _go_to_face_minimum(x, n, L, a, r, bound, eps, H, v, free):
    """Go to the least model of the free entries, holding those at a bound that are stopped by it on the way.

    False if rounding prevents it, or if more are free than there is room for.
    """
    for _ in range(a.size):
        m = 0
        for j in range(a.size):
            if abs(a[j]) != bound[j] and L[j] > 0.0:
                if m == free.size:
                    return False
                free[m] = j
                m += 1
        for i in range(m):
            j = free[i]
            v[i] = _product(x[j], r, n)
            if abs(a[j]) > bound[j]:
                v[i] -= math.copysign(eps[j], a[j])
            for k in range(i):
                H[i, k] = _product(x[j], x[free[k]], n)
            H[i, i] = _NOT_SINGULAR * L[j]
        if m == 0 or not solve_definite(H, v, m):
            return False
        step, first, end = 1.0, -1, 0.0
        for i in range(m):
            if not abs(v[i]) < _LARGEST:
                return False
            stop = _next_bound(a[free[i]], v[i], bound[free[i]])
            if v[i] != 0.0 and (stop - a[free[i]]) / v[i] < step:
                step, first, end = (stop - a[free[i]]) / v[i], i, stop
        for i in range(m):
            _move(x, n, a, r, free[i], end - a[free[i]] if i == first else step * v[i])
        if first < 0:
            return True
        a[free[first]] = end
    return True


@exact
def _settle(x, n, L, a, r, bound, eps, tolerance, max_sweeps, H, v, free, stored):
    """Bring one task to its minimum, until no slope moves by more than the tolerance."""
    m = a.size
    for _ in range(max_sweeps):
        if _sweep(x, n, L, a, r, bound, eps) <= tolerance:
            return
        before = _value(n, a, r, bound, eps)
        for j in range(m):
            stored[j] = a[j]
        for i in range(n):
            stored[m + i] = r[i]
        _go_to_face_minimum(x, n, L, a, r, bound, eps, H, v, free)
        if not _value(n, a, r, bound, eps) < before:
            for j in range(m):
                a[j] = stored[j]
            for i in range(n):
                r[i] = stored[m + i]


@exact
def _remove(v, basis, n_basis, n):
    """Take the directions of an orthonormal basis from v."""
    for k in range(n_basis):
        share = _product(v, basis[k], n)
        for i in range(n):
            v[i] -= share * basis[k, i]


@exact
def _extend(basis, n_basis, v, n):
    """Add the direction of v to an orthonormal basis, unless it is there; the number of its vectors."""
    if n_basis == n:
        return n
    w = basis[n_basis]
    for i in range(n):
        w[i] = v[i]
    for _ in range(2):  # the second time takes what rounding left
        _remove(w, basis, n_basis, n)
    left = _product(w, w, n)
    if left <= _DEPENDENT * _DEPENDENT * _product(v, v, n):
        return n_basis
    for i in range(n):
        w[i] /= math.sqrt(left)
    return n_basis + 1


@exact
def _add_derivatives(x, n, L, a, r, bound, eps, basis, held, forces, curvatures):
    """Add what a task at its minimum pulls at the bounds, and how its pull falls as these rise.

    The columns of held entries change: they are not needed any more.
    """
    n_basis, n_held = 0, 0
    for j in range(a.size):
        force = 0.0
        if abs(a[j]) > bound[j]:
            force = eps[j]
        elif abs(a[j]) == bound[j] and bound[j] > 0.0:
            force = min(max(math.copysign(1.0, a[j]) * _product(x[j], r, n), 0.0), eps[j])
        forces[j] += force
        if _NO_FORCE * L[j] * bound[j] < force < eps[j]:
            held[n_held] = j
            n_held += 1
    if n_held == 0:
        return
    k = 0
    for j in range(a.size):
        if k < n_held and held[k] == j:
            k += 1
        elif a[j] != 0.0 or bound[j] > 0.0:
            n_basis = _extend(basis, n_basis, x[j], n)
    for p in range(n_held):
        column = x[held[p]]
        _remove(column, basis, n_basis, n)
        for i in range(n):
            column[i] *= math.copysign(1.0, a[held[p]])
        for q in range(p + 1):
            curvatures[held[p], held[q]] += _product(column, x[held[q]], n)


@exact_entry
def settle_bounded(
    x, start, length, h, means, curvature, state, begin, rows, A, old_bound, bound, eps, tolerance,
    max_sweeps, forces, curvatures,
):  # fmt: skip
    """Bring every task to its minimum over `rows`, whose bounds were the old ones before.

    A and state change in place; x, start, length, h, means, curvature and begin are as in `kernels.sweeps`.
    forces (m) receives the tasks' pull at the bounds, minus the slopes of v, and curvatures (m, m) those
    of v in its lower half.
    """
    m, most = rows.size, 0
    for t in range(length.size):
        most = max(most, length[t])
    own, r, root = np.empty((m, most)), np.empty(most), np.ones(most)
    L, a, stored, basis = np.empty(m), np.empty(m), np.empty(m + most), np.empty((most, most))
    room = min(m, _ROOM)
    H, v, free, held = np.empty((room, room)), np.empty(room), np.empty(room, np.intp), np.empty(m, np.intp)
    fill(forces, 0.0)
    fill(curvatures.ravel(), 0.0)
    for t in range(length.size):
        n, first = length[t], begin[t]
        for i in range(n):
            if h.size > 0:
                root[i] = math.sqrt(h[first + i])
            r[i] = state[first + i] / root[i]
        for k in range(m):
            j = rows[k]
            L[k], a[k] = curvature[j, t], A[j, t]
            mean = means[j, t] if h.size > 0 else 0.0
            for i in range(n):
                own[k, i] = root[i] * (x[j, start[t] + i] - mean)
            if abs(a[k]) == old_bound[k] and bound[k] != old_bound[k] and L[k] > 0.0:  # held entries follow
                goal = math.copysign(bound[k], a[k])
                _move(own, n, a, r, k, goal - a[k])
                a[k] = goal
        _settle(own, n, L, a, r, bound, eps, tolerance, max_sweeps, H, v, free, stored)
        for k in range(m):
            A[rows[k], t] = a[k]
        for i in range(n):
            state[first + i] = r[i] * root[i]
        _add_derivatives(own, n, L, a, r, bound, eps, basis, held, forces, curvatures)
