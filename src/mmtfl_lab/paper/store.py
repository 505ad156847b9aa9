"""A folder of results: one small file per finished cell, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmtfl.persistence.files import write_text

__all__ = ["Cell", "OtherSettings", "Store"]

_SETTINGS = "settings.json"
_CELLS = "cells"


class OtherSettings(ValueError):
    """The folder holds results of other settings than those asked for."""


@dataclass(frozen=True, order=True)
class Cell:
    """The unit of work: one method on one split of one data set."""

    dataset: str
    fraction: float
    repeat: int
    method: str

    @property
    def file(self) -> str:
        """Name of its file."""
        return f"{self.dataset}-{self.fraction:g}-{self.repeat:03d}-{self.method}.json"


class Store:
    """The folder of one run, from which an interrupted run is resumed.

    Parameters
    ----------
    folder : path
        Made when first written to.
    settings : dict
        Everything that the numbers of a cell depend on beside the cell itself; plain JSON types.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mmtfl_lab.paper.store import Cell, Store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder) / "run", {"seed": 0})
    ...     store.open()
    ...     store.write(Cell("D1", 0.25, 0, "stl"), {"pooled": 0.4})
    ...     store.read(Cell("D1", 0.25, 0, "stl"))["pooled"], store.read(Cell("D1", 0.25, 1, "stl"))
    (0.4, None)
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.settings = Path(folder), settings

    def open(self, *, fresh: bool = False) -> None:
        """Make the folder, or take it up again if it holds cells of the same settings.

        Parameters
        ----------
        fresh : bool
            Throw away the cells that are there.

        Raises
        ------
        OtherSettings
            If it holds cells of other settings, or something that is not a run.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise OtherSettings(f"{str(self.folder)!r} is a file: name a folder.")
        if fresh and self._is_run():
            for path in (self.folder / _CELLS).glob("*.json"):
                path.unlink()
            (self.folder / _SETTINGS).unlink()
        if self._is_run():
            self._check_settings()
            return
        if self.folder.exists() and any(self.folder.iterdir()) and not fresh:
            raise OtherSettings(
                f"{str(self.folder)!r} is not empty and holds no run to go on with: name another folder."
            )
        (self.folder / _CELLS).mkdir(parents=True, exist_ok=True)
        write_text(self.folder / _SETTINGS, _dump(self.settings))

    def _is_run(self) -> bool:
        return (self.folder / _SETTINGS).exists()

    def _check_settings(self) -> None:
        found = _load(self.folder / _SETTINGS)
        wanted = json.loads(_dump(self.settings))
        if found == wanted:
            (self.folder / _CELLS).mkdir(exist_ok=True)
            return
        found = found if isinstance(found, dict) else {}
        differs = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        told = ", ".join(f"{name} {found.get(name)!r} there, {wanted.get(name)!r} here" for name in differs)
        raise OtherSettings(
            f"{str(self.folder)!r} holds cells of other settings ({told}): name another folder, or start it "
            "afresh with --fresh."
        )

    def path(self, cell: Cell) -> Path:
        """Where a cell is kept."""
        return self.folder / _CELLS / cell.file

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """A finished cell, or None; a file that is not a whole cell counts as none."""
        try:
            found = _load(self.path(cell))
        except OSError:
            return None
        return found if isinstance(found, dict) and found.get("cell") == asdict(cell) else None

    def write(self, cell: Cell, result: dict[str, Any]) -> None:
        """Keep a finished cell."""
        write_text(self.path(cell), _dump({"cell": asdict(cell), **result}))

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are not finished yet."""
        return [cell for cell in cells if self.read(cell) is None]


def _dump(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # cut short, or not ours
        return None
