"""Weighted ridge of many tasks of few rows, compiled: step 1 of Algorithm 1 at p = 2 with the squared loss.

A task costs n^2 d, in the space of its n rows, which is less than calling a library for it.
"""

import math

import numpy as np

from mmtfl.kernels.row_functions import entry, exact


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
