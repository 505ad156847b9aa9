"""Content hash of the inputs of a fit."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from types import CellType, CodeType
from typing import Any

import numpy as np
from scipy import sparse

_ROWS = 1 << 12  # rows of a non-contiguous array that are copied at a time
_open: set[int] = set()  # functions whose parts are being hashed


def fingerprint(*things: Any) -> str:
    """Hash arrays, sparse matrices, numbers, texts, and dataclasses, mappings and sequences of them.

    An object with a string attribute ``fingerprint`` is hashed by it. A function is hashed by its name, its
    code and the values it holds (defaults, closure), not by what it finds in its module; a callable object by
    its class and attributes, any other object by its class only. The digest has 32 characters.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.persistence.content_hash import fingerprint
    >>> one, other = np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    >>> fingerprint("a", one) == fingerprint("a", other), fingerprint("a", one) == fingerprint("b", one)
    (True, False)
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    digest = blake2b(digest_size=16)
    _add(digest, things)
    return digest.hexdigest()


def _add(digest: Any, thing: Any) -> None:
    digest.update(f"{type(thing).__name__}:".encode())
    own = getattr(thing, "fingerprint", None)
    if isinstance(own, str):
        digest.update(own.encode())
    elif isinstance(thing, np.ndarray):
        _add_array(digest, thing)
    elif sparse.issparse(thing):
        _add(digest, [thing.shape, thing.data, thing.indices.astype(np.int64), thing.indptr.astype(np.int64)])
    elif is_dataclass(thing):
        _add(digest, {field.name: getattr(thing, field.name) for field in fields(thing)})
    elif isinstance(thing, Mapping):
        _add(digest, sorted(thing.items()))
    elif thing is None or isinstance(thing, bool | int | float | str | bytes | np.generic):
        digest.update(f"{thing!r};".encode())
    elif isinstance(thing, Sequence):
        digest.update(f"{len(thing)};".encode())
        for part in thing:
            _add(digest, part)
    elif hasattr(thing, "__array__"):  # a column of a frame
        _add_array(digest, np.asarray(thing))
    elif isinstance(thing, frozenset | set):
        _add(digest, sorted(thing, key=repr))  # their order may differ between processes
    elif isinstance(thing, CodeType):
        _add(digest, [thing.co_code, thing.co_names, thing.co_consts])
    else:
        kind = thing if hasattr(thing, "__qualname__") else type(thing)
        digest.update(f"{kind.__module__}.{kind.__qualname__};".encode())
        if callable(thing) and not isinstance(thing, type):
            _add_callable(digest, thing)


def _add_callable(digest: Any, function: Any) -> None:
    """Add what a function does and what it holds; a function that holds itself is met once."""
    if id(function) in _open:
        return
    _open.add(id(function))
    try:
        names = ("__code__", "__defaults__", "__kwdefaults__", "__self__", "func", "args", "keywords")
        _add(digest, [getattr(function, name, None) for name in names])
        cells = getattr(function, "__closure__", None) or ()
        _add(digest, [cell.cell_contents for cell in cells if cell != CellType()])
        _add(digest, getattr(function, "__dict__", None))
    finally:
        _open.discard(id(function))


def _add_array(digest: Any, array: np.ndarray) -> None:
    digest.update(f"{array.dtype.str}{array.shape};".encode())
    if array.dtype == object:
        _add(digest, array.tolist())
    else:
        whole = array.ndim == 0 or array.flags.c_contiguous
        parts = [array] if whole else (array[i : i + _ROWS] for i in range(0, len(array), _ROWS))
        for part in parts:
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
