"""The estimators that choose by themselves: what they choose, how they score, and that they are citizens."""

from functools import cached_property

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import make_scorer, mean_squared_error, r2_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from mmtfl import MMTFLClassifier, MMTFLClassifierCV, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import TaskKFold, task_scorer
from mmtfl.objective.problem import Problem

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


def split_scores(model, fold):
    return model.cv_results_[f"split{fold}_test_score"]


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


@pytest.mark.parametrize("pk", [(2, 2), (2, 1), (1, 1), (1, 2)])
@pytest.mark.parametrize("Search", [MMTFLRegressorCV, MMTFLClassifierCV])
def test_the_final_fit_does_not_depend_on_the_rounding_of_the_data(Search, pk):
    data = make_tasks(4, 30, 12, n_informative=4, noise=1.0, random_state=3)
    y = data.y if Search is MMTFLRegressorCV else data.y > 0
    rounding = 1 + 1e-15 * np.random.default_rng(0).uniform(-1, 1, data.X.shape)
    one, other = (
        Search(pk=pk, alphas=10, cv=3, levels="free").fit(X, y, task=data.task)
        for X in (data.X, data.X * rounding)
    )
    largest = np.abs(one.coef_).max()
    assert largest > 0
    assert_allclose(other.coef_, one.coef_, rtol=0, atol=1e-10 * largest)


# -- the choice --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [regressor, classifier])
def test_choice_is_the_row_of_the_table_with_the_best_mean(rows, classes, search):
    X, y, task = rows if search is regressor else classes
    pairs = ((2, 2), (2, 1), (1, "log"))
    model = search(pk=pairs, alphas=7).fit(X, y, task)
    table = pd.DataFrame(model.cv_results_)
    assert len(table) == 3 * 7
    assert table[["p", "k"]].drop_duplicates().to_numpy().tolist() == [[2, 2], [2, 1], [1, 0]]
    best = table.loc[table["mean_test_score"].idxmax()]
    chosen_k = 0.0 if model.best_k_ == "log" else model.best_k_
    assert (best["p"], best["k"], best["alpha"]) == (model.best_p_, chosen_k, model.alpha_)
    assert best["rank_test_score"] == 1
    assert best["mean_test_score"] == model.best_score_
    assert table["mean_test_score"].nunique() > 10
    assert sorted(table["rank_test_score"]) == list(range(1, 22))
    ranked = table.sort_values("rank_test_score")["mean_test_score"].to_numpy()
    assert np.all(np.diff(ranked) <= 0)


def test_table_has_means_and_deviations_of_its_folds(rows):
    model = regressor(cv=4).fit(*rows)
    table = pd.DataFrame(model.cv_results_)
    splits = table[[f"split{f}_test_score" for f in range(4)]]
    assert set(table) == {
        "p", "k", "pooling", "curves", "alpha", "mean_test_score", "std_test_score", "rank_test_score",
        "tied", "chosen", *splits.columns,
    }  # fmt: skip
    assert_allclose(table["mean_test_score"], splits.mean(axis=1), rtol=1e-12)
    assert_allclose(table["std_test_score"], splits.std(axis=1, ddof=0), rtol=1e-10)
    assert_array_equal(table["alpha"], model.alphas_)
    assert np.all(np.diff(model.alphas_) < 0)
    assert table["std_test_score"].min() > 0


def test_one_standard_error_takes_the_strongest_alpha_that_is_as_good(rows):
    best = regressor(alphas=30, cv=5).fit(*rows)
    careful = regressor(alphas=30, cv=5, selection="one_se").fit(*rows)
    table = pd.DataFrame(best.cv_results_)
    splits = table[[f"split{f}_test_score" for f in range(5)]]
    top = table["mean_test_score"].idxmax()
    error = splits.loc[top].std(ddof=1) / np.sqrt(5)
    good = table.loc[table["mean_test_score"] >= table["mean_test_score"][top] - error, "alpha"]
    assert careful.alpha_ == good.max()
    assert careful.alpha_ > best.alpha_
    assert np.count_nonzero(careful.c_) <= np.count_nonzero(best.c_)
    assert careful.best_score_ == table["mean_test_score"][table["alpha"] == careful.alpha_].item()


