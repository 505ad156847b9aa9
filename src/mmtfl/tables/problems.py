"""Problems of a table, told in one message."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mmtfl.tables.column_encoding import MISSING
from mmtfl.tables.reading import TableError
from mmtfl.tasks.frames import abbreviate
from mmtfl.tasks.wording import count

MOST_SHOWN = 9  # nobody reads a message that fills the screen


class Problems:
    """Errors of a table, collected and raised together, so that one message names all of them.

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
        """Collect an error and go on; the same error of several columns is reported once."""
        try:
            yield
        except TableError as error:
            text = str(error)
            alike = text if column is None else text.replace(repr(column), "", 1)
            self._found.setdefault(alike, (text, []))[1].append(column or "")

    def check(self) -> None:
        """Raise what was collected: a single error as it is, several as a list."""
        found = [
            text if len(columns) == 1 else f"{text} The same holds for {abbreviate(columns[1:])}."
            for text, columns in self._found.values()
        ]
        if not found:
            return
        if len(found) == 1:
            raise TableError(found[0])
        once = f" {MISSING}."  # the note on missing values comes once, at the end
        lines = [f"  {i}. {text.replace(once, '')}" for i, text in enumerate(found[:MOST_SHOWN], start=1)]
        if len(found) > MOST_SHOWN:
            more = count(len(found) - MOST_SHOWN, "problem")
            lines.append(f"  ... and {more} more, told once these are solved.")
        if any(once in text for text in found):
            lines.append(f" {once}")
        raise TableError("\n".join([f"The table has {len(found)} problems:", *lines]))
