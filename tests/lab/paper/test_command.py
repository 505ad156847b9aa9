"""`python -m mmtfl_lab reproduce`: folders that go on, progress on stderr alone."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from cli.test_children import ended_by, pytestmark  # noqa: F401
from mmtfl.datasets.simulate import make_tasks
from mmtfl_lab.commands import main
from mmtfl_lab.paper import experiments as runs
from mmtfl_lab.paper.data_sets import PROBLEMS, Problem, load_pool, pool_of_rows
from mmtfl_lab.paper.methods import Grid


def small_pool(seed):
    data = make_tasks(3, 40, 6, n_informative=2, noise=0.3, random_state=seed)
    return pool_of_rows(data.X, data.y, data.task, support=data.support, coef=data.coef)


@pytest.fixture
def small(monkeypatch):
    """Small problems and grids, whose progress is told at once, and the environment as it was."""
    monkeypatch.setattr("mmtfl.model_selection.progress._SECONDS_BETWEEN_LINES", 0.0)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(runs, "QUICK", Grid(alphas=3, single=3, pairs=2, auto_folds=3))
    for name in ("D1", "D2"):
        monkeypatch.setitem(PROBLEMS, name, Problem(name, name, small_pool, "r2", "pooled"))
    load_pool.cache_clear()
    yield
    load_pool.cache_clear()


ONE = ["reproduce", "--quick", "--jobs", "1", "--datasets", "D1", "--methods", "stl", "mmtfl21"]


def test_everything_is_written_and_told(small, tmp_path, capsys):
    assert main([*ONE, "--out", str(tmp_path / "run")]) == 0
    out, err = capsys.readouterr()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        *("cells", "settings.json", "results.csv", "results.json", "verdicts.md"),
        *("table1.md", "table2.md", "table2.tex", "figure1.png", "figure1.svg"),
    }
    assert len(list((tmp_path / "run" / "cells").iterdir())) == 4
    assert "## Table 1" in out
    assert "## Table 2" in out
    assert "of 4 cells" in err
    assert "of 4 cells" not in out


def refusal(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--datasets", "nope"], "invalid choice: 'nope'"),
        (["--methods", "stl", "nope"], "invalid choice: 'nope'"),
        (["--repeats", "0"], "must be at least 1"),
        (["--fractions", "0.5", "1.5"], "must lie between 0 and 1"),
        (["--folds", "1"], "must be at least 2"),
    ],
)
def test_bad_input_is_exit_code_2(words, line, tmp_path, capsys):
    assert line in refusal(["reproduce", *words, "--out", str(tmp_path / "run")], capsys)
    assert not (tmp_path / "run").exists()


def test_cells_of_another_seed_are_refused_until_fresh(small, tmp_path, capsys):
    folder = ["--table2", "--out", str(tmp_path / "run")]
    assert main([*ONE, *folder]) == 0
    capsys.readouterr()
    err = refusal([*ONE, *folder, "--seed", "1"], capsys)
    assert "seed 0 there, 1 here" in err
    assert "--fresh" in err
    assert main([*ONE, *folder, "--seed", "1", "--fresh"]) == 0


def test_absent_data_is_left_out_with_a_line_that_says_where_it_comes_from(
    small, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("MMTFL_DATA", str(tmp_path / "none"))
    folder = ["--table2", "--out", str(tmp_path / "run")]
    assert main([*ONE, *folder, "--datasets", "D1", "school"]) == 0
    err = capsys.readouterr().err
    assert "note: school is left out" in err
    assert "Inner London Education Authority" in err
    alone = ["reproduce", "--datasets", "school", "--table2", "--out", str(tmp_path / "b")]
    assert "None of the data sets" in refusal(alone, capsys)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_interrupted_it_tells_how_to_go_on_and_keeps_what_is_done(tmp_path, jobs):
    command = ["reproduce", "--table2", "--datasets", "D1", "--methods", "mmtfl22", "--repeats", "500"]
    command += ["--jobs", jobs, "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-m", "mmtfl_lab", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,  # Ctrl-C reaches every process of the group, and no other
        # a shell's background jobs ignore Ctrl-C, and so would what they start
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    cells = tmp_path / "run" / "cells"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (cells.exists() and len(list(cells.glob("*.json"))) > 2):
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "to go on: python -m mmtfl_lab reproduce --table2 --datasets D1" in err
    assert "Traceback" not in err
    done = list(cells.glob("*.json"))
    assert len(done) > 2
    assert all(json.loads(path.read_text(encoding="utf-8"))["seconds"] > 0 for path in done)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_processes_of_reproduce_end_with_it(how, tmp_path):
    words = ["reproduce", "--datasets", "D1", "--methods", "stl", "--table2", "--jobs", "2", "--out", "run"]
    cells = tmp_path / "run" / "cells"

    def ready():
        return cells.is_dir() and any(cells.iterdir())

    code, left = ended_by(how, words, tmp_path, ready, package="mmtfl_lab")
    assert not left
    assert code == (130 if how == signal.SIGINT else -how)
    assert "Traceback" not in (tmp_path / "stderr").read_text()
