"""The additive models of the benchmark: the judge by hand and by a conic solver, lines that are not run."""

from dataclasses import replace

import numpy as np
import pytest

from mmtfl_lab.bench.judged_problems import (
    PAIRS,
    AdditiveProblem,
    make_ragged,
)
from mmtfl_lab.bench.libraries import conic

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
