"""The recipe: columns become features, targets, labels and weights, and what cannot is told by name."""

import json
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from mmtfl.tables.reading import TableError
from mmtfl.tables.recipe import TableRecipe, drop_unlabelled


@pytest.fixture
def pupils():
    rng = np.random.default_rng(0)
    n = 40
    return pd.DataFrame(
        {
            "school": rng.choice(["A", "B"], n),
            "age": rng.integers(10, 15, n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "sex": rng.choice(["f", "m"], n),
            "plays": rng.random(n) < 0.5,
            "score": rng.normal(size=n),
        }
    )


def learn(frame, **options):
    return TableRecipe.learn(frame, **{"task": "school", "target": "score", **options})


def test_features_are_those_of_a_one_hot_encoder(pupils):
    X = learn(pupils).matrix(pupils)
    names = ["age", "colour=blue", "colour=green", "colour=red", "sex=m", "plays=True"]
    assert X.columns.tolist() == names
    encoder = OneHotEncoder(drop="if_binary", sparse_output=False)
    expected = encoder.fit_transform(pupils[["colour", "sex", "plays"]])
    np.testing.assert_array_equal(X[names[1:]], expected)
    np.testing.assert_array_equal(X["age"], pupils["age"])


def test_category_decimal_and_nullable_columns(pupils):
    pupils["colour"] = pupils["colour"].astype("category")
    pupils["age"] = pupils["age"].astype("Int64")
    pupils["price"] = [Decimal("1.5")] * 20 + [Decimal("2.5")] * 20
    X = learn(pupils).matrix(pupils)
    assert X["price"].tolist() == [1.5] * 20 + [2.5] * 20
    assert "colour=red" in X and X["age"].dtype == np.float64


def test_levels_are_those_of_the_fit(pupils):
    recipe = learn(pupils)
    few = pupils[pupils["colour"] == "red"]
    assert recipe.matrix(few).columns.tolist() == recipe.feature_names
    assert recipe.matrix(few)["colour=red"].eq(1).all()


def test_a_new_level_is_named_or_ignored(pupils):
    recipe = learn(pupils)
    new = pupils.assign(colour=["mauve", *pupils["colour"][1:]])
    with pytest.raises(TableError, match=r"Column 'colour' has the level 'mauve'.*--unknown-level ignore"):
        recipe.matrix(new)
    X = recipe.matrix(new, unknown_level="ignore")
    assert X.loc[0, ["colour=red", "colour=green", "colour=blue"]].tolist() == [0, 0, 0]
    assert X.iloc[1:].equals(recipe.matrix(pupils).iloc[1:])


def test_codes_become_levels_on_request(pupils):
    recipe = learn(pupils, categories=["age"])
    assert [name for name in recipe.feature_names if name.startswith("age=")] == [
        f"age={age}" for age in range(10, 15)
    ]
    # as text, as integers and as the floats that a missing value makes of them
    for kind in (str, float):
        pd.testing.assert_frame_equal(
            recipe.matrix(pupils.assign(age=pupils["age"].astype(kind))), recipe.matrix(pupils)
        )


# -- missing values ----------------------------------------------------------------------------------------


def test_missing_values_are_counted_by_column(pupils):
    pupils.loc[[1, 2], "colour"] = None
    pupils["dose"] = [np.nan] + [1.0] * 39
    with pytest.raises(TableError, match=r"of 40 rows: 'colour' 2, 'dose' 1\. Fill them in with --impute"):
        learn(pupils)
    recipe = learn(pupils.dropna())
    with pytest.raises(TableError, match="'colour' 2, 'dose' 1"):
        recipe.matrix(pupils)


@pytest.mark.parametrize("impute", ["mean", "median", "most_frequent"])
def test_missing_values_are_filled_as_scikit_learn_does(pupils, impute):
    pupils["dose"] = np.random.default_rng(1).integers(0, 5, 40).astype(float)
    pupils.loc[[3, 5], "dose"] = np.nan
    pupils.loc[[4, 6], "colour"] = None
    recipe = learn(pupils, impute=impute)
    X = TableRecipe.from_dict(json.loads(json.dumps(recipe.as_dict()))).matrix(pupils)
    np.testing.assert_array_equal(
        X["dose"], SimpleImputer(strategy=impute).fit_transform(pupils[["dose"]])[:, 0]
    )
    most = pupils["colour"].mode()[0]
    assert X.loc[4, f"colour={most}"] == 1
    # a column that was whole in the fit may have gaps later
    later = pupils.assign(age=[np.nan, *pupils["age"][1:]])
    assert np.isfinite(recipe.matrix(later).to_numpy()).all()


def test_missing_targets_labels_and_weights_are_counted(pupils):
    gaps = pupils.assign(score=[np.nan] * 3 + [1.0] * 37)
    with pytest.raises(TableError, match=r"Target 'score' is missing in 3 of 40 rows .*--drop-unlabelled"):
        learn(gaps).targets(gaps)
    gaps = pupils.assign(school=[None, *pupils["school"][1:]])
    with pytest.raises(TableError, match="Task column 'school' has 1 row without a label"):
        learn(gaps).labels(gaps)
    gaps = pupils.assign(w=[np.nan, *[1.0] * 39])
    with pytest.raises(TableError, match="Weight 'w' is missing in 1 of 40 rows"):
        learn(gaps, weights="w").weights(gaps)
    kept, n_dropped = drop_unlabelled(gaps, ["school", "score", "w"])
    assert n_dropped == 1 and len(kept) == 39
    with pytest.raises(TableError, match="nothing is left"):
        drop_unlabelled(gaps.assign(w=np.nan), ["w"])


# -- targets and labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["no", "yes"], ("no", "yes")),
        ([False, True], (False, True)),
        ([0, 1], (0, 1)),
        ([1.0, 2.0], (1, 2)),
        ([0.5, 1.5], ("0.5", "1.5")),  # scikit-learn takes fractions for numbers
        (["001", "002"], ("001", "002")),
    ],
)
def test_two_values_are_classes(pupils, values, classes):
    pupils["score"] = values * 20
    recipe = learn(pupils)
    assert recipe.classes == classes
    assert TableRecipe.from_dict(json.loads(json.dumps(recipe.as_dict()))) == recipe
    assert recipe.targets(pupils).tolist() == list(classes) * 20
    assert any("--regress" in line for line in recipe.notes) == isinstance(values[0], int | float) - (
        isinstance(values[0], bool)
    )


