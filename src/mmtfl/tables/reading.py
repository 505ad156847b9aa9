"""Read tables from CSV, TSV, parquet and feather files; an error is one clear line."""

from __future__ import annotations

import codecs
import csv
import ctypes
import gzip
import hashlib
import io
import os
import re
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from mmtfl.errors import require

TEXT = {".csv": ",", ".tsv": "\t", ".txt": None}  # suffix: separator, None to find it in the header
BINARY = {".parquet": "parquet", ".pq": "parquet", ".feather": "feather"}
_SEPARATORS = {"\t": "tab", ";": "';'", ",": "','", "|": "'|'"}
_WIDE = 1000  # columns that are read, or put together, at a time
_CELLS = 6_000_000  # of a text file that are read at a time: each takes some 40 bytes meanwhile
_BLOCK = 1 << 20  # bytes or characters of a text file that are looked at together
_UNNAMED = re.compile(r"Unnamed: \d+")  # what pandas calls a column whose header is empty


class TableError(ValueError):
    """A table cannot be used as it is; the message has one line with a remedy for each problem."""


def read_table(
    path: str | Path, *, separator: str | None = None, decimal: str = ".", text: Iterable[str] = ()
) -> Any:
    r"""Read a table by its suffix: .csv, .tsv and .txt (each also with .gz), .parquet, .pq and .feather.

    Numbers become numbers, ``true`` and ``false`` booleans, everything else text; whole numbers with leading
    zeros (001) are names, not numbers, and stay text. Empty cells, NA, NaN, null and None are missing. Spaces
    around text are left out, and so are rows without any value.

    Parameters
    ----------
    path : str or path
        The file. Text is UTF-8 (with or without a byte order mark) or UTF-16 with one.
    separator : str, optional
        Separator between the cells of a text file; by default a comma in .csv, a tab in .tsv, and in .txt
        whichever the header has.
    decimal : str, default="."
        The decimal mark of a text file.
    text : iterable of str
        Columns of a text file to be left as text, whatever they look like.

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
    ...     _ = path.write_text("school,age,score\n001,11,2.5\n002,12,3.5\n")
    ...     read_table(path)
      school  age  score
    0    001   11    2.5
    1    002   12    3.5
    """
    return TableFile(path, separator=separator, decimal=decimal).frame(text)


def unnamed(column: str) -> bool:
    """Whether a column has no name in the file, such as the row numbers that pandas and R write."""
    return _UNNAMED.fullmatch(column) is not None


