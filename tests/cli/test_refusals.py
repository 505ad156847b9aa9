"""What the command line refuses, in one line, and files that are written whole or not at all."""

import errno
import os

import pytest

from cli.site_table import fit, make_frame
from cli.typed import refusal, run
from mmtfl.cli import inspect
from mmtfl.cli.main import main


def test_the_report_refuses_new_tasks(folder, tmp_path, capsys):
    frame = make_frame(6, seed=3)
    frame.assign(site=["Delft", *frame["site"][1:]]).to_csv(tmp_path / "a.csv", index=False)
    tokens = ["report", folder / "model.mmtfl", tmp_path / "a.csv", "-o", tmp_path / "a.html"]
    err = refusal(tokens, capsys)
    assert "Task 'Delft' in data row 1" in err and "1 row with new tasks" in err and "--unknown" not in err
    assert not (tmp_path / "a.html").exists()


def test_a_table_without_what_the_model_needs(folder, tmp_path, capsys):
    make_frame(6).drop(columns=["age", "dose", "noise"]).to_csv(tmp_path / "a.csv", index=False)
    err = refusal(["predict", folder / "model.mmtfl", tmp_path / "a.csv"], capsys)
    assert "no column 'age' (and 'dose'), which the model needs; its columns are 'site', 'colour', 'y'" in err
    make_frame(6).assign(prediction=1).to_csv(tmp_path / "b.csv", index=False)
    tokens = ["predict", folder / "model.mmtfl", tmp_path / "b.csv"]
    assert "has a column 'prediction' already" in refusal(tokens, capsys)
    assert "new_prediction" in run([*tokens, "--prefix", "new_"], capsys).out
    for share in ("0", "1", "90"):
        err = refusal([*tokens, "--interval", share], capsys)
        assert f"--interval {share}: use a share between 0 and 1" in err


SHORT = {"FIT": "fit DATA", "CV": "cv DATA", "FILES": "fit PARQUET --task site"}


