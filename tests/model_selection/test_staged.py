"""A search in stages: what it tries, that it chooses as the full search does, and what it says of itself."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl import (
    CappedRegressor,
    DirtyRegressor,
    LowRankRegressor,
    MMTFLRegressorCV,
    RobustRegressor,
    TwoStrengthCV,
)
from mmtfl.datasets import make_tasks
from mmtfl.estimators.two_strength_search import StrengthPairs
from mmtfl.model_selection import TaskKFold
from mmtfl.model_selection.cross_validation import FoldScores, MemberPath
from mmtfl.model_selection.staged import _strong, curves_may_win, grown_scores, staged_scores
from mmtfl.objective.penalties import make_penalty
from mmtfl.plots.fit_displays import search_curves
from mmtfl.report.summary import describe

MEMBERS = ((2, 2), (2, 1), (1, 1))


@pytest.fixture(scope="module")
def rows():
    data = make_tasks(5, 30, 15, n_informative=4, noise=1.0, random_state=0)
    return data.X, data.y, data.task


def regressor(search="staged", **options):
    folds = TaskKFold(options.pop("cv", 3), random_state=0)  # a splitter's folds are not repeated
    usual = {"pk": MEMBERS, "alphas": 60, "cv": folds, "poolings": (0,), "search": search, "levels": "free"}
    return MMTFLRegressorCV(**{**usual, **options})


# -- the rule, on scores that are known --------------------------------------------------------------------


class Curves:
    """Scores of members given by functions of the place in a grid; remembers what was asked."""

    def __init__(self, n, *curves, shifts=(-0.1, 0.1)):
        self.shifts = shifts
        self.alphas, self.curves, self.asked = np.geomspace(1.0, 1e-3, n), curves, []
        members = [make_penalty(2, 2, 1.0), make_penalty(2, 1, 1.0), make_penalty(1, 2, 1.0)]
        self.paths = [MemberPath(member, self.alphas) for member in members[: len(curves)]]

    def score(self, lists, on=None, stage="", keep_models=False):
        self.asked.append(sum(len(part.alphas) for part in lists))
        shifts = self.shifts if on is None else [self.shifts[f] for f in on]
        return FoldScores([[self.on_fold(part, shift) for shift in shifts] for part in lists])

    def on_fold(self, part, shift):
        m = next(m for m, path in enumerate(self.paths) if path.member is part.member)
        index = np.searchsorted(-self.alphas, -part.alphas)
        n = len(index)
        models = {"ends": np.zeros(n, dtype=int), "features": np.empty(0, dtype=int)}
        models |= {"values": np.empty((0, 1)), "intercepts": np.zeros((n, 1)), "n_features": np.array([3])}
        return {"scores": self.curves[m](index) + shift, "by_task": index[:, None, None], **models}

    def tried(self, selection="best"):
        paths, found = staged_scores(self.score, self.paths, len(self.shifts), selection)
        scores = [part.mean(axis=1) for part in found.scores]
        for path, part, curve in zip(paths, scores, self.curves, strict=True):
            assert_allclose(part, curve(np.searchsorted(-self.alphas, -path.alphas)))
        return [np.searchsorted(-self.alphas, -path.alphas) for path in paths]


def test_the_peak_between_two_strengths_of_the_coarse_grid_is_found():
    for peak in range(100):
        curves = Curves(100, lambda i, peak=peak: -1e-4 * (i - peak) ** 2.0)
        (index,) = curves.tried()
        assert peak in index
        assert len(index) < 45


def test_a_member_that_cannot_win_is_tried_on_the_coarse_grid_only():
    curves = Curves(100, lambda i: -1e-4 * (i - 45.0) ** 2, lambda i: -0.5 - 1e-4 * (i - 30.0) ** 2)
    good, bad = curves.tried()
    assert_array_equal(bad, _strong(100))
    assert {44, 45, 46} <= set(good)


def test_a_member_that_may_win_between_its_strengths_is_tried_there():
    # the second one is higher at 44, between 40 and 48, and lower on the coarse grid
    curves = Curves(100, lambda i: -1e-4 * (i - 48.0) ** 2, lambda i: 2e-4 - 1e-4 * (i - 44.0) ** 2)
    assert 44 in curves.tried()[1]


def test_a_member_that_only_a_gap_keeps_in_the_race_is_looked_at_there_on_the_first_folds():
    # between 40 and 48 the second one might be above the first by what is known of it there, and is not
    shifts = (-0.001, 0.0, 0.001, 0.0, 0.0)
    curves = Curves(
        100, lambda i: -1e-4 * (i - 45.0) ** 2, lambda i: -0.01 - 1e-3 * (i - 44.0) ** 2, shifts=shifts
    )
    paths, found = staged_scores(curves.score, curves.paths, len(shifts), "best")
    assert_array_equal(np.searchsorted(-curves.alphas, -paths[1].alphas), np.union1d(_strong(100), [44]))
    assert np.isnan(found.scores[1][:, 3:]).all() and np.isfinite(found.scores[1][:, :3]).all()


def test_the_strongest_within_an_error_is_found_between_coarse_strengths_too():
    curves = Curves(100, lambda i: -4e-4 * (i - 60.0) ** 2)
    (index,) = curves.tried("one_se")
    # two folds at +-0.1: the error is 0.1, which the curve is below its peak at 60 - sqrt(250) = 44.2
    assert {44, 45} <= set(index)
    assert 44 not in curves.tried()[0]


@pytest.mark.parametrize(
    ("level", "folds", "wins"), [(0.5, [0, 1, 2], True), (-0.01, [0, 1, 2], False), (-1.0, [0], False)]
)
def test_curves_that_are_far_behind_on_the_first_fold_are_tried_on_no_other(level, folds, wins):
    curves = Curves(100, lambda i: 0.0 * i, lambda i: level + 0.0 * i, shifts=(-0.1, 0.3, 0.0, 0.2, -0.2))
    lines, trial = curves.paths
    found, asked = curves.score([lines]), []

    def score(lists, on, **options):
        asked.extend(on)
        return curves.score(lists, on, **options)

    assert curves_may_win(score, trial, [lines], found) == wins
    assert asked == folds


def test_a_member_that_is_clearly_behind_on_the_first_folds_is_not_tried_on_the_others():
    shifts = (-0.1, 0.3, 0.0, 0.2, -0.2, 0.1, 0.0, 0.4, 0.1, -0.3)
    curves = Curves(
        30, lambda i: -1e-4 * i, lambda i: -1.0 - 1e-4 * i, lambda i: -0.05 - 1e-4 * i, shifts=shifts
    )
    _, found = staged_scores(curves.score, curves.paths, len(shifts), "best")
    # all differences are the same on every fold, so that the error is half of the leader's own
    assert [int(np.isfinite(part).all(axis=0).sum()) for part in found.scores] == [10, 3, 10]


def test_members_whose_order_differs_from_fold_to_fold_stay_in_the_race():
    class Noisy(Curves):
        def on_fold(self, part, shift):
            found = super().on_fold(part, 0.0)
            return {
                **found,
                "scores": found["scores"] + (shift if part.member is self.paths[1].member else 0.0),
            }

    curves = Noisy(30, lambda i: -1e-4 * i, lambda i: -0.1 - 1e-4 * i, shifts=(-0.5, 0.3, -0.4, 0.6, 0.7))
    _, found = staged_scores(curves.score, curves.paths, 5, "best")
    assert all(np.isfinite(part).all() for part in found.scores)  # the second wins in the end
    assert found.scores[1].mean(axis=1).max() > found.scores[0].mean(axis=1).max()


ALL = [(2, 0.0), (2, 0.9), (2, 0.99), (1, 0.0), (1, 0.9), (1, 0.99)]  # k and pooling of members with p = 2


@pytest.mark.parametrize(
    ("levels", "entered"),
    [
        # far back with pooling at k = 2: it is not tried with others; far back with much of it: some is tried
        (dict(zip(ALL, (0.0, -1.0, 0.0, -0.1, 0.0, 0.0), strict=True)), [ALL[i] for i in (0, 1, 3)]),
        (dict(zip(ALL, (0.0, -0.1, -1.0, -0.1, 0.0, 0.0), strict=True)), ALL[:5]),
        # it helps: others have as much of it as suits k = 2, and another share where they are then the best
        (dict(zip(ALL, (0.0, 0.1, 0.1, -0.1, 0.0, 0.0), strict=True)), ALL[:5]),
        (dict(zip(ALL, (0.0, 0.1, 0.2, -0.1, 0.0, 0.1), strict=True)), [*ALL[:4], ALL[5]]),
        (dict(zip(ALL, (0.0, 0.1, 0.1, -0.1, 0.3, 0.0), strict=True)), ALL),
        # there is no convex member that could tell
        (dict(zip(ALL[3:], (0.0, -1.0, -1.0), strict=True)), ALL[3:]),
    ],
)
def test_with_what_pooling_members_are_tried_is_asked_of_the_convex_one(levels, entered):
    shapes = [lambda i, level=level: level - 1e-4 * i for level in levels.values()]
    curves = Curves(30, *shapes, shifts=(-0.1, 0.3, 0.0, 0.2, -0.2))
    curves.paths = [MemberPath(make_penalty(2, k, 1.0, pooling=w), curves.alphas) for k, w in levels]
    paths, _ = staged_scores(curves.score, curves.paths, 5, "best")
    assert [(path.member.k, path.member.pooling) for path in paths] == entered


# -- searches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("selection", ["best", "one_se"])
def test_the_choice_is_that_of_the_full_search(rows, selection):
    staged, full = (regressor(search, selection=selection).fit(*rows) for search in ("staged", "full"))
    assert (staged.best_p_, staged.best_k_) == (full.best_p_, full.best_k_)
    assert len(staged.cv_results_["alpha"]) < 0.7 * len(full.cv_results_["alpha"]) == 0.7 * 180
    error = full.cv_results_["std_test_score"][full.cv_results_["rank_test_score"] == 1].item()
    assert staged.best_score_ >= full.best_score_ - 0.1 * error


def test_members_left_out_have_no_mean_and_the_last_ranks():
    data = make_tasks(4, 30, 20, n_informative=3, noise=0.5, random_state=0)  # (2, 2) shrinks too much
    staged, full = (
        regressor(search, alphas=20, cv=6).fit(data.X, data.y, data.task) for search in ("staged", "full")
    )
    table, whole = pd.DataFrame(staged.cv_results_), pd.DataFrame(full.cv_results_)
    out = table["mean_test_score"].isna()
    assert 0 < out.sum() < len(table) == len(whole)
    folds = [f"split{f}_test_score" for f in range(6)]
    assert table.loc[out, folds[:3]].notna().all().all() and table.loc[out, folds[3:]].isna().all().all()
    assert table.loc[out, "rank_test_score"].min() > table.loc[~out, "rank_test_score"].max()
    assert_array_equal(table.loc[~out, folds], whole.loc[~out, folds])
    assert whole[folds].notna().all().all()
    assert len(search_curves(staged)[0]) == len(table[~out].groupby(["p", "k"])) < 3


# -- the rule, on scores that are known ----------------------------------------------------------------------


class Surface:
    """Scores of pairs given by a function of their places in the grid; remembers what was asked."""

    def __init__(self, shape, surface, noise=0.01, n_folds=5):
        rng = np.random.default_rng(0)
        mean = surface(*np.indices(shape).astype(float))
        self.scores = mean + noise * rng.normal(size=(n_folds, *shape)) + rng.normal(size=(n_folds, 1, 1))
        self.pairs = StrengthPairs(DirtyRegressor(), tuple(np.geomspace(1.0, 1e-3, n) for n in shape))
        self.asked = []

    def score(self, lists, stage=""):
        (part,) = lists
        self.asked += part.pairs().tolist()
        rows = [scores[tuple(part.pairs().T)] for scores in self.scores]
        return FoldScores([[{"scores": row, "by_task": row[:, None, None]} for row in rows]])

    def searched(self):
        """Mean scores as a search in stages knows them."""
        (scores,) = grown_scores(self.score, self.pairs, len(self.scores)).scores
        assert len(self.asked) == len({tuple(at) for at in self.asked})  # none twice
        known = np.zeros(self.pairs.shape, dtype=bool)
        known[tuple(np.transpose(self.asked))] = True
        scores = scores.reshape(*self.pairs.shape, -1).transpose(2, 0, 1)
        assert_array_equal(~np.isnan(scores), np.broadcast_to(known, scores.shape))
        assert_array_equal(scores[:, known], self.scores[:, known])
        return scores.mean(axis=0)


def peak(a, b, width=2.0):
    return lambda i, j: -((i - a) ** 2 + (j - b) ** 2) / width**2


@pytest.mark.parametrize("at", [(0, 0), (2, 1), (5, 0), (0, 6), (8, 3), (9, 9)])
def test_the_best_pair_of_one_peak_is_found(at):
    surface = Surface((10, 10), peak(*at))
    best = np.unravel_index(np.nanargmax(surface.searched()), (10, 10))
    assert best == np.unravel_index(np.argmax(surface.scores.mean(axis=0)), (10, 10)) == at


def test_smaller_strengths_than_those_around_the_best_are_not_tried():
    surface = Surface((10, 10), peak(1, 5))
    tried = ~np.isnan(surface.searched())
    assert tried[:4, :7].all() and not tried[5:].any() and not tried[:, 8:].any()


@pytest.mark.parametrize("shape", [(3, 3), (1, 2), (2, 12), (12, 1)])
def test_axes_of_few_values_are_tried_as_a_whole(shape):
    tried = ~np.isnan(Surface(shape, peak(0, 0, 0.5)).searched())
    assert tried[: min(3, shape[0]), : min(3, shape[1])].all()
    assert tried.sum() < 20


def test_two_folds_do_not_tell_an_error_so_all_is_tried():
    assert not np.isnan(Surface((10, 8), peak(0, 0, 0.5), n_folds=2).searched()).any()


def test_scores_that_are_not_defined_leave_nothing_out():
    surface = Surface((6, 6), peak(0, 0, 0.5))
    surface.scores[2] = np.nan
    grown_scores(surface.score, surface.pairs, 5)
    assert len(surface.asked) == 36


# -- searches ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return make_tasks(5, 40, 15, n_informative=4, noise=2.0, random_state=0)


@pytest.mark.parametrize("Model", [DirtyRegressor, RobustRegressor, LowRankRegressor, CappedRegressor])
def test_the_choice_of_two_strengths_is_that_of_the_full_search(Model, data):
    staged, full = (
        TwoStrengthCV(Model(), 8, cv=3, search=search).fit(data.X, data.y, task=data.task)
        for search in ("staged", "full")
    )
    assert staged.best_params_ == full.best_params_ and staged.best_index_ == full.best_index_
    assert_allclose(staged.coef_, full.coef_, atol=1e-8 * np.abs(full.coef_).max())
    found, whole = (model.cv_results_["mean_test_score"] for model in (staged, full))
    tried = ~np.isnan(found)
    assert 9 < tried.sum() < 64 and not np.isnan(whole).any()
    assert_allclose(found[tried], whole[tried], rtol=5e-3)
    assert set(staged.cv_results_["rank_test_score"][tried]) == set(range(1, tried.sum() + 1))


def test_pairs_that_were_not_tried_are_neither_drawn_nor_counted(data):
    search = TwoStrengthCV(RobustRegressor(), 8, cv=3).fit(data.X, data.y, task=data.task)
    n_tried = np.count_nonzero(~np.isnan(search.cv_results_["mean_test_score"]))
    assert n_tried < 64
    assert sum(len(curve.mean) for curve in search_curves(search)[0]) == n_tried
    assert describe(search).search.n_candidates == n_tried
