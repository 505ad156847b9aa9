"""`--dask`, `--memory-limit` and `--checkpoint`: the same model by other ways."""

import os

import numpy as np
import pandas as pd
import pytest

import mmtfl
from mmtfl.cli.main import main

TABLE = ["--task", "task", "--target", "y"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows as a file, as a folder with a part per task, and as CSV; and a fit of them in memory."""
    folder = tmp_path_factory.mktemp("scale")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 6)), columns=list("abcdef"))
    frame["task"] = np.repeat(["Aker", "Bern", "Cork"], 100)
    frame["y"] = 2.0 * frame["a"] - frame["b"] + rng.normal(size=300)
    frame["won"] = np.where(frame["y"] > 0.0, "yes", "no")
    frame["note"] = "text"
    frame.drop(columns="note").to_parquet(folder / "data.parquet")
    frame.drop(columns="note").to_parquet(folder / "parts", partition_cols=["task"])
    frame.to_parquet(folder / "text.parquet")
    frame.to_csv(folder / "data.csv")
    assert main(command(folder, "memory.mmtfl", "--drop", "won")) == 0
    return folder


def command(folder, output, *more, data="data.parquet", name="fit"):
    alpha = ["--alpha", "0.05"] if name == "fit" else []
    return [name, str(folder / data), *TABLE, *alpha, "-q", "-o", str(folder / output), "--force", *more]


def model(folder, name):
    return mmtfl.load(folder / name)


@pytest.mark.parametrize("data", ["data.parquet", "parts"])
def test_rows_that_stay_in_files_give_the_same_model(folder, data, capsys):
    limit = ["--memory-limit", "2GB", "--drop", "won"]
    assert main(command(folder, "stored.mmtfl", *limit, data=data)) == 0
    stored, memory = model(folder, "stored.mmtfl"), model(folder, "memory.mmtfl")
    np.testing.assert_allclose(stored.coef_, memory.coef_, rtol=1e-5, atol=1e-7)
    assert stored.tasks_.tolist() == ["Aker", "Bern", "Cork"]
    assert stored.provenance_["rows"] == 300
    assert main(["inspect", str(folder / "stored.mmtfl")]) == 0
    assert "Aker" in capsys.readouterr().out
    out = folder / "predicted.parquet"
    assert (
        main(
            ["predict", str(folder / "stored.mmtfl"), str(folder / "data.parquet"), "-o", str(out), "--force"]
        )
        == 0
    )
    found = pd.read_parquet(out)
    X = found[stored.feature_names_in_.tolist()]
    np.testing.assert_array_equal(found["prediction"], stored.predict(X, task=found["task"]))


def test_a_search_over_rows_that_stay_in_files(folder):
    search = ["--memory-limit", "2GB", "--drop", "won", "--pk", "2,1", "--alphas", "8"]
    assert main(command(folder, "search.mmtfl", *search, name="cv")) == 0
    found = model(folder, "search.mmtfl")
    assert np.flatnonzero(found.coef_.any(axis=0)).tolist()[:2] == [0, 1]


@pytest.mark.parametrize("limit", ["2GB", "1MB"])
@pytest.mark.parametrize("method", ["mmtfl", "single", "capped"])
def test_a_search_that_needs_all_rows_loads_those_that_fit(folder, method, limit, capsys):
    search = ["--memory-limit", limit, "--classify", "--drop", "y", "--method", method, "--alphas", "3"]
    tokens = command(folder, f"{method}.mmtfl", *search, "--folds", "2", name="cv")
    code = main(["won" if word == "y" and place == 5 else word for place, word in enumerate(tokens)])
    if limit == "1MB":
        assert code != 0 and "needs all rows in memory, needs about 0.1 MB, and" in capsys.readouterr().err
    else:
        assert code == 0 and model(folder, f"{method}.mmtfl").coef_.any()


def test_classes_that_stay_in_files(folder):
    options = ["--memory-limit", "2GB", "--classify", "--drop", "y"]
    tokens = [
        "won" if word == "y" and place == 5 else word
        for place, word in enumerate(command(folder, "c.mmtfl", *options))
    ]
    assert main(tokens) == 0
    assert model(folder, "c.mmtfl").recipe_.classes == ("no", "yes")


def test_a_cluster_on_this_machine_gives_the_bits_of_this_process(folder, capsys):
    work = ["--drop", "won", "--dask", "local", "--workers", "1"]
    assert main(command(folder, "dask.mmtfl", *work)) == 0
    stored = ["--drop", "won", "--memory-limit", "2GB"]
    assert main(command(folder, "stored.mmtfl", *stored)) == 0
    assert main(command(folder, "both.mmtfl", *stored, "--dask", "local", "--workers", "2")) == 0
    np.testing.assert_array_equal(model(folder, "both.mmtfl").coef_, model(folder, "stored.mmtfl").coef_)
    np.testing.assert_allclose(
        model(folder, "dask.mmtfl").coef_, model(folder, "memory.mmtfl").coef_, rtol=1e-5, atol=1e-7
    )
    assert model(folder, "dask.mmtfl").engine is None


def test_a_checkpoint_is_kept_and_one_of_another_fit_is_refused(folder, capsys):
    kept = ["--drop", "won", "--checkpoint", str(folder / "fit.checkpoint")]
    assert main(command(folder, "kept.mmtfl", *kept)) == 0
    np.testing.assert_array_equal(model(folder, "kept.mmtfl").coef_, model(folder, "memory.mmtfl").coef_)
    assert (folder / "fit.checkpoint").exists()
    assert model(folder, "kept.mmtfl").checkpoint is None
    assert main([*command(folder, "kept.mmtfl", *kept), "--tol", "1e-5"]) == 2
    assert "is the checkpoint of another fit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--workers", "2"], "--workers goes with --dask local"),
        (["--dask", "local", "--workers", "0"], "--workers must be at least 1"),
        (["--dask", "nowhere"], "--dask 'nowhere' cannot be reached"),
        (["--memory-limit", "2GB", "--categories", "x1"], "--categories needs all rows in memory"),
        (["--memory-limit", "2XB"], "--memory-limit must be a size such as '2GB'"),
        (["--memory-limit", "2GB", "--drop", "gone"], "--drop 'gone': there is no such column"),
        (["--memory-limit", "2GB"], "Column 'won' is not of numbers"),
        (["--memory-limit", "1MB", "--drop", "won"], "memory"),
    ],
)
def test_what_cannot_be_is_one_clear_line(folder, capsys, more, says):
    assert main(command(folder, "none.mmtfl", *more)) in (1, 2)
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert says in lines[0]
    assert not (folder / "none.mmtfl").exists()


def test_a_memory_limit_needs_parquet_and_a_strength(folder, capsys):
    limit = ["--memory-limit", "2GB", "--drop", "won"]
    assert main(command(folder, "none.mmtfl", *limit, data="data.csv")) == 2
    assert "is not one" in capsys.readouterr().err
    tokens = [word for word in command(folder, "none.mmtfl", *limit) if word not in ("--alpha", "0.05")]
    assert main(tokens) == 2
    assert "needs --alpha" in capsys.readouterr().err


def test_one_name_for_the_model_and_its_checkpoint_is_refused_before_any_work(folder, capsys, monkeypatch):
    monkeypatch.setattr("mmtfl.cli.training.read_training", lambda *_, **__: pytest.fail("it reads"))
    assert main(command(folder, "both.mmtfl", "--checkpoint", str(folder / "both.mmtfl"))) == 2
    assert "both the model and the checkpoint" in capsys.readouterr().err
    assert main(command(folder, "new.mmtfl", "--checkpoint", str(folder / "data.parquet"))) == 2
    assert "would be written over" in capsys.readouterr().err
    assert main(command(folder, "new.mmtfl", "--checkpoint", str(folder / "none" / "x"))) == 2
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_is_no_table(folder, capsys):
    os.mkfifo(folder / "pipe.csv")
    assert main(command(folder, "pipe.mmtfl", data="pipe.csv")) == 2
    assert "is not an ordinary file" in capsys.readouterr().err


def test_a_cluster_without_workers_is_told(folder, capsys):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster:
        assert main(command(folder, "x.mmtfl", "--dask", cluster.scheduler_address)) == 2
    assert "has no workers" in capsys.readouterr().err
