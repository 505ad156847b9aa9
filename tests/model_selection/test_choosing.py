"""The choice among candidates that tie, and the hint at curves."""

import numpy as np
import pytest

from mmtfl.estimators.fitted_curves import add_curves
from mmtfl.model_selection.choosing import choose, contenders, hints_at_curves, within
from mmtfl.model_selection.cross_validation import MemberPath
from mmtfl.objective.design import Design
from mmtfl.objective.losses import make_loss
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.path import Paths
from mmtfl.tasks import Tasks

BEST = np.array([[-1.0, -2.0, -3.0, -2.0]])


def member(p=2, k=2, pooling=0.0, curves=False):
    return MemberPath(make_penalty(p, k, 1.0, pooling=pooling), np.array([1.0]), curves=curves)


def test_of_members_that_tie_lines_then_convex_then_pooled_ones_are_chosen():
    # the paired difference is 0.02 on average, its standard error 0.058
    tie = BEST - 0.02 + 0.1 * np.array([[1.0, -1.0, 1.0, -1.0]])
    members = member(k=1), member(pooling=0.9), member(), member(curves=True, pooling=0.99)
    order = [one.place for one in members]
    assert choose([BEST, tie, tie, tie], order=order) == (1, 0)
    assert choose([BEST, tie - 0.1, tie, tie], order=order) == (2, 0)
    assert choose([BEST, tie - 0.1, tie - 0.1, tie], order=order) == (0, 0)
    assert choose([BEST, tie - 0.024], order=order[:2]) == (0, 0)  # three quarters of an error are no tie
    assert choose([tie - 0.1, tie - 0.1, tie - 0.1, BEST], order=order) == (3, 0)


def test_half_a_standard_error_of_the_paired_difference_is_a_tie():
    noise = np.array([1.0, -1.0, 1.0, -1.0])
    error = np.std(noise, ddof=1) / 2.0
    for behind, tied in ((0.49 * error, True), (0.51 * error, False)):
        assert (within([BEST[0], BEST[0] - behind + noise], 0.5) == [0, 1]) == tied


def test_one_standard_error_is_that_of_the_mean_over_folds():
    scores = np.array([[-0.1, -0.1], [0.1, 0.1], [0.0, 2.0]])  # the mean of the last is 1, its error 1
    assert choose([scores], "one_se") == (0, 1)


def test_repeated_folds_decide_among_those_that_have_them():
    order = [(0,), (1,), (0,)]
    other = BEST - 0.001
    assert choose([BEST, other, other], order=order) == (0, 0)
    repeated = {0: np.array([-4.0, -4.0, -4.0, -4.0]), 1: np.array([-2.0, -2.0, -2.0, -2.0])}
    assert choose([BEST, other, other], order=order, repeated=repeated) == (1, 0)


def test_candidates_with_folds_left_out_are_never_chosen_and_contenders_are_the_closest():
    lost = np.array([[0.0, 0.0, np.nan, np.nan]])
    assert choose([lost, BEST], order=[(0,), (1,)]) == (1, 0)
    near, far = BEST + 0.01 * np.array([[1, -2, 1, -1]]), BEST - 1.0
    assert contenders([far, near, BEST, lost], 3) == [2, 1]
    assert contenders([far, near, BEST, lost], 1) == [2]


def test_repeats_of_the_folds_do_not_make_a_difference_surer():
    best = np.zeros(20)
    other = best - 0.2 + np.where(np.arange(20) % 2, 1.0, -1.0)  # behind by .2, with a deviation of 1.03
    assert within([best, other], 0.5, n_folds=5) == [0, 1]
    assert within([best, other], 0.5) == [0]
    repeated = {0: best[5:], 1: other[5:]}
    assert choose([best[None, :5], other[None, :5]], order=[(1,), (0,)], repeated=repeated) == (1, 0)


# -- the hint ------------------------------------------------------------------------------------------------


def hint(bend, seed, loss="squared", own=False):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(400, 6)), np.repeat(np.arange(8), 50)
    signs = np.where(task % 2 == 0, 1.0, -1.0) if own else 1.0
    z = X @ [1.0, -1.0, 0.5, 0.0, 0.0, 0.0] + bend * signs * X[:, 3] ** 2 + 0.5 * task
    y = {"squared": z + rng.normal(size=400), "poisson": rng.poisson(np.exp(0.3 * z)).astype(float)}[loss]
    tasks = Tasks.from_rows(X, y, task)
    problem = Problem(Design(tasks), make_loss(loss, {}))
    path = Paths(problem).solve(make_penalty(2, 2, 1.0), np.array([0.05, 0.01]), max_iter=1000, tol=1e-6)
    return hints_at_curves(problem, path.coef(1).T, path.intercepts[1], add_curves(tasks))


def test_straight_effects_seldom_hint_at_curves():
    said = [hint(0.0, seed) for seed in range(60)]
    assert 0 < sum(said) <= 7  # 6 are expected of 60 at 0.1


@pytest.mark.parametrize(("loss", "own"), [("squared", False), ("squared", True), ("poisson", False)])
def test_bent_effects_hint_at_curves_even_where_tasks_bend_in_opposite_ways(loss, own):
    assert all(hint(0.5, seed, loss, own) for seed in range(5))


def test_a_weight_is_a_number_of_rows_to_the_hint():
    rng = np.random.default_rng(1)
    X, task = rng.normal(size=(120, 2)), np.repeat([0, 1, 2], 40)
    y = X[:, 0] + 0.03 * X[:, 1] ** 2 + rng.normal(size=120)
    once, weighted = Tasks.from_rows(X, y, task), Tasks.from_rows(X, y, task, np.full(120, 400.0))
    copies = Tasks.from_rows(*(np.repeat(part, 400, axis=0) for part in (X, y, task)))

    def hint_of(tasks):
        problem = Problem(Design(tasks), make_loss("squared", {}))
        path = Paths(problem).solve(make_penalty(2, 2, 1.0), np.array([0.05]), max_iter=1000, tol=1e-6)
        return hints_at_curves(problem, path.coef(0).T, path.intercepts[0], add_curves(tasks))

    assert [hint_of(tasks) for tasks in (once, weighted, copies)] == [False, True, True]
