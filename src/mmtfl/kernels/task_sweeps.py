"""Compiled coordinate descent on one task after the other, each to its own end; docs/model.md section 6.

    minimise over a_t (m)   1/2 ||r_t - X_t (a_t - a0_t)||_h^2 + sum_j psi_j(a_jt),   for every task t

Among many tasks a few are slow, and here the others do not wait for them. Each psi is a sum of two parts of
its entry: a weighted power up to a limit, and `eps` times what is beyond; see `objective.row_sizes`. The
state of the model is as in `kernels.sweeps`, with residuals.
"""

import math

import numpy as np

from mmtfl.kernels.gram_descent import MEMORY, mixing_weights
from mmtfl.kernels.row_functions import copy, entry, exact, exact_entry, power_root

FEW_ROWS = 32  # of a task whose ridge is solved at once
_LARGEST = 1e200  # inverse of a weight that is next to none
_ROUNDING = 1e-15  # an entry that changes by no more than this share of it stands still
_NOT_SINGULAR = 1.0 + 1e-11  # factor of the diagonal of a Gram matrix of more columns than rows


@exact
def best_entry(g, L, p, weight, eps):
    """The number a of least L/2 a^2 - g a + psi(a); zero where L is."""
    size = abs(g)
    if L <= 0.0 or size == 0.0:
        return 0.0
    if p == 1.0:
        first = max(size - weight, 0.0) / L
    elif p == np.inf:
        first = min(size / L, weight)
    else:
        first = power_root(size, L, weight * p, p - 1.0)
    # where the first part alone is steeper than eps, the second is used
    return math.copysign(max(first, (size - eps) / L), g)


@exact
def _value(h, n, a, r, p, weight, eps, limit):
    """The model of one task."""
    total = 0.0
    for i in range(n):
        total += 0.5 * r[i] * r[i] / h[i]
    for j in range(a.size):
        size = min(abs(a[j]), limit[j])
        if size > 0.0 and p < np.inf:
            total += weight[j] * (size if p == 1.0 else size**p)
        if abs(a[j]) > limit[j]:
            total += eps[j] * (abs(a[j]) - limit[j])
    return total


@exact
def sweep(x, h, n, L, a, r, p, weight, eps, only_kept):
    """One sweep over a task's entries, or those that are not zero; the largest move of a slope."""
    largest = 0.0
    for j in range(a.size):
        if only_kept and a[j] == 0.0:
            continue
        slope = L[j] * a[j]
        for i in range(n):
            slope += x[j, i] * r[i]
        change = best_entry(slope, L[j], p, weight[j], eps[j]) - a[j]
        if change != 0.0:
            a[j] += change
            for i in range(n):
                r[i] -= change * h[i] * x[j, i]
            if abs(change) > _ROUNDING * abs(a[j]):
                largest = max(largest, L[j] * abs(change))
    return largest


@exact
def _store(a, r, n, out):
    copy(a, out[: a.size])
    copy(r[:n], out[a.size : a.size + n])


@exact
def _restore(a, r, n, stored):
    copy(stored[: a.size], a)
    copy(stored[a.size : a.size + n], r[:n])


@exact
def _mix(memory, m, size, products, mixing):
    """Where the stored sweeps lead goes to memory[1], and the last of them to memory[0]; if there is a way.

    The first m of `size` numbers are the entries, whose steps count.
    """
    for i in range(MEMORY):
        for k in range(i + 1):
            total = 0.0
            for j in range(m):
                total += (memory[i + 1, j] - memory[i, j]) * (memory[k + 1, j] - memory[k, j])
            products[i, k] = products[k, i] = total
    found = mixing_weights(products, mixing)
    copy(memory[MEMORY, :size], memory[0, :size])
    if found:
        for i in range(size):
            mixed = 0.0
            for k in range(MEMORY):
                mixed += mixing[k] * memory[k + 1, i]
            memory[1, i] = mixed
    return found


@exact
def keep_signs(x, h, n, a, r, weight, eps, H, v, kept):
    """At p = 1: go to the least model of the entries kept, at their signs, dropping those that vanish first.

    Each step ends at that minimum or where an entry is zero, so that the model falls in all of them. False
    if more entries are kept than there is room for, or if rounding prevents a step.
    """
    for _ in range(a.size):
        m = 0
        for j in range(a.size):
            if a[j] != 0.0:
                if m == kept.size:
                    return False
                kept[m] = j
                m += 1
        for i in range(m):
            j = kept[i]
            v[i] = -math.copysign(min(weight[j], eps[j]), a[j])
            for q in range(n):
                v[i] += x[j, q] * r[q]
            for k in range(i + 1):
                H[i, k] = 0.0
                for q in range(n):
                    H[i, k] += x[j, q] * h[q] * x[kept[k], q]
            H[i, i] *= _NOT_SINGULAR
        if m == 0 or not solve_definite(H, v, m):
            return False
        step, first = 1.0, -1
        for i in range(m):
            if not abs(v[i]) < _LARGEST:
                return False
            if a[kept[i]] * (a[kept[i]] + step * v[i]) <= 0.0:
                step, first = -a[kept[i]] / v[i], i
        for i in range(m):
            j = kept[i]
            change = -a[j] if i == first else step * v[i]
            a[j] = 0.0 if i == first else a[j] + change
            for q in range(n):
                r[q] -= change * h[q] * x[j, q]
        if first < 0:
            break
    return True


