"""The engines of one machine: threads over the parts of the data, or one part in memory at a time.

And `one_blas_thread`, so that threads do not multiply with those of BLAS.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock
from typing import Any, ClassVar

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import ThreadpoolController

_lock = Lock()
_at_work = 0
_limit: Any = None


@dataclass(frozen=True)
class Threads:
    """Run the work in threads of this process.

    Every result depends on its own arguments alone and comes back in order, so the answer has the same bits
    for any number of threads.

    Parameters
    ----------
    n_jobs : int or None
        Threads, as in joblib; None means 1.

    Examples
    --------
    >>> from mmtfl.engines.threads import Threads
    >>> engine = Threads(n_jobs=2)
    >>> engine.map(pow, engine.place(int, ["2", "3"]), [3, 2])
    [8, 9]
    """

    n_jobs: int | None = None
    is_here: ClassVar = True

    @property
    def n_slots(self) -> int:
        """Number of threads."""
        return int(effective_n_jobs(self.n_jobs))

    def place(self, load: Callable, sources: Sequence[Any], *, name: str = "load") -> list:
        """Load everything into memory."""
        return self.map(load, sources)

    def map(self, function: Callable, *columns: Sequence[Any], keep: bool = False, name: str = "map") -> list:
        """Apply the function to every tuple of arguments."""
        calls = list(zip(*columns, strict=True))
        n_threads = min(self.n_slots, len(calls))
        if n_threads <= 1:
            return [function(*call) for call in calls]
        return Parallel(n_jobs=n_threads, backend="threading")(delayed(function)(*call) for call in calls)


@dataclass(frozen=True)
class Streaming:
    """Hold one part of the data in memory at a time, and load it again whenever it is needed.

    The first parts stay in memory as far as there is room. Since every pass goes over all parts in the same
    order, keeping the parts used last would help less.

    Parameters
    ----------
    n_slots : int
        Number of parts.
    n_kept : int
        How many of them stay in memory.

    Examples
    --------
    >>> from mmtfl.engines.threads import Streaming
    >>> engine = Streaming(n_slots=3, n_kept=1)
    >>> engine.map(pow, engine.place(int, ["2", "3", "4"]), [3, 2, 1])
    [8, 9, 4]
    """

    n_slots: int
    n_kept: int = 0
    is_here: ClassVar = False

    def place(self, load: Callable, sources: Sequence[Any], *, name: str = "load") -> list:
        """Load the parts that stay in memory; the others are loaded when `map` needs them."""
        room = self.n_kept if len(sources) == self.n_slots else len(sources)
        loaded = [load(source) for source in sources[:room]]
        return [*loaded, *(_Later(load, source) for source in sources[room:])]

    def map(self, function: Callable, *columns: Sequence[Any], keep: bool = False, name: str = "map") -> list:
        """Apply the function to every tuple of arguments, one after the other."""
        return [
            function(*(part() if isinstance(part, _Later) else part for part in call))
            for call in zip(*columns, strict=True)
        ]


class _Later(partial):
    """A part that is loaded when it is needed."""


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


def _begin_anew() -> None:
    """Reset the state in a forked child: no other thread runs there to lift the limit or free the lock."""
    global _lock, _at_work
    if _at_work:
        _limit.restore_original_limits()
    _lock, _at_work = Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
