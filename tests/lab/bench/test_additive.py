"""The additive models of the benchmark: the judge by hand and by a conic solver, lines that are not run."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from mmtfl_lab.bench.judged_problems import (
    COLUMNS,
    ENTRIES,
    PAIRS,
    PEAKS,
    ROWS,
    TRACE,
    AdditiveProblem,
    make_ragged,
)
from mmtfl_lab.bench.libraries import conic

DATA = replace(make_ragged(n_tasks=3, least=9, most=14, n_features=6, n_true=3), fit_intercept=True)
NORMS = {"rows": ROWS, "peaks": PEAKS, "entries": ENTRIES, "columns": COLUMNS, "trace": TRACE}
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)


def parts_and_intercepts(seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(2, DATA.X.shape[1], DATA.n_tasks)), rng.normal(size=DATA.n_tasks)


def written_out(norm, Z):
    rows = [[abs(entry) for entry in row] for row in Z]
    return {
        ROWS: lambda: sum(sum(a * a for a in row) ** 0.5 for row in rows),
        PEAKS: lambda: sum(max(row) for row in rows),
        ENTRIES: lambda: sum(map(sum, rows)),
        COLUMNS: lambda: sum(sum(a * a for a in column) ** 0.5 for column in zip(*rows, strict=True)),
        TRACE: lambda: np.sqrt(np.linalg.eigvalsh(Z.T @ Z).clip(0)).sum(),
    }[norm]()


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_dual_norm_is_the_largest_product_with_the_unit_ball(norm):
    Z, G = np.random.default_rng(0).normal(size=(2, 4, 3))
    assert norm.value(Z) == pytest.approx(written_out(norm, Z), rel=1e-12)
    assert norm.conic(cp, cp.Constant(Z)).value == pytest.approx(norm.value(Z), rel=1e-9)
    inside = cp.Variable(G.shape)
    largest = cp.Problem(cp.Maximize(cp.sum(cp.multiply(G, inside))), [norm.conic(cp, inside) <= 1.0])
    assert norm.dual(G) == pytest.approx(largest.solve(solver=cp.CLARABEL), rel=1e-6)


@each_pair
def test_objective_is_the_sum_written_out(pair):
    problem = AdditiveProblem(DATA, pair, 0.3)
    (P, Q), b = parts_and_intercepts(0)
    losses = [
        0.5 * (y - sum(x[j] * (P[j, t] + Q[j, t]) for j in range(len(x))) - b[t]) ** 2
        for t, x, y in zip(DATA.task, DATA.X, DATA.y, strict=True)
    ]
    alpha_shared, alpha_specific = problem.alphas[0]
    expected = sum(losses) / (len(losses) / 3)
    expected += alpha_shared * written_out(pair.shared, P) + alpha_specific * written_out(pair.specific, Q)
    assert problem.objectives([(np.stack([P, Q]), b)]) == pytest.approx([expected], rel=1e-12)


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
