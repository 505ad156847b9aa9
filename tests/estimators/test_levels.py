"""Levels in the estimators: shrunk after the fit, learned, saved, and used for tasks never seen."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

import mmtfl
from mmtfl import (
    DirtyRegressor,
    MMTFLClassifier,
    MMTFLClassifierCV,
    MMTFLRegressor,
    MMTFLRegressorCV,
    TwoStrengthCV,
)
from mmtfl.estimators.shrunk_levels import level_model
from mmtfl.objective.losses import Logistic, Poisson

QUICK = {"pk": (2, 2), "alphas": 8, "cv": 3}


def schools(seed=0, n_tasks=40, sizes=(4, 12), noise=2.0):
    """Small tasks whose level is higher by 3 where the last column is 1, and scatters by 1 otherwise."""
    rng = np.random.default_rng(seed)
    n = rng.integers(*sizes, n_tasks)
    task = np.repeat(np.arange(n_tasks), n)
    X = rng.normal(size=(len(task), 3)) + 5.0
    X[:, 2] = rng.integers(0, 2, n_tasks)[task]
    level = rng.normal(size=n_tasks)[task] + 3.0 * X[:, 2]
    return X, X[:, 0] + level + noise * rng.normal(size=len(task)), task, X[:, 0] + level


@pytest.fixture(scope="module")
def data():
    return schools()


@pytest.fixture(scope="module")
def search(data):
    return MMTFLRegressorCV(**QUICK, unknown_task="common").fit(*data[:3])


@pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
class TestNumbers:
    def test_shrunk_levels_predict_better_and_are_chosen_by_the_searches(self, data, search):
        X, _, task, truth = data
        free = MMTFLRegressorCV(**QUICK, levels="free").fit(*data[:3])
        errors = [np.mean((model.predict(X, task=task) - truth) ** 2) for model in (search, free)]
        assert errors[0] < 0.9 * errors[1]  # the slopes are the same
        assert search.best_score_ > free.best_score_
        assert_allclose(search.coef_.any(axis=0), free.coef_.any(axis=0))
        assert not hasattr(free, "level_spread_") and not hasattr(free, "level_effects_")
        assert list(search.level_effects_.index) == ["x0", "x1", "x2"]
        assert abs(search.level_effects_["x2"] - 3.0) < 1.0 and 0.4 < search.level_spread_ < 1.8
        free = MMTFLRegressor(2, 2, 0.1, pooling=0.9, unknown_task="common").fit(X, data[1], task=task)
        free = free.calibrate(X, data[1], task=task)
        with pytest.raises(ValueError, match="levels='shrunk'"):
            free.predict_interval(X[:2], task=[900, 900])
        Y = np.random.default_rng(0).normal(size=(30, 4)) + np.array([0.0, 10.0, 200.0, -5.0])
        columns = [MMTFLRegressor(2, 2, 0.1, levels=levels).fit(X[:30], Y) for levels in ("free", "shrunk")]
        assert np.array_equal(*(model.intercept_ for model in columns))  # columns of y have free levels

    def test_single_strengths_have_free_levels_unless_asked(self, data):
        X, y, task, _ = data
        free = MMTFLRegressor(2, 2, 0.1).fit(X, y, task=task)
        shrunk = MMTFLRegressor(2, 2, 0.1, levels="shrunk").fit(X, y, task=task)
        assert np.array_equal(free.coef_, shrunk.coef_)
        assert free.objective_ < shrunk.objective_
        centre = np.array([X[task == t].mean(axis=0) for t in free.tasks_]).mean(axis=0)
        told, drawn = (model.intercept_ + model.coef_ @ centre for model in (free, shrunk))
        assert np.std(drawn) < 0.95 * np.std(told)

    def test_two_strengths_and_other_losses_have_levels_too(self, data):
        X, y, task, _ = data
        assert TwoStrengthCV(DirtyRegressor(), 3, cv=2).fit(X, y, task=task).level_spread_ > 0.2
        huber = MMTFLRegressorCV(**QUICK, loss="huber").fit(X, y, task=task)
        assert abs(huber.level_effects_["x2"] - 3.0) < 1.2

    def test_folds_and_final_fit_shrink_alike(self, data):
        X, y, task, _ = data
        search = MMTFLRegressorCV(**{**QUICK, "alphas": [0.05]}, poolings=(0.0,)).fit(X, y, task=task)
        train, test = next(iter(mmtfl.model_selection.TaskKFold(3, random_state=0).split(X, y, task)))
        member = MMTFLRegressor(2, 2, 0.05, levels="shrunk").fit(X[train], y[train], task=task[train])
        score = -0.5 * np.mean((y[test] - member.predict(X[test], task=task[test])) ** 2)
        # the folds look for the spreads on a grid
        assert_allclose(search.cv_results_["split0_test_score"], score, rtol=0.02)

    # -- tasks never seen ------------------------------------------------------------------------------------

    def test_a_task_never_seen_has_the_level_that_its_columns_say(self, data, search):
        X = data[0][:6].copy()
        X[:3, 2], X[3:, 2] = 0.0, 1.0
        X[3:, :2] = X[:3, :2]
        z = search.predict(X, task=np.repeat([900, 901], 3))
        expected = search.level_effects_["x2"]
        slope = search._common_slopes()[2]
        assert_allclose(z[3:] - z[:3], expected + slope, rtol=1e-6)
        # a row of weight 3 of a new task is three rows, to its level too
        y, often = np.arange(6.0), np.array([0, 0, 0, 1, 2, 3, 4, 5])
        weighted = search.add_task(X, y, task=900, sample_weight=[3, 1, 1, 1, 1, 1])
        repeated = search.add_task(X[often], y[often], task=900)
        assert_allclose(weighted.intercept_[-1], repeated.intercept_[-1], rtol=1e-6)

    def test_intervals_for_tasks_never_seen_cover(self):
        hits = []
        for seed in range(6):
            X, y, task, _ = schools(seed, n_tasks=30)
            new = task >= 20
            model = MMTFLRegressorCV(**QUICK, unknown_task="common").fit(X[~new], y[~new], task=task[~new])
            low, high = model.predict_interval(X[new], task=task[new], coverage=0.9).T
            inside = (low <= y[new]) & (y[new] <= high)
            hits += [inside[task[new] == t].mean() for t in np.unique(task[new])]
        error = np.std(hits) / np.sqrt(len(hits))
        assert abs(np.mean(hits) - 0.9) < 3 * error


# -- classes and counts -------------------------------------------------------------------------------------


def survey(kind, seed=0, n_tasks=30):
    """Small tasks whose level is higher by 1.5 where the last column is 1; and the true means."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), rng.integers(5, 12, n_tasks))
    X = rng.normal(size=(len(task), 3)) + 2.0
    X[:, 2] = rng.integers(0, 2, n_tasks)[task]
    z = X[:, 0] - 3.5 + rng.normal(size=n_tasks)[task] + 1.5 * X[:, 2]
    if kind == "classes":
        return X, (rng.uniform(size=len(z)) < expit(z)).astype(int), task, expit(z)
    return X, rng.poisson(np.exp(z)).astype(float), task, np.exp(z)


