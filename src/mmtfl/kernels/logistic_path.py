"""Compiled descent of the logistic loss along a whole path; docs/model.md section 6.

At every penalty one least-squares model after the other is minimised on Gram matrices of the active features.
A model has the second derivatives of the loss as weights; where it turns out to lie below the loss at its own
minimum, the next one has weights closer to those of a parabola above the loss. The fall of a model that does
not lie below is a fall of the objective, so that no value of the penalty is needed.

The code has plain loops and no array expressions, because a first search waits for this file to compile.
"""

import math

import numpy as np

from mmtfl.kernels.gram_descent import MEMORY, join, kept_rows, settle
from mmtfl.kernels.row_functions import copy, entry, inner

_LEAST_WEIGHT = 0.25e-6  # of a row: second derivatives vanish where a class is certain
_STEPS = 4  # from the second derivative to the parabola above the loss
_ROUNDING = 1e-14
_INEXACT = 3e-3  # the sweeps on a model end at this share of the square of the last one's move
_FIRST = 100.0  # and on the first model of a penalty at so many tolerances
_SLOW = 0.03  # of the square of the last move: weights that do not bring it down to this are renewed


@inner
def _loss(y, z, weight):
    total = 0.0
    for i in range(y.size):
        margin = y[i] * z[i]
        total += weight[i] * (math.log1p(math.exp(-abs(margin))) + max(-margin, 0.0))
    return total


@inner
def _slope(y, z, weight, slope):
    """Slope of the loss in z."""
    for i in range(y.size):
        margin = y[i] * z[i]
        small = math.exp(-abs(margin))
        slope[i] = -weight[i] * y[i] * ((small if margin > 0.0 else 1.0) / (1.0 + small))


@inner
def _weigh(z, weight, damping, h):
    """The weights of a model at z."""
    share = damping / _STEPS
    for i in range(z.size):
        size = abs(z[i])
        small = math.exp(-size)
        bend = max(small / ((1.0 + small) * (1.0 + small)), _LEAST_WEIGHT)
        if damping > 0:
            above = 0.25 if size < 1e-8 else (1.0 - small) / (1.0 + small) / (2.0 * size)
            bend = bend ** (1.0 - share) * above**share
        h[i] = weight[i] * bend


@inner
def _sum(values, begin, n):
    total, first = 0.0, np.uint64(begin)
    for i in range(np.uint64(n)):
        total += values[first + i]
    return total


@inner
def _product(column, at, values, begin, n):
    total, row, first = 0.0, np.uint64(at), np.uint64(begin)
    for i in range(np.uint64(n)):
        total += column[row + i] * values[first + i]
    return total


@inner
def _square(column, at, h, begin, n, mean):
    total, row, first = 0.0, np.uint64(at), np.uint64(begin)
    for i in range(np.uint64(n)):
        total += h[first + i] * (column[row + i] - mean) * (column[row + i] - mean)
    return total


@inner
def _add(values, begin, column, at, n, change):
    row, first = np.uint64(at), np.uint64(begin)
    for i in range(np.uint64(n)):
        values[first + i] += change * column[row + i]


@inner
def _moments(x, width, start, begin, length, centred, constant, h, totals, means, curvature):
    """The mean of every column in every task under the weights of a model, and the square sum about it."""
    for t in range(length.size):
        totals[t] = _sum(h, begin[t], length[t])
        for j in range(means.shape[0]):
            at = j * width + start[t]
            mean = _product(x, at, h, begin[t], length[t]) / totals[t] if centred else 0.0
            square = _square(x, at, h, begin[t], length[t], mean)
            # else the column is constant in the task, and this is rounding
            curvature[j, t] = square if square > constant * mean * mean * totals[t] else 0.0
            means[j, t] = mean


@inner
def _slopes(x, width, start, begin, length, centred, slope, h, totals, shift, state, slopes):
    """The slope of a model in every entry of A, where the intercepts are the best ones."""
    d = slopes.size // length.size
    for t in range(length.size):
        shift[t] = -_sum(slope, begin[t], length[t]) / totals[t] if centred else 0.0
        for i in range(begin[t], begin[t] + length[t]):
            state[i] = slope[i] + h[i] * shift[t]
        for j in range(d):
            slopes[t * d + j] = -_product(x, j * width + start[t], state, begin[t], length[t])


@inner
def _gram(x, width, start, begin, length, h, means, active, known, m, columns, own_gram, room):
    """Gram matrices of the active features, task by task; those of the first `known` are there."""
    for t in range(length.size if known < m else 0):
        n = length[t]
        for a in range(m):
            at, mean, own = active[a] * width + start[t], means[active[a], t], a * n
            for i in range(n):
                columns[own + i] = math.sqrt(h[begin[t] + i]) * (x[at + i] - mean)
        for a in range(known, m):
            for b in range(a + 1):
                product = _product(columns, a * n, columns, b * n, n)
                own_gram[(t * room + a) * room + b] = own_gram[(t * room + b) * room + a] = product


