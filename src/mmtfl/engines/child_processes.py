"""Child processes that leave Ctrl-C to their parent, and end when it does."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker

_SECONDS = 0.5  # between two looks at the parent
_watched: set[int] = set()


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Context in which started processes and threads ignore Ctrl-C, and leave it to this process.

    They inherit a mask of signals. A Ctrl-C that comes meanwhile is answered at the end.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # if it were started inside, it would lift the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with(parent: int) -> None:
    """End this process soon after its parent, however that ended; called in the child, once or often.

    Where the system does not tell that a parent is gone, as on Windows, nothing is done.
    """
    if parent in _watched or os.name != "posix":
        return
    _watched.add(parent)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)  # at once: nobody waits for an answer
