"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["check_target", "write_text", "write_whole"]


def check_target(path: str | os.PathLike[str], *, overwrite: bool = True) -> Path:
    """Check that a file can be put at a place, before any work is done.

    Parameters
    ----------
    path : str or path
        Where the file is to be. A link is followed: the file it points to is replaced, the link stays.
    overwrite : bool, default=True
        Whether a file that is there may be replaced.

    Returns
    -------
    path : Path
        The place itself, all links followed.
    """
    place = Path(os.path.realpath(os.fspath(path)))
    if not place.parent.is_dir():
        raise FileNotFoundError(f"The folder {str(place.parent)!r} does not exist: create it first.")
    if place.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder: give the name of a file in it.")
    if place.exists() and not place.is_file():
        # replacing a device such as /dev/null would take it away from everyone
        raise OSError(f"{str(path)!r} is not an ordinary file: choose another name.")
    if place.exists() and not overwrite:
        raise FileExistsError(f"{str(path)!r} exists: choose another name, or pass overwrite=True.")
    return place


def write_whole(
    path: str | os.PathLike[str], parts: Iterable[bytes | memoryview[Any]], *, overwrite: bool = True
) -> None:
    """Write a file that is there as a whole, or not at all.

    The parts go to a new file beside it, which takes the name once all of it is on the disk. Whatever stops
    the writing leaves an older file of that name as it was.

    Parameters
    ----------
    path : str or path
        The file.
    parts : iterable of bytes
        What to write, in order.
    overwrite : bool, default=True
        Whether a file that is there may be replaced.
    """
    place = check_target(path, overwrite=overwrite)
    # a short name of its own: with that of the file before it, long names would not fit
    beside = place.with_name(f".mmtfl-{secrets.token_hex(8)}.part")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            if place.exists():
                os.chmod(beside, stat.S_IMODE(place.stat().st_mode))
        check_target(place, overwrite=overwrite)  # someone else may have been quicker
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)
    _sync_folder(place.parent)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write text in UTF-8, so that readers, and a crash at any moment, find the old file or the new one."""
    write_whole(path, [text.encode("utf-8")])


def _sync_folder(folder: Path) -> None:
    """The new name too survives a power cut, where folders can be synced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
