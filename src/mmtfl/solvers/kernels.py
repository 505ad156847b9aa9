"""Compiled row descent on a least-squares model of a few columns; docs/model.md section 6.

    minimise over A (m, T)   sum_t 1/2 ||R_t - X_t (a_t - a0_t)||^2 + sum_j phi_j(||a_j||_p)

The model is held in one of two ways: by residuals (`x`, `residual`), or by Gram matrices (`gram`) and the
current slopes X_t.T R_t (`slope`). A row update costs 2 N in the first and m T in the second.
"""

import numpy as np
from numba import njit

from mmtfl.objective.row_prox import FAST, improve_row, norm_p, phi, row_value, solve_row

_compile = njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")

MEMORY = 5  # sweeps behind one extrapolation


@_compile
def _product(u, v, length):
    total = 0.0
    for i in range(length):
        total += u[i] * v[i]
    return total


@_compile
def _subtract(target, source, factor, length):
    for i in range(length):
        target[i] -= source[i] * factor


@_compile
def gram_residual(gram, A, A0, slope0, m, slope):
    """slope = slope0 - H (A - A0), task by task; gram has one matrix, or one per task."""
    n_tasks = A.shape[1]
    for t in range(n_tasks):
        H = gram[t if gram.shape[0] > 1 else 0]
        for i in range(m):
            slope[t, i] = slope0[t, i]
        for j in range(m):
            change = A[j, t] - A0[j, t]
            if change != 0.0:
                _subtract(slope[t], H[j], change, m)


@_compile
def design_residual(x, x_start, offsets, A, A0, residual0, m, residual):
    """residual = residual0 - X (A - A0), task by task."""
    for i in range(residual0.size):
        residual[i] = residual0[i]
    for j in range(m):
        for t in range(A.shape[1]):
            change = A[j, t] - A0[j, t]
            if change != 0.0:
                length = offsets[t + 1] - offsets[t]
                _subtract(residual[offsets[t] :], x[x_start[t] :, j], change, length)


@_compile
def model_value(use_gram, residual, slope, slope0, A, A0, m, kind, p, r, alpha, eps):
    """Value of the model up to a constant."""
    total = 0.0
    if use_gram:
        for t in range(A.shape[1]):
            for j in range(m):
                total -= 0.5 * (A[j, t] - A0[j, t]) * (slope0[t, j] + slope[t, j])
    else:
        for i in range(residual.size):
            total += 0.5 * residual[i] * residual[i]
    for j in range(m):
        norm = norm_p(A[j], p)
        if norm > 0.0:
            total += phi(norm, kind, p, r, alpha[j], eps[j])
    return total


@_compile
def _mixing_weights(products, weights):
    """Weights of sum one that minimise ||sum_k w_k u_k||, from the products u_k.u_l; False if singular."""
    n = weights.size
    trace = 0.0
    for k in range(n):
        trace += products[k, k]
    for k in range(n):
        products[k, k] += 1e-12 * trace
        weights[k] = 1.0
    for k in range(n):
        if products[k, k] <= 0.0:
            return False
        for row in range(k + 1, n):
            factor = products[row, k] / products[k, k]
            for col in range(k, n):
                products[row, col] -= factor * products[k, col]
            weights[row] -= factor * weights[k]
    total = 0.0
    for k in range(n - 1, -1, -1):
        for col in range(k + 1, n):
            weights[k] -= products[k, col] * weights[col]
        weights[k] /= products[k, k]
        total += weights[k]
    if not abs(total) > 1e-14:
        return False
    for k in range(n):
        weights[k] /= total
    return True


@_compile
def _extrapolate(iterates, m, out):
    """Anderson extrapolation of the last sweeps' A (MEMORY + 1 of them) into out."""
    products, weights = np.zeros((MEMORY, MEMORY)), np.empty(MEMORY)
    n_tasks = out.shape[1]
    for k in range(MEMORY):
        for l in range(k + 1):
            total = 0.0
            for j in range(m):
                for t in range(n_tasks):
                    step_k = iterates[k + 1, j, t] - iterates[k, j, t]
                    step_l = iterates[l + 1, j, t] - iterates[l, j, t]
                    total += step_k * step_l
            products[k, l] = products[l, k] = total
    if not _mixing_weights(products, weights):
        return False
    for j in range(m):
        for t in range(n_tasks):
            total = 0.0
            for k in range(MEMORY):
                total += weights[k] * iterates[k + 1, j, t]
            out[j, t] = total
    return True


