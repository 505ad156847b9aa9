"""Frames with columns of categories go into fit as they are, and levels are kept in the model."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mmtfl
from mmtfl import DirtyRegressor, MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV, TwoStrengthCV

RNG = np.random.default_rng(0)
DIET, SMOKER = RNG.choice(["fish", "meat", "none"], 90), RNG.choice(["no", "yes"], 90)
AGE, SITE = RNG.normal(size=90), np.repeat(["a", "b", "c"], 30)
Y = AGE + 2.0 * (DIET == "fish") - (SMOKER == "yes") + 0.1 * RNG.normal(size=90)
NAMES = ["age", "diet=fish", "diet=none", "smoker=no"]  # meat and yes are the most frequent levels
BY_HAND = np.column_stack([AGE, DIET == "fish", DIET == "none", SMOKER == "no"])
GROUPS = [[1, 2]]


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
def test_categories_are_the_indicators_of_their_levels_in_a_group(frame):
    model = MMTFLRegressor(alpha=0.05, categorical_features="from_dtype").fit(frame, Y, task=SITE)
    by_hand = MMTFLRegressor(alpha=0.05, feature_groups=GROUPS).fit(BY_HAND.astype(float), Y, task=SITE)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.columns_ == ["age", "diet", "diet", "smoker"]
    assert_allclose(model.coef_, by_hand.coef_, atol=1e-7)
    expected = by_hand.predict(BY_HAND.astype(float), task=SITE)
    assert_allclose(model.predict(frame, task=SITE), expected, atol=1e-6)
    assert model.score(frame, Y, task=SITE) > 0.9


def test_the_default_refuses_categories_and_names_the_parameter():
    with pytest.raises(TypeError, match=r"Column 'diet' of X is of type String.*categorical_features='from"):
        MMTFLRegressor().fit(FRAMES["pandas text"], Y, task=SITE)
    with pytest.raises(ValueError, match="Use None, or 'from_dtype'"):
        MMTFLRegressor(categorical_features=["diet"]).fit(FRAMES["pandas text"], Y, task=SITE)


def test_missing_cells_are_filled_and_unknown_levels_told():
    frame = FRAMES["pandas text"].assign(age=np.where(np.arange(90) % 9 == 0, np.nan, AGE))
    model = MMTFLRegressor(alpha=0.05, categorical_features="from_dtype").fit(frame, Y, task=SITE)
    assert model.feature_names_in_.tolist()[:2] == ["age", "age is missing"]
    filled = frame.assign(age=frame["age"].fillna(frame["age"].groupby(SITE).transform("median")))
    shift = model.coef_[:, 1].repeat(30) * frame["age"].isna()
    assert_allclose(model.predict(frame, task=SITE), model.predict(filled, task=SITE) + shift)
    with pytest.warns(UserWarning, match="'diet' has 'soup'"):
        new = model.predict(frame.assign(diet="soup"), task=SITE)
    assert_allclose(new, model.predict(frame.assign(diet="meat"), task=SITE))
    with pytest.raises(ValueError, match="no column 'smoker', which the model needs"):
        model.predict(frame.drop(columns="smoker"), task=SITE)


def test_searches_classifiers_new_tasks_and_files_take_categories(tmp_path):
    frame = FRAMES["pandas category"]
    own = {"categorical_features": "from_dtype"}
    search = MMTFLRegressorCV(alphas=5, cv=3, pk=(2, 1), **own).fit(frame, Y, task=SITE)
    search.save(tmp_path / "m.mmtfl")
    loaded = mmtfl.load(tmp_path / "m.mmtfl")
    assert loaded.encoder_.as_dict() == search.encoder_.as_dict() and loaded.columns_ == search.columns_
    assert_array_equal(loaded.predict(frame, task=SITE), search.predict(frame, task=SITE))
    classes = MMTFLClassifier(alpha=0.01, **own).fit(frame, Y > 0, task=SITE)
    assert classes.score(frame, Y > 0, task=SITE) > 0.8
    two = TwoStrengthCV(DirtyRegressor(**own), strengths=2, cv=2).fit(frame, Y, task=SITE)
    assert two.predict(frame, task=SITE).shape == (90,)
    model = MMTFLRegressor(alpha=0.05, **own).fit(frame[:60], Y[:60], task=SITE[:60])
    assert model.add_task(frame[60:], Y[60:], task="c").tasks_.tolist() == ["a", "b", "c"]
