"""Tasks that are settled one by one end where no entry can do better, and rows end where they would."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.kernels.task_sweeps import settle_tasks
from mmtfl.objective.row_sizes import EntryPenalty

LENGTH = np.array([3, 5, 4, 40], dtype=np.intp)


def psi(a, p, w, eps):
    """The penalty of an entry: the best split of its size, on a grid."""
    s = np.linspace(0.0, min(abs(a), w) if np.isinf(p) else abs(a), 2001)
    rest = abs(a) - s
    second = eps * rest if np.isfinite(eps) else np.where(rest > 0.0, np.inf, 0.0)
    return np.min((0.0 if np.isinf(p) else w * s**p) + second)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("p", "eps"), [(1.0, np.inf), (1.5, np.inf), (2.0, np.inf), (2.0, 0.4), (np.inf, 0.4)]
)
def test_every_task_ends_where_no_entry_can_do_better(p, eps, weighted):
    rng = np.random.default_rng(0)
    m, n_rows, n_tasks = 6, LENGTH.sum(), len(LENGTH)
    begin = np.concatenate([[0], np.cumsum(LENGTH)[:-1]]).astype(np.intp)
    x, target = rng.normal(size=(m, n_rows)), 3.0 * rng.normal(size=n_rows)
    h = rng.uniform(0.2, 2.0, n_rows) if weighted else np.empty(0)
    bend = h if weighted else np.ones(n_rows)
    curvature = np.add.reduceat(bend * x**2, begin, axis=1)
    entries = EntryPenalty(p, rng.uniform(0.2, 0.8, m), np.full(m, eps))
    A, state = np.zeros((m, n_tasks)), bend * target
    settle_tasks(
        x, begin, LENGTH, h, np.zeros((m, n_tasks)), curvature, state, begin, np.arange(m), A, *entries,
        entries.limit, np.full(n_tasks, 1e-11), np.empty(n_tasks, dtype=np.intp), 100_000,
    )  # fmt: skip
    assert np.count_nonzero(A) > m
    for t in range(n_tasks):
        part = slice(begin[t], begin[t] + LENGTH[t])
        own, b, y = x[:, part], bend[part], target[part]
        assert_allclose(state[part], b * (y - A[:, t] @ own), atol=1e-9)

        def value(a, own=own, b=b, y=y):
            fit = 0.5 * np.sum(b * (y - a @ own) ** 2)
            return fit + sum(psi(a[j], p, entries.weight[j], eps) for j in range(m))

        least = value(A[:, t])
        for move in np.concatenate([np.eye(m), -np.eye(m)]):
            assert min(value(A[:, t] + step * move) for step in (0.01, 0.1)) >= least - 1e-6


def test_a_lasso_of_nearly_equal_columns_takes_few_sweeps():
    rng = np.random.default_rng(1)
    n_rows, m, n_tasks, weight = 4, 12, 50, 0.05
    x = rng.normal(size=(m, n_rows * n_tasks))
    x[1] = x[0] + 1e-5 * rng.normal(size=n_rows * n_tasks)
    begin = np.arange(n_tasks, dtype=np.intp) * n_rows
    target = rng.normal(size=n_rows * n_tasks)
    A, state, n_sweeps = np.zeros((m, n_tasks)), target.copy(), np.empty(n_tasks, dtype=np.intp)
    lengths, entries = np.full(n_tasks, n_rows), EntryPenalty(1.0, np.full(m, weight), np.full(m, np.inf))
    settle_tasks(
        x, begin, lengths, np.empty(0), np.empty((0, 0)), np.add.reduceat(x**2, begin, axis=1), state, begin,
        np.arange(m), A, *entries, entries.limit, np.full(n_tasks, 1e-9), n_sweeps, 5_000,
    )  # fmt: skip
    assert n_sweeps.max() < 100
    slopes = np.add.reduceat(x * state, begin, axis=1)
    assert_allclose(np.where(A != 0.0, slopes, weight * np.sign(slopes)), weight * np.sign(slopes), atol=1e-7)
    assert np.all(np.abs(slopes) <= weight + 1e-7)
    assert_allclose(np.where(A != 0.0, np.sign(A), np.sign(slopes)), np.sign(slopes))
