"""Printing, and files: results on stdout, everything else on stderr, files written whole or not at all."""

import csv
import io
import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from mmtfl.cli.main import BadInput, visible

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".pq", ".feather")
PIPE_WIDTH = 160  # a pipe has no width of its own


def say(line: str) -> None:
    """Print one line on stderr, control characters escaped."""
    print(visible(line), file=sys.stderr, flush=True)


# -- stdout ------------------------------------------------------------------------------------------------


def print_lines(*lines: str) -> None:
    """Print lines on stdout, control characters escaped."""
    print(*map(visible, lines), sep="\n")


def print_json(value: Any) -> None:
    """Print strict JSON on stdout: NaN is null, infinities are text."""
    from mmtfl.persistence.archive import plain

    text = json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)
    # JSON itself escapes only the first 32 characters of those that a terminal obeys
    print("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> None:
    """Print a table on stdout; its first `left` columns are text, the others numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    screen = Console(**plain)
    if not screen.is_terminal:
        screen = Console(width=PIPE_WIDTH, **plain)
    screen.print(printable(title, most=200), style="bold", soft_wrap=True)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(printable(name), justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(printable, row))
    screen.print(table)


def printable(name: Any, most: int = 60) -> str:
    """A name as one line of at most `most` characters, control characters escaped."""
    shown = visible(str(name))
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def number(value: float | None) -> str:
    """Format a number with four significant digits; a dash for none."""
    if value is None or math.isnan(value):
        return "-"
    return "0" if abs(value) < 1e-12 else f"{value:.4g}"


# -- files -------------------------------------------------------------------------------------------------


def load_model(path: Path) -> Any:
    """Load a model, or say in one line why that cannot be."""
    from mmtfl.estimators.model_files import load

    try:
        return load(path)
    except FileNotFoundError:
        raise BadInput(f"There is no file {str(path)!r}: give a model of `mmtfl fit` or save.") from None
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise BadInput(str(error).replace("model.save(path)", "`mmtfl fit` or model.save(path)")) from None


def save_model(model: Any, path: Path, *, force: bool) -> None:
    """Write a model, whole or not at all."""
    with naming_the_file(path):
        model.save(path, overwrite=force)


def check_output(path: Path, *, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Refuse a place where the result cannot be put, before any work is done."""
    from mmtfl.persistence.files import check_target

    if str(path).startswith("-"):
        raise BadInput(f"-o needs the name of a file, and got {str(path)!r}: put ./ before it if it is one.")
    if any(given.exists() and path.exists() and path.samefile(given) for given in inputs):
        raise BadInput(f"{str(path)!r} is read and would be written over: give the result another name.")
    try:
        check_target(path, overwrite=force)
        with TemporaryFile(dir=path.parent):  # the folder takes files
            pass
    except FileExistsError:
        raise BadInput(f"{str(path)!r} exists: choose another name, or --force to write over it.") from None
    except OSError as error:
        reason = f"{str(path)!r} cannot be written: {error.strerror}." if error.strerror else str(error)
        raise BadInput(reason) from None


def check_table_output(path: Path, *, force: bool, inputs: Sequence[Path] = ()) -> None:
    """The same for a table, whose suffix says how it is written."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise BadInput(f"{str(path)!r}: the result is a table, its name ends in {', '.join(TABLE_SUFFIXES)}.")
    check_output(path, force=force, inputs=inputs)


def write_table(frame: Any, path: Path, *, force: bool) -> None:
    """Write a table by the suffix of its name."""
    from mmtfl.persistence.files import write_whole

    suffix, stored = path.suffix.lower(), io.BytesIO()
    if suffix in (".csv", ".tsv"):
        stored.write(_as_csv(frame, "\t" if suffix == ".tsv" else ",").encode())
    elif suffix == ".feather":
        frame.to_feather(stored)
    else:
        frame.to_parquet(stored, index=False)
    with naming_the_file(path), stored.getbuffer() as view:  # released before `stored`, also by an error
        write_whole(path, [view], overwrite=force)


def print_csv(frame: Any) -> None:
    """A table as CSV on stdout."""
    sys.stdout.flush()
    text = _as_csv(frame, ",")
    if sys.stdout.isatty():  # into a file or a pipe cells go as they are
        text = "".join(f"{visible(line)}\n" for line in text.split("\n")[:-1])
    # UTF-8 whatever the terminal speaks: it is what `read_table` reads
    sys.stdout.buffer.write(text.encode())


def _as_csv(frame: Any, separator: str) -> str:
    text = frame.to_csv(index=False, sep=separator, lineterminator="\n")
    if "\r" in text:  # readers take a carriage return for the end of a row, unless it is quoted
        quoting = csv.QUOTE_NONNUMERIC
        text = frame.to_csv(index=False, sep=separator, lineterminator="\n", quoting=quoting)
    return text


@contextmanager
def naming_the_file(path: Path) -> Iterator[None]:
    """Name the file in errors of the system that writes it."""
    try:
        yield
    except FileExistsError:
        raise BadInput(f"{str(path)!r} has appeared meanwhile: choose another name, or --force.") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"{str(path)!r} was not written: {reason}. Nothing is left of it.") from None
