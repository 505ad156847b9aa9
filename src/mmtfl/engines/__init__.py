"""Engines run the work of the tasks; they know nothing of the maths, and do not change the answer.

The interface of an engine: place data, and map functions over them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Engine(Protocol):
    """An engine places data once, then maps functions of them and of small arrays; results are in order."""

    @property
    def n_slots(self) -> int:
        """Number of calls of a `map` that run in parallel: data are best placed in as many parts."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether the data stay in the memory of this process."""
        ...

    def place(self, load: Callable, sources: Sequence[Any], *, name: str = "load") -> list:
        """Call load(source) for every source where the data will be used; only `map` can use the results."""
        ...

    def map(self, function: Callable, *columns: Sequence[Any], keep: bool = False, name: str = "map") -> list:
        """Return ``[function(*arguments) for arguments in zip(*columns)]``.

        An argument may be a result of `place`, or of an earlier `map` with `keep`. With `keep` the results
        stay where they were computed, and only `map` can use them. Functions must not change their
        arguments, so that a call can be repeated elsewhere.
        """
        ...


class EngineLostError(RuntimeError):
    """The engine cannot go on, because its scheduler or workers are lost."""
