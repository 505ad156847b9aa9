"""Stability: frequencies counted by hand, words on cases with known answers, the promise on null data."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from mmtfl import (
    DirtyRegressor,
    MMTFLClassifier,
    MMTFLRegressor,
    MMTFLRegressorCV,
    SingleTaskRegressorCV,
    Tasks,
    TwoStrengthCV,
    load,
    stability,
)
from mmtfl.estimators.stability import HalfSamples, supported
from mmtfl.estimators.supported_features import SUPPORTED
from mmtfl.model_selection.evidence import Evidence
from mmtfl.model_selection.half_samples import complementary_pairs

MODEL = MMTFLRegressor(p=2, k=1, alpha=0.4)


def make_problem(sizes=(60, 80, 70), n_features=12, seed=0, noise=0.7):
    """Feature 0 in all tasks, 1 in the first two, 2 in the last; the others nowhere."""
    rng = np.random.default_rng(seed)
    task = np.repeat(["a", "b", "c"], sizes)
    coef = np.zeros((3, n_features))
    coef[:, 0], coef[:2, 1], coef[2, 2] = [2.0, -2.0, 2.5], 2.0, 3.0
    X = rng.normal(size=(len(task), n_features))
    y = np.einsum("ij,ij->i", X, np.repeat(coef, sizes, axis=0)) + noise * rng.normal(size=len(task))
    return X, y, task


@pytest.fixture(scope="module")
def problem():
    return make_problem()


@pytest.fixture(scope="module")
def found(problem):
    return stability(MODEL, *problem, n_pairs=10, random_state=0)


def test_frequencies_are_shares_of_the_fits_to_the_halves(problem, found):
    X, y, task = problem
    tasks = Tasks.from_rows(X, y, task)
    pairs = complementary_pairs(tasks, 10, np.random.RandomState(0), with_classes=False)
    halves = [half for pair in pairs for half in pair]
    # rows of the problem are grouped by task already, so positions are rows
    coefs = np.array([MODEL.fit(X[half], y[half], task=task[half]).coef_ for half in halves])
    assert_allclose(found.feature_frequency_, (coefs != 0).any(axis=1).mean(axis=0))
    assert_allclose(found.entry_frequency_, (coefs != 0).mean(axis=0))
    assert_allclose(found.n_kept_, (coefs != 0).any(axis=1).sum(axis=1).mean())
    assert found.feature_frequency_.min() < 0.5 < found.feature_frequency_.max()


def test_words_of_a_clear_case_are_the_truth(found):
    assert found.supported_[:3].tolist() == ["all", "some", "one"]
    assert found.supporting_tasks(1).tolist() == ["a", "b"]
    assert found.supporting_tasks(2).tolist() == ["c"]
    assert not np.isin(found.supported_[3:], ("all", "some", "one")).any()
    assert set(found.supported_) <= set(SUPPORTED)


@pytest.mark.parametrize(
    ("kinds", "selected", "untested", "word"),
    [
        ((0.0, 0.0, 0.1, 0.9), True, False, "all"),
        ((0.0, 0.0, 0.1, 0.9), True, True, "several"),
        ((0.0, 0.0, 0.1, 0.9), False, False, "undecided"),
        ((0.0, 0.0, 0.8, 0.2), True, False, "some"),
        ((0.0, 0.2, 0.4, 0.4), True, False, "several"),
        ((0.0, 0.2, 0.4, 0.4), False, False, "undecided"),
        ((0.0, 0.9, 0.1, 0.0), False, False, "one"),
        ((0.1, 0.9, 0.0, 0.0), False, False, "undecided"),
        ((0.1, 0.0, 0.0, 0.9), True, False, "undecided"),
        ((0.9, 0.1, 0.0, 0.0), False, False, "none"),
        ((0.9, 0.1, 0.0, 0.0), True, False, "undecided"),
        ((np.nan, np.nan, np.nan, np.nan), True, True, "undecided"),
    ],
)
def test_a_word_is_probable_enough_and_does_not_contradict_the_half_samples(kinds, selected, untested, word):
    evidence = Evidence(np.array([kinds]), np.zeros((3, 1)))
    assert supported(evidence, np.array([untested]), np.array([selected]), 0.2).tolist() == [word]


def test_the_probability_is_that_of_the_word(found):
    several = replace(found, supported_=np.full(12, "several"))
    assert_allclose(several.probability_, found.kind_probability_[:, 2:].sum(axis=1))
    assert_allclose(found.probability_[:3], found.kind_probability_[[0, 1, 2], [3, 2, 1]])


def test_effects_are_those_of_least_squares_on_the_supported_features(problem, found):
    X, y, task = problem
    table, rows = found.effects(0.8), task == "b"
    at = np.flatnonzero(np.isin(found.supported_, ("all", "some", "several", "one")))
    design = np.column_stack([np.ones(rows.sum()), X[rows][:, at]])
    coef = np.linalg.lstsq(design, y[rows], rcond=None)[0]
    rest, spare = y[rows] - design @ coef, rows.sum() - design.shape[1]
    error = np.sqrt(rest @ rest / spare * np.diag(np.linalg.inv(design.T @ design)))
    own = table[table["task"] == "b"].set_index("feature").loc[[f"x{j}" for j in at]]
    assert_allclose(own["effect"], coef[1:], rtol=1e-8)
    assert_allclose((own["upper"] - own["lower"]) / 2.0, stats.t.isf(0.1, spare) * error[1:], rtol=1e-8)


def test_the_mean_effect_stands_in_the_table_for_supported_features_alone(found):
    table = found.table().set_index("feature")
    supported_ones = table["supported"].isin(["all", "some", "one"]) | (table["n_tasks"] > 0)
    assert table["effect"].notna().tolist() == supported_ones.tolist()
    assert table.loc["x0", "lower"] < found.effect_[:, 0].mean() < table.loc["x0", "upper"]
    assert table.loc["x0", "effect"] == pytest.approx(np.mean([2.0, -2.0, 2.5]), abs=0.2)
    assert table.loc["x1", "effect"] == pytest.approx(2.0, abs=0.2)  # over the two tasks named
    alone = found.effects().set_index(["feature", "task"]).loc[("x2", "c")]
    assert_allclose(
        table.loc["x2", ["effect", "lower", "upper"]].astype(float), alone[["effect", "lower", "upper"]]
    )


def test_effects_are_near_the_truth_and_within_their_errors(found):
    assert_allclose(found.effect_[:, 0], [2.0, -2.0, 2.5], atol=0.3)
    assert np.abs(found.effect_[2, 1] / found.effect_error_[2, 1]) < 3.0


def test_signs_agree_where_the_effect_is_clear(found):
    assert_array_equal(found.sign_agreement_[:, 0], 1.0)


def test_the_table_has_a_row_per_feature_and_the_supported_ones_first(found):
    table = found.table()
    assert table["feature"].tolist()[:3] == ["x0", "x1", "x2"]
    assert table["supported"].tolist()[:3] == ["all", "some", "one"]
    assert table["tasks"].tolist()[:3] == ["a, b, c", "a, b", "c"]
    assert table["n_tasks"].tolist()[:3] == [3, 2, 1]
    assert len(table) == 12 and (table["probability"][:3] >= 0.9).all()


def test_selected_features_reach_the_threshold_and_the_bound_is_as_asked(found):
    assert_array_equal(found.selected_, found.feature_frequency_ >= found.threshold_)
    assert found.bound_ <= found.max_false_ and found.promises_


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_seed_gives_the_same_answer_for_any_number_of_threads(problem, found, n_jobs):
    again = stability(MODEL, *problem, n_pairs=10, random_state=0, n_jobs=n_jobs)
    for name in ("entry_frequency_", "supported_", "kind_probability_", "effect_", "effect_error_"):
        assert_array_equal(getattr(again, name), getattr(found, name))


def test_a_checkpoint_goes_on_where_it_was(problem, found, tmp_path, monkeypatch):
    options = {"n_pairs": 10, "random_state": 0, "checkpoint": tmp_path / "half.checkpoint"}
    stability(MODEL, *problem, **options)
    monkeypatch.setattr(HalfSamples, "signs_of", None)  # nothing is fitted again
    again = stability(MODEL, *problem, **options)
    assert_array_equal(again.entry_frequency_, found.entry_frequency_)


def test_the_half_samples_of_a_search_go_on_in_its_checkpoint(problem, tmp_path, monkeypatch):
    X, y, task = problem
    options = {"pk": (2, 2), "poolings": (0,), "alphas": 4, "cv": 3, "stability": 3}
    search = MMTFLRegressorCV(**options, checkpoint=tmp_path / "search.checkpoint")
    first = search.fit(X, y, task=task).stability_
    monkeypatch.setattr(HalfSamples, "signs_of", None)  # nothing is fitted again
    again = search.set_params(n_jobs=2).fit(X, y, task=task).stability_
    assert_array_equal(again.entry_frequency_, first.entry_frequency_)
    assert_array_equal(again.effect_, first.effect_)


def test_tasks_in_files_give_the_bits_of_rows_in_memory(problem, tmp_path):
    X, y, task = problem
    pandas = pytest.importorskip("pandas", reason="the files are written by pandas")
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(12)]).assign(site=task, y=y)
    frame.to_parquet(tmp_path / "rows.parquet")
    stored, options = Tasks.from_parquet(tmp_path, task="site", target="y"), {"n_pairs": 3, "random_state": 0}
    one, other = stability(MODEL, X, y, task, **options), stability(MODEL, stored, **options)
    assert_array_equal(one.entry_frequency_, other.entry_frequency_)
    assert_array_equal(one.effect_, other.effect_)
    search = MMTFLRegressorCV(pk=(2, 2), poolings=(0,), alphas=3, cv=3, stability=2)
    one, other = (search.fit(*rows).stability_ for rows in ((X, y, task), (stored,)))
    assert_array_equal(one.effect_, other.effect_)


def test_null_data_select_no_more_than_promised():
    rng = np.random.default_rng(0)
    false = []
    for seed in range(6):
        X, y, task = make_problem(sizes=(30, 30, 30), n_features=20, seed=seed)
        for label in "abc":
            y[task == label] = rng.permutation(y[task == label])
        model = MMTFLRegressor(p=2, k=2, alpha=1.1)  # weak enough to keep something of noise
        found = stability(model, X, y, task, n_pairs=10, random_state=seed)
        assert found.promises_
        false.append(found.selected_.sum())
        assert not np.isin(found.supported_, ("all", "some", "one")).any()
    assert np.mean(false) <= 1.0


def test_tasks_too_small_to_be_halved_are_left_out(problem):
    X, y, task = problem
    task = np.where(np.arange(len(task)) < 3, "tiny", task)
    found = stability(MODEL, X, y, task, n_pairs=4, random_state=0)
    assert found.left_out_.tolist() == ["tiny"]
    tiny = found.tasks_ == "tiny"
    assert np.isnan(found.entry_frequency_[tiny]).all() and np.isfinite(found.entry_frequency_[~tiny]).all()
    # a task that cannot be asked may be the exception: "all" is not said
    assert found.supported_[0] == "several"
    first = found.table().set_index("feature").loc["x0"]
    assert (first["supported"], first["tasks"]) == ("undecided", "a, b, c")


def test_paths_stop_at_the_number_of_features_asked_for(problem):
    model = MMTFLRegressor(p=2, k=2, alpha=0.02)
    free = stability(model, *problem, n_pairs=3, random_state=0)
    few = stability(model, *problem, n_pairs=3, random_state=0, max_features=3)
    assert free.n_kept_ > 6.0 >= 3.0 >= few.n_kept_ > 0.0
    assert_array_equal(few.feature_frequency_[:3] > 0.5, True)


def test_classes_are_judged_too():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(600, 6)), np.repeat([0, 1], 300)
    z = 2.0 * X[:, 0] + np.where(task == 1, 2.5 * X[:, 1], 0.0)
    y = rng.uniform(size=600) < 1.0 / (1.0 + np.exp(-z))
    found = stability(MMTFLClassifier(alpha=0.05), X, y, task, n_pairs=5, random_state=0)
    assert found.supported_[:2].tolist() == ["all", "one"]
    assert found.supporting_tasks(1).tolist() == [1]


def test_models_of_two_strengths_are_judged_too(problem):
    model = DirtyRegressor(alpha_shared=0.6, alpha_specific=0.5)
    found = stability(model, *problem, n_pairs=4, random_state=0)
    assert found.supported_[:3].tolist() == ["all", "some", "one"]


def test_searches_are_judged_by_what_they_chose(problem):
    search = MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=8, cv=3, stability=4).fit(
        *problem[:2], task=problem[2]
    )
    chosen = {"p": search.best_p_, "k": search.best_k_, "alpha": search.alpha_}
    model = MMTFLRegressor(**chosen, pooling=search.best_pooling_)
    alone = stability(model, *problem, n_pairs=4, random_state=0)
    for other in (search.stability_, stability(search, *problem, n_pairs=4, random_state=0)):
        assert_array_equal(other.feature_frequency_, alone.feature_frequency_)
        assert_array_equal(other.supported_, alone.supported_)
    table = search.summary()
    assert table["supported"].tolist()[0] == alone.supported_[int(table["feature"][0][1:])]
    pairs = TwoStrengthCV(DirtyRegressor(), strengths=3, cv=3).fit(*problem[:2], task=problem[2])
    assert stability(pairs, *problem, n_pairs=3, random_state=0).supported_[0] == "all"


def test_scaled_targets_of_other_units_get_the_same_words(problem):
    X, y, task = problem
    model = MMTFLRegressor(p=2, k=1, alpha=0.2, scale_targets=True)
    options = {"n_pairs": 4, "random_state": 0}
    other = stability(model, X, np.where(task == "b", 1000.0, 1.0) * y, task, **options)
    assert_array_equal(other.supported_, stability(model, X, y, task, **options).supported_)
    assert other.supported_[:3].tolist() == ["all", "some", "one"]


def test_without_stability_a_search_does_not_judge(problem):
    search = MMTFLRegressorCV(pk=(2, 2), alphas=3, cv=3).fit(*problem[:2], task=problem[2])
    assert search.stability_ is None and "supported" not in search.summary()


def test_stability_is_saved_with_the_search(problem, tmp_path):
    search = MMTFLRegressorCV(pk=(2, 2), alphas=4, cv=3, stability=3).fit(*problem[:2], task=problem[2])
    search.save(tmp_path / "a.mmtfl")
    loaded = load(tmp_path / "a.mmtfl")
    assert loaded.summary().equals(search.summary())
    assert loaded.stability_.table().equals(search.stability_.table())


def test_a_strength_for_every_task_is_no_model(problem):
    search = SingleTaskRegressorCV(alphas=3, cv=3, per_task=True).fit(*problem[:2], task=problem[2])
    with pytest.raises(TypeError, match="strength for every task"):
        stability(search, *problem)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"n_pairs": 0}, "n_pairs"),
        ({"level": 0.0}, "level"),
        ({"max_false": 0.0}, "max_false"),
        ({"max_features": 0}, "max_features"),
        ({"assumption": "none"}, "assumption"),
    ],
)
def test_wrong_options_are_named(problem, wrong, word):
    with pytest.raises(ValueError, match=word):
        stability(MODEL, *problem, **wrong)
