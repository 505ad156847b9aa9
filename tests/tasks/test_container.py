"""The container: round trips, what is copied and what is not, and what it refuses."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from mmtfl.tasks import Tasks

STORAGES = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "csr_array": sparse.csr_array,
    "csr_matrix": sparse.csr_matrix,
    "csc_array": sparse.csc_array,
    "csc_matrix": sparse.csc_matrix,
}
FRAMES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": lambda columns: pa.table({name: list(values) for name, values in columns.items()}),
}

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)
label_kinds = st.sampled_from(
    [st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1), st.sampled_from(["a", "b", "aa", ""]), names]
)


@st.composite
def stacked_rows(draw, max_rows=12):
    n, d = draw(st.integers(1, max_rows)), draw(st.integers(1, 3))
    X = np.array(draw(st.lists(finite, min_size=n * d, max_size=n * d))).reshape(n, d)
    y = np.array(draw(st.lists(finite, min_size=n, max_size=n)))
    task = draw(st.lists(draw(label_kinds), min_size=n, max_size=n))
    return X, y, task


@st.composite
def shared_targets(draw):
    n, d, n_tasks = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    X = np.array(draw(st.lists(finite, min_size=n * d, max_size=n * d))).reshape(n, d)
    cells = st.one_of(finite, st.just(np.nan))
    Y = np.array(draw(st.lists(cells, min_size=n * n_tasks, max_size=n * n_tasks))).reshape(n, n_tasks)
    Y[draw(st.integers(0, n - 1))] = 1.5  # every task observes something
    return X, Y


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def storage(X):
    return type(X) if sparse.issparse(X) else ("F" if X.flags.f_contiguous else "C")


def assert_same_tasks(found, expected):
    assert_array_equal(found.labels, expected.labels)
    assert_array_equal(found.offsets, expected.offsets)
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(dense(one.X), dense(other.X))
        assert_array_equal(one.y, other.y)
        assert (one.weights is None) == (other.weights is None)
        if one.weights is not None:
            assert_array_equal(one.weights, other.weights)


def small(seed=0, n=30, d=4, labels=("b", "c", "a")):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    return X, rng.normal(size=n), np.array(labels)[rng.integers(len(labels), size=n)], rng.random(n) + 0.1


# -- round trips -----------------------------------------------------------------------------------------


@given(stacked_rows(), st.sampled_from(sorted(STORAGES)))
@settings(deadline=None)
def test_rows_keep_their_task_and_their_order_within_it(rows, kind):
    X, y, task = rows
    tasks = Tasks.from_rows(STORAGES[kind](X), y, task)
    expected = sorted(set(task))
    assert tasks.labels.tolist() == expected
    assert tasks.n_tasks == len(tasks) == len(expected)
    assert tasks.n_samples == len(y)
    assert tasks.sizes.sum() == len(y)
    found_X, found_y, found_task = tasks.to_rows()
    order = sorted(range(len(y)), key=lambda i: task[i])  # stable
    assert_array_equal(dense(found_X), X[order])
    assert_array_equal(found_y, y[order])
    assert found_task.tolist() == [task[i] for i in order]
    assert_same_tasks(Tasks.from_rows(found_X, found_y, found_task), tasks)


@given(shared_targets(), st.sampled_from(sorted(STORAGES)))
@settings(deadline=None)
def test_shared_tasks_have_the_rows_that_they_observe(data, kind):
    X, Y = data
    tasks = Tasks.from_shared(STORAGES[kind](X), Y)
    assert tasks.rows is not None
    assert tasks.is_complete == (not np.isnan(Y).any())
    assert tasks.n_samples == np.count_nonzero(~np.isnan(Y))
    for t, view in enumerate(tasks):
        seen = ~np.isnan(Y[:, t])
        assert_array_equal(dense(view.X), X[seen])
        assert_array_equal(view.y, Y[seen, t])
    rows = Tasks.from_rows(*tasks.to_rows())
    assert_same_tasks(rows, tasks)
    some = tasks.select(np.arange(0, tasks.n_samples, 2))
    assert some.X is tasks.X
    assert_same_tasks(some, rows.select(np.arange(0, tasks.n_samples, 2)))


@given(stacked_rows(), st.sampled_from(sorted(FRAMES)), st.booleans())
@settings(deadline=None)
def test_frames_give_the_tasks_of_their_columns(rows, backend, weighted):
    X, y, task = rows
    tasks = Tasks.from_rows(X, y, task)
    if weighted:
        tasks = replace(tasks, weights=np.arange(1.0, tasks.n_samples + 1))
    X, y, task = tasks.to_rows()
    columns = {"site": task, **{f"x{j}": X[:, j] for j in range(X.shape[1])}, "outcome": y}
    if weighted:
        columns["mass"] = tasks.weights
    frame, known = FRAMES[backend](columns), {"task": "site", "target": "outcome"}
    again = Tasks.from_frame(frame, weight="mass" if weighted else None, **known)
    assert again.feature_names == tuple(f"x{j}" for j in range(X.shape[1]))
    assert_same_tasks(again, tasks)
    assert_same_tasks(pickle.loads(pickle.dumps(again)), tasks)
    chosen = Tasks.from_frame(frame, features=["x0"], **known)
    assert chosen.feature_names == ("x0",) and np.array_equal(chosen.X, X[:, :1])


@pytest.mark.parametrize("backend", FRAMES)
def test_frame_with_a_list_of_targets_shares_x_and_reads_missing_as_unobserved(backend):
    columns = {"u": [1, 2, 3], "v": [True, False, True], "g": [0.5, None, 1.5], "h": [None, None, 7]}
    tasks = Tasks.from_frame(FRAMES[backend](columns), target=["h", "g"])
    assert tasks.rows is not None
    assert tasks.labels.tolist() == ["h", "g"]
    assert tasks.feature_names == ("u", "v")
    assert_array_equal(tasks.X, [[1, 1], [2, 0], [3, 1]])
    assert [view.y.tolist() for view in tasks] == [[7.0], [0.5, 1.5]]
    assert tasks.rows.tolist() == [2, 0, 2]


@pytest.mark.parametrize("kind", STORAGES)
def test_every_constructor_gives_the_same_tasks(kind):
    X, y, task, weights = small()
    store = STORAGES[kind]
    rows = Tasks.from_rows(store(X), y, task, weights)
    parts = [task == label for label in "abc"]
    listed = Tasks.from_list([(store(X[part]), y[part]) for part in parts], labels=list("abc"))
    Y = np.where(np.column_stack(parts), y[:, None], np.nan)
    shared = Tasks.from_shared(store(X), Y, weights, labels=list("abc"))
    assert_same_tasks(shared, rows)
    assert_same_tasks(listed, replace(rows, weights=None))


# -- labels and order ------------------------------------------------------------------------------------


def test_shared_columns_keep_the_order_given():
    assert Tasks.from_shared([[1.0]], pd.DataFrame({"z": [1], "a": [2]})).labels.tolist() == ["z", "a"]
    assert Tasks.from_shared([[1.0]], [[1, 2]]).labels.tolist() == [0, 1]
    assert Tasks.from_shared([[1.0]], [[1, 2]], labels=[9, 3]).labels.tolist() == [9, 3]


def test_feature_names_come_from_frames_or_the_argument():
    frame = pd.DataFrame({"age": [1.0], "dose": [2.0]})
    assert Tasks.from_rows(frame, [1]).feature_names == ("age", "dose")
    assert Tasks.from_rows(frame, [1], feature_names=["p", "q"]).feature_names == ("p", "q")
    assert Tasks.from_rows(frame.to_numpy(), [1]).feature_names is None
    assert Tasks.from_rows(pd.DataFrame(frame.to_numpy()), [1]).feature_names is None
    assert Tasks.from_shared(pl.from_pandas(frame), [[1]]).feature_names == ("age", "dose")


# -- copies and storage ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORAGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sorted_rows_are_not_copied(kind, dtype):
    X = STORAGES[kind](np.arange(12.0).reshape(4, 3).astype(dtype))
    y = np.arange(4.0)
    tasks = Tasks.from_rows(X, y, ["a", "a", "b", "c"])
    assert tasks.X is X
    assert np.shares_memory(tasks.y, y)
    assert tasks.X.dtype == dtype
    turned = Tasks.from_rows(X, y, ["b", "a", "b", "a"]).X
    assert turned.dtype == dtype and (kind == "strided" or storage(turned) == storage(X))


@pytest.mark.parametrize("kind", ["csr_array", "csc_array", "csr_matrix", "csc_matrix"])
def test_sparse_rows_come_out_canonical(kind):
    X, y, task, _ = small()
    tasks = Tasks.from_rows(STORAGES[kind](X.astype(np.float32)), y, task)
    parts = [tasks, tasks.select(np.arange(20)[::-2]), *tasks]
    for part in parts:
        flagged = part.X.has_canonical_format and part.X.dtype == np.float32 and type(part.X) is type(tasks.X)
        fresh = type(part.X)((part.X.data, part.X.indices, part.X.indptr), shape=part.X.shape)
        assert flagged
        assert fresh.has_canonical_format


def test_duplicated_sparse_entries_are_added_up_without_touching_the_input():
    S = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    tasks = Tasks.from_rows(S, [1])
    assert tasks.X.nnz == 2
    assert_array_equal(tasks.X.toarray(), [[4, 3]])
    assert S.data.tolist() == [1, 2, 4]
    assert S.indices.tolist() == [1, 1, 0]


def test_views_share_memory_where_storage_allows():
    X, y, task, weights = small()
    order = np.argsort(task, kind="stable")
    for kind in ("C", "F", "strided"):
        tasks = Tasks.from_rows(STORAGES[kind](X[order]), y[order], task[order], weights[order])
        view = tasks.task(1)
        assert np.shares_memory(view.X, tasks.X)
        assert np.shares_memory(view.y, tasks.y)
        assert np.shares_memory(view.weights, tasks.weights)
    csr = Tasks.from_rows(sparse.csr_array(X[order]), y[order], task[order])
    assert all(np.shares_memory(view.X.data, csr.X.data) for view in [csr.task(1), *csr])
    frame = pd.DataFrame(X)  # of one block
    assert np.shares_memory(Tasks.from_rows(frame, y).X, frame.to_numpy())


def test_complete_shared_x_is_handed_out_itself():
    X, Y = np.ones((3, 2)), np.arange(6.0).reshape(3, 2)
    assert all(view.X is X for view in Tasks.from_shared(X, Y))
    Y[2, 0] = np.nan
    tasks = Tasks.from_shared(X, Y)
    assert np.shares_memory(tasks.task(0).X, X)  # rows 0 and 1 are a slice
    assert tasks.task(1).X is X


@pytest.mark.parametrize(
    "X",
    [
        np.array([[True, False], [False, True]]),
        np.array([[1, 0], [0, 1]], dtype=np.uint64),
        np.array([[1, 0], [0, 1]], dtype=object),
        np.array([[1, 0], [0, 1]], dtype=">f8"),
        np.ma.array([[1.0, 0.0], [0.0, 1.0]]),
        ((True, 0), (0, 1.0)),
        sparse.csc_array(np.array([[True, False], [False, True]])),
        pd.DataFrame({"a": [1, 0], "b": [False, True]}, dtype=object),
        pd.DataFrame({"a": pd.array([1, 0], dtype="Int8"), "b": pd.array([0, 1], dtype="Float32")}),
        pd.DataFrame({"a": pd.arrays.SparseArray([1, 0]), "b": pd.arrays.SparseArray([0.0, 1.0])}),
    ],
    ids=lambda X: f"{type(X).__name__}-{getattr(X, 'dtype', '')}",
)
def test_numbers_of_other_kinds_become_float64(X):
    tasks = Tasks.from_rows(X, [1, 2])
    assert tasks.X.dtype == np.dtype("=f8")
    assert_array_equal(dense(tasks.X), np.eye(2))


def test_inputs_may_be_read_only():
    X, y, task, weights = small()
    for array in (X, y, task, weights):
        array.flags.writeable = False
    S = sparse.csc_array(X)
    for part in (S.data, S.indices, S.indptr):
        part.flags.writeable = False
    for design in (X, S, sparse.csr_array(X)):
        tasks = Tasks.from_rows(design, y, task, weights)
        tasks.select(np.arange(0, 30, 2))
        assert len(list(tasks)) == 3
    Y = np.stack([y, y], axis=1)
    Y.flags.writeable = False
    Tasks.from_shared(X, Y, weights).to_rows()


# -- selecting and replacing -----------------------------------------------------------------------------


@given(stacked_rows(), st.data(), st.sampled_from(sorted(STORAGES)))
@settings(deadline=None)
def test_select_equals_building_from_the_selected_rows(rows, data, kind):
    X, y, task = rows
    tasks = Tasks.from_rows(STORAGES[kind](X), y, task, np.arange(1.0, len(y) + 1))
    index = np.array(data.draw(st.lists(st.integers(0, len(y) - 1), min_size=1, max_size=15)))
    found = tasks.select(index)
    rows_X, rows_y, rows_task = tasks.to_rows()
    expected = Tasks.from_rows(dense(rows_X)[index], rows_y[index], rows_task[index], tasks.weights[index])
    assert_same_tasks(found, expected)
    assert not sparse.issparse(tasks.X) or type(found.X) is type(tasks.X)


def test_select_takes_masks_and_negative_positions():
    tasks = Tasks.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], [5, 6, 7])
    assert tasks.select([True, False, True]).labels.tolist() == [5, 7]
    assert tasks.select([-1]).labels.tolist() == [7]
    assert tasks.select(range(1, 3)).y.tolist() == [2, 3]


def test_select_refuses():
    for index, match in (
        ([], "empty"),
        ([3], "index 3 is"),
        ([0.5], "of integer"),
        ([True], "boolean"),
    ):
        with pytest.raises((ValueError, IndexError), match=match):
            Tasks.from_rows(np.ones((3, 1)), [1, 2, 3]).select(index)


# -- refusals --------------------------------------------------------------------------------------------

X2, Y2 = np.ones((2, 2)), np.array([1.0, 2.0])
LISTED, SHARED = Tasks.from_list, partial(Tasks.from_shared, X2)


@pytest.mark.parametrize(
    ("make", "data", "options", "error", "match"),
    [
        (LISTED, [], {}, ValueError, "empty"),
        (LISTED, [(X2, Y2), (np.ones((1, 3)), [1])], {}, ValueError, "X of task 1 has 3 columns, but"),
        (LISTED, [(X2, Y2), (X2, [1])], {}, ValueError, "X of task 1 has 2 rows, but y of task 1 has 1"),
        (LISTED, [(X2, Y2)] * 2, {"labels": ["a", "a"]}, ValueError, "'a' occurs twice"),
        (LISTED, [(X2, Y2)] * 2, {"labels": ["a"]}, ValueError, "length 1, but there are 2 tasks"),
        (LISTED, [(X2, Y2), ([[1, 2], [np.inf, 1]], Y2)], {}, ValueError, "column 0 of task 1 .first"),
        (SHARED, Y2, {}, ValueError, "Y must be 2-D.*from_rows"),
        (SHARED, np.ones((3, 2)), {}, ValueError, "X has 2 rows, but Y has 3"),
        (SHARED, [[1, 1], [2, np.inf]], {"labels": ["a", "b"]}, ValueError, "infinity.*task 'b', row 1"),
        (SHARED, [["u", 1], [2, 3]], {}, TypeError, "Y, row 0, column 0: found the string 'u'"),
        (SHARED, X2, {"labels": [1, 1]}, ValueError, "1 occurs twice"),
        (SHARED, X2, {"sample_weight": np.ones((2, 3))}, ValueError, "pass one weight per row"),
        (SHARED, [[1, 1], [1, np.nan]], {"sample_weight": [0, 1]}, ValueError, "Task 1 has zero total"),
        (SHARED, sparse.csr_array(X2), {}, TypeError, "Y must be dense"),
    ],
)
def test_lists_and_shared_targets_refuse(make, data, options, error, match):
    with pytest.raises(error, match=match):
        make(data, **options)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"task": "sit", "target": "y"}, ValueError, "no column 'sit': did you mean 'site'"),
        ({"task": "site", "target": "qq"}, ValueError, "no column 'qq'; its columns are 'site', 'age'"),
        ({"task": "site", "target": "site"}, ValueError, "'site' is used twice"),
        ({"task": "site", "target": "y", "features": "age"}, TypeError, "list of column names"),
        ({"task": "site", "target": "y", "features": []}, ValueError, "No feature columns"),
        ({"task": "site", "target": ["y"]}, ValueError, "Both a task column"),
        ({"task": "site", "target": "name"}, TypeError, "y, row 0: found the string 'n'"),
    ],
)
@pytest.mark.parametrize("backend", FRAMES)
def test_frames_refuse(backend, options, error, match):
    columns = {"site": ["a", "b"], "age": [1, 2], "y": [3.0, 4.0], "name": ["n", "m"]}
    if options.get("target") != "name":
        del columns["name"]
    with pytest.raises(error, match=match):
        Tasks.from_frame(FRAMES[backend](columns), **options)


def test_what_is_not_a_frame_in_memory_is_refused():
    for thing in (X2, pl.LazyFrame({"y": [1]}), {"y": [1]}):
        with pytest.raises(TypeError, match="table in memory"):
            Tasks.from_frame(thing, target="y")
