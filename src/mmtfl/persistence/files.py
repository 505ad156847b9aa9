"""Write files atomically: a reader finds the old file or the new one, never a part."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


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
    removed by the next one that writes there.
    """
    place = check_target(path, overwrite=overwrite)
    _remove_abandoned(place.parent)
    beside, descriptor = _open_beside(place)
    try:
        with open(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            if place.exists():
                os.chmod(beside, stat.S_IMODE(place.stat().st_mode))
            if fcntl is None:
                file.close()  # Windows renames no open file
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


def _open_beside(place: Path) -> tuple[Path, int]:
    """Open a new temporary file in the same folder, locked for as long as it is open."""
    while True:
        # a short name, because one that contains the name of the file could become too long
        beside = place.with_name(f".mmtfl-{secrets.token_hex(8)}.part")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        if _lock(descriptor) is not False:
            return beside, descriptor
        os.close(descriptor)  # somebody took it for abandoned at this very moment


def _lock(descriptor: int) -> bool | None:
    """Lock an open file for this process; False if another has it, None where files cannot be locked."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes that were killed while they wrote: nobody holds their lock."""
    for part in folder.glob(".mmtfl-*.part"):
        with suppress(OSError):
            descriptor = os.open(part, os.O_WRONLY)
            try:
                if _lock(descriptor):
                    part.unlink()
            finally:
                os.close(descriptor)


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
