"""Tasks of a single class: refused by default; on request left out and predicted by their base rate."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

import mmtfl
from mmtfl.datasets import make_tasks

SEARCH = {"alphas": 4, "cv": 2}
MODELS = {
    "family": mmtfl.MMTFLClassifier(alpha=0.02),
    "standardised": mmtfl.MMTFLClassifier(p=1, k=1, alpha=0.02, standardize=True),
    "search": mmtfl.MMTFLClassifierCV(pk=(2, 1), **SEARCH),
    "separate": mmtfl.SingleTaskClassifierCV(p=1, **SEARCH),
    "separate strengths": mmtfl.SingleTaskClassifierCV(p=1, per_task=True, **SEARCH),
    "dirty": mmtfl.DirtyClassifier(),
    "robust": mmtfl.RobustClassifier(),
    "low rank": mmtfl.LowRankClassifier(),
    "capped": mmtfl.CappedClassifier(),
    "two strengths": mmtfl.TwoStrengthCV(mmtfl.RobustClassifier(), strengths=([0.05, 0.02], [0.1]), cv=2),
}


def rows():
    """Five tasks, of which 'b' has only "no" and 'd' only "yes"."""
    data = make_tasks(5, 30, 4, n_informative=2, noise=0.5, classification=True, random_state=0)
    task = np.array(list("abcde"))[np.unique(data.task, return_inverse=True)[1]]
    y = np.where(data.y > 0, "yes", "no")
    y[task == "b"], y[task == "d"] = "no", "yes"
    order = np.random.default_rng(1).permutation(len(y))
    return data.X[order], y[order], task[order]


def on_base_rate(model):
    name = "estimator__on_degenerate_task" if hasattr(model, "estimator") else "on_degenerate_task"
    return clone(model).set_params(**{name: "base_rate"})


def fit(model, *data, **more):
    with pytest.warns(
        UserWarning, match="2 tasks left out of the fit and predicted by the base rate"
    ) as told:
        model.fit(*data, **more)
    assert "'b' (30 rows, 'no'), 'd' (30 rows, 'yes')" in str(told[0].message)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_the_other_tasks_are_fitted_as_if_alone(name):
    X, y, task = rows()
    model = fit(on_base_rate(MODELS[name]), X, y, task=task)
    kept = np.isin(task, ["a", "c", "e"])
    alone = on_base_rate(MODELS[name]).fit(X[kept], y[kept], task=task[kept])
    assert model.tasks_.tolist() == list("abcde")
    assert model.base_rate_tasks_.tolist() == ["b", "d"] and alone.base_rate_tasks_.size == 0
    assert_array_equal(model.coef_[[0, 2, 4]], alone.coef_)
    assert_array_equal(model.intercept_[[0, 2, 4]], alone.intercept_)
    assert not model.coef_[[1, 3]].any() and alone.coef_.any()
    assert model.task_sizes_.tolist() == [30] * 5
    # what is shared is counted over the tasks that were fitted
    assert [list(row) for row in zip(*model.summary().to_dict("list").values(), strict=True)] == [
        list(row) for row in zip(*alone.summary().to_dict("list").values(), strict=True)
    ]


@pytest.mark.parametrize("name", MODELS)
def test_tasks_left_out_are_predicted_by_their_base_rate(name):
    X, y, task = rows()
    model = fit(on_base_rate(MODELS[name]), X, y, task=task)
    share = np.mean(y == "yes")  # of all rows: the rate of the one row that is added to a task
    for label, n_yes in (("b", 0), ("d", 30)):
        own = task == label
        expected = (n_yes + share) / 31
        assert_allclose(model.predict_proba(X[own], task=task[own])[:, 1], expected, rtol=1e-12)
        assert set(model.predict(X[own], task=task[own])) == {"yes" if n_yes else "no"}
    assert 0.7 < model.score(X, y, task=task) <= 1


@pytest.mark.parametrize("name", MODELS)
def test_saved_models_keep_it(name, tmp_path):
    X, y, task = rows()
    model = fit(on_base_rate(MODELS[name]), X, y, task=task)
    model.save(tmp_path / "m.mmtfl")
    loaded = mmtfl.load(tmp_path / "m.mmtfl")
    assert loaded.base_rate_tasks_.tolist() == ["b", "d"]
    assert_array_equal(loaded.predict_proba(X, task=task), model.predict_proba(X, task=task))


@pytest.mark.parametrize("name", MODELS)
def test_by_default_the_task_and_the_remedy_are_told(name):
    X, y, task = rows()
    with pytest.raises(ValueError, match=r"Task 'b' has only one class, 'no' \(30 rows\).*'base_rate'"):
        clone(MODELS[name]).fit(X, y, task=task)


def test_rows_without_weight_do_not_make_a_class():
    X, y, task = rows()
    weights = np.ones(len(y))
    weights[(task == "a") & (y == "yes")] = 0.0
    model = mmtfl.MMTFLClassifier(alpha=0.02, on_degenerate_task="base_rate")
    with pytest.warns(UserWarning, match="3 tasks left out"):
        model.fit(X, y, task=task, sample_weight=weights)
    assert model.base_rate_tasks_.tolist() == ["a", "b", "d"]
    n_no = weights[task == "a"].sum()
    share = np.average(y == "yes", weights=weights)
    found = model.predict_proba(X[:1], task=["a"])[0, 1]
    assert found == pytest.approx(share / (n_no + 1), rel=1e-12)


def test_a_weight_of_two_is_a_repeated_row():
    X, y, task = rows()
    twice = np.repeat(np.arange(len(y)), 2)
    options = {"alpha": 0.02, "on_degenerate_task": "base_rate"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        repeated = mmtfl.MMTFLClassifier(**options).fit(X[twice], y[twice], task=task[twice])
        weighted = mmtfl.MMTFLClassifier(**options).fit(X, y, task=task, sample_weight=np.full(len(y), 2.0))
    assert_allclose(repeated.intercept_, weighted.intercept_, rtol=1e-6)


def test_an_unknown_task_is_the_mean_of_the_tasks_that_were_fitted():
    X, y, task = rows()
    model = fit(on_base_rate(MODELS["family"]).set_params(unknown_task="mean"), X, y, task=task)
    fitted = [0, 2, 4]
    expected = X @ model.coef_[fitted].mean(axis=0) + model.intercept_[fitted].mean()
    assert_allclose(model.decision_function(X, task=np.full(len(y), "new")), expected, rtol=1e-12)


def test_columns_of_one_class():
    X, y, _ = rows()
    Y = np.column_stack([y == "yes", np.ones(len(y)), X[:, 0] > 0]).astype(int)
    for model in (MODELS["family"], MODELS["search"]):
        with pytest.warns(UserWarning, match=r"1 task left out .*: 1 \(150 rows, 1\)"):
            found = on_base_rate(model).fit(X, Y)
        assert found.predict(X).shape == (150, 3) and (found.predict(X)[:, 1] == 1).all()


def test_splitters_and_folds_of_all_rows_go_with_it():
    X, y, task = rows()
    folds = list(StratifiedKFold(3).split(X, np.char.add(y.astype(str), task.astype(str))))
    kept = np.isin(task, ["a", "c", "e"])
    place = np.cumsum(kept) - 1
    own = [tuple(place[part[kept[part]]] for part in fold) for fold in folds]
    options = {"pk": (2, 1), "alphas": 4, "on_degenerate_task": "base_rate"}
    model = fit(mmtfl.MMTFLClassifierCV(cv=folds, **options), X, y, task=task)
    alone = mmtfl.MMTFLClassifierCV(cv=own, **options).fit(X[kept], y[kept], task=task[kept])
    assert_array_equal(model.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    assert_array_equal(model.coef_[[0, 2, 4]], alone.coef_)


def test_a_path_has_all_tasks():
    X, y, task = rows()
    with pytest.warns(UserWarning, match="2 tasks left out"):
        found = mmtfl.path(X, y, task, alphas=3, loss="logistic", on_degenerate_task="base_rate")
    assert found.coef(2).shape == (5, 4) and found.coef(2)[0].any() and not found.coef(2)[[1, 3]].any()
    assert found.intercepts[:, 1] == pytest.approx(found.intercepts[0, 1])


def test_where_every_task_has_one_class_nothing_is_fitted():
    X, y, task = rows()
    kept = np.isin(task, ["b", "d"])
    model = mmtfl.MMTFLClassifier(on_degenerate_task="base_rate")
    with pytest.raises(ValueError, match=r"Every task has a single class.*check the task labels"):
        model.fit(X[kept], y[kept], task=task[kept])
    with pytest.raises(ValueError, match="only one class"):
        model.fit(X, np.full(len(y), "no"), task=task)
    with pytest.raises(ValueError, match="on_degenerate_task"):
        mmtfl.MMTFLClassifier(on_degenerate_task="drop").fit(X, y, task=task)


@pytest.mark.parametrize("name", ["search", "separate strengths", "two strengths"])
def test_a_search_has_a_row_of_held_out_scores_for_every_task(name, tmp_path):
    search = fit(on_base_rate(MODELS[name]), *rows())
    search.save(tmp_path / "model.mmtfl")
    for model in (search, mmtfl.load(tmp_path / "model.mmtfl")):
        table = model.heldout_scores_
        assert table["task"].tolist() == list("abcde") and table["n_rows"].tolist() == [30, 0, 30, 0, 30]
        assert np.isnan(table["accuracy"]).tolist() == [False, True, False, True, False]
