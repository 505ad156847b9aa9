"""The two verbs of an engine."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Engine(Protocol):
    """Places data once, then maps small arrays over them; results come back in order.

    Attributes
    ----------
    n_slots : int
        How many calls of a `map` run side by side: data are best placed in as many parts.
    is_here : bool
        Whether the data stay in the memory of this process.
    """

    @property
    def n_slots(self) -> int: ...

    @property
    def is_here(self) -> bool: ...

    def place(self, load: Callable, sources: Sequence[Any], *, name: str = "load") -> list:
        """Make load(source) of every source where it will be worked on; the results are only for `map`."""
        ...

    def map(self, function: Callable, *columns: Sequence[Any], keep: bool = False, name: str = "map") -> list:
        """[function(*arguments) for arguments in zip(*columns)], in order.

        An argument may be a thing placed, or kept by an earlier `map`. With `keep` the results stay where
        they were made, and are only for `map`. Functions change nothing they are given, so that a call may
        be repeated elsewhere.
        """
        ...


class EngineLostError(RuntimeError):
    """The engine cannot go on: the machines behind it are gone."""
