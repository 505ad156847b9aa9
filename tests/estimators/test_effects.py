"""Effects of fitted models: least squares as oracle, every way into a model, and words with known truth."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mmtfl import (
    DirtyRegressor,
    MMTFLClassifierCV,
    MMTFLRegressor,
    MMTFLRegressorCV,
    SingleTaskRegressorCV,
    Tasks,
    TwoStrengthCV,
)
from mmtfl.inference.collinearity import explained_by
from mmtfl.inference.row_moments import Pooled

COLUMNS = [
    *("feature", "column", "average", "lower", "upper", "p", "q", "spread", "spread_lower", "spread_upper"),
    *("same_direction", "new_task_lower", "new_task_upper", "n_tasks", "per_sd"),
    *("quartiles", "quartiles_lower", "quartiles_upper", "p_column", "word", "note"),
]
TASK_COLUMNS = ["task", "effect", "lower", "upper", "shrunk", "shrunk_lower", "shrunk_upper", "n_rows"]
FAST = {"pk": ((2, 2),), "poolings": (0.0, 0.9), "alphas": 10, "cv": 3, "curves": False}


def table(seed=0, n_tasks=6, n_rows=120, d=5, spread=0.0, noise=1.0):
    """Features 0 and 1 matter, with this spread between tasks."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_tasks * n_rows, d)) + 0.4 * rng.normal(size=(n_tasks * n_rows, 1))
    task = np.repeat([f"site {t}" for t in range(n_tasks)], n_rows)
    coef = np.zeros((n_tasks, d))
    coef[:, :2] = [1.0, -0.6] + spread * rng.normal(size=(n_tasks, 2))
    y = (X.reshape(n_tasks, n_rows, d) * coef[:, None]).sum(axis=-1).ravel() + noise * rng.normal(size=len(X))
    return pd.DataFrame(X, columns=[f"f{j}" for j in range(d)]), y, task, coef


def by_feature(frame):
    return frame.set_index("feature")


def stored(model):
    """Effects and errors, (n_tasks, n_features)."""
    return model.effects_["effect"], model.effects_["error"]


def test_frames_have_the_columns_of_the_contract():
    X, y, task, _ = table()
    model = MMTFLRegressorCV(**FAST).fit(X, y, task=task)
    frame = model.effects()
    assert list(frame.columns) == COLUMNS
    assert set(frame["feature"]) == set(X.columns) and (frame["p"].diff().dropna() >= 0).all()
    sites = model.task_effects("f1")
    assert list(sites.columns) == TASK_COLUMNS
    assert sites["task"].tolist() == model.tasks_.tolist() and (sites["n_rows"] == 120).all()
    pd.testing.assert_frame_equal(sites, model.task_effects(1))


def test_effects_of_many_rows_are_least_squares_within_tasks():
    X, y, task, _ = table(n_rows=2000, spread=0.3)
    effect, error = stored(MMTFLRegressor(alpha=0.3, effects=True).fit(X, y, task=task))
    for t, label in enumerate(np.unique(task)):
        own = X[task == label].to_numpy()
        design = np.column_stack([np.ones(len(own)), own])
        coef, squares = np.linalg.lstsq(design, y[task == label])[:2]
        errors = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * squares[0] / (len(own) - 6))
        assert_allclose(effect[t], coef[1:], atol=0.3 * errors[1:].min())
        assert_allclose(error[t], errors[1:], rtol=0.05)


def test_single_fits_have_none_by_default_and_searches_of_every_kind_have_them():
    X, y, task, _ = table(n_rows=40)
    model = MMTFLRegressor().fit(X, y, task=task)
    assert model.get_params()["effects"] is False
    with pytest.raises(NotFittedError, match="effects=True"):
        model.effects()
    single = SingleTaskRegressorCV(alphas=8, cv=3, per_task=True)
    for search in (single, TwoStrengthCV(DirtyRegressor(), strengths=3, cv=3)):
        assert search.get_params()["effects"] is True
        assert set(search.fit(X, y, task=task).effects()["feature"][:2]) == {"f0", "f1"}
        with pytest.raises(NotFittedError, match="effects=True"):
            search.set_params(effects=False).fit(X, y, task=task).effects()
    with pytest.raises(ValueError, match="did you mean 'f1'"):
        MMTFLRegressorCV(**FAST).fit(X, y, task=task).task_effects("ff1")


