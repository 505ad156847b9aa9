"""Progress of a search on stderr: a bar where someone watches, a line now and then elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from contextlib import AbstractContextManager, ExitStack
from threading import Lock
from typing import Any

_SECONDS_BETWEEN_LINES = 1.0
_SHARE_BETWEEN_LINES = 0.05  # of the time so far


class Progress(AbstractContextManager):
    """Counts steps that are done, from any thread, and tells how long the others will take.

    Parameters
    ----------
    title : str
        What is in progress.
    total : int
        Number of steps.
    unit : str
        What a step is, in the plural.
    shown : bool
        Whether to say anything at all.

    Examples
    --------
    >>> with Progress("search", 2, "paths", shown=False) as progress:
    ...     progress.advance()
    ...     progress.advance()
    >>> progress.done
    2
    """

    def __init__(self, title: str, total: int, unit: str, *, shown: bool) -> None:
        self.title, self.total, self.unit, self.shown = title, total, unit, shown
        self.done = 0
        self._lock, self._stack = Lock(), ExitStack()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        self._began = self._told = time.monotonic()
        if self.shown and sys.stderr.isatty() and importlib.util.find_spec("rich"):
            self._bar = self._stack.enter_context(_rich_bar())
            self._step = self._bar.add_task(self.title, total=self.total, unit=self.unit)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def advance(self) -> None:
        """One more step is done."""
        with self._lock:
            self.done += 1
            if self._bar is not None:
                self._bar.advance(self._step)
            elif self.shown:
                self._tell(time.monotonic())

    def _tell(self, now: float) -> None:
        finished = self.done == self.total
        # a log file of hours needs no line per second
        pause = max(_SECONDS_BETWEEN_LINES, _SHARE_BETWEEN_LINES * (now - self._began))
        if now - self._told < pause and not finished:
            return
        self._told = now
        spent = now - self._began
        left = spent / self.done * (self.total - self.done)
        when = f"done in {_duration(spent)}" if finished else f"about {_duration(left)} left"
        line = f"[{self.title}] {self.done} of {self.total} {self.unit}, {when}"
        print(line, file=sys.stderr, flush=True)


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]},"),
        TimeElapsedColumn(),
        TextColumn("so far,"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("left"),
        console=Console(stderr=True),
    )


def _duration(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