def test_numbers_are_numbers_on_request_and_by_default(pupils):
    assert learn(pupils).classes is None
    pupils["score"] = [0, 1] * 20
    assert learn(pupils, classify=False).classes is None
    np.testing.assert_array_equal(learn(pupils, classify=False).targets(pupils), pupils["score"])


@pytest.mark.parametrize(
    ("values", "options", "line"),
    [
        (["a", "b", "c", "d"], {}, "Target 'score' has 4 classes"),
        ([1, 2, 3, 4], {"classify": True}, "Target 'score' has 4 classes"),
        (["a"] * 4, {}, "single class, 'a'"),
        ([np.nan] * 4, {"classify": True}, "Target 'score' has no value at all"),
        (["a", "b"] * 2, {"classify": False}, "does not hold numbers"),
        ([1.0, np.inf, 2.0, 3.0], {}, "Target 'score' has 1 infinite"),
        ([date(2020, 1, 1)] * 4, {}, "Target 'score' holds dates"),
    ],
)
def test_odd_targets_are_told(pupils, values, options, line):
    pupils["score"] = values * 10
    with pytest.raises(TableError) as error:
        learn(pupils, **options).targets(pupils)
    assert line in str(error.value) or line.replace("1 infinite", "10 infinite") in str(error.value)


def test_several_targets_share_rows(pupils):
    frame = pupils.drop(columns="school").assign(other=[np.nan, *np.arange(39.0)])
    recipe = TableRecipe.learn(frame, task=None, target=["score", "other"])
    Y = recipe.targets(frame)
    assert Y.columns.tolist() == ["score", "other"]
    assert Y["other"].isna().sum() == 1
    assert recipe.labels(frame) is None
    words = frame.assign(score=["no", "yes"] * 20, other=[None, *["yes", "no", "no"] * 13])
    recipe = TableRecipe.learn(words, task=None, target=["score", "other"])
    assert recipe.classes == ("no", "yes")
    assert recipe.targets(words)["score"].tolist() == [0.0, 1.0] * 20
    with pytest.raises(TableError, match="mix numbers and classes"):
        TableRecipe.learn(frame.assign(other=["a", "b"] * 20), task=None, target=["score", "other"])
    with pytest.raises(TableError, match="names tasks"):
        TableRecipe.learn(pupils.assign(z=1.0), task="school", target=["score", "z"])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1, 2], [1, 2]),
        (["1", "2"], [1, 2]),
        ([1.0, 2.0], [1, 2]),
        (["001", "2"], ["001", "2"]),
        (["1.0", "1"], ["1.0", "1"]),
        (["+1", "1"], ["+1", "1"]),
        ([True, False], ["True", "False"]),
        (["9" * 30, "1"], ["9" * 30, "1"]),
        (["=a", "<b>"], ["=a", "<b>"]),
    ],
)
def test_labels_are_whole_numbers_or_names(pupils, labels, expected):
    frame = pupils.assign(school=labels * 20)
    recipe = learn(frame)
    assert recipe.labels(frame).tolist() == expected * 20


