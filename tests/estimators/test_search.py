"""The estimators that choose by themselves: what they choose, how they score, and that they are citizens."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import make_scorer, mean_squared_error, r2_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from mmtfl import MMTFLClassifier, MMTFLClassifierCV, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import TaskKFold, task_scorer

INF = float("inf")
NAMES = np.array(["north", "south", "west"])


@pytest.fixture(scope="module")
def rows():
    """Three ragged tasks in mixed order: X, y and labels."""
    data = make_tasks(3, [24, 36, 30], 8, n_informative=3, noise=0.7, random_state=0)
    order = np.random.default_rng(0).permutation(90)
    parts = data.X[order], data.y[order] + data.task[order], NAMES[data.task[order]]
    for part in parts:
        part.setflags(write=False)  # whoever writes to its inputs fails here
    return parts


@pytest.fixture(scope="module")
def classes(rows):
    X, y, task = rows
    middle = np.array([np.median(y[task == name]) for name in NAMES])[np.searchsorted(NAMES, task)]
    noise = np.random.default_rng(1).normal(size=90)  # so that no task is separable
    return X, np.where(y + noise > middle, "yes", "no"), task


def regressor(**options):
    usual = {"pk": (2, 2), "alphas": 6, "cv": 3, "poolings": (0,), "levels": "free"}
    return MMTFLRegressorCV(**{**usual, **options})


def classifier(**options):
    usual = {"pk": (2, 2), "alphas": 6, "cv": 3, "poolings": (0,), "levels": "free"}
    return MMTFLClassifierCV(**{**usual, **options})


def folds_of(n_rows, n_folds=3, seed=0):
    """Index pairs in the order of the rows."""
    fold = np.random.default_rng(seed).permutation(np.arange(n_rows) % n_folds)
    return [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(n_folds)]


SCALES = [{}, {"standardize": True, "scale_targets": True}]


def uneven(rows):
    """Columns and targets of uneven sizes."""
    X, y, task = rows
    return X * np.geomspace(0.2, 5, 8), y * np.array([1.0, 8.0, 0.3])[np.searchsorted(NAMES, task)], task


def assert_same_search(one, other, rtol=1e-12):
    for name, column in one.cv_results_.items():
        assert_allclose(column, other.cv_results_[name], rtol=rtol, err_msg=name)
    assert (one.best_p_, one.best_k_) == (other.best_p_, other.best_k_)
    assert_allclose(one.alpha_, other.alpha_, rtol=rtol)
    assert_allclose(one.coef_, other.coef_, rtol=rtol, atol=rtol)


# -- scikit-learn ------------------------------------------------------------------------------------------


@parametrize_with_checks([MMTFLRegressorCV(alphas=6, cv=3)])
def test_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


# -- the choice --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("search", "scales"), [*((regressor, one) for one in SCALES), (classifier, {})])
def test_the_choice_is_a_best_row_of_the_table_and_the_model_is_fitted_there(rows, classes, search, scales):
    X, y, task = uneven(rows) if search is regressor else classes
    pairs, names = ((2, 2), (2, 1), (1, "log")), [f"split{f}_test_score" for f in range(3)]
    model = search(pk=pairs, alphas=7, alpha_ratio=0.01, tol=1e-8, **scales).fit(X, y, task)
    table = pd.DataFrame(model.cv_results_)
    assert table.columns.tolist() == [
        *("p", "k", "pooling", "curves", "alpha", "mean_test_score", "std_test_score", "rank_test_score"),
        *(*names, "tied", "chosen"),
    ]
    assert table[["p", "k"]].drop_duplicates().to_numpy().tolist() == [[2, 2], [2, 1], [1, 0]]
    grids = table["alpha"].to_numpy().reshape(3, 7)
    assert_allclose(grids[:, -1] / grids[:, 0], 0.01)
    assert len(set(grids[:, 0])) == 3 and (np.diff(grids) < 0).all()
    assert_allclose(table["mean_test_score"], table[names].mean(axis=1), rtol=1e-12)
    assert_allclose(table["std_test_score"], table[names].std(axis=1, ddof=0), rtol=1e-10)
    best, (chosen,) = table["mean_test_score"].idxmax(), np.flatnonzero(table["chosen"])
    assert table["tied"][[best, chosen]].all() and (chosen == best or table["tied"].sum() > 1)
    p, k = model.best_p_, model.best_k_
    row, same = table.loc[chosen], table["p"] == table["p"][chosen]
    assert (row["p"], row["k"], row["alpha"]) == (p, 0.0 if k == "log" else k, model.alpha_)
    scores = table["mean_test_score"][same & (table["k"] == row["k"])]
    assert row["mean_test_score"] == model.best_score_ == scores.max()
    assert (table.sort_values("rank_test_score")["mean_test_score"].diff().dropna() <= 0).all()
    assert sorted(table["rank_test_score"]) == list(range(1, 22))
    kind = MMTFLRegressor if search is regressor else MMTFLClassifier
    alone = kind(p, k, model.alpha_, tol=1e-8, **scales).fit(X, y, task)
    assert alone.coef_.any()
    assert_allclose(model.objective_, alone.objective_, rtol=1e-6)
    assert_allclose(model.coef_, alone.coef_, atol=1e-4 * np.abs(alone.coef_).max())
    assert_allclose(model.predict(X, task) == y, alone.predict(X, task) == y)
    place = list(model.alphas_).index(model.alpha_)
    assert_array_equal(model.path_.alphas, model.alphas_)
    assert_allclose(model.path_.coef(place), model.coef_, atol=0.01 * np.abs(model.coef_).max())
    assert_allclose(model.path_.intercepts[place], model.intercept_, atol=0.01 * np.abs(X).max())


def test_the_final_fit_does_not_depend_on_the_rounding_of_the_data(rows, classes):
    rounding = 1 + 1e-15 * np.random.default_rng(0).uniform(-1, 1, (90, 8))
    for search, (X, y, task) in ((regressor, rows), (classifier, classes)):
        for pk in ((2, 2), (2, 1), (1, 1)):
            one, other = (search(pk=pk).fit(x, y, task).coef_ for x in (X, X * rounding))
            assert_allclose(other, one, rtol=0, atol=1e-10 * np.abs(one).max())


@pytest.mark.parametrize(
    ("pk", "members"),
    [
        ((2, 1), [(2, 1)]),
        (np.array([[2, 2], [1, 1]]), [(2, 2), (1, 1)]),
        ((1, "log"), [(1, 0)]),
        ([(2, 1), (1, "log")], [(2, 1), (1, 0)]),
        ([(INF, 1), (2, INF)], [(INF, 1), (2, INF)]),
    ],
    ids=repr,
)
def test_members_come_as_one_pair_or_several(rows, pk, members):
    model = regressor(pk=pk, alphas=3, cv=2).fit(*rows)
    table = model.cv_results_
    assert list(dict.fromkeys(zip(table["p"], table["k"], strict=True))) == members
    assert len(table["p"]) == 3 * len(members)
    if len(members) == 1:
        assert model.best_p_ == members[0][0]
        assert model.best_k_ == ("log" if members[0][1] == 0 else members[0][1])


def test_a_search_tries_pooling_by_default_but_not_with_members_that_are_named(rows):
    X, y, task = rows
    for options, expected in (
        ({}, {0.0, 0.9, 0.99, 3 / 3.03}),
        ({"pk": (2, 2)}, {0.0}),
        ({"pk": (2, 2), "poolings": (0, 0.5)}, {0.0, 0.5}),
    ):
        model = MMTFLRegressorCV(alphas=3, cv=2, **options).fit(X, y, task)
        assert set(model.cv_results_["pooling"].tolist()) == expected


# -- scores of the folds, by hand --------------------------------------------------------------------------


def mse(y, z, sample_weight):
    return -mean_squared_error(y, z, sample_weight=sample_weight)


@pytest.mark.parametrize("scales", SCALES, ids=["plain", "scaled"])
@pytest.mark.parametrize(
    ("scoring", "metric", "pooled"),
    [
        (None, mse, True),
        ("r2", r2_score, False),
        (r2_score, r2_score, False),
        (make_scorer(mean_squared_error, greater_is_better=False), mse, False),
        (task_scorer("r2", average="pooled"), r2_score, True),
    ],
    ids=["loss", "name", "function", "scorer", "pooled"],
)
def test_a_fold_is_scored_on_its_test_rows_by_the_fit_to_the_others(rows, scoring, metric, pooled, scales):
    X, y, task = uneven(rows)
    weight, folds, predicted = np.random.default_rng(2).uniform(0.1, 3.0, size=90), folds_of(90), np.empty(90)
    model = regressor(alphas=[0.5, 0.1], cv=folds, scoring=scoring, **scales).fit(X, y, task, weight)
    for f, (train, test) in enumerate(folds):
        for i, alpha in enumerate([0.5, 0.1]):
            alone = MMTFLRegressor(2, 2, alpha, tol=1e-9, **scales)
            alone.fit(X[train], y[train], task[train], weight[train])
            found = [y[test], alone.predict(X[test], task[test])]
            predicted[test] = found[1] if alpha == model.alpha_ else predicted[test]
            if scoring is None and scales:  # the loss is in the units of the fit
                found = [part / alone.target_scale_[np.searchsorted(NAMES, task[test])] for part in found]
            weights, of_task = weight[test], [task[test] == name for name in NAMES]
            parts = [np.full(len(test), True)] if pooled else of_task
            score = np.mean([metric(*(z[own] for z in found), sample_weight=weights[own]) for own in parts])
            score *= 0.5 if scoring is None else 1.0
            # paths of folds are solved to 1e-4
            assert_allclose(model.cv_results_[f"split{f}_test_score"][i], score, rtol=2e-3, atol=5e-4)
    of_task = [task == name for name in NAMES]
    expected = [r2_score(y[own], predicted[own], sample_weight=weight[own]) for own in of_task]
    assert list(model.heldout_scores_) == ["task", "n_rows", "r2"] and np.ptp(expected) > 0.05
    assert_allclose(model.heldout_scores_["r2"], expected, atol=2e-3)
    errors, ends = model.heldout_errors_, np.cumsum(model.heldout_errors_["n_kept"])[:-1]
    for own, found, unit in zip(of_task, np.split(errors["error"], ends), (1.0, 8.0, 0.3), strict=True):
        assert_allclose(found, np.sort(np.abs(y - predicted)[own]), atol=0.02 * unit)


@pytest.mark.parametrize("scoring", [None, "roc_auc", "f1", "neg_log_loss"])
def test_classes_are_scored_by_the_fit_to_the_other_folds(classes, scoring):
    X, y, task = classes
    folds = folds_of(90)
    model = classifier(alphas=[0.05], cv=folds, scoring=scoring).fit(X, y == "yes", task)
    scorer = task_scorer("neg_log_loss", average="pooled") if scoring is None else task_scorer(scoring)
    for f, (train, test) in enumerate(folds):
        alone = MMTFLClassifier(2, 2, 0.05, tol=1e-9).fit(X[train], y[train] == "yes", task[train])
        expected = scorer(alone, X[test], y[test] == "yes", task=task[test])
        assert_allclose(model.cv_results_[f"split{f}_test_score"], expected, rtol=1e-3)


# -- folds -------------------------------------------------------------------------------------------------


def test_a_number_is_task_k_fold_with_that_many_folds_stratified_for_classes(rows, classes):
    for cv, n in ((None, 5), (4, 4)):
        for search, data, stratify in ((regressor, rows, False), (classifier, classes, True)):
            splitter = TaskKFold(n, random_state=0, stratify=stratify)
            assert_same_search(search(cv=cv).fit(*data), search(cv=splitter).fit(*data), rtol=0)
    with pytest.raises(ValueError, match="at least two rows"):
        regressor().fit(np.ones((1, 2)), [1.0])
    with pytest.raises(ValueError, match="fewer folds"):
        regressor(cv=5).fit(np.eye(3), [1.0, 2.0, 3.0])


def test_index_pairs_mean_rows_as_they_were_given_whatever_the_order_of_labels(rows):
    X, y, task = rows
    grouped = np.argsort(task, kind="stable")
    folds = folds_of(90)
    place = np.argsort(grouped)  # where a row goes when rows are grouped
    model = regressor(cv=folds).fit(X, y, task)
    moved = [(place[train], place[test]) for train, test in folds]
    assert_same_search(model, regressor(cv=moved).fit(X[grouped], y[grouped], task[grouped]), rtol=1e-9)
    # a search that took the pairs for rows of the grouped data would be this one
    wrong = regressor(cv=folds).fit(X[grouped], y[grouped], task[grouped])
    name = "split0_test_score"
    assert np.abs(model.cv_results_[name] - wrong.cv_results_[name]).max() > 1e-3
    for splitter in (KFold(3, shuffle=True, random_state=0), StratifiedKFold(3)):
        kinds = y > np.median(y)
        model, pairs = (classifier(cv=cv) for cv in (splitter, list(splitter.split(X, kinds))))
        assert_same_search(model.fit(X, kinds, task), pairs.fit(X, kinds, task), rtol=0)


@pytest.mark.parametrize("search", [regressor, classifier])
def test_a_task_without_training_rows_is_an_error_that_names_fold_and_task(rows, classes, search):
    X, y, task = rows if search is regressor else classes
    east = np.flatnonzero(task == "south")
    others = np.setdiff1d(np.arange(90), east)
    good = folds_of(90)[0]
    with pytest.raises(ValueError, match=r"Fold 1 .*'south'"):
        search(cv=[good, (others, east)]).fit(X, y, task)
    with pytest.raises(ValueError, match=r"Fold 0 .*'(north|south|west)'.*TaskKFold"):
        search(cv=GroupKFold(3)).fit(X, y, task)
    if search is classifier:
        lost = np.flatnonzero((task == "west") & (y == "yes"))
        with pytest.raises(ValueError, match=r"Fold 0 .*one class.*'west'"):
            classifier(cv=[(np.setdiff1d(np.arange(90), lost), lost)]).fit(X, y, task)


# -- invariances -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [regressor, classifier])
def test_same_bits_for_any_number_of_threads(rows, classes, search):
    X, y, task = rows if search is regressor else classes
    pairs = ((2, 2), (1, 1), (2, 1))
    one, two = (search(pk=pairs, n_jobs=n).fit(X, y, task) for n in (1, 2))
    assert_same_search(one, two, rtol=0)
    assert_array_equal(one.intercept_, two.intercept_)
