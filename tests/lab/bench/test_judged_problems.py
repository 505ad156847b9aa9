"""The judge of the benchmark against sums written out by hand, and its certificate against a conic solver."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from mmtfl_lab.bench import judged_problems
from mmtfl_lab.bench.judged_problems import (
    PAIRS,
    AdditiveProblem,
    SharedTasks,
    make_ragged,
    make_shared,
)
from mmtfl_lab.bench.libraries import conic

SMALL = {"n_tasks": 3, "least": 6, "most": 9, "n_features": 5, "n_true": 2}


def make(kind):
    if kind == "shared":
        return make_shared(n_rows=7, n_features=5, n_tasks=3, n_true=2)
    return make_ragged(**SMALL, loss="logistic" if kind == "logistic" else "squared")


def coefficients(data, seed=1):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(data.X.shape[1], data.n_tasks))
    A[::2] = 0.0
    return A, rng.normal(size=data.n_tasks)


def rows_of(data):
    """(task, x, y) of every observation, one by one."""
    if isinstance(data, SharedTasks):
        for x, targets in zip(data.X, data.y, strict=True):
            yield from ((t, x, y) for t, y in enumerate(targets))
    else:
        yield from zip(data.task, data.X, data.y, strict=True)


@pytest.mark.parametrize(("p", "k"), [(2, 2), (2, 1), (1, 1), (1, 2)])
@pytest.mark.parametrize("kind", ["ragged", "logistic", "shared"])
def test_objective_is_the_sum_written_out(kind, p, k):
    data = make(kind)
    A, b = coefficients(data)
    losses = []
    for t, x, y in rows_of(data):
        z = sum(x[j] * A[j, t] for j in range(len(x))) + b[t]
        losses.append(0.5 * (y - z) ** 2 if kind != "logistic" else np.log(1 + np.exp(-(2 * y - 1) * z)))
    n = len(losses) / data.n_tasks
    penalty = sum(sum(abs(a) ** p for a in row) ** (k / (p + k)) for row in A)
    expected = sum(losses) / n + 0.3 * penalty
    assert judged_problems.objective(data, A, b, p=p, k=k, alpha=0.3) == pytest.approx(expected, rel=1e-12)


def by_conic_solver(data, alpha):
    """Minimiser and minimum of the member (2, 2)."""
    A, b = cp.Variable((data.X.shape[1], data.n_tasks)), cp.Variable(data.n_tasks)
    terms = []
    for t, x, y in rows_of(data):
        z = x @ A[:, int(t)] + (b[int(t)] if data.fit_intercept else 0.0)
        terms.append(0.5 * cp.square(y - z) if data.loss == "squared" else cp.logistic(-(2 * y - 1) * z))
    value = sum(terms) / data.mean_size + alpha * cp.sum(cp.norm(A, 2, axis=1))
    problem = cp.Problem(cp.Minimize(value))
    tight = {f"tol_{name}": 1e-10 for name in ("gap_abs", "gap_rel", "feas")}
    problem.solve(solver=cp.CLARABEL, **tight)
    return A.value, b.value if data.fit_intercept else np.zeros(data.n_tasks), problem.value


@pytest.mark.parametrize("kind", ["ragged", "logistic", "shared"])
def test_gap_bounds_the_excess_and_closes_at_the_minimum(kind):
    data = make(kind)
    alpha = 0.2 * judged_problems.largest_alpha(data)
    A, b, least = by_conic_solver(data, alpha)
    assert np.linalg.norm(A, axis=1).max() > 1e-3  # not the case of a zero solution
    assert judged_problems.objective(data, A, b, p=2, k=2, alpha=alpha) == pytest.approx(least, rel=1e-7)
    assert (
        abs(judged_problems.relative_gap(data, A, b, alpha=alpha)) < 1e-5
    )  # the conic solver's own accuracy
    for seed in range(5):
        far, b = coefficients(data, seed)
        b = b if data.fit_intercept else np.zeros(data.n_tasks)
        value = judged_problems.objective(data, far, b, p=2, k=2, alpha=alpha)
        assert judged_problems.relative_gap(data, far, b, alpha=alpha) * value >= value - least > 0.0


DATA = replace(make_ragged(n_tasks=3, least=9, most=14, n_features=6, n_true=3), fit_intercept=True)
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)


def parts_and_intercepts(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, DATA.X.shape[1], DATA.n_tasks)), rng.normal(size=DATA.n_tasks)


@each_pair
def test_gap_bounds_the_excess_and_closes_at_the_conic_minimum(pair):
    problem = AdditiveProblem(DATA, pair, 0.2)
    least = conic(problem, 1e-10)()
    assert problem.rows_kept(least) > 0
    assert abs(problem.relative_gap(least)) < 1e-6
    (minimum,) = problem.objectives(least)
    for seed in range(5):
        far = [parts_and_intercepts(seed)]
        (value,) = problem.objectives(far)
        assert problem.relative_gap(far) * value >= value - minimum > 0.0
