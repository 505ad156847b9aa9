"""Time to an accuracy: the loosest tolerance that suffices, and the least of alternated repeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

LADDER = tuple(10.0**-power for power in range(2, 11))  # 1e-2 .. 1e-10


def loosest(suffices: Callable[[float], bool], ladder: Sequence[float] = LADDER, hint: float | None = None):
    """The loosest tolerance that suffices, or None; the ladder runs from loose to tight.

    The search begins at `hint` (else at the loosest) and walks away from it, so that few tolerances are tried
    where the answer is about known; a tighter tolerance is taken to be at least as good.

    Examples
    --------
    >>> from mmtfl_lab.bench.timing import loosest
    >>> loosest(lambda tolerance: tolerance < 5e-5)
    1e-05
    >>> loosest(lambda tolerance: tolerance < 5e-5, hint=1e-8)
    1e-05
    >>> loosest(lambda tolerance: False) is None
    True
    """
    place = 0 if hint is None else min(range(len(ladder)), key=lambda i: abs(ladder[i] / hint - 1.0))
    if suffices(ladder[place]):
        while place > 0 and suffices(ladder[place - 1]):
            place -= 1
        return ladder[place]
    return next((tolerance for tolerance in ladder[place + 1 :] if suffices(tolerance)), None)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds a call takes, and what it returns."""
    begin = time.perf_counter()
    value = call()
    return time.perf_counter() - begin, value


def alternate(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least seconds of every call over rounds in which each is called once.

    One round after another, and not one call after another: a machine that slows down for a while then slows
    all of them.
    """
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            best[name] = min(best[name], timed(call)[0])
    return best