@pytest.mark.parametrize(
    ("pk", "members"),
    [
        ((2, 1), [(2, 1)]),
        ([2, 1], [(2, 1)]),
        ([(2, 1)], [(2, 1)]),
        (((2, 2), (1, 2)), [(2, 2), (1, 2)]),
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


def test_each_member_has_its_own_grid_and_alpha_ratio_sets_its_end(rows):
    model = regressor(pk=((2, 2), (2, 1)), alphas=5, alpha_ratio=0.1).fit(*rows)
    grids = model.cv_results_["alpha"].reshape(2, 5)
    assert_allclose(grids[:, -1] / grids[:, 0], 0.1)
    assert grids[0, 0] != grids[1, 0]


@pytest.mark.parametrize(
    "scales", [{}, {"standardize": True, "scale_targets": True}], ids=["plain", "scaled"]
)
@pytest.mark.parametrize("pk", [(2, 2), (INF, 1), (2, INF)])
def test_refit_is_the_model_at_the_choice(rows, pk, scales):
    X, y, task = rows
    X = X * np.geomspace(0.2, 5, 8)
    model = regressor(pk=pk, tol=1e-8, **scales).fit(X, y, task)
    alone = MMTFLRegressor(*pk, model.alpha_, tol=1e-8, **scales).fit(X, y, task)
    assert alone.coef_.any()
    assert_allclose(model.objective_, alone.objective_, rtol=1e-6)
    assert_allclose(model.coef_, alone.coef_, atol=1e-4)
    assert_allclose(model.intercept_, alone.intercept_, atol=1e-4)
    assert_array_equal(model.tasks_, NAMES)


@pytest.mark.parametrize(
    "scales", [{}, {"standardize": True, "scale_targets": True}], ids=["plain", "scaled"]
)
def test_path_of_the_winner_passes_through_the_model(rows, scales):
    X, y, task = rows
    X, y = X * np.geomspace(0.2, 5, 8), y * np.array([1.0, 8.0, 0.3])[np.searchsorted(NAMES, task)]
    model = regressor(pk=((2, 2), (2, 1)), alphas=8, **scales).fit(X, y, task)
    place = list(model.alphas_).index(model.alpha_)
    assert len(model.path_) == 8
    assert_array_equal(model.path_.alphas, model.alphas_)
    assert_allclose(model.path_.coef(place), model.coef_, atol=0.01 * np.abs(model.coef_).max())
    assert_allclose(model.path_.intercepts[place], model.intercept_, atol=0.01 * np.abs(y).max())
    assert model.path_.n_kept[0] < model.path_.n_kept[-1]


def test_learned_attributes_fit_together(rows):
    X, _, task = rows
    model = regressor(pk=(2, 1)).fit(*rows)
    assert model.coef_.shape == (3, 8)
    assert_allclose(model.coef_.T, model.c_[:, None] * model.B_, atol=1e-12)
    index = np.searchsorted(NAMES, task)
    expected = np.einsum("ij,ij->i", X, model.coef_[index]) + model.intercept_[index]
    assert_allclose(model.predict(X, task), expected, rtol=1e-10)
    assert model.dual_gap_ is None
    assert model.history_[-1] == model.objective_
    assert model.summary()["kind"].isin(["shared", "none"]).all()


# -- scores of the folds, by hand --------------------------------------------------------------------------


def fit_on(model, X, y, task, part):
    return model.fit(X[part], y[part], task[part])


@pytest.mark.parametrize(
    "scales", [{}, {"standardize": True, "scale_targets": True}], ids=["plain", "scaled"]
)
def test_default_score_of_a_fold_is_minus_the_loss_of_its_test_rows(rows, scales):
    X, y, task = rows
    X, y = X * np.geomspace(0.2, 5, 8), y * np.array([1.0, 8.0, 0.3])[np.searchsorted(NAMES, task)]
    folds = folds_of(90)
    model = regressor(alphas=[0.5, 0.1, 0.02], cv=folds, **scales).fit(X, y, task)
    for f, (train, test) in enumerate(folds):
        spread = {t: y[train][task[train] == t].std() if scales else 1.0 for t in NAMES}
        unit = np.array([spread[t] for t in task[test]])
        for i, alpha in enumerate([0.5, 0.1, 0.02]):
            alone = fit_on(MMTFLRegressor(2, 2, alpha, tol=1e-9, **scales), X, y, task, train)
            residual = (y[test] - alone.predict(X[test], task[test])) / unit
            assert_allclose(split_scores(model, f)[i], -0.5 * np.mean(residual**2), rtol=1e-3)


def test_default_score_of_a_classifier_is_minus_its_log_loss(classes):
    X, y, task = classes
    folds = folds_of(90)
    model = classifier(alphas=[0.1, 0.02], cv=folds).fit(X, y, task)
    for f, (train, test) in enumerate(folds):
        alone = fit_on(MMTFLClassifier(2, 2, 0.02, tol=1e-9), X, y, task, train)
        chance = alone.predict_log_proba(X[test], task[test])
        of_truth = chance[np.arange(len(test)), (y[test] == "yes").astype(int)]
        assert_allclose(split_scores(model, f)[1], of_truth.mean(), rtol=1e-3)


@pytest.mark.parametrize("scales", [{}, {"scale_targets": True}], ids=["plain", "scaled"])
@pytest.mark.parametrize(
    "scoring",
    ["r2", "neg_mean_squared_error", r2_score, make_scorer(mean_squared_error, greater_is_better=False)],
    ids=["r2", "mse", "function", "scorer"],
)
def test_named_and_callable_scores_are_means_over_tasks_in_the_units_of_y(rows, scoring, scales):
    X, y, task = rows
    y = y * np.array([1.0, 8.0, 0.3])[np.searchsorted(NAMES, task)]
    folds = folds_of(90)
    model = regressor(alphas=[0.1], cv=folds, scoring=scoring, **scales).fit(X, y, task)
    squared = scoring not in ("r2", r2_score)
    for f, (train, test) in enumerate(folds):
        alone = fit_on(MMTFLRegressor(2, 2, 0.1, tol=1e-9, **scales), X, y, task, train)
        predicted = alone.predict(X[test], task[test])
        of_task = [
            -mean_squared_error(y[test][own], predicted[own])
            if squared
            else r2_score(y[test][own], predicted[own])
            for own in (task[test] == name for name in NAMES)
        ]
        assert_allclose(split_scores(model, f)[0], np.mean(of_task), rtol=1e-3)


@pytest.mark.parametrize("scoring", ["roc_auc", "f1", "accuracy", "neg_log_loss"])
def test_scores_of_classes_are_those_of_the_scorer_on_the_fold(classes, scoring):
    X, y, task = classes
    y = (y == "yes").astype(int)
    folds = folds_of(90)
    model = classifier(alphas=[0.05], cv=folds, scoring=scoring).fit(X, y, task)
    for f, (train, test) in enumerate(folds):
        alone = fit_on(MMTFLClassifier(2, 2, 0.05, tol=1e-9), X, y, task, train)
        expected = task_scorer(scoring)(alone, X[test], y[test], task=task[test])
        assert_allclose(split_scores(model, f)[0], expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("scoring", "by_hand"),
    [
        ("r2", r2_score),
        (
            make_scorer(mean_squared_error, greater_is_better=False),
            lambda *a, **k: -mean_squared_error(*a, **k),
        ),
    ],
    ids=["r2", "mse"],
)
@pytest.mark.parametrize("average", ["macro", "pooled"])
def test_named_scores_count_rows_by_their_weight(rows, scoring, by_hand, average):
    X, y, task = rows
    weight = np.random.default_rng(2).uniform(0.1, 3.0, size=90)
    folds = folds_of(90)
    model = regressor(alphas=[0.3], cv=folds, tol=1e-9, scoring=task_scorer(scoring, average=average))
    model.fit(X, y, task, weight)
    for f, (train, test) in enumerate(folds):
        # the path of a fold stops at 1e-4, which scores do not see
        alone = MMTFLRegressor(2, 2, 0.3).fit(X[train], y[train], task[train], weight[train])
        predicted = alone.predict(X[test], task[test])
        parts = [task[test] == name for name in NAMES] if average == "macro" else [np.full(len(test), True)]
        values = [by_hand(y[test][own], predicted[own], sample_weight=weight[test][own]) for own in parts]
        assert_allclose(split_scores(model, f), np.mean(values), rtol=1e-3)
        unweighted = np.mean([by_hand(y[test][own], predicted[own]) for own in parts])
        assert abs(unweighted - np.mean(values)) > 3e-3 * abs(unweighted)


# -- folds -------------------------------------------------------------------------------------------------


def test_a_number_is_task_k_fold_with_that_many_folds(rows):
    for cv, splitter in [(None, TaskKFold(5, random_state=0)), (4, TaskKFold(4, random_state=0))]:
        assert_same_search(regressor(cv=cv).fit(*rows), regressor(cv=splitter).fit(*rows), rtol=0)


def test_splitters_of_scikit_learn_split_the_rows_as_given(rows, classes):
    for search, splitter, (X, y, task) in [
        (regressor, KFold(3, shuffle=True, random_state=0), rows),
        (classifier, StratifiedKFold(3, shuffle=True, random_state=0), classes),
    ]:
        pairs = list(splitter.split(X, y))
        assert_same_search(search(cv=splitter).fit(X, y, task), search(cv=pairs).fit(X, y, task), rtol=0)


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
    assert np.abs(split_scores(model, 0) - split_scores(wrong, 0)).max() > 1e-3


def test_a_target_per_row_in_two_dimensions_is_not_taken_for_one_column(rows):
    """Every row observes exactly one of two targets: as many observations as rows, but in another order."""

    class Spy:
        def split(self, X, y=None, groups=None):
            self.y = np.asarray(y)
            return folds_of(len(X))

        def get_n_splits(self, X=None, y=None, groups=None):
            return 3

    X, y, task = rows
    Y = np.full((90, 2), np.nan)
    Y[np.arange(90), (task == "west").astype(int)] = y
    spy = Spy()
    regressor(cv=spy).fit(X, Y)
    own = spy.y if spy.y.ndim == 1 else np.nansum(spy.y, axis=1)
    assert_allclose(own, y)


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


def test_a_task_with_one_class_in_training_is_an_error_that_names_fold_and_task(classes):
    X, y, task = classes
    lost = np.flatnonzero((task == "west") & (y == "yes"))
    assert len(lost) > 2
    kept = np.setdiff1d(np.arange(90), lost)
    with pytest.raises(ValueError, match=r"Fold 0 .*one class.*'west'"):
        classifier(cv=[(kept, lost)]).fit(X, y, task)


@pytest.mark.parametrize(
    "cv",
    [
        [],
        "five",
        [(np.arange(90),)],
        [(np.arange(60), np.arange(60, 90), np.arange(3))],
        [(np.arange(90), np.array([], dtype=int))],
        [(np.arange(90), [90])],
        [(np.arange(90), [0.5])],
        [([], np.arange(90))],
    ],
    ids=["none", "string", "single", "triple", "empty-test", "beyond", "fraction", "empty-train"],
)
def test_folds_that_make_no_sense_are_a_clear_error(rows, cv):
    with pytest.raises((ValueError, TypeError), match=r"\bcv\b"):
        regressor(cv=cv).fit(*rows)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("pk", ()),
        ("pk", 2),
        ("pk", ((2, 1, 1),)),
        ("pk", (0.5, 1)),
        ("pk", (2, 0)),
        ("pk", (2, "lag")),
        ("pk", ("two", 1)),
        ("pk", [(2, None)]),
        ("pk", (INF, INF)),
        ("alphas", 0),
        ("alphas", [0.1, -1.0]),
        ("alphas", ["a"]),
        ("alphas", [[0.1, 0.2]]),
        ("cv", 1),
        ("alpha_ratio", 1.5),
        ("selection", "worst"),
        ("scoring", 3),
    ],
    ids=repr,
)
def test_parameters_that_make_no_sense_are_a_clear_error(rows, parameter, value):
    with pytest.raises((ValueError, TypeError), match=rf"\b({parameter}|p|k)\b"):
        regressor(**{parameter: value}).fit(*rows)


