"""One case: the reference is certified, tolerances are the loosest that suffice, failures are lines."""

import numpy as np
import pytest

from mmtfl_lab.bench import judged_problems
from mmtfl_lab.bench.comparison import CERTIFIED, GOAL, compare, loosest
from mmtfl_lab.bench.judged_problems import Case, Problem, make_ragged
from mmtfl_lab.bench.libraries import Library, ours

DATA = make_ragged(n_tasks=3, least=10, most=14, n_features=8, n_true=2)
PROBLEM = Problem(DATA, 2, 2, np.array([0.2]), judged_problems.largest_alpha(DATA))
CASE = Case("ragged 0.2", "small", PROBLEM)


def library(name, solve, **changes):
    options = {"hint": 1e-4, "form": "call", "module": "numpy", "suits": lambda problem: True, **changes}
    return Library(name, solve=solve, **options)


def blurred(relative):
    """A library whose objective exceeds the minimum by about `relative(tolerance)`."""
    A, b = ours(PROBLEM, 1e-11)()[0]
    alpha = float(PROBLEM.alphas[0])

    def value(step):
        return judged_problems.objective(DATA, A + step, b, p=2, k=2, alpha=alpha)

    def solve(problem, tolerance):
        low, high = 0.0, 1.0
        for _ in range(80):  # the step that gives the excess wanted
            middle = 0.5 * (low + high)
            low, high = (
                (middle, high) if value(middle) / value(0.0) - 1 < relative(tolerance) else (low, middle)
            )
        return lambda: [(A + low, b)]

    return solve


def test_each_library_gets_the_loosest_tolerance_that_suffices():
    peers = [
        library("sharp", blurred(lambda tolerance: 2e-3 * tolerance)),
        library("blunt", blurred(lambda tolerance: 2e2 * tolerance)),
    ]
    result = compare(CASE, peers, repeats=2, patience=60.0)
    assert result.gap is not None and result.gap < CERTIFIED
    sharp, blunt = result.rows
    assert sharp.tolerance == pytest.approx(1e-4)  # 1e-3 gives an excess of 2e-6
    assert blunt.tolerance == pytest.approx(1e-9)
    for row in result.rows:
        assert 0 < row.suboptimality <= GOAL
        assert row.seconds > 0
        assert row.passes == pytest.approx(row.seconds / result.pass_seconds)


def test_a_library_that_fails_or_never_arrives_is_a_line():
    def fail(problem, tolerance):
        raise RuntimeError("no convergence\nand more")

    peers = [library("broken", fail), library("far", blurred(lambda tolerance: 1e-3))]
    broken, far = compare(CASE, peers, repeats=1, patience=60.0).rows
    assert broken.seconds is None
    assert broken.note == "failed: RuntimeError: no convergence"
    assert far.seconds is None
    assert far.suboptimality == pytest.approx(1e-3, rel=1e-3)
    assert "not within" in far.note


@pytest.mark.parametrize("hint", [None, 1e-2, 1e-5, 1e-10, 3e-7])
@pytest.mark.parametrize("enough", [1e-2, 1e-4, 1e-7, 1e-10])
def test_the_loosest_tolerance_that_suffices_is_found_from_any_hint(enough, hint):
    tried = []

    def suffices(tolerance):
        tried.append(tolerance)
        return tolerance <= enough * 1.001

    assert loosest(suffices, hint=hint) == pytest.approx(enough)
    assert len(tried) == len(set(tried))  # runs are costly: none twice


def test_nothing_is_found_where_no_tolerance_suffices():
    assert loosest(lambda tolerance: False, hint=1e-4) is None
