"""The encoder of raw tables: what becomes of missing cells, words, dates, identifiers, and new rows."""

import json
from datetime import time

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from mmtfl import TableEncoder
from mmtfl.tables.cells import CODES, read_cells

SITE = np.repeat(["Aker", "Bern", "Cork"], 40)
RNG = np.random.default_rng(0)


def frame(**columns):
    return pd.DataFrame({"age": RNG.normal(50.0, 10.0, size=120), **columns})


def encoded(column, **options):
    """The features that one column of a table of 120 rows becomes."""
    table = frame(x=column)
    out = TableEncoder(**options).fit(table, task=SITE).transform(table, task=SITE)
    return out[[name for name in out if name.startswith("x")]]


@parametrize_with_checks([TableEncoder()])
def test_it_is_a_transformer_of_scikit_learn(estimator, check):
    check(estimator)


# -- cells ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [*CODES, " . ", "NULL ", None, float("nan")])
def test_codes_of_missing_cells_are_missing_among_numbers_and_words(code):
    assert_array_equal(np.isnan(read_cells(np.array(["1.5", code, "3"], dtype=object)).numbers), [0, 1, 0])
    assert read_cells(np.array(["yes", code, "no"], dtype=object)).codes.tolist() == [1, -1, 0]


def test_own_codes_are_missing_as_numbers_and_as_text():
    for cells in (np.array([1.0, -999.0, 3.0]), np.array(["1", "-999", "3"], dtype=object)):
        assert_array_equal(np.isnan(read_cells(cells, ["-999"]).numbers), [False, True, False])


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["1,5", "2", "-0,25"], [1.5, 2.0, -0.25]),
        (["1,234", "5,678,901", "12.5"], [1234.0, 5678901.0, 12.5]),
        (["1.234,5", "12,25", "3"], [1234.5, 12.25, 3.0]),
        (["12 %", "7.5 %", "3 %"], [12.0, 7.5, 3.0]),
        (["$5", "$1,200", "$0.5"], [5.0, 1200.0, 0.5]),
        (["1e3", "+4", ".5"], [1000.0, 4.0, 0.5]),
        (["12:15", "7:30:36", "00:00"], [12.25, 7.51, 0.0]),
        (["12:15 PM", "12:30 am", "7:45 p.m."], [12.25, 0.5, 19.75]),
        ([time(12, 15), time(6), time(23, 30)], [12.25, 6.0, 23.5]),
    ],
)
def test_numbers_are_read_however_they_are_written(words, numbers):
    assert_allclose(read_cells(np.array(words, dtype=object)).numbers, numbers)


@pytest.mark.parametrize(
    "words",
    [
        ["007", "012", "100"],
        ["5 kg", "300 g", "2 kg"],
        ["0", "1", "2", "3+"] * 9,
        ["16:9", "4:3", "21:9"],
        ["12:75", "8:90", "7:61"],
    ],
)
def test_names_units_that_differ_and_open_classes_are_words(words):
    assert read_cells(np.array(words, dtype=object)).kind == "word"


def test_one_odd_cell_does_not_make_words_of_numbers():
    cells = read_cells(np.array([*map(str, range(30)), "x5"], dtype=object))
    assert cells.kind == "number"
    assert cells.odd == [(30, "x5")]
    assert np.isnan(cells.numbers[30])


@pytest.mark.parametrize(
    "words",
    [
        ["2024-05-31", "2024-06-02", "2024-06-30"],
        ["31.05.2024", "02.06.2024", "30.06.2024"],
        ["31/05/2024", "02/06/2024", "30/06/2024"],  # the 31st tells that days come first
        ["05/31/2024", "06/02/2024", "06/30/2024"],
        ["31-May-2024", "02-Jun-2024", "30-Jun-2024"],
    ],
)
def test_dates_are_days_however_they_are_written(words):
    cells = read_cells(np.array(words, dtype=object))
    assert cells.kind == "date"
    assert np.diff(cells.numbers).tolist() == [2.0, 28.0]


# -- features ------------------------------------------------------------------------------------------------


def test_missing_numbers_are_filled_with_the_median_of_their_task():
    numbers = np.arange(120.0) + RNG.uniform(size=120)
    numbers[[0, 50]] = np.nan
    numbers[80:] = np.nan  # Cork has none
    out = encoded(numbers)["x"]
    assert_allclose(out[[0, 50]], [np.nanmedian(numbers[:40]), np.nanmedian(numbers[40:80])])
    assert_allclose(out[80:], np.nanmedian(numbers))
    assert_array_equal(out[1:50], numbers[1:50])


