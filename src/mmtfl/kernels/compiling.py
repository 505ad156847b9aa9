"""Compiled functions are kept on disk where that is possible; where it is not, they are compiled again."""

import pickle
import warnings
from collections.abc import Callable
from typing import Any

from numba import cfunc, njit
from numba.core.caching import FunctionCache

_DAMAGED = (EOFError, pickle.UnpicklingError, ValueError, AttributeError, ImportError, IndexError, KeyError)
_told: set[str] = set()


def _tell_once(message: str) -> None:
    if not _told:
        _told.add(message)
        warnings.warn(message, UserWarning, stacklevel=2)


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


def compiled(**options: Any) -> Callable[[Callable], Any]:
    """Numba's njit with a cache on disk that may fail."""

    def decorate(function: Callable) -> Any:
        try:
            out: Any = njit(cache=True, **options)(function)
        except RuntimeError:  # no folder to keep it in
            _tell_once(
                "Compiled code cannot be kept, for neither the installed package nor the user's cache folder "
                "can be written: every process compiles it. Set NUMBA_CACHE_DIR to a folder that can."
            )
            return njit(**options)(function)
        out._cache = KeptOnDisk(out._cache)
        return out

    return decorate


def compiled_callback(signature: Any, function: Callable, **options: Any) -> Any:
    """Numba's cfunc with a cache on disk that may fail."""
    try:
        return cfunc(signature, cache=True, **options)(function)
    except (*_DAMAGED, OSError, RuntimeError):
        pass
    try:
        FunctionCache(function).flush()
        return cfunc(signature, cache=True, **options)(function)
    except (*_DAMAGED, OSError, RuntimeError):
        return cfunc(signature, **options)(function)
