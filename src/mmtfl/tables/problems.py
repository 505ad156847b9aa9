"""All that is wrong with a table in one message, so that it is mended in one go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mmtfl.tables.columns import MISSING
from mmtfl.tables.reading import TableError
from mmtfl.tasks.frames import abbreviate
from mmtfl.tasks.wording import count

__all__ = ["Problems"]

MOST_SHOWN = 9  # a message that fills a screen is not read


class Problems:
    """Refusals of a table, collected and raised together.

    Examples
    --------
    >>> from mmtfl.tables.problems import Problems
    >>> from mmtfl.tables.reading import TableError
    >>> problems = Problems()
    >>> with problems.of("age"):
    ...     raise TableError("Column 'age' holds dates.")
    >>> with problems.of("born"):
    ...     raise TableError("Column 'born' holds dates.")
    >>> with problems.of():
    ...     raise TableError("Target 'y' has no value at all.")
    >>> problems.check()
    Traceback (most recent call last):
    ...
    mmtfl.tables.reading.TableError: The table has 2 problems:
      1. Column 'age' holds dates. The same holds for 'born'.
      2. Target 'y' has no value at all.
    """

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, list[str]]] = {}

    @contextmanager
    def of(self, column: str | None = None) -> Iterator[None]:
        """Go on after a refusal; those of several columns that say the same are told as one."""
        try:
            yield
        except TableError as error:
            text = str(error)
            alike = text if column is None else text.replace(repr(column), "", 1)
            self._found.setdefault(alike, (text, []))[1].append(column or "")

    def check(self) -> None:
        """Raise what was found: one problem as it is, several as a list."""
        found = [_with_others(text, columns[1:]) for text, columns in self._found.values()]
        if len(found) == 1:
            raise TableError(found[0])
        if found:
            raise TableError("\n".join([f"The table has {len(found)} problems:", *_listed(found)]))


def _listed(found: list[str]) -> list[str]:
    """One line for each problem, up to some; what counts as missing is said once, at the end."""
    once = f" {MISSING}."
    lines = [f"  {i}. {text.replace(once, '')}" for i, text in enumerate(found[:MOST_SHOWN], start=1)]
    if len(found) > MOST_SHOWN:
        more = count(len(found) - MOST_SHOWN, "problem")
        lines.append(f"  ... and {more} more, told once these are solved.")
    return [*lines, *([f" {once}"] if any(once in text for text in found) else [])]


def _with_others(text: str, others: list[str]) -> str:
    return f"{text} The same holds for {abbreviate(others)}." if others else text