class TableFile:
    """A table on disk; it gives the values, the original text of the cells, and a hash.

    Nothing of the file is kept, because a wide table may be most of the memory. A file that has changed since
    it was opened is refused.

    Parameters
    ----------
    path, separator, decimal
        As in `read_table`.

    Attributes
    ----------
    sha256 : str
        Hash of the file.
    notes : list of str
        What `frame` has changed, for the reader.

    Examples
    --------
    >>> from mmtfl.tables.reading import TableFile
    >>> TableFile("pupils.xlsx")
    Traceback (most recent call last):
    ...
    mmtfl.tables.reading.TableError: 'pupils.xlsx' is not a table mmtfl reads: use .csv, .tsv, ...
    """

    def __init__(self, path: str | Path, *, separator: str | None = None, decimal: str = ".") -> None:
        self.path = Path(path)
        self._name = repr(str(self.path))
        self.suffix = _suffix(self.path)
        self.is_text = self.suffix in TEXT
        self.decimal = decimal
        self.notes: list[str] = []
        self._separator = separator
        self._is_empty: Any = None  # mask over the rows of the file, set once `frame` has found empty rows
        if decimal not in (".", ","):
            raise TableError(f"The decimal mark {decimal!r} is unknown: use '.' or ','.")
        if separator is not None and (len(separator) != 1 or separator in '"\n\r'):
            raise TableError(f"The separator {separator!r} must be one character, such as ',' or ';'.")
        if self.path.exists() and not (self.path.is_file() or self.path.is_dir()):
            # a pipe without a writer would be waited for
            raise TableError(f"{self._name} is not an ordinary file: write the table to one first.")
        self._names: list[str] = []  # of the columns of a binary file, once it is read
        try:
            with self.path.open("rb") as file:
                self._state = _state(file)
                self.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            raise TableError(f"There is no file {self._name}: check the name and the folder.") from None
        except OSError as error:
            raise TableError(f"{self._name} cannot be read: {error.strerror}.") from None
        if self._state[0] == 0:
            raise self._empty()

    def _empty(self) -> TableError:
        return TableError(f"{self._name} is empty: it must have a header and at least one row.")

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The file; once it is read, it must still be the one that was hashed."""
        try:
            with self.path.open("rb") as file:
                yield file
                there = self.path.stat()  # by its name too, which pyarrow opens
                if not _state(file) == (there.st_size, there.st_mtime_ns) == self._state:
                    raise TableError(f"{self._name} has changed since it was opened: read it again.")
        except FileNotFoundError:
            raise TableError(f"{self._name} has gone since it was opened: read it again.") from None

    def frame(self, text: Iterable[str] = ()) -> Any:
        """Give the values: numbers, booleans and text; columns named in `text` stay text."""
        # imported late: the command line needs TableError before it loads numpy
        from mmtfl.wording import count

        frame, padded = without_spaces(self._values(text), text)
        self.notes = []
        if padded:
            listed = [f"{name!r} ({count(n, 'cell')})" for name, n in list(padded.items())[:6]]
            more = f" and {count(len(padded) - 6, 'other column')}" if len(padded) > 6 else ""
            self.notes.append(f"spaces around text are left out: {', '.join(listed)}{more}")
        empty = frame.isna().all(axis=1)
        if self.is_text and empty.any():
            self._is_empty = empty.to_numpy()
            self.notes.append(f"{count(empty.sum(), 'row')} without any value left out")
            frame = _check_rows(frame[~empty].reset_index(drop=True), self._name)
        return frame

    def _values(self, text: Iterable[str]) -> Any:
        if not self.is_text:
            return self._read_binary()
        frame = self._parse(dtype=dict.fromkeys(set(text) & set(self.header), str))
        kinds = require("pandas.api.types", "frames")
        whole = [name for name in frame if kinds.is_integer_dtype(frame[name].dtype)]
        if whole and self._has_leading_zeros():
            words = self._parse(dtype=str, usecols=whole)
            for name in whole:
                if words[name].str.match(r"0\d").any():
                    frame[name] = words[name]
        return frame

    def _has_leading_zeros(self) -> bool:
        """Whether some cell may be a number such as 001; a quick test, because most tables have none."""
        zeros, before = re.compile(rf'[{re.escape(self.separator)}\n"]0[0-9]'), ""
        with self._text() as text:
            for block in iter(lambda: text.read(_BLOCK), ""):
                if zeros.search(before + block):
                    return True
                before = block[-2:]
        return False

    def verbatim(self) -> Any:
        """Give the cells of a text file as strings, unchanged; of a binary file, the values."""
        if not self.is_text:
            return self._read_binary()
        cells = self._parse(dtype=str, keep_default_na=False, na_filter=False)
        return cells if self._is_empty is None else cells[~self._is_empty].reset_index(drop=True)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        if not self.is_text and not self._names:
            self._read_binary()
        return self.header if self.is_text else self._names

    @cached_property
    def header(self) -> list[str]:
        """Names of the columns of a text file, unchanged; at least two, and those given differ."""
        separator = self.separator
        try:
            with self._text() as text:
                # the first line that is not empty, as for pandas
                header = next(filter(None, csv.reader(text, delimiter=separator)))
        except (StopIteration, csv.Error):
            raise TableError(f"{self._name} has no header: its first line must name the columns.") from None
        _check_distinct([name for name in header if name], self._name)
        if len(header) > 1:
            return header
        other = next((mark for mark in _SEPARATORS if mark in header[0] and mark != self.separator), None)
        hint = ": it needs more."
        if other is not None:
            typed = "$'\\t'" if other == "\t" else f"'{other}'"  # as in a shell
            hint = f": is it separated by {_SEPARATORS[other]}? Use --separator {typed}."
        name = header[0] if len(header[0]) <= 60 else header[0][:57] + "..."
        raise TableError(f"{self._name} has a single column, {name!r}{hint}")

    @cached_property
    def separator(self) -> str:
        """Separator between the cells of a text file."""
        known = self._separator or TEXT[self.suffix]
        if known is not None:
            return known
        with self._text() as text:
            first = text.readline()
        return next((mark for mark in _SEPARATORS if mark in first), "\t")

    @contextmanager
    def _text(self) -> Iterator[io.TextIOWrapper]:
        """The text of the file, from its beginning and without a byte order mark."""
        encoding = self._encoding
        with self._opened() as file:
            yield io.TextIOWrapper(self._unpacked(file), encoding=encoding, newline="")

    def _unpacked(self, file: Any) -> Any:
        return gzip.GzipFile(fileobj=file) if self.path.suffix.lower() == ".gz" else file

    @cached_property
    def _encoding(self) -> str:
        """The encoding of the text, all of which is looked at once."""
        try:
            with self._opened() as file:
                return self._check_text(self._unpacked(file))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise TableError(f"{self._name} is not a whole gzip file ({error}): get it again.") from None

    def _check_text(self, file: Any) -> str:
        """Refuse what is not text, or nothing but spaces; its encoding."""
        block, line, is_blank = file.read(_BLOCK), 1, True
        wide = block[:2] in (b"\xff\xfe", b"\xfe\xff")
        encoding = "utf-16" if wide else "utf-8-sig"
        decoder = codecs.getincrementaldecoder(encoding)()
        while True:
            if not wide and b"\0" in block:
                raise TableError(
                    f"{self._name} is not text: save it as CSV, or give it the suffix it should have."
                )
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                line += error.object.count(b"\n", 0, error.start)
                raise TableError(
                    f"{self._name} is not UTF-8 text (line {line}): save it as UTF-8, for example by "
                    "iconv -f latin1 -t utf-8."
                ) from None
            line, is_blank = line + text.count("\n"), is_blank and (not text or text.isspace())
            if not block:
                break
            block = file.read(_BLOCK)
        if is_blank:
            raise self._empty()
        return encoding

    def _parse(self, **options: Any) -> Any:
        """The table, read by pieces: while pandas reads cells, they take several times their memory."""
        with self._text() as text:
            pieces = self._pieces(text, max(1, _CELLS // len(self.header)), **options)
        release_unused()
        given = options.get("dtype", {})
        frame, unsure = _joined(pieces, given)
        if unsure:  # what such a column holds is told by all of its cells together
            cells = self._parse(dtype=str, usecols=unsure, keep_default_na=False, na_filter=False)
            again = io.StringIO(cells.to_csv(index=False, sep=self.separator, quoting=csv.QUOTE_ALL))
            whole, _ = _joined(self._pieces(again, len(cells), **options), given)
            for name in unsure:
                frame[name] = whole[name]
        return _check_rows(frame, self._name)

    def _pieces(self, text: Any, n_rows: int, **options: Any) -> list[list[Any]]:
        """A text as pieces of so many rows, each of them as frames of some columns."""
        pandas = require("pandas", "frames")
        # pandas reads numbers exactly to the last bit by default from 3.1 on
        if tuple(int(part) for part in pandas.__version__.split(".")[:2]) < (3, 1):
            options["float_precision"] = "round_trip"
        options |= {"sep": self.separator, "decimal": self.decimal, "chunksize": n_rows}
        with warnings.catch_warnings():
            # pandas warns if cells would be lost, because rows are longer than the header
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            try:
                found = pandas.read_csv(text, index_col=False, low_memory=False, **options)
                return [_split(piece) for piece in found]
            except (ValueError, OverflowError, pandas.errors.ParserWarning) as error:
                raise TableError(
                    f"{self._name} cannot be read as a table: {_plain(error)} Every row must have as many "
                    f"cells as the header ({len(self.header)}); quote cells that hold the separator."
                ) from None

    def _read_binary(self) -> Any:
        """The values of a binary file; they are not kept, because a wide table may be most of the memory."""
        read = _read_parquet if BINARY[self.suffix] == "parquet" else _read_feather
        try:
            with self._opened() as file:
                frame = read(file)
        except TableError:
            raise
        except (ValueError, OSError, KeyError) as error:
            raise TableError(f"{self._name} is not a whole {self.suffix} file: {_plain(error)}") from None
        release_unused()
        if any(name is not None for name in frame.index.names):
            frame = frame.reset_index()  # a named index is a column of the file
        frame.columns = [str(name) for name in frame.columns]
        self._names = list(frame.columns)
        _check_distinct(self._names, self._name)
        return _check_rows(frame, self._name)


def _state(file: Any) -> tuple[int, int]:
    """Size and time of an open file, which tell whether it is still the one that was hashed."""
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _split(frame: Any) -> list[Any]:
    """Some columns each; in a copy, numbers are in one array, and not in one for each column."""
    return [frame.iloc[:, first : first + _WIDE].copy() for first in range(0, frame.shape[1], _WIDE)]


def _joined(pieces: list[list[Any]], given: Any) -> tuple[Any, list[str]]:
    """One frame of pieces, which are used up, and its columns that may not be of one kind.

    Such a column is numbers in one piece, and text in another. `given` are the kinds of some, or of all.
    """
    pandas, parts, unsure = require("pandas", "frames"), [], []
    while pieces[0]:
        own = [piece.pop(0) for piece in pieces]
        if len(own) > 1:
            kinds = zip(own[0], *(part.dtypes.astype(str) for part in own), strict=True)
            for name, *kind in kinds:
                if not _is_one_kind(set(kind), is_given=given is str or name in given):
                    unsure.append(name)
        parts.append(pandas.concat(own, ignore_index=True))
    return pandas.concat(parts, axis=1), unsure


def _is_one_kind(kinds: set[str], *, is_given: bool) -> bool:
    # what became text in a piece, such as numbers that are too large, may be something else beside the others
    return kinds <= {"int64", "float64"} or kinds == {"bool"} or (is_given and len(kinds) == 1)


def _read_parquet(file: Any) -> Any:
    """A parquet file as a frame, some columns at a time: pyarrow takes several times the memory for all."""
    pandas, parquet = require("pandas", "frames"), require("pyarrow.parquet", "cli")
    # a thread of pyarrow may read on when a spoilt file has been refused, and a file of Python would be gone
    file = require("pyarrow", "cli").OSFile(file.name)
    names = parquet.read_schema(file).names
    if len(names) <= _WIDE or len(set(names)) < len(names):
        return pandas.read_parquet(file)
    # the layout of a wide file is large, and is read once; what is buffered would be kept by pyarrow
    whole, parts = parquet.ParquetDataset(file, pre_buffer=False), []
    for first in range(0, len(names), _WIDE):
        part = names[first : first + _WIDE]
        parts.append(whole.read(columns=part, use_threads=False, use_pandas_metadata=True).to_pandas())
        release_unused()
    return pandas.concat(parts, axis=1)


def _read_feather(file: Any) -> Any:
    """A feather file as a frame, whose buffers are checked first: pyarrow would follow them anywhere."""
    pandas, pyarrow = require("pandas", "frames"), require("pyarrow", "cli")
    stored = pyarrow.py_buffer(file.read())
    feather, one_thread = require("pyarrow.feather", "cli"), {"use_threads": False}
    feather.read_table(pyarrow.BufferReader(stored), **one_thread).validate(full=True)
    return pandas.read_feather(pyarrow.BufferReader(stored), **one_thread)


def release_unused() -> None:
    """Give back to the system what pyarrow and the C library keep for later, after a frame is gone."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), "malloc_trim", int)(0)  # of glibc alone; not every C library has it


