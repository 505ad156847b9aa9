"""Libraries that solve a problem agree on its objective; those that are not there say why."""

from dataclasses import replace

import numpy as np
import pytest

import mmtfl_lab.bench.libraries as libraries
from mmtfl import MMTFLRegressor
from mmtfl.errors import install_hint
from mmtfl_lab.bench import judged_problems
from mmtfl_lab.bench.judged_problems import Problem, RaggedTasks, make_ragged, make_sparse
from mmtfl_lab.bench.libraries import LIBRARIES, NAMES, Library, block_columns, textbook
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


def test_textbook_works_in_the_smaller_space_either_way():
    rng = np.random.default_rng(0)
    module = libraries._textbook()
    for n, d in ((6, 11), (11, 6)):
        Z, y = rng.normal(size=(n, d)), rng.normal(size=n)
        b = module.ridge(Z, y, 0.7, start=None, tol=None)
        np.testing.assert_allclose(Z.T @ (Z @ b - y) + 2 * 0.7 * b, 0.0, atol=1e-12)


def test_block_columns_have_a_feature_of_one_task_each():
    data = make_ragged(n_tasks=3, least=4, most=6, n_features=4, n_true=1)
    A = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(block_columns(data) @ A.ravel(), data.predict(A, np.zeros(3)), rtol=1e-12)


def test_block_columns_of_a_sparse_x_are_those_of_the_dense_one():
    data = make_sparse(n_tasks=3, n_rows=7, n_features=12, n_true=2, density=0.2)
    dense = replace(data, X=data.X.toarray())
    np.testing.assert_array_equal(block_columns(data).toarray(), block_columns(dense).toarray())


def test_malsar_is_skipped_without_octave_or_the_toolbox(monkeypatch):
    (entry,) = (library for library in LIBRARIES if library.name == "MALSAR")
    monkeypatch.delenv("MALSAR", raising=False)
    monkeypatch.setattr(libraries.shutil, "which", lambda name: None)
    assert "Octave, in which MALSAR runs, is not installed" in entry.missing()
    monkeypatch.setattr(libraries.shutil, "which", lambda name: "/usr/bin/octave-cli")
    assert "environment variable MALSAR" in entry.missing()
    monkeypatch.setenv("MALSAR", "toolbox")
    assert entry.missing() is None


def test_very_wide_tables_are_declined_by_those_that_take_minutes():
    data = make_sparse(n_tasks=2, n_rows=3, n_features=10_001, n_true=1, density=0.001)
    problem = Problem(replace(data, loss="squared"), 2, 2, np.array([0.1]), 1.0)
    declining = {
        library.name for library in LIBRARIES if library.takes(problem) and library.declines(problem)
    }
    assert declining == {"celer", "skglm", "MALSAR"}


def test_a_missing_library_says_how_to_get_it():
    absent = Library("ghost", "call", "no_such_library", lambda problem: True, lambda *_: None, 1e-4)
    assert absent.missing() == f"skipped: not installed; {install_hint('bench')}"


def test_a_library_that_does_not_import_says_so(monkeypatch):
    def fail(name):
        raise AttributeError("numpy has no attribute 'int'")

    monkeypatch.setattr(libraries, "import_module", fail)
    broken = Library("ghost", "call", "numpy", lambda problem: True, lambda *_: None, 1e-4)
    assert "import fails (numpy has no attribute 'int')" in broken.missing()


def test_textbook_is_skipped_outside_a_checkout(monkeypatch, tmp_path):
    monkeypatch.setattr(libraries, "TEXTBOOK", tmp_path / "textbook.py")
    (entry,) = (library for library in LIBRARIES if library.name == "textbook")
    assert "source checkout" in entry.missing()


def test_every_library_takes_some_problem_and_none_takes_what_it_cannot():
    problems = [case.problem for case in make_cases(COMPARED, SIZES)]
    for library in LIBRARIES:
        assert any(library.takes(problem) for problem in problems), library
    for problem in problems:
        if isinstance(problem.data, RaggedTasks):
            assert not any(lib.takes(problem) for lib in LIBRARIES if lib.name == "scikit-learn")
    assert NAMES[0] == "mmtfl"
