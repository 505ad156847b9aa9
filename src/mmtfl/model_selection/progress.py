"""Progress of many steps on stderr: a bar where someone watches, a line now and then elsewhere."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any

import numpy as np

_SECONDS_BETWEEN_LINES = 1.0
_LONGEST_SILENCE = 5.0
_SHARE_BETWEEN_LINES = 0.05  # of the time so far, where nobody watches
_MOST_NAMED = 4  # steps at work whose shares are listed


@dataclass
class _Step:
    """One step: its kind, when it began, and the share done after so many seconds, as told."""

    kind: Hashable
    began: float | None = None
    marks: list[tuple[float, float]] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.marks[-1][0] if self.marks else 0.0


@dataclass
class _Known:
    """Durations of finished steps of a kind, and the last one's share done as a function of time."""

    n_steps: int = 0
    seconds: float = 0.0
    marks: Sequence[tuple[float, float]] = ()

    def learn(self, seconds: float, marks: Sequence[tuple[float, float]]) -> None:
        self.n_steps, self.seconds, self.marks = self.n_steps + 1, self.seconds + seconds, marks

    def left(self, step: _Step, now: float) -> float:
        """Seconds that a step of this kind still needs."""
        whole = self.seconds / self.n_steps
        if step.began is None:
            return whole
        if not (self.marks and step.marks):
            return max(whole - (now - step.began), 0.0)
        shares, seconds = np.array([(0.0, 0.0), *self.marks]).T
        spent = float(np.interp(step.share, shares, seconds)) / max(float(seconds[-1]), 1e-300)
        return whole * (1.0 - spent)


class Progress(AbstractContextManager):
    """Counts steps that are done, from any thread, and estimates how long the others will take.

    Steps of one kind are taken to last alike, and nothing is assumed of a kind before a step of it is done:
    until then the time left is a lower bound, and is called that.

    Parameters
    ----------
    title : str
        What is in progress.
    steps : mapping of hashable to hashable
        The steps in the order in which they are taken up, each with its kind.
    unit : str
        What a step is, in the plural.
    shown : bool
        Whether to say anything at all.
    n_slots : int
        Number of steps at work at a time.

    Examples
    --------
    >>> with Progress("search", {"a": "slow", "b": "quick"}, "paths", shown=False) as progress:
    ...     progress.begin("a")
    ...     progress.reach("a", 0.5)
    ...     progress.finish("a")
    >>> progress.n_done
    1
    """

    def __init__(
        self,
        title: str,
        steps: Mapping[Any, Hashable],
        unit: str,
        *,
        shown: bool,
        n_slots: int = 1,
    ) -> None:
        self.title, self.unit, self.shown = title, unit, shown
        self.n_slots = max(n_slots, 1)
        self.n_done, self.n_steps = 0, len(steps)
        self._open = {key: _Step(kind) for key, kind in steps.items()}
        self._known: dict[Hashable, _Known] = {}
        self._lock, self._stack, self._over = Lock(), ExitStack(), Event()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        self._began = self._told = time.monotonic()
        if not self.shown:
            return self
        if sys.stderr.isatty() and importlib.util.find_spec("rich"):
            self._bar = self._stack.enter_context(_rich_bar())
            self._row = self._bar.add_task(self.title, total=self.n_steps, done="", left="")
        ticker = Thread(target=self._tick, daemon=True)
        ticker.start()
        self._stack.callback(ticker.join)
        self._stack.callback(self._over.set)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def begin(self, key: Any) -> None:
        """Record that a step has begun."""
        with self._lock:
            self._open[key].began = time.monotonic()

    def reach(self, key: Any, share: float) -> None:
        """Record the share of a running step that is done."""
        with self._lock:
            step, now = self._open[key], time.monotonic()
            assert step.began is not None
            step.marks.append((share, now - step.began))
            self._tell(now)

    def finish(self, key: Any, seconds: float | None = None) -> None:
        """Record that a step is done, with its seconds if it ran elsewhere."""
        with self._lock:
            step, now = self._open.pop(key), time.monotonic()
            self.n_done += 1
            if seconds is None and step.began is not None:
                seconds = now - step.began
            if seconds is not None:  # else it was done before, and teaches nothing
                self._known.setdefault(step.kind, _Known()).learn(seconds, step.marks)
            self._tell(now)

    def _tick(self) -> None:
        """Print progress at intervals, even while no step ends."""
        while not self._over.wait(_SECONDS_BETWEEN_LINES):
            with self._lock:
                try:
                    self._tell(time.monotonic())
                except (OSError, ValueError):  # nobody reads stderr any more
                    return

    def _tell(self, now: float) -> None:
        if self._bar is not None:
            here = self.n_done + sum(step.share for step in self._open.values())
            self._bar.update(self._row, completed=here, done=self._so_far(), left=self._outlook(now))
        elif self.shown and (now - self._told >= self._pause(now) or not self._open):
            self._told = now
            print(f"[{self.title}] {self._so_far()}, {self._outlook(now)}", file=sys.stderr, flush=True)

    def _pause(self, now: float) -> float:
        if sys.stderr.isatty():
            return _SECONDS_BETWEEN_LINES
        longer = min(_SHARE_BETWEEN_LINES * (now - self._began), _LONGEST_SILENCE)
        return max(_SECONDS_BETWEEN_LINES, longer)

    def _so_far(self) -> str:
        shares = [f"{100.0 * step.share:.0f} %" for step in self._open.values() if step.began is not None]
        said = f"{self.n_done} of {self.n_steps} {self.unit}"
        if not shares:
            return said
        return f"{said}, {len(shares)} at work" + (
            f" ({', '.join(shares)})" if len(shares) <= _MOST_NAMED else ""
        )

    def _outlook(self, now: float) -> str:
        if not self._open:
            return f"done in {_duration(now - self._began)}"
        left = self._schedule(now)
        if all(step.kind in self._known for step in self._open.values()):
            return f"about {_duration(left)} left"
        unit = 60.0 if left >= 60.0 else 1.0
        at_least = unit * (left // unit)  # not rounded up
        return f"at least {_duration(at_least)} left" if at_least else "time left not known yet"

    def _left(self, step: _Step, now: float) -> float:
        """Seconds that a step still needs; without finished steps of its kind, a bound from running ones."""
        known = self._known.get(step.kind)
        if known is not None:
            return known.left(step, now)
        if step.began is not None:
            return 0.0
        # as long as another of its kind has lasted so far
        begun = [other.began for other in self._open.values() if other.kind == step.kind]
        return max((now - began for began in begun if began is not None), default=0.0)

    def _schedule(self, now: float) -> float:
        """Seconds until the last step ends: those at work go on, the others begin in their turn."""
        steps, n = self._open.values(), self.n_slots
        ends = [self._left(step, now) for step in steps if step.began is not None]
        waiting = [self._left(step, now) for step in steps if step.began is None]
        ends += [0.0] * (n - len(ends))
        for needed in waiting:
            ends[ends.index(min(ends))] += needed
        return max(ends)


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]},"),
        TimeElapsedColumn(),
        TextColumn("so far, {task.fields[left]}"),
        console=Console(stderr=True),
    )


def _duration(seconds: float) -> str:
    if seconds < 60.0:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
