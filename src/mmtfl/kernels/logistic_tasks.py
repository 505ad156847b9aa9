"""Compiled Newton steps on one task after the other: step 1 of Algorithm 1 with the logistic loss.

    minimise over a_t (m), b_t   sum_i v_i log(1 + exp(-y_i z_i)) + sum_j w_j |a_jt - c_j|^p,   z = X_t a_t + b_t

Each step is a least-squares model with the second derivatives of the loss as weights, solved as in
`kernels.task_sweeps`, and is halved until the objective of the task falls.
"""

import math

import numpy as np

from mmtfl.kernels.gram_descent import MEMORY
from mmtfl.kernels.row_functions import exact, exact_entry
from mmtfl.kernels.task_sweeps import FEW_ROWS, ridge, settle, take_up

_LEAST_BEND = 0.25e-8  # of a row: second derivatives vanish where a class is certain
_MODEL = 0.03  # accuracy of a model, as a share of the largest slope before it
_FINER = 0.3  # and of what is asked of the task
_SHORTEST = 1e-9  # step, as a share of Newton's
_ROUNDING = 1e-15  # of the objective: what rises by less has not risen


@exact
def _loss(y, z, v, n):
    total = 0.0
    for i in range(n):
        margin = y[i] * z[i]
        total += v[i] * (math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0))
    return total


@exact
def _penalty(a, weight, p):
    total = 0.0
    for j in range(a.size):
        size = abs(a[j])
        if size > 0.0:
            total += weight[j] * (size if p == 1.0 else size**p)
    return total


@exact
def _bend(y, z, v, n, is_centred, h, r):
    """Weights h and state r of the model at z; the move of the constant that goes with it, and its slope."""
    total, slope = 0.0, 0.0
    for i in range(n):
        margin = y[i] * z[i]
        small = math.exp(-abs(margin))
        r[i] = v[i] * y[i] * ((small if margin > 0.0 else 1.0) / (1.0 + small))
        h[i] = v[i] * max(small / ((1.0 + small) * (1.0 + small)), _LEAST_BEND)
        slope += r[i]
        total += h[i]
    if not is_centred:
        return 0.0, 0.0
    shift = slope / total
    for i in range(n):
        r[i] -= h[i] * shift
    return shift, abs(slope)


@exact
def _centre(x, h, n, is_centred, constant, own, means, L):
    """The columns about their weighted means, and their square sums; zero for a column that is constant."""
    total = 0.0
    for i in range(n):
        total += h[i]
    for j in range(x.shape[0]):
        mean, raw, square = 0.0, 0.0, 0.0
        for i in range(n):
            mean += h[i] * x[j, i]
            raw += h[i] * x[j, i] * x[j, i]
        mean = mean / total if is_centred else 0.0
        for i in range(n):
            own[j, i] = x[j, i] - mean
            square += h[i] * own[j, i] * own[j, i]
        if is_centred and square <= constant * raw:
            square = 0.0
            for i in range(n):
                own[j, i] = 0.0
        means[j], L[j] = mean, square


@exact
def _steepest(own, n, L, a, r, p, weight):
    """The largest distance of a slope to what the penalty allows."""
    largest = 0.0
    for j in range(a.size):
        if L[j] <= 0.0:
            continue
        slope = 0.0
        for i in range(n):
            slope += own[j, i] * r[i]
        if a[j] == 0.0:
            excess = abs(slope) - (weight[j] if p == 1.0 else 0.0)
        else:
            size = abs(a[j])
            power = 1.0 if p == 1.0 else p * (size if p == 2.0 else size ** (p - 1.0))
            excess = abs(slope - math.copysign(weight[j] * power, a[j]))
        largest = max(largest, excess)
    return largest


@exact_entry
def solve_logistic_tasks(
    x, offsets, y, v, is_centred, constant, kept, p, weight, common, goal, scale, max_steps, max_sweeps, A, intercept, losses
):  # fmt: skip
    """Minimise in every task over the `kept` features to a largest slope of goal[t], from A and intercept.

    x (rows, features), y and v are the tasks' rows, `weight` and `common` (zero but at p = 2) are of the kept
    features, and A (n_tasks, n_features), intercept and losses receive the answers. Returns whether all tasks
    were solved as well as asked; a loss of nan tells that the floats did not suffice.
    """
    m, most, all_solved = kept.size, 0, True
    for t in range(offsets.size - 1):
        most = max(most, offsets[t + 1] - offsets[t])
    columns, own, means, L = np.empty((m, most)), np.empty((m, most)), np.empty(m), np.empty(m)
    a, goal_a, z, trial_z = np.empty(m), np.empty(m), np.empty(most), np.empty(most)
    h, r, memory = np.empty(most), np.empty(most), np.empty((MEMORY + 1, m + most))
    products, mixing = np.empty((MEMORY, MEMORY)), np.empty(MEMORY)
    H, u, D = np.empty((FEW_ROWS, FEW_ROWS)), np.empty(FEW_ROWS), np.empty(m)
    support = np.empty(min(m, FEW_ROWS), dtype=np.intp)
    eps, limit = np.full(m, np.inf), np.full(m, np.inf)
    for t in range(offsets.size - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        own_y, own_v, b = y[first : first + n], v[first : first + n], intercept[t]
        for i in range(n):
            z[i] = b
        for index in range(m):
            j = kept[index]
            a[index] = A[t, j] - common[index]
            for i in range(n):
                columns[index, i] = x[first + i, j]
                z[i] += x[first + i, j] * A[t, j]
        value = _loss(own_y, z, own_v, n) + _penalty(a, weight, p)
        enough = -1.0
        solved = False
        for _ in range(max_steps):
            shift, slope = _bend(own_y, z, own_v, n, is_centred, h, r)
            _centre(columns, h, n, is_centred, constant, own, means, L)
            size = max(_steepest(own, n, L, a, r, p, weight), slope)
            if enough < 0.0:
                enough = min(goal[t], max(0.1 * size, 1e-10 * scale[t]))
            if size <= enough:
                solved = True
                break
            for index in range(m):
                goal_a[index] = a[index]
            if not (p == 2.0 and ridge(own, h, n, goal_a, r, weight, H, u, D)):
                tolerance = max(_FINER * enough, _MODEL * size)
                if p == 1.0:
                    take_up(own, h, n, L, goal_a, r, weight, eps, tolerance, H, u, support)
                settle(
                    own, h, n, L, goal_a, r, p, weight, eps, limit, tolerance, max_sweeps, memory, products,
                    mixing, H, u, support,
                )  # fmt: skip
            change_b = shift
            for index in range(m):
                change_b -= means[index] * (goal_a[index] - a[index])
            if not is_centred:
                change_b = 0.0
            step = 1.0
            while step > _SHORTEST:
                for i in range(n):
                    trial_z[i] = z[i] + step * change_b
                for index in range(m):
                    D[index] = a[index] + step * (goal_a[index] - a[index]) if step < 1.0 else goal_a[index]
                    move = D[index] - a[index]
                    if move != 0.0:
                        for i in range(n):
                            trial_z[i] += columns[index, i] * move
                trial = _loss(own_y, trial_z, own_v, n) + _penalty(D, weight, p)
                if trial <= value + _ROUNDING * abs(value):
                    break
                step *= 0.5
            else:
                break
            b += step * change_b
            value = trial
            for index in range(m):
                a[index] = D[index]
            for i in range(n):
                z[i] = trial_z[i]
        all_solved = all_solved and solved
        for index in range(m):
            A[t, kept[index]] = a[index] + common[index]
        intercept[t], losses[t] = b, _loss(own_y, z, own_v, n)
    return all_solved