@exact
def _wanted(x, n, L, a, r, weight, eps, tolerance):
    """At p = 1: which of the entries that are zero asks most to be taken up, or -1; and its slope."""
    best, steepest, most = -1, 0.0, tolerance
    for j in range(a.size):
        if a[j] == 0.0 and L[j] > 0.0:
            slope = 0.0
            for i in range(n):
                slope += x[j, i] * r[i]
            if abs(slope) - min(weight[j], eps[j]) > most:
                best, steepest, most = j, slope, abs(slope) - min(weight[j], eps[j])
    return best, steepest


@exact
def take_up(x, h, n, L, a, r, weight, eps, tolerance, H, v, kept):
    """At p = 1: go to the least model of the entries kept, take up the one that asks for it most, and again.

    True if in the end none asks for more than the tolerance; False if rounding prevents a step.
    """
    is_empty = True
    for j in range(a.size):
        is_empty = is_empty and a[j] == 0.0
    for _ in range(2 * a.size):
        if not is_empty and not keep_signs(x, h, n, a, r, weight, eps, H, v, kept):
            return False
        is_empty = False
        best, slope = _wanted(x, n, L, a, r, weight, eps, tolerance)
        if best < 0:
            return True
        a[best] = best_entry(slope, L[best], 1.0, weight[best], eps[best])
        for i in range(n):
            r[i] -= a[best] * h[i] * x[best, i]
    return False


@exact
def settle(
    x, h, n, L, a, r, p, weight, eps, limit, tolerance, max_sweeps, memory, products, mixing, H, v, kept
):  # fmt: skip
    """Sweep over one task until no slope moves by more than the tolerance; the number of sweeps.

    After every few sweeps the task goes where they lead, if its model is lower there. At p = 1 there are
    sweeps only where rounding prevents the steps between signs.
    """
    only_kept, n_stored = False, 0
    if p == 1.0 and take_up(x, h, n, L, a, r, weight, eps, 0.01 * tolerance, H, v, kept):
        return 0
    _store(a, r, n, memory[0])
    for done in range(max_sweeps):
        largest = sweep(x, h, n, L, a, r, p, weight, eps, only_kept)
        if largest <= tolerance and not only_kept:
            return done + 1
        only_kept = largest > tolerance
        n_stored += 1
        _store(a, r, n, memory[n_stored])
        if n_stored == MEMORY:
            n_stored = 0
            value = _value(h, n, a, r, p, weight, eps, limit)
            if p == 1.0 and keep_signs(x, h, n, a, r, weight, eps, H, v, kept):
                copy(memory[MEMORY], memory[0])
                only_kept = False
            elif _mix(memory, a.size, a.size + n, products, mixing):
                _restore(a, r, n, memory[1])
            if not _value(h, n, a, r, p, weight, eps, limit) < value:
                _restore(a, r, n, memory[0])
            _store(a, r, n, memory[0])
    return max_sweeps


@exact
def ridge(x, h, n, a, r, weight, H, v, D):
    """The least model of one task at p = 2, in the space of its rows; False if rounding prevents it.

    With D = 1 / (2 w): a = D X' v where (1/h + X D X') v = r/h + X a, and v is the new state h r.
    """
    for j in range(a.size):
        D[j] = 0.5 / weight[j]
        if not D[j] < _LARGEST:
            return False
    for i in range(n):
        v[i] = r[i] / h[i]
        for k in range(i + 1):
            H[i, k] = 1.0 / h[i] if k == i else 0.0
    for j in range(a.size):
        for i in range(n):
            v[i] += x[j, i] * a[j]
            for k in range(i + 1):
                H[i, k] += x[j, i] * D[j] * x[j, k]
    if not solve_definite(H, v, n):
        return False
    for j in range(a.size):
        a[j] = 0.0
        for i in range(n):
            a[j] += D[j] * x[j, i] * v[i]
    copy(v[:n], r[:n])
    return True


