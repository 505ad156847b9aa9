"""Libraries that solve a problem agree on its objective; those that are not there say why."""

import numpy as np
import pytest

import mmtfl_lab.bench.libraries as libraries
from mmtfl import MMTFLRegressor
from mmtfl.errors import install_hint
from mmtfl_lab.bench import judged_problems
from mmtfl_lab.bench.judged_problems import Problem, make_ragged
from mmtfl_lab.bench.libraries import LIBRARIES, Library, textbook
from mmtfl_lab.bench.run import _WARM_UP, COMPARED, make_cases
from oracles import Problem as ListedTasks
from oracles import algorithm1 as slow_algorithm1

SIZES = _WARM_UP | {
    "ragged": {"n_tasks": 4, "least": 12, "most": 20, "n_features": 15, "n_true": 3},
    "shared": {"n_rows": 20, "n_features": 15, "n_tasks": 4, "n_true": 3},
}
CONVEX = [case for case in make_cases(COMPARED, SIZES) if case.problem.is_convex]


@pytest.mark.filterwarnings("ignore")  # those of other libraries are their own
@pytest.mark.parametrize("case", CONVEX, ids=lambda case: case.key)
def test_all_that_take_a_convex_problem_reach_the_same_objective(case):
    takers = [library for library in LIBRARIES if library.takes(case.problem) and library.missing() is None]
    assert {"mmtfl"} <= {library.name for library in takers}
    if case.key.startswith(("shared", "path")):
        assert "scikit-learn" in {library.name for library in takers}
    found = {library: case.problem.objectives(library.solve(case.problem, 1e-9)()) for library in takers}
    least = np.min(list(found.values()), axis=0)
    for library, values in found.items():
        np.testing.assert_allclose(values, least, rtol=1e-6, err_msg=f"{library.name} {library.form}")


@pytest.mark.filterwarnings("ignore:Objective did not converge")  # scikit-learn's lasso, next to rounding
@pytest.mark.parametrize(("p", "k"), [(2, 1), (1, 1), (1, 2)])
def test_textbook_ends_where_a_slow_algorithm_1_does(p, k):
    data = make_ragged(n_tasks=3, least=8, most=14, n_features=10, n_true=3)
    problem = Problem(data, p, k, np.array([0.1]), judged_problems.largest_alpha(data))
    assert libraries.TEXTBOOK.exists()
    A, b = textbook(problem, 1e-8)()[0]
    assert 0 < np.count_nonzero(np.abs(A).max(axis=1) > 1e-4) < len(A)
    X, y = zip(*data.parts(), strict=True)
    slow, _, _ = slow_algorithm1(ListedTasks(X, y, fit_intercept=False), p, k, float(problem.alphas[0]))
    np.testing.assert_allclose(A, slow, atol=1e-5)
    alpha = float(problem.alphas[0])
    ours = MMTFLRegressor(p, k, alpha, fit_intercept=False, solver="alternating", tol=1e-9)
    ours.fit(data.X, data.y, data.task)
    expected = judged_problems.objective(data, ours.coef_.T, b, p=p, k=k, alpha=alpha)
    assert judged_problems.objective(data, A, b, p=p, k=k, alpha=alpha) == pytest.approx(expected, rel=1e-6)


def test_a_missing_library_says_how_to_get_it():
    absent = Library("ghost", "call", "no_such_library", lambda problem: True, lambda *_: None, 1e-4)
    assert absent.missing() == f"skipped: not installed; {install_hint('bench')}"
