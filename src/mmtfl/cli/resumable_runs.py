"""Commands that run for long, in processes of one thread each, and can be taken up again."""

from __future__ import annotations

import os
import shlex

from mmtfl.cli.main import command_words
from mmtfl.cli.output import say

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def use_one_thread() -> None:
    """Hold numeric libraries to one thread, here and in processes started later; before they are imported."""
    for variable in _THREADS:
        os.environ[variable] = "1"


def tell_how_to_go_on() -> None:
    """Say after Ctrl-C by which command the run goes on: the same one, but without starting it afresh."""
    words = [word for word in command_words.get() if word != "--fresh"]
    say(f"mmtfl: interrupted. Finished cells are kept; to go on: {shlex.join(['mmtfl', *words])}")
