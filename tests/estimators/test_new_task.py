"""Tasks that a fit has not seen: added with a few rows, or predicted by the common part."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas import DataFrame
from scipy import sparse
from scipy.special import expit

import mmtfl
from mmtfl import (
    DirtyRegressor,
    MMTFLClassifier,
    MMTFLRegressor,
    MMTFLRegressorCV,
    gammas_from_alpha,
)

MEMBERS = [(2, 1, 0.0), (2, 2, 0.9), (1, 1, 0.0), (1, 1, 0.8), (2, np.inf, 0.9), (2, "log", 0.9), (3, 2, 0.0)]


def sites(n_tasks=3, n_rows=40, classification=False, seed=0):
    """Tasks whose coefficients scatter about common ones; intercepts too."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_tasks * n_rows, 6)) * [1.0, 5.0, 1.0, 0.3, 1.0, 1.0] + [0, 0, 2, 0, 0, 0]
    task = np.repeat([f"site {t}" for t in range(n_tasks)], n_rows)
    coef = np.array([1.0, -0.3, 0.5, 2.0, 0.0, 0.0]) + 0.2 * rng.normal(size=(n_tasks, 6))
    code = np.repeat(np.arange(n_tasks), n_rows)
    y = np.einsum("ij,ij->i", X, coef[code]) + rng.normal(size=n_tasks)[code] + 0.5 * rng.normal(size=len(X))
    return X, np.where(y > np.median(y), "yes", "no") if classification else y, task


# -- a new task with a few rows ------------------------------------------------------------------------------


@pytest.mark.parametrize("classification", [False, True])
@pytest.mark.parametrize(("p", "k", "pooling"), MEMBERS)
def test_the_rows_of_a_fitted_task_give_its_coefficients_again(p, k, pooling, classification):
    X, y, task = sites(classification=classification)  # three tasks do not tell how intercepts scatter
    kind = MMTFLClassifier if classification else MMTFLRegressor
    scales = {} if classification else {"scale_targets": True}
    model = kind(p, k, 0.02, pooling=pooling, standardize=True, tol=1e-10, **scales).fit(X, y, task=task)
    again = task == "site 1"
    wider = model.add_task(X[again], y[again], task="copy")
    assert model.coef_.any()
    assert_allclose(wider.coef_[3], model.coef_[1], atol=1e-6)
    assert_allclose(wider.intercept_[3], model.intercept_[1], atol=1e-6)


@pytest.mark.parametrize("pooling", [0.0, 0.9])
def test_the_new_task_meets_the_conditions_of_its_own_problem(pooling):
    X, y, task = sites(n_tasks=8)
    kept = np.arange(len(y)) % 40 < np.repeat(np.arange(12, 41, 4), 40)  # tasks of unequal sizes
    X, y, task = X[kept], y[kept], task[kept]
    old = task != "site 7"
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    options = {"p": 2, "k": 1, "alpha": 0.05, "pooling": pooling, "tol": 1e-10}
    model = MMTFLRegressor(**options).fit(X[old], y[old], task=task[old], sample_weight=weight[old])
    new = np.flatnonzero(~old)[:12]
    wider = model.add_task(X[new], y[new], task="new", sample_weight=weight[new])

    n = weight[old].sum() / 7
    ridge = gammas_from_alpha(0.05, p=2, k=1)[0] / np.where(model.c_ > 0, model.c_, np.nan) ** 2
    a, b = wider.coef_[-1], wider.intercept_[-1]
    residual = weight[new] * (y[new] - X[new] @ a - b)
    expected = 2 * n * ridge * (a - model.common_)
    assert np.count_nonzero(model.c_) >= 4
    assert_allclose(X[new].T @ residual, expected, atol=1e-6)
    # the intercept: one more row at x = 0
    seen = y[old] - model.predict(X[old], task=task[old])
    noise = weight[old] @ seen**2 / weight[old].sum()
    scatter = np.sum((model.intercept_ - model.intercept_.mean()) ** 2) / (7 - 3)
    mean = np.average(model.intercept_, weights=model.task_sizes_)
    assert_allclose(residual.sum(), noise / scatter * (b - mean), atol=1e-6)


def test_the_other_tasks_keep_their_bits_and_the_model_is_not_changed(tmp_path):
    X, y, task = sites(n_tasks=6)
    model = MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=8, cv=3, standardize=True, scale_targets=True)
    model.fit(X, y, task=task)
    before = model.predict(X, task=task)
    new = model.add_task(X[:15] + 0.1, y[:15] + 1.0, task="new")
    twice = new.add_task(X[20:30], y[20:30], task="newer")
    assert model.tasks_.tolist() == sorted(set(task))
    assert twice.tasks_.tolist() == [*model.tasks_.tolist(), "new", "newer"]
    for wider in (new, twice):
        assert_array_equal(wider.predict(X, task=task), before)
        assert_array_equal(wider.coef_[:6], model.coef_)
        assert_array_equal(wider.B_[:, :6], model.B_)
    assert_array_equal(twice.coef_[6], new.coef_[6])
    twice.save(tmp_path / "twice.mmtfl")
    assert_array_equal(mmtfl.load(tmp_path / "twice.mmtfl").coef_, twice.coef_)
    # the second is not changed by the first
    alone = model.add_task(X[20:30], y[20:30], task="newer")
    assert_allclose(alone.coef_[-1], twice.coef_[-1], atol=1e-10)
    assert "added_tasks_" in vars(twice) and "added_tasks_" not in vars(twice.fit(X, y, task=task))


