"""The additive models of the benchmark: the judge by hand and by a conic solver, lines that are not run."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import mmtfl
from mmtfl_lab.bench.comparison import CERTIFIED, GOAL, CaseResult, Row, compare, reference
from mmtfl_lab.bench.judged_problems import (
    COLUMNS,
    ENTRIES,
    PAIRS,
    PEAKS,
    ROWS,
    TRACE,
    AdditiveProblem,
    Case,
    Problem,
    make_ragged,
)
from mmtfl_lab.bench.libraries import LIBRARIES, conic, ours_additive
from mmtfl_lab.bench.rendering import make_tables
from mmtfl_lab.bench.run import _WARM_UP, FULL, Results, make_cases
from mmtfl_lab.bench.speed_targets import verdicts

DATA = replace(make_ragged(n_tasks=3, least=9, most=14, n_features=6, n_true=3), fit_intercept=True)
NORMS = {"rows": ROWS, "peaks": PEAKS, "entries": ENTRIES, "columns": COLUMNS, "trace": TRACE}
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
CVXPY = next(library for library in LIBRARIES if library.name == "cvxpy")


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


@each_pair
def test_zero_is_the_minimum_exactly_from_the_critical_strengths_up(pair):
    means = np.array([y.mean() for _, y in DATA.parts()])
    zero = [(np.zeros((2, DATA.X.shape[1], 3)), means)]
    assert abs(AdditiveProblem(DATA, pair, 1.0).relative_gap(zero)) < 1e-12
    assert AdditiveProblem(DATA, pair, 0.9).relative_gap(zero) > 1e-4


@each_pair
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_public_estimator_reaches_the_conic_minimum(pair, fit_intercept):
    problem = AdditiveProblem(replace(DATA, fit_intercept=fit_intercept), pair, 0.1)
    (mine,), (theirs,) = (problem.objectives(solve(problem, 1e-8)()) for solve in (ours_additive, conic))
    assert mine == pytest.approx(theirs, rel=1e-6)
    best, gap, kept = reference(problem)
    assert gap < CERTIFIED
    assert best[0] <= mine * (1 + 1e-9)
    assert kept > 0


def test_cases_have_every_pair_at_both_strengths_and_only_their_libraries():
    cases = list(make_cases(["additive"], _WARM_UP))
    assert [case.key for case in cases] == [
        f"additive {pair} {share}"
        for pair in ("l2,1+l1", "dirty", "rMTFL", "low rank")
        for share in (0.3, 0.1)
    ]
    for case in cases:
        assert [entry.name for entry in LIBRARIES if entry.takes(case.problem)] == ["mmtfl", "cvxpy"]
    assert not CVXPY.takes(Problem(DATA, 2, 2, np.array([0.1]), 1.0))


def test_a_case_has_times_passes_and_accuracy_of_both():
    case = next(make_cases(["additive"], _WARM_UP))
    result = compare(
        case, [entry for entry in LIBRARIES if entry.takes(case.problem)], repeats=1, patience=60
    )
    assert [row.library for row in result.rows] == ["mmtfl", "cvxpy"]
    for row in result.rows:
        assert row.suboptimality <= GOAL
        assert row.passes == pytest.approx(row.seconds / result.pass_seconds)
    assert result.rows[1].tolerance == CVXPY.ladder[0]
    assert result.gap < CERTIFIED


def test_a_cone_that_does_not_fit_is_a_line_and_not_a_run():
    def run(problem, tolerance):
        raise AssertionError("this would fill the memory")

    small = AdditiveProblem(DATA, PAIRS[3], 0.3)
    assert CVXPY.declines(small) == ""
    # what the full size would need: a semidefinite cone of 510 x 510
    wide = make_ragged(**{**FULL["additive"], "least": 3, "most": 3})
    problems = {pair.name: AdditiveProblem(wide, pair, 0.3) for pair in PAIRS}
    declined = {name: CVXPY.declines(problem) for name, problem in problems.items()}
    reason = "skipped: the semidefinite form needs 136 GB of memory"
    assert declined == {"l2,1+l1": "", "dirty": "", "rMTFL": "", "low rank": reason}
    refusing = replace(CVXPY, solve=run, declines=lambda problem: reason)
    (row,) = compare(Case("key", "title", small), [refusing], repeats=1, patience=60.0).rows
    assert (row.seconds, row.suboptimality, row.note) == (None, None, reason)


def test_times_from_elsewhere_are_shown_and_not_judged():
    results = Results(["additive"], False, 1)
    for key, seconds in (("additive l2,1+l1 0.3", 0.001), ("additive rMTFL 0.1", 1.0)):
        case = CaseResult(key, key, 0.001, 1e-10, 3)
        case.rows = [Row("mmtfl", "estimator", 1e-4, seconds, 1.0, 0.0)]
        results.cases.append(case)
    found = {verdict.problem: verdict for verdict in verdicts(results)}
    assert found["additive l2,1+l1 0.3"].measured == pytest.approx(22.0)
    assert found["additive rMTFL 0.1"].measured == pytest.approx(4.1)
    assert [verdict.met for verdict in found.values()] == [None, None]
    table = next(make_tables(results))
    expected = ("additive l2,1+l1 0.3", "mutar DirtyModel, 0.022 s elsewhere", "at least 3 x", "22 x")
    assert table.rows[0] == (*expected, "indicative: data of unknown law")


def test_pairs_are_public_models():
    for pair in PAIRS:
        model = pair.model(0.1, 0.1)
        assert getattr(mmtfl, type(model).__name__) is type(model)
