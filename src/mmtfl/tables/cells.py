"""The cells of one column: numbers, dates as days, or words; codes of missing cells are missing."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from mmtfl.errors import require
from mmtfl.tasks.frames import is_missing

CODES = (
    *("", ".", "-", "--", "?", "n/a", "N/A", "NA", "n.a.", "NULL", "null", "Null", "NaN", "nan", "None"),
    *("<NA>", "#N/A", "#NA", "NaT", "-nan", "#VALUE!", "#DIV/0!"),
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_DOTTED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")  # 1.234,5
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([,' \u00a0\u202f]\d{3})+(\.\d+)?")  # 1,234.5
_QUANTITY = re.compile(
    r"(?P<before>[$€£]?) ?(?P<number>[+-]?[\d.,' ]*\d)(?P<unit> ?[%‰€$£]| [a-zA-Zµ°/²³]{1,6})?"
)
_TIME = re.compile(r"(\d{1,3}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?(?: ?([AaPp])\.?[Mm]\.?)?")
_ODD_SHARE = 0.1  # of the cells: so many that are no numbers make a column of numbers no column of words
_MANY = 20  # different numbers that no column of levels has
_DATES = tuple(
    day + time
    for day in (
        *("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y"),
        *("%d-%m-%Y", "%m-%d-%Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
        *("%d%b%Y", "%Y.%m.%d"),
    )
    for time in ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", "T%H:%M", "T%H:%M:%S", "T%H:%M:%S.%f")
)
_TWO_NUMBERS = re.compile(r"\d\D+\d")  # as every date has: to try all styles on a word takes milliseconds
_DIGITS = re.compile(r"\d+")
ISO = "ISO 8601"
LEVELS = "numbers"  # the style of words that are numbers, and whose numbers are levels
TIMES = "times"  # the style of numbers that are hours, written as 12:15
_STYLES = ("", ",", "grouped", "dotted", "unit", TIMES)  # of numbers, in the order in which they are tried


Kind = Literal["number", "date", "word", "truth"]


@dataclass(frozen=True, eq=False)
class Cells:
    """What a column holds.

    Attributes
    ----------
    kind : {"number", "date", "word", "truth"}
        What the cells are; dates are numbers of days since 1970, truth values are words.
    numbers : ndarray of shape (n_rows,), or None
        Numbers, NaN where a cell is missing.
    codes, words : ndarray of shape (n_rows,), and list of str
        Positions in the list of different words, -1 where a cell is missing.
    style : str
        How numbers or dates are written: "" for numbers as Python writes them, "," for a decimal comma,
        "grouped" and "dotted" for marks between thousands, "unit" for a unit, `TIMES` for hours such as
        12:15, otherwise the format of the dates; of words `LEVELS` where they are numbers whose values are
        levels.
    odd : list of (int, str)
        Cells of a column of numbers or dates that are none, as row and text; they count as missing.
    """

    kind: Kind
    numbers: np.ndarray | None = None
    codes: np.ndarray | None = None
    words: list[str] = field(default_factory=list)
    style: str = ""
    odd: list[tuple[int, str]] = field(default_factory=list)

    @property
    def missing(self) -> np.ndarray:
        """Which cells are missing."""
        return np.isnan(self.numbers) if self.codes is None else self.codes < 0  # type: ignore[arg-type]


def read_cells(values: Any, missing: Iterable[str] = (), *, as_words: bool = False) -> Cells:
    """Decide what a column holds, and read it.

    Parameters
    ----------
    values : narwhals Series or ndarray of shape (n_rows,)
        The column.
    missing : iterable of str
        Codes of missing cells, besides the usual ones.
    as_words : bool
        Whether the values are levels, even if they look like numbers.

    Returns
    -------
    cells : Cells
        The column.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.cells import read_cells
    >>> read_cells(np.array(["1,5", " n/a", "2"], dtype=object)).numbers
    array([1.5, nan, 2. ])
    >>> read_cells(np.array(["no ", "yes", "?"], dtype=object)).words
    ['no', 'yes']
    """
    array, is_category = _as_array(values)
    kind = array.dtype.kind
    if kind == "O" and not is_category and not as_words:
        array = _of_one_kind(array)
        kind = array.dtype.kind
    if kind == "M" and not as_words:
        return Cells("date", (array - np.datetime64("1970-01-01")) / np.timedelta64(1, "D"))
    if kind == "m" and not as_words:
        return Cells("number", array / np.timedelta64(1, "D"))
    if kind in "fiu" and not as_words:
        return Cells("number", _without_codes(array.astype(np.float64), missing))
    if kind == "c":
        raise ValueError("Complex data not supported")
    codes, words = _factorize(array, missing)
    if kind == "b" or set(words) <= {"True", "False"}:
        return Cells("truth", codes=codes, words=words)
    if not (as_words or is_category):
        found = _as_numbers(codes, words, missing) or _as_dates(codes, words)
        if found is not None:
            return found
    return Cells("word", codes=codes, words=words)


def read_like(values: Any, known: Cells, missing: Iterable[str] = ()) -> Cells:
    """Read a column as another one of the same name was read: by its kind and style."""
    if known.kind in ("word", "truth"):
        cells = read_cells(values, missing, as_words=known.style != LEVELS)
        if cells.kind == "number":
            return as_levels(cells)
        return cells if cells.codes is not None else read_cells(values, missing, as_words=True)
    cells = read_cells(values, missing)
    if cells.codes is None and (cells.kind, cells.style) == (known.kind, known.style):
        return cells
    codes, words = _factorize(_as_array(values)[0], missing)
    read = _date if known.kind == "date" else _number
    numbers = [read(word, known.style) for word in words]
    if known.kind == cells.kind == "date" and all(np.isnan(numbers)):
        return cells  # written in another way
    return _from_words(known.kind, codes, words, numbers, known.style, missing)


def as_levels(cells: Cells) -> Cells:
    """Numbers as words: each value is a level."""
    assert cells.numbers is not None
    words = read_cells(cells.numbers, as_words=True)
    return Cells("word", codes=words.codes, words=words.words, style=LEVELS)


# -- values of any library as an array -----------------------------------------------------------------------


def _as_array(values: Any) -> tuple[np.ndarray, bool]:
    """A column as an array of floats, dates, booleans or objects, and whether its type says categories."""
    if isinstance(values, np.ndarray):
        return values, False
    import narwhals as nw

    kind = values.dtype
    is_category = kind in (nw.Categorical, nw.Enum)
    if kind.is_numeric() and kind != nw.Decimal:
        return (values.cast(nw.Float64).to_numpy() if values.null_count() else values.to_numpy()), False
    if kind in (nw.Date, nw.Datetime):
        if kind == nw.Datetime and getattr(kind, "time_zone", None):
            values = values.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return np.asarray(values.cast(nw.Datetime("us")).to_numpy(), dtype="datetime64[us]"), False
    if kind == nw.Duration:
        return np.asarray(values.to_numpy(), dtype="timedelta64[us]"), False
    array = np.empty(len(values), dtype=object)
    array[:] = values.to_list()
    return array, is_category


def _of_one_kind(array: np.ndarray) -> np.ndarray:
    """Objects that are all numbers, booleans or dates as an array of these; others as they are."""
    gaps = np.array([is_missing(value) for value in array], dtype=bool)
    kinds = {type(value) for value in array[~gaps]}
    if not kinds:
        return np.full(len(array), np.nan)
    if all(issubclass(kind, int | float | Decimal | np.number) and kind is not bool for kind in kinds):
        numbers = np.full(len(array), np.nan)
        numbers[~gaps] = [float(value) for value in array[~gaps]]
        return numbers
    if all(issubclass(kind, date) for kind in kinds):
        days = np.full(len(array), np.datetime64("NaT"), dtype="datetime64[us]")
        days[~gaps] = [np.datetime64(_naive(value), "us") for value in array[~gaps]]
        return days
    return array


def _naive(value: Any) -> Any:
    return value.astimezone(UTC).replace(tzinfo=None) if getattr(value, "tzinfo", None) else value


def _factorize(array: np.ndarray, missing: Iterable[str]) -> tuple[np.ndarray, list[str]]:
    """Positions of the cells in their sorted different words, -1 where missing; outer spaces are left out."""
    values = _hashable(array)
    place = {value: i for i, value in enumerate(dict.fromkeys(values))}
    raw = np.fromiter(map(place.__getitem__, values), dtype=np.intp, count=len(values))
    texts = [None if is_missing(value) else as_text(value).strip() for value in place]
    gaps = {*CODES, *(code.strip() for code in missing)} - ({"-", "--"} if "+" in texts else set())
    words = sorted({text for text in texts if text is not None and text not in gaps})
    order = {word: i for i, word in enumerate(words)}
    codes = np.array([-1 if text is None else order.get(text, -1) for text in texts], dtype=np.intp)
    return codes[raw] if len(raw) else raw, words


def _hashable(array: np.ndarray) -> list[Any]:
    values = array.tolist()
    kinds = {kind for kind in set(map(type, values)) if kind.__hash__ is None}
    return [str(value) if type(value) in kinds else value for value in values] if kinds else values


def as_text(value: Any) -> str:
    """A value as a level is written: 3.0 is 3."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if whole else value)


