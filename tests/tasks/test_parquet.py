"""Tasks in parquet files: what is found in them, and the rows that come out of any part."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl import Tasks
from mmtfl.tasks.moments import Moments

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=NAMES)
    frame["site"] = rng.choice(["Bern", "Aker", "Cork"], size=400, p=[0.5, 0.3, 0.2])
    frame.loc[[5, 99, 301], "site"] = "a/b c"
    frame["y"] = frame["a"] * 2.0 + rng.normal(size=400)
    frame["w"] = rng.uniform(0.5, 2.0, size=400)
    return frame


def written(frame, folder, how):
    if how == "one file":
        frame.to_parquet(folder / "all.parquet", row_group_size=37)
    elif how == "several files":
        for i, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
            frame.iloc[part].to_parquet(folder / f"{i}.parquet", row_group_size=50)
    elif how == "sorted":
        frame.sort_values("site", kind="stable").to_parquet(folder / "all.parquet", row_group_size=37)
    else:
        frame.to_parquet(folder, partition_cols=["site"])
    return folder


WAYS = ["one file", "several files", "sorted", "folders"]


def same_tasks(one, other):
    assert_array_equal(one.X, other.X)
    assert_array_equal(one.y, other.y)
    assert_array_equal(one.labels, other.labels)
    assert_array_equal(one.offsets, other.offsets)
    assert one.feature_names == other.feature_names
    assert (one.weights is None) == (other.weights is None)
    if one.weights is not None:
        assert_array_equal(one.weights, other.weights)


@pytest.mark.parametrize("how", WAYS)
def test_all_rows_are_those_of_the_frame(how, frame, tmp_path):
    stored = Tasks.from_parquet(
        written(frame, tmp_path, how), task="site", target="y", features=NAMES, weight="w"
    )
    want = Tasks.from_frame(frame, task="site", target="y", features=NAMES, weight="w")
    assert (stored.n_tasks, stored.n_samples, stored.n_features) == (4, 400, 3)
    assert_array_equal(stored.sizes, want.sizes)
    assert_allclose(stored.weight_sums, np.add.reduceat(want.weights, want.offsets[:-1]), rtol=1e-14)
    same_tasks(stored.load(), want)
    assert "4" in repr(stored)


@pytest.mark.parametrize("how", WAYS)
def test_parts_are_runs_of_the_whole_and_name_only_their_files(how, frame, tmp_path):
    stored = Tasks.from_parquet(
        written(frame.drop(columns="w"), tmp_path, how), task="site", target="y", features=NAMES
    )
    whole = stored.load()
    for lo, hi in ((0, 1), (1, 3), (3, 4)):
        part = stored.part(lo, hi, compress=False)
        rows = slice(whole.offsets[lo], whole.offsets[hi])
        found = part.read()
        assert part.first == lo
        assert_array_equal(found.X, whole.X[rows])
        assert_array_equal(found.y, whole.y[rows])
        assert found.labels.tolist() == whole.labels[lo:hi].tolist()
        if how in ("sorted", "folders"):
            assert len(part.stored.pieces) < len(stored.pieces)


@pytest.mark.parametrize("how", ["one file", "folders"])
def test_integer_labels_stay_integers_and_are_sorted_as_such(how, frame, tmp_path):
    numbered = frame.assign(site=np.arange(400) % 11 + 1)
    stored = Tasks.from_parquet(written(numbered, tmp_path, how), task="site", target="y")
    assert stored.labels.tolist() == list(range(1, 12))


# -- what is wrong is told -----------------------------------------------------------------------------------


def spoilt(frame, tmp_path, **columns):
    frame.assign(**columns).to_parquet(tmp_path / "bad.parquet", row_group_size=100)
    return tmp_path


def test_wrong_names_and_places_are_told(frame, tmp_path):
    path = written(frame, tmp_path, "one file")
    with pytest.raises(ValueError, match=r"no column 'sit': did you mean 'site'"):
        Tasks.from_parquet(path, task="sit", target="y")
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        Tasks.from_parquet(tmp_path / "nowhere", task="site", target="y")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"no \.parquet files"):
        Tasks.from_parquet(tmp_path / "empty", task="site", target="y")
    with pytest.raises(ValueError, match="memory_limit must be a size"):
        Tasks.from_parquet(path, task="site", target="y", memory_limit="lots")
    frame.rename(columns={"b": "B"}).to_parquet(path / "other.parquet")
    with pytest.raises(ValueError, match=r"other\.parquet and all\.parquet differ in column 'B'"):
        Tasks.from_parquet(path, task="site", target="y")


def test_missing_and_infinite_values_name_the_task_and_the_column(frame, tmp_path):
    at = frame.index == 250
    label = frame.site[250]
    stored = Tasks.from_parquet(
        spoilt(frame, tmp_path, b=frame.b.mask(at, np.inf)), task="site", target="y", features=NAMES
    )
    with pytest.raises(ValueError, match=rf"(?s)'b'.*{label}|{label}.*'b'"):
        stored.load()
    stored = Tasks.from_parquet(
        spoilt(frame, tmp_path, y=frame.y.mask(at)), task="site", target="y", features=NAMES
    )
    with pytest.raises(ValueError, match=label):
        stored.load()
    with pytest.raises(ValueError, match="missing labels"):
        Tasks.from_parquet(spoilt(frame, tmp_path, site=frame.site.mask(at)), task="site", target="y")


# -- few rows for many ---------------------------------------------------------------------------------------


def all_moments(X, y, w):
    Z = np.column_stack([np.ones(len(y)), X, y])
    return Z.T @ (w[:, None] * Z)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["plain", "scales", "constant", "copies", "far away"])
def test_few_rows_have_the_moments_of_many(kind, weighted):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 6)) @ rng.normal(size=(6, 6))
    if kind == "scales":
        X *= 10.0 ** np.arange(-6, 6, 2)
    elif kind == "constant":
        X[:, 2] = 3.0
    elif kind == "copies":
        X[:, 3] = X[:, 1] - X[:, 0]
    elif kind == "far away":
        X += 1e4
    y = X[:, 0] + rng.normal(size=1500)
    w = rng.uniform(0.0, 2.0, size=1500) if weighted else np.ones(1500)
    moments = Moments(6)
    for part in np.array_split(np.arange(1500), 7):
        moments.add(X[part], y[part], w[part])
    few = moments.rows()
    assert len(few[1]) <= 8
    want, got = all_moments(X, y, w), all_moments(*few)
    size = np.sqrt(np.outer(np.diag(want), np.diag(want)))
    assert_allclose(got / size, want / size, atol=1e-13)
    # about the mean too, where the squares of a column that is far away hide its spread
    centred = [np.cov(np.column_stack([X, y]).T, aweights=w, ddof=0),
               np.cov(np.column_stack(few[:2]).T, aweights=few[2], ddof=0)]  # fmt: skip
    spread = np.sqrt(np.diag(centred[0]))
    spread[spread < 1e-12] = 1.0
    assert_allclose(centred[1] / spread / spread[:, None], centred[0] / spread / spread[:, None], atol=1e-9)


# -- Dask DataFrames -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["memory", "files"])
def test_a_dask_frame_gives_the_rows_of_the_frame(source, frame, tmp_path):
    import dask.dataframe as dd

    if source == "memory":
        lazy = dd.from_pandas(frame, npartitions=5, sort=False)
    else:
        lazy = dd.read_parquet(written(frame, tmp_path, "several files"))
    stored = Tasks.from_dask(lazy, task="site", target="y", features=NAMES, weight="w")
    want = Tasks.from_frame(frame, task="site", target="y", features=NAMES, weight="w")
    assert_array_equal(stored.sizes, want.sizes)
    same_tasks(stored.load(), want)
    again = Tasks.from_dask(lazy, task="site", target="y", features=NAMES, weight="w")
    other = Tasks.from_dask(lazy, task="site", target="y", features=NAMES)
    assert stored.fingerprint == again.fingerprint != other.fingerprint


def test_what_is_wrong_with_a_dask_frame_is_told(frame):
    import dask.dataframe as dd

    with pytest.raises(TypeError, match=r"Tasks\.from_frame"):
        Tasks.from_dask(frame, task="site", target="y")
    with pytest.raises(ValueError, match="no column 'town'"):
        Tasks.from_dask(dd.from_pandas(frame, npartitions=2), task="town", target="y")
    holes = frame.assign(site=frame.site.mask(frame.index == 250))
    with pytest.raises(ValueError, match="in partition 1 has missing labels"):
        Tasks.from_dask(dd.from_pandas(holes, npartitions=2), task="site", target="y")
