"""Held-out scores of each task: those of fits that have not seen the rows, computed by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import accuracy_score, r2_score

from mmtfl import (
    MMTFLClassifier,
    MMTFLClassifierCV,
    MMTFLRegressor,
    MMTFLRegressorCV,
    SingleTaskClassifierCV,
    SingleTaskRegressorCV,
)
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import TaskKFold

CV = TaskKFold(3, random_state=0)
STRATIFIED = TaskKFold(3, random_state=0, stratify=True)


@pytest.fixture(scope="module")
def rows():
    """Three ragged tasks in mixed order, of different levels and units."""
    data = make_tasks(3, [24, 36, 30], 8, n_informative=3, noise=0.7, random_state=0)
    order = np.random.default_rng(0).permutation(90)
    X, y, task = data.X[order], data.y[order], data.task[order]
    return X, (y + task) * 10.0**task, np.array(["north", "south", "west"])[task]


@pytest.fixture(scope="module")
def classes(rows):
    X, y, task = rows
    noise = np.random.default_rng(1).normal(size=len(y))
    score = np.array([(v - y[task == t].mean()) / y[task == t].std() for v, t in zip(y, task, strict=True)])
    return X, np.where(score + noise > 0.5, "yes", "no"), task


def by_task(task, score):
    return [score(task == label) for label in np.unique(task)]


# -- regression ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gaps", [False, True])
def test_r2_of_several_targets_on_the_same_rows(gaps):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(30, 5))
    Y = X @ rng.normal(size=(5, 3)) + rng.normal(size=(30, 3))
    if gaps:
        Y[rng.random(Y.shape) < 0.2] = np.nan
    folds = [
        (np.flatnonzero(np.arange(30) % 3 != f), np.flatnonzero(np.arange(30) % 3 == f)) for f in range(3)
    ]
    search = MMTFLRegressorCV((2, 2), 8, folds).fit(X, Y)
    predicted = np.empty_like(Y)
    for train, test in folds:
        predicted[test] = MMTFLRegressor(2, 2, search.alpha_).fit(X[train], Y[train]).predict(X[test])
    seen = ~np.isnan(Y)
    assert search.heldout_scores_["n_rows"].tolist() == seen.sum(axis=0).tolist()
    expected = [r2_score(Y[seen[:, t], t], predicted[seen[:, t], t]) for t in range(3)]
    assert_allclose(search.heldout_scores_["r2"], expected, atol=1e-3)


@pytest.mark.filterwarnings("ignore::mmtfl.SmallTaskWarning")
def test_tasks_without_a_score_are_nan(rows):
    X, y, task = (part.copy() for part in rows)
    task[:1], y[task == "south"] = "alone", 0.1
    folds = list(CV.split(X, y, task))  # the only row of its task is tested where it is trained
    folds[0] = folds[0][0], np.append(folds[0][1], 0)
    folds = [(np.union1d(train, [0]), test) for train, test in folds]
    found = MMTFLRegressorCV((2, 2), 5, folds).fit(X, y, task).heldout_scores_
    assert dict(zip(found["task"], np.isnan(found["r2"]), strict=True)) == {
        "alone": True, "north": False, "south": True, "west": False
    }  # fmt: skip
    assert found["n_rows"][0] == 1


# -- classes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", [None, "auc"])
def test_scores_of_classes_are_those_of_fits_without_the_rows(classes, scoring):
    X, y, task = classes
    search = MMTFLClassifierCV((2, 2), 8, STRATIFIED, scoring=scoring, levels="free").fit(X, y, task)
    log_odds, pairs = np.empty(len(y)), {label: [] for label in np.unique(task)}
    for train, test in STRATIFIED.split(X, y, task):
        model = MMTFLClassifier(2, 2, search.alpha_).fit(X[train], y[train], task[train])
        log_odds[test] = model.decision_function(X[test], task[test])
        for label, found in pairs.items():
            own = test[task[test] == label]
            yes, no = log_odds[own[y[own] == "yes"]], log_odds[own[y[own] == "no"]]
            found += (yes[:, None] > no).ravel().tolist()
    found = search.heldout_scores_
    assert list(found) == ["task", "n_rows", "accuracy", "auc", "base_rate"]
    wrong = np.where(y == "yes", -log_odds, log_odds)
    errors = np.concatenate(by_task(task, lambda t: np.sort(wrong[t])))
    assert_allclose(search.heldout_errors_["error"], errors, atol=5e-3)
    says = np.where(log_odds > 0, "yes", "no")
    assert_allclose(found["accuracy"], by_task(task, lambda t: accuracy_score(y[t], says[t])), atol=1e-9)
    assert_allclose(found["auc"], [np.mean(found) for found in pairs.values()], atol=0.02)
    base = by_task(task, lambda t: max(np.mean(y[t] == "yes"), np.mean(y[t] == "no")))
    assert_allclose(found["base_rate"], base)
    assert min(base) > 0.5


# -- every search --------------------------------------------------------------------------------------------


def test_one_strength_per_task_has_the_scores_of_each_task_alone(rows, classes):
    for Search, (X, y, task), cv in (
        (SingleTaskRegressorCV, rows, CV),
        (SingleTaskClassifierCV, classes, STRATIFIED),
    ):
        search = Search(p=1, alphas=6, cv=cv, per_task=True).fit(X, y, task)
        found, errors = search.heldout_scores_, search.heldout_errors_
        each = np.split(errors["error"], np.cumsum(errors["n_kept"])[:-1])
        folds = list(cv.split(X, y, task))
        for t, label in enumerate(np.unique(task)):
            own = np.flatnonzero(task == label)
            cut = [[np.flatnonzero(np.isin(own, part)) for part in fold] for fold in folds]
            by_itself = Search(p=1, alphas=6, cv=cut).fit(X[own], y[own])
            assert_allclose(each[t], by_itself.heldout_errors_["error"], rtol=1e-5, atol=1e-6)
            alone = by_itself.heldout_scores_
            assert found["task"][t] == label
            for name in set(found) - {"task"}:
                assert_allclose(found[name][t], alone[name][0], rtol=1e-6, atol=1e-6, err_msg=name)