def test_a_new_task_of_one_class_has_odds_between_its_own_and_those_of_the_others():
    X, y, task = sites(n_tasks=8, classification=True)
    model = MMTFLClassifier(2, 2, 0.05, pooling=0.9).fit(X, y, task=task)
    wider = model.add_task(np.zeros((10, 6)), np.repeat("yes", 10), task="new")
    usual = expit(model.intercept_.mean())
    assert usual < expit(wider.intercept_[-1]) < 0.999
    few = MMTFLClassifier(2, 2, 0.05).fit(X[:120], y[:120], task=task[:120])
    with pytest.raises(ValueError, match="single class"):
        few.add_task(X[:5], np.repeat("yes", 5), task="new")


def test_rows_may_come_in_a_frame_or_sparse_and_those_of_no_weight_do_not_count():
    X, y, task = sites(n_tasks=5)
    plain = MMTFLRegressor(2, 2, 0.05, pooling=0.5).fit(X, y, task=task)
    expected = plain.add_task(X[:12], y[:12], task="new").coef_
    frame = DataFrame(X, columns=list("abcdef")).assign(site=task)
    named = MMTFLRegressor(2, 2, 0.05, pooling=0.5, task_column="site").fit(frame, y)
    wider = named.add_task(frame[:12].assign(site="new"), y[:12])
    assert wider.tasks_[-1] == "new"
    assert_allclose(wider.coef_, expected, atol=1e-9)
    weights, targets = np.repeat([1.0, 0.0], [12, 2]), np.append(y[:12], [1e3, 1e3])
    again = plain.add_task(sparse.csr_array(X[:14]), targets, task="new", sample_weight=weights)
    assert_allclose(again.coef_, expected, atol=1e-9)


def test_what_cannot_be_added_is_refused():
    X, y, task = sites()
    model = MMTFLRegressor(2, 2, 0.05).fit(X, y, task=task)
    for kind, words, rows, y_of, label in (
        (ValueError, "has a task 'site 1' already", X[:5], y[:5], "site 1"),
        (ValueError, "needs the new task's label", X[:5], y[:5], None),
        (TypeError, "another type", X[:5], y[:5], 7),
        (ValueError, "missing label", X[:5], y[:5], np.nan),
    ):
        with pytest.raises(kind, match=words):
            model.add_task(rows, y_of, task=label)
    with pytest.raises(ValueError, match="finite p"):
        MMTFLRegressor(np.inf, 1, 0.05).fit(X, y, task=task).add_task(X[:5], y[:5], task="new")
    with pytest.raises(ValueError, match="use the classes of the fit"):
        MMTFLClassifier(2, 2, 0.05).fit(X, y > 0, task=task).add_task(X[:6], np.arange(6) % 3, task="new")


# -- a task that was never seen ------------------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [False, True])
def test_an_unknown_task_is_predicted_by_the_common_part(scaled):
    X, y, task = sites(n_tasks=5)
    model = MMTFLRegressor(2, 2, 0.1, pooling=0.9, unknown_task="common", standardize=scaled, tol=1e-10).fit(
        X, y, task=task
    )
    predicted = model.predict(X, task=np.repeat("elsewhere", len(X)))
    assert_allclose(predicted, X @ model.common_ + model.common_intercept_)
    assert_allclose(predicted.mean(), y.mean())  # right in the mean of all rows
    mixed = np.where(np.arange(len(X)) % 2, "elsewhere", task)
    own = model.predict(X, task=task)
    assert_allclose(model.predict(X, task=mixed), np.where(np.arange(len(X)) % 2, predicted, own))


def test_a_model_without_a_common_part_refuses_to_predict_by_it():
    X, y, task = sites()
    elsewhere = np.repeat("elsewhere", len(X))
    for model in (
        MMTFLRegressor(2, 2, 0.1, pooling=0.9)
        .fit(X, y, task=task)
        .set_params(pooling=0, unknown_task="common"),
        MMTFLRegressor(1, 1, 0.1, pooling=0.5, unknown_task="common"),
        DirtyRegressor(unknown_task="common"),
    ):
        model.fit(X, y, task=task)
        assert model.predict(X, task=task).shape == y.shape
        with pytest.raises(ValueError, match="pooling above 0"):
            model.predict(X, task=elsewhere)


@pytest.mark.parametrize("unknown_task", ["error", "mean", "common"])
def test_a_missing_label_is_not_a_new_task(unknown_task):
    X, y, task = sites()
    model = MMTFLRegressor(2, 2, 0.1, pooling=0.9, unknown_task=unknown_task).fit(X, y, task=task)
    labels = [*task[:3].tolist(), np.nan]
    with pytest.raises(ValueError, match=r"1 missing label \(first in row 3\)") as caught:
        model.predict(X[:4], task=labels)
    assert ("give it a name" in str(caught.value)) == (unknown_task != "error")


# -- the common part -----------------------------------------------------------------------------------------


def test_the_summary_shows_what_the_tasks_scatter_about_and_how_far():
    X, y, task = sites(n_tasks=5)
    model = MMTFLRegressor(2, 2, 0.1, pooling=0.9).fit(X, y, task=task)
    shown = model.summary().set_index("feature")
    assert shown.columns.tolist()[:3] == ["c", "common", "scatter"]
    assert_allclose(shown["common"][[f"x{j}" for j in range(6)]], model.common_)
    by_hand = [np.sqrt(np.mean([(a[j] - model.common_[j]) ** 2 for a in model.coef_])) for j in range(6)]
    assert_allclose(shown["scatter"][[f"x{j}" for j in range(6)]], by_hand)
    assert "common" not in MMTFLRegressor(2, 2, 0.1).fit(X, y, task=task).summary().columns