@pytest.mark.parametrize(("n_missing", "features"), [(6, ["x"]), (7, ["x", "x is missing"])])
def test_an_indicator_joins_where_more_than_five_per_cent_are_missing(n_missing, features):
    numbers = RNG.normal(size=120)
    numbers[:n_missing] = np.nan
    out = encoded(numbers)
    assert list(out) == features
    assert n_missing == 6 or out["x is missing"].sum() == 7


def test_the_reference_is_the_most_frequent_level_or_the_one_asked_for():
    words = np.repeat(["a", "b", "c"], [30, 70, 20])
    assert list(encoded(words)) == ["x=a", "x=c"]
    assert list(encoded(words, reference={"x": "c"})) == ["x=a", "x=b"]
    for wrong, told in (
        ("x", "column 'x' has no level 'd'; its levels are"),
        ("z", "there is no column 'z'"),
    ):
        with pytest.raises(ValueError, match=told):
            encoded(words, reference={wrong: "d"})


def test_rare_levels_and_those_beyond_the_most_frequent_are_other():
    words = np.repeat([f"w{i:02}" for i in range(12)], 10).astype(object)
    words[:6] = ["u", "u", "v", "v", "v", "z"]
    out = encoded(words, most_levels=3)
    assert list(out) == ["x=other", "x=w02", "x=w03"]  # w01 is the reference
    assert out["x=other"].sum() == 90
    alone = np.repeat(["a", "b"], [115, 5])
    assert list(encoded(alone)) == ["x=b"]  # other would only rename it


def test_levels_of_small_tables_stay_but_many_rare_ones_are_left_out():
    few = pd.DataFrame({"age": RNG.normal(size=24), "dose": ["high", "low", "none"] * 8})
    assert TableEncoder().fit(few).get_feature_names_out().tolist() == ["age", "dose=low", "dose=none"]
    many = TableEncoder().fit(frame(x=[f"town {i % 40}" for i in range(120)]))
    assert many.left_out_ == {"x": "no level has 10 rows"}


def test_times_of_day_are_hours_and_told():
    times = [f"{i % 24}:{i % 60:02}" for i in range(120)]
    encoder = TableEncoder().fit(frame(x=times))
    assert encoder.notes_ == ["Times such as 12:15 are hours (12.25): 'x'."]
    hours = [i % 24 + i % 60 / 60.0 for i in range(120)]
    assert_allclose(encoder.transform(frame(x=times))["x"], hours)
    new = [*times[:119], "noon"]
    assert_allclose(encoder.transform(frame(x=new))["x"][:119], hours[:119])


def test_dates_count_from_the_first_one():
    days = pd.date_range("2024-03-01", periods=120)
    for column in (days, days.strftime("%d.%m.%Y"), days.tz_localize("Europe/Oslo")):
        assert encoded(column)["x"].round(1).tolist()[:3] == pytest.approx([0.0, 1.0, 2.0], abs=0.1)


LEFT_OUT = {
    "text in every row": [f"patient {i}" for i in range(120)],
    "row numbers": RNG.permutation(120) + 1001,
    "one value": ["yes"] * 120,
    "nothing": [None] * 120,
    "the tasks again": np.char.add(SITE, " hospital"),
}
KEPT = {
    "a measurement whose values all differ": RNG.normal(size=120),
    "whole numbers that differ, far apart": np.arange(120) * 17 + 3,
    "levels of tasks": np.repeat([2.0, 5.0, 9.0], 40),
    "the same word in two tasks": np.repeat(["city", "city", "country"], 40),
    "ticked or not": [1.0, None] * 60,
    "years": np.tile(np.arange(2000, 2040), 3),
}


@pytest.mark.parametrize("column", LEFT_OUT.values(), ids=LEFT_OUT)
def test_identifiers_and_constants_are_left_out_with_a_note(column):
    encoder = TableEncoder().fit(frame(x=column), task=SITE)
    assert encoder.columns_ == ["age"]
    assert "'x'" in encoder.notes_[0]


@pytest.mark.parametrize("column", KEPT.values(), ids=KEPT)
def test_columns_that_tell_something_are_kept(column):
    encoder = TableEncoder().fit(frame(x=column), task=SITE)
    assert set(encoder.columns_) == {"age", "x"}
    assert encoder.left_out_ == {}