# -- words that are numbers ----------------------------------------------------------------------------------


def _as_numbers(codes: np.ndarray, words: Sequence[str], missing: Iterable[str]) -> Cells | None:
    """Words as numbers, if nearly all are; codes with leading zeros, such as 007, are names."""
    has_zeros = any(len(word) > 1 and word[0] == "0" for word in words)
    if not words or (has_zeros and all(word.isdigit() for word in words)):
        return None if words else Cells("number", np.full(len(codes), np.nan))
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    for style in _STYLES:
        numbers = [_number(word, style) for word in words]
        is_number = ~np.isnan(numbers)
        if _enough(is_number, counts, words) and not (style == "unit" and len(_units(words)) != 1):
            return _from_words("number", codes, words, numbers, style, missing)
    return None


def _enough(is_number: np.ndarray, counts: np.ndarray, words: Sequence[str]) -> bool:
    """Whether a column is one of numbers, in spite of some cells that are none."""
    n_odd, n_numbers = int(counts[~is_number].sum()), int(counts[is_number].sum())
    if n_odd == 0:
        return True
    if n_odd == 1 or (is_number.sum() >= _MANY and n_odd < n_numbers):
        return n_numbers >= 5 * n_odd if n_odd == 1 else True
    odd = [word for word, is_one in zip(words, is_number, strict=True) if not is_one]
    has_digit = any(any(c.isdigit() for c in word) for word in odd)  # 3+ is a level, "unknown" a missing cell
    return not has_digit and n_odd <= _ODD_SHARE * (n_odd + n_numbers)


