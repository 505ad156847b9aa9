"""Frames with columns of categories go into fit as they are, and levels are kept in the model."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_val_score

import mmtfl
from mmtfl import DirtyRegressor, MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV, TwoStrengthCV
from mmtfl.model_selection import TaskKFold

RNG = np.random.default_rng(0)
DIET, SMOKER = RNG.choice(["fish", "meat", "none"], 90), RNG.choice(["no", "yes"], 90)
AGE, SITE = RNG.normal(size=90), np.repeat(["a", "b", "c"], 30)
Y = AGE + 2.0 * (DIET == "fish") - (SMOKER == "yes") + 0.1 * RNG.normal(size=90)
NAMES = ["age", "diet=fish", "diet=meat", "diet=none", "smoker=yes"]
BY_HAND = np.column_stack([AGE, *(level == DIET for level in ("fish", "meat", "none")), SMOKER == "yes"])


def pandas_frame(kind):
    frame = pd.DataFrame({"age": AGE, "diet": DIET, "smoker": SMOKER})
    return frame if kind == "text" else frame.astype({"diet": "category", "smoker": "category"})


def polars_frame(kind):
    kinds = {"text": pl.String, "category": pl.Categorical, "enum": pl.Enum(["fish", "meat", "none"])}
    diet = pl.Series(DIET.tolist(), dtype=kinds[kind])
    return pl.DataFrame({"age": AGE, "diet": diet, "smoker": SMOKER.tolist()})


FRAMES = {
    "pandas text": pandas_frame("text"),
    "pandas category": pandas_frame("category"),
    "polars text": polars_frame("text"),
    "polars category": polars_frame("category"),
    "polars enum": polars_frame("enum"),
    "pyarrow": pytest.importorskip("pyarrow").Table.from_pandas(pandas_frame("text")),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_categories_are_the_indicators_of_their_levels(frame):
    model = MMTFLRegressor(alpha=0.05, categorical_features="from_dtype").fit(frame, Y, task=SITE)
    by_hand = MMTFLRegressor(alpha=0.05).fit(BY_HAND.astype(float), Y, task=SITE)
    assert sorted(model.feature_names_in_) == sorted(NAMES)
    order = [model.feature_names_in_.tolist().index(name) for name in NAMES]
    assert_allclose(model.coef_[:, order], by_hand.coef_, atol=1e-7)
    expected = by_hand.predict(BY_HAND.astype(float), task=SITE)
    assert_allclose(model.predict(frame, task=SITE), expected, atol=1e-6)
    assert model.score(frame, Y, task=SITE) > 0.9


def test_the_default_refuses_categories_and_names_the_parameter():
    with pytest.raises(TypeError, match=r"Column 'diet' of X is of type String.*categorical_features='from"):
        MMTFLRegressor().fit(FRAMES["pandas text"], Y, task=SITE)
    with pytest.raises(ValueError, match="Use None, or 'from_dtype'"):
        MMTFLRegressor(categorical_features=["diet"]).fit(FRAMES["pandas text"], Y, task=SITE)


def test_levels_that_a_type_declares_are_known_even_if_no_row_has_them():
    frame = FRAMES["pandas category"]
    model = MMTFLRegressor(alpha=0.05, categorical_features="from_dtype")
    some = DIET != "none"
    model.fit(frame[some], Y[some], task=SITE[some])
    assert model.categories_ == {"diet": ["fish", "meat", "none"], "smoker": ["no", "yes"]}
    assert_array_equal(model.coef_[:, 3], 0.0)
    assert np.isfinite(model.predict(frame, task=SITE)).all()
    routed = MMTFLRegressor(categorical_features="from_dtype", task_column="site")
    scores = cross_val_score(routed, frame.assign(site=SITE), Y, groups=SITE, cv=TaskKFold(3, random_state=0))
    assert scores.min() > -1.0


def test_levels_of_other_columns_of_polars_are_none_of_this_one():
    others = pl.Series(["soup", "rice"], dtype=pl.Categorical)  # in the same pool as long as it lives
    frame = pl.DataFrame({"age": AGE, "diet": pl.Series(DIET.tolist(), dtype=pl.Categorical)})
    model = MMTFLRegressor(alpha=0.05, categorical_features="from_dtype").fit(frame, Y, task=SITE)
    assert len(others) == 2
    assert model.categories_ == {"diet": ["fish", "meat", "none"]}


def test_unknown_levels_missing_values_and_absent_columns_are_told():
    frame = FRAMES["pandas text"]
    model = MMTFLRegressor(categorical_features="from_dtype").fit(frame, Y, task=SITE)
    new = frame.assign(diet=np.where(np.arange(90) > 86, "soup", DIET))
    with pytest.raises(ValueError, match=r"'diet' has the level 'soup'.*3 rows with new.*first is row 87"):
        model.predict(new, task=SITE)
    with pytest.raises(ValueError, match=r"column 'diet' of categories has 1 row without a level.*row 4"):
        model.predict(frame.assign(diet=[None if i == 4 else d for i, d in enumerate(DIET)]), task=SITE)
    with pytest.raises(ValueError, match="no column 'smoker', whose categories fit has learned"):
        model.predict(frame.drop(columns="smoker"), task=SITE)
    with pytest.raises(ValueError, match="Two features would be called 'smoker=yes'"):
        model.fit(frame.assign(**{"smoker=yes": AGE}), Y, task=SITE)


def test_levels_are_saved_with_the_model(tmp_path):
    frame = FRAMES["polars enum"]
    model = MMTFLRegressorCV(alphas=5, cv=3, pk=(2, 1), categorical_features="from_dtype")
    model.fit(frame, Y, task=SITE)
    model.save(tmp_path / "m.mmtfl")
    loaded = mmtfl.load(tmp_path / "m.mmtfl")
    assert loaded.categories_ == model.categories_
    assert_array_equal(loaded.predict(frame, task=SITE), model.predict(frame, task=SITE))


def test_searches_classifiers_new_tasks_and_stability_take_categories():
    frame = FRAMES["pandas category"]
    own = {"categorical_features": "from_dtype"}
    classes = MMTFLClassifier(alpha=0.01, **own).fit(frame, Y > 0, task=SITE)
    assert classes.score(frame, Y > 0, task=SITE) > 0.8
    two = TwoStrengthCV(DirtyRegressor(**own), strengths=2, cv=2).fit(frame, Y, task=SITE)
    assert two.predict(frame, task=SITE).shape == (90,)
    model = MMTFLRegressor(alpha=0.05, **own).fit(frame[:60], Y[:60], task=SITE[:60])
    assert model.add_task(frame[60:], Y[60:], task="c").tasks_.tolist() == ["a", "b", "c"]
    found = mmtfl.stability(model, frame, Y, task=SITE, n_pairs=2, random_state=0)
    assert found.feature_names_ == tuple(NAMES)


def test_arrays_and_frames_of_numbers_are_read_as_without_it():
    X = BY_HAND.astype(float)
    plain, encoded = (MMTFLRegressor(categorical_features=given) for given in (None, "from_dtype"))
    assert_array_equal(plain.fit(X, Y, task=SITE).coef_, encoded.fit(X, Y, task=SITE).coef_)
