"""Past one machine: clusters as engines, and tables that stay in their files."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import FileOptions, ScaleOptions, TableOptions
from mmtfl.cli.output import check_output

_SAMPLE = 1000  # rows of stored files from which the kinds of the columns are learned


def check_scale(scale: ScaleOptions, data: Path, output: Path) -> None:
    """Refuse options that contradict each other or the file, before anything is started or read."""
    if scale.workers is not None and scale.dask != "local":
        raise BadInput("--workers goes with --dask local: a scheduler has the workers it has.")
    if scale.workers is not None and scale.workers < 1:
        raise BadInput(f"--workers must be at least 1, got {scale.workers}.")
    if scale.checkpoint is not None:
        if scale.checkpoint.resolve() == output.resolve():
            raise BadInput(f"{str(output)!r} is both the model and the checkpoint: give them two names.")
        check_output(scale.checkpoint, force=True, inputs=[data])
    is_parquet = data.is_dir() or data.suffix.lower() in (".parquet", ".pq")
    if scale.memory_limit is not None and not is_parquet:
        raise BadInput(f"--memory-limit leaves rows in parquet files, and {str(data)!r} is not one.")


@contextmanager
def dask_engine(scale: ScaleOptions, talk: FileOptions) -> Iterator[Any]:
    """A Dask cluster as the engine; one that is started here is closed here."""
    from mmtfl.errors import require

    try:
        distributed = require("distributed", "dask")
    except ImportError as error:
        raise BadInput(str(error)) from None
    from mmtfl.engines import EngineLostError
    from mmtfl.engines.dask import DaskEngine

    with _client(distributed, scale) as client:
        if not client.nthreads():
            raise BadInput(f"--dask {scale.dask!r} has no workers: start some with `dask worker` first.")
        talk.note(f"Dask: {len(client.nthreads())} workers, dashboard at {client.dashboard_link}")
        try:
            yield DaskEngine(client)
        except EngineLostError as error:
            raise OSError(str(error)) from error
        except KeyboardInterrupt:  # what was asked of the cluster fails now, which is no news
            for name in ("asyncio", "distributed"):
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
            raise


def _client(distributed: Any, scale: ScaleOptions) -> Any:
    from mmtfl.engines.dask import ignore_interrupts

    if scale.dask == "local":
        own = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR}
        # a worker that loses the scheduler would log a traceback; what fails in a task reaches us anyway
        silent = {"distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical"}
        # the workers end when the client is closed
        with ignore_interrupts(), import_module("dask").config.set(silent):
            return distributed.Client(n_workers=scale.workers, **own)
    try:
        return distributed.Client(scale.dask, timeout="10s")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadInput(
            f"--dask {scale.dask!r} cannot be reached ({reason}): name a scheduler such as "
            "tcp://host:8786, or local."
        ) from None


def open_stored(data: Path, table: TableOptions, memory_limit: str) -> tuple[Any, Any]:
    """The recipe of the columns of a parquet file or folder, and its tasks, which stay stored."""
    from mmtfl.cli.training import check_target
    from mmtfl.tables.recipe import TableRecipe
    from mmtfl.tasks.container import Tasks

    needs_rows = ("categories", "reference", "group", "time", "offset", "exposure")
    given = [name for name in needs_rows if getattr(table, name)]
    given += ["absent-features"] if table.absent_features == "allow" else []
    if given:
        raise BadInput(
            f"--{given[0]} needs all rows in memory: prepare the files first, or leave --memory-limit out."
        )
    check_target(table)
    if table.task is None or len(table.target) != 1:
        raise BadInput("--memory-limit needs --task and one --target.")
    columns: dict[str, Any] = {"task": table.task, "target": table.target[0]}
    try:
        features = _features_of_files(data, table)
        options: dict[str, Any] = {"features": features, "memory_limit": memory_limit}
        stored = Tasks.from_parquet(data, **columns, **options, weight=table.weights)
    except FileNotFoundError as error:
        raise BadInput(str(error)) from None
    frame = _sample(stored, both_classes=bool(table.classify))
    text = [name for name in stored.feature_names if frame[name].dtype.kind not in "iuf"]
    if text:
        raise BadInput(
            f"Column {text[0]!r} is not of numbers, which --memory-limit needs: leave it out with --drop, or "
            "turn it into numbers first."
        )
    known: dict[str, Any] = {"classify": bool(table.classify), "weights": table.weights}
    return TableRecipe.learn(frame, **columns, **known), stored


def _features_of_files(data: Path, table: TableOptions) -> list[str] | None:
    if not table.drop:
        return table.features
    from mmtfl.errors import require

    names = list(require("pyarrow.dataset", "cli").dataset(data, partitioning="hive").schema.names)
    absent = [name for name in table.drop if name not in names]
    if absent:
        raise BadInput(f"--drop {absent[0]!r}: there is no such column.")
    special = {table.task, table.weights, *table.target, *table.drop}
    return [name for name in table.features or names if name not in special]


def _sample(stored: Any, *, both_classes: bool) -> Any:
    """The first rows as a frame; with `both_classes`, as many as it takes to see both."""
    import pandas as pd

    columns = [*stored.feature_names, stored.target, *([] if stored.weight is None else [stored.weight])]
    frames, values = [], set()
    for piece in stored.pieces:
        own = [] if piece.label is not None else [stored.task]
        for table in piece.source.tables([*columns, *own], _SAMPLE):
            frame = table.to_pandas()
            frames.append(frame if own else frame.assign(**{stored.task: piece.label}))
            values |= set(frame[stored.target].unique().tolist())
            if not both_classes or len(values) > 1:
                return pd.concat(frames, ignore_index=True)
    return pd.concat(frames, ignore_index=True)
