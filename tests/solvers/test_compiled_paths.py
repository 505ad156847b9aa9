"""Compiled paths: they are the paths of the other solvers, whatever the data look like."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from architecture.elastic_rows import ElasticRows
from architecture.gamma_loss import Gamma
from mmtfl import Tasks
from mmtfl.datasets import make_tasks
from mmtfl.objective.design import Design
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.losses import Huber, Logistic, Poisson, Squared
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers import compiled_paths, solve
from mmtfl.solvers.compiled_paths import CompiledPaths
from mmtfl.solvers.path import alpha_grid, solve_path

INF = math.inf
GROUPS = np.array([0, 1, 1, 2, 3, 3, 3, 4, 5, 5, 6, 1])
OPTIONS = {"start": None, "max_iter": 1000, "tol": 1e-4}


def ragged(**changes):
    data = make_tasks(4, [30, 40, 25, 50], 12, n_informative=4, noise=1.0, random_state=0)
    X = data.X + 3.0  # columns that are not centred
    X[data.task == 2, 5] = 1.5  # constant in one task
    return replace(Tasks.from_rows(X, data.y + data.task, data.task), **changes)


def shared():
    data = make_tasks(1, 40, 12, n_informative=4, noise=1.0, random_state=1)
    noise = np.random.default_rng(0).normal(size=(40, 3))
    return Tasks.from_shared(data.X, data.y[:, None] * [1.0, 0.5, -1.0] + noise)


def some_missing():
    tasks = shared()
    keep = np.random.default_rng(1).random(tasks.n_samples) < 0.8
    return tasks.select(np.flatnonzero(keep))


DATA = {
    "ragged": ragged,
    "weighted": lambda: ragged(weights=np.random.default_rng(3).uniform(0.2, 3.0, 145)),
    "sparse": lambda: ragged(X=sparse.csr_array(ragged().X)),
    "shared": shared,
    "some missing": some_missing,
}


def problem_of(tasks, **options):
    return Problem(Design(tasks, **options), Squared())


def in_groups(member, n_tasks, pooling=0.0, *, positive=(), scale=1.0):
    signs = np.isin(np.arange(12), positive)
    known = KnownFeatures(np.full((12, n_tasks), scale), signs, GROUPS)
    return make_penalty(*member, 1.0, pooling=pooling, known=known)


CONVEX = {
    **{
        str(member): lambda n_tasks, member=member: make_penalty(*member, 1.0)
        for member in [(2, 2), (1, INF), (INF, 1), (2, INF), (3, 1.5)]
    },
    "groups": lambda n_tasks: in_groups((2, 2), n_tasks),
    "pooled groups": lambda n_tasks: in_groups((2, 2), n_tasks, 0.9),
    "signs": lambda n_tasks: in_groups((3, 1.5), n_tasks, positive=[1, 4], scale=2.0),
    "signs, largest entry": lambda n_tasks: in_groups((INF, 1), n_tasks, positive=[1, 4], scale=2.0),
}


@pytest.mark.parametrize("kind", CONVEX)
@pytest.mark.parametrize("data", DATA)
def test_convex_paths_are_those_of_row_descent(data, kind):
    tasks = DATA[data]()
    problem, penalty = problem_of(tasks), CONVEX[kind](tasks.n_tasks)
    alphas = alpha_grid(problem, penalty, 8)
    assert CompiledPaths.serves(problem, penalty)
    found = CompiledPaths(problem).solve(penalty, alphas, **OPTIONS)
    exact = solve_path(problem, penalty, alphas, tol=1e-8)
    largest = np.abs(exact.coef(7)).max()
    assert largest > 0.0 and found.settled.all()
    for i in range(8):
        assert_allclose(found.A[i], exact.coef(i).T, atol=3e-3 * largest)
    assert_allclose(found.intercepts, exact.intercepts, atol=0.02 * largest)
    if "groups" in kind:  # all features of a group, or none
        kept = found.A.any(axis=2)
        for group in range(7):
            assert np.all(kept[:, group == GROUPS].any(axis=1) == kept[:, group == GROUPS].all(axis=1))
    if "signs" in kind:
        assert (found.A[:, [1, 4]] >= 0.0).all()


def test_any_penalty_on_rows_is_served_with_all_its_numbers():
    problem, elastic = problem_of(ragged()), ElasticRows(2, 1.0, 0.5)
    alphas = 2.0 * np.array([0.5, 0.2, 0.05])
    found = CompiledPaths(problem).solve(elastic, alphas, **OPTIONS)
    for alpha, A in zip(alphas, found.A, strict=True):
        assert_allclose(A, solve(problem, elastic.at(alpha)).A, atol=2e-3)


def test_what_compiled_paths_do_not_serve():
    problem, penalty = problem_of(ragged()), make_penalty(2, 2, 1.0)
    huge = problem_of(ragged(X=1e160 * ragged().X))
    wide = Problem(
        Design(Tasks.from_rows(sparse.csr_array((10_000, 5_000)), np.sign(np.arange(1e4) - 9.5))), Logistic()
    )
    assert CompiledPaths.serves(problem, penalty)
    assert not any(CompiledPaths.serves(other, penalty) for other in (huge, wide))
    assert not CompiledPaths.serves(problem, make_penalty(2, 5, 1.0))  # no row is ever zero, and tasks meet


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["ragged", "weighted", "sparse"])
def test_residuals_serve_where_gram_matrices_are_too_large(kind, fit_intercept, monkeypatch):
    problem = problem_of(DATA[kind](), fit_intercept=fit_intercept)
    members = make_penalty(2, 2, 1.0), make_penalty(1, INF, 1.0), make_penalty(2, 2, 1.0, pooling=0.9)
    # groups in which tasks may be turned, and one in which a bound must do
    for penalty in (*members, in_groups((2, 2), 4), in_groups((INF, 1), 4)):
        alphas = alpha_grid(problem, penalty, 8)
        by_grams = CompiledPaths(problem).solve(penalty, alphas, **OPTIONS)
        with monkeypatch.context() as patch:
            patch.setattr(compiled_paths, "_MOST_IN_GRAMS", 0)
            patch.setattr(compiled_paths, "_MOSTLY_ZERO", 2.0 if kind == "sparse" else 0.0)
            paths = CompiledPaths(problem)
            by_residuals = paths.solve(penalty, alphas, **OPTIONS)
        assert paths._is_sparse == (kind == "sparse")
        assert by_residuals.settled.all() and by_grams.A[-1].any()
        for i, alpha in enumerate(alphas):
            values = [
                problem.value(penalty.at(alpha), found.A[i], found.intercepts[i])
                for found in (by_residuals, by_grams)
            ]
            assert values[0] == pytest.approx(values[1], rel=1e-5)
            loss = values[0] - penalty.at(alpha).value(by_residuals.A[i])
            assert by_residuals.losses[i] == pytest.approx(loss, rel=1e-9)


# -- other losses ---------------------------------------------------------------------------------------


def classes(kind="ragged", **options):
    tasks = DATA[kind]()
    sides = np.where(tasks.y > np.median(tasks.y), 1.0, -1.0)
    return Problem(Design(tasks.with_y(sides), **options), Logistic())


def with_loss(loss):
    tasks = ragged()
    y = np.exp(0.1 * tasks.y) if isinstance(loss, Poisson | Gamma) else tasks.y
    return Problem(Design(tasks.with_y(np.round(y + 0.5) if isinstance(loss, Poisson) else y)), loss)


OTHERS = {
    **{
        f"classes, {kind}, {one}": partial(classes, kind, fit_intercept=one)
        for kind in DATA
        for one in (True, False)
    },
    **{loss.name: partial(with_loss, loss) for loss in (Huber(), Poisson(), Gamma())},
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_paths_of_any_loss_are_the_minima(make):
    """Gamma is written in Python: the core calls it."""
    problem = make()
    for kind in ("(2, 2)", "(1, inf)", "groups", "pooled groups"):
        penalty = CONVEX[kind](problem.design.n_tasks)
        alphas = alpha_grid(problem, penalty, 12)
        found = CompiledPaths(problem).solve(penalty, alphas, **OPTIONS)
        exact = solve_path(problem, penalty, alphas, tol=1e-7)
        values = [problem.value(penalty.at(a), A, b) for a, A, b in zip(alphas, *found[:2], strict=True)]
        parts = found.losses + [penalty.at(a).value(A) for a, A in zip(alphas, found.A, strict=True)]
        assert exact.n_kept[6] > 0 and found.settled.all()
        assert_allclose(values, parts, rtol=1e-10)
        assert np.all(exact.objectives - 1e-8 <= values)
        assert np.all(values <= exact.objectives + 1e-5 * problem.null_value)


@pytest.mark.parametrize("member", [(1, 1), (2, 1), (1, 2), (2, "log")], ids=str)
def test_logistic_paths_of_concave_members_are_as_low_as_the_ordinary_ones(member):
    problem, penalty = classes(), make_penalty(*member, 1.0)
    alphas = alpha_grid(problem, penalty, 20)
    found = CompiledPaths(problem).solve(penalty, alphas, **OPTIONS)
    ordinary = solve_path(problem, penalty, alphas, tol=1e-4)
    values = [problem.value(penalty.at(a), A, b) for a, A, b in zip(alphas, *found[:2], strict=True)]
    assert found.A[0].any() == (member[1] == "log") and found.A[-1].any()  # no alpha makes the log edge zero
    assert np.mean(values - ordinary.objectives) <= 0.01 * problem.null_value
    assert max(values) <= (1.0 + 1e-12) * problem.null_value


# -- other losses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Logistic(), Poisson()], ids=["classes", "counts"])
def test_a_path_goes_on_from_coefficients_of_columns_far_from_zero(loss):
    data = make_tasks(4, 30, 6, n_informative=3, noise=1.0, random_state=0)
    counts = np.random.default_rng(0).poisson(np.exp(0.5 * data.y)).astype(float)
    y = np.where(data.y > 0.0, 1.0, -1.0) if loss.has_classes else counts
    near, far = (
        Problem(Design(Tasks.from_rows(data.X + level, y, data.task)), loss) for level in (0.0, 40.0)
    )
    penalty = make_penalty(2, 2, 1.0)
    alphas = alpha_grid(near, penalty, 8, 0.02)
    expected = CompiledPaths(near).solve(penalty, alphas, **OPTIONS)
    assert expected.A[3].any() and expected.settled.all()
    begun = CompiledPaths(far).solve(penalty, alphas[4:], **{**OPTIONS, "start": expected.A[3]})
    assert begun.settled.all()
    assert_allclose(begun.losses, expected.losses[4:], rtol=1e-4)
    again = solve(far, penalty.at(alphas[-1]), solver="block", start=expected.A[3], max_iter=60, tol=1e-6)
    assert again.converged


def test_an_error_in_a_loss_that_is_written_in_python_is_raised():
    class Broken(Gamma):
        def gradient(self, y, z, weight):
            if np.ptp(z - np.round(z)) > 0.3:
                raise RuntimeError("no gradient")
            return super().gradient(y, z, weight)

    problem, penalty = with_loss(Broken()), make_penalty(2, 2, 1.0)
    with pytest.raises(RuntimeError, match="no gradient"):
        CompiledPaths(problem).solve(penalty, np.geomspace(1.0, 1e-3, 20), **OPTIONS)
