"""Paths: at every alpha as good as a fit of its own, on a grid that begins where the model is empty."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from mmtfl import MMTFLRegressor, Tasks, path
from mmtfl.datasets import make_tasks
from mmtfl.objective.penalties import make_penalty, row_norms
from mmtfl.solvers.path import Paths, alpha_grid, alpha_max, solve_path
from mmtfl.solvers.working_set import WorkingSet
from oracles import (
    EVERY_LOSS,
    INF,
    LOSSES,
    joint_objective,
    loss_gradient,
    make_problem,
    null_slopes,
    problem_of,
)

NORMS = [(2, 2), (INF, 1), (1, INF), (3, 1.5)]
POWERS = [(2, INF), (3, 3), (1.5, INF)]
CONCAVE = [(1, 1), (2, 1), (1, 2)]
ODD = [(1.5, 1.2), (3, 1), (INF, 0.5), (1, "log")]


def member_of(problem, p, k):
    """Our own problem, and the member at strength one."""
    ours = problem.ours()
    return ours, make_penalty(p, k, 1.0)


def compiled(problem, penalty, alphas, **options):
    return Paths(problem).solve(penalty, alphas, certified=True, **{"max_iter": 1000, **options})


WAYS = pytest.mark.parametrize("way", [solve_path, compiled])


def path_of(problem, p, k, alphas, **options):
    return solve_path(*member_of(problem, p, k), alphas, **options)


def solve_at(problem, p, k, alpha, **options):
    penalty = make_penalty(p, k, alpha)
    return problem.solve(penalty, max_iter=20000, **options)


# -- the path against fits at each alpha -----------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("p", "k"), NORMS + POWERS)
def test_convex_path_is_as_low_as_a_cold_fit_at_every_alpha(p, k, loss):
    problem = make_problem(0, loss=loss)
    alphas = alpha_grid(*member_of(problem, p, k), 6)
    found = path_of(problem, p, k, alphas, tol=1e-9, max_iter=20000)
    if (p, k) in NORMS:
        assert found.n_kept[0] == 0
        assert found.n_kept[-1] > 5
    cold = [solve_at(problem, p, k, alpha, tol=1e-9).objective for alpha in alphas]
    assert_allclose(found.objectives, cold, rtol=1e-6)


@WAYS
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("p", "k"), CONCAVE + ODD)
def test_every_point_of_a_concave_path_is_stationary_and_better_than_zero(p, k, loss, way):
    problem = make_problem(3, loss=loss)
    ours, penalty = member_of(problem, p, k)
    found = way(ours, penalty, alpha_grid(ours, penalty, 6), tol=1e-7, max_iter=20000)
    assert found.n_kept.max() > 3 and found.converged.all()
    assert (found.objectives <= ours.null_value).all()
    assert np.all(np.diff(found.objectives) <= 0)  # alphas fall
    size = np.abs(null_slopes(problem)).max()
    for i, alpha in enumerate(found.alphas):
        A, b = found.coef(i).T, found.intercepts[i]
        assert_allclose(found.objectives[i], joint_objective(problem, A, b, p, k, alpha), rtol=1e-9)
        gradient, slope = loss_gradient(problem, A, b)
        rows = penalty.at(alpha).row_violation(A, gradient, ours.curvature)
        assert max(rows.max(), np.abs(slope).max()) <= (1.01e-7 if way is solve_path else 1e-3) * size
        assert found.violations[i] * ours.scale >= rows.max() - 1e-9 * ours.scale


# -- the largest useful alpha ----------------------------------------------------------------------------


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(
    ("p", "k", "dual"), [(2, 2, 2), (INF, 1, 1), (1, INF, INF), (3, 1.5, 1.5), (1.5, 3, 3)]
)
def test_largest_alpha_of_a_norm_is_the_largest_dual_norm_and_exactly_where_zero_ends(p, k, dual, loss):
    problem = make_problem(5, loss=loss, weighted=True)
    top = alpha_max(*member_of(problem, p, k))
    assert_allclose(top, np.linalg.norm(null_slopes(problem), dual, axis=1).max(), rtol=1e-12)
    for above in (top * (1 + 1e-9), 1.02 * top):
        for solver in ("block", "alternating"):
            assert not solve_at(problem, p, k, above, solver=solver).A.any()
    assert not path_of(problem, p, k, [top], tol=1e-9).coef(0).any()
    assert solve_at(problem, p, k, 0.999 * top, tol=1e-9).A.any()
    assert path_of(problem, p, k, [0.999 * top], tol=1e-9).n_kept[0] >= 1


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("p", "k"), POWERS)
def test_where_no_alpha_gives_zero_the_grid_begins_at_rows_a_thousandth_of_their_free_size(p, k, loss):
    problem = make_problem(6, loss=loss)
    ours, penalty = member_of(problem, p, k)
    found = solve_path(ours, penalty, [alpha_max(ours, penalty)], tol=1e-9, max_iter=20000)
    gradient = null_slopes(problem)
    free = row_norms(gradient / ours.curvature, p)
    share = row_norms(found.coef(0).T, p) / free
    assert found.n_kept[0] == problem.n_features
    # the bound is for one row alone; here others take a little of its part
    assert 0.3e-3 < share.max() <= 1.05e-3


@pytest.mark.parametrize("loss", EVERY_LOSS)
@pytest.mark.parametrize(("p", "k"), CONCAVE + ODD[:-1])
def test_largest_alpha_of_a_concave_member_is_where_the_solver_begins_to_return_zero(p, k, loss):
    problem = make_problem(7, loss=loss)
    member = member_of(problem, p, k)
    top = alpha_max(*member)
    assert alpha_max(*member) == top  # the search leaves the problem as it was
    for solver in ("block", "alternating"):  # the intercepts arrive too
        none = solve_at(problem, p, k, top * (1.0 + 0.5 * (solver == "alternating")), solver=solver)
        assert not none.A.any() and none.converged
        assert np.abs(loss_gradient(problem, none.A, none.intercept)[1]).max() < 1e-6
    assert solve_at(problem, p, k, 0.97 * top).A.any()


# -- grids -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "k", "d", "ratio"), [(2, 2, 5, 1e-3), (2, 1, 5, 1e-3), (2, 2, 30, 1e-2), (2, INF, 10, 1e-6)]
)
def test_grid_falls_evenly_from_the_largest_alpha_to_a_default_share_of_it(p, k, d, ratio):
    member = member_of(make_problem(9, d=d), p, k)
    grid = alpha_grid(*member, 7)
    assert grid.shape == (7,)
    assert_allclose(grid[0], alpha_max(*member), rtol=1e-12)
    assert_allclose(grid[-1] / grid[0], ratio, rtol=1e-9)
    assert_allclose(np.diff(np.log(grid)), np.log(ratio) / 6, rtol=1e-9)


# -- the Path object -------------------------------------------------------------------------------------


# -- the function people call ----------------------------------------------------------------------------


@pytest.fixture
def data():
    return make_tasks(3, [15, 25, 20], 8, n_informative=3, noise=0.5, random_state=0)


@pytest.mark.parametrize(
    "scales", [{}, {"standardize": True, "scale_targets": True}], ids=["plain", "scaled"]
)
@pytest.mark.parametrize(("p", "k"), [(2, 2), (INF, 1)])
def test_path_has_the_coefficients_of_the_estimator_at_each_alpha(data, p, k, scales):
    X, y = data.X * np.geomspace(0.1, 10, 8), data.y * np.array([1.0, 5.0, 0.2])[data.task]
    found = path(X, y, data.task, p=p, k=k, alphas=5, tol=1e-10, **scales)
    assert found.n_kept[0] == 0 < found.n_kept[2]
    for i, alpha in enumerate(found.alphas):
        model = MMTFLRegressor(p, k, alpha, tol=1e-10, **scales).fit(X, y, data.task)
        assert_allclose(found.coef(i), model.coef_, atol=1e-6 * np.abs(model.coef_).max(initial=1e-6))
        assert_allclose(found.intercepts[i], model.intercept_, rtol=1e-6)


def test_path_says_what_is_wrong(data):
    with pytest.raises(
        ValueError, match=r"^there is no loss 'hinge': known are 'squared', 'huber', 'logistic', 'poisson'"
    ):
        path(data.X, data.y, data.task, loss="hinge")
    with pytest.raises(ValueError, match=r"scale_targets=True does not go with loss='logistic'"):
        path(data.X, data.y > 0, data.task, loss="logistic", scale_targets=True)
    for bad in (0, [0.0, 1.0], [], [np.nan]):
        with pytest.raises(ValueError, match="alphas"):
            path(data.X, data.y, data.task, alphas=bad)
    with pytest.raises(ValueError, match="p must be at least 1"):
        path(data.X, data.y, data.task, p=0.5)


def test_a_path_that_stops_short_says_at_how_many_strengths():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(80, 30)), np.repeat([0, 1], 40)
    y = X[:, :10].sum(axis=1) + rng.normal(size=80)
    with pytest.warns(ConvergenceWarning, match=r"path stopped short of tol=1e-07 at \d+ of 5 strengths"):
        found = path(X, y, task, p=2, k=2, alphas=5, max_iter=1)
    assert not found.converged.all()
    assert path(X, y, task, p=2, k=2, alphas=5).converged.all()


def heavy_tailed_columns(seed):
    """Columns that are mostly zero and now and then large, and classes that they nearly tell."""
    rng = np.random.default_rng(seed)
    seen = rng.random((200, 5)) < 0.15
    X = seen * np.exp(1.5 * rng.normal(size=seen.shape))
    y = np.where(seen @ [3.0, -3.0, 3.0, -3.0, 3.0] + rng.normal(size=200) > 0, 1.0, -1.0)
    return Tasks.from_rows(X / X.std(axis=0), y, np.repeat([0, 1], 100))


def test_newton_steps_do_not_crawl_where_models_are_too_flat(monkeypatch):
    # far out the loss is so flat that its model would have rows at zero, where the objective is higher
    n_models, plain = [], WorkingSet.minimise

    def counted(*arguments, **options):
        n_models.append(1)
        return plain(*arguments, **options)

    monkeypatch.setattr(WorkingSet, "minimise", counted)
    problem = problem_of(heavy_tailed_columns(0), LOSSES["logistic"])
    found = solve_path(problem, make_penalty(1, 1, 1.0), 0.3 * np.geomspace(1.0, 0.01, 12))
    assert found.converged.all()
    assert 0 < np.count_nonzero(found.n_kept) < 12
    assert len(n_models) < 1000  # about 200; steps by the bound on the second derivative took 70 000
