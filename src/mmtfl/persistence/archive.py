"""The file format of saved models, arrays and JSON: nothing in a file is executed, and every size is checked.

A file is, with all numbers little-endian:

- 8 magic bytes, then the format version (4 bytes), 4 zero bytes, the length of the JSON (8)
- JSON text in ASCII: ``{"arrays": [{"dtype": "<f8", "shape": [3, 2]}, ...], "content": ...}``
- the arrays one after the other, in C order and without gaps
- the SHA-256 of everything before, 32 bytes

Nothing is compressed, so the arrays are never larger than the file, and its size is known before it is read.
"""

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mmtfl.persistence.files import write_whole

FORMAT_VERSION = 1
MAGIC = b"\x89MMTFL\r\n"  # it reveals a transfer that changed line ends or dropped the eighth bit
HEAD = struct.Struct("<8sIIQ")
DIGEST_SIZE = 32
# parsed JSON takes many times the memory of its text: at most 64 MB of it, a million lists and objects, and
# four million values are read, which take less than 700 MB
MOST_JSON, MOST_CONTAINERS, MOST_VALUES = 1 << 26, 1 << 20, 1 << 22
MOST_DIGITS = 300  # of an integer: it is within the range of floats
MOST_DIMENSIONS = 8
CHUNK = 1 << 20
NUMBERS = {
    *("|b1", "|i1", "|u1", "<i2", "<i4", "<i8", "<u2", "<u4", "<u8"),
    *("<f2", "<f4", "<f8"),
}
TEXT = re.compile(r"(<U|\|S)[1-9][0-9]{0,7}")


class ModelFileError(ValueError):
    """A file is not a valid model of this version; the message says why and what to do."""


def can_store(array: np.ndarray) -> bool:
    """Tell whether an archive can store an array: numbers, booleans or text of fixed width.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.persistence.archive import can_store
    >>> can_store(np.zeros(3)), can_store(np.array(["a"])), can_store(np.array([None]))
    (True, True, False)
    """
    return _is_allowed(array.dtype.newbyteorder("<").str) and array.ndim <= MOST_DIMENSIONS


def _is_allowed(dtype: Any) -> bool:
    return isinstance(dtype, str) and (dtype in NUMBERS or TEXT.fullmatch(dtype) is not None)


# -- writing -------------------------------------------------------------------------------------------------


def write_archive(
    path: str | os.PathLike[str], content: Any, arrays: Sequence[np.ndarray], *, overwrite: bool = True
) -> None:
    """Write JSON content and arrays that `can_store` accepts into one file; JSON numbers must be finite.

    The file is written atomically, see `write_whole`. The same input gives the same bytes.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from mmtfl.persistence.archive import read_archive, write_archive
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pair.mmtfl")
    ...     write_archive(path, {"name": "a pair"}, [np.array([1.0, 2.0])])
    ...     read_archive(path)
    ({'name': 'a pair'}, [array([1., 2.])])
    """
    for array in arrays:
        if not can_store(array):
            raise TypeError(f"An array of dtype {array.dtype} cannot be saved: use numbers or text.")
    entries = [{"dtype": a.dtype.newbyteorder("<").str, "shape": list(a.shape)} for a in arrays]
    header = {"arrays": entries, "content": content}
    text = json.dumps(header, allow_nan=False, separators=(",", ":")).encode("ascii")
    if not _is_readable(text):
        raise ValueError(
            f"The names and settings take {len(text)} bytes of JSON, which is more than a file may hold: "
            "name fewer features and tasks, or leave names out."
        )
    write_whole(path, _parts(text, arrays), overwrite=overwrite)


def _is_readable(text: bytes) -> bool:
    """Whether JSON stays within the limits; characters within names count too, so it may say no too early."""
    containers = text.count(b"{") + text.count(b"[")
    within = containers <= MOST_CONTAINERS and containers + text.count(b",") <= MOST_VALUES
    return within and len(text) <= MOST_JSON


def _parts(text: bytes, arrays: Sequence[np.ndarray]) -> Iterator[Any]:
    digest = hashlib.sha256()
    # one array after the other, because some have to be copied
    little = (array.astype(array.dtype.newbyteorder("<"), order="C", copy=False) for array in arrays)
    pieces: Iterator[Any] = (array.reshape(-1).view(np.uint8).data for array in little)
    for part in chain([HEAD.pack(MAGIC, FORMAT_VERSION, 0, len(text)), text], pieces):
        digest.update(part)
        yield part
    yield digest.digest()


# -- reading -------------------------------------------------------------------------------------------------


def read_archive(path: str | os.PathLike[str]) -> tuple[Any, list[np.ndarray]]:
    """Check and read what `write_archive` has written: the content, and the arrays in native byte order.

    A file of another kind or of an unknown version, or one that was cut short or changed, raises
    ModelFileError, which is a ValueError.
    """
    place = Path(path)
    if place.exists() and not place.is_file():  # opening a pipe would wait for a writer
        raise ModelFileError(f"{str(path)!r} is not a file: give a file written by model.save(path).")
    with open(place, "rb") as file:
        return _Reader(file, str(path)).read()