@_compile
def _move_if_lower(
    use_gram, x, x_start, offsets, gram, residual0, slope0, A0, candidate, A, residual, slope,
    kind, p, r, alpha, eps,
):  # fmt: skip
    """Put A (and what the model holds of it) at the candidate if the model is lower there."""
    m = A.shape[0]
    before = model_value(use_gram, residual, slope, slope0, A, A0, m, kind, p, r, alpha, eps)
    new_residual, new_slope = residual, slope
    if use_gram:
        new_slope = np.empty_like(slope)
        gram_residual(gram, candidate, A0, slope0, m, new_slope)
    else:
        new_residual = np.empty_like(residual)
        design_residual(x, x_start, offsets, candidate, A0, residual0, m, new_residual)
    after = model_value(use_gram, new_residual, new_slope, slope0, candidate, A0, m, kind, p, r, alpha, eps)
    if not after < before:
        return False
    A[:] = candidate
    if use_gram:
        slope[:] = new_slope
    else:
        residual[:] = new_residual
    return True


@_compile
def descend(
    use_gram, x, x_start, offsets, gram, curvature, residual0, slope0,
    rows, A, kind, p, r, alpha, eps, max_sweeps, tolerance,
):  # fmt: skip
    """Sweep over `rows` until no entry moves its slope by more than tolerance; A is changed in place.

    Only the first m = A.shape[0] columns of x, gram, curvature and slope0 are used (they may have room for
    more). Returns the sweeps done, and the largest move of the last and of the first.
    """
    m, n_tasks = A.shape
    A0 = A.copy()
    residual, slope = residual0.copy(), slope0.copy()
    g, L, new = np.empty(n_tasks), np.empty(n_tasks), np.empty(n_tasks)
    iterates = np.empty((MEMORY + 1, m, n_tasks))
    candidate = np.empty((m, n_tasks))
    iterates[0] = A
    n_stored = 1
    guarded = kind != 0 or r < 1.0  # the row solution may be a worse local minimum
    largest, first = 0.0, 0.0
    # A thorough sweep finds each row's best answer, the others improve on the present one (p = 1): the first
    # and the last are thorough.
    thorough = True
    for sweep in range(max_sweeps):
        largest = 0.0
        for index in range(rows.size):
            j = rows[index]
            for t in range(n_tasks):
                L[t] = curvature[j, t]
                if use_gram:
                    g[t] = slope[t, j]
                else:
                    length = offsets[t + 1] - offsets[t]
                    g[t] = _product(x[x_start[t] :, j], residual[offsets[t] :], length)
                g[t] += L[t] * A[j, t]
            solve_row(g, L, kind, p, r, alpha[j], eps[j], 0.0 if thorough else norm_p(A[j], p), new)
            if guarded and norm_p(A[j], p) > 0.0:
                current = row_value(A[j], g, L, kind, p, r, alpha[j], eps[j])
                # up to rounding: near a minimum both values agree, and the move must still be made
                if row_value(new, g, L, kind, p, r, alpha[j], eps[j]) > current + 1e-12 * abs(current):
                    if p == 1.0 or p == np.inf:
                        continue
                    improve_row(A[j], g, L, kind, p, r, alpha[j], eps[j], new)
            for t in range(n_tasks):
                change = new[t] - A[j, t]
                if change == 0.0:
                    continue
                largest = max(largest, L[t] * abs(change))
                A[j, t] = new[t]
                if use_gram:
                    _subtract(slope[t], gram[t if gram.shape[0] > 1 else 0, j], change, m)
                else:
                    length = offsets[t + 1] - offsets[t]
                    _subtract(residual[offsets[t] :], x[x_start[t] :, j], change, length)
        if sweep == 0:
            first = largest
        if largest <= tolerance:
            if thorough:
                return sweep + 1, largest, first
            thorough = True
            continue
        thorough = False
        iterates[n_stored] = A
        n_stored += 1
        if n_stored == MEMORY + 1:
            n_stored = 1
            found = _extrapolate(iterates, m, candidate) and _move_if_lower(
                use_gram, x, x_start, offsets, gram, residual0, slope0, A0, candidate, A, residual, slope,
                kind, p, r, alpha, eps,
            )  # fmt: skip
            # A steady drift has nothing to extrapolate (all steps are equal): follow it while it goes down
            reach = 10.0
            while not found and reach < 1e7:
                for j in range(m):
                    for t in range(n_tasks):
                        candidate[j, t] = A[j, t] + reach * (iterates[MEMORY, j, t] - iterates[0, j, t])
                found = not _move_if_lower(
                    use_gram, x, x_start, offsets, gram, residual0, slope0, A0, candidate, A, residual, slope,
                    kind, p, r, alpha, eps,
                )  # fmt: skip
                reach *= 10.0
            iterates[0] = A
    return max_sweeps, largest, first