def test_labels_keep_the_kind_of_the_fit(pupils):
    frame = pupils.assign(school=["001", "12"] * 20)
    later = pupils.assign(school=[12] * 40)
    assert learn(frame).labels(later).tolist() == ["12"] * 40
    numbered = learn(pupils.assign(school=[1, 2] * 20))
    with pytest.raises(TableError, match=r"is 'x' in data row 1.*whole numbers"):
        numbered.labels(pupils.assign(school=["x"] * 40))


@pytest.mark.parametrize("labels", [[1.5, 2.5], [date(2020, 1, 1), date(2020, 1, 2)]])
def test_other_labels_are_refused(pupils, labels):
    with pytest.raises(TableError, match="Task column 'school' holds"):
        learn(pupils.assign(school=labels * 20))


# -- columns that are something else -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (
            ["1,5", "2,5", "3", "-4,25"],
            "Column 'z' holds text such as '1,5': if the comma is the decimal mark",
        ),
        (["1.5", "2.5", "<0.1", "3"], "mostly numbers, but has the text '<0.1' in data row 3"),
        (["2020-01-01", "2021-12-31", "2020-1-2", "2020-01-01 10:00"], "Column 'z' holds dates"),
        (["1.2.2020", "31.12.20", "1/2/2020", "01-02-2020"], "Column 'z' holds dates"),
        (pd.to_datetime(["2020-01-01"] * 4), "Column 'z' holds dates"),
        ([date(2020, 1, 1)] * 4, "Column 'z' holds dates"),
        ([1.0, np.inf, -np.inf, 0.0], "Column 'z' has 20 infinite values (first in data row 2)"),
        ([None] * 4, "Column 'z' has no value at all"),
        ([[1], [2], [3], [4]], "Column 'z' holds values of kind"),
        ([1j] * 4, "complex"),
    ],
)
def test_columns_that_make_no_feature_are_named(pupils, values, line):
    frame = pupils.assign(z=list(values) * 10)
    with pytest.raises(TableError) as error:
        learn(frame, impute="mean" if values[0] is None else None)
    assert line in str(error.value)
    assert "z" not in learn(frame, drop=["z"]).feature_names


def test_identifiers_are_refused_and_zero_padded_codes_are_levels(pupils):
    many = pd.concat([pupils] * 3, ignore_index=True)
    many["name"] = [f"n{i}" for i in range(len(many))]
    with pytest.raises(TableError, match="120 different texts in 120 rows, like an identifier"):
        learn(many)
    named = learn(many, categories=["name"])
    assert len(named.feature_names) > 120
    assert "'name' has 120 levels, each of them a feature" in named.notes
    assert "zip=01" in learn(pupils.assign(zip=["01", "02", "03", "04"] * 10)).feature_names


def test_numbers_that_became_text_are_told_later(pupils):
    recipe = learn(pupils)
    with pytest.raises(
        TableError, match="Column 'age' must hold numbers, but has the text 'old' in data row 1"
    ):
        recipe.matrix(pupils.assign(age=["old", *pupils["age"].astype(str)[1:]]))


def test_what_is_noticed(pupils):
    recipe = learn(pupils.assign(one=1.0, **{"Unnamed: 0": range(40)}))
    assert "Unnamed: 0" not in recipe.feature_names and "one" in recipe.feature_names
    assert any("without a name" in line for line in recipe.notes)
    assert any("'one' has one value in all rows" in line for line in recipe.notes)
    assert (
        "Unnamed: 0"
        in learn(pupils.assign(**{"Unnamed: 0": range(40)}), features=["Unnamed: 0"]).feature_names
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"task": "shcool"}, "no column 'shcool': did you mean 'school'?"),
        ({"target": "nothing"}, "no column 'nothing'"),
        ({"features": ["age", "agge"]}, "no column 'agge': did you mean 'age'?"),
        ({"features": ["score"]}, "Column 'score' is used twice"),
        ({"target": "school"}, "Column 'school' is used twice"),
        ({"drop": ["aeg"]}, "no column 'aeg'"),
        ({"categories": ["colours"]}, "no column 'colours': did you mean 'colour'?"),
        ({"weights": "w"}, "no column 'w'"),
        ({"impute": "zero"}, "impute='zero' is unknown"),
    ],
)
def test_columns_that_are_not_there_are_named(pupils, options, line):
    with pytest.raises(TableError) as error:
        learn(pupils, **options)
    assert line in str(error.value)


