"""Curves beside lines in every estimator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from mmtfl import (
    CappedRegressor,
    DirtyRegressor,
    LowRankRegressor,
    MMTFLClassifier,
    MMTFLRegressor,
    MMTFLRegressorCV,
    SingleTaskRegressorCV,
    TwoStrengthCV,
)
from mmtfl.model_selection import TaskKFold
from mmtfl.model_selection.choosing import choose


@pytest.fixture(scope="module")
def rows():
    """Three tasks: a parabola in x0, a logarithm in x1, a line in x2, an indicator, and noise."""
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.uniform(-2, 2, 360), np.exp(rng.normal(size=360)), rng.normal(size=360), rng.integers(0, 2, 360)]
    )
    X = np.column_stack([X, rng.normal(size=360)])
    task = np.repeat(["a", "b", "c"], 120)
    y = X[:, 0] ** 2 + np.log(X[:, 1]) + 0.5 * X[:, 2] + X[:, 3] + (task == "b") + 0.2 * rng.normal(size=360)
    return X, y, task


MODELS = [
    MMTFLRegressor(p=2, k=2, alpha=0.01, pooling=0.9),
    MMTFLRegressor(p=2, k=1, alpha=0.01, standardize=True),
    MMTFLRegressor(p=1, k=2, alpha=0.01, solver="alternating", tol=1e-5),
    MMTFLRegressorCV(pk=(2, 2), alphas=10, cv=3),
    SingleTaskRegressorCV(p=1, per_task=True, alphas=10, cv=3),
    DirtyRegressor(),
    LowRankRegressor(),
    CappedRegressor(),
    TwoStrengthCV(DirtyRegressor(curves=True), 3, cv=3),
]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: type(model).__name__)
def fitted(request, rows):
    X, y, task = rows
    model = request.param
    return (model if isinstance(model, TwoStrengthCV) else model.set_params(curves=True)).fit(X, y, task=task)


def test_curves_follow_what_lines_cannot(fitted, rows):
    X, y, task = rows
    assert fitted.coef_.shape == (3, 5)
    assert fitted.score(X, y, task=task) > 0.9
    assert fitted.curves_.basis.curved.tolist() == [0, 1, 2, 4]  # the indicator stays a line


def test_predictions_are_the_sum_of_intercept_and_effects(fitted, rows):
    X, _, task = rows
    model = getattr(fitted, "best_estimator_", fitted)
    total = model.intercept_[1] + X.mean(axis=0) @ model.coef_[1]
    own = X[task == "b"]
    for j in range(5):
        total = total + fitted.curve(j, own[:, j], task="b")["effect"].to_numpy()
    assert_allclose(fitted.predict(own, task=["b"] * len(own)), total, atol=1e-9)


def test_the_summary_says_line_or_curve_and_the_direction(rows):
    X, y, task = rows
    model = MMTFLRegressor(p=2, k=1, alpha=0.03, curves=True, pooling=0.9).fit(X, y, task=task)
    said = model.summary().set_index("feature")
    assert said["shape"].tolist().count("") == 1  # the noise
    assert said.loc["x0", ["shape", "direction"]].tolist() == ["curve", ""]
    assert said.loc["x1", ["shape", "direction"]].tolist() == ["curve", "rising"]
    assert said.loc["x2", ["shape", "direction"]].tolist() == ["line", "rising"]
    assert said.loc["x3", "shape"] == "line"
    lines = MMTFLRegressor(alpha=0.1).fit(X, y, task=task)
    found = lines.curve(2, [0.0, 1.0, 3.0], task="a")["effect"].to_numpy()
    assert lines.curves_ is None
    assert_allclose(np.diff(found), lines.coef_[0, 2] * np.array([1.0, 2.0]))


def test_curves_of_named_columns_and_of_several_tasks():
    import polars as pl

    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"age": rng.uniform(20, 80, 90), "task": rng.uniform(size=90)})
    y = (frame["age"].to_numpy() - 50) ** 2 / 100
    model = MMTFLRegressor(p=2, k=2, alpha=0.001, curves=True).fit(frame, y, task=np.repeat(["a", "b"], 45))
    found = model.curve("age", task=["b", "a"])
    assert isinstance(found, pl.DataFrame) and found.columns == ["age", "task", "effect"]
    assert found["task"].unique(maintain_order=True).to_list() == ["b", "a"]
    assert found["age"].min() == frame["age"].min() and found["age"].max() == frame["age"].max()
    assert model.curve("task", [0.5]).columns == ["value", "effect"]
    with pytest.raises(ValueError, match="curve has no task 'c': the model's tasks are"):
        model.curve("age", task="c")
    with pytest.raises(ValueError, match="curve names the feature 'agee', which X does not have"):
        model.curve("agee")


def test_signs_groups_free_weights_and_sparse_rows_keep_lines(rows):
    X, y, task = rows
    known = {"positive": ["x0"], "penalty_weight": {"x1": 0}, "feature_groups": [["x2", "x3"]]}
    model = MMTFLRegressor(p=2, k=2, alpha=0.01, curves=True, **known).fit(X, y, task=task)
    assert model.curves_.basis.curved.tolist() == [4]
    weight = MMTFLRegressor(p=2, k=2, alpha=0.01, curves=True, penalty_weight={"x0": 1e6}).fit(
        X, y, task=task
    )
    assert not weight._uses()[:, 0].any() and weight._uses()[:, 1].all()
    assert MMTFLRegressor(alpha=0.01, curves=True).fit(sparse.csr_matrix(X), y, task=task).curves_ is None


def test_an_added_task_bends_as_the_others_do(rows):
    X, y, task = rows
    known = task != "c"
    model = MMTFLRegressor(p=2, k=2, alpha=0.005, pooling=0.9, curves=True, unknown_task="common")
    model.fit(X[known], y[known], task=task[known])
    more = model.add_task(X[~known][:8], y[~known][:8], task="c")
    assert more.curves_.coef.shape == (3, 16) and np.array_equal(more.curves_.coef[:2], model.curves_.coef)
    z = model.predict(X[:2], task=["new", "new"])  # a task never seen has the common curves
    effects = [model.curve(j, X[:2, j])["effect"].to_numpy() for j in range(5)]
    assert_allclose(np.diff(z), np.diff(np.sum(effects, axis=0)))
    rest = X[~known][8:], y[~known][8:]
    residual = rest[1] - more.predict(rest[0], task=["c"] * len(rest[1]))
    assert 1.0 - residual.var() / rest[1].var() > 0.9


def test_classes_columns_of_targets_and_warm_starts(rows):
    X, y, task = rows
    classes = MMTFLClassifier(p=2, k=2, alpha=0.002, curves=True).fit(X, y > np.median(y), task=task)
    assert classes.score(X, y > np.median(y), task=task) > 0.85
    both = MMTFLRegressor(p=2, k=2, alpha=0.01, curves=True, warm_start=True).fit(X, np.column_stack([y, -y]))
    assert both.predict(X).shape == (360, 2) and both.curves_.coef.shape == (2, 16)
    first = both.n_iter_
    assert both.fit(X, np.column_stack([y, -y])).n_iter_ <= first


# -- searches ------------------------------------------------------------------------------------------------


def test_folds_choose_curves_where_effects_bend_and_lines_where_they_do_not(rows):
    X, y, task = rows
    bends = MMTFLRegressorCV(alphas=30, cv=3).fit(X, y, task=task)
    assert bends.best_curves_ and bends.score(X, y, task=task) > 0.95
    assert bends.path_.n_features == 5
    low, high = bends.predict_interval(X, task=task, coverage=0.9).T
    assert 0.85 < np.mean((low <= y) & (y <= high)) < 0.98
    table = bends.cv_results_
    chosen = np.flatnonzero(table["chosen"])
    assert len(chosen) == 1 and table["curves"][chosen[0]] and table["alpha"][chosen[0]] == bends.alpha_
    assert not table["curves"].all()
    straight = X @ [1.0, 0.1, -1.0, 0.5, 0.0] + np.random.default_rng(3).normal(size=360)
    lines = MMTFLRegressorCV(alphas=30, cv=3).fit(X, straight, task=task)
    assert not lines.best_curves_ and lines.curves_ is None
    assert (
        not MMTFLRegressorCV(alphas=30, cv=3, curves=False).fit(X, y, task=task).cv_results_["curves"].any()
    )


def test_folds_of_close_candidates_are_repeated_within_a_third_of_the_work(rows, monkeypatch):
    X, y, task = rows
    seen = []

    def spy(scores, selection="best", order=None, repeated=None):
        seen.append((scores, repeated))
        return choose(scores, selection, order, repeated)

    monkeypatch.setattr("mmtfl.estimators.cross_validated.choose", spy)
    model = MMTFLRegressorCV(curves=False, cv=4).fit(X, y, task=task)
    ((scores, repeated),) = [found for found in seen if found[1] is not None]
    n_repeats = len(next(iter(repeated.values()))) // 4
    tried = sum(np.isfinite(part).sum() for part in scores)
    assert n_repeats > 0 and 2 <= len(repeated) <= 3 and 3 * 4 * 4 * n_repeats * len(repeated) <= tried
    # no model that has seen their rows is where those of repeats begin
    member = {"pk": ((model.best_p_, model.best_k_),), "poolings": (model.best_pooling_,)}
    folds = TaskKFold(4, random_state=1)
    alone = MMTFLRegressorCV(**member, alphas=[model.alpha_], curves=False, cv=folds).fit(X, y, task=task)
    again = [alone.cv_results_[f"split{fold}_test_score"][0] for fold in range(4)]
    assert any(np.allclose(part[:4], again, rtol=1e-9, atol=0.0) for part in repeated.values())
    seen.clear()
    MMTFLRegressorCV(curves=False, cv=TaskKFold(4, random_state=0)).fit(X, y, task=task)
    assert all(again is None for _, again in seen)