def test_ways_in_agree(tmp_path):
    X, y, task, _ = table(n_rows=60)
    weight = 1.0 + (np.arange(len(y)) % 3 == 0)  # as many repeated rows
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    model = MMTFLRegressor(alpha=0.05, tol=1e-10, effects=True)
    weighted = stored(clone(model).fit(X, y, task=task, sample_weight=weight))
    repeated = stored(clone(model).fit(X.iloc[twice], y[twice], task=task[twice]))
    assert_allclose(weighted[0], repeated[0], atol=1e-6)
    assert_allclose(weighted[1], repeated[1], rtol=1e-6)
    here = stored(model.fit(X, y, task=task))
    frame = X.assign(site=task, y=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    others = {
        "sparse": clone(model).fit(sparse.csr_array(X.to_numpy()), y, task=task),
        "stored": clone(model).fit(Tasks.from_parquet(tmp_path, task="site", target="y")),
        "offset": clone(model).fit(X, y + 3.0, task=task, offset=np.full(len(y), 3.0)),
        "alternating": clone(model).set_params(solver="alternating").fit(X, y, task=task),
    }
    for name, other in others.items():
        assert_allclose(stored(other)[0], here[0], atol=1e-5, err_msg=name)
        assert_allclose(stored(other)[1], here[1], rtol=1e-4, err_msg=name)


def test_features_that_do_not_vary_in_a_task_have_no_effect_there():
    X, y, task, _ = table()
    X.loc[task == "site 2", "f1"] = 4.0
    X.loc[np.isin(task, ["site 1", "site 3"]), "f4"] = np.nan
    model = MMTFLRegressorCV(absent_features="allow", **FAST).fit(X, y, task=task)
    frame = by_feature(model.effects())
    assert frame["n_tasks"].to_dict() == {"f0": 6, "f1": 5, "f2": 6, "f3": 6, "f4": 4}
    sites = model.task_effects("f1")
    missing = sites["task"] == "site 2"
    assert sites["effect"].isna().tolist() == missing.tolist() and sites["shrunk"].notna().all()
    assert_allclose(sites["shrunk"][missing], frame["average"]["f1"])


def test_two_dimensional_targets_know_that_rows_are_shared():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 4))
    Y = X[:, [0]] * [1.0, 1.1, 0.9, 1.0] + rng.normal(size=(150, 1)) + 0.2 * rng.normal(size=(150, 4))
    model = MMTFLRegressorCV(**FAST).fit(X, Y)
    frame = by_feature(model.effects())
    own = np.sqrt(np.nanmean(model.effects_["error"] ** 2, axis=0))
    reach = (frame["upper"] - frame["lower"]).to_numpy()[[0]] / 2 / 1.645
    assert reach[0] > 0.8 * own[0]  # four copies of one noise tell as much as one
    assert frame.index[0] == "x0"


def test_groups_of_rows_that_repeat_each_other_widen_errors():
    rng = np.random.default_rng(4)
    X, task = np.repeat(rng.normal(size=(240, 3)), 4, axis=0), np.repeat(np.arange(4), 240)
    groups = np.repeat(np.arange(240), 4)
    y = X[:, 0] + np.repeat(rng.normal(size=240), 4) + 0.1 * rng.normal(size=960)
    search = MMTFLRegressorCV(**FAST)
    naive, robust = (clone(search).fit(X, y, task=task, groups=g) for g in (None, groups))
    ratio = stored(robust)[1] / stored(naive)[1]
    assert 1.6 < np.median(ratio) < 2.4  # four rows that say the same: twice the error


