"""Compiled passes over a sparse X, stored by rows or by columns: products task by task, and some columns."""

from mmtfl.kernels.row_functions import entry


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
