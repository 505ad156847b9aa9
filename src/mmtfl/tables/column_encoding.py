"""One column of a table: its kind, and its values as features, targets or task labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.json_values import expect
from mmtfl.tables.reading import TableError
from mmtfl.wording import abbreviate, count

MISSING = "Empty cells, NA, NaN, null and None count as missing"
_MANY_LEVELS = 50  # with more, text that hardly repeats is taken for an identifier
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([ T].*)?")
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?")
_GROUPED = re.compile(r"[+-]?\d{1,3}([.,' ]\d{3})+([.,]\d+)?")  # 1.000,00
_QUANTITY = re.compile(r"(?P<before>[$€£<>~]?) ?[+-]?\d+([.,]\d+)? ?(?P<unit>[%‰€$£]| [a-zA-Zµ°/²³]{1,6})?")
_WHOLE = re.compile(r"-?[1-9]\d{0,17}|0")  # an integer as Python prints it: 7, not 007 or +7
_TRUTH = ("False", "True")
_CORRECT = "correct them, or leave the column out with --drop"
Class = str | int | float | bool


@dataclass(frozen=True)
class Levels:
    """The levels of a column, each of which has an indicator.

    Of two levels only the second has one, because that of the first would be redundant.
    """

    name: str
    levels: tuple[str, ...]

    @property
    def coded(self) -> tuple[str, ...]:
        """The levels that have an indicator."""
        return self.levels[1:] if len(self.levels) == 2 else self.levels

    @property
    def features(self) -> list[str]:
        """Names of the indicators."""
        return [f"{self.name}={level}" for level in self.coded]

    def unknown(self, codes: np.ndarray, found: Sequence[str]) -> tuple[str, int, int] | None:
        """The first unknown level, how many rows have such ones, and the first; None if all are known.

        `codes` are positions in the texts `found`, -1 where a value is missing.
        """
        new = [i for i, value in enumerate(found) if value not in self.levels]
        if not new:
            return None
        rows = np.isin(codes, new)
        first = int(rows.argmax())
        return found[int(codes[first])], int(rows.sum()), first

    def indicators(self, codes: np.ndarray, found: Sequence[str], fill: str | None = None) -> np.ndarray:
        """Indicators of the levels, (n_rows, n_indicators); zeros for unknown levels, `fill` for missing."""
        place = {level: i for i, level in enumerate(self.coded)}
        missing = -1 if fill is None else place.get(fill, -1)
        places = np.array([*(place.get(value, -1) for value in found), missing])[codes]
        return (places[:, None] == np.arange(len(place))).astype(np.float64)


@dataclass(frozen=True)
class FeatureColumn:
    """How one column becomes features: a number stays as it is or becomes a curve, a level an indicator."""

    name: str
    levels: tuple[str, ...] | None = None  # in order; None for a column of numbers
    fill: float | str | None = None  # replaces missing values; None where missing values are refused
    knots: tuple[float, ...] | None = None  # of a curve; None for a straight line

    @classmethod
    def learn(
        cls, series: Any, *, as_levels: bool = False, impute: str | None = None, splines: str | None = None
    ) -> FeatureColumn:
        """Decide from a column how it is encoded; a number may become a curve ("always"), or if it can."""
        name = series.name
        if series.isna().all():
            raise TableError(f"Column {name!r} has no value at all: leave it out with --drop. {MISSING}.")
        kind = "text" if as_levels else kind_of(series)
        if kind == "date":
            raise _date(name)
        if kind == "number":
            numbers = finite_numbers(series, "Column", _CORRECT)
            few = splines == "if it can" and len(np.unique(numbers)) < FEWEST_VALUES
            knots = None if splines is None or few else learn_knots(numbers, name)
            return cls(name, fill=_statistic(numbers, impute) if impute else None, knots=knots)
        if splines == "always":
            raise TableError(f"Column {name!r} does not hold numbers: leave it out of --splines.")
        if kind == "text" and not as_levels:
            _check_text(series)
        codes, found = values_as_text(series)
        levels = tuple(sorted(set(found))) if kind == "text" else _TRUTH
        fill = _statistic(np.array([*found, None], dtype=object)[codes], "most_frequent") if impute else None
        return cls(name, levels, fill)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> FeatureColumn:
        """Make the column from what `as_dict` gave; it is checked, because it may come from a file."""
        levels = plain["levels"]
        return cls(
            name=expect(plain["name"], str),
            levels=None if levels is None else tuple(expect(level, str) for level in expect(levels, list)),
            fill=expect(plain["fill"], *((int, float) if levels is None else (str,)), None),
            knots=_saved_knots(plain.get("knots")),
        )

    @property
    def features(self) -> list[str]:
        """Names of the features that the column becomes."""
        if self.knots is not None:
            return [f"{self.name}~{i}" for i in range(1, n_functions(self.knots) + 1)]
        if self.levels is None:
            return [self.name]
        return Levels(self.name, self.levels).features

    def encode(self, series: Any, *, unknown_level: str = "error") -> np.ndarray:
        """The features of the column, (n_rows, n_features)."""
        if self.levels is None:
            numbers = finite_numbers(series, "Column", _CORRECT)
            if self.fill is not None:
                numbers = np.where(np.isnan(numbers), self.fill, numbers)
            return numbers[:, None] if self.knots is None else spline_basis(numbers, self.knots)
        levels, (codes, found) = Levels(self.name, self.levels), values_as_text(series)
        unknown = levels.unknown(codes, found)
        if unknown is not None and unknown_level == "error":
            level, n_rows, first = unknown
            raise TableError(
                f"Column {self.name!r} has the level {level!r}, which the model does not know "
                f"({count(n_rows, 'row')} with new levels, the first is data row {first + 1}): "
                f"its levels are {abbreviate(self.levels)}. Correct it, or leave "
                "these rows out; predict also takes --unknown-level ignore."
            )
        out = levels.indicators(codes, found, None if self.fill is None else str(self.fill))
        if self.fill is None:
            out[codes < 0] = np.nan  # only where a task may lack the feature
        return out


def _saved_knots(saved: Any) -> tuple[float, ...] | None:
    if saved is None:
        return None
    knots = tuple(float(expect(knot, int, float)) for knot in expect(saved, list))
    if len(knots) < 3 or not np.all(np.isfinite(knots)) or not np.all(np.diff(knots) > 0):
        raise ValueError(f"knots {saved!r} do not rise")
    return knots


def kind_of(series: Any) -> str:
    """Kind of a column: number, boolean, text or date."""
    kinds = require("pandas.api.types", "frames")
    if isinstance(series.dtype, require("pandas", "frames").CategoricalDtype):
        return "boolean" if set(series.cat.categories) <= {True, False} else "text"
    if kinds.is_bool_dtype(series.dtype):
        return "boolean"
    if kinds.is_complex_dtype(series.dtype):
        raise TableError(f"Column {series.name!r} holds complex numbers: leave it out with --drop.")
    if kinds.is_numeric_dtype(series.dtype):
        return "number"
    inferred = kinds.infer_dtype(series, skipna=True)
    if inferred == "boolean":
        return "boolean"
    if inferred in ("string", "categorical"):
        return "text"
    if inferred in ("integer", "floating", "mixed-integer-float", "decimal", "empty"):
        return "number"
    if inferred.startswith(("date", "time", "period")):
        return "date"
    raise TableError(
        f"Column {series.name!r} holds values of kind {inferred}, expected numbers or text: convert it, or "
        "leave it out with --drop."
    )


def as_numbers(series: Any, what: str) -> np.ndarray:
    """Read a column as float64, NaN where a value is missing."""
    pandas = require("pandas", "frames")
    kinds = require("pandas.api.types", "frames")
    if kinds.is_bool_dtype(series.dtype) or kinds.is_numeric_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind_of(series) == "date":
        raise _date(series.name)
    numbers = pandas.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.isnan(numbers) & ~series.isna().to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        text = str(series.iloc[row])
        hint = ", or use --decimal ',' if the comma is the decimal mark" if looks_decimal([text]) else ""
        raise TableError(
            f"{what} must hold numbers, but has the text {text!r} in data row {row + 1} "
            f"({count(wrong.sum(), 'such row')}): correct it{hint}."
        )
    return numbers


def finite_numbers(series: Any, what: str, remedy: str = "correct them") -> np.ndarray:
    """Read a column of finite numbers, NaN where one is missing."""
    numbers = as_numbers(series, f"{what} {series.name!r}")
    infinite = np.isinf(numbers)
    if infinite.any():
        raise TableError(
            f"{what} {series.name!r} has {count(infinite.sum(), 'infinite value')} (first in data row "
            f"{infinite.argmax() + 1}): {remedy}."
        )
    return numbers


def values_as_text(series: Any) -> tuple[np.ndarray, list[str]]:
    """Read a column as positions in a list of its distinct texts, -1 where a value is missing."""
    codes, found = require("pandas", "frames").factorize(series)
    floats = (float, np.floating)  # pandas makes floats of whole numbers if one value is missing
    return codes, [str(int(v) if isinstance(v, floats) and float(v).is_integer() else v) for v in found]


def _statistic(values: np.ndarray, strategy: str) -> Any:
    from sklearn.impute import SimpleImputer

    missing = np.nan if values.dtype.kind == "f" else None
    imputer = SimpleImputer(strategy=strategy, missing_values=missing).fit(values[:, None])
    return imputer.statistics_[0].item() if values.dtype.kind == "f" else str(imputer.statistics_[0])


# -- text that should not become levels -------------------------------------------------------------------


def _check_text(series: Any) -> None:
    """Refuse text that should not become levels: dates, numbers with typing errors, identifiers."""
    name, (codes, found) = series.name, values_as_text(series)
    seen = codes[codes >= 0]
    if all(_DATE.fullmatch(value.strip()) for value in found):
        raise _date(name)
    if looks_decimal(found):
        example = next(value for value in found if "," in value)
        raise TableError(
            f"Column {name!r} holds text such as {example!r}: if the comma is the decimal mark, use "
            "--decimal ','; if these are levels, use --categories."
        )
    _check_written(name, found)
    is_number = np.array([_is_number(value) for value in found])
    # digits alone stayed text because of leading zeros, so they are names
    if is_number[seen].mean() > 0.5 and not all(re.fullmatch(r"\d+", value) for value in found):
        row = int(np.isin(codes, np.flatnonzero(~is_number | is_number.all())).argmax())
        raise TableError(
            f"Column {name!r} is mostly numbers, but has the text {found[codes[row]]!r} in data row "
            f"{row + 1}: correct it (an empty cell is a missing value), or use --categories if these are "
            "levels."
        )
    if len(found) > _MANY_LEVELS and len(found) > len(seen) / 2:
        raise TableError(
            f"Column {name!r} has {len(found)} different texts in {len(seen)} rows, like an identifier: "
            "leave it out with --drop, or use --categories if these are levels."
        )


def _check_written(name: str, found: Sequence[str]) -> None:
    """Refuse numbers that are text because of a unit or of marks between thousands."""
    marks = {match and (match["before"], match["unit"] or "") for match in map(_QUANTITY.fullmatch, found)}
    if len(marks) == 1 and marks.isdisjoint({None, ("", "")}):
        raise TableError(
            f"Column {name!r} holds numbers with a sign or unit, such as {found[0]!r}: write the numbers "
            "alone, or use --categories if these are levels."
        )
    if any(map(_GROUPED.fullmatch, found)) and all(_GROUPED.fullmatch(v) or _is_number(v) for v in found):
        raise TableError(
            f"Column {name!r} holds numbers with marks between thousands, such as {found[0]!r}: write them "
            "without, or use --categories if these are levels."
        )


def looks_decimal(found: Sequence[str]) -> bool:
    """Whether texts are numbers with a decimal comma."""
    return any("," in v for v in found) and all(_COMMA_NUMBER.fullmatch(v.strip()) for v in found)


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _date(name: str) -> TableError:
    return TableError(
        f"Column {name!r} holds dates, which have no size: leave it out with --drop, or put a number in its "
        "place, such as days since the first visit."
    )


# -- targets and task labels -------------------------------------------------------------------------------


def learn_classes(
    columns: Sequence[Any], classify: bool | None
) -> tuple[tuple[Class, Class] | None, str | None]:
    """Find the two classes of the targets, or None for numbers; and a note if this was a guess."""
    kinds = [kind_of(column) for column in columns]
    for column, kind in zip(columns, kinds, strict=True):
        if kind == "date":
            raise TableError(f"Target {column.name!r} holds dates: put a number in its place.")
    values = sorted({v for column in columns for v in _classes_in(column)}, key=_text_last)
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
            f"Targets {abbreviate([c.name for c in columns])} mix numbers and classes: write the classes as "
            "0 and 1, which are then fitted beside the numbers."
        )
    if len(values) != 2:
        raise TableError(_not_two(columns, values))
    note = None
    if numeric and classify is None:
        note = (
            f"target {columns[0].name!r} has the values {values[0]} and {values[1]} only: taken for two "
            "classes (--regress for numbers)"
        )
    # scikit-learn takes no floats as classes, but their texts
    if any(isinstance(value, float) for value in values):
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


def _text_last(value: Class) -> tuple[bool, Any]:
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
        values = sorted(own, key=_text_last)
    if len(values) < 2:
        return f"Target {name!r} has a single class, {values[0]!r}: two are needed to tell them apart."
    return (
        f"Target {name!r} has {len(values)} classes ({abbreviate([str(v) for v in values])}), and two can be "
        "told apart: make a column of 0 and 1 for each class and give each as a --target."
    )


def class_codes(column: Any, classes: tuple[Class, Class]) -> np.ndarray:
    """Encode the two classes as 0 and 1, NaN where the class is missing."""
    if isinstance(classes[0], str):
        codes, found = values_as_text(column)
        missing, values = codes < 0, np.array([*found, None], dtype=object)[codes]
    else:
        values = as_numbers(column, f"Target {column.name!r}")
        missing = np.isnan(values)
    out = np.select([missing, values == classes[0], values == classes[1]], [np.nan, 0.0, 1.0], default=-1.0)
    if (out == -1.0).any():
        row = int((out == -1.0).argmax())
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


def read_times(column: Any) -> np.ndarray:
    """Read times as numbers to sort by: numbers as they are, dates by their distance from 1970."""
    pandas = require("pandas", "frames")
    missing = column.isna().to_numpy()
    if missing.any():
        raise TableError(
            f"Time column {column.name!r} has {count(missing.sum(), 'row')} without a value (first in data "
            f"row {missing.argmax() + 1}): fill them in, or leave these rows out with --drop-unlabelled. "
            f"{MISSING}."
        )
    if kind_of(column) == "number":
        return finite_numbers(column, "Time column")
    try:
        times = pandas.to_datetime(column, format="ISO8601", utc=True)
    except (ValueError, TypeError):
        raise TableError(
            f"Time column {column.name!r} holds text such as {str(column.iloc[0])!r}: write numbers, or "
            "dates as 2024-05-31 (also with a time, 2024-05-31 14:30)."
        ) from None
    return times.to_numpy(dtype="datetime64[ns]").astype(np.int64).astype(float)


def read_labels(column: Any, kind: str, *, what: str = "Task column") -> np.ndarray:
    """Read task labels of the given kind, one per row, or other labels."""
    missing = column.isna().to_numpy()
    if missing.any():
        new = "no label is not a new task" if what == "Task column" else "a group is needed for every row"
        raise TableError(
            f"{what} {column.name!r} has {count(missing.sum(), 'row')} without a label (first in data "
            f"row {missing.argmax() + 1}): {new}. Fill them in, or leave these rows out "
            f"(all commands but predict: --drop-unlabelled). {MISSING}."
        )
    codes, found = values_as_text(column)
    words = np.array(found, dtype=object)[codes] if found else np.empty(0, dtype=object)
    if kind == "str":
        return words.astype(str)
    wrong = [i for i, word in enumerate(words) if not _WHOLE.fullmatch(word)]
    if wrong:
        raise TableError(
            f"Task column {column.name!r} is {words[wrong[0]]!r} in data row {wrong[0] + 1}, but the model "
            "knows its tasks by whole numbers: correct the label."
        )
    return words.astype(np.int64)


# -- curves of numeric columns: cubic B-splines, straight beyond the last knots ------------------------------


N_KNOTS = 5
DEGREE = 3
FEWEST_VALUES = 8  # different values of a column that may become a curve


def learn_knots(values: np.ndarray, name: str) -> tuple[float, ...]:
    """Knots of a column, at quantiles of its values, the smallest and the largest among them.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.column_encoding import learn_knots
    >>> learn_knots(np.arange(101.0), "age")
    (0.0, 25.0, 50.0, 75.0, 100.0)
    """
    known = values[np.isfinite(values)]
    if len(np.unique(known)) < FEWEST_VALUES:
        raise TableError(
            f"Column {name!r} has {len(np.unique(known))} different values, too few for a curve: leave it "
            "out of --splines, or use --categories."
        )
    knots = np.unique(np.quantile(known, np.linspace(0.0, 1.0, N_KNOTS)))
    if len(knots) < 3:  # one value holds nearly all rows
        knots = np.unique(np.quantile(np.unique(known), np.linspace(0.0, 1.0, N_KNOTS)))
    return tuple(float(knot) for knot in knots)


def n_functions(knots: tuple[float, ...]) -> int:
    """Number of functions of the basis; a constant is not among them."""
    return len(knots) + DEGREE - 2


def spline_basis(values: np.ndarray, knots: tuple[float, ...]) -> np.ndarray:
    """The basis at some values, (n_values, n_functions): a straight line where it leaves the knots.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.column_encoding import spline_basis
    >>> basis = spline_basis(np.array([0.0, 5.0, 10.0, 11.0, 12.0]), (0.0, 5.0, 10.0))
    >>> basis.shape, bool(np.allclose(basis[4] - basis[3], basis[3] - basis[2]))
    ((5, 4), True)
    """
    from sklearn.preprocessing import SplineTransformer

    at = np.array(knots)[:, None]
    curve = SplineTransformer(degree=DEGREE, knots=at, extrapolation="linear", include_bias=False)
    known = np.isfinite(values)
    basis = np.full((len(values), n_functions(knots)), np.nan)
    if known.any():
        basis[known] = curve.fit(at).transform(np.asarray(values, dtype=float)[known, None])
    return basis