def test_what_others_explain_cannot_be_told_apart():
    X, y, task, _ = table()
    X["sum"] = X["f2"] + X["f3"]
    frame = by_feature(MMTFLRegressorCV(**FAST).fit(X, y, task=task).effects())
    apart = frame[frame["word"] == "cannot be told apart"]
    assert set(apart.index) == {"f2", "f3", "sum"} and apart["average"].isna().all()
    assert apart["note"]["sum"] == "from `f2`, `f3`"
    assert frame["word"][["f0", "f1"]].tolist() == ["everywhere", "everywhere"]


@pytest.mark.parametrize("sizes", [{"n_tasks": 6}, {"n_tasks": 2, "n_rows": 30}])
def test_categories_are_tested_as_one_column(sizes):
    X, y, task, _ = table(**sizes)
    level = np.random.default_rng(5).integers(0, 3, size=len(y))
    X["ward"] = pd.Categorical(np.array(["a", "b", "c"])[level])
    y = y + np.array([0.0, 0.8, -0.5])[level]
    model = MMTFLRegressorCV(categorical_features="from_dtype", **FAST).fit(X, y, task=task)
    frame = by_feature(model.effects())
    ward = frame[frame["column"] == "ward"]
    assert len(ward) > 1 and ward["p_column"].nunique() == 1
    # the same from effects in other units: so far out, their rounding moves p by 1e-13 of itself
    assert_allclose(frame["p_column"]["f0"], frame["p"]["f0"], rtol=1e-10)


def test_beyond_a_thousand_features_the_largest_are_looked_at():
    rng = np.random.default_rng(6)
    X, task = rng.normal(size=(120, 1100)), np.repeat([0, 1, 2], 40)
    y = 2.0 * X[:, 1050] + rng.normal(size=120)
    model = MMTFLRegressor(alpha=0.3, effects=True).fit(X, y, task=task)
    frame = by_feature(model.effects())
    assert len(frame) == 1100 and frame["average"].notna().sum() == 1000
    assert frame.index[0] == "x1050"
    left_out = frame[frame["average"].isna()]
    assert left_out["note"].str.startswith("not looked at").all()
    with pytest.raises(ValueError, match="not estimated"):
        model.task_effects(left_out.index[0])


def test_classes_and_counts_have_ratios():
    rng = np.random.default_rng(17)
    X, task = rng.normal(size=(2400, 3)), np.repeat(np.arange(6), 400)
    p = 1.0 / (1.0 + np.exp(-0.8 * X[:, 0]))
    options = {**FAST, "poolings": (0.9,)}
    classes = by_feature(MMTFLClassifierCV(**options).fit(X, rng.uniform(size=2400) < p, task=task).effects())
    assert list(classes.columns)[-3:] == ["odds_ratio", "odds_ratio_lower", "odds_ratio_upper"]
    assert classes["odds_ratio_lower"]["x0"] < np.exp(0.8) < classes["odds_ratio_upper"]["x0"]
    counts = MMTFLRegressorCV(loss="poisson", **options).fit(X, rng.poisson(np.exp(0.4 * X[:, 0])), task=task)
    frame = by_feature(counts.effects())
    assert_allclose(frame["rate_ratio"], np.exp(frame["average"]))
    assert frame["lower"]["x0"] < 0.4 < frame["upper"]["x0"]


def test_a_curve_of_a_column_of_mostly_zeros_has_an_effect_and_spoils_no_other():
    rng = np.random.default_rng(3)
    X, task = rng.normal(size=(800, 2)), np.repeat(np.arange(4), 200)
    X[:, 0] = np.where(rng.uniform(size=800) < 0.8, 0.0, rng.integers(1, 15, size=800))
    y = np.sqrt(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=800)
    model = MMTFLRegressor(p=2, k=2, alpha=1e-3, curves=True, effects=True).fit(X, y, task=task)
    frame = model.effects().set_index("feature")
    assert np.quantile(X[:, 0], 0.25) == np.quantile(X[:, 0], 0.75) == 0.0
    assert frame.loc["x1", "lower"] < 1.0 < frame.loc["x1", "upper"] and frame["n_tasks"].tolist() == [4, 4]
    sd = X[:, 0].std()
    rise = np.ptp(model.curve("x0", [0.0, sd], task=0).iloc[:, -1]) / sd
    assert frame.loc["x0", "average"] == pytest.approx(rise, rel=0.2)
    assert f"a curve, from 0 to {sd:.4g}" in frame.loc["x0", "note"]


