"""Processes that `reproduce` starts: none is left behind, however it ends."""

import signal

import pytest

from cli.test_children import ended_by, pytestmark  # noqa: F401


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
