"""`mmtfl datasets`: what data there is, and one dataset as a table."""

import shlex
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import TARGET_FILE, FileOptions
from mmtfl.cli.output import check_table_output, print_csv, print_json, print_table, write_table
from mmtfl.wording import suggest

_MADE = Group("Simulated datasets", sort_key=1)

# options without which the suggested next command would stop, or use what is known only afterwards
NEEDED = {"hospitals": ["--drop", "died", "visits", "months"]}


def datasets(
    name: str | None = None,
    /,
    *,
    seed: Annotated[int | None, Parameter(group=_MADE)] = None,
    samples: Annotated[int | None, Parameter(group=_MADE)] = None,
    noise: Annotated[float | None, Parameter(group=_MADE)] = None,
    output: Annotated[Path | None, TARGET_FILE] = None,
    talk: FileOptions = FileOptions(),
) -> int:
    """List datasets, or write one as a table.

    They are drawn at random, and their truth is known.

    Example:

      mmtfl datasets
      mmtfl datasets d1 --seed 1 -o d1.csv
      mmtfl datasets tasks --samples 50 -o tasks.csv

    Parameters
    ----------
    name
        The dataset to write; without it, a list of all.
    seed
        Seed of everything random, 0 by default.
    samples
        Rows of each task.
    noise
        Standard deviation of the noise, 1 by default.
    output
        The table: .csv, .tsv, .parquet or .feather; without it, CSV on stdout.
    """
    from mmtfl.datasets.simulate import CATALOGUE

    given = {"random_state": seed, "n_samples": samples, "noise": noise}
    options = {option: value for option, value in given.items() if value is not None}
    if name is None:
        if output is not None or options:
            raise BadInput("Name the dataset to write: `mmtfl datasets` lists them.")
        fields = ("name", "title", "tasks", "rows", "features")
        entries = [{field: getattr(entry, field) for field in fields} for entry in CATALOGUE.values()]
        if talk.json:
            print_json(entries)
            return 0
        rows = [[str(value) for value in entry.values()] for entry in entries]
        print_table("Simulated datasets", ["name", "what it is", *fields[2:]], rows, left=2)
        return 0
    output = None if str(output) == "-" else output
    if output is not None:
        check_table_output(output, force=talk.force)
    frame, task, targets = _make(name, options)
    if output is None:
        if talk.json:
            print_json(frame.to_dict(orient="list"))
        else:
            print_csv(frame)
        return 0
    write_table(frame, output, force=talk.force)
    n_rows, n_columns = frame.shape
    about = f" ({n_rows} rows, {n_columns} columns)"
    talk.written(output, about, rows=n_rows, columns=n_columns, task=task, targets=targets)
    if not talk.json:
        words = ["mmtfl", "cv", str(output), "--task", task]
        words += [word for target in targets for word in ("--target", target)] + NEEDED.get(name, [])
        talk.say(f"Next: {shlex.join([*words, '-o', str(output.with_suffix('.mmtfl'))])}")
    return 0


def _make(name: str, options: dict[str, Any]) -> tuple[Any, str, list[str]]:
    from mmtfl.datasets.simulate import CATALOGUE, as_table

    if name not in CATALOGUE:
        raise BadInput(f"There is no dataset {name!r}{suggest(name, list(CATALOGUE), 'names')}")
    entry = CATALOGUE[name]
    idle = set(options) - set(signature(entry.make).parameters)
    if idle:
        raise BadInput(f"--{idle.pop().removeprefix('n_')} has no meaning for {name!r}: leave it out.")
    return as_table(entry.make(**{"random_state": 0, **options}))