def test_a_curve_that_rises_and_falls_is_found_and_columns_without_effect_are_seldom():
    found, as_a_whole = [], []
    for seed in range(12):
        rng = np.random.default_rng(40_000_000 + seed)
        X, task = rng.normal(size=(720, 5)), np.repeat(np.arange(12), 60)
        y = 0.4 * X[:, 0] ** 2 + rng.normal(size=720)
        model = MMTFLRegressor(p=2, k=2, alpha=0.05, curves=True, effects=True).fit(X, y, task=task)
        frame = by_feature(model.effects())
        found.append([frame["q"][f"x{j}"] <= 0.1 for j in range(5)])
        assert frame["p"]["x0"] == min(2.0 * frame["p_column"]["x0"], 1.0)
        as_a_whole.append("clear as a whole" in frame["note"]["x0"])
        assert as_a_whole[-1] == (frame["lower"]["x0"] < 0.0 < frame["upper"]["x0"])
        assert frame["word"]["x0"] == "on average" or not as_a_whole[-1]
    share = np.mean(found, axis=0)
    assert share[0] == 1.0 and share[1:].mean() <= 0.15 and np.mean(as_a_whole) > 0.5


def test_the_effect_of_a_curve_is_its_contrast_between_the_quartiles():
    rng = np.random.default_rng(8)
    X, task = rng.uniform(-1.0, 2.0, size=(1600, 3)), np.repeat(np.arange(4), 400)
    y = X[:, 0] ** 3 - X[:, 1] + 0.3 * rng.normal(size=1600)
    model = MMTFLRegressor(p=2, k=2, alpha=1e-3, curves=True, effects=True).fit(X, y, task=task)
    frame = by_feature(model.effects())
    low, high = np.quantile(X[:, 0], [0.25, 0.75])
    basis = model.curves_.basis
    wide, ends = basis.widened(X), basis.widened(np.array([[low, 0.0, 0.0], [high, 0.0, 0.0]]))
    contrast = np.where(np.isin(basis.feature_of_column, [0]), ends[1] - ends[0], 0.0)
    levels = np.equal.outer(task, np.arange(4))
    # tasks agree, so that the average is that of least squares with the same columns in all of them
    own = contrast @ np.linalg.lstsq(np.column_stack([levels, wide]), y)[0][4:]
    assert_allclose(frame["average"]["x0"] * (high - low), own, rtol=5e-3)
    for t in range(4):
        design = np.column_stack([np.ones(400), wide[task == t]])
        own = contrast @ np.linalg.lstsq(design, y[task == t])[0][1:]
        error = model.effects_["error"][t, 0] * (high - low)
        assert abs(model.effects_["effect"][t, 0] * (high - low) - own) < 1.5 * error < 0.1 * own
    assert_allclose(frame["average"]["x0"] * (high - low), frame["quartiles"]["x0"])
    assert "a curve" in frame["note"]["x0"] and len(frame) == 3
    more = model.add_task(X[:300] + 0.1, y[:300], task=9)
    assert len(more.task_effects("x0")) == 5


def test_targets_of_one_wide_table_do_not_search_all_features_for_an_explanation():
    rng = np.random.default_rng(0)
    n, d = 25, 60
    R = np.corrcoef(np.tile(rng.normal(size=(n, d)), (8, 1)).T)  # eight targets of one table of 25 rows
    assert np.linalg.matrix_rank(R, hermitian=True) == n - 1
    assert explained_by(Pooled(R, np.ones(d), 8.0 * (n - 1))) == {}
    R[:, 1], R[1] = R[:, 0], R[0]  # a column that is there twice is found all the same
    assert explained_by(Pooled(R, np.ones(d), 8.0 * (n - 1))) == {0: [1], 1: [0]}
