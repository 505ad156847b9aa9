"""Spoilt files that follow the code: atheris changes bytes, and keeps what runs new lines of the readers.

    pip install atheris
    python benchmarks/fuzz_guided.py TARGET [FOLDER] [-max_total_time=300] [other options of libFuzzer]

TARGET is `csv` (text of a table), `archive` (bytes of a model file), or `content` (the JSON of a model, under
a right checksum). The first files are made here; FOLDER keeps those found, for the next run. What a reader
may do with a file, and what is a failure, is said in benchmarks/fuzz_files.py. A failure is written to a file
`crash-...`, whose name in place of FOLDER runs it again.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path

import atheris
import numpy as np

with atheris.instrument_imports(include=["mmtfl"]):
    import fuzz_files

    from mmtfl.persistence.archive import ModelFileError, read_archive, write_archive
    from mmtfl.tables.reading import TableError

SUFFIXES = {"csv": ".csv", "archive": ".mmtfl", "content": ".mmtfl"}
FIRST = {"csv": ("table.csv",), "archive": ("family.mmtfl",)}
FIRST["content"] = ("family.mmtfl", "search.mmtfl", "pairs.mmtfl", "alone.mmtfl", "classes.mmtfl")


def main() -> None:
    """Make the first files, and run one target until it fails or is stopped."""
    target, *options = sys.argv[1:]
    place = Path(tempfile.mkdtemp(prefix="mmtfl-fuzz-"))
    sound, first = place / "sound", place / "first"
    sound.mkdir(), first.mkdir()
    fuzz_files.corpus(sound)
    arrays = read_archive(sound / "family.mmtfl")[1]
    for name in FIRST[target]:
        data = (sound / name).read_bytes()
        if target == "content":
            data = json.dumps(read_archive(sound / name)[0]).encode()
        (first / name).write_bytes(data)
    path = place / f"case{SUFFIXES[target]}"

    def run(data: bytes) -> None:
        if target != "content":
            path.write_bytes(data)
        elif not _write(path, data, arrays):
            return
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            try:
                fuzz_files.use(path)
            except TableError:
                pass
            except ModelFileError as refused:
                if "\n" in str(refused):
                    raise AssertionError(f"more than one line: {str(refused)[:80]!r}") from None

    atheris.Setup([sys.argv[0], *options, str(first)], run)
    atheris.Fuzz()


def _write(path: Path, data: bytes, arrays: list[np.ndarray]) -> bool:
    """Write an archive with some JSON, if the bytes are JSON; whether they are."""
    try:
        write_archive(path, json.loads(data), arrays)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


if __name__ == "__main__":
    main()
