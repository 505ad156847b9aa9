"""What the command line refuses, in one line, and files that are written whole or not at all."""

import errno
import os

import pytest

from cli.site_table import fit, make_frame
from cli.typed import refusal, run


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


@pytest.mark.parametrize(
    ("tokens", "lack"),
    [
        ("fit", "fit needs DATA"),
        ("cv a.csv -o m", "cv needs --target"),
        ("report m", "report needs -o"),
        ("fit a.csv --target y -o m --alpha", "--alpha needs a value"),
        ("fit a.csv --target y -o", "-o needs a value"),
    ],
)
def test_what_is_missing_is_named(capsys, tokens, lack):
    tokens = tokens.split()
    assert refusal(tokens, capsys) == f"mmtfl: {lack}: see `mmtfl {tokens[0]} --help`."


@pytest.mark.parametrize(
    ("tokens", "line"),
    [
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
        ("fit DATA --target y --p 0.5 -o NEW", "mmtfl: --p must be a float"),
        ("fit DATA --target y --task site age -o NEW", "Unused Tokens: ['age']"),
        ("fit DATA --target y --weights dose -o NEW", "Weight 'dose' is -"),
        ("fit DATA --target y --k one -o NEW", "--k 'one'"),
        ("fit DATA --target y --separator ; -o NEW", "has a single column"),
        ("fit CLASSES --target y --scale-targets -o NEW", "--scale-targets is for numbers"),
        ("fit DATA --target y --target age --task site -o NEW", "names tasks"),
        ("cv DATA --target y --pk 2 -o NEW", "--pk '2' is not a pair"),
        ("cv DATA --target y --pk 2,x -o NEW", "--pk '2,x' is not a pair"),
        ("cv DATA --target y --pk inf,inf -o NEW", "infinite"),
        ("cv DATA --target y --folds 1 -o NEW", "--folds 1"),
        ("cv DATA --target y --folds 500 -o NEW", "--folds 500, but only"),
        ("cv DATA --target y --alphas -1 2 -o NEW", "--alphas"),
        ("cv DATA --target y --scoring best -o NEW", "--scoring 'best' is not a name"),
        ("cv DATA --target y --scoring acu -o NEW", "did you mean 'auc'"),
        ("cv DATA --target y --scoring auc -o NEW", "auc is for classes, and the targ"),
        ("cv CLASSES --target y --scoring r2 -o NEW", "r2 is for numbers, and the targ"),
        ("cv DATA --target y --n-jobs 0 -o NEW", "--jobs 0"),
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
        ("datasets d1 --pattern shared", "--pattern has no meaning for 'd1'"),
        ("datasets d1 --samples 0", "n_samples=0"),
        ("datasets --seed 1", "Name the dataset"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, tmp_path, capsys, tokens, line):
    paths = {
        "DATA": folder / "data.csv",
        "CLASSES": folder / "classes.csv",
        "MODEL": folder / "model.mmtfl",
        "NEW": tmp_path / "new.mmtfl",
        "FOLDER": tmp_path,
    }
    before = {path: path.read_bytes() for path in folder.iterdir()}
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
