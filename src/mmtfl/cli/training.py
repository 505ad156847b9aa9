"""Training for `fit` and `cv`: read a table, fit and save a model, and print what came out.

With `--dask` a cluster is the engine, and with `--memory-limit` the rows stay in parquet files.
"""

import logging
import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from math import isnan
from pathlib import Path
from typing import Any

from mmtfl.cli.main import NOT_CONVERGED, BadInput, command_words
from mmtfl.cli.options import FileOptions, ScaleOptions, TableOptions, TalkOptions, TextOptions
from mmtfl.cli.output import check_output, naming_the_file, number, print_json, print_lines, say

_LARGE_FILE = 5_000_000  # bytes
_SAMPLE = 1000  # rows of stored files from which the kinds of the columns are learned

# parameters in messages of the library, and the options that set them
_WORDS = (
    (r"The '(\w+)' parameter of \w+", r"--\1"),
    (r"set_params\(unknown_task='mean'\)", "--unknown-task mean"),
    (r"unknown_task='(\w+)'", r"--unknown-task \1"),
    ("standardize=True", "--standardize"),
    ("with on_degenerate_task='base_rate'", "with --drop-tasks one-class"),
    ("memory_limit", "--memory-limit"),
    (r"^task_weight (names|of)", r"--task-weight \1"),
    ("n_splits=", "--folds "),
    ("metric=", "--scoring "),
    ("scale_targets", "scale-targets"),
    ("max_iter", "max-iter"),
    ("^sample_weight is", "--weights is"),
    (r"^metric '(\w+)' failed", r"--scoring \1 failed"),
    (r"float\('inf'\)", "inf"),
)


@dataclass(frozen=True)
class Training:
    """The input of an estimator, and the table it came from; without a file, X is tasks that stay stored."""

    recipe: Any
    X: Any
    y: Any = None
    task: Any = None
    weights: Any = None
    file: Any = None
    groups: Any = None
    offset: Any = None
    kinds_are_given: bool = False

    @property
    def in_time(self) -> bool:
        """Whether the rows are in time order, and are to be split by it."""
        return self.recipe.time_column is not None

    @property
    def classify(self) -> bool:
        """Whether the targets are classes."""
        return self.recipe.classes is not None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.X.shape[1] if self.file is not None else self.X.n_features

    @property
    def rows_per_task(self) -> float:
        """Rows of the average task; targets that were not observed count as rows."""
        if self.file is None:
            return float(self.X.sizes.mean())
        return self.X.shape[0] / (1 if self.task is None else len(set(self.task.tolist())))


def read_training(data: Path, table: TableOptions, text: TextOptions, talk: TalkOptions) -> Training:
    """Read a table and learn how its columns are used."""
    from mmtfl.tables.recipe import TableRecipe, drop_unlabelled
    from mmtfl.tasks.grouping import group_rows

    check_target(table)
    file = text.open(data)
    frame = file.frame(text=[*(table.categories or ()), *([table.task] if table.task else [])])
    if table.drop_unlabelled:
        targets = table.target if len(table.target) == 1 else ()  # of several, each may have gaps
        needed = [table.task, *targets, table.weights, table.group, table.time]
        needed += [table.offset, table.exposure]
        frame, n_dropped = drop_unlabelled(frame, needed)
        if n_dropped:
            talk.note(f"{n_dropped} rows without a target, task label, weight, group or time are left out")
    given = {name: value for name, value in vars(table).items() if value is not None}
    given.pop("drop_unlabelled")  # which is done already
    recipe = TableRecipe.learn(frame, **{"task": None, **given})
    frame, groups = sort_by_time(recipe, frame)
    labels = recipe.labels(frame)
    n_tasks = 0 if labels is None else len(set(labels.tolist()))
    notes = [*file.notes, *recipe.notes]
    if labels is not None and n_tasks > len(labels) / 3:
        notes.append(f"{table.task!r} has {n_tasks} labels in {len(labels)} rows: is it the task column?")
    talk.note(*notes)
    # rows in the order in which a fit has them, which is so spared a copy of its own
    order = None if labels is None else group_rows(labels).order
    rest = recipe.targets(frame), labels, recipe.weights(frame), groups, recipe.offset(frame)
    y, labels, weights, groups, offset = (
        part if part is None or order is None else part[order] for part in rest
    )
    columns, n_rows = dict(frame.items()), len(frame)
    del frame
    X = recipe.take_matrix(columns, n_rows, rows=order)
    return Training(recipe, X, y, labels, weights, file, groups, offset, table.classify is not None)