class _Reader:
    """Reads and checks one file."""

    def __init__(self, file: BinaryIO, name: str):
        self.file, self.name = file, name
        self.size = os.fstat(file.fileno()).st_size

    def read(self) -> tuple[Any, list[np.ndarray]]:
        n_text = self._read_head()
        self._check_digest()
        self.file.seek(HEAD.size)
        text = self._take(n_text)
        if not _is_readable(text):
            raise self._unsound("its header holds more names and values than any model")
        try:
            header = json.loads(
                text.decode("ascii"), parse_constant=_no_constant, parse_int=_integer, parse_float=_number,
                object_pairs_hook=_no_duplicates,
            )  # fmt: skip
        except (ValueError, RecursionError) as error:
            raise self._unsound("its header is not valid JSON") from error
        if not isinstance(header, dict) or set(header) != {"arrays", "content"}:
            raise self._unsound("its header is not that of a model")
        room = self.size - HEAD.size - n_text - DIGEST_SIZE
        return header["content"], self._read_arrays(header["arrays"], room)

    def _read_head(self) -> int:
        head = self.file.read(HEAD.size)
        if head[: len(MAGIC)] != MAGIC[: len(head)] or len(head) < len(MAGIC):
            raise ModelFileError(
                f"{self.name!r} is not a model of mmtfl: give a file written by model.save(path)."
            )
        if len(head) < HEAD.size:
            raise self._damaged()
        _, version, reserved, n_text = HEAD.unpack(head)
        if version > FORMAT_VERSION:
            raise ModelFileError(
                f"{self.name!r} has format {version}, and this version of mmtfl reads formats up to "
                f"{FORMAT_VERSION}: upgrade mmtfl."
            )
        if version < FORMAT_VERSION:
            raise ModelFileError(
                f"{self.name!r} has format {version}, which no version of mmtfl has written: it was changed."
            )
        if reserved or n_text > MOST_JSON or HEAD.size + n_text + DIGEST_SIZE > self.size:
            raise self._damaged()
        return n_text

    def _check_digest(self) -> None:
        self.file.seek(0)
        digest, left = hashlib.sha256(), self.size - DIGEST_SIZE
        while left:
            part = self._take(min(left, CHUNK))
            digest.update(part)
            left -= len(part)
        if self._take(DIGEST_SIZE) != digest.digest():
            raise self._damaged()

    def _read_arrays(self, entries: Any, room: int) -> list[np.ndarray]:
        if not isinstance(entries, list):
            raise self._unsound("its list of arrays is not a list")
        # all sizes are checked before the first array is allocated
        sizes = [self._n_bytes(entry) for entry in entries]
        if sum(sizes) != room:
            raise self._unsound(f"its arrays should take {sum(sizes)} bytes, but it has {room}")
        return [self._read_array(entry, size) for entry, size in zip(entries, sizes, strict=True)]

    def _n_bytes(self, entry: Any) -> int:
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape"}:
            raise self._unsound("an array has no dtype and shape")
        dtype, shape = entry["dtype"], entry["shape"]
        if not _is_allowed(dtype):
            raise self._unsound(
                f"an array has dtype {str(dtype)[:40]!r}, which is not one of numbers or text"
            )
        itemsize = np.dtype(dtype).itemsize
        is_shape = isinstance(shape, list) and len(shape) <= MOST_DIMENSIONS
        is_shape = is_shape and all(type(n) is int and n >= 0 for n in shape)
        # numpy limits the size of an empty array by its other dimensions
        if not is_shape or math.prod(max(n, 1) for n in shape) * itemsize >= 1 << 62:
            raise self._unsound(f"an array has shape {str(shape)[:80]}")
        return math.prod(shape) * itemsize

    def _read_array(self, entry: Any, size: int) -> np.ndarray:
        raw = np.empty(size, dtype=np.uint8)
        if self.file.readinto(raw.data) != size:  # type: ignore[attr-defined]
            raise self._damaged()
        dtype = np.dtype(entry["dtype"])
        if dtype.kind == "b" and (raw > 1).any():
            raise self._unsound("an array of booleans has other values")
        if dtype.kind == "U" and (raw.view("<u4") > 0x10FFFF).any():
            raise self._unsound("an array of text has values that are not characters")
        array = raw.view(dtype).reshape(entry["shape"])
        return array.astype(dtype.newbyteorder("="), copy=False)

    def _take(self, n: int) -> bytes:
        part = self.file.read(n)
        if len(part) != n:
            raise self._damaged()
        return part

    def _damaged(self) -> ModelFileError:
        return ModelFileError(
            f"{self.name!r} was cut short or changed after it was written: copy it again, or save the model "
            "anew."
        )

    def _unsound(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.name!r} is not a sound model file: {what}. Save the model anew.")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"an integer has {len(text)} digits")
    return int(text)


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found
