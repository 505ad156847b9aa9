"""What the long commands share: one thread per process, checks of counts, and going on after Ctrl-C."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from mmtfl.cli.main import BadInput, command_words

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_LEAST = {"repeats": 1, "folds": 2, "seed": 0, "jobs": 1}


def use_one_thread() -> None:
    """Hold numeric libraries to one thread, here and in processes started later; before they are imported."""
    for variable in _THREADS:
        os.environ[variable] = "1"


def check_counts(**counts: int | None) -> None:
    """Refuse counts that are too small; None was not given."""
    for option, value in counts.items():
        if value is not None and value < _LEAST[option]:
            wanted = f"at least {_LEAST[option]}" if _LEAST[option] else "0 or more"
            raise BadInput(f"--{option} must be {wanted}, got {value}.")


def choose(option: str, given: list[str] | None, known: Iterable[str]) -> list[str]:
    """The names given, in the order of the known ones; all of these where none is given."""
    known = list(known)
    unknown = [name for name in given or () if name not in known]
    if unknown:
        raise BadInput(f"--{option} has no {unknown[0]!r}: use {', '.join(known)}.")
    return [name for name in known if given is None or name in given]


@contextmanager
def resumable(other_settings: type[Exception], *, is_kept: bool = True) -> Iterator[None]:
    """Word what ends a run of cells early: `other_settings` than those of the folder, or Ctrl-C."""
    try:
        yield
    except other_settings as error:
        raise BadInput(str(error)) from None
    except KeyboardInterrupt:
        words = [word for word in command_words.get() if word != "--fresh"]
        hint = f"Finished cells are kept; to go on: {shlex.join(['mmtfl', *words])}"
        lost = "With -o FOLDER finished cells would be kept, and the run could go on."
        raise KeyboardInterrupt(hint if is_kept else lost) from None
