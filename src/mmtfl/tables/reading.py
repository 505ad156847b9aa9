"""Read tables: text files, spreadsheets, survey files, parquet and feather; an error is one clear line."""

from __future__ import annotations

import csv
import ctypes
import gzip
import hashlib
import io
import re
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mmtfl.errors import require

TEXT = {".csv": ",", ".tsv": "\t", ".txt": "\t"}  # suffix: separator, unless the lines tell another
BINARY = (".xlsx", ".xls", ".ods", ".dta", ".sav", ".parquet", ".pq", ".feather")
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_LINES = 200  # of a text file, from which separator and decimal mark are told
_UNNAMED = re.compile(r"Unnamed: \d+")  # what pandas calls a column whose header is empty
_COMMA, _POINT = re.compile(r"[+-]?\d*,\d+"), re.compile(r"[+-]?\d*\.\d+")
_NO_ANSWER = re.compile(r"missing|refus|know|no answer|not? app|unknown|no response|^\.|^na$|^n/a$", re.I)


class TableError(ValueError):
    """A table cannot be used as it is; the message has one line with a remedy for each problem."""


def read_table(path: str | Path, *, text: Iterable[str] = (), **options: Any) -> Any:
    r"""Read a table by its suffix: .csv, .tsv, .txt (also .gz), .xlsx, .ods, .dta, .sav, .parquet, .feather.

    Separator, decimal mark and encoding of a text file are found out. Numbers become numbers, ``true`` and
    ``false`` booleans, everything else text; whole numbers with leading zeros (001) are names, and stay text.
    Empty cells and the usual codes (``.``, ``-``, ``?``, ``n/a``, ``NULL``) are missing. Spaces around names
    and text are left out, and so are rows without any value. Value labels of survey files are levels.

    Parameters
    ----------
    path : str or path
        The file.
    text : iterable of str
        Columns of a text file to be left as text, whatever they look like.
    **options
        ``separator``, ``decimal``, ``encoding`` of a text file, ``sheet`` of a spreadsheet (name, or number
        from 1), ``missing``: more codes of missing cells.

    Returns
    -------
    frame : pandas.DataFrame
        At least one row and two columns; the names of the columns are all different.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from mmtfl.tables.reading import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "pupils.csv"
    ...     _ = path.write_text("school; age ;score\n001;11;2,5\n002;.;3,5\n")
    ...     read_table(path)
      school   age  score
    0    001  11.0    2.5
    1    002   NaN    3.5
    """
    return TableFile(path, **options).frame(text)


def unnamed(column: str) -> bool:
    """Whether a column has no name in the file, such as the row numbers that pandas and R write."""
    return _UNNAMED.fullmatch(column) is not None


