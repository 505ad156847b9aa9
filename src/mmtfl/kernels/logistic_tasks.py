"""Compiled Newton steps on one task after the other: step 1 of Algorithm 1 with the logistic loss.

    minimise over a_t (m), b_t   sum_i v_i log(1 + exp(-y_i z_i)) + sum_j w_j |a_jt - c_j|^p

with z = X_t a_t + b_t. Each step is a least-squares model with the second derivatives of the loss as weights,
solved as in `kernels.task_sweeps`, and is halved until the objective of the task falls.
"""

import math

import numpy as np

from mmtfl.kernels.gram_descent import MEMORY
from mmtfl.kernels.row_functions import copy, exact, exact_entry
from mmtfl.kernels.task_sweeps import FEW_ROWS, ridge, settle

_LEAST_BEND = 0.25e-14  # of a row: second derivatives vanish where a class is certain
_MODEL = 0.03  # accuracy of a model, as a share of the largest slope before it
_FINER = 0.3  # and of what is asked of the task
_FALL = 0.1  # of the largest slope, at least, in every call
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
def _steepest(x, n, a, r, p, weight):
    """The largest distance of a slope to what the penalty allows.

    The state sums to zero if there is a constant, so that the columns need not be centred.
    """
    largest = 0.0
    for j in range(a.size):
        slope = 0.0
        for i in range(n):
            slope += x[j, i] * r[i]
        if a[j] == 0.0:
            excess = abs(slope) - (weight[j] if p == 1.0 else 0.0)
        else:
            size = abs(a[j])
            power = 1.0 if p == 1.0 else p * (size if p == 2.0 else size ** (p - 1.0))
            excess = abs(slope - math.copysign(weight[j] * power, a[j]))
        largest = max(largest, excess)
    return largest


@exact
def _minimise_model(own, h, n, L, a, r, p, weight, tolerance, max_sweeps, room):
    """The least of a model of one task, from a and its state r, in place."""
    unlimited, D, H, u, support, memory, products, mixing = room
    if p == 2.0 and ridge(own, h, n, a, r, weight, H, u, D):
        return
    settle(
        own, h, n, L, a, r, p, weight, unlimited, unlimited, tolerance, max_sweeps, memory, products, mixing,
        H, u, support,
    )  # fmt: skip


@exact
def _shorten(x, y, v, n, a, change_b, p, weight, value, z, goal_a, goal_z):
    """Halve the step from a to goal_a, in place, until the objective falls; its share and the objective."""
    share = 1.0
    while share > _SHORTEST:
        for i in range(n):
            goal_z[i] = z[i] + share * change_b
        for j in range(a.size):
            if share < 1.0:
                goal_a[j] = 0.5 * (a[j] + goal_a[j])
            if goal_a[j] != a[j]:
                for i in range(n):
                    goal_z[i] += x[j, i] * (goal_a[j] - a[j])
        trial = _loss(y, goal_z, v, n) + _penalty(goal_a, weight, p)
        if trial <= value + _ROUNDING * abs(value):
            return share, trial
        share *= 0.5
    return 0.0, value


@exact
def _solve_task(
    x, y, v, n, is_centred, constant, p, weight, a, b, z, goal, finest, max_steps, max_sweeps, own, vectors,
    rows, room,
):  # fmt: skip
    """Newton steps on one task from (a, b) and its z, in place; the constant, and if the goal was met."""
    (means, L, goal_a), (h, r, goal_z) = vectors, rows
    value, enough = _loss(y, z, v, n) + _penalty(a, weight, p), -1.0
    for _ in range(max_steps):
        shift, slope = _bend(y, z, v, n, is_centred, h, r)
        size = max(_steepest(x, n, a, r, p, weight), slope)
        if enough < 0.0:  # at least one step, unless the task stands still
            enough = min(goal, max(_FALL * size, finest))
        if size <= enough:
            return b, True
        _centre(x, h, n, is_centred, constant, own, means, L)
        copy(a, goal_a)
        _minimise_model(
            own, h, n, L, goal_a, r, p, weight, max(_FINER * enough, _MODEL * size), max_sweeps, room
        )
        change_b = shift
        for j in range(a.size if is_centred else 0):
            change_b -= means[j] * (goal_a[j] - a[j])
        share, value = _shorten(x, y, v, n, a, change_b, p, weight, value, z, goal_a, goal_z)
        if share == 0.0:
            break
        b += share * change_b
        copy(goal_a, a)
        copy(goal_z[:n], z[:n])
    return b, False


@exact_entry
def solve_logistic_tasks(
    x, offsets, y, v, is_centred, constant, kept, p, weight, common, goal, finest, max_steps, max_sweeps, A,
    intercept, losses,
):  # fmt: skip
    """Minimise in every task over the `kept` features to a largest slope of goal[t], from A and intercept.

    x (rows, features), y and v are the tasks' rows, `weight` and `common` (zero but at p = 2) are of the kept
    features, slopes below finest[t] are rounding, and A (n_tasks, n_features), intercept and losses receive
    the answers. Returns whether all tasks were solved as well as asked.
    """
    m, most, all_solved = kept.size, 0, True
    for t in range(offsets.size - 1):
        most = max(most, offsets[t + 1] - offsets[t])
    columns, own, vectors = np.empty((m, most)), np.empty((m, most)), np.empty((4, m))
    rows, memory = np.empty((4, most)), np.empty((MEMORY + 1, m + most))
    a, z = vectors[3], rows[3]
    room = (
        np.full(m, np.inf), np.empty(m), np.empty((FEW_ROWS, FEW_ROWS)), np.empty(FEW_ROWS),
        np.empty(min(m, FEW_ROWS), dtype=np.intp), memory, np.empty((MEMORY, MEMORY)), np.empty(MEMORY),
    )  # fmt: skip
    for t in range(offsets.size - 1):
        first, n = offsets[t], offsets[t + 1] - offsets[t]
        own_y, own_v = y[first : first + n], v[first : first + n]
        for i in range(n):
            z[i] = intercept[t]
        for index in range(m):
            j = kept[index]
            a[index] = A[t, j] - common[index]
            for i in range(n):
                columns[index, i] = x[first + i, j]
                z[i] += x[first + i, j] * A[t, j]
        intercept[t], solved = _solve_task(
            columns, own_y, own_v, n, is_centred, constant, p, weight, a, intercept[t], z, goal[t], finest[t],
            max_steps, max_sweeps, own, (vectors[0], vectors[1], vectors[2]), (rows[0], rows[1], rows[2]),
            room,
        )  # fmt: skip
        all_solved = all_solved and solved
        for index in range(m):
            A[t, kept[index]] = a[index] + common[index]
        losses[t] = _loss(own_y, z, own_v, n)
    return all_solved