def test_nothing_left_to_predict_from(pupils):
    with pytest.raises(TableError, match="No feature columns are left"):
        learn(pupils[["school", "score"]])


def test_an_indicator_must_not_be_called_like_a_column(pupils):
    with pytest.raises(TableError, match="Two features would be called 'colour=red'"):
        learn(pupils.assign(**{"colour=red": 1.0}))


# -- plain values ------------------------------------------------------------------------------------------


def test_a_recipe_is_plain_json(pupils):
    recipe = learn(pupils, impute="mean", features=["age", "colour", "plays"])
    plain = recipe.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    again = TableRecipe.from_dict(plain)
    assert again == recipe
    pd.testing.assert_frame_equal(again.matrix(pupils), recipe.matrix(pupils))


@pytest.mark.parametrize(
    "change",
    [
        {"features": None},
        {"features": [{"name": 1, "levels": None, "fill": None}]},
        {"features": [{"name": "a", "levels": [1], "fill": None}]},
        {"features": [{"name": "a", "levels": None, "fill": "x"}]},
        {"features": [{"name": "a", "levels": None, "fill": None}] * 2},
        {"features": [["a"]]},
        {"task_kind": "object"},
        {"classes": [1, 2, 3]},
        {"classes": [[], {}]},
        {"impute": "eval"},
        {"target_columns": "y"},
    ],
)
def test_a_damaged_recipe_is_refused(pupils, change):
    with pytest.raises(TableError, match=r"damaged|Two features"):
        TableRecipe.from_dict({**learn(pupils).as_dict(), **change})
    with pytest.raises(TableError, match="damaged"):
        TableRecipe.from_dict({})


def test_a_target_with_one_value_is_told_and_a_dropped_task_column_refused(pupils):
    same = pupils.assign(score=3.0)
    assert "target 'score' has one value in all rows: there is nothing to predict" in learn(same).notes
    assert not any("nothing to predict" in note for note in learn(pupils).notes)
    with pytest.raises(TableError, match="Column 'school' is dropped, and is task, target or weight"):
        learn(pupils, drop=["school"])


# -- several problems at once ------------------------------------------------------------------------------


def messy():
    n = 60
    frame = pd.DataFrame({"site": np.repeat(["a", "b", "c"], 20), "y": np.arange(n) / 7.0})
    frame["born"] = frame["seen"] = pd.date_range("2020-01-01", periods=n).astype(str)
    frame["empty"] = np.nan
    frame["dose"] = np.where(np.arange(n) < 3, np.nan, np.arange(n))
    frame["crp"] = np.where(np.arange(n) == 4, np.inf, np.arange(n))
    frame["share"] = [f"{i}%" for i in range(n)]
    frame["fine"] = np.arange(n)
    frame.loc[[5, 6], "y"] = np.nan
    frame.loc[7, "site"] = None
    return frame


def test_all_problems_of_a_table_are_told_at_once():
    with pytest.raises(TableError) as error:
        TableRecipe.learn(messy(), task="site", target="y", drop=["absent"])
    lines = str(error.value).splitlines()
    assert lines[0] == "The table has 8 problems:"
    for i, part in enumerate(
        [
            "no column 'absent'",
            "Missing values, of 60 rows: 'dose' 3.",
            "Column 'born' holds dates",
            "Column 'empty' has no value at all",
            "Column 'crp' has 1 infinite value (first in data row 5)",
            "Column 'share' holds numbers with a sign or unit, such as '0%'",
            "Task column 'site' has 1 row without a label (first in data row 8)",
            "Target 'y' is missing in 2 of 60 rows",
        ],
        start=1,
    ):
        assert lines[i].startswith(f"  {i}. ") and part in lines[i]
    assert lines[3].endswith("The same holds for 'seen'.")
    assert lines[9:] == ["  Empty cells, NA, NaN, null and None count as missing."]