class TableFile:
    """A table on disk; it gives the values, the original text of the cells, and a hash.

    Parameters
    ----------
    path, separator, decimal, encoding, sheet, missing
        As in `read_table`.

    Attributes
    ----------
    sha256 : str
        Hash of the file.
    notes : list of str
        What was found out, and changed, for the reader.

    Examples
    --------
    >>> from mmtfl.tables.reading import TableFile
    >>> TableFile("pupils.docx")
    Traceback (most recent call last):
    ...
    mmtfl.tables.reading.TableError: 'pupils.docx' is not a table mmtfl reads: use .csv, .tsv, ...
    """

    def __init__(
        self,
        path: str | Path,
        *,
        separator: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
        sheet: str | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        self.path, self._sheet, self.missing = Path(path), sheet, [str(code).strip() for code in missing]
        self._name = repr(str(self.path))
        self.suffix = _suffix(self.path)
        self.is_text = self.suffix in TEXT
        self.notes: list[str] = []
        self._of_sheets = ""
        self._separator, self._decimal, self._wanted_encoding = separator, decimal, encoding
        self._is_empty: Any = None  # mask over the rows of the file, set once `frame` has found empty rows
        if decimal not in (".", ",", None):
            raise TableError(f"The decimal mark {decimal!r} is unknown: use '.' or ','.")
        if separator is not None and (len(separator) != 1 or separator in '"\n\r'):
            raise TableError(f"The separator {separator!r} must be one character, such as ',' or ';'.")
        content = self._load()
        self.sha256 = hashlib.sha256(content).hexdigest()
        self._content, self.encoding = self._as_utf8(content) if self.is_text else (content, "")
        if not self.is_text:
            self._binary, self.header = self._read_binary()

    # -- the file --------------------------------------------------------------------------------------------

    def _load(self) -> bytes:
        if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
            # a pipe without a writer would be waited for
            raise TableError(f"{self._name} is not an ordinary file: write the table to one first.")
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            raise TableError(f"There is no file {self._name}: check the name and the folder.") from None
        except OSError as error:
            raise TableError(f"{self._name} cannot be read: {error.strerror}.") from None
        if not content:
            raise self._empty()
        return content

    def _empty(self) -> TableError:
        return TableError(f"{self._name} is empty: it must have a header and at least one row.")

    def _as_utf8(self, content: bytes) -> tuple[bytes, str]:
        """The text as UTF-8 without a byte order mark, and how it was encoded."""
        if self.path.suffix.lower() == ".gz":
            try:
                content = gzip.decompress(content)
            except (OSError, EOFError, zlib.error) as error:
                raise TableError(f"{self._name} is not a whole gzip file ({error}): get it again.") from None
        encoding = self._wanted_encoding or _find_encoding(content)
        if encoding is None:
            raise TableError(f"{self._name} is not text: save it as CSV, or give it its own suffix.")
        try:
            if encoding == "utf-8":
                content.decode()
            else:
                content = content.decode(encoding).encode()
        except LookupError:
            raise TableError(f"The encoding {encoding!r} is unknown: use utf-8, latin-1 or utf-16.") from None
        except UnicodeDecodeError as error:
            line = 1 + content.count(b"\n", 0, error.start)
            raise TableError(
                f"{self._name} is not {encoding} text (line {line}): leave --encoding out."
            ) from None
        if not content or content.isspace():
            raise self._empty()
        return content, encoding

    def close(self) -> None:
        """Let the content go, once the table is read."""
        self._content, self._binary = b"", None

    # -- values ----------------------------------------------------------------------------------------------

    def frame(self, text: Iterable[str] = ()) -> Any:
        """Give the values: numbers, booleans and text; columns named in `text` stay text."""
        # imported late: the command line needs TableError before it loads numpy
        from mmtfl.tables.cells import without_gaps_and_spaces
        from mmtfl.wording import abbreviate, count

        frame, padded = without_gaps_and_spaces(self._values(set(text)), text, self.missing)
        self.notes = [*self._found_out(), *self._renamed()]
        if padded:
            self.notes.append(f"spaces around text are left out: {abbreviate(padded)}")
        empty = frame.isna().all(axis=1)
        if empty.any():
            self._is_empty = empty.to_numpy()
            self.notes.append(f"{count(int(empty.sum()), 'row')} without any value left out")
            frame = self._check_rows(frame[~empty].reset_index(drop=True))
        return frame

    def _values(self, text: set[str]) -> Any:
        if not self.is_text:
            return self._binary
        from mmtfl.tables.cells import CODES

        known = dict.fromkeys(text & set(self.columns), str)
        frame = self._parse(dtype=known, na_values=[*CODES, *self.missing], keep_default_na=False)
        kinds = require("pandas.api.types", "frames")
        whole = [name for name in frame if kinds.is_integer_dtype(frame[name].dtype)]
        mark = re.escape(self.separator.encode())
        if whole and re.search(rb"[" + mark + rb'\n"]0[0-9]', self._content):
            words = self._parse(dtype=str, usecols=whole)
            for name in whole:
                if words[name].str.match(r"0\d").any():
                    frame[name] = words[name]
        return frame

    def verbatim(self) -> Any:
        """Give the cells of a text file as strings, unchanged; of a binary file, the values."""
        if not self.is_text:
            return self._binary
        cells = self._parse(dtype=str, keep_default_na=False, na_filter=False)
        return cells if self._is_empty is None else cells[~self._is_empty].reset_index(drop=True)

    def _found_out(self) -> list[str]:
        """What was found out about the file, if it is not the usual."""
        if not self.is_text:
            return [self._of_sheets] if self._of_sheets else []
        encodings = {"utf-8": "", "utf-8-sig": "", "cp1252": "Latin-1", "latin-1": "Latin-1"}
        found = [] if self._wanted_encoding else [encodings.get(self.encoding, self.encoding.upper())]
        if not self._decimal and self.decimal != ".":
            found.insert(0, "decimal comma")
        if not self._separator and self.separator != ",":
            found.insert(0, f"{_SEPARATORS[self.separator]} between cells")
        return [f"read with {', '.join(filter(None, found))}"] if any(found) else []

    def _renamed(self) -> list[str]:
        from mmtfl.wording import abbreviate

        twice = [name for name, uses in Counter(map(str.strip, self.header)).items() if uses > 1 and name]
        more = "the others are numbered, such as"
        return [f"several columns are called {abbreviate(twice)}: {more} '{twice[0]}.2'"] if twice else []

    # -- text files ------------------------------------------------------------------------------------------

    @property
    def columns(self) -> list[str]:
        """Names of the columns, all different and without outer spaces."""
        return _distinct(self.header)

    @cached_property
    def header(self) -> list[str]:
        """Names of the columns as they are in the file; at least two."""
        header = next(filter(None, self._sample(self.separator)))
        if len(header) > 1:
            return header
        name = header[0] if len(header[0]) <= 60 else header[0][:57] + "..."
        raise TableError(f"{self._name} has a single column, {name!r}: it needs more.")

    def _sample(self, separator: str) -> list[list[str]]:
        """The cells of the first lines."""
        text = self._content[: 1 << 20].decode(errors="ignore")
        lines = csv.reader(
            io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=separator == " "
        )
        try:
            return [line for line, _ in zip(lines, range(_LINES), strict=False)]
        except csv.Error:
            return [[]]

    @cached_property
    def separator(self) -> str:
        """Separator between the cells of a text file: the one that cuts the first lines alike."""
        if self._separator:
            return self._separator
        usual, best = TEXT[self.suffix], (0.0, 0, 0)
        found = usual
        for mark in _SEPARATORS:
            widths = [len(line) for line in self._sample(mark) if line]
            if not widths or widths[0] < 2 or (mark == " " and self.suffix != ".txt"):
                continue
            alike = sum(width == widths[0] for width in widths) / len(widths)
            score = (round(alike, 2), int(mark == usual), -list(_SEPARATORS).index(mark))
            if score > best:
                found, best = mark, score
        return found

    @cached_property
    def decimal(self) -> str:
        """The decimal mark of a text file: a comma if numbers have one, and none has a point."""
        if self._decimal:
            return self._decimal
        cells = [cell.strip() for line in self._sample(self.separator)[1:] for cell in line]
        commas = sum(bool(_COMMA.fullmatch(cell)) for cell in cells)
        points = sum(bool(_POINT.fullmatch(cell)) for cell in cells)
        # commas between commas may also stand between thousands, which each column tells for itself
        return "," if commas > points and self.separator != "," else "."

    def _parse(self, **options: Any) -> Any:
        pandas, names = require("pandas", "frames"), self.columns
        # pandas reads numbers exactly to the last bit by default from 3.1 on
        if tuple(int(part) for part in pandas.__version__.split(".")[:2]) < (3, 1):
            options["float_precision"] = "round_trip"
        separator = r"\s+" if self.separator == " " else self.separator
        options |= {"sep": separator, "decimal": self.decimal, "names": names, "header": 0}
        with warnings.catch_warnings():
            # pandas warns if cells would be lost, because rows are longer than the header
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            try:
                frame = pandas.read_csv(
                    io.BytesIO(self._content),
                    index_col=False,
                    low_memory=False,
                    encoding="utf-8-sig",
                    **options,
                )
            except (ValueError, OverflowError, pandas.errors.ParserWarning) as error:
                raise TableError(
                    f"{self._name} cannot be read as a table: {_plain(error)} Every row must have as many "
                    f"cells as the header ({len(names)}); quote cells that hold the separator."
                ) from None
        return self._check_rows(frame)

    # -- other files -----------------------------------------------------------------------------------------

    def _read_binary(self) -> tuple[Any, list[str]]:
        """The values of a binary file, and the names of its columns as they are there."""
        try:
            with warnings.catch_warnings(action="ignore"):  # of formats that other programs wrote
                frame = _READERS[self.suffix](self)
        except (TableError, ImportError):
            raise
        except Exception as error:  # each library has errors of its own
            raise TableError(f"{self._name} is not a whole {self.suffix} file: {_plain(error)}") from None
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()  # a named index is a column of the file
        header = [str(name) for name in frame.columns]
        frame.columns = _distinct(header)
        if len(header) < 2:
            raise TableError(f"{self._name} has a single column: it needs more.")
        return self._check_rows(frame), header

    def _check_rows(self, frame: Any) -> Any:
        if not len(frame):
            raise TableError(f"{self._name} has a header but no rows: it needs at least one.")
        return frame

    def _read_sheet(self) -> Any:
        """A sheet of a spreadsheet; its header is the first row that is filled from side to side."""
        pandas = require("pandas", "frames")
        require("python_calamine", "files")
        book = pandas.ExcelFile(io.BytesIO(self._content), engine="calamine")
        cells = book.parse(self._which_sheet(book.sheet_names), header=None, dtype=object)
        cells = cells.replace(r"^\s*$", None, regex=True).dropna(how="all").dropna(how="all", axis=1)
        if not len(cells):
            raise self._empty()
        filled = cells.notna().sum(axis=1).to_numpy()
        first = int((filled >= 0.7 * filled[: 1 + _LINES].max()).argmax())
        names = [
            f"Unnamed: {j}" if name is None or name != name else name
            for j, name in enumerate(cells.iloc[first])
        ]
        frame = cells.iloc[first + 1 :].set_axis([str(name) for name in names], axis=1)
        return frame.reset_index(drop=True).infer_objects()

    def _which_sheet(self, names: Sequence[str]) -> str:
        from mmtfl.wording import abbreviate, suggest

        if self._sheet is None:
            if len(names) > 1:
                self._of_sheets = (
                    f"the first of the sheets {abbreviate(names)} is read (--sheet takes another)"
                )
            return names[0]
        if self._sheet not in names and self._sheet.isdigit() and 1 <= int(self._sheet) <= len(names):
            return names[int(self._sheet) - 1]
        if self._sheet not in names:
            raise TableError(
                f"{self._name} has no sheet {self._sheet!r}{suggest(self._sheet, names, 'sheets')}"
            )
        return self._sheet

    def _read_survey(self, reader: str) -> Any:
        """A file of Stata or SPSS; values that have labels become these."""
        read = getattr(require("pyreadstat", "files"), reader)
        frame, about = read(str(self.path), apply_value_formats=False)
        for name, labels in about.variable_value_labels.items():
            frame[name] = _with_labels(frame[name], labels)
        return frame

    def _read_parquet(self) -> Any:
        require("pyarrow", "cli")
        return require("pandas", "frames").read_parquet(io.BytesIO(self._content))

    def _read_feather(self) -> Any:
        """A feather file, whose buffers are checked first: pyarrow would follow them anywhere."""
        pyarrow, feather = require("pyarrow", "cli"), require("pyarrow.feather", "cli")
        table = feather.read_table(pyarrow.BufferReader(self._content), use_threads=False)
        table.validate(full=True)
        return table.to_pandas()


_READERS: dict[str, Callable[[TableFile], Any]] = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), TableFile._read_sheet),
    ".dta": partial(TableFile._read_survey, reader="read_dta"),
    ".sav": partial(TableFile._read_survey, reader="read_sav"),
    **dict.fromkeys((".parquet", ".pq"), TableFile._read_parquet),
    ".feather": TableFile._read_feather,
}


