"""Fits and searches over tasks whose rows stay in files: the same as over all rows, with the same folds."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

from mmtfl import (
    CappedRegressor,
    MMTFLRegressor,
    MMTFLRegressorCV,
    SingleTaskRegressorCV,
    Tasks,
    TwoStrengthCV,
)
from mmtfl.model_selection import TaskKFold
from mmtfl.tasks import moments
from mmtfl.tasks.moments import fold_rows

N_FOLDS, FEATURES = 4, [f"x{j}" for j in range(5)]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    task = np.repeat(["a", "b", "c"], [700, 400, 9])  # the last too short to be kept as few rows
    frame = pd.DataFrame(rng.normal(size=(len(task), 5)) * [1, 2, 3, 1, 1] + 1.0, columns=FEATURES)
    frame["task"], frame["weight"] = task, rng.uniform(0.5, 2.0, size=len(task))
    frame["y"] = 5.0 + 2.0 * frame["x0"] + (task == "b") * frame["x1"] + rng.normal(size=len(task))
    return frame.sample(frac=1.0, random_state=0, ignore_index=True)


@pytest.fixture(scope="module", params=[None, "weight"])
def stored(request, table, tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "rows.parquet"
    table.to_parquet(path, row_group_size=300)
    return Tasks.from_parquet(path, task="task", target="y", features=FEATURES, weight=request.param)


def folds_of_the_table(stored, table, monkeypatch):
    """Which fold each row of the table falls into, seen as the rows go by."""
    seen, ours = {}, moments._rows_with_folds

    def watched(*arguments):
        for t, fold, X, y, w in ours(*arguments):
            seen.update({tuple(row): k for row, k in zip(X, fold, strict=True)})
            yield t, fold, X, y, w

    monkeypatch.setattr(moments, "_rows_with_folds", watched)
    rows = fold_rows(stored, N_FOLDS, 0)
    return rows, np.array([seen[tuple(row)] for row in table[FEATURES].to_numpy()])


@pytest.mark.parametrize(
    "options",
    [
        *({"p": p, "k": k} for p, k in ((1, 1), (2, 2), (1.5, 1), (2, np.inf), (1, np.inf))),
        {"p": 1, "k": "log", "alpha": 0.01, "standardize": True},
        *({"p": p, "k": k, "pooling": 0.9} for p, k in ((2, 2), (2, np.inf), (1, 1), (1, np.inf))),
        *({"loss": loss} for loss in ("poisson", "huber", {"a": "poisson", "b": "squared", "c": "huber"})),
        {"task_weight": "equal", "standardize": True},
        {"task_weight": {"c": 4.0}, "scale_targets": True},
        {"levels": "shrunk"},
        {"pooling": 0.9, "standardize": True},
    ],
    ids=str,
)
def test_what_is_learned_of_files_is_what_is_learned_of_rows(options, tmp_path):
    rng, task = np.random.default_rng(0), np.repeat(["a", "b", "c"], [50, 60, 40])
    X = pd.DataFrame(rng.normal(size=(150, 5)), columns=FEATURES)
    X.loc[task == "c", "x3"] = 2.0
    y = rng.poisson(np.exp(0.3 + X[["x0", "x1", "x2"]] @ [0.6, -0.5, 0.4])).astype(float)
    y[task == "b"] = 7.0 if "scale_targets" in options else y[task == "b"]
    X.assign(site=task, visits=y).to_parquet(tmp_path / "visits.parquet")
    stored = Tasks.from_parquet(tmp_path, task="site", target="visits")
    there, here = (
        MMTFLRegressor(**{"alpha": 0.1, "tol": 1e-9, "solver": "alternating", **options}).fit(*rows)
        for rows in ((stored,), (X, y, task))
    )
    assert here.coef_.any() and not here.usable_[2, 3]
    names = ["coef_", "intercept_", "feature_spread_", "mean_size_"]
    names += ["target_scale_"] * ("scale_targets" in options)
    names += ["level_spread_" if "levels" in options else "objective_"]
    names += ["common_", "common_intercept_"] * ("pooling" in options)
    for name in names:
        np.testing.assert_allclose(
            getattr(there, name), getattr(here, name), rtol=1e-6, atol=1e-7, err_msg=name
        )
    np.testing.assert_array_equal(there.usable_, here.usable_)
    assert there.converged_ and (there.dual_gap_ is None) == (here.dual_gap_ is None)
    np.testing.assert_allclose(there.predict(X, task), here.predict(X, task), rtol=1e-5)
    searched = {name: options[name] for name in options if name not in ("p", "k", "alpha", "pooling")}
    search = MMTFLRegressorCV(pk=(2, 2), alphas=4, cv=3, **searched).fit(stored)
    scores = list(search.heldout_scores_.values())[-1]
    assert np.isfinite(scores).tolist() == [True, "scale_targets" not in options, True]
    with pytest.raises(ValueError, match="Stored tasks bring their targets, labels and weights"):
        MMTFLRegressor(loss="poisson").fit(stored, offset=np.zeros(150))


@pytest.mark.parametrize("options", [{}, {"standardize": True, "scale_targets": True}, {"scoring": "r2"}])
def test_the_search_is_that_over_all_rows(stored, table, monkeypatch, options):
    _, fold = folds_of_the_table(stored, table, monkeypatch)
    cv = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(N_FOLDS)]
    settings = {"pk": ((2, 2), (2, 1)), "alphas": 8, "poolings": (0, 0.9), **options}
    found = MMTFLRegressorCV(cv=N_FOLDS, **settings).fit(stored)
    weights = table[stored.weight] if stored.weight else None
    wanted = MMTFLRegressorCV(cv=cv, **settings).fit(
        table[FEATURES], table["y"], task=table["task"], sample_weight=weights
    )
    assert (found.best_p_, found.best_k_) == (wanted.best_p_, wanted.best_k_)
    np.testing.assert_allclose(found.alpha_, wanted.alpha_, rtol=1e-6)
    scores = [model.cv_results_["mean_test_score"] for model in (found, wanted)]
    np.testing.assert_allclose(*scores, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-4, atol=1e-5)
    for name in ("n_rows", "r2"):
        np.testing.assert_allclose(found.heldout_scores_[name], wanted.heldout_scores_[name], atol=1e-3)
    assert np.ptp(found.heldout_scores_["r2"]) > 0.01
    assert found.task_sizes_.tolist() == found.heldout_scores_["n_rows"].tolist() == [700, 400, 9]
    assert found.feature_names_in_.tolist() == FEATURES
    known = {name: value for name, value in options.items() if name != "scoring"}
    alone = MMTFLRegressor(2, found.best_k_, found.alpha_, pooling=found.best_pooling_, **known)
    np.testing.assert_allclose(alone.fit(stored).coef_, found.coef_, rtol=1e-3, atol=1e-4)


def test_what_a_search_over_files_cannot_do_is_said(stored):
    both = partial(TwoStrengthCV, CappedRegressor())
    for model in (MMTFLRegressorCV, SingleTaskRegressorCV, both):
        for cv in ([([0, 1], [2])], TaskKFold(3))[: 1 + (model is MMTFLRegressorCV)]:
            with pytest.raises(ValueError, match="does not go with stored tasks"):
                model(cv=cv).fit(stored)
        with pytest.raises(ValueError, match="bring their targets"):
            model().fit(stored, [1.0])


def test_a_search_that_would_break_the_memory_limit_is_refused(table, tmp_path):
    table.to_parquet(tmp_path / "rows.parquet")
    small = Tasks.from_parquet(
        tmp_path / "rows.parquet", task="task", target="y", features=FEATURES, memory_limit="1MB"
    )
    with pytest.raises(MemoryError, match="A search with 5 folds needs about"):
        MMTFLRegressorCV().fit(small)