@inner
def _step(x, width, start, begin, length, means, shift, A, own_A, active, m, dz):
    """The change of the linear predictor to the minimum of the model; the intercepts' goes to `shift`."""
    for t in range(length.size):
        for a in range(m):
            shift[t] -= means[active[a], t] * (own_A[a, t] - A[active[a], t])
        for i in range(begin[t], begin[t] + length[t]):
            dz[i] = shift[t]
        for a in range(m):
            change = own_A[a, t] - A[active[a], t]
            if change != 0.0:
                _add(dz, begin[t], x, active[a] * width + start[t], length[t], change)


@inner
def _rise(slope, h, dz):
    """By how much the model of the loss rises."""
    total = 0.0
    for i in range(dz.size):
        total += (slope[i] + 0.5 * h[i] * dz[i]) * dz[i]
    return total


@entry
def logistic_path(
    solve, x, width, start, begin, length, y, weight, centred, constant, A, intercept, z, member, strengths,
    short_cut, mix, tolerance, max_models, max_sweeps, out, intercepts, losses, settled,
):  # fmt: skip
    """Solve the problem under every penalty; the i-th solution goes to out[i] and intercepts[i].

    Column j of task t begins at j * width + start[t] of x, its rows at begin[t] of y, and both have length[t]
    entries. A, intercept and z, which belongs to them, are where the path begins, and change in place.
    strengths[i] holds the numbers of each row of the i-th penalty. losses[i] receives the loss, and
    settled[i] whether the models were enough. A centred square sum below `constant` times the raw one is
    rounding.
    """
    (d, n_tasks), n = A.shape, y.size
    g, new, zero = np.empty(n_tasks), np.empty(n_tasks), np.zeros(n_tasks)
    shift, totals, slopes = np.empty(n_tasks), np.empty(n_tasks), np.empty(n_tasks * d)
    slope, h, state, dz, trial = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    means, curvature = np.empty((d, n_tasks)), np.empty((d, n_tasks))
    is_active, active, room, m, known = np.zeros(d, dtype=np.bool_), np.empty(d, dtype=np.intp), 0, 0, 0
    own_gram, own_A, own_slopes = np.empty(1), np.empty((1, 1)), np.empty(1)
    memory, columns, damping, is_old, longest = np.empty((1, 1)), np.empty(1), 0, False, 0
    value, renew = _loss(y, z, weight), True
    for t in range(n_tasks):
        longest = max(longest, length[t])
    for i in range(len(strengths)):
        before, last = m, tolerance * _FIRST / _INEXACT
        m, damping, settled[i] = kept_rows(A, is_active, active, m), max(damping - 1, 0), False
        known = known if m == before else 0
        for _ in range(max_models):
            # weights are kept as long as they serve: then so are the Gram matrices
            is_old = not renew
            if renew:
                _weigh(z, weight, damping, h)
                _moments(x, width, start, begin, length, centred, constant, h, totals, means, curvature)
                known, renew = 0, False
            _slope(y, z, weight, slope)
            _slopes(x, width, start, begin, length, centred, slope, h, totals, shift, state, slopes)
            before = m
            m = join(
                solve, curvature, slopes, member, strengths[i], is_active, active, m, tolerance, g, new, zero
            )
            if m > room:
                room, known = min(d, max(2 * m, 32)), 0
                own_gram, own_slopes = np.empty(n_tasks * room * room), np.empty(n_tasks * room)
                own_A, memory = np.empty((room, n_tasks)), np.empty((MEMORY + 1, 2 * room * n_tasks))
                columns = np.empty(room * longest)
            _gram(x, width, start, begin, length, h, means, active, known, m, columns, own_gram, room)
            known = m
            for a in range(m):
                for t in range(n_tasks):
                    own_A[a, t], own_slopes[t * room + a] = A[active[a], t], slopes[t * d + active[a]]
            settle(
                solve, own_gram, n_tasks, curvature, own_slopes, own_A, m, member, strengths[i], active,
                short_cut, mix, max(tolerance, _INEXACT * last), max_sweeps, memory, g, new,
            )  # fmt: skip
            _step(x, width, start, begin, length, means, shift, A, own_A, active, m, dz)
            for k in range(n):
                trial[k] = z[k] + dz[k]
            reached = _loss(y, trial, weight)
            is_below = not reached <= value + _rise(slope, h, dz) + _ROUNDING * value
            if is_below and (is_old or damping < _STEPS):
                damping, renew = damping if is_old else damping + 1, True
                continue
            largest = 0.0
            for a in range(m):
                j, moved = active[a], 0.0
                for t in range(n_tasks):
                    change = own_A[a, t] - A[j, t]
                    moved += curvature[j, t] * change * change
                    A[j, t] = own_A[a, t]
                largest = max(largest, moved)
            for t in range(n_tasks):
                intercept[t] += shift[t]
            copy(trial, z)
            value = reached
            if largest <= tolerance and m == before:
                settled[i] = True
                break
            renew, last = is_old and largest > _SLOW * last, largest
        losses[i] = value
        copy(intercept, intercepts[i])
        for j in range(d):
            copy(A[j], out[i, j])
