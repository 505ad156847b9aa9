"""Processes that a command starts: none is left behind, however the command ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mmtfl.cli.main import main

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are read in /proc")


def descendants(pid):
    """Process ids of all that a process has started, directly or not."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
        except OSError:
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found += [int(folder.name), *descendants(int(folder.name))]
    return found


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.1)
    return False


def ended_by(how, words, folder, ready, package="mmtfl"):
    """End a command by a signal once it is at work with two children; its exit code, and who is left."""
    with open(folder / "stderr", "w") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", package, *words], cwd=folder, stdout=told, stderr=told,
            start_new_session=True,
        )  # fmt: skip
    at_work = wait_for(lambda: ready() and len(descendants(process.pid)) >= 2, 120)
    assert at_work, (folder / "stderr").read_text()
    children = descendants(process.pid)
    # Ctrl-C on a terminal goes to the whole group
    (os.killpg if how == signal.SIGINT else os.kill)(process.pid, how)
    process.wait(60)
    wait_for(lambda: not any(map(is_alive, children)), 3)
    left = [pid for pid in children if is_alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return process.returncode, left


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_the_workers_of_a_local_cluster_end_with_the_command(how, tmp_path):
    pytest.importorskip("distributed")
    assert main(["datasets", "d1", "-o", str(tmp_path / "d1.csv")]) == 0
    words = ["cv", "d1.csv", "--task", "task", "--target", "y", "-o", "m.mmtfl", "--folds", "60"]
    errors = tmp_path / "stderr"
    words += ["--dask", "local", "--workers", "2"]
    code, left = ended_by(how, words, tmp_path, lambda: " paths" in errors.read_text())
    assert not left
    if how == signal.SIGINT:
        told = errors.read_text()
        assert (code, told.splitlines()[-1]) == (130, "mmtfl: interrupted.")
        assert "Traceback" not in told
