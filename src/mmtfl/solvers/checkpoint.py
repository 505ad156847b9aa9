"""Checkpoints of long fits, in a file that is written as a whole or not at all."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from mmtfl.persistence.archive import ModelFileError, read_archive, write_archive
from mmtfl.persistence.files import check_target
from mmtfl.solvers.solution import Solution

Arrays = dict[str, np.ndarray]
Expected = tuple[Any, ...]  # a test of the values, and the shape, with None for any length
_KIND = "checkpoint"


def finite(array: np.ndarray) -> bool:
    """Whether all values are finite numbers."""
    return array.dtype.kind in "fiub" and bool(np.isfinite(array).all())


def known(array: np.ndarray) -> bool:
    """Whether all values are numbers, none of them NaN."""
    return array.dtype.kind in "fiub" and not np.isnan(array).any()


def numbers(array: np.ndarray) -> bool:
    """Whether the values are numbers, NaN among them."""
    return array.dtype.kind in "fiub"


def text(array: np.ndarray) -> bool:
    """Whether the values are text."""
    return array.dtype.kind == "U"


def below(limit: int) -> Callable[[np.ndarray], bool]:
    """A test for whole numbers from 0 to below a limit."""
    return lambda array: array.dtype.kind in "iu" and bool(((array >= 0) & (array < limit)).all())


class Checkpoint:
    """Named steps of a long piece of work, each a few arrays, kept in one file.

    Parameters
    ----------
    path : str or path
        The file; if it exists, the work goes on from what it holds. If not, it is written at once, so that a
        place that takes no file is known before the work.
    fingerprint : str
        Content hash of the work: a file with another one, or of another version of mmtfl, is refused.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from mmtfl.solvers.checkpoint import Checkpoint, finite
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "long.checkpoint")
    ...     Checkpoint(path, "abc").write("fold-1", {"scores": np.array([0.5])})
    ...     Checkpoint(path, "abc").read("fold-1", {"scores": (finite, None)})
    {'scores': array([0.5])}
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str):
        self.path, self.fingerprint = check_target(path), fingerprint
        self._lock = Lock()
        self._steps: dict[str, Arrays] = self._take_up() if self.path.exists() else {}
        if not self.path.exists():
            self._store({})

    def _take_up(self) -> dict[str, Arrays]:
        try:
            content = read_archive(self.path, make=lambda name, state: name)
        except ModelFileError as error:
            raise ValueError(f"{error} It was given as a checkpoint: remove it, or choose another.") from None
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise ValueError(f"{str(self.path)!r} is not a checkpoint: choose another name.")
        if content.get("library") != _version():
            raise ValueError(
                f"{str(self.path)!r} is a checkpoint of another version of mmtfl, of which the last bits may "
                f"differ from those of {_version()}: remove it to begin anew."
            )
        if content.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"{str(self.path)!r} is the checkpoint of another fit: the data, the parameters or the "
                "options differ. Use the same ones to go on with it, or remove it to begin anew."
            )
        steps = content.get("steps")
        if not isinstance(steps, dict) or not all(isinstance(arrays, dict) for arrays in steps.values()):
            raise self._unsound("its steps are not named")
        return steps

    def _unsound(self, what: str) -> ValueError:
        return ValueError(f"{str(self.path)!r} is not a sound checkpoint: {what}. Remove it to begin anew.")

    def read(self, step: str, expected: Mapping[str, Expected]) -> Arrays | None:
        """The arrays of a step, if they are of the expected kinds and shapes; None if it was not reached."""
        found = self._steps.get(step)
        if found is None:
            return None
        if set(found) != set(expected):
            raise self._unsound(f"{step!r} does not hold what this fit keeps")
        for name, (is_sound, *shape) in expected.items():
            array = np.asarray(found[name])
            fits = len(shape) == array.ndim and all(
                n in (None, size) for n, size in zip(shape, array.shape, strict=True)
            )
            if not fits or not is_sound(array):
                raise self._unsound(f"{name!r} of {step!r} is not what this fit keeps")
        return found

    def write(self, step: str, arrays: Mapping[str, np.ndarray], *, instead_of: str | None = None) -> None:
        """Add or replace a step; the file changes as a whole."""
        with self._lock:
            steps = {name: known for name, known in self._steps.items() if name != instead_of}
            steps[step] = dict(arrays)
            self._store(steps)
            self._steps = steps

    def _store(self, steps: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        about = {"kind": _KIND, "library": _version(), "fingerprint": self.fingerprint}
        arrays = {
            step: {name: np.asarray(value) for name, value in known.items()} for step, known in steps.items()
        }
        write_archive(self.path, {**about, "steps": arrays})


def _version() -> str:
    import mmtfl

    return mmtfl.__version__


class FitCheckpoint:
    """The part of a checkpoint that one fit writes in: its passes, and its solution in their place.

    `name` tells the fit from others in the same file.
    """

    def __init__(self, checkpoint: Checkpoint, name: str = "fit"):
        self._checkpoint, self._name = checkpoint, name

    @property
    def path(self) -> Path:
        """The file."""
        return self._checkpoint.path

    def passes(self, d: int | None = None, T: int | None = None) -> Arrays | None:
        """State of the passes of Algorithm 1 with d features and T tasks (None: any), if it was kept."""
        rows = {"weights": (known, d), "norms": (finite, d), "effect": (finite, d)}
        tasks = {"A": (finite, T, d), "intercept": (finite, T)}
        others = {"history": (finite, None), "numbers": (known, 7)}
        matrices = {"common": (finite, None, d), "places": (known, None, d)}
        return self._checkpoint.read(f"{self._name}-passes", {**rows, **tasks, **others, **matrices})

    def keep_passes(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep the state of the passes."""
        self._checkpoint.write(f"{self._name}-passes", arrays)

    def solution(self, d: int | None = None, T: int | None = None) -> Solution | None:
        """The solution with d features and T tasks (None: any), if the fit has ended."""
        expected: dict[str, Expected] = {"A": (finite, d, T), "intercept": (finite, T)}
        expected |= {"history": (finite, None), "solver": (text,), "numbers": (numbers, 5)}
        end = self._checkpoint.read(f"{self._name}-solution", expected)
        if end is None:
            return None
        objective, violation, gap, n_iter, converged = end["numbers"].tolist()
        return Solution(
            end["A"], end["intercept"], objective, violation, None if np.isnan(gap) else gap, int(n_iter),
            end["history"], bool(converged), str(end["solver"]),
        )  # fmt: skip

    def keep_solution(self, solution: Solution) -> None:
        """Keep the end of the fit; its passes are not needed any more."""
        arrays = {name: getattr(solution, name) for name in ("A", "intercept", "history", "solver")}
        names = ("objective", "violation", "dual_gap", "n_iter", "converged")
        numbers = [getattr(solution, name) for name in names]
        arrays["numbers"] = np.array(numbers, dtype=float)  # no gap becomes nan
        self._checkpoint.write(f"{self._name}-solution", arrays, instead_of=f"{self._name}-passes")
