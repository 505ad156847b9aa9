"""Write files atomically: a reader finds the old file or the new one, never a part."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_ABANDONED = 3600.0  # seconds without a byte after which a temporary file is that of a killed process


def check_target(path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
    """Check that a file can be written to a path, and return the path with all links followed.

    Without `overwrite` an existing file is an error.
    """
    place = Path(os.path.realpath(os.fspath(path)))
    if not place.parent.is_dir():
        raise FileNotFoundError(f"The folder {str(place.parent)!r} does not exist: create it first.")
    if place.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder: give the name of a file in it.")
    if place.exists() and not place.is_file():
        # a device such as /dev/null must not be replaced by a file
        raise OSError(f"{str(path)!r} is not an ordinary file: choose another name.")
    if place.exists() and not overwrite:
        raise _exists(path)
    return place


def _exists(path: str | os.PathLike[str]) -> FileExistsError:
    return FileExistsError(f"{str(path)!r} exists: choose another name, or pass overwrite=True.")


def write_whole(
    path: str | os.PathLike[str], parts: Iterable[bytes | memoryview[Any]], *, overwrite: bool = True
) -> None:
    """Write the parts to a file atomically.

    The parts are written to a temporary file in the same folder, which is renamed once it is on the disk. An
    interruption leaves an existing file as it was. What a killed process left half written in the folder is
    removed by one that writes there an hour later.
    """
    place = check_target(path, overwrite=overwrite)
    _remove_abandoned(place.parent)
    # a short name, because one that contains the name of the file could become too long
    beside = place.with_name(f".mmtfl-{secrets.token_hex(8)}.part")
    try:
        with open(beside, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            os.chmod(beside, stat.S_IMODE(place.stat().st_mode))
        check_target(place, overwrite=overwrite)  # another process may have written it meanwhile
        _put_in_place(beside, place, overwrite=overwrite)
    finally:
        beside.unlink(missing_ok=True)
    with suppress(OSError):  # the folder too where the system can, so that the name survives a power cut
        descriptor = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes that were killed while they wrote."""
    for part in folder.glob(".mmtfl-*.part"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > _ABANDONED:
                part.unlink()


def _put_in_place(beside: Path, place: Path, *, overwrite: bool) -> None:
    """Give a finished file its name; without `overwrite`, of two writers the first one wins."""
    if not overwrite:
        try:
            os.link(beside, place)
            return
        except FileExistsError:
            raise _exists(place) from None
        except OSError:
            pass  # a file system without links
    os.replace(beside, place)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text in UTF-8 atomically."""
    write_whole(path, [text.encode("utf-8")])