def without_spaces(frame: Any, text: Iterable[str] = ()) -> tuple[Any, dict[str, int]]:
    """Strip the spaces around text, and count the stripped cells by column; a cell of spaces becomes missing.

    A column of numbers that was text only because of such cells becomes numbers, unless `text` names it.
    """
    pandas, kinds = require("pandas", "frames"), require("pandas.api.types", "frames")
    tidy, padded = frame.copy(deep=False), {}
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, pandas.CategoricalDtype) or kinds.infer_dtype(column) != "string":
            continue
        codes, found = pandas.factorize(column)
        words = [value.strip() or None for value in found]
        spaced = [i for i, word in enumerate(words) if word is not None and word != found[i]]
        if not spaced and None not in words:
            continue
        values = pandas.Series([*words, None], dtype=object).iloc[codes].set_axis(column.index)
        if None in words and name not in text:
            numbers = pandas.to_numeric(values, errors="coerce")
            values = numbers if numbers.isna().equals(values.isna()) else values
        tidy[name] = values
        if spaced and tidy[name].dtype == object:
            padded[name] = int(pandas.Series(codes).isin(spaced).sum())
    return tidy, padded


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    suffix = suffixes[-1] if suffixes else ""
    if suffix == ".gz" and len(suffixes) == 2 and suffixes[0] in TEXT:
        return suffixes[0]
    if suffix in TEXT or suffix in BINARY:
        return suffix
    raise TableError(
        f"{str(path)!r} is not a table mmtfl reads: use {', '.join([*TEXT, *BINARY])} (text also with .gz); "
        "a sheet of a spreadsheet can be saved as CSV."
    )


def _check_distinct(names: list[str], where: str) -> None:
    repeated = [name for name, uses in Counter(names).items() if uses > 1]
    if repeated:
        from mmtfl.wording import abbreviate

        raise TableError(
            f"{where} has more than one column {abbreviate(repeated)}: rename or remove the others."
        )


def _check_rows(frame: Any, where: str) -> Any:
    if not len(frame):
        raise TableError(f"{where} has a header but no rows: it needs at least one.")
    return frame


def _plain(error: Exception | Warning) -> str:
    """Write the message of another library as one sentence."""
    message = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
    return message if message.endswith(".") else message + "."
