"""Compiled passes over X, dense or sparse: some columns, centred columns, moments, products task by task."""

from mmtfl.kernels.row_functions import entry, inner

_BLOCK = 64  # rows visited together, so that a gathered column is written in whole cache lines


@entry
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


@inner
def _sums(x, weight):
    """Weighted sum and square sum of x, and the sum of the weights."""
    total, square, size = 0.0, 0.0, 0.0
    for i in range(x.size):
        total += weight[i] * x[i]
        square += weight[i] * x[i] * x[i]
        size += weight[i]
    return total, square, size


@inner
def _shift_and_scale(x, mean, weight, root):
    """x = (x - mean) * root, in place; the weighted square sum of x - mean."""
    square = 0.0
    for i in range(x.size):
        value = x[i] - mean
        square += weight[i] * value * value
        x[i] = value * root[i]
    return square


@entry
def centre(x, offsets, weight, root, is_centred, constant, means, curvature):
    """Centre the rows of x (columns of X) task by task, scale them by `root`, and store means and curvatures.

    A centred square sum below `constant` times the raw one is rounding, and the column is set to zero.
    """
    for j in range(x.shape[0]):
        for t in range(offsets.size - 1):
            own = x[j, offsets[t] : offsets[t + 1]]
            w, s = weight[offsets[t] : offsets[t + 1]], root[offsets[t] : offsets[t + 1]]
            total, raw, size = _sums(own, w)
            means[j, t] = total / size if is_centred else 0.0
            curvature[j, t] = _shift_and_scale(own, means[j, t], w, s)
            if is_centred and curvature[j, t] <= constant * raw:
                curvature[j, t] = 0.0
                for i in range(own.size):
                    own[i] = 0.0


@inner
def _accumulate(first, second, scale, weight_first, weight_second, squares, sums):
    """Add two rows at a time, so that the sums are read and written half as often."""
    for j in range(scale.size):
        a, b = first[j] * scale[j], second[j] * scale[j]
        squares[j] += weight_first * a * a + weight_second * b * b
        sums[j] += weight_first * a + weight_second * b


@entry
def moments_by_row(X, offsets, weight, scale, squares, sums):
    """Weighted square sum and sum of every column of X * scale in every task, as (tasks, columns)."""
    for t in range(offsets.size - 1):
        begin, end = offsets[t], offsets[t + 1]
        for j in range(scale.size):
            squares[t, j], sums[t, j] = 0.0, 0.0
        for i in range(begin, end, 2):
            k = min(i + 1, end - 1)
            other = weight[k] if k > i else 0.0
            _accumulate(X[i], X[k], scale, weight[i], other, squares[t], sums[t])


@entry
def moments_by_column(X, offsets, weight, scale, squares, sums):
    """The same as `moments_by_row`, for an X that is stored by columns."""
    for t in range(offsets.size - 1):
        for j in range(scale.size):
            square, total = 0.0, 0.0
            for i in range(offsets[t], offsets[t + 1]):
                value = X[i, j] * scale[j]
                square += weight[i] * value * value
                total += weight[i] * value
            squares[t, j], sums[t, j] = square, total


# -- a sparse X, stored by rows or by columns ----------------------------------------------------------------


@entry
def products_by_row(data, indices, indptr, offsets, v, scale, own, out):
    """out[:, t] = scale * X_t.T @ v_t for an X stored by rows; `own` has room for one task's product."""
    for t in range(offsets.size - 1):
        for j in range(own.size):
            own[j] = 0.0
        for i in range(offsets[t], offsets[t + 1]):
            for k in range(indptr[i], indptr[i + 1]):
                own[indices[k]] += data[k] * v[i]
        for j in range(own.size):
            out[j, t] = own[j] * scale[j]


@entry
def products_by_column(data, indices, indptr, task, v, scale, out):
    """The same for an X stored by columns; row i is of task[i]."""
    for j in range(out.shape[0]):
        for t in range(out.shape[1]):
            out[j, t] = 0.0
        for k in range(indptr[j], indptr[j + 1]):
            out[j, task[indices[k]]] += data[k] * v[indices[k]]
        for t in range(out.shape[1]):
            out[j, t] *= scale[j]


@entry
def gather_by_row(data, indices, indptr, place, scale, out):
    """Write column j of X * scale into row place[j] of out, which is zero, unless that is negative."""
    for i in range(out.shape[1]):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if place[j] >= 0:
                out[place[j], i] = data[k] * scale[j]


@entry
def gather_by_column(data, indices, indptr, index, scale, out):
    """out[a] = column index[a] of X * scale, for an out that is zero."""
    for a in range(index.size):
        j = index[a]
        for k in range(indptr[j], indptr[j + 1]):
            out[a, indices[k]] = data[k] * scale[j]