@pytest.mark.parametrize(
    ("tokens", "line"),
    [
        ("fit", "fit needs DATA: see `mmtfl fit --help`."),
        ("cv a.csv -o m", "cv needs --target: see `mmtfl cv --help`."),
        ("report m", "report needs -o: see `mmtfl report --help`."),
        ("fit a.csv --target y -o m --alpha", "--alpha needs a value: see `mmtfl fit --help`."),
        ("fit a.csv --target y -o", "-o needs a value: see `mmtfl fit --help`."),
        ("fit absent.csv --target y -o NEW", "There is no file 'absent.csv'"),
        ("fit DATA --target y", "-o"),
        ("fit DATA -o NEW", "--target"),
        ("fit DATA --target why -o NEW", "no column 'why'"),
        ("fit DATA --target y --task sites -o NEW", "did you mean 'site'?"),
        ("fit DATA --target y --task site -o MODEL", "exists: choose another name, or --force"),
        ("fit DATA --target y -o DATA --force", "is read and would be written over"),
        ("fit DATA --target y -o absent/m.mmtfl", "does not exist: create it first"),
        ("fit DATA --target y -o FOLDER", "is a folder"),
        ("fit DATA --target y -o --json", "-o needs the name of a file, and got '--json'"),
        ("fit DATA --target y --alpha -1 -o NEW", "mmtfl: --alpha must be a float"),
        ("FIT --p 0.5", "mmtfl: --p must be a float"),
        ("fit DATA --target y --task site age -o NEW", "Unused Tokens: ['age']"),
        ("FIT --weights dose", "--weights is negative"),
        ("FIT --k one", "--k 'one'"),
        ("FIT --separator ;", "has a single column"),
        ("fit CLASSES --target y --scale-targets -o NEW", "--scale-targets is for numbers"),
        ("fit DATA --target y --target age --task site -o NEW", "names tasks"),
        ("CV --pk 2", "--pk '2' is not a pair"),
        ("CV --pk 2,x", "--pk '2,x' is not a pair"),
        ("CV --pk inf,inf", "infinite"),
        ("CV --folds 1", "--folds 1"),
        ("CV --folds 500", "--folds 500, but only"),
        ("CV --alphas -1 2", "--alphas"),
        ("CV --scoring best", "--scoring 'best' is not a name"),
        ("CV --scoring acu", "did you mean 'auc'"),
        ("CV --scoring auc", "auc is for classes, and the targ"),
        ("cv CLASSES --target y --scoring r2 -o NEW", "r2 is for numbers, and the targ"),
        ("CV --n-jobs 0", "--jobs 0"),
        ("predict absent.mmtfl DATA", "There is no file 'absent.mmtfl'"),
        ("predict DATA DATA", "is not a model of mmtfl"),
        ("predict MODEL DATA -o out.xlsx", "its name ends in .csv"),
        ("predict MODEL DATA -o DATA", "is read and would be written over"),
        ("predict MODEL DATA --unknown-task guess", "guess"),
        ("inspect absent.mmtfl", "There is no file"),
        ("inspect MODEL --top 0", "--top 0"),
        ("inspect MODEL --task Oslo", "no task 'Oslo': its tasks are 'Bern', 'Cork', 'Århus'"),
        ("report MODEL", "-o"),
        ("report MODEL absent.csv -o NEW", "There is no file 'absent.csv'"),
        ("report MODEL CLASSES -o NEW", "Target 'y' must hold numbers, but holds text"),
        ("datasets d3 -o NEW", "its name ends in .csv"),
        ("datasets hospital", "did you mean 'hospitals'?"),
        ("datasets hospitals --noise 2", "--noise has no meaning for 'hospitals'"),
        ("datasets d1 --samples 0", "n_samples=0"),
        ("datasets --seed 1", "Name the dataset"),
        ("fit --task site -o NEW --target y DATA", "put the file first, because an option of several values"),
        # what is known of columns, tasks and targets
        ("FIT --penalty-weight aeg=0", "--penalty-weight names the column 'aeg', which is no feature"),
        ("FIT --penalty-weight age", "--penalty-weight 'age' is not COLUMN=W"),
        ("FIT --positive ages", "--positive names the column 'ages', which is no feature"),
        ("FIT --penalty-weight age=-1", "weights are positive"),
        ("FIT --task site --task-weight even", "--task-weight 'even' is neither equal nor LABEL=W"),
        ("FIT --task site --task-weight Bern=much", "--task-weight 'Bern=much' is neither"),
        ("FIT --task site --task-weight Oslo=2", "names the task 'Oslo', which the data do not have"),
        ("FIT --task site --task-weight Bern=0", "of task 'Bern' is 0.0, expected a positive number"),
        ("FIT --loss poison", "there is no loss 'poison'"),
        ("FIT --loss y:poisson age", "is neither a loss nor LABEL=LOSS"),
        ("fit CLASSES -o NEW --target y --classify --loss huber", "--classify makes them classes"),
        ("fit DATA -o NEW --target dose --loss poisson", "the poisson loss needs counts"),
        ("FIT --target age --loss y=squared", "names no loss for task 'age'"),
        ("FIT --exposure dose --loss poisson", "Exposure 'dose' is -"),
        ("CV --task site --time colour", "Time column 'colour' holds text such as"),
        ("CV --task site --group ward", "no column 'ward'"),
        # methods
        ("CV --method dirty --pk 2,1", "--pk does not go with --method dirty: it is for mmtfl only"),
        ("CV --method capped --one-se", "--one-se does not go with --method capped: it is for mmtfl and"),
        ("CV --method robust --alphas 1 0.1", "has two strengths: --alphas is how many"),
        ("CV --method single --checkpoint c", "--checkpoint does not go with --method single"),
        ("CV --method lowrank --dask local", "--dask does not go with --method lowrank"),
        ("CV --method robust --positive all", "--positive does not go with --method robust"),
        ("CV --method pooled", "pooled"),
        ("compare DATA --target y", "compare needs tasks"),
        ("compare DATA --task site --target y --weights age", "does not use row weights"),
        ("compare DATA --task site --target y --methods nope", "--methods has no 'nope'"),
        ("compare DATA --task site --target y --fraction 1", "--fraction must lie between 0 and 1"),
        ("compare DATA --target y age --drop site --leave-task-out", "needs tasks with rows of their own"),
        ("compare FLAT --task site --target y --features age", "Nothing can be scored"),
        # clusters, files and checkpoints
        ("FIT --workers 2", "--workers goes with --dask local"),
        ("FIT --dask local --workers 0", "--workers 0: it must be 1 or more"),
        ("FIT --dask nowhere", "--dask 'nowhere' cannot be reached"),
        ("FILES --memory-limit 2GB --categories x1", "--categories needs all rows in memory"),
        ("FILES --memory-limit 2XB --alpha 1", "--memory-limit must be a size such as '2GB'"),
        ("FILES --memory-limit 2GB --alpha 1 --drop gone", "The table has no column 'gone'"),
        ("FILES --memory-limit 2GB --alpha 1", "'colour' is not of numbers"),
        ("FILES --memory-limit 2GB --drop colour", "needs --alpha"),
        ("FIT --task site --memory-limit 2GB --alpha 1", "is not one"),
        ("FIT --checkpoint DATA", "would be written over"),
        ("FIT --checkpoint NEW", "both the model and the checkpoint"),
        ("FIT --checkpoint absent/x", "does not exist"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, tmp_path, capsys, tokens, line):
    paths = {
        "DATA": folder / "data.csv",
        "CLASSES": folder / "classes.csv",
        "MODEL": folder / "model.mmtfl",
        "PARQUET": folder / "data.parquet",
        "FLAT": folder / "flat.csv",
        "NEW": tmp_path / "new.mmtfl",
        "FOLDER": tmp_path,
    }
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for word, meaning in SHORT.items():
        tokens = tokens.replace(word, f"{meaning} --target y -o NEW")
    assert line in refusal([paths.get(token, token) for token in tokens.split()], capsys)
    assert list(tmp_path.iterdir()) == []
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.skipif(not os.path.isdir("/proc/1"), reason="a folder that takes no files, even of root")
def test_a_folder_that_takes_no_files_is_told_before_the_work(folder, capsys):
    err = refusal(fit(folder / "data.csv", "/proc/new.mmtfl"), capsys)
    assert "'/proc/new.mmtfl' cannot be written: " in err


# -- files, whole or not at all ----------------------------------------------------------------------------


def test_force_writes_over(folder, tmp_path, capsys):
    output = tmp_path / "p.csv"
    output.write_text("mine")
    tokens = ["predict", folder / "model.mmtfl", folder / "data.csv", "-o", output]
    assert "--force" in refusal(tokens, capsys)
    assert output.read_text() == "mine"
    run([*tokens, "--force"], capsys)
    assert output.read_text().startswith("site,age")


@pytest.mark.parametrize("command", ["fit", "predict", "report", "datasets"])
def test_a_full_disk_is_one_line_and_leaves_nothing(folder, tmp_path, capsys, monkeypatch, command):
    tokens = {
        "fit": fit(folder / "data.csv", tmp_path / "a.mmtfl", "--alpha", "0.1"),
        "predict": ["predict", folder / "model.mmtfl", folder / "data.csv", "-o", tmp_path / "a.csv"],
        "report": ["report", folder / "model.mmtfl", "-o", tmp_path / "a.html"],
        "datasets": ["datasets", "d1", "-o", tmp_path / "a.parquet"],
    }[command]

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    out, err = run(tokens, capsys, code=1)
    assert out == ""
    assert err.strip().count("\n") == 0
    assert "was not written: No space left on device" in err
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_nobody_worded_is_no_refusal(monkeypatch, capsys):
    def refuse(path):
        raise ValueError("it is not\nwhat it says")

    monkeypatch.setattr(inspect, "load_model", refuse)
    assert main(["inspect", "m.mmtfl"]) == 2
    assert capsys.readouterr().err == "mmtfl: it is not what it says\n"
    monkeypatch.setattr(inspect, "load_model", lambda path: int("x"))
    with pytest.raises(ValueError, match="invalid literal"):
        main(["inspect", "m.mmtfl"])
