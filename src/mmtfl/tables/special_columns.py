"""Columns that are no features: targets, task labels, groups, times, weights and offsets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from mmtfl.tables.cells import Cells, as_levels, as_text, read_cells
from mmtfl.tables.reading import TableError
from mmtfl.wording import abbreviate, count

_WHOLE = re.compile(r"-?[1-9]\d{0,17}|0")  # an integer as Python prints it: 7, not 007 or +7
Class = str | int | float | bool


def cells_of(column: Any, missing: Sequence[str] = (), *, as_words: bool = False) -> Cells:
    """The cells of a column of a frame."""
    return read_cells(nw.from_native(column, series_only=True), missing, as_words=as_words)


def numbers_of(column: Any, what: str, missing: Sequence[str] = ()) -> np.ndarray:
    """A column as numbers, NaN where a cell is missing or no number."""
    cells = cells_of(column, missing)
    if cells.kind == "truth":
        return class_codes(column, (False, True))
    if cells.kind != "number":
        kind = "dates" if cells.kind == "date" else f"text such as {cells.words[0]!r}"
        raise TableError(f"{what} {column.name!r} must hold numbers, but holds {kind}: correct it.")
    assert cells.numbers is not None
    return cells.numbers


def none_missing(numbers: np.ndarray, what: str, name: str) -> np.ndarray:
    """Refuse missing values; the numbers."""
    missing = np.isnan(numbers)
    if missing.any():
        raise TableError(
            f"{what} {name!r} is missing in {missing.sum()} of {len(missing)} rows (first in data row "
            f"{missing.argmax() + 1}): fill it in, or leave these rows out."
        )
    return numbers


def observed(column: Any, missing: Sequence[str] = ()) -> np.ndarray:
    """Which cells of a column have a value."""
    return ~cells_of(column, missing).missing


# -- targets -------------------------------------------------------------------------------------------------


def learn_classes(
    columns: Sequence[Any], classify: bool | None
) -> tuple[tuple[Class, Class] | None, str | None]:
    """Find the two classes of the targets, or None for numbers; and a note if this was a guess."""
    read = [cells_of(column) for column in columns]
    for column, cells in zip(columns, read, strict=True):
        if cells.kind == "date":
            raise TableError(f"Target {column.name!r} holds dates: put a number in its place.")
    values = sorted({v for cells in read for v in _classes_in(cells)}, key=_text_last)
    numeric = all(cells.kind == "number" for cells in read)
    if classify is False or (classify is None and numeric and len(values) != 2):
        if not numeric:
            wrong = next(c.name for c, cells in zip(columns, read, strict=True) if cells.kind != "number")
            raise TableError(
                f"Target {wrong!r} does not hold numbers, so it cannot be regressed: drop --regress."
            )
        return None, None
    if len({cells.kind == "number" for cells in read}) > 1:
        raise TableError(
            f"Targets {abbreviate([c.name for c in columns])} mix numbers and classes: write the classes as "
            "0 and 1, which are then fitted beside the numbers."
        )
    if len(values) != 2:
        raise TableError(_not_two([c.name for c in columns], [_classes_in(cells) for cells in read]))
    note = None
    if numeric and classify is None:
        note = (
            f"target {columns[0].name!r} has the values {values[0]} and {values[1]} only: taken for two "
            "classes (--regress for numbers)"
        )
    # scikit-learn takes no floats as classes, but their texts
    if any(isinstance(value, float) for value in values):
        values = sorted(as_text(value) for value in values)
    return (values[0], values[1]), note


def _classes_in(cells: Cells) -> list[Class]:
    """Distinct values of a column: whole numbers, numbers, booleans or text."""
    if cells.kind == "number":
        assert cells.numbers is not None
        numbers = np.unique(cells.numbers[~np.isnan(cells.numbers)])
        return [int(v) if float(v).is_integer() else float(v) for v in numbers]
    return [word == "True" for word in cells.words] if cells.kind == "truth" else list(cells.words)


def _text_last(value: Class) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _not_two(names: Sequence[str], found: Sequence[list[Class]]) -> str:
    # of several targets, the message names the one with the most classes
    name, own = max(zip(names, found, strict=True), key=lambda pair: len(pair[1]))
    shown = abbreviate([str(value) for value in sorted(own, key=_text_last)])
    if not own:
        return f"Target {name!r} has no value at all."
    if len(own) == 2:
        return (
            f"Targets {abbreviate(names)} have different classes: use the same two in all of them, such as 0 "
            "and 1."
        )
    if len(own) < 2:
        return f"Target {name!r} has a single class, {own[0]!r}: two are needed to tell them apart."
    return (
        f"Target {name!r} has {len(own)} classes ({shown}), and two can be told apart: make a column of 0 "
        "and 1 for each class and give each as a --target."
    )


def class_codes(column: Any, classes: tuple[Class, Class]) -> np.ndarray:
    """Encode the two classes as 0 and 1, NaN where the class is missing."""
    cells = cells_of(column)
    if cells.kind == "number":
        cells = as_levels(cells)
    if cells.codes is None:
        raise TableError(f"Target {column.name!r} must hold {classes[0]!r} and {classes[1]!r}: correct it.")
    place = dict(zip(map(as_text, classes), (0.0, 1.0), strict=True))
    if isinstance(classes[0], bool):
        place |= {"0": 0.0, "1": 1.0}  # as truth values are written too
    codes = np.array([*(place.get(word, -1.0) for word in cells.words), np.nan])[cells.codes]
    if (codes == -1.0).any():
        row = int((codes == -1.0).argmax())
        raise TableError(
            f"Target {column.name!r} is {str(column.iloc[row])!r} in data row {row + 1}, but the classes are "
            f"{classes[0]!r} and {classes[1]!r}: correct it."
        )
    return codes


# -- labels and times ----------------------------------------------------------------------------------------


def label_kind(column: Any) -> str:
    """Kind of the labels of a task column: "int" if all are plain whole numbers, else "str"."""
    cells = cells_of(column, as_words=True)
    is_whole = bool(cells.words) and all(_WHOLE.fullmatch(word) for word in cells.words)
    return "int" if is_whole else "str"


def read_labels(column: Any, kind: str, *, what: str = "Task column") -> np.ndarray:
    """Read task labels of the given kind, one per row, or other labels."""
    cells = cells_of(column, as_words=True)
    if cells.missing.any():
        new = "no label is not a new task" if what == "Task column" else "a group is needed for every row"
        raise TableError(
            f"{what} {column.name!r} has {count(cells.missing.sum(), 'row')} without a label (first in data "
            f"row {cells.missing.argmax() + 1}): {new}. Fill them in, or leave these rows out."
        )
    words = np.array(cells.words, dtype=object)[cells.codes] if cells.words else np.empty(0, dtype=object)
    if kind == "str":
        return words.astype(str)
    wrong = [i for i, word in enumerate(words) if not _WHOLE.fullmatch(word)]
    if wrong:
        raise TableError(
            f"Task column {column.name!r} is {words[wrong[0]]!r} in data row {wrong[0] + 1}, but tasks are "
            "known by whole numbers: correct the label."
        )
    return words.astype(np.int64)


def read_times(column: Any) -> np.ndarray:
    """Read times as numbers to sort by: numbers as they are, dates as days since 1970."""
    cells = cells_of(column)
    if cells.kind not in ("number", "date"):
        raise TableError(
            f"Time column {column.name!r} holds text such as {cells.words[0]!r}: write numbers, or dates as "
            "2024-05-31 (also with a time, 2024-05-31 14:30)."
        )
    assert cells.numbers is not None
    return none_missing(cells.numbers, "Time column", column.name)