def _number(word: str, style: str = "") -> float:
    """A word as a number; NaN if it is none."""
    if _NUMBER.fullmatch(word):
        return float(word)
    if style in (",", "unit") and _DECIMAL_COMMA.fullmatch(word) and not _GROUPED.fullmatch(word):
        return float(word.replace(",", "."))
    if style in ("grouped", "unit") and _GROUPED.fullmatch(word):
        return float(re.sub(r"[,' \u00a0\u202f]", "", word))
    if style == "dotted" and (_DOTTED.fullmatch(word) or _DECIMAL_COMMA.fullmatch(word)):
        return float(word.replace(".", "").replace(",", "."))
    if style == "unit":
        match = _QUANTITY.fullmatch(word)
        return np.nan if match is None or match["number"] == word else _number(match["number"], "unit")
    if style == TIMES and (match := _TIME.fullmatch(word)) is not None:
        hours, minutes, seconds, half = match.groups()
        hours = int(hours) if half is None else int(hours) % 12 + 12 * (half in "pP")
        return hours + int(minutes) / 60.0 + float(seconds or 0.0) / 3600.0
    return np.nan


def _units(words: Sequence[str]) -> set[tuple[str, str]]:
    """What stands before and behind the numbers."""
    found = (_QUANTITY.fullmatch(word) for word in words)
    return {(match["before"], (match["unit"] or "").strip()) for match in found if match is not None}


