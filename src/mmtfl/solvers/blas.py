"""BLAS on one thread while any solver of this process is at work."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = Lock()
_at_work = 0
_limit: Any = None


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context in which BLAS runs on one thread: products then have the same bits on any machine load.

    The limit is the process's, so threads that come and go must not lift it for each other: the first one in
    sets it, the last one out lifts it.
    """
    global _at_work, _limit
    with _lock:
        if _at_work == 0:
            _limit = _blas().limit(limits=1, user_api="blas")
        _at_work += 1
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            if _at_work == 0:
                _limit.restore_original_limits()
