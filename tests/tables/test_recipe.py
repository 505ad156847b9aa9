"""Columns that are no features: targets as numbers or classes, labels, times, weights, and their refusals."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from mmtfl.tables.reading import TableError
from mmtfl.tables.recipe import TableRecipe, likely_copies, likely_tasks


def pupils(**columns):
    table = pd.DataFrame(
        {"school": ["A", "A", "B", "B"], "age": [11, 12, 11, 13], "score": [2.0, 3.5, 3.0, 4.0]}
    )
    return table.assign(**columns)


def learn(table, target="score", classify=None, **columns):
    return TableRecipe((target,), "school", **columns).learn(table, classify)


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["no", "yes", " no", "yes"], ("no", "yes")),
        ([1, 0, 1, 0], (0, 1)),
        ([True, False, True, False], (False, True)),
        ([1.5, 2.5, 1.5, 2.5], ("1.5", "2.5")),
        (["1", "2", "n/a", "1"], (1, 2)),
    ],
)
def test_two_values_are_classes(values, classes):
    table = pupils(score=values)
    recipe = learn(table)
    assert recipe.classes == classes
    known, _ = recipe.labelled(table)
    assert set(recipe.targets(known).tolist()) <= set(classes)


def test_numbers_are_numbers_by_default_and_on_request():
    assert learn(pupils()).classes is None
    assert learn(pupils(score=[0, 1, 0, 1]), classify=False).classes is None
    assert_allclose(learn(pupils(score=["2,0", "3,5", "3", "4"])).targets(pupils(score=["1,5"] * 4)), 1.5)


@pytest.mark.parametrize(
    ("values", "options", "line"),
    [
        (["a", "b", "c", "a"], {}, "has 3 classes .*make a column of 0 and 1"),
        (["a", "a", "a", "a"], {}, "single class, 'a'"),
        (["a", "b", "a", "b"], {"classify": False}, "does not hold numbers"),
        (["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], {}, "holds dates"),
        ([1.0, 2.0, 3.0, 4.0], {"weight_column": "score"}, "used twice"),
        ([1.0, 2.0, 3.0, 4.0], {"group_column": "scool"}, "no column 'scool': did you mean 'school'"),
    ],
)
def test_targets_that_cannot_be_used_are_told(values, options, line):
    with pytest.raises(TableError, match=line):
        learn(pupils(score=values), **options)


def test_rows_without_what_is_needed_are_left_out_and_told():
    table = pupils(score=[1.0, None, 2.0, 3.0], school=["A", "A", "?", "B"])
    kept, note = learn(table).labelled(table)
    assert kept["age"].tolist() == [11, 13]
    assert note == "2 rows without 'score', 'school' left out"
    with pytest.raises(TableError, match="nothing is left to fit"):
        learn(table).labelled(table.assign(school=None))


def test_of_several_targets_one_is_enough():
    table = pupils(more=[1.0, None, 2.0, None], score=[None, None, 1.0, 5.0])
    recipe = TableRecipe(("score", "more")).learn(table)
    kept, note = recipe.labelled(table)
    assert len(kept) == 3 and note == "1 row without any target left out"
    assert recipe.targets(kept).isna().to_numpy().sum() == 2


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1, 2, 1, 2], [1, 2, 1, 2]),
        (["1", "01", "1", "2"], ["1", "01", "1", "2"]),
        (["x ", "y", "x", "y"], list("xyxy")),
    ],
)
def test_labels_are_whole_numbers_or_names(labels, expected):
    table = pupils(school=labels)
    assert learn(table).labels(table).tolist() == expected


def test_labels_keep_the_kind_of_the_fit():
    recipe = learn(pupils(school=[1, 2, 1, 2]))
    assert recipe.labels(pupils(school=["1", "2", "2", "1"])).tolist() == [1, 2, 2, 1]
    with pytest.raises(TableError, match="is 'x' in data row 2, but tasks are known by whole numbers"):
        recipe.labels(pupils(school=["1", "x", "2", "1"]))
    with pytest.raises(TableError, match="1 row without a label"):
        recipe.labels(pupils(school=["1", None, "2", "1"]))


def test_times_weights_and_exposures_are_read():
    table = pupils(
        day=["31.05.2024", "01.06.2024", "02.06.2024", "03.06.2024"],
        w=[1, 0, 2, 1],
        years=[1.0, 2.0, 4.0, 8.0],
    )
    recipe = learn(table, time_column="day", weight_column="w", exposure_column="years")
    assert np.diff(recipe.time(table)).tolist() == [1.0, 1.0, 1.0]
    assert recipe.weights(table).tolist() == [1.0, 0.0, 2.0, 1.0]
    assert_allclose(recipe.offset(table), np.log(table["years"]))
    assert recipe.features(table) == ["age"]
    with pytest.raises(TableError, match="Exposure 'years' is 0 in data row 1"):
        recipe.offset(table.assign(years=0.0))


def test_features_are_all_other_columns_that_have_a_name():
    table = pupils(**{"Unnamed: 0": 1, "size": 2.0})
    recipe = learn(table)
    assert recipe.features(table) == ["age", "size"]
    assert recipe.features(table, ["Unnamed: 0"]) == ["Unnamed: 0"]
    assert recipe.features(table, None, ["size"]) == ["age"]
    for chosen, drop, line in [
        (["school"], (), "used twice"),
        (None, ["ag"], "did you mean"),
        (None, ["age", "size"], "No column"),
    ]:
        with pytest.raises(TableError, match=line):
            recipe.features(table, chosen, drop)


@pytest.mark.parametrize(
    "change", [{"classes": ["a"]}, {"task_kind": "float"}, {"target_columns": "y"}, {"time_column": 3}]
)
def test_a_damaged_recipe_is_refused(change):
    saved = learn(pupils()).as_dict()
    assert TableRecipe.from_dict(saved) == learn(pupils())
    with pytest.raises(TableError, match="damaged"):
        TableRecipe.from_dict(saved | change)


# -- advice --------------------------------------------------------------------------------------------------


def test_copies_of_the_target_are_found_within_tasks_only():
    rng = np.random.default_rng(0)
    task, x = np.repeat([0, 1, 2], 40), rng.normal(size=120)
    level = np.array([0.0, 50.0, 90.0])[task]
    X = np.column_stack([x, level, x + 0.1 * rng.normal(size=120)])
    found = likely_copies(X, ["x", "level", "near"], level + 2.0 * x, task)
    assert found == {"x": 1.0}  # the level tells the tasks apart, not the rows
    classes = np.where(x > 0, "ill", "well")
    assert likely_copies(X, ["x", "level", "near"], classes, task) == {"x": 1.0}


def test_places_and_people_are_text_or_named_as_such():
    table = pd.DataFrame({
        "city": ["a", "b", "c", "d"] * 15, "sex": ["f", "m"] * 30, "subject": list(range(12)) * 5,
        "year": list(range(12)) * 5, "name": [f"n{i}" for i in range(60)],
    })  # fmt: skip
    assert likely_tasks(table, list(table)) == {"subject": 12, "city": 4}
