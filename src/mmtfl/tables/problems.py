"""What is refused in a table: missing values, and all problems told in one message."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mmtfl.tables.column_encoding import MISSING
from mmtfl.tables.reading import TableError
from mmtfl.wording import abbreviate, count

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


# -- missing values ------------------------------------------------------------------------------------------


def check_missing(
    frame: Any, names: Sequence[str], task: str | None = None, *, absent: str = "error"
) -> None:
    """Refuse missing values; where tasks may lack columns, those of tasks that have some of the values."""
    missing, lacking = frame.isna()[list(names)], ""  # in this order: picking columns copies them
    if task is not None and task in frame.columns and missing.any(axis=None):
        whole = missing.groupby(frame[task].to_numpy()).transform("all")
        if absent == "allow":
            missing &= ~whole
        elif whole.any(axis=None):
            lacks = whole.columns[whole.any()][0]
            label = frame[task][whole[lacks]].iloc[0]
            lacking = f" Task {str(label)!r} has no value of {lacks!r}: --absent-features allow fits it so."
    counts = missing.sum()
    counts = counts[counts > 0]
    if len(counts):
        listed = ", ".join(f"{name!r} {count}" for name, count in counts.iloc[:8].items())
        more = f", ... ({len(counts)} columns in all)" if len(counts) > 8 else ""
        raise TableError(
            f"Missing values, of {len(frame)} rows: {listed}{more}. Fill them in with --impute mean (or "
            f"median, most_frequent) when fitting, or leave columns out with --drop.{lacking} {MISSING}."
        )


def check_none_missing(numbers: np.ndarray, what: str, name: str) -> None:
    """Refuse missing values of a target or weight."""
    missing = np.isnan(numbers)
    if missing.any():
        raise TableError(
            f"{what} {name!r} is missing in {missing.sum()} of {len(missing)} rows (first in data row "
            f"{missing.argmax() + 1}): fill it in, or leave these rows out with --drop-unlabelled. {MISSING}."
        )
