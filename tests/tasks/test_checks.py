"""Bad input: each error names the task, the column and the remedy; good input passes untouched."""

import decimal
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

import mmtfl
from mmtfl.errors import require
from mmtfl.tasks.checks import (
    check_design,
    check_feature_names,
    check_finite_design,
    check_target,
    check_task_labels,
)

DESIGNS = [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_array, sparse.csr_matrix]

# -- task labels -----------------------------------------------------------------------------------------

STRINGS = ["b", "a", "bb"]
STRING_COLUMNS = [
    STRINGS,
    np.array(STRINGS),
    np.array(STRINGS, dtype=">U5"),
    np.array(STRINGS, dtype=object),
    [np.str_(label) for label in STRINGS],
    pd.Series(STRINGS, index=[7, 3, 7]),
    pd.Series(STRINGS, dtype=object),
    pd.Series(STRINGS, dtype="string"),
    pd.Series(STRINGS, dtype="category"),
    pl.Series(STRINGS),
    pl.Series(STRINGS, dtype=pl.Enum(["a", "b", "bb"])),
    pa.array(STRINGS),
    pa.chunked_array([STRINGS[:1], STRINGS[1:]]),
    pa.array(STRINGS).dictionary_encode(),
]
INTEGERS = [3, -1, 12]
INTEGER_COLUMNS = [
    INTEGERS,
    np.array(INTEGERS, dtype=">i4"),
    np.array(INTEGERS, dtype=object),
    [np.int32(3), -1, np.int64(12)],
    pd.Series(INTEGERS, dtype="Int16"),
    pd.Series(INTEGERS, dtype="category"),
    pl.Series(INTEGERS),
    pa.array(INTEGERS),
]


@pytest.mark.parametrize("task", STRING_COLUMNS + INTEGER_COLUMNS, ids=lambda task: type(task).__name__)
def test_strings_and_integers_of_any_container_are_labels(task):
    labels = check_task_labels(task, 3)
    assert (labels.dtype.kind == "U" and labels.dtype.isnative) or labels.dtype == np.int64
    assert labels.tolist() == (STRINGS if labels.dtype.kind == "U" else INTEGERS)


@pytest.mark.parametrize(
    "task",
    [
        ["a", None, "b", None],
        ["a", np.nan, "b", float("nan")],
        ["a", pd.NA, "b", pd.NaT],
        [1, None, 2, np.nan],
        np.array([1.0, np.nan, 2.0, np.nan]),
        np.array(["2020", "NaT", "2021", "NaT"], dtype="M8[Y]"),
        np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 1]),
        pd.Series(["a", None, "b", None], dtype="string"),
        pd.Series(["a", None, "b", None], dtype="category"),
        pd.Series([1, None, 2, None], dtype="Int64"),
        pl.Series(["a", None, "b", None]),
        pa.array(["a", None, "b", None]),
        pa.array(["a", None, "b", None]).dictionary_encode(),
    ],
    ids=lambda task: type(task).__name__,
)
def test_missing_labels_are_counted_and_the_first_is_named(task):
    with pytest.raises(ValueError, match=r"2 missing labels \(first in row 1\).*Drop these rows"):
        check_task_labels(task, 4)


@pytest.mark.parametrize(
    ("task", "error", "match"),
    [
        ([1.0, 2.0], TypeError, "row 0 is of type float"),
        (["a", 2.5], TypeError, "row 1 is of type float"),
        (np.array([1.0, 2.0]), TypeError, "float64"),
        ([True, False], TypeError, "bool"),
        ([1, True], TypeError, "row 1 is of type bool"),
        (np.array([True, False]), TypeError, "bool"),
        ([b"a", b"b"], TypeError, "bytes"),
        (np.array(["2020", "2021"], dtype="M8[Y]"), TypeError, "datetime64"),
        ([1j, 2j], TypeError, "complex"),
        ([("a", 1), ("b", 2)], TypeError, "tuple"),
        ("ab", ValueError, "must be 1-D"),
        (5, ValueError, "must be 1-D"),
        (np.ones((2, 1), dtype=int), ValueError, r"shape \(2, 1\): pass a single column"),
        (pd.DataFrame({"site": ["a", "b"]}), ValueError, "single column"),
        (["a"], ValueError, "X has 2 rows, but task has 1"),
        ([2**63, 1], ValueError, "beyond 64 bits"),
        (np.array([2**63, 1], dtype=np.uint64), ValueError, "beyond 64 bits"),
        (["a", "a\0"], ValueError, "row 1 holds a NUL"),
        (pl.LazyFrame({"a": [1, 2]}), TypeError, "collect"),
    ],
)
def test_labels_of_other_shapes_and_values_are_refused(task, error, match):
    with pytest.raises(error, match=match):
        check_task_labels(task, 2)


@given(st.lists(st.one_of(st.none(), st.integers(), st.floats(), st.booleans(), st.text(), st.binary())))
@settings(deadline=None)
def test_labels_are_returned_unchanged_or_refused(task):
    try:
        labels = check_task_labels(task, len(task))
    except (TypeError, ValueError):
        return
    assert labels.tolist() == task
    assert len({type(label) for label in labels.tolist()}) <= 1


