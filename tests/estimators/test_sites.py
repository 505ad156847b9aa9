"""Three sites and a centre: the same model as with all rows in one place, finished at a site."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl import MMTFLRegressor, MMTFLRegressorCV, Tasks, load
from mmtfl.datasets import make_hospitals
from mmtfl.estimators.sites import checks, finish
from mmtfl.model_selection import TaskKFold
from mmtfl.tables.agreement import Agreement

SITES = (["Cork", "Aker"], ["Bern"], ["Delft"])
COLUMNS = ["age", "ward", "smoker", "dose", "crp", "creatinine", "albumin"]
SEARCH = {"alphas": 15, "standardize": True, "scale_targets": True, "tol": 1e-11}


@pytest.fixture(scope="module")
def table():
    frame = make_hospitals(random_state=0).frame
    return frame[frame["hospital"].isin([name for names in SITES for name in names])].reset_index(drop=True)


@pytest.fixture(scope="module")
def sites(table):
    return [table[table["hospital"].isin(names)] for names in SITES]


@pytest.fixture(scope="module")
def agreed(sites):
    known = {"task": "hospital", "target": "stay", "features": COLUMNS, "folds": 3, "least_rows": 4}
    return Agreement.propose(sites[0], **known)


@pytest.fixture(scope="module")
def summarised(agreed, sites):
    return Tasks.from_summaries([agreed.summarise(site) for site in sites])


@pytest.fixture(scope="module")
def stacked(agreed, table):
    """All rows in one place, in the agreed coding."""
    tasks, _ = agreed.rows(table)
    X, y, task = tasks.to_rows()
    return pd.DataFrame(X, columns=agreed.feature_names), y, task


@pytest.fixture(scope="module")
def centre(summarised):
    return MMTFLRegressorCV(**SEARCH).fit(summarised)


@pytest.fixture(scope="module")
def together(stacked):
    """A search on all rows with the folds of the usual splitter."""
    X, y, task = stacked
    return MMTFLRegressorCV(cv=TaskKFold(3, random_state=0), **SEARCH).fit(X, y, task=task)


def test_the_search_chooses_and_fits_the_same_with_the_usual_folds(centre, together):
    names = ("best_p_", "best_k_", "best_pooling_")
    assert [getattr(centre, name) for name in names] == [getattr(together, name) for name in names]
    assert_allclose(centre.alpha_, together.alpha_, rtol=1e-8)
    assert_allclose(centre.coef_, together.coef_, rtol=1e-8, atol=1e-8)
    assert_allclose(centre.intercept_, together.intercept_, rtol=1e-8, atol=1e-8)
    assert_allclose(centre.heldout_scores_["r2"], together.heldout_scores_["r2"], atol=1e-5)
    assert_array_equal(centre.task_sizes_, together.task_sizes_)


def test_the_centre_predicts_raw_tables_by_the_agreed_coding(centre, together, stacked, agreed, table):
    complete = table[table[COLUMNS].notna().all(axis=1)]
    raw = centre.predict(complete, task=complete["hospital"])
    X = agreed.encoder().transform(complete)
    assert_allclose(raw, together.predict(X, task=complete["hospital"]), atol=1e-7)
    assert centre.columns_ == ["ward", "smoker", "age", "crp", "creatinine", "albumin", "dose"]


def test_a_finished_model_has_the_errors_that_all_rows_would_give(centre, together, sites, tmp_path):
    finished = finish(centre, sites[0])
    expected, found = together.heldout_errors_, finished.heldout_errors_
    own = np.isin(together.tasks_, SITES[0])
    assert_array_equal(found["n_rows"][own], expected["n_rows"][own])
    assert_array_equal(found["n_rows"][~own], 0)
    kept = np.repeat(own, expected["n_kept"])
    assert_allclose(found["error"], expected["error"][kept], atol=1e-4)  # folds are solved to 1e-4
    finished.save(tmp_path / "aker.mmtfl")
    loaded = load(tmp_path / "aker.mmtfl")
    rows = sites[0].head(5)
    interval = loaded.predict_interval(rows, task=rows["hospital"])
    assert_array_equal(interval, finished.predict_interval(rows, task=rows["hospital"]))
    assert "heldout_errors_" not in vars(centre)


def test_checks_at_a_site_agree_with_its_summary_unless_rows_are_others(centre, sites):
    finished = finish(centre, sites[1])
    found = checks(finished, sites[1])
    assert_array_equal(found["task"], ["Bern"])
    assert_allclose(found["r2"], found["r2_of_summary"], atol=1e-6)
    assert 0.0 < found["typical_error"][0] < found["half_width"][0]
    other = checks(finished, sites[1].iloc[20:])
    assert abs(other["r2"] - other["r2_of_summary"]) > 1e-4


def test_only_a_search_on_summaries_is_finished_and_only_at_its_sites(centre, together, summarised, sites):
    plain = MMTFLRegressor(alpha=0.1).fit(summarised)
    for model in (plain, together):
        with pytest.raises(ValueError, match="Only a search on summaries of sites"):
            finish(model, sites[0])
    with pytest.raises(ValueError, match="agree on their knots"):
        MMTFLRegressor(curves=True).fit(summarised)
    with pytest.raises(ValueError, match="The model has no task 'Gent'"):
        finish(centre, sites[0].assign(hospital="Gent"))


def test_a_later_fit_to_rows_forgets_the_agreement(summarised, stacked):
    X, y, task = stacked
    model = MMTFLRegressorCV(pk=(2, 2), alphas=5, cv=3).fit(summarised)
    assert "agreement_" in vars(model)
    model.fit(X, y, task=task)
    assert not {"agreement_", "fold_models_"} & set(vars(model))


def test_effects_and_their_intervals_need_no_rows(centre, together):
    here, there = together.effects(), centre.effects()
    assert here["feature"].tolist() == there["feature"].tolist()
    assert here["word"].tolist() == there["word"].tolist()
    needs_rows = ["quartiles", "quartiles_lower", "quartiles_upper"]
    levels = here["feature"].str.contains("=")
    assert levels.sum() == 2
    assert_allclose(there.loc[levels, needs_rows], here.loc[levels, needs_rows], rtol=1e-8)
    for name in here.columns.difference(needs_rows):
        if here[name].dtype.kind == "f":
            assert_allclose(there[name], here[name], rtol=1e-8, atol=1e-8, err_msg=name)
    for name in ("age", "dose"):
        assert_allclose(
            there_rows(centre, name), there_rows(together, name), rtol=1e-8, atol=1e-8, err_msg=name
        )


def there_rows(model, feature):
    return model.task_effects(feature).drop(columns="task").to_numpy(dtype=float)


# -- curves --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bent(table, sites):
    """An agreement on curves, and all rows in one place with the same knots."""
    known = {"task": "hospital", "target": "stay", "features": ["age", "dose", "crp", "ward"]}
    agreed = Agreement.propose(sites[0], folds=2, curves=["age", "crp"], **known)
    curved = table.assign(stay=table["stay"] + 0.004 * (table["age"] - 60) ** 2)
    parts = [curved[curved["hospital"].isin(names)] for names in SITES]
    return agreed, curved, Tasks.from_summaries([agreed.summarise(part) for part in parts])


@pytest.fixture
def agreed_knots(bent, monkeypatch):
    """Fits to rows take the agreed knots instead of quantiles."""
    agreed, curved, _ = bent
    by_mean = {float(curved[name].mean()): np.array(at) for name, at in agreed.knots.items()}

    def knots(x, weight):
        return next((at for mean, at in by_mean.items() if np.isclose(x.mean(), mean)), x[:0])

    monkeypatch.setattr("mmtfl.tasks.curve_basis._knots", knots)


@pytest.mark.parametrize("member", [{"p": 2, "k": 2}, {"p": 1, "k": 1}, {"p": 2, "k": 1, "pooling": 0.9}])
def test_curves_with_agreed_knots_equal_those_of_all_rows(bent, agreed_knots, member):
    agreed, curved, summarised = bent
    tasks, _ = agreed.rows(curved)
    X, y, task = tasks.to_rows()
    X = pd.DataFrame(X, columns=agreed.feature_names)
    options = {"alpha": 0.01, "curves": True, "standardize": True, "tol": 1e-12, "max_iter": 20_000}
    here = MMTFLRegressor(**options, **member).fit(X, y, task=task)
    there = MMTFLRegressor(**options, **member).fit(summarised)
    assert there.curves_.basis.curved.tolist() == [1, 2]
    assert here.curves_.used()[:, 1].any()
    assert_allclose(there.coef_, here.coef_, atol=1e-8)
    assert_allclose(there.predict(X, task=task), here.predict(X, task=task), atol=1e-8)
    ages = np.linspace(40, 90, 7)
    assert_allclose(there.curve("age", ages)["effect"], here.curve("age", ages)["effect"], atol=1e-8)
    low, high = there.curve("age")["age"].iloc[[0, -1]]
    assert_allclose([low, high], X["age"].mean() + np.array([-2, 2]) * X["age"].std(ddof=0))


def test_levels_need_no_rows(summarised, stacked, centre, together):
    X, y, task = stacked
    here = MMTFLRegressor(alpha=0.05, levels="shrunk", tol=1e-12).fit(X, y, task=task)
    there = MMTFLRegressor(alpha=0.05, levels="shrunk", tol=1e-12).fit(summarised)
    for one, other in ((here, there), (together, centre)):
        assert_allclose(other.intercept_, one.intercept_, rtol=1e-8)
        assert_allclose(other.level_spread_, one.level_spread_, rtol=1e-7)
        assert_allclose(other.level_effects_, one.level_effects_, rtol=1e-6, atol=1e-8)
