"""A search in stages: what it tries, that it chooses as the full search does, and what it says of itself."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import TaskKFold
from mmtfl.model_selection.cross_validation import FoldScores, MemberPath
from mmtfl.model_selection.staged import _coarse, _strong, curves_may_win, staged_scores
from mmtfl.objective.penalties import make_penalty
from mmtfl.plots.fit_displays import search_curves

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


def test_the_table_has_a_row_for_each_candidate_that_was_scored_and_no_other(rows):
    model = regressor().fit(*rows)
    table = pd.DataFrame(model.cv_results_)
    assert table.notna().all().all()
    assert not table.duplicated(["p", "k", "alpha"]).any()
    own = table[(table["p"] == model.best_p_) & (table["k"] == model.best_k_)]
    assert_array_equal(own["alpha"], model.alphas_)
    assert np.all(np.diff(model.alphas_) < 0)
    assert_array_equal(model.path_.alphas, model.alphas_)
    best = own.loc[own["mean_test_score"].idxmax()]
    assert (best["alpha"], best["rank_test_score"]) == (model.alpha_, 1)
    for _, member in table.groupby(["p", "k"]):
        assert len(member) >= len(_coarse(60))


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


def test_a_checkpoint_keeps_every_stage(rows, tmp_path, monkeypatch):
    plain = regressor().fit(*rows)
    kept = regressor(checkpoint=tmp_path / "search.checkpoint").fit(*rows)

    def refuse(*arguments, **options):
        raise AssertionError("a path was solved again")

    monkeypatch.setattr(MemberPath, "solve", refuse)
    again = regressor(checkpoint=tmp_path / "search.checkpoint").fit(*rows)
    for model in (kept, again):
        assert_array_equal(model.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
        assert_array_equal(model.coef_, plain.coef_)
