"""Compiled products with the stacked rows of many small tasks, none of which is worth a call of a library."""

from mmtfl.kernels.row_functions import entry


@entry
def forward(x, offsets, A, out):
    """out_t = x_t @ A[t] for the rows x_t of every task, with A (n_tasks, n_columns)."""
    for t in range(offsets.size - 1):
        for i in range(offsets[t], offsets[t + 1]):
            total = 0.0
            for j in range(x.shape[1]):
                total += x[i, j] * A[t, j]
            out[i] = total


@entry
def adjoint(x, offsets, v, out):
    """out[t] = x_t.T @ v_t for the rows x_t of every task, with out (n_tasks, n_columns)."""
    for t in range(offsets.size - 1):
        for j in range(x.shape[1]):
            out[t, j] = 0.0
        for i in range(offsets[t], offsets[t + 1]):
            for j in range(x.shape[1]):
                out[t, j] += x[i, j] * v[i]


@entry
def forward_by_columns(x, offsets, A, out):
    """The same as `forward` for columns that are rows of x, with A (n_columns, n_tasks)."""
    for i in range(out.size):
        out[i] = 0.0
    for j in range(x.shape[0]):
        for t in range(offsets.size - 1):
            if A[j, t] != 0.0:
                for i in range(offsets[t], offsets[t + 1]):
                    out[i] += x[j, i] * A[j, t]