def _find_encoding(content: bytes) -> str | None:
    """The encoding of a text; None if it is no text."""
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if content.startswith(mark):
            return encoding
    head = content[:2000]
    if b"\0" in content:
        # of UTF-16 without a mark, every other byte of plain letters is zero
        by_place = [head[start::2].count(0) for start in (0, 1)]
        if max(by_place) < 0.4 * len(head) / 2 or min(by_place) > 0:
            return None
        return "utf-16-be" if by_place[0] > by_place[1] else "utf-16-le"
    try:
        content.decode()
    except UnicodeDecodeError:
        undefined = b"\x81\x8d\x8f\x90\x9d"
        return "latin-1" if any(byte in content for byte in undefined) else "cp1252"
    return "utf-8"


def _with_labels(series: Any, labels: dict[Any, str]) -> Any:
    """Values by their labels; numbers of which only some codes have labels, such as -9, stay numbers."""
    found = series.dropna().unique()
    if sum(value in labels for value in found) * 2 >= len(found):
        return series.map(lambda value: labels.get(value, value), na_action="ignore").astype(object)
    gaps = [value for value, label in labels.items() if _NO_ANSWER.search(str(label))]
    return series.mask(series.isin(gaps))


def release_unused() -> None:
    """Give back to the system what pyarrow and the C library keep for later, after a frame is gone."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)  # of glibc alone; not every C library has it


def _distinct(header: Sequence[str]) -> list[str]:
    """Names without outer spaces, all different: the second x is x.2, and one without a name is Unnamed."""
    names: list[str] = []
    taken = {name.strip() for name in header}
    for j, raw in enumerate(header):
        name = raw.strip() or f"Unnamed: {j}"
        number, unique = 2, name
        while unique in names or (unique != name and unique in taken):
            unique, number = f"{name}.{number}", number + 1
        names.append(unique)
    return names


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".gz" and len(suffixes) == 2 and suffixes[0] in TEXT:
        return suffixes[0]
    if suffix in TEXT or suffix in BINARY:
        return suffix
    raise TableError(
        f"{str(path)!r} is not a table mmtfl reads: use {', '.join([*TEXT, *BINARY])} (text also with .gz)."
    )


def _plain(error: BaseException) -> str:
    """Write the message of another library as one sentence."""
    message = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
    return message if message.endswith(".") else message + "."
