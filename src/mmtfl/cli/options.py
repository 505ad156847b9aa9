"""Options that several commands have in common, and how their values are read and checked."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from mmtfl.cli import output as out
from mmtfl.cli.main import BadInput
from mmtfl.errors import require

TABLE = Group("The table", sort_key=1)
MODEL = Group("The model", sort_key=2)
SCALE = Group("Past one machine", sort_key=3)
OUTPUT = Group("What comes out", sort_key=4)

SEVERAL = Parameter(consume_multiple=True, negative=(), show_default=False)
JOBS = Parameter(name=["--jobs", "--n-jobs"])
SWITCH = Parameter(negative=(), show_default=False)
# a lone hyphen is stdout; other names that begin with one are refused as options gone astray
TARGET_FILE = Parameter(name=["-o", "--output"], group=OUTPUT, allow_leading_hyphen=True)

_LEAST = {"repeats": 1, "folds": 2, "seed": 0, "jobs": 1, "workers": 1}


@Parameter(name="*", group=TABLE)
@dataclass(frozen=True)
class ColumnOptions:
    """Which columns are predicted, and from which.

    Parameters
    ----------
    target
        Column to predict. Several: each target is a task, and all share their rows.
    task
        Column of task labels: hospital, school, machine. Left out for one model, or for several
        targets.
    features
        Columns to predict from; by default all others that have a name.
    drop
        Columns that are not features.
    categories
        Columns of levels that look like numbers; text and true/false are levels anyway.
    reference
        The level that the others of a column are compared with, as ward=medicine; by default the
        most frequent.
    """

    target: Annotated[tuple[str, ...], SEVERAL] = ()
    task: str | None = None
    features: Annotated[list[str] | None, SEVERAL] = None
    drop: Annotated[list[str] | None, SEVERAL] = None
    categories: Annotated[list[str] | None, SEVERAL] = None
    reference: Annotated[list[str] | None, SEVERAL] = None

    def references(self) -> dict[str, str] | None:
        """The levels that others are compared with, by column."""
        return named_values("--reference", self.reference, "not COLUMN=LEVEL, such as ward=medicine") or None


@Parameter(name="*", group=TABLE)
@dataclass(frozen=True)
class TableOptions(ColumnOptions):
    """Which columns are used, and how.

    Parameters
    ----------
    weights
        Column of row weights: 2 counts as a repeated row.
    group
        Column of groups, such as the patient: rows of a group are never on both sides of a split.
    time
        Column of numbers or dates: rows are predicted by earlier rows of their task only.
    offset
        Column of a known part of the linear predictor: its coefficient is 1.
    exposure
        Column of exposures (person years, visits) for counts: its logarithm is an offset.
    absent_features
        With allow, a column that is missing in all rows of a task is a feature that the task does
        not have.
    impute
        Fill missing numbers with the median of their task, or refuse them.
    classify
        Whether targets are two classes or numbers; by default text and numbers with two values are
        classes.
    """

    weights: str | None = None
    group: str | None = None
    time: str | None = None
    offset: str | None = None
    exposure: str | None = None
    absent_features: Literal["error", "allow"] = "error"
    impute: Literal["median", "error"] = "median"
    classify: Annotated[bool | None, Parameter(negative="--regress")] = None

    def recipe(self) -> Any:
        """The columns that are no features."""
        from mmtfl.tables.recipe import TableRecipe

        columns = {"weight": self.weights, "group": self.group, "time": self.time, "offset": self.offset}
        named: dict[str, Any] = {f"{name}_column": column for name, column in columns.items()}
        return TableRecipe(self.target, self.task, exposure_column=self.exposure, **named)

    def encoder(self, missing: Iterable[str] = ()) -> Any:
        """A `TableEncoder` with these options."""
        from mmtfl.tables.encoder import TableEncoder

        return TableEncoder(
            categories=tuple(self.categories or ()),
            keep=tuple(self.features or ()),
            reference=self.references(),
            missing=tuple(missing),
            impute=self.impute,
            absent_features="allow" if self.absent_features == "allow" else "fill",
        )


@Parameter(name="*", group=TABLE)
@dataclass(frozen=True)
class TextOptions:
    """How files are read; what a text file has is found out otherwise.

    Parameters
    ----------
    separator
        What stands between the cells of a text file, such as ';'.
    decimal
        The decimal mark of a text file.
    encoding
        The encoding of a text file, such as latin-1.
    sheet
        The sheet of a spreadsheet, by name or by number; by default the first.
    missing
        A code of missing cells, such as -999, besides empty cells and . - ? n/a NULL NaN; may be
        repeated.
    """

    separator: str | None = None
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    sheet: str | None = None
    missing: Annotated[list[str] | None, Parameter(negative=(), allow_leading_hyphen=True)] = None

    def open(self, path: Path, missing: Iterable[str] = ()) -> Any:
        """A table on disk, a `TableFile`; with the codes of missing cells that a model remembers."""
        from mmtfl.tables.reading import TableFile

        codes = [*dict.fromkeys([*missing, *(self.missing or ())])]
        own = {"separator": self.separator, "decimal": self.decimal, "encoding": self.encoding}
        return TableFile(path, **own, sheet=self.sheet, missing=codes)


@Parameter(name="*", group=MODEL)
@dataclass(frozen=True)
class ModelOptions:
    """Options of all models.

    Parameters
    ----------
    standardize
        Put the features on one scale, so that the penalty treats them alike.
    scale_targets
        Put each task's target on one scale; by default done for several target columns, and with
        huber.
    loss
        Of numbers: squared (the default), huber or poisson; or LABEL=LOSS for each task, also
        logistic.
    delta
        With --loss huber: residuals beyond this count by their size alone, in units of the target's
        spread.
    levels
        Whether each task's level borrows from the others, and from columns that are constant within
        tasks.
    task_weight
        equal for the same total weight of every task, or LABEL=W; by default large tasks count
        most.
    penalty_weight
        How strongly columns are penalised, as COLUMN=W: 0 for never, inf to leave one out; 1 for
        the others.
    positive
        Columns whose coefficients must not be negative, or all.
    max_iter
        Most passes of the solver.
    tol
        How close to stationary the solution must be.
    """

    standardize: bool = True
    scale_targets: bool | None = None
    loss: Annotated[list[str] | None, SEVERAL] = None
    delta: float = 1.35
    levels: Literal["shrunk", "free"] = "shrunk"
    task_weight: Annotated[list[str] | None, SEVERAL] = None
    penalty_weight: Annotated[list[str] | None, SEVERAL] = None
    positive: Annotated[list[str] | None, SEVERAL] = None
    max_iter: int = 1000
    tol: float = 1e-7


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class TalkOptions:
    """How much is said, and how.

    Parameters
    ----------
    json
        Print the result as JSON.
    quiet
        Show only errors and warnings on stderr.
    verbose
        Show more on stderr.
    """

    json: Annotated[bool, SWITCH] = False
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative=(), show_default=False)] = False
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative=(), show_default=False)] = False

    def say(self, line: str) -> None:
        """Print a line on stderr, unless quiet."""
        if not self.quiet:
            out.say(line)

    @contextmanager
    def status(self, words: str, *, lines: bool = False) -> Iterator[Any]:
        """A line on stderr that says what is being done, and what changes it; elsewhere lines, if asked."""
        from rich.console import Console

        console = Console(stderr=True)
        if self.quiet or not console.is_terminal:
            yield (lambda now: self.say(f"[{words}] {now}")) if lines else None
            return
        with console.status(words) as line:
            yield lambda now: line.update(f"{words}: {now}")

    def note(self, *lines: str) -> None:
        """Print lines on stderr about what the user may want to know, unless quiet."""
        for line in lines:
            self.say(f"note: {line}")


@Parameter(name="*", group=SCALE)
@dataclass(frozen=True)
class ScaleOptions:
    """Clusters, checkpoints and limits of memory.

    Parameters
    ----------
    dask
        Work on a Dask cluster: the address of its scheduler, or local for workers on this machine.
    workers
        Workers that --dask local starts; by default one per processor.
    checkpoint
        Keep the state of the work in this file: the same command goes on from it.
    memory_limit
        Leave the rows in the parquet file or folder and take no more memory than this, such as 2GB.
    """

    dask: str | None = None
    workers: int | None = None
    checkpoint: Path | None = None
    memory_limit: str | None = None

    def check(self, data: Path, output: Path) -> None:
        """Refuse options that contradict each other or the file, before anything is started or read."""
        if self.workers is not None and self.dask != "local":
            raise BadInput("--workers goes with --dask local: a scheduler has the workers it has.")
        check_counts(workers=self.workers)
        if self.checkpoint is not None:
            if self.checkpoint.resolve() == output.resolve():
                raise BadInput(f"{str(output)!r} is both the model and the checkpoint: give them two names.")
            out.check_output(self.checkpoint, force=True, inputs=[data])
        is_parquet = data.is_dir() or data.suffix.lower() in (".parquet", ".pq")
        if self.memory_limit is not None and not is_parquet:
            raise BadInput(f"--memory-limit leaves rows in parquet files, and {str(data)!r} is not one.")

    @contextmanager
    def engine(self, talk: TalkOptions) -> Iterator[Any]:
        """The engine that was asked for, if any; its failures are worded here, and its workers ended."""
        if self.dask is None:
            yield None
            return
        distributed = require("distributed", "dask")
        from mmtfl.engines import EngineLostError
        from mmtfl.engines.dask import DaskEngine

        with self._client(distributed) as client:
            if not client.nthreads():
                raise BadInput(f"--dask {self.dask!r} has no workers: start some with `dask worker` first.")
            talk.note(f"Dask: {len(client.nthreads())} workers, dashboard at {client.dashboard_link}")
            try:
                yield DaskEngine(client)
            except EngineLostError as error:
                raise OSError(str(error)) from error
            except KeyboardInterrupt:  # what was asked of the cluster fails now, which is no news
                for name in ("asyncio", "distributed"):
                    logging.getLogger(name).setLevel(logging.CRITICAL + 1)
                raise

    def _client(self, distributed: Any) -> Any:
        from mmtfl.engines.dask import ignore_interrupts

        if self.dask == "local":
            own = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR}
            # a worker that loses the scheduler would log a traceback; what fails in a task reaches us anyway
            silent = {"distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical"}
            # the workers end when the client is closed
            with ignore_interrupts(), import_module("dask").config.set(silent):
                return distributed.Client(n_workers=self.workers, **own)
        try:
            return distributed.Client(self.dask, timeout="10s")
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise BadInput(
                f"--dask {self.dask!r} cannot be reached ({reason}): name a scheduler such as "
                "tcp://host:8786, or local."
            ) from None


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class FileOptions(TalkOptions):
    """Where the result goes.

    Parameters
    ----------
    force
        Overwrite an existing file.
    """

    force: Annotated[bool, SWITCH] = False

    def written(self, path: Path, about: str = "", **found: Any) -> None:
        """Tell of the result, in words on stderr or as JSON."""
        if self.json:
            out.print_json({"output": str(path), **found})
        else:
            self.say(f"Written: {path}{about}")


DataFile = Annotated[Path, Parameter(group=TABLE)]
DataFiles = Annotated[list[Path], Parameter(group=TABLE)]


# -- values --------------------------------------------------------------------------------------------------


def named_values(
    option: str,
    words: Iterable[str] | None,
    expected: str,
    *,
    key: Callable[[str], Any] = str,
    value: Callable[[str], Any] = str,
) -> dict[Any, Any]:
    """Read words NAME=VALUE as a dict; a name may hold the sign where values are not levels."""
    found = {}
    for word in words or ():
        name, _, text = word.partition("=") if key is value is str else word.rpartition("=")
        try:
            found[key(name)] = value(text)
        except ValueError:
            text = ""
        if not (name and text):
            raise BadInput(f"{option} {word!r} is {expected}.")
    return found


def check_counts(**counts: int | None) -> None:
    """Refuse counts that are too small; None was not given."""
    for option, value in counts.items():
        if value is not None and value < _LEAST[option]:
            raise BadInput(f"--{option} {value}: it must be {_LEAST[option]} or more.")


def choose(option: str, given: list[str] | None, known: Iterable[str]) -> list[str]:
    """The names given, in the order of the known ones; all of these where none is given."""
    known = list(known)
    unknown = [name for name in given or () if name not in known]
    if unknown:
        raise BadInput(f"--{option} has no {unknown[0]!r}: use {', '.join(known)}.")
    return [name for name in known if given is None or name in given]
