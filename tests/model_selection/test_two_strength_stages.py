"""Two strengths in stages: what is tried, and that the choice is that of the full search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl import (
    CappedRegressor,
    DirtyRegressor,
    LowRankRegressor,
    RobustRegressor,
    TwoStrengthCV,
)
from mmtfl.datasets import make_tasks
from mmtfl.estimators.two_strength_search import StrengthPairs
from mmtfl.model_selection.cross_validation import FoldScores
from mmtfl.model_selection.staged import grown_scores
from mmtfl.plots.fit_displays import search_curves
from mmtfl.report.summary import describe

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
def test_the_choice_is_that_of_the_full_search(Model, data):
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
