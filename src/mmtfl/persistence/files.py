"""Write files atomically: a reader finds the old file or the new one, never a part."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["check_target", "write_text", "write_whole"]


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
        raise FileExistsError(f"{str(path)!r} exists: choose another name, or pass overwrite=True.")
    return place


def write_whole(
    path: str | os.PathLike[str], parts: Iterable[bytes | memoryview[Any]], *, overwrite: bool = True
) -> None:
    """Write the parts to a file atomically.

    The parts are written to a temporary file in the same folder, which is renamed once it is on the disk. An
    interruption leaves an existing file as it was.
    """
    place = check_target(path, overwrite=overwrite)
    # a short name, because one that contains the name of the file could become too long
    beside = place.with_name(f".mmtfl-{secrets.token_hex(8)}.part")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            if place.exists():
                os.chmod(beside, stat.S_IMODE(place.stat().st_mode))
        check_target(place, overwrite=overwrite)  # another process may have written it meanwhile
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)
    with suppress(OSError):  # the folder too where the system can, so that the name survives a power cut
        descriptor = os.open(place.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text in UTF-8 atomically."""
    write_whole(path, [text.encode("utf-8")])
