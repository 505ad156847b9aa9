"""Compiled passes over a dense X: a few columns gathered, and the moments of all of them."""

from numba import njit

from mmtfl.objective.row_functions import OPTIONS

_compile = njit(**OPTIONS)  # type: ignore[call-overload]
_BLOCK = 64  # rows visited together, so that a gathered column is written in whole cache lines


@_compile
def gather(X, rows, index, scale, out):
    """out[a, i] = X[rows[i], index[a]] * scale[index[a]]; `rows` empty means all rows in order."""
    n = out.shape[1]
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        for a in range(index.size):
            j = index[a]
            factor = scale[j]
            if rows.size > 0:
                for i in range(first, last):
                    out[a, i] = X[rows[i], j] * factor
            else:
                for i in range(first, last):
                    out[a, i] = X[i, j] * factor


@_compile
def centre(x, offsets, weight, root, is_centred, constant, means, curvature):
    """Centre the rows of x (columns of X) task by task, scale them by `root`, and keep means and curvatures.

    A column whose centred square sum is below `constant` of its raw one is rounding: it becomes zero.
    """
    for j in range(x.shape[0]):
        for t in range(offsets.size - 1):
            begin, end = offsets[t], offsets[t + 1]
            raw, total, size = 0.0, 0.0, 0.0
            for i in range(begin, end):
                raw += weight[i] * x[j, i] * x[j, i]
                total += weight[i] * x[j, i]
                size += weight[i]
            mean = total / size if is_centred else 0.0
            square = 0.0
            for i in range(begin, end):
                value = x[j, i] - mean
                square += weight[i] * value * value
                x[j, i] = value * root[i]
            if is_centred and square <= constant * raw:
                square = 0.0
                for i in range(begin, end):
                    x[j, i] = 0.0
            means[j, t], curvature[j, t] = mean, square


@_compile
def moments(X, offsets, weight, scale, by_column, squares, sums):
    """Weighted square sum and sum of every column of X * scale in every task, as (tasks, columns)."""
    n_features = X.shape[1]
    for t in range(offsets.size - 1):
        if by_column:
            for j in range(n_features):
                square, total = 0.0, 0.0
                for i in range(offsets[t], offsets[t + 1]):
                    value = X[i, j] * scale[j]
                    square += weight[i] * value * value
                    total += weight[i] * value
                squares[t, j], sums[t, j] = square, total
        else:
            for j in range(n_features):
                squares[t, j], sums[t, j] = 0.0, 0.0
            for i in range(offsets[t], offsets[t + 1]):
                for j in range(n_features):
                    value = X[i, j] * scale[j]
                    squares[t, j] += weight[i] * value * value
                    sums[t, j] += weight[i] * value
