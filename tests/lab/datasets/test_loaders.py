"""Loaders read files of arrays, mind the traps of each dataset, and say what to do when a file is missing."""

import doctest
import os
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mmtfl_lab import datasets
from mmtfl_lab.datasets import array_files

HAS_DATA = bool(os.environ.get("MMTFL_DATA"))
needs_data = pytest.mark.skipif(
    not HAS_DATA, reason="the environment variable MMTFL_DATA names no data folder"
)
LOADERS = [name for name in datasets.__all__ if name.startswith("load_")]
ARGUMENTS = {"load_multitarget": ("wq",)}


def load(name, **options):
    return getattr(datasets, name)(*ARGUMENTS.get(name, ()), **options)


# -- files made here -------------------------------------------------------------------------------------


def save(folder, name, **arrays):
    np.savez_compressed(folder / name, **arrays)
    return folder


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((6, 4))


TASK = np.array([0, 0, 0, 1, 1, 1])
NAMES = np.array(["a", "b", "c", "d"])


@pytest.mark.parametrize("name", LOADERS)
def test_a_missing_file_says_where_to_get_it_and_where_to_put_it(name, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        load(name, folder=tmp_path)
    message = str(caught.value)
    for words in [
        str(tmp_path),
        ".npz",
        "Get the original",
        "numpy.savez_compressed",
        "MMTFL_DATA",
        "folder=",
    ]:
        assert words in message
    assert any(source.origin in message for source in array_files.sources().values())


def test_the_folder_is_the_argument_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MMTFL_DATA", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert datasets.data_folder(tmp_path) == tmp_path
    assert datasets.data_folder() == tmp_path / "variable"
    monkeypatch.delenv("MMTFL_DATA")
    assert datasets.data_folder() == tmp_path / "cache" / "mmtfl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(array_files.sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.data_folder() == tmp_path / ".cache" / "mmtfl"
    monkeypatch.setattr(array_files.sys, "platform", "darwin")
    assert datasets.data_folder() == tmp_path / "Library" / "Caches" / "mmtfl"


def test_pickled_objects_are_refused(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    bomb = np.empty(1, dtype=object)
    bomb[0] = Bomb()
    np.savez(tmp_path / "landmine.npz", X=bomb, y=TASK, task=TASK)
    with pytest.raises(ValueError, match=r"landmine\.npz cannot be read"):
        datasets.load_landmine(folder=tmp_path)
    (tmp_path / "landmine.npz").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match=r"landmine\.npz cannot be read"):
        datasets.load_landmine(folder=tmp_path)
    assert not (tmp_path / "exploded").exists()
    np.savez(tmp_path / "landmine.npz", X=np.eye(3), y=TASK)
    with pytest.raises(ValueError, match=r"landmine\.npz cannot be read: it has no array 'task'"):
        datasets.load_landmine(folder=tmp_path)


def test_rows_with_missing_features_are_left_out_unless_asked(tmp_path, X):
    X[2, 1] = np.nan
    save(tmp_path, "mtr_rf1.npz", X=X, Y=X[:, :2] * 0, feature_names=NAMES, target_names=NAMES[:2])
    data = datasets.load_multitarget("rf1", folder=tmp_path)
    assert_array_equal(data.row, [0, 1, 3, 4, 5])
    assert_array_equal(data.X, X[data.row])
    assert data.y.shape == (5, 2)
    kept = datasets.load_multitarget("rf1", keep_incomplete=True, folder=tmp_path)
    assert_array_equal(kept.row, np.arange(6))
    assert_array_equal(kept.X, X)


# -- the real files --------------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize("name", LOADERS)
def test_docstring_examples_hold_on_the_real_data(name):
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(getattr(datasets, name), name, globs={})
    assert sum(doctest.SKIP in example.options for example in test.examples) > 0
    for example in test.examples:
        example.options.pop(doctest.SKIP, None)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    report = []
    runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@needs_data
def test_sarcos_training_rows_are_not_in_the_test_file():
    def rows(X):
        return {row.tobytes() for row in np.round(X, 6)}

    test = rows(datasets.load_sarcos("test").X)
    assert not rows(datasets.load_sarcos("train").X) & test
    assert rows(datasets.load_sarcos("all").X) & test
