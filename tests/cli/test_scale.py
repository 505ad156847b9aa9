"""`--dask`, `--memory-limit` and `--checkpoint`: the same model by other ways."""

import os

import numpy as np
import pandas as pd
import pytest

import mmtfl
from cli.typed import refusal, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows as a file, as a folder with a part per task, and as CSV; and a fit of them in memory."""
    folder = tmp_path_factory.mktemp("scale")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 6)), columns=list("abcdef"))
    frame["task"] = np.repeat(["Aker", "Bern", "Cork"], 100)
    frame["y"] = 2.0 * frame["a"] - frame["b"] + rng.normal(size=300)
    frame["won"] = np.where(frame["y"] > 0.0, "yes", "no")
    frame.to_parquet(folder / "data.parquet")
    frame.to_parquet(folder / "parts", partition_cols=["task"])
    frame.to_csv(folder / "data.csv")
    run(command(folder, "memory", "--drop won"))
    return folder


def command(folder, output, words="", *, data="data.parquet", name="fit", target="y"):
    alpha = "--alpha 0.05" if name == "fit" else ""
    own = f"--task task --target {target} {alpha} -q --force -o"
    return [name, folder / data, own, folder / f"{output}.mmtfl", words]


def fitted(folder, output, words="", **options):
    run(command(folder, output, words, **options))
    return mmtfl.load(folder / f"{output}.mmtfl")


@pytest.mark.parametrize("data", ["data.parquet", "parts"])
def test_rows_that_stay_in_files_give_the_same_model(folder, data, capsys):
    stored = fitted(folder, "stored", "--memory-limit 2GB --drop won", data=data)
    memory = mmtfl.load(folder / "memory.mmtfl")
    np.testing.assert_allclose(stored.coef_, memory.coef_, rtol=1e-5, atol=1e-7)
    assert stored.tasks_.tolist() == ["Aker", "Bern", "Cork"]
    words = "--memory-limit 2GB --drop won --pk 2,1 --alphas 8"
    search = fitted(folder, "search", words, data=data, name="cv")
    assert np.flatnonzero(search.coef_.any(axis=0)).tolist()[:2] == [0, 1]
    words = command(folder, "no", "--memory-limit 1MB --drop won", data=data)
    assert "memory" in refusal(words, capsys, code=1)
    assert stored.provenance_["rows"] == 300
    assert "Aker" in run(["inspect", folder / "stored.mmtfl"], capsys).out
    out = folder / "predicted.parquet"
    run(["predict", folder / "stored.mmtfl", folder / "data.parquet", "--force -o", out])
    found = pd.read_parquet(out)
    X = found[stored.feature_names_in_.tolist()]
    np.testing.assert_array_equal(found["prediction"], stored.predict(X, task=found["task"]))


def test_a_cluster_on_this_machine_gives_the_bits_of_this_process(folder):
    dask = fitted(folder, "dask", "--drop won --dask local --workers 1")
    stored = fitted(folder, "stored", "--drop won --memory-limit 2GB")
    both = fitted(folder, "both", "--drop won --memory-limit 2GB --dask local --workers 2")
    np.testing.assert_array_equal(both.coef_, stored.coef_)
    memory = mmtfl.load(folder / "memory.mmtfl")
    np.testing.assert_allclose(dask.coef_, memory.coef_, rtol=1e-5, atol=1e-7)
    assert dask.engine is None


def test_a_checkpoint_is_kept_and_one_of_another_fit_is_refused(folder, capsys):
    words = f"--drop won --checkpoint {folder}/fit.checkpoint"
    kept = fitted(folder, "kept", words)
    np.testing.assert_array_equal(kept.coef_, mmtfl.load(folder / "memory.mmtfl").coef_)
    assert (folder / "fit.checkpoint").exists() and kept.checkpoint is None
    told = refusal(command(folder, "kept", f"{words} --tol 1e-5"), capsys)
    assert "is the checkpoint of another fit" in told


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_no_table(folder, capsys):
    os.mkfifo(folder / "pipe.csv")
    assert "is not an ordinary file" in refusal(command(folder, "pipe", data="pipe.csv"), capsys)
