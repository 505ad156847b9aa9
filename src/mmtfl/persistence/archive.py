"""One file for a tree of values: arrays as safetensors stores them, everything else as JSON in its header.

Nothing in a file is executed, and its sizes are checked before anything is allocated. ``mmtfl`` in the
metadata of the header has the version of the format, the SHA-256 of the JSON and of all arrays, and the JSON.
JSON has no tuples, infinities or arrays: each is an object with one name that says what it is, as in
``{"tuple": [1, 2]}`` or ``{"array": "3"}``.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, fields, is_dataclass
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from mmtfl.persistence.files import write_whole

VERSION = 3  # of the format; earlier ones are not read
# parsed JSON takes many times the memory of its text, so there is a limit on values beside that on bytes
MOST_JSON, MOST_VALUES = 1 << 26, 1 << 22
NUMBERS = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
}


class ModelFileError(ValueError):
    """A file is not a valid model of this version; the message says why and what to do."""


class NotSavable(TypeError):
    """A value that a file has no place for."""


def _no_object(name: str, state: Any) -> Any:
    raise ValueError(f"{name[:40]!r} is not a known kind of object")


# -- writing -------------------------------------------------------------------------------------------------


def write_archive(
    path: str | os.PathLike[str],
    value: Any,
    *,
    state_of: Callable[[Any], tuple[str, Any]] | None = None,
    overwrite: bool = True,
) -> None:
    """Write numbers, text, None, lists, tuples, dicts and arrays of them in one file, whole or not at all.

    Parameters
    ----------
    path : str or path
        The file.
    value : object
        What is written. The same value gives the same bytes.
    state_of : function
        The name and the state of an object of another kind; it raises NotSavable for those it does not know.
    overwrite : bool, default=True
        Whether a file of that name may be replaced.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from mmtfl.persistence.archive import read_archive, write_archive
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "pair.mmtfl")
    ...     write_archive(path, {"name": "a pair", "values": np.array([1.0, 2.0])})
    ...     read_archive(path)
    {'name': 'a pair', 'values': array([1., 2.])}
    """
    from safetensors.numpy import save

    packer = Packer(state_of)
    text = json.dumps(packer.pack(value), allow_nan=False, separators=(",", ":"))
    if not _is_readable(text):
        raise ValueError(
            f"The names and settings take {len(text)} bytes of JSON, which is more than a file may hold: "
            "name fewer features and tasks, or leave names out."
        )
    # all in one entry: safetensors writes several of them in any order
    about = f"{VERSION} {_digest(text, packer.arrays)} {text}"
    write_whole(path, [save(packer.arrays, {"mmtfl": about})], overwrite=overwrite)


class Packer:
    """Converts values to JSON, and collects the arrays by the names that the JSON gives them."""

    def __init__(self, state_of: Callable[[Any], tuple[str, Any]] | None = None) -> None:
        self.state_of, self.arrays = state_of, dict[str, np.ndarray]()

    def pack(self, value: Any) -> Any:
        """Pack one value."""
        if value is None or isinstance(value, str | bool | np.bool_):
            return bool(value) if isinstance(value, np.bool_) else value
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            return float(value) if math.isfinite(value) else {"float": str(float(value))}
        if isinstance(value, np.ndarray):
            return self._pack_array(value)
        if isinstance(value, list):
            return [self.pack(item) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.pack(item) for item in value]}
        if isinstance(value, dict):
            return {"dict": [[self.pack(key), self.pack(item)] for key, item in value.items()]}
        if self.state_of is None:
            raise NotSavable(f"a {type(value).__name__}")
        name, state = self.state_of(value)
        return {"object": [name, self.pack(state)]}

    def _pack_array(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype.kind in "UO":
            values = [self.pack(item) for item in array.ravel().tolist()]
            if any(isinstance(item, dict | list) for item in values):
                raise NotSavable("an array of objects")
            return {"values": [array.dtype.kind, list(array.shape), values]}
        if type(array) is not np.ndarray or array.dtype.name not in NUMBERS:
            raise NotSavable(f"an array of dtype {array.dtype}")
        name = str(len(self.arrays))
        self.arrays[name] = array.astype(array.dtype.newbyteorder("="), order="C", copy=False)
        return {"array": name}


def _digest(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.name} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _is_readable(text: str) -> bool:
    """Whether JSON stays within the limits; commas within names count too, so it may say no too early."""
    return len(text) <= MOST_JSON and sum(map(text.count, "{[,")) <= MOST_VALUES


# -- reading -------------------------------------------------------------------------------------------------


def read_archive(path: str | os.PathLike[str], *, make: Callable[[str, Any], Any] = _no_object) -> Any:
    """Check and read what `write_archive` has written.

    Parameters
    ----------
    path : str or path
        The file.
    make : function
        The object of a name and a state. It must look the name up, and never import it.

    Returns
    -------
    value : object
        As it was written; every array is a copy that can be changed.

    Raises
    ------
    ModelFileError
        If the file is something else, of a newer version, cut short, changed, or holds what `make` refuses.
    """
    place = Path(path)
    if place.exists() and not place.is_file():  # opening a pipe would wait for a writer
        raise ModelFileError(f"{str(path)!r} is not a file: give a file written by model.save(path).")
    digest, text, arrays = _read(place)
    try:
        if not _is_readable(text):
            raise ValueError("it holds more names and values than any model")
        if digest != _digest(text, arrays):
            raise ValueError("it was changed after it was written")
        value = _Unpacker(arrays, make).unpack(json.loads(text))
        if arrays:
            raise ValueError("it has arrays that belong to nothing")
        return value
    except MemoryError:
        raise
    except Exception as error:  # a forged file may fail anywhere, and the file is to blame
        why = str(error).partition("\n")[0].rstrip(".")
        raise ModelFileError(
            f"{str(path)!r} is not a sound model file: {why}. Copy it again, or save the model anew."
        ) from error


def _read(place: Path) -> tuple[str, str, dict[str, np.ndarray]]:
    """The digest, the JSON and the arrays of a file of this version."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = place.read_bytes()
    try:
        arrays = {name: array.copy() for name, array in load(data).items()}  # checks all sizes first
        about = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        version, digest, text = about["mmtfl"].split(" ", 2)
        if int(version) < VERSION:
            raise ValueError
    except (SafetensorError, LookupError, ValueError, TypeError, AttributeError):
        raise ModelFileError(
            f"{str(place)!r} is not a model of mmtfl, or was cut short: give a file written by "
            "model.save(path) of this version."
        ) from None
    if int(version) > VERSION:
        raise ModelFileError(
            f"{str(place)!r} has format {version}, and this version of mmtfl reads format {VERSION}: "
            "upgrade mmtfl."
        )
    return digest, text, arrays


