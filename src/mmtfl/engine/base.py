"""The two verbs of an engine."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Engine(Protocol):
    """Places the tasks once, then maps small arrays over them; results come back in task order."""

    def place(self, items: Sequence[Any]) -> Any:
        """Move the items to where they will be worked on; the result is only for `map`."""

    def map(self, function: Callable, placed: Any, *per_task: Sequence[Any]) -> list:
        """[function(item, *arguments) for every item], in order; an item may keep state between calls."""
