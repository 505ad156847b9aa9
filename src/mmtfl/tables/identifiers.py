"""Columns that name rows, people or tasks, told by what they are called and by their values."""

from __future__ import annotations

import re

import numpy as np

from mmtfl.tables.cells import LEVELS, Cells

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


def says_id(name: str) -> bool:
    """Whether a column is called an identifier.

    Examples
    --------
    >>> from mmtfl.tables.identifiers import says_id
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
