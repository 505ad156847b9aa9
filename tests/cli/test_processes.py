"""The command line as people run it: processes, pipes, Ctrl-C, disks that are full."""

import os
import re
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from mmtfl.cli.main import main

resource = pytest.importorskip("resource")  # processes are watched and limited by means of POSIX
COMMAND = [sys.executable, "-m", "mmtfl"]


def run(*tokens, cwd, **options):
    return subprocess.run(
        [*COMMAND, *map(str, tokens)], cwd=cwd, capture_output=True, text=True, encoding="utf-8", **options
    )


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_in_the_middle_of_a_search(tmp_path, n_jobs):
    assert main(["datasets", "d1", "-o", str(tmp_path / "d1.csv")]) == 0
    tokens = ["cv", "d1.csv", "--task", "task", "--target", "y", "-o", "m.mmtfl", "--folds", "60"]
    with subprocess.Popen(
        [*COMMAND, *tokens, "--n-jobs", str(n_jobs)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert re.search(r" of \d+ paths", process.stderr.readline())  # it is under way
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert process.returncode == 130
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("[cross-validation]")]
    assert lines == ["mmtfl: interrupted."]
    assert [path.name for path in tmp_path.iterdir()] == ["d1.csv"]


def test_a_disk_that_fills_up_in_the_middle_of_a_file(tmp_path):
    """No file may grow beyond 100 kB: the system refuses the rest, as a full disk does."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = run("datasets", "d1", "-o", "d1.csv", cwd=tmp_path, preexec_fn=limit)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("mmtfl: 'd1.csv' was not written: File too large")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_stdout_on_a_full_disk(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "datasets", "d1"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["mmtfl: the output: No space left on device."]


def test_a_reader_that_has_seen_enough_is_no_error():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*COMMAND, "datasets", "d1"], **pipes) as process:
        assert process.stdout.readline().startswith("task,x0")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


@pytest.mark.parametrize("tokens", [["datasets"], ["datasets", "--help"]])
def test_a_reader_that_has_gone_away_before_a_table_is_no_error(tokens):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([*COMMAND, *tokens], stdout=writing, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_that_cannot_show_a_name(tmp_path):
    frame = pd.DataFrame({"x": range(8), "\u03b2": [0.0, 1.0] * 4, "y": range(8)})
    frame.to_csv(tmp_path / "a.csv", index=False)
    latin = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = run("fit", "a.csv", "--target", "\u03b3", "-o", "m.mmtfl", cwd=tmp_path, env=latin)
    assert done.returncode == 2
    assert done.stderr.startswith("mmtfl: The table has no column '\\u03b3'")
    done = run("datasets", cwd=tmp_path, env=latin)
    assert done.returncode == 0 and "d1" in done.stdout


def test_help_of_every_command_loads_nothing_heavy():
    code = (
        "import sys; from mmtfl.cli.main import main, COMMANDS\n"
        "for name in COMMANDS: main([name, '--help'])\n"
        "print(*sorted(set(sys.modules) & {'matplotlib', 'pandas', 'sklearn', 'scipy'}), 'end')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "end"