def check_target(table: TableOptions) -> None:
    """Refuse a table without a target, which only summaries of sites bring along."""
    if not table.target:
        command = command_words.get()[0]
        raise BadInput(f"{command} needs --target: see `mmtfl {command} --help`.")


def check_no_offset(recipe: Any, who: str, remedy: str) -> None:
    """Refuse offsets where fits to parts of the rows do not take them along."""
    if recipe.offset_column is not None or recipe.exposure_column is not None:
        raise BadInput(f"{who} not take offsets and exposures along: {remedy}.")


def sort_by_time(recipe: Any, frame: Any) -> tuple[Any, Any]:
    """The rows in time order, and their groups; without groups, rows of a task at one time are a group."""
    import numpy as np

    time = recipe.time(frame)
    if time is None:
        return frame, recipe.groups(frame)
    order = np.argsort(time, kind="stable")
    frame, time = frame.iloc[order].reset_index(drop=True), time[order]
    if recipe.group_column is not None:
        return frame, recipe.groups(frame)
    labels = recipe.labels(frame)
    of_task = np.zeros(len(time)) if labels is None else np.unique(labels, return_inverse=True)[1]
    moments = np.unique(np.column_stack([of_task, time]), axis=0, return_inverse=True)[1].ravel()
    return frame, moments if len(np.unique(moments)) < len(moments) else None


def train(
    data: Path,
    output: Path,
    table: TableOptions,
    text: TextOptions,
    talk: FileOptions,
    scale: ScaleOptions,
    make: Callable[[Training], Any],
) -> int:
    """Read the table, fit what `make` gives, save it, and say what came out."""
    from mmtfl.tables.reading import release_unused

    check_output(output, force=talk.force, inputs=[data])
    _check_scale(scale, data, output)
    _say_of_large("reading", data, talk)
    # the engine first: reading may take long
    with nullcontext() if scale.dask is None else _dask_engine(scale, talk) as engine:
        if scale.memory_limit is None:
            training = read_training(data, table, text, talk)
            release_unused()  # the frame is gone, and a wide table needs the room
        else:
            training = _open_stored(data, table, scale.memory_limit)
        _say_of_large("fitting", data, talk)
        with library_words():
            model = make(training)
        release_unused()  # what finding a strength took
        _set_known(model, engine=engine, checkpoint=scale.checkpoint)
        converged = _fit(model, training, talk)
    _set_known(model, engine=None, checkpoint=None, verbose=0)  # of this run, not of the model
    model._fitted().recipe_ = training.recipe
    model.provenance_ = _provenance(model, training, data, output)
    del training  # of a wide table what follows needs the room
    with naming_the_file(output):
        model.save(output, overwrite=talk.force)
    _show(model, output, talk)
    return 0 if converged else NOT_CONVERGED


def train_on(
    training: Training, data: Path, output: Path, talk: FileOptions, make: Callable[[Training], Any]
) -> int:
    """Fit what `make` gives to what was read already, save it, and say what came out; `data` names it."""
    with library_words():
        model = make(training)
    converged = _fit(model, training, talk)
    _set_known(model, verbose=0)
    model.provenance_ = _provenance(model, training, data, output)
    with naming_the_file(output):
        model.save(output, overwrite=talk.force)
    _show(model, output, talk)
    return 0 if converged else NOT_CONVERGED


def _say_of_large(what: str, data: Path, talk: FileOptions) -> None:
    """Print the present step where the file is large enough to take seconds."""
    size = data.stat().st_size if data.is_file() else 0
    if size > _LARGE_FILE:
        talk.say(f"[{what}] {data.name}, {size / 1e6:.0f} MB")