# -- the design ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        (np.ones(3), ValueError, "(?s)Expected 2D array, got 1D array instead.*Reshape"),
        (5.0, ValueError, "got scalar array"),
        (sparse.coo_array(np.ones(3)), ValueError, "Expected 2D input"),
        (np.ones((0, 2)), ValueError, r"0 sample\(s\) \(shape=\(0, 2\)\)"),
        (np.ones((2, 0)), ValueError, r"0 feature\(s\) \(shape=\(2, 0\)\) while a minimum of 1 is required"),
        ([[1, 2], [3]], ValueError, "cannot be read as an array"),
        (np.ones((2, 2), dtype=complex), ValueError, "Complex data not supported"),
        (np.array([[1, 2j]], dtype=object), ValueError, "Complex data not supported.*row 0, column 1"),
        (np.array([["a", "b"]]), TypeError, "row 0, column 0: found the string 'a'"),
        ([[1, 2], [3, "b"]], TypeError, "row 1, column 1: found the string 'b', expected a number"),
        (np.array([[1, "2"]], dtype=object), TypeError, "row 0, column 1: found the string '2'"),
        ([[1, {}]], TypeError, "row 0, column 1: not a number.*dict"),
        ([[10**400, 1]], ValueError, "row 0, column 0: does not fit in float64"),
        (np.ones((2, 2), dtype="M8[D]"), TypeError, "datetime64"),
        (pd.DataFrame({"u": [1.0], "v": ["x"]}), TypeError, "Column 'v' of X is of type String.*encode"),
        (pd.DataFrame({"u": [1.0], "v": [{}]}), TypeError, "Column 'v' of X, row 0: not a number"),
        (pd.DataFrame({"v": pd.Categorical([1])}), TypeError, "Column 'v' of X is of type Categorical"),
        (pa.table({"u": [1.0], "v": ["x"]}), TypeError, "Column 'v' of X is of type String"),
        (pd.DataFrame(np.ones((1, 2)), columns=["u", "u"]), ValueError, "repeated column names"),
        (
            pd.DataFrame(np.ones((1, 2)), columns=["u", 1]),
            TypeError,
            "names must be strings, but 1 is of type int",
        ),
        (pl.LazyFrame({"u": [1.0]}), TypeError, "collect"),
    ],
)
def test_designs_refuse(X, error, match):
    with pytest.raises(error, match=match):
        check_design(X)


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"u": pd.array([1, None], dtype="Int64"), "v": pd.array([True, None], dtype="boolean")}),
        pd.DataFrame({"u": [1, None], "v": [True, pd.NA]}, dtype=object),
        pl.DataFrame({"u": [1, None], "v": [True, None]}),
        pl.DataFrame({"u": [decimal.Decimal(1), None], "v": [1.0, None]}),
        pa.table({"u": [1, None], "v": [True, None]}),
        np.ma.array(np.ones((2, 2)), mask=[[0, 0], [1, 1]]),
        np.array([[1, True], [None, pd.NA]], dtype=object),
    ],
    ids=lambda X: type(X).__name__,
)
def test_missing_values_of_any_container_are_nan(X):
    assert_array_equal(check_design(X)[0], [[1, 1], [np.nan, np.nan]])


def test_feature_names_refuse():
    for names, match in (
        (["u"], "1 names"),
        (["u", "u"], "'u' occurs more"),
        (["u", 2], "2 is of"),
    ):
        with pytest.raises((TypeError, ValueError), match=match):
            check_feature_names(names, 2)


# -- finite values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", DESIGNS)
def test_infinities_that_cancel_are_found(make):
    with pytest.raises(ValueError, match="infinity"):
        check_finite_design(make(np.array([[1.0, np.inf], [2.0, -np.inf]])))


# -- targets, weights, lengths, classes ------------------------------------------------------------------


def test_targets_become_float64():
    whole, mixed = pd.Series([1, 2], dtype="Int64"), np.array([1, 2], dtype=object)
    for y in ([1, 2], (True, 2.0), mixed, whole, pl.Series([1, 2]), pa.array([1, 2])):
        found = check_target(y, 2)
        assert found.dtype == np.float64 and found.tolist() == [1, 2]


# -- extras ----------------------------------------------------------------------------------------------


def test_require_imports_or_names_the_extra():
    assert require("numpy.linalg", "none") is np.linalg
    with pytest.raises(ImportError, match=r"no_such is needed here.*pip install '\.\[plots\]'") as caught:
        require("no_such.part", "plots")
    assert caught.value.name == "no_such"


def calls_of(functions, run):
    """How often each function is called in this thread, wherever it was imported."""
    counts = dict.fromkeys((function.__code__ for function in functions), 0)

    def count_call(frame, event, argument):
        if event == "call" and frame.f_code in counts:
            counts[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        run()
    finally:
        sys.setprofile(before)
    return list(counts.values())


@pytest.mark.parametrize(
    "Model", [mmtfl.MMTFLRegressor, mmtfl.MMTFLClassifier, mmtfl.DirtyRegressor, mmtfl.CappedRegressor]
)
def test_a_fit_checks_the_design_and_the_labels_once(Model):
    X = np.random.default_rng(0).normal(size=(40, 3))
    y, task = (X[:, 0] > 0).astype(int), np.repeat(["a", "b"], 20)
    checks = [check_design, check_task_labels, check_finite_design]
    assert calls_of(checks, lambda: Model().fit(X, y, task)) == [1, 1, 1]