class _Unpacker:
    """Converts JSON and arrays back to values; every array is used once."""

    def __init__(self, arrays: dict[str, np.ndarray], make: Callable[[str, Any], Any]) -> None:
        self.arrays, self.make = arrays, make

    def unpack(self, packed: Any) -> Any:
        if isinstance(packed, list):
            return [self.unpack(item) for item in packed]
        if not isinstance(packed, dict):
            return packed
        match list(packed.items()):
            case [("float", ("inf" | "-inf" | "nan") as text)]:
                return float(text)
            case [("tuple", list() as items)]:
                return tuple(map(self.unpack, items))
            case [("dict", list() as items)]:
                return {self.unpack(key): self.unpack(item) for key, item in items}
            case [("array", str() as name)] if name in self.arrays:
                return _checked(self.arrays.pop(name))
            case [("values", [("U" | "O") as kind, list() as shape, list() as values])]:
                return _array_of(values, kind, shape)
            case [("object", [str() as name, state])]:
                return self.make(name, self.unpack(state))
        raise ValueError(f"a value is of no known kind, {str(packed)[:40]!r}")


def _checked(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError("an array of booleans has other values")
    return array


def _array_of(values: list[Any], kind: str, shape: list[int]) -> np.ndarray:
    if any(isinstance(item, dict | list) or (kind == "U" and not isinstance(item, str)) for item in values):
        raise ValueError("an array of text has other values")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return (array.astype(str) if kind == "U" else array).reshape(shape)


# -- strict JSON ---------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Convert numbers, text, and lists, dicts, arrays and dataclasses of them to strict JSON types.

    The result is fit for ``json.dumps(..., allow_nan=False)``: infinity becomes text, NaN becomes None.

    Examples
    --------
    >>> from mmtfl.persistence.archive import plain
    >>> plain({"k": float("inf"), "score": float("nan"), 3: (1, 2)})
    {'k': 'inf', 'score': None, '3': [1, 2]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def expect(value: Any, *allowed: Any) -> Any:
    """Return a value that was read from a file, if it is of an allowed type or equal to an allowed value.

    Examples
    --------
    >>> from mmtfl.persistence.archive import expect
    >>> expect("mean", "mean", "median", None)
    'mean'
    >>> expect(True, int)
    Traceback (most recent call last):
    ...
    ValueError: True is out of place
    """
    if any(type(value) is kind if isinstance(kind, type) else value == kind for kind in allowed):
        return value
    raise ValueError(f"{value!r} is out of place")


def made_of(kind: Any, saved: Any) -> Any:
    """Make a dataclass of the plain values of its fields, each checked by its type, as files need it.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from mmtfl.persistence.archive import made_of
    >>> @dataclass
    ... class Column:
    ...     name: str
    ...     levels: tuple[str, ...] = ()
    >>> made_of(Column, {"name": "ward", "levels": ["surgery"]})
    Column(name='ward', levels=('surgery',))
    """
    saved, types = expect(saved, dict), get_type_hints(kind)
    given = [one.name for one in fields(kind) if one.name in saved or one.default is MISSING]
    return kind(**{name: _of_type(saved[name], types[name]) for name in given})


def _of_type(value: Any, kind: Any) -> Any:
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return expect(value, *parts)
    if get_origin(kind) is tuple:
        entries = list(expect(value, list, tuple))
        kinds = parts if parts[-1] is not ... else [parts[0]] * len(entries)
        return tuple(_of_type(entry, one) for entry, one in zip(entries, kinds, strict=True))
    if get_origin(kind) in (Union, UnionType):
        for one in parts:
            with suppress(ValueError):
                return _of_type(value, one)
        raise ValueError(f"{value!r} is out of place")
    if is_dataclass(kind):
        return made_of(kind, value)
    return float(expect(value, int, float)) if kind is float else expect(value, kind)
