"""Columns of targets and of task labels: their kind, and their values as an estimator takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmtfl.tables.column_encoding import MISSING, as_numbers, kind_of, looks_decimal, texts, values_as_text
from mmtfl.tables.reading import TableError
from mmtfl.tasks.frames import abbreviate
from mmtfl.tasks.wording import count

Class = str | int | float | bool
_WHOLE = re.compile(r"-?[1-9]\d{0,17}|0")  # an integer as Python prints it: 7, not 007 or +7


def learn_classes(
    columns: Sequence[Any], classify: bool | None
) -> tuple[tuple[Class, Class] | None, str | None]:
    """Find the two classes of the targets, or None for numbers; and a note if this was a guess."""
    kinds = [kind_of(column) for column in columns]
    for column, kind in zip(columns, kinds, strict=True):
        if kind == "date":
            raise TableError(f"Target {column.name!r} holds dates: put a number in its place.")
    values = sorted({value for column in columns for value in _classes_in(column)}, key=_order)
    numeric = all(kind == "number" for kind in kinds)
    if classify is False or (classify is None and numeric and len(values) != 2):
        if not numeric:
            wrong = next(c.name for c, kind in zip(columns, kinds, strict=True) if kind != "number")
            raise TableError(
                f"Target {wrong!r} does not hold numbers, so it cannot be regressed: drop --regress."
            )
        return None, None
    if len({kind == "number" for kind in kinds}) > 1:
        raise TableError(
            f"Targets {abbreviate([c.name for c in columns])} mix numbers and classes: fit them apart."
        )
    if len(values) != 2:
        raise TableError(_not_two(columns, values))
    note = None
    if numeric and classify is None:
        note = (
            f"target {columns[0].name!r} has the values {values[0]} and {values[1]} only: taken for two "
            "classes (--regress for numbers)"
        )
    if any(
        isinstance(value, float) for value in values
    ):  # scikit-learn takes no floats as classes, but their texts
        values = sorted({value for column in columns for value in values_as_text(column)[1]})
    return (values[0], values[1]), note


def _classes_in(column: Any) -> list[Class]:
    """Distinct values of a column: whole numbers, numbers, booleans or text."""
    kind = kind_of(column)
    if kind == "boolean":
        return [bool(value) for value in column.dropna().unique()]
    if kind == "number":
        numbers = np.unique(as_numbers(column, f"Target {column.name!r}"))
        return [int(v) if float(v).is_integer() else float(v) for v in numbers[np.isfinite(numbers)]]
    return list(values_as_text(column)[1])


def _order(value: Class) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _not_two(columns: Sequence[Any], values: list[Class]) -> str:
    # of several targets, the message names the one with the most classes
    name, own = max(((c.name, _classes_in(c)) for c in columns), key=lambda found: len(found[1]))
    if not own:
        return f"Target {name!r} has no value at all. {MISSING}."
    if len(own) == 2:
        return (
            f"Targets {abbreviate([c.name for c in columns])} have different classes "
            f"({abbreviate([str(v) for v in values])}): use the same two in all of them, such as 0 and 1."
        )
    written = [str(value) for value in own]
    if looks_decimal(written):
        example = next(text for text in written if "," in text)
        return (
            f"Target {name!r} holds text such as {example!r}: if the comma is the decimal mark, use "
            "--decimal ','."
        )
    if len(own) > 2:
        values = sorted(own, key=_order)
    if len(values) < 2:
        return f"Target {name!r} has a single class, {values[0]!r}: two are needed to tell them apart."
    return (
        f"Target {name!r} has {len(values)} classes ({abbreviate([str(v) for v in values])}), and two can be "
        "told apart: make a column of 0 and 1 for each class and give each as a --target."
    )


def class_codes(column: Any, classes: tuple[Class, Class]) -> np.ndarray:
    """Encode the two classes as 0 and 1, -1 where the class is missing."""
    if isinstance(classes[0], str):
        codes, found = values_as_text(column)
        wanted: list[Any] = [*found]
    else:
        values = as_numbers(column, f"Target {column.name!r}")
        numbers, codes = np.unique(values, return_inverse=True)
        codes = np.where(np.isnan(values), -1, codes)
        wanted = [*numbers]
    places = [*(next((i for i, c in enumerate(classes) if c == value), None) for value in wanted), -1]
    out = np.array([-2 if place is None else place for place in places])[codes]
    if (out == -2).any():
        row = int((out == -2).argmax())
        raise TableError(
            f"Target {column.name!r} is {str(column.iloc[row])!r} in data row {row + 1}, but the classes are "
            f"{classes[0]!r} and {classes[1]!r}: correct it."
        )
    return out


def label_kind(column: Any) -> str:
    """Kind of the labels of a task column: "int" if all are plain whole numbers, else "str"."""
    kind = kind_of(column)
    if kind == "date":
        raise TableError(f"Task column {column.name!r} holds dates: put a name or a number in their place.")
    if kind == "boolean" or column.isna().all():
        return "str"
    _, found = values_as_text(column)
    if all(_WHOLE.fullmatch(value) for value in found):
        return "int"
    if kind == "number":
        wrong = next(value for value in found if not _WHOLE.fullmatch(value))
        raise TableError(
            f"Task column {column.name!r} holds the number {wrong}: labels are names or whole numbers."
        )
    return "str"


def read_labels(column: Any, kind: str) -> np.ndarray:
    """Read task labels of the given kind, one per row."""
    missing = column.isna().to_numpy()
    if missing.any():
        raise TableError(
            f"Task column {column.name!r} has {count(missing.sum(), 'row')} without a label (first in data "
            f"row {missing.argmax() + 1}): no label is not a new task. Fill them in, or leave these rows out "
            f"(all commands but predict: --drop-unlabelled). {MISSING}."
        )
    words = texts(column)
    if kind == "str":
        return words.astype(str)
    wrong = [i for i, word in enumerate(words) if not _WHOLE.fullmatch(word)]
    if wrong:
        raise TableError(
            f"Task column {column.name!r} is {words[wrong[0]]!r} in data row {wrong[0] + 1}, but the model "
            "knows its tasks by whole numbers: correct the label."
        )
    return words.astype(np.int64)
