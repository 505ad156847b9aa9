"""How a column of a raw table becomes features, or why it does not, and the sentences that say so."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mmtfl.tables.cells import LEVELS, TIMES, Cells, Kind
from mmtfl.wording import abbreviate, count

MISSING, OTHER = "missing", "other"  # levels of words
_IDENTIFIES = 0.9  # share of different texts from which a column names its rows
_FEWEST_ROWS = 20  # with fewer, that values differ says nothing
_ROWS = re.compile(r"row[ _.]?(names?|no|nr|num|number|id)?|index|obs|seq[ _.]?no|\.{3}1", re.I)
_ID = re.compile(r"(^|[ _.-])([pu]?id|Id|P?ID|idno|IDNO|uuid|guid)$|(?<=[a-z])I[Dd]$|^(id|ID)[ _.]")
_ID_OF = re.compile(
    r"(pupil|child|kid|stud|student|sch|school|subj|subject|pat|patient|person|resp|respondent|case|record|hh"
    r"|household|firm|family|user|customer|client|sample|participant)[ _.]?(id|no|nr)",
    re.I,
)
_NAMES = re.compile(r"(first|last|given|family|middle|full|sur)[ _.]?name|e-?mail|phone|address", re.I)


@dataclass(frozen=True)
class ColumnCode:
    """How one column becomes features; plain values, so that a model file can hold it.

    Attributes
    ----------
    name : str
        The column.
    kind : {"number", "date", "word", "truth"}
        What it holds.
    style : str
        How its numbers or dates are written, see `Cells`.
    first : float
        Of dates: the first one, in days since 1970.
    fill : float
        Of numbers: their median.
    fills : tuple of float or None, one per task
        Of numbers: the medians of the tasks; None where a task has none.
    indicated : bool
        Of numbers: whether a feature says which are missing.
    levels : tuple of str
        Of words: the levels that have a feature.
    reference : str
        Of words: the level that has none.
    """

    name: str
    kind: Kind = "number"
    style: str = ""
    first: float = 0.0
    fill: float = 0.0
    fills: tuple[float | None, ...] = ()
    indicated: bool = False
    levels: tuple[str, ...] = ()
    reference: str = ""

    @property
    def is_number(self) -> bool:
        """Whether the column is a number, or a date, and not levels."""
        return self.kind in ("number", "date")

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        if self.is_number:
            return [self.name, *([f"{self.name} is missing"] if self.indicated else [])]
        return [f"{self.name}={level}" for level in self.levels]


# -- identifiers and other columns that are no features ------------------------------------------------------


def says_id(name: str) -> bool:
    """Whether a column is called an identifier.

    Examples
    --------
    >>> from mmtfl.tables.column_code import says_id
    >>> [name for name in ("ward_id", "patientID", "pupil no", "age", "paid") if says_id(name)]
    ['ward_id', 'patientID', 'pupil no']
    """
    return bool(_ID.search(name) or _ID_OF.fullmatch(name))


def has_whole_numbers(cells: Cells) -> bool:
    """Whether a column has whole numbers, and enough of them."""
    if cells.numbers is None or cells.kind != "number":
        return False
    values = cells.numbers[~cells.missing]
    return len(values) >= _FEWEST_ROWS and not (values % 1.0).any()


def why_left_out(
    name: str, cells: Cells, places: np.ndarray | None, *, least_rows: int, is_asked_for: bool
) -> str | None:
    """Why a column is no feature; None if it is one.

    `places` are the tasks of the rows as whole numbers from 0; a level has at least `least_rows` rows on
    average. A column that is asked for is left out only if it has nothing to tell.
    """
    known = ~cells.missing
    values = (cells.numbers if cells.codes is None else cells.codes)[known]  # type: ignore[index]
    n_known, n_different = len(values), len(np.unique(values))
    if n_known == 0:
        return "no value at all"
    if n_different == 1 and (known.all() or n_known < least_rows):
        return "one value in all rows"
    if is_asked_for or n_known < _FEWEST_ROWS:
        return None
    if cells.kind == "word":
        if n_different >= _IDENTIFIES * n_known:
            what = "identifiers" if cells.style == LEVELS else "text"
            return f"{what}, different in nearly every row"
        if n_different > n_known / least_rows and (_NAMES.search(name) or says_id(name)):
            return "identifiers and names of people, few rows of each"
        if known.all() and places is not None and _names_tasks(values, places):
            return "it names the tasks once more"
    is_whole = cells.kind == "number" and n_different == len(known) and not (values % 1.0).any()
    if is_whole and (_is_row_number(name, values) or np.ptp(values) + 1.0 < 1.1 * n_known):
        return "whole numbers, all different, that count the rows"
    return None


def _names_tasks(codes: np.ndarray, places: np.ndarray) -> bool:
    """Whether a column of words is another name of the tasks: each has its own, and one only."""
    pairs = len(np.unique(codes * (places.max() + 1) + places))
    return pairs == len(np.unique(codes)) == len(np.unique(places))


def _is_row_number(name: str, values: np.ndarray) -> bool:
    """Whether a column is called a number of the rows; an index may be a measurement, unless it rises."""
    rises = bool((np.diff(values) > 0).all())
    return bool(_ROWS.fullmatch(name)) and (name.lower().startswith("row") or rises)


# -- gaps --------------------------------------------------------------------------------------------------


def medians_by_task(numbers: np.ndarray, places: np.ndarray, n_tasks: int) -> tuple[float | None, ...]:
    """The median of each task; None where it has no number."""
    known = np.flatnonzero(~np.isnan(numbers))
    order = known[np.lexsort((numbers[known], places[known]))]
    starts = np.searchsorted(places[order], np.arange(n_tasks + 1))
    parts = (numbers[order[start:end]] for start, end in itertools.pairwise(starts.tolist()))
    middles = ((own[(len(own) - 1) // 2], own[len(own) // 2]) if len(own) else None for own in parts)
    return tuple(None if pair is None else float(pair[0] + 0.5 * (pair[1] - pair[0])) for pair in middles)


def all_missing(missing: np.ndarray, places: np.ndarray | None) -> np.ndarray:
    """Rows of tasks in which every cell is missing."""
    if places is None:
        return np.full(len(missing), missing.all())
    _, own = np.unique(places, return_inverse=True)
    return (np.bincount(own, ~missing) == 0)[own]


# -- notes ---------------------------------------------------------------------------------------------------


def notes_of_left_out(left_out: Mapping[str, str]) -> list[str]:
    """A sentence on the columns that are left out, by the reason for each.

    Examples
    --------
    >>> from mmtfl.tables.column_code import notes_of_left_out
    >>> notes_of_left_out({"country": "one value in all rows", "year": "one value in all rows"})
    ["Left out: 'country', 'year' (one value in all rows)."]
    """
    by_reason = _joined((why, name) for name, why in left_out.items())
    parts = [f"{abbreviate(names)} ({why})" for why, names in by_reason.items()]
    return [f"Left out: {', '.join(parts)}."] if parts else []


def notes_of_columns(codes: Iterable[ColumnCode], cells: Mapping[str, Cells]) -> list[str]:
    """A sentence for each kind of thing that was done with the columns."""
    found = _joined(pair for code in codes for pair in _notes_of(code, cells[code.name]))
    return [f"{what}: {_few(columns)}." for what, columns in found.items()]


def _notes_of(code: ColumnCode, cells: Cells) -> Iterator[tuple[str, str]]:
    """What was done with a column, and the column with a detail."""
    name, n_missing = repr(code.name), int(cells.missing.sum()) - len(cells.odd)
    if cells.odd:
        row, text = cells.odd[0]
        more = f" and {len(cells.odd) - 1} more" if len(cells.odd) > 1 else ""
        yield "Cells that are no numbers count as missing", f"{name} {text!r} in row {row + 1}{more}"
    if n_missing > 0:
        filled = "numbers are filled with the median" if code.is_number else "words are the level 'missing'"
        yield f"Missing {filled}", f"{name} ({count(n_missing, 'cell')})"
    if code.style == LEVELS and says_id(code.name):
        yield "Numbers that are called identifiers are levels", name
    n_joined = len(cells.words) - len(code.levels)
    if OTHER in code.levels and code.kind == "word" and n_joined > 1:
        yield "Rare levels join as 'other'", f"{name} ({n_joined} of {len(cells.words)})"
    if code.kind == "date":
        day = np.datetime64(int(np.floor(code.first)), "D")
        yield "Dates are days since the first one", f"{name} since {day}"
    elif cells.style == TIMES:
        yield "Times such as 12:15 are hours (12.25)", name
    elif cells.numbers is not None and cells.style:
        ways = {",": "a decimal comma", "unit": "a sign or unit"}
        yield f"Numbers written with {ways.get(cells.style, 'marks between thousands')}", name


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The second entries by the first ones."""
    found: dict[str, list[str]] = {}
    for what, about in pairs:
        found.setdefault(what, []).append(about)
    return found


def _few(found: list[str]) -> str:
    more = f" and {count(len(found) - 6, 'other column')}" if len(found) > 6 else ""
    return ", ".join(found[:6]) + more