def _fit(model: Any, training: Training, talk: FileOptions) -> bool:
    """Fit, pass warnings on as lines, and tell whether the solver converged."""
    from sklearn.exceptions import ConvergenceWarning

    converged = True
    with warnings.catch_warnings(record=True) as caught, library_words():
        warnings.simplefilter("always")
        own = {} if training.groups is None or not hasattr(model, "cv") else {"groups": training.groups}
        own |= {} if training.offset is None else {"offset": training.offset}
        model.fit(training.X, training.y, task=training.task, sample_weight=training.weights, **own)
    for text, category in dict.fromkeys((str(w.message), w.category) for w in caught):
        if issubclass(category, ConvergenceWarning):
            converged = False
        else:
            talk.note(" ".join(text.split()))
    if not converged:
        fitted = model._fitted()
        say(
            f"mmtfl: the fit stopped after {fitted.n_iter_} passes at a violation of "
            f"{fitted.violation_:.2e}, short of --tol {fitted.tol:g}. The model is saved; raise --max-iter "
            f"(now {fitted.max_iter}), or loosen --tol"
            f"{'' if fitted.standardize else ', or use --standardize'}."
        )
    return converged


def _set_known(model: Any, **options: Any) -> None:
    """Set the options that the model has."""
    known = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in options.items() if name in known})


@contextmanager
def library_words() -> Iterator[None]:
    """Turn errors of the library into one line for the user, with options in place of parameters."""
    try:
        yield
    except (ValueError, TypeError) as error:
        text = str(error)
        for ours, theirs in _WORDS:
            text = re.sub(ours, theirs, text)
        raise BadInput(text) from error


def _training_scores(model: Any, training: Training) -> dict[str, Any]:
    """Scores of each task on the rows of the fit: R^2, or accuracy, AUC and the commoner class alone.

    A task whose target does not vary has none.
    """
    import numpy as np

    from mmtfl.model_selection import per_task_scores

    def by_task(predicted: Any, metric: Any) -> Any:
        scores = per_task_scores(training.y, predicted, training.task, metric)
        return np.where(varies, list(scores.values()), np.nan)

    with warnings.catch_warnings(action="ignore"):  # a task with one row has no score, which the table shows
        known = {} if training.offset is None else {"offset": training.offset}
        predicted, varies = model.predict(training.X, task=training.task, **known), True
        varies = by_task(predicted, lambda y, _: float(len(np.unique(y)) > 1)) == 1.0
        inner = model._fitted()
        if not training.classify and not inner._loss.is_quadratic:
            X, place, labels = inner._locate(training.X, training.task)
            scores = inner._scores_by_task(inner._predict_at(X, place), training.y, labels, training.offset)
            return {"metric": "deviance_explained", "scores": np.where(varies, list(scores.values()), np.nan)}
        if not training.classify:
            return {"metric": "r2", "scores": by_task(predicted, "r2")}
        log_odds = model.decision_function(training.X, task=training.task, **known)
        return {
            "metric": "accuracy",
            "scores": by_task(predicted, "accuracy"),
            "auc": by_task(log_odds, "roc_auc"),
            "base_rate": by_task(predicted, lambda y, _: np.unique(y, return_counts=True)[1].max() / len(y)),
        }


def _provenance(model: Any, training: Training, data: Path, output: Path) -> dict[str, Any]:
    """What was run, when and on what; in the command, names of files stand in place of their paths."""
    from datetime import UTC, datetime

    import numpy
    import sklearn

    import mmtfl
    from mmtfl.persistence.json_values import plain

    words = []
    for word in command_words.get():
        option, sign, value = word.partition("=") if word.startswith("-") else ("", "", word)
        words.append(option + sign + (Path(value).name if _is_file(value, data, output) else value))
    packages = {"mmtfl": mmtfl, "numpy": numpy, "scikit-learn": sklearn}
    record: dict[str, Any] = {
        "command": shlex.join(["mmtfl", *words]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: package.__version__ for name, package in packages.items()},
        "data": data.name,
    }
    if training.file is None:  # reading all rows once more, for a hash or a score, could take hours
        stored = training.X
        record |= {"rows": stored.n_samples, "columns": stored.n_features + 2}
        return {**record, "fingerprint": stored.fingerprint, "training": {"metric": None, "scores": []}}
    record |= {"rows": len(training.X), "columns": len(training.file.columns)}
    scores = plain(_training_scores(model, training))
    return {**record, "sha256": training.file.sha256, "training": scores}


def _is_file(word: str, *known: Path) -> bool:
    return Path(word) in known or word.endswith(".summary")


def _show(model: Any, output: Path, talk: FileOptions) -> None:
    from mmtfl.report.summary import describe

    summary = describe(model)
    if talk.json:
        print_json({"output": str(output), **summary.as_dict()})
        return
    print_lines(*headlines(summary))
    if not summary.coef.any():
        talk.note("no feature is kept: the strength is too large, or the features tell nothing")
    talk.say(f"Written: {output} (next: mmtfl inspect {shlex.quote(str(output))})")