def fitted(kind, rows, **options):
    if kind == "classes":
        return MMTFLClassifierCV(**QUICK, **options).fit(*rows[:3])
    return MMTFLRegressorCV(**QUICK, loss="poisson", **options).fit(*rows[:3])


@pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
@pytest.mark.parametrize("kind", ["classes", "counts"])
class TestClassesAndCounts:
    def test_tasks_of_one_value_are_fitted_and_told(self, kind):
        rows = survey(kind)
        alike = [t for t in np.unique(rows[2]) if np.ptp(rows[1][rows[2] == t]) == 0]
        assert alike
        with pytest.warns(UserWarning, match=f"{len(alike)} tasks have one value of the target only"):
            model = fitted(kind, rows)
        assert model.converged_ and np.abs(model.intercept_).max() < 12.0
        with pytest.raises(ValueError, match="levels='shrunk'"):
            fitted(kind, rows, levels="free")

    @pytest.mark.filterwarnings("ignore:.*one value of the target")
    def test_levels_minimise_the_stated_objective(self, kind):
        X, y, task, _ = survey(kind)
        if kind == "classes":
            model, loss = MMTFLClassifier(2, 2, 0.1, levels="shrunk", tol=1e-9), Logistic()
            y = np.where(y == 1, 1.0, -1.0)
        else:
            model, loss = MMTFLRegressor(2, 2, 0.1, loss="poisson", levels="shrunk", tol=1e-9), Poisson()
        model.fit(X, y, task=task)
        known, n = model.levels_, len(y) / len(model.tasks_)
        means = np.array([X[task == t].mean(axis=0) for t in model.tasks_])[:, known["features"]]
        columns = (means - known["centre"]) / known["scale"]
        middle = known["common"] + columns @ known["effects"]
        level = model.intercept_ + model.coef_ @ known["reference"]
        z = np.sum(X * model.coef_[task], axis=1) + model.intercept_[task]
        slope = np.bincount(task, loss.gradient(y, z, np.ones(len(y))))
        # the prior is that of the last but one round
        assert_allclose(slope + (level - middle) / known["spread"] ** 2, 0.0, atol=0.05)
        penalty = 0.1 * np.linalg.norm(model.coef_, axis=0).sum()
        by_hand = loss.value(y, z, np.full(len(y), 1 / n)) + penalty  # the prior is no part of it
        assert_allclose(model.objective_, by_hand, rtol=1e-9)

    @pytest.mark.filterwarnings("ignore:.*one value of the target")
    def test_a_task_never_seen_is_predicted_by_the_mean_over_its_levels(self, kind):
        rows = survey(kind)
        X, model = rows[0], fitted(kind, rows, unknown_task="common")
        new = X[:4]
        if kind == "classes":
            averaged = model.predict_proba(new, task=np.full(4, 99))[:, 1]
        else:
            averaged = model.predict(new, task=np.full(4, 99))
        of_tasks, of_levels = level_model(model.levels_)
        w = of_tasks.place(new.mean(axis=0)[None])
        level = of_levels.expected(w)[0]
        z = (new - model.levels_["reference"]) @ model._common_slopes() + level
        u = np.sqrt(of_levels.variance(w)[0]) * np.random.default_rng(0).normal(size=200_000)
        mean = (expit if kind == "classes" else np.exp)(z[:, None] + u).mean(axis=1)
        assert_allclose(averaged, mean, rtol=0.05)


def test_counts_follow_a_column_of_years_wherever_years_begin():
    rng = np.random.default_rng(4)
    T, n = 60, 5
    task, year = np.repeat(np.arange(T), n), np.tile(np.arange(n), T)
    level = 3.0 + 1.5 * rng.normal(size=T)
    y = rng.poisson(np.exp(level[task] + 0.1 * year)).astype(float)
    columns = np.column_stack([year, rng.normal(size=T)[task], rng.normal(size=T * n)])
    objective = []
    for first in (0.0, 1980.0):
        for pooling in (0.0, 0.999):
            model = MMTFLRegressor(
                2, 2, 5.0, pooling=pooling, loss="poisson", levels="shrunk", standardize=True
            ).fit(columns + np.array([first, 0.0, 0.0]), y, task=task)
            assert model.converged_
            objective.append(model.objective_)
    assert_allclose(objective[2:], objective[:2], rtol=1e-9)
