"""Checkpoints of long fits, in a file that is written as a whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock

import numpy as np

from mmtfl.persistence.archive import ModelFileError, read_archive, write_archive
from mmtfl.persistence.files import check_target
from mmtfl.solvers.solution import Solution

Arrays = dict[str, np.ndarray]
_KIND = "checkpoint"


class Checkpoint:
    """Named steps of a long piece of work, each a few arrays, kept in one file.

    Parameters
    ----------
    path : str or path
        The file; if it exists, the work goes on from what it holds.
    fingerprint : str
        Content hash of the work: a file with another one is refused.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from mmtfl.solvers.checkpoint import Checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "long.checkpoint")
    ...     Checkpoint(path, "abc").write("fold-1", {"scores": np.array([0.5])})
    ...     Checkpoint(path, "abc").read("fold-1")
    {'scores': array([0.5])}
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str):
        self.path, self.fingerprint = check_target(path), fingerprint
        self._lock = Lock()
        self._steps: dict[str, Arrays] = self._take_up() if self.path.exists() else {}

    def _take_up(self) -> dict[str, Arrays]:
        try:
            content, arrays = read_archive(self.path)
        except ModelFileError as error:
            raise ValueError(f"{error} It was given as a checkpoint: remove it, or choose another.") from None
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise ValueError(f"{str(self.path)!r} is not a checkpoint: choose another name.")
        if content.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"{str(self.path)!r} is the checkpoint of another fit: the data, the parameters or the "
                "options differ. Use the same ones to go on with it, or remove it to begin anew."
            )
        steps: dict[str, Arrays] = {}
        for (step, name), array in zip(content["names"], arrays, strict=True):
            steps.setdefault(step, {})[name] = array
        return steps

    def read(self, step: str) -> Arrays | None:
        """The arrays of a step; None if it was not reached."""
        return self._steps.get(step)

    def write(self, step: str, arrays: Mapping[str, np.ndarray], *, instead_of: str | None = None) -> None:
        """Add or replace a step; the file changes as a whole."""
        with self._lock:
            steps = {name: known for name, known in self._steps.items() if name != instead_of}
            steps[step] = dict(arrays)
            names = [[name, part] for name, known in steps.items() for part in known]
            content = {"kind": _KIND, "fingerprint": self.fingerprint, "names": names}
            values = [np.asarray(array) for known in steps.values() for array in known.values()]
            write_archive(self.path, content, values)
            self._steps = steps


class Book:
    """The part of a checkpoint that one fit writes in: its passes, and its solution in their place.

    `name` tells the fit from others in the same file.
    """

    def __init__(self, checkpoint: Checkpoint, name: str = "fit"):
        self._checkpoint, self._name = checkpoint, name

    @property
    def path(self) -> Path:
        """The file."""
        return self._checkpoint.path

    def passes(self) -> Arrays | None:
        """State of the passes of Algorithm 1, if it was kept."""
        return self._checkpoint.read(f"{self._name}-passes")

    def keep_passes(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep the state of the passes."""
        self._checkpoint.write(f"{self._name}-passes", arrays)

    def solution(self) -> Solution | None:
        """The solution, if the fit has ended."""
        known = self._checkpoint.read(f"{self._name}-solution")
        if known is None:
            return None
        objective, violation, gap, n_iter, converged = known["numbers"].tolist()
        return Solution(
            known["A"], known["intercept"], objective, violation, None if np.isnan(gap) else gap, int(n_iter),
            known["history"], bool(converged), str(known["solver"]),
        )  # fmt: skip

    def keep_solution(self, solution: Solution) -> None:
        """Keep the end of the fit; its passes are not needed any more."""
        arrays = {name: getattr(solution, name) for name in ("A", "intercept", "history", "solver")}
        names = ("objective", "violation", "dual_gap", "n_iter", "converged")
        numbers = [getattr(solution, name) for name in names]
        arrays["numbers"] = np.array(numbers, dtype=float)  # no gap becomes nan
        self._checkpoint.write(f"{self._name}-solution", arrays, instead_of=f"{self._name}-passes")