def headlines(summary: Any) -> list[str]:
    """The first lines about a model: what it is, which features it uses, how well it predicts."""
    from mmtfl.report.sentences import heldout_headline

    exponents = [value if isinstance(value, str) else f"{value:g}" for value in summary.member or ()]
    named = [f"(p, k) = ({', '.join(exponents)})"] if exponents else []
    for name, value in summary.strengths.items():
        ends = [number(min(value)), number(max(value))] if isinstance(value, list) else []
        named.append(f"{name} {' to '.join(ends)}, by task" if ends else f"{name} {number(value)}")
    lines = [f"{summary.title}: {', '.join(named)}", summary.usage, *summary.support]
    search = summary.search
    if search is not None:
        headline = heldout_headline(search)
        lines += [] if headline is None else [headline]
        if headline is None or not search.score_name.startswith("minus "):  # a score that was asked for
            score = f"{number(search.best_score)}, mean of {search.n_folds} folds"
            lines.append(f"Held-out score ({search.score_name}): {score}")
    return [*lines, *_in_the_fit(summary.provenance.get("training") or {})]


def _in_the_fit(training: dict[str, Any]) -> list[str]:
    """Mean scores of the tasks on the rows of the fit, where they are known."""
    from mmtfl.report.sentences import PLAIN_SCORES, accuracy_beside_base

    means = {}
    for name in ("scores", "auc", "base_rate"):
        known = [score for score in training.get(name) or [] if score is not None]
        means[name] = sum(known) / len(known) if known else float("nan")
    if isnan(means["scores"]):
        return []
    alone = len(training["scores"]) == 1
    if training["metric"] in PLAIN_SCORES:
        name = PLAIN_SCORES[training["metric"]]
        found = f"{name if alone else f'mean {name} of the tasks'} {number(means['scores'])}"
    elif training.get("base_rate") is None:  # older files
        found = f"mean accuracy of the tasks {number(means['scores'])}"
    else:
        accuracy = accuracy_beside_base(means["scores"], means["base_rate"])
        found = f"{'' if alone else 'means of the tasks: '}AUC {number(means['auc'])}, {accuracy}"
    return [f"On the rows of the fit (optimistic): {found}"]


# -- clusters and stored files -------------------------------------------------------------------------------


def _check_scale(scale: ScaleOptions, data: Path, output: Path) -> None:
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
def _dask_engine(scale: ScaleOptions, talk: FileOptions) -> Iterator[Any]:
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
    from mmtfl.engines.child_processes import deaf_to_ctrl_c

    if scale.dask == "local":
        own = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": logging.ERROR}
        # a worker that loses the scheduler would log a traceback; what fails in a task reaches us anyway
        silent = {"distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "critical"}
        # the workers end when the client is closed
        with deaf_to_ctrl_c(), import_module("dask").config.set(silent):
            return distributed.Client(n_workers=scale.workers, **own)
    try:
        return distributed.Client(scale.dask, timeout="10s")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BadInput(
            f"--dask {scale.dask!r} cannot be reached ({reason}): name a scheduler such as "
            "tcp://host:8786, or local."
        ) from None


@library_words()
def _open_stored(data: Path, table: TableOptions, memory_limit: str) -> Training:
    """The stored tasks of a parquet file or folder, and the recipe of their columns."""
    from mmtfl.tables.recipe import TableRecipe
    from mmtfl.tasks.container import Tasks

    needs_rows: dict[str, Any] = {"categories": table.categories, "impute": table.impute}
    needs_rows |= {"drop-unlabelled": table.drop_unlabelled, "group": table.group, "time": table.time}
    needs_rows |= {"splines": table.splines, "absent-features": table.absent_features == "allow"}
    needs_rows |= {"offset": table.offset, "exposure": table.exposure}
    for name in (name for name, given in needs_rows.items() if given):
        raise BadInput(
            f"--{name} needs all rows in memory: prepare the files first, or leave --memory-limit out."
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
    known: dict[str, Any] = {"features": list(stored.feature_names), "classify": bool(table.classify)}
    return Training(TableRecipe.learn(frame, **columns, **known, weights=table.weights), stored)


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
