"""One column of a table: its kind, and its encoding as numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.json_values import expect
from mmtfl.tables.reading import TableError
from mmtfl.tasks.frames import abbreviate
from mmtfl.tasks.wording import count

MISSING = "Empty cells, NA, NaN, null and None count as missing"
_MANY_LEVELS = 50  # with more, text that hardly repeats is taken for an identifier
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([ T].*)?|\d{1,2}[./-]\d{1,2}[./-]\d{2,4}([ T].*)?")
_COMMA_NUMBER = re.compile(r"[+-]?\d+(,\d+)?")
_GROUPED = re.compile(r"[+-]?\d{1,3}([.,' ]\d{3})+([.,]\d+)?")  # 1.000,00
_QUANTITY = re.compile(r"(?P<before>[$€£<>~]?) ?[+-]?\d+([.,]\d+)? ?(?P<unit>[%‰€$£]| [a-zA-Zµ°/²³]{1,6})?")
_TRUTH = ("False", "True")


@dataclass(frozen=True)
class FeatureColumn:
    """How one column becomes features: numbers stay as they are, each level becomes an indicator.

    Of two levels only the second has an indicator, because that of the first would be redundant.
    """

    name: str
    levels: tuple[str, ...] | None = None  # in order; None for a column of numbers
    fill: float | str | None = None  # replaces missing values; None where missing values are refused

    @classmethod
    def learn(cls, series: Any, *, as_levels: bool = False, impute: str | None = None) -> FeatureColumn:
        """Decide from a column how it is encoded."""
        name = series.name
        if series.isna().all():
            raise TableError(f"Column {name!r} has no value at all: leave it out with --drop. {MISSING}.")
        kind = "text" if as_levels else kind_of(series)
        if kind == "date":
            raise _date(name)
        if kind == "number":
            numbers = cls(name)._numbers(series)
            return cls(name, fill=_statistic(numbers, impute) if impute else None)
        if kind == "text" and not as_levels:
            _check_text(series)
        codes, found = values_as_text(series)
        levels = tuple(sorted(set(found))) if kind == "text" else _TRUTH
        fill = _statistic(np.array([*found, None], dtype=object)[codes], "most_frequent") if impute else None
        return cls(name, levels, fill)

    def as_dict(self) -> dict[str, Any]:
        """Give the column as JSON types."""
        levels = None if self.levels is None else list(self.levels)
        return {"name": self.name, "levels": levels, "fill": self.fill}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> FeatureColumn:
        """Make the column from what `as_dict` gave; it is checked, because it may come from a file."""
        levels = plain["levels"]
        return cls(
            name=expect(plain["name"], str),
            levels=None if levels is None else tuple(expect(level, str) for level in expect(levels, list)),
            fill=expect(plain["fill"], *((int, float) if levels is None else (str,)), None),
        )

    @property
    def features(self) -> list[str]:
        """Names of the features that the column becomes."""
        if self.levels is None:
            return [self.name]
        return [f"{self.name}={level}" for level in self._coded]

    @property
    def _coded(self) -> tuple[str, ...]:
        assert self.levels is not None
        return self.levels[1:] if len(self.levels) == 2 else self.levels

    def encode(self, series: Any, *, unknown_level: str = "error") -> np.ndarray:
        """The features of the column, (n_rows, n_features)."""
        if self.levels is None:
            numbers = self._numbers(series)
            if self.fill is not None:
                numbers = np.where(np.isnan(numbers), self.fill, numbers)
            return numbers[:, None]
        codes, found = values_as_text(series)
        place = {level: i for i, level in enumerate(self._coded)}
        if unknown_level == "error":
            self._check_known(codes, found)
        fill = -1 if self.fill is None else place.get(str(self.fill), -1)
        places = np.array([*(place.get(value, -1) for value in found), fill])[codes]
        return (places[:, None] == np.arange(len(place))).astype(np.float64)

    def _numbers(self, series: Any) -> np.ndarray:
        return finite_numbers(series, "Column", "correct them, or leave the column out with --drop")

    def _check_known(self, codes: np.ndarray, found: list[str]) -> None:
        assert self.levels is not None
        unknown = [i for i, value in enumerate(found) if value not in self.levels]
        if unknown:
            rows = np.isin(codes, unknown)
            raise TableError(
                f"Column {self.name!r} has the level {found[unknown[0]]!r}, which the model does not know "
                f"({count(rows.sum(), 'row')} with new levels, the first is data row {rows.argmax() + 1}): "
                f"its levels are {abbreviate(self.levels)}. Correct it, or leave "
                "these rows out; predict also takes --unknown-level ignore."
            )


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
        raise TableError(
            f"{what} must hold numbers, but has the text {str(series.iloc[row])!r} in data row {row + 1} "
            f"({count(wrong.sum(), 'such row')}): correct it{_decimal_hint(str(series.iloc[row]))}."
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


def _decimal_hint(value: str) -> str:
    is_comma_number = "," in value and _COMMA_NUMBER.fullmatch(value.strip())
    return ", or use --decimal ',' if the comma is the decimal mark" if is_comma_number else ""


def values_as_text(series: Any) -> tuple[np.ndarray, list[str]]:
    """Read a column as positions in a list of its distinct texts, -1 where a value is missing."""
    codes, found = require("pandas", "frames").factorize(series)
    return codes, [_text(value) for value in found]


def texts(series: Any) -> np.ndarray:
    """Read a column without missing values as text."""
    codes, found = values_as_text(series)
    return np.array(found, dtype=object)[codes] if found else np.empty(0, dtype=object)


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)  # pandas makes floats of whole numbers if one value is missing
    return str(value)


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
    if is_number[seen].mean() > 0.5 and not _all_padded(found):
        row = int(np.isin(codes, np.flatnonzero(~is_number)).argmax()) if not is_number.all() else 0
        raise TableError(
            f"Column {name!r} is mostly numbers, but has the text {_text(series.iloc[row])!r} in data row "
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


def _all_padded(found: Sequence[str]) -> bool:
    """Whether all texts are digits: such columns stayed text because of leading zeros, so they hold names."""
    return all(re.fullmatch(r"\d+", value) for value in found)


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
