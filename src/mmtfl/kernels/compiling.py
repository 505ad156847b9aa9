"""Compiled functions are kept on disk where that is possible; where it is not, they are compiled again."""

import pickle
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

_DAMAGED = (EOFError, pickle.UnpicklingError, ValueError, AttributeError, ImportError, IndexError, KeyError)
_FOLDER = Path(__file__).parent
_told: set[str] = set()


def _tell_once(message: str) -> None:
    if not _told:
        _told.add(message)
        warnings.warn(message, UserWarning, stacklevel=2)


@cache
def _stamp_of_kernels() -> str:
    """A short text that changes with the times and sizes of the files with compiled functions."""
    stats = [(path.name, path.stat()) for path in sorted(_FOLDER.glob("*.py"))]
    known = [(name, stat.st_mtime_ns, stat.st_size) for name, stat in stats]
    return sha256(repr(known).encode()).hexdigest()[:12]


class KeptOnDisk:
    """The compiler's cache of one function, of which no failure is one of the program.

    A file that cannot be read is written anew, and one that cannot be written is done without.
    """

    def __init__(self, cache: Any):
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *which: Any) -> Any:
        """The compiled code, or None."""
        try:
            return self._cache.load_overload(*which)
        except (*_DAMAGED, OSError):
            self._begin_anew()
            return None

    def save_overload(self, *what: Any) -> None:
        """Keep compiled code."""
        try:
            self._cache.save_overload(*what)
        except _DAMAGED:
            self._begin_anew()
        except RuntimeError:
            pass  # a signal came as the compiler handed its code over: this process has it all the same
        except OSError as error:
            _tell_once(
                f"Compiled code cannot be kept ({error.strerror or error}): every process compiles it."
            )

    def _begin_anew(self) -> None:
        try:
            self._cache.flush()
        except OSError as error:
            _tell_once(
                f"Compiled code cannot be kept ({error.strerror or error}): every process compiles it."
            )


def _kept(function: Callable) -> KeptOnDisk | None:
    """A place on disk for a compiled function; None if there is no folder for it.

    Compiled code holds that of the functions it calls, so it is out of date as soon as any file of kernels
    has changed; the compiler itself looks at the function's own file alone.
    """
    try:
        found: Any = FunctionCache(function)
    except RuntimeError:
        _tell_once(
            "Compiled code cannot be kept, for neither the installed package nor the user's cache folder "
            "can be written: every process compiles it. Set NUMBA_CACHE_DIR to a folder that can."
        )
        return None
    # in files of their own: a process that reads while another one writes must not meet the code of old files
    name = f"{found._impl.filename_base}-{_stamp_of_kernels()}"
    stamp = found._cache_file._source_stamp
    found._cache_file = IndexDataCacheFile(found.cache_path, filename_base=name, source_stamp=stamp)
    return KeptOnDisk(found)


def compiled(*, fastmath: Any = False, **options: Any) -> Callable[[Callable], Any]:
    """Numba's njit with a cache on disk that may fail.

    The arithmetic is always given: a function that says nothing of it is compiled with that of whichever
    function calls it first, and kept like that, so that its last bits would hang on the order of calls.
    """

    def decorate(function: Callable) -> Any:
        out: Any = njit(fastmath=fastmath, **options)(function)
        out._cache = _kept(function) or out._cache
        return out

    return decorate


def compiled_callback(signature: Any, function: Callable, **options: Any) -> Any:
    """Numba's cfunc with a cache on disk that may fail."""
    options["fastmath"] = False
    out: Any = CFunc(function, normalize_signature(signature), locals={}, options=options)
    out._cache = _kept(function) or out._cache
    out.compile()
    return out