# -- tasks by columns of y, and by a column of X -----------------------------------------------------------


@pytest.fixture(scope="module")
def shared():
    """One X, three targets, a third of them not observed; and the same as stacked rows."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 6))
    Y = X[:, :3] @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(60, 3)) + [1.0, 0.0, -1.0]
    Y[rng.random(Y.shape) < 0.3] = np.nan
    column, row = np.nonzero(~np.isnan(Y.T))
    return X, Y, row, column


@pytest.mark.parametrize(
    "scales", [{}, {"standardize": True, "scale_targets": True}], ids=["plain", "scaled"]
)
@pytest.mark.parametrize(
    "form", [np.asarray, sparse.csr_array, sparse.csc_array], ids=["dense", "csr", "csc"]
)
def test_columns_of_y_are_tasks_and_nan_is_not_there(shared, scales, form):
    X, Y, row, column = shared
    folds = folds_of(60)
    model = regressor(pk=((2, 2), (2, 1)), cv=folds, tol=1e-8, **scales).fit(form(X), Y)
    stacked = [tuple(np.flatnonzero(np.isin(row, part)) for part in fold) for fold in folds]
    other = regressor(pk=((2, 2), (2, 1)), cv=stacked, tol=1e-8, **scales).fit(X[row], Y[row, column], column)
    assert_same_search(model, other, rtol=1e-4)
    assert model.predict(X).shape == (60, 3)


@pytest.mark.filterwarnings("ignore::mmtfl.SmallTaskWarning")
def test_default_folds_keep_every_target_in_training(shared):
    X, Y, _, _ = shared
    for seed in range(12):
        rare = np.full(60, np.nan)
        rare[np.random.default_rng(seed).choice(60, 2, replace=False)] = [0.0, 1.0]
        assert regressor(alphas=1, cv=None).fit(X, np.column_stack([Y, rare])).coef_.shape == (4, 6)


# -- invariances -------------------------------------------------------------------------------------------


def test_a_row_of_weight_zero_is_absent_when_folds_are_given(rows):
    X, y, task = rows
    extra = np.arange(0, 90, 4)
    kept = np.setdiff1d(np.arange(90), extra)
    y = y.copy()
    y[extra] = 1e6
    weight = np.ones(90)
    weight[extra] = 0.0
    folds = folds_of(90)
    new = {old: i for i, old in enumerate(kept)}
    fewer = [tuple([new[i] for i in part if i in new] for part in fold) for fold in folds]
    for options in ({"standardize": True, "scale_targets": True}, {"scoring": "r2"}):
        options["pk"] = ((2, 2), (2, 1))
        weighted = regressor(cv=folds, **options).fit(X, y, task, weight)
        absent = regressor(cv=fewer, **options).fit(X[kept], y[kept], task[kept])
        assert_same_search(weighted, absent, rtol=1e-6)


def test_weight_two_is_a_repeated_row_when_folds_are_given(rows):
    X, y, task = rows
    weight = np.random.default_rng(4).integers(1, 4, size=90)
    repeat = np.repeat(np.arange(90), weight)
    folds = folds_of(90)
    repeated = [tuple(np.flatnonzero(np.isin(repeat, part)) for part in fold) for fold in folds]
    options = {"standardize": True, "scale_targets": True, "tol": 1e-8}
    weighted = regressor(cv=folds, **options).fit(X, y, task, weight)
    other = regressor(cv=repeated, **options).fit(X[repeat], y[repeat], task[repeat])
    assert_same_search(weighted, other, rtol=1e-5)


@pytest.mark.parametrize("search", [regressor, classifier])
def test_same_bits_for_any_number_of_threads(rows, classes, search):
    X, y, task = rows if search is regressor else classes
    pairs = ((2, 2), (1, 1), (2, 1))
    one, two = (search(pk=pairs, n_jobs=n).fit(X, y, task) for n in (1, 2))
    assert_same_search(one, two, rtol=0)
    assert_array_equal(one.intercept_, two.intercept_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_fold_is_prepared_once_for_all_members(rows, monkeypatch, n_jobs):
    passes = []
    counted = _counted(vars(Problem)["null_gradient"].func, passes)
    monkeypatch.setattr(Problem, "null_gradient", counted, raising=True)
    regressor(pk=((2, 2), (1, 1), (2, 1)), alphas=[0.5, 0.1], n_jobs=n_jobs).fit(*rows)
    # one for each of three folds, and one for the path of the choice on all rows and its last fit: intervals
    # are made of the errors of the models that were scored
    assert len(passes) == 4


def _counted(function, calls):
    def counting(self):
        calls.append(self)
        return function(self)

    out = cached_property(counting)
    out.__set_name__(Problem, "null_gradient")
    return out


# -- degenerate but legal ----------------------------------------------------------------------------------


def test_constant_targets_choose_the_empty_model(rows):
    X, _, task = rows
    model = regressor(pk=((2, 2), (2, 1))).fit(X, np.full(90, 0.1), task)
    assert not model.coef_.any()
    assert_allclose(model.intercept_, 0.1)


@pytest.mark.filterwarnings("ignore::mmtfl.SmallTaskWarning")
def test_tiny_tasks_and_tasks_of_one_row_take_part():
    rng = np.random.default_rng(6)
    task = np.repeat(np.arange(40), np.tile([1, 2, 3, 4], 10))
    X = rng.normal(size=(100, 4))
    y = 3 * X[:, 0] + 0.1 * rng.normal(size=100)
    model = regressor(pk=(2, 2), cv=3).fit(X, y, task)
    assert model.coef_.shape == (40, 4)
    assert np.count_nonzero(model.c_) >= 1


def test_too_few_rows_is_a_clear_error():
    with pytest.raises(ValueError, match="at least two rows"):
        regressor().fit(np.ones((1, 2)), [1.0])
    with pytest.raises(ValueError, match="fewer folds"):
        regressor(cv=5).fit(np.eye(3), [1.0, 2.0, 3.0])


# -- it learns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pk", [((2, 2), (2, 1)), (1, 1)], ids=repr)
def test_support_of_an_easy_problem_is_found(pk):
    data = make_tasks(
        5, 60, 20, n_informative=4, noise=0.3, law=lambda rng, n: rng.choice([-2, 2], n), random_state=1
    )
    model = regressor(pk=pk, alphas=20, selection="one_se").fit(data.X, data.y, data.task)
    assert_array_equal(np.flatnonzero(model.c_), np.flatnonzero(data.support.any(axis=0)))
    assert_allclose(model.coef_, data.coef, atol=0.3)