def test_a_single_problem_is_one_line_and_a_mended_table_is_learned():
    frame = messy().drop(columns=["born", "seen", "empty", "share"])
    frame["crp"] = 1.0 * np.arange(60)
    frame = frame[frame["y"].notna() & frame["site"].notna()]
    with pytest.raises(TableError, match=r"^Missing values") as error:
        TableRecipe.learn(frame, task="site", target="y")
    assert "\n" not in str(error.value)
    recipe = TableRecipe.learn(frame, task="site", target="y", impute="mean")
    assert recipe.feature_names == ["dose", "crp", "fine"]


def test_the_list_of_problems_is_short():
    frame = messy()
    for i in range(20):
        frame[f"x{i}"] = np.where(np.arange(60) == i, np.inf, 1.0)
    with pytest.raises(TableError) as error:
        TableRecipe.learn(frame, task="site", target="y")
    lines = str(error.value).splitlines()
    # 7 as above and 20, of which that in data row 5 is the same as that of 'crp'
    assert lines[0] == "The table has 26 problems:" and len(lines) <= 12
    assert "  ... and 17 problems more, told once these are solved." in lines


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (["12%", "3.5%", "40%"], "numbers with a sign or unit, such as '12%'"),
        (["12 kg", "3 kg", "4,5 kg"], "numbers with a sign or unit, such as '12 kg'"),
        (["€12", "€ 3", "€4"], "numbers with a sign or unit"),
        (["1.000,00", "12", "2.500,50"], "marks between thousands, such as '1.000,00'"),
        (["1,000,000", "2,500,000", "3"], "marks between thousands"),
        (["3 B", "4 A", "4 B"], None),
        (["12 kg", "heavy", "light"], None),
        (["<1", "1-5", ">5"], None),
    ],
)
def test_numbers_written_as_text_are_told_from_levels(values, line):
    frame = pd.DataFrame({"x": np.tile(values, 10), "y": np.arange(30) / 7.0})
    if line is None:
        assert len(TableRecipe.learn(frame, task=None, target="y").feature_names) == 3
        return
    with pytest.raises(TableError) as error:
        TableRecipe.learn(frame, task=None, target="y")
    assert line in str(error.value)
    assert len(TableRecipe.learn(frame, task=None, target="y", categories=["x"]).feature_names) == 3


def test_a_target_with_decimal_commas_is_told():
    frame = pd.DataFrame({"x": np.arange(30.0), "y": [f"{i},5" for i in range(30)]})
    with pytest.raises(TableError, match=r"Target 'y' holds text such as '0,5'.*--decimal ','"):
        TableRecipe.learn(frame, task=None, target="y")


# -- predictions need what the model uses ------------------------------------------------------------------


def test_columns_that_no_feature_needs_are_not_looked_at(pupils):
    recipe = TableRecipe.learn(pupils, task="school", target="score")
    full = recipe.matrix(pupils)
    used = {"age", "colour=red"}
    spoilt = pupils.drop(columns=["sex"]).assign(extra="?")
    found, labels = recipe.rows(spoilt, used=used)
    kept = [name for name in full if name == "age" or name.startswith("colour=")]
    pd.testing.assert_frame_equal(found[kept], full[kept])
    assert not found.drop(columns=kept).to_numpy().any()
    np.testing.assert_array_equal(labels, recipe.labels(pupils))
    assert recipe.absent_unused(spoilt, used) == ["sex"]


def test_all_columns_that_are_needed_and_absent_are_named(pupils):
    recipe = TableRecipe.learn(pupils, task="school", target="score")
    with pytest.raises(TableError, match="lacks 3 columns that the model needs: 'school', 'age', 'sex'"):
        recipe.rows(pupils.drop(columns=["school", "age", "sex"]))
    with pytest.raises(TableError, match="no column 'age', which the model needs: did you mean 'Age'"):
        recipe.rows(pupils.rename(columns={"age": "Age"}))


def test_columns_taken_from_a_table_are_the_matrix_in_the_order_asked_for(pupils):
    recipe, order = learn(pupils), np.argsort(pupils["school"], kind="stable").to_numpy()
    columns = dict(pupils.items())
    X = recipe.take_matrix(columns, len(pupils), rows=order)
    assert set(columns) == {"school", "score"}
    pd.testing.assert_frame_equal(X, recipe.matrix(pupils).iloc[order].reset_index(drop=True))
