"""`--dask`, `--memory-limit` and `--checkpoint`: a cluster as the engine, and rows that stay in files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import ScaleOptions, TableOptions
from mmtfl.cli.output import note

_SAMPLE = 1000  # rows from which the kinds of the columns are learned


def check_scale(scale: ScaleOptions, data: Path) -> None:
    """Refuse options that contradict each other or the file, before anything is started or read."""
    if scale.workers is not None and scale.dask != "local":
        raise BadInput("--workers goes with --dask local: a scheduler has the workers it has.")
    if scale.workers is not None and scale.workers < 1:
        raise BadInput(f"--workers must be at least 1, got {scale.workers}.")
    is_parquet = data.is_dir() or data.suffix.lower() in (".parquet", ".pq")
    if scale.memory_limit is not None and not is_parquet:
        raise BadInput(f"--memory-limit leaves rows in parquet files, and {str(data)!r} is not one.")


@contextmanager
def engine_of(scale: ScaleOptions, *, quiet: bool) -> Iterator[Any]:
    """The engine asked for, None for this process; a cluster started here is closed here."""
    if scale.dask is None:
        yield None
        return
    from mmtfl.errors import require

    try:
        distributed = require("distributed", "dask")
    except ImportError as error:
        raise BadInput(str(error)) from None
    from mmtfl.engines import EngineLostError
    from mmtfl.engines.dask import DaskEngine

    with _client(distributed, scale) as client:
        if not quiet:
            note(f"Dask: {len(client.nthreads())} workers, dashboard at {client.dashboard_link}")
        try:
            yield DaskEngine(client)
        except EngineLostError as error:
            raise OSError(str(error)) from error


def _client(distributed: Any, scale: ScaleOptions) -> Any:
    if scale.dask == "local":
        own = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
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
    """The stored tasks of a parquet file or folder, and the recipe of their columns."""
    from mmtfl.tables.recipe import TableRecipe
    from mmtfl.tasks.container import Tasks

    in_memory = {
        "--categories": bool(table.categories),
        "--impute": table.impute is not None,
        "--drop-unlabelled": table.drop_unlabelled,
    }
    asked = next((name for name, given in in_memory.items() if given), None)
    if asked is not None:
        raise BadInput(
            f"{asked} needs all rows in memory: prepare the files first, or leave --memory-limit out."
        )
    if table.task is None or len(table.target) != 1:
        raise BadInput("--memory-limit needs --task and one --target.")
    try:
        stored = Tasks.from_parquet(
            data,
            task=table.task,
            target=table.target[0],
            features=_features(data, table),
            weight=table.weights,
            memory_limit=memory_limit,
        )
    except FileNotFoundError as error:
        raise BadInput(str(error)) from None
    frame = _sample(stored, both_classes=bool(table.classify))
    text = [name for name in stored.feature_names if frame[name].dtype.kind not in "iuf"]
    if text:
        raise BadInput(
            f"Column {text[0]!r} is not of numbers, which --memory-limit needs: leave it out with --drop, or "
            "turn it into numbers first."
        )
    recipe = TableRecipe.learn(
        frame,
        task=table.task,
        target=table.target[0],
        features=list(stored.feature_names),
        weights=table.weights,
        classify=bool(table.classify),
    )
    return stored, recipe


def _features(data: Path, table: TableOptions) -> list[str] | None:
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
