"""Progress of many steps on stderr: rich's bar on a terminal, elsewhere a line a second."""

from __future__ import annotations

import importlib.util
import sys
import time
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

_SECONDS_BETWEEN_LINES = 1.0


class Pace:
    """When the last line was told of work that has several counts, such as the stages of a search."""

    def __init__(self) -> None:
        self.told = time.monotonic()


class Progress(AbstractContextManager):
    """Counts steps that are done, from any thread.

    Parameters
    ----------
    title : str
        What is in progress.
    n_steps : int
        Number of steps.
    unit : str
        What a step is, in the plural.
    shown : bool
        Whether to say anything at all.
    pace : Pace, optional
        That of the work of which these steps are a part.

    Examples
    --------
    >>> with Progress("search", 2, "paths", shown=False) as progress:
    ...     progress.reach("a", 0.5)
    ...     progress.finish("a")
    >>> progress.n_done
    1
    """

    def __init__(self, title: str, n_steps: int, unit: str, *, shown: bool, pace: Pace | None = None) -> None:
        self.title, self.n_steps, self.unit, self.shown = title, n_steps, unit, shown
        self.n_done, self._shares = 0, dict[Any, float]()
        self._lock = Lock()
        self._bar: Any = None
        self._began, self._pace = time.monotonic(), pace or Pace()

    def __enter__(self) -> Progress:
        if self.shown and sys.stderr.isatty() and importlib.util.find_spec("rich"):
            self._bar = _rich_bar()
            self._bar.start()
            self._row = self._bar.add_task(self.title, total=self.n_steps, unit=self.unit)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.stop()

    def reach(self, key: Any, share: float) -> None:
        """Record the share of a running step that is done."""
        with self._lock:
            self._shares[key] = share
            self._tell()

    def finish(self, key: Any) -> None:
        """Record that a step is done."""
        with self._lock:
            self._shares.pop(key, None)
            self.n_done += 1
            self._tell()

    def _tell(self) -> None:
        if self._bar is not None:
            self._bar.update(self._row, completed=self.n_done + sum(self._shares.values()))
            return
        now, is_last = time.monotonic(), self.n_done == self.n_steps
        since = min(self._began, self._pace.told) if is_last else self._pace.told
        if self.shown and now - since >= _SECONDS_BETWEEN_LINES:
            self._pace.told = now
            end = f", done in {now - self._began:.1f} s" if is_last else ""
            said = f"[{self.title}] {self.n_done} of {self.n_steps} {self.unit}{end}"
            print(said, file=sys.stderr, flush=True)


def _rich_bar() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        "{task.description}", progress.BarColumn(), progress.MofNCompleteColumn(), "{task.fields[unit]}",
        progress.TimeElapsedColumn(), "so far, left about", progress.TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