@exact_entry
def settle_tasks(
    x, start, length, h, means, curvature, state, begin, rows, A, p, weight, eps, limit, tolerance, n_sweeps,
    max_sweeps,
):  # fmt: skip
    """Descend in every task over `rows`, of which weight, eps and limit are given, to the task's tolerance.

    A and state change in place, and n_sweeps receives those of each task; x, start, length, h, means,
    curvature and begin are as in `kernels.sweeps`.
    """
    m, most = rows.size, 0
    for t in range(length.size):
        most = max(most, length[t])
    own, own_h, r = np.empty((m, most)), np.ones(most), np.empty(most)
    L, a, memory = np.empty(m), np.empty(m), np.empty((MEMORY + 1, m + most))
    products, mixing = np.empty((MEMORY, MEMORY)), np.empty(MEMORY)
    H, v, D, is_ridge = np.empty((FEW_ROWS, FEW_ROWS)), np.empty(FEW_ROWS), np.empty(m), p == 2.0
    kept = np.empty(min(m, FEW_ROWS), dtype=np.intp)
    for index in range(m):
        is_ridge = is_ridge and eps[index] == np.inf
    for t in range(length.size):
        n, first = length[t], begin[t]
        for i in range(n):
            r[i] = state[first + i]
            if h.size > 0:
                own_h[i] = h[first + i]
        for index in range(m):
            j = rows[index]
            L[index], a[index] = curvature[j, t], A[j, t]
            mean = means[j, t] if h.size > 0 else 0.0
            for i in range(n):
                own[index, i] = x[j, start[t] + i] - mean
        if is_ridge and n <= FEW_ROWS and ridge(own, own_h, n, a, r, weight, H, v, D):
            n_sweeps[t] = 0
        else:
            n_sweeps[t] = settle(
                own, own_h, n, L, a, r, p, weight, eps, limit, tolerance[t], max_sweeps, memory, products,
                mixing, H, v, kept,
            )  # fmt: skip
        for index in range(m):
            A[rows[index], t] = a[index]
        copy(r[:n], state[first : first + n])


@entry
def centre_tasks(x, offsets, weight, is_centred, constant, means, spread):
    """Centre the columns of x (rows, features) task by task and scale its rows by the roots of their weights.

    `spread` is the root of a column's weighted square sum. Where that of the squares is below `constant`
    times the raw one it is rounding, and the column is set to zero.
    """
    for t in range(offsets.size - 1):
        total = 0.0
        for i in range(offsets[t], offsets[t + 1]):
            total += weight[i]
        for j in range(x.shape[1]):
            mean, raw, square = 0.0, 0.0, 0.0
            for i in range(offsets[t], offsets[t + 1]):
                mean += weight[i] * x[i, j]
                raw += weight[i] * x[i, j] * x[i, j]
            mean = mean / total if is_centred else 0.0
            for i in range(offsets[t], offsets[t + 1]):
                x[i, j] = (x[i, j] - mean) * math.sqrt(weight[i])
                square += x[i, j] * x[i, j]
            if is_centred and square <= constant * raw:
                square = 0.0
                for i in range(offsets[t], offsets[t + 1]):
                    x[i, j] = 0.0
            means[t, j], spread[t, j] = mean, math.sqrt(square)


# -- weighted ridge of many tasks of few rows: step 1 of Algorithm 1 at p = 2 with the squared loss ----------
# A task costs n^2 d, in the space of its n rows, which is less than calling a library for it.


@exact
def solve_definite(H, v, n):
    """Solve H u = v by Cholesky, in place, from the lower half of H; False if H is not positive definite."""
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
        H[i, i] = math.sqrt(H[i, i])
        v[i] /= H[i, i]
    for i in range(n - 1, -1, -1):
        for m in range(i + 1, n):
            v[i] -= H[m, i] * v[m]
        v[i] /= H[i, i]
    return True


@entry
def solve_tasks(x, offsets, target, kept, inverse, common, A, losses):
    """Minimise 1/2 ||target - x a||^2 + sum_j (a_j - common_j)^2 / inverse_j over kept j, in each task.

    `losses` are the halved square sums; nan tells that rounding made a task's matrix indefinite.
    """
    most = 0
    for t in range(offsets.size - 1):
        most = max(most, offsets[t + 1] - offsets[t])
    H, v = np.empty((most, most)), np.empty(most)
    for t in range(offsets.size - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        for i in range(n):
            own = x[first + i]
            rest = target[first + i]
            for index in range(kept.size):
                rest -= own[kept[index]] * common[kept[index]]
            v[i] = rest
            for k in range(i + 1):
                other, total = x[first + k], 2.0 if k == i else 0.0
                for index in range(kept.size):
                    j = kept[index]
                    total += own[j] * inverse[j] * other[j]
                H[i, k] = total
        if not solve_definite(H, v, n):
            losses[t] = np.nan
            continue
        for index in range(kept.size):
            j = kept[index]
            total = 0.0
            for i in range(n):
                total += x[first + i, j] * v[i]
            A[t, j] = common[j] + inverse[j] * total
        losses[t] = 0.0
        for i in range(n):
            rest = target[first + i]
            for index in range(kept.size):
                rest -= x[first + i, kept[index]] * A[t, kept[index]]
            losses[t] += 0.5 * rest * rest