def test_columns_called_row_names_identifiers_or_names_are_no_measurements():
    table = frame(
        rownames=RNG.choice(9999, 120, replace=False),
        patient_id=np.repeat(np.arange(60), 2) * 7,
        ward_id=np.tile([101.0, 102.0, 103.0], 40),
        first_name=[f"name {i % 50}" for i in range(120)],
        paid=RNG.choice(9999, 120, replace=False),
    )
    encoder = TableEncoder().fit(table)
    assert set(encoder.left_out_) == {"rownames", "patient_id", "first_name"}
    assert set(encoder.columns_) == {"age", "ward_id", "paid"}
    assert "Numbers that are called identifiers are levels: 'ward_id'." in encoder.notes_
    kept = TableEncoder(keep=["rownames", "ward_id"]).fit(table)
    assert {"rownames", "ward_id"} <= set(kept.get_feature_names_out())


@pytest.mark.parametrize("written", [int, float, str, lambda value: f"{value:.1f}"])
def test_levels_that_are_numbers_are_known_however_they_are_written(written):
    codes = np.tile([101.0, 102.0, 103.0], 40)
    encoder = TableEncoder().fit(frame(ward_id=codes))
    again = encoder.transform(frame(ward_id=[written(value) for value in codes]))
    assert again["ward_id=103"].sum() == 40 and again["ward_id=102"].sum() == 40


# -- new rows, other libraries, files ------------------------------------------------------------------------


def raw():
    table = frame(
        ward=np.repeat(["medicine", "surgery", "eyes"], [70, 30, 20]),
        day=pd.date_range("2024-03-01", periods=120).astype(str),
        bmi=np.where(np.arange(120) % 9 == 0, np.nan, RNG.normal(25.0, 3.0, size=120)),
    )
    return table, TableEncoder(missing=["-9"], reference={"ward": "eyes"}).fit(table, task=SITE)


def test_levels_never_seen_are_the_reference_and_are_told():
    table, encoder = raw()
    assert encoder.groups_ == [["ward=medicine", "ward=surgery"]]
    with pytest.warns(UserWarning, match=r"not seen.*'ward' has 'attic'"):
        out = encoder.transform(table.assign(ward="attic"))
    assert not out[["ward=medicine", "ward=surgery"]].to_numpy().any()


def test_new_tables_may_be_written_in_another_way_and_have_other_columns():
    table, encoder = raw()
    known = encoder.transform(table, task=SITE)
    other = table[["bmi", "ward", "day", "age"]].assign(extra="x")
    other["bmi"] = other["bmi"].map("{:.12f}".format).str.replace("nan", " -9")
    assert_allclose(encoder.transform(other, task=SITE), known, atol=1e-9)
    with pytest.raises(ValueError, match=r"no column 'ward'.*which the model needs"):
        encoder.transform(table.drop(columns="ward"))


def test_polars_gives_the_same_features_as_pandas():
    table, encoder = raw()
    there = clone(encoder).fit(pl.from_pandas(table), task=SITE).transform(pl.from_pandas(table), task=SITE)
    assert isinstance(there, pl.DataFrame)
    handed = TableEncoder(task_column="site").fit_transform(
        table.assign(site=SITE)
    )  # to the next of a pipeline
    assert handed["site"].tolist() == SITE.tolist()
    assert_array_equal(handed["bmi"], encoder.transform(table, task=SITE)["bmi"])
    assert there.columns == encoder.get_feature_names_out().tolist()
    assert_allclose(there.to_numpy(), encoder.transform(table, task=SITE).to_numpy())


def test_its_state_is_json_and_what_it_cannot_use_is_refused():
    table, encoder = raw()
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.as_dict())))
    assert_array_equal(again.transform(table, task=SITE), encoder.transform(table, task=SITE))
    assert json.dumps(again.as_dict()) == json.dumps(encoder.as_dict())
    damaged = encoder.as_dict()
    damaged["columns"][0]["kind"] = "picture"
    with pytest.raises(ValueError, match="out of place"):
        TableEncoder.from_dict(damaged)
    with pytest.raises(ValueError, match=r"'bmi' has 14 missing cells, the first in row 1"):
        clone(encoder).set_params(impute="error").fit(table)
    with pytest.raises(ValueError, match=r"No column is left.*'x' \(one value in all rows\)"):
        TableEncoder().fit(pd.DataFrame({"x": [1.0] * 30}))


def test_features_that_a_task_lacks_stay_missing_if_asked():
    table, encoder = raw()
    table.loc[:39, ["bmi", "ward"]] = None
    out = clone(encoder).set_params(absent_features="allow").fit_transform(table, task=SITE)
    assert out.loc[:39].filter(regex="bmi|ward").isna().all(axis=None)
    assert out.loc[40:].notna().all(axis=None)
    assert "ward=missing" not in out