def _from_words(
    kind: Kind, codes: np.ndarray, words: Sequence[str], numbers: Any, style: str, missing: Iterable[str] = ()
) -> Cells:
    """Cells whose words stand for these numbers; words that are none are odd ones."""
    values = np.array([*numbers, np.nan])
    rows = np.flatnonzero((codes >= 0) & np.isnan(values)[codes])
    cells = values[codes] if kind == "date" else _without_codes(values[codes], missing)
    return Cells(kind, cells, style=style, odd=[(int(i), words[codes[i]]) for i in rows])


def _without_codes(numbers: np.ndarray, missing: Iterable[str]) -> np.ndarray:
    """Numbers without the codes of missing ones; infinity is missing too."""
    if np.isinf(numbers).any():
        numbers = np.where(np.isinf(numbers), np.nan, numbers)
    for code in missing:
        if _NUMBER.fullmatch(code.strip()):
            numbers = np.where(numbers == float(code), np.nan, numbers)
    return numbers


# -- words that are dates ------------------------------------------------------------------------------------


def _as_dates(codes: np.ndarray, words: Sequence[str]) -> Cells | None:
    """Words as days since 1970, if all but a few are dates written alike."""
    if not words or not any(c.isdigit() for c in words[0]) or not any(map(_TWO_NUMBERS.search, words[:2])):
        return None
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    for n_odd in (0, 1):  # first without an odd cell: 25/12 must not be the odd one of months before days
        for style in (ISO, *_DATES):
            if np.isnan([_date(word, style) for word in words[: n_odd + 1]]).sum() > n_odd:
                continue
            first = [_date(word, style) for word in words[:20]]
            if np.isnan(first).sum() > n_odd:
                continue
            numbers = np.array([*first, *(_date(word, style) for word in words[20:])])
            if counts[np.isnan(numbers)].sum() <= n_odd and not np.isnan(numbers).all():
                return _from_words("date", codes, words, numbers, style)
    return None


def _date(word: str, style: str) -> float:
    try:
        if style == ISO:
            if len(word) < 8 or "-" not in word:
                return np.nan
            found = datetime.fromisoformat(word)
        elif len(_DIGITS.findall(word)) != style.count("%") - style.lower().count("%b"):
            return np.nan  # not as many numbers: strptime compiles an expression for every style
        else:
            found = datetime.strptime(word, style)
    except ValueError:
        return np.nan
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return found.timestamp() / 86_400.0


# -- frames of files ---------------------------------------------------------------------------------------


def without_gaps_and_spaces(
    frame: Any, text: Iterable[str] = (), missing: Sequence[str] = ()
) -> tuple[Any, list[str]]:
    """Strip the spaces around text, make codes of missing cells missing; the columns that had spaces.

    A column of numbers that was text only because of such cells becomes numbers, unless `text` names it.
    """
    pandas, kinds = require("pandas", "frames"), require("pandas.api.types", "frames")
    out, padded = frame.copy(deep=False), []
    codes = pandas.to_numeric(pandas.Series(list(missing), dtype=object), errors="coerce").dropna()
    for name in frame.columns:
        column = frame[name]
        if kinds.is_numeric_dtype(column.dtype) and not kinds.is_bool_dtype(column.dtype):
            hit = column.isin(codes)
            out[name] = column.mask(hit) if hit.any() else column
        elif not isinstance(column.dtype, pandas.CategoricalDtype) and kinds.infer_dtype(column) == "string":
            words = column.str.strip()
            has_spaces = (words != column) & column.notna()
            # beside + a minus is a level
            gaps = {*CODES, *missing} - ({"-", "--"} if (words == "+").any() else set())
            lacks = words.isin(gaps)
            if not (has_spaces | lacks).any():
                continue
            values = words.mask(lacks, None)
            numbers = values if name in text else pandas.to_numeric(values, errors="coerce")
            if numbers.isna().equals(values.isna()):
                values = numbers
            out[name] = values
            if (has_spaces & ~lacks).any() and not kinds.is_numeric_dtype(values.dtype):
                padded.append(name)
    return out, padded
