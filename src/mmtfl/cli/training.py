"""Training for `fit` and `cv`: read a table, fit and save a model, and print what came out."""

import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmtfl.cli.main import NOT_CONVERGED, BadInput, command_words
from mmtfl.cli.options import FileOptions, ScaleOptions, TableOptions, TalkOptions, TextOptions
from mmtfl.cli.output import check_output, number, print_json, print_lines, save_model, say
from mmtfl.errors import require
from mmtfl.wording import abbreviate, count, count_tasks

SUMMARY = ".summary"  # suffix of what sites tell of their rows
_LARGE_FILE = 5_000_000  # bytes
_MOST_LINES = 12  # on stdout, without --verbose
_SAMPLE = 1000  # rows of stored files from which the kinds of the columns are learned
_ROWS_OF_COPIES = 20  # with fewer, a column may tell the target by chance


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
    encoder: Any = None
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
    from mmtfl.tasks.grouping import group_rows

    if not table.target:  # which only summaries of sites bring along
        command = command_words.get()[0]
        raise BadInput(f"{command} needs --target: see `mmtfl {command} --help`.")
    file = text.open(data)
    frame = file.frame(text=[*(table.categories or ()), *([table.task] if table.task else [])])
    file.close()
    recipe = table.recipe().learn(frame, table.classify)
    frame, dropped = recipe.labelled(frame)
    names = recipe.features(frame, table.features, table.drop or ())
    frame, groups = sort_by_time(recipe, frame)
    labels = recipe.labels(frame)
    if labels is not None:  # rows in the order in which a fit has them, which is so spared a copy of its own
        order = group_rows(labels).order
        if order is not None:
            frame, labels = frame.iloc[order].reset_index(drop=True), labels[order]
            groups = None if groups is None else groups[order]
    talk.note(*file.notes, *([dropped] if dropped else []), *recipe.notes)
    y, weights, offset = recipe.targets(frame), recipe.weights(frame), recipe.offset(frame)
    encoder = table.encoder(file.missing)
    X = encoder.fit_transform(frame[names], task=labels)
    talk.note(*_advice(table, frame[names], X, encoder, y, labels))
    return Training(recipe, X, y, labels, weights, file, groups, offset, encoder, table.classify is not None)


def _advice(table: TableOptions, raw: Any, X: Any, encoder: Any, y: Any, labels: Any) -> Iterator[str]:
    """What the user may want to know before hours are spent."""
    from mmtfl.tables.recipe import likely_copies, likely_tasks, looks_like_counts

    if table.task is None and len(table.target) == 1:
        found = likely_tasks(raw, list(raw.columns))
        listed = ", ".join(f"{name} ({n})" for name, n in list(found.items())[:6])
        looks = f" Columns that look like places or people: {listed}." if found else ""
        yield f"No --task: one model for all rows.{looks}"
    elif labels is not None and len(set(labels.tolist())) > len(labels) / 3:
        n_tasks = len(set(labels.tolist()))
        yield f"{table.task!r} has {n_tasks} labels in {len(labels)} rows: is it the task column?"
    is_number = getattr(y, "ndim", 1) == 1 and y.dtype.kind in "fiu" and table.classify is None
    if is_number and looks_like_counts(y):
        yield (
            f"{table.target[0]!r} holds whole numbers from {y.min():g} to {y.max():g}: if they count events, "
            "--loss poisson gives effects as rate ratios, and no prediction below 0"
        )
    if getattr(y, "ndim", 1) == 1 and len(X) >= _ROWS_OF_COPIES:
        for name, score in likely_copies(X.to_numpy(), encoder.columns_, y, labels).items():
            by = "AUC" if y.dtype.kind not in "fiu" or len(set(y.tolist())) == 2 else "R^2"
            yield (
                f"{name!r} tells {table.target[0]!r} nearly exactly ({by} {score:g} within tasks): likely a "
                f"copy of it, or known only afterwards; if so, --drop {shlex.quote(name)}"
            )


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
    data: Sequence[Path],
    output: Path,
    table: TableOptions,
    text: TextOptions,
    talk: FileOptions,
    scale: ScaleOptions,
    make: Callable[[Training], Any],
) -> int:
    """Read a table, or summaries of sites; fit what `make` gives, save it, and say what came out."""
    from mmtfl.tables.reading import release_unused

    are_summaries = _check_data(data, table, scale)
    check_output(output, force=talk.force, inputs=data)
    scale.check(data[0], output)
    _say_of_large("reading", data[0], talk)
    # the engine first: reading may take long
    with scale.engine(talk) as engine:
        if are_summaries:
            training = read_summaries(data)
        elif scale.memory_limit is not None:
            training = _open_stored(data[0], table, scale.memory_limit)
        else:
            training = read_training(data[0], table, text, talk)
        release_unused()  # the frame is gone, and a wide table needs the room
        _say_of_large("fitting", data[0], talk)
        model = make(training)
        release_unused()  # what finding a strength took
        _set_known(model, engine=engine, checkpoint=scale.checkpoint)
        converged = _fit(model, training, talk)
    _set_known(model, engine=None, checkpoint=None, verbose=0)  # of this run, not of the model
    fitted = model._fitted()
    fitted.recipe_ = training.recipe
    if training.file is not None:
        fitted.encoder_, fitted.columns_ = training.encoder, training.encoder.columns_
    name = ", ".join(path.name for path in data)
    model.provenance_ = _provenance(model, training, name, (*data, output))
    about = [f"Read {name}."] if are_summaries else _what_was_read(training, name)
    del training  # of a wide table what follows needs the room
    save_model(model, output, force=talk.force)
    _show(model, about, None if are_summaries else data[0], output, talk)
    return 0 if converged else NOT_CONVERGED


def _check_data(data: Sequence[Path], table: TableOptions, scale: ScaleOptions) -> bool:
    """Whether the files are summaries of sites, which go with no option of tables; else it is one table."""
    if not any(path.suffix.lower() == SUMMARY for path in data):
        if len(data) > 1:
            raise BadInput(f"{len(data)} tables were given: put them into one, or give summaries of sites.")
        return False
    given = vars(replace(table, classify=None))  # another loss says so, and is refused by its own name
    strange = [name for name, value in given.items() if value != getattr(TableOptions(), name)]
    strange += [name for name, value in vars(scale).items() if value is not None]
    if strange:
        option = strange[0].replace("_", "-")
        raise BadInput(f"--{option} does not go with summaries, which the sites agreed on: leave it out.")
    return True


def _open_stored(data: Path, table: TableOptions, memory_limit: str) -> Training:
    """The recipe of the columns of a parquet file or folder, and its tasks, which stay stored."""
    from pandas import DataFrame, Series

    from mmtfl.tables.recipe import learn_classes
    from mmtfl.tasks.container import Tasks

    needs_rows = ("categories", "reference", "group", "time", "offset", "exposure")
    given = [name for name in needs_rows if getattr(table, name)]
    given += ["absent-features"] if table.absent_features == "allow" else []
    if given:
        raise BadInput(
            f"--{given[0]} needs all rows in memory: prepare the files first, or leave --memory-limit out."
        )
    if table.task is None or len(table.target) != 1:
        raise BadInput("--memory-limit needs --task and one --target.")
    columns: dict[str, Any] = {"task": table.task, "target": table.target[0]}
    try:
        features = table.features
        if table.drop:
            named = require("pyarrow.dataset", "cli").dataset(data, partitioning="hive").schema.names
            features = table.recipe().features(DataFrame(columns=named), features, table.drop)
        options: dict[str, Any] = {"features": features, "memory_limit": memory_limit}
        stored = Tasks.from_parquet(data, **columns, **options, weight=table.weights)
    except FileNotFoundError as error:
        raise BadInput(str(error)) from None
    numbers = [*stored.feature_names, *([] if table.classify else table.target)]
    frame = next(stored.pieces[0].source.tables(numbers, _SAMPLE)).to_pandas()
    text = [name for name in numbers if frame[name].dtype.kind not in "iuf"]
    if text:
        raise BadInput(
            f"Column {text[0]!r} is not of numbers, which --memory-limit needs: leave it out with --drop, or "
            "turn it into numbers first."
        )
    recipe = replace(table.recipe(), task_kind="int" if stored.labels.dtype.kind == "i" else "str")
    if table.classify:
        values = Series(list(stored.class_weights()), name=table.target[0])
        recipe = replace(recipe, classes=learn_classes([values], True)[0])
    return Training(recipe, stored)


def read_summaries(data: Sequence[Path]) -> Training:
    """Summaries of sites, which are tasks without rows."""
    from mmtfl.tables.agreement import Agreement
    from mmtfl.tables.recipe import TableRecipe
    from mmtfl.tasks.container import Tasks

    summarised = Tasks.from_summaries(data)
    agreed = Agreement.from_dict(summarised.agreement)
    recipe = TableRecipe((agreed.target,), agreed.task, agreed.task_kind)
    return Training(recipe, summarised, encoder=agreed.encoder())


def _say_of_large(what: str, data: Path, talk: FileOptions) -> None:
    """Print the present step where the file is large enough to take seconds."""
    size = data.stat().st_size if data.is_file() else 0
    if size > _LARGE_FILE:
        talk.say(f"[{what}] {data.name}, {size / 1e6:.0f} MB")


def _fit(model: Any, training: Training, talk: FileOptions) -> bool:
    """Fit, pass warnings on as lines, and tell whether the solver converged."""
    from sklearn.exceptions import ConvergenceWarning

    converged = True
    with warnings.catch_warnings(record=True) as caught:
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


def _scores_in_the_fit(model: Any, training: Training) -> dict[str, Any]:
    """Scores of each task on the rows of the fit, in the columns that ``heldout_scores_`` has.

    A task whose target does not vary has none.
    """
    import numpy as np

    from mmtfl.model_selection import per_task_scores

    known = {"task": training.task, **({} if training.offset is None else {"offset": training.offset})}
    inner, predicted = model._fitted(), model.predict(training.X, **known)

    def by_task(metric: Any, predicted: Any = predicted) -> Any:
        return np.array(list(per_task_scores(training.y, predicted, training.task, metric).values()))

    with warnings.catch_warnings(action="ignore"):  # a task with one row has no score, which the table shows
        if training.classify:
            found = {
                "accuracy": by_task("accuracy"),
                "auc": by_task("roc_auc", model.decision_function(training.X, **known)),
                "base_rate": by_task(lambda y, _: np.unique(y, return_counts=True)[1].max() / len(y)),
            }
        elif inner._loss.is_quadratic:
            found = {"r2": by_task("r2")}
        else:
            explained = inner._explained(training.X, training.y, training.task, offset=training.offset)
            found = {"deviance_explained": np.array(list(per_task_scores(*explained).values()))}
        varies = by_task(lambda y, _: float(len(np.unique(y)) > 1)) == 1.0
        found = {name: np.where(varies, column, np.nan) for name, column in found.items()}
        return {"n_rows": by_task(lambda y, _: float(len(y))), **found}


def _provenance(model: Any, training: Training, name: str, files: Sequence[Path]) -> dict[str, Any]:
    """What was run, when and on what; in the command, names of files stand in place of their paths."""
    from datetime import UTC, datetime

    import numpy
    import sklearn

    import mmtfl
    from mmtfl.persistence.archive import plain

    words = []
    for word in command_words.get():
        option, sign, value = word.partition("=") if word.startswith("-") else ("", "", word)
        words.append(option + sign + (Path(value).name if Path(value) in files else value))
    packages = {"mmtfl": mmtfl, "numpy": numpy, "scikit-learn": sklearn}
    record: dict[str, Any] = {
        "command": shlex.join(["mmtfl", *words]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: package.__version__ for name, package in packages.items()},
        "data": name,
    }
    if training.file is None:  # reading all rows once more, for a hash or a score, could take hours
        stored = training.X
        record |= {"rows": stored.n_samples, "columns": stored.n_features + 2}
        return {**record, "fingerprint": stored.fingerprint, "training": {}}
    record |= {"rows": len(training.X), "columns": len(training.file.columns)}
    scores = plain(_scores_in_the_fit(model, training))
    return {**record, "sha256": training.file.sha256, "training": scores}


def _what_was_read(training: Training, name: str) -> list[str]:
    """Rows, tasks and columns in a line, and what was done with the columns."""
    recipe, encoder = training.recipe, training.encoder
    tasks, target = "", abbreviate(list(recipe.target_columns)).replace("'", "")
    if training.task is not None:
        tasks = f" of {count_tasks(len(set(training.task.tolist())), recipe.task_column)}"
    n_rows = len(training.X) if encoder is not None else training.X.n_samples
    n_columns = training.n_features if encoder is None else len(set(encoder.columns_))
    found = f"{count(n_rows, 'row')}{tasks}, {count(n_columns, 'column')} to predict {target}"
    return [f"Read {name}: {found}.", *([] if encoder is None else encoder.notes_)]


def _show(model: Any, about: list[str], data: Path | None, output: Path, talk: FileOptions) -> None:
    """What was read, what was found, how well it predicts, and what to type next."""
    from mmtfl.report.summary import describe

    summary = describe(model)
    if talk.json:
        print_json({"output": str(output), "read": about, **summary.as_dict()})
        return
    told = (summary.effects if summary.n_tasks > 1 else []) or [summary.usage]
    found = headlines(summary) if talk.verbose else [*told, *_how_well(summary)]
    words = ["inspect", str(output)]
    if data is not None:
        words = ["report", str(output), str(data), "-o", str(output.with_suffix(".html"))]
    next_one = f"Next: mmtfl {shlex.join(words)}"
    kept = about if talk.verbose else about[: _MOST_LINES - len(found) - 1]
    print_lines(*kept, *found, next_one)
    if not summary.coef.any():
        why = "the strength is too large" if summary.search is None else "none helps on rows held out"
        talk.note(f"no column is kept: {why}")
    talk.say(f"Written: {output}")


def headlines(summary: Any) -> list[str]:
    """The first lines about a model: what it is, which features it uses, how well it predicts."""
    exponents = [value if isinstance(value, str) else f"{value:g}" for value in summary.member or ()]
    named = [f"(p, k) = ({', '.join(exponents)})"] if exponents else []
    for name, value in summary.strengths.items():
        ends = [number(min(value)), number(max(value))] if isinstance(value, list) else []
        named.append(f"{name} {' to '.join(ends)}, by task" if ends else f"{name} {number(value)}")
    lines = [
        f"{summary.title}: {', '.join(named)}",
        summary.usage,
        *summary.effects,
        *([summary.levels] if summary.levels else []),
        *_how_well(summary),
    ]
    in_the_fit = _in_the_fit(summary)
    return lines if lines[-1:] == in_the_fit else [*lines, *in_the_fit]


def _how_well(summary: Any) -> list[str]:
    """How well held-out rows are predicted; where there are none, those of the fit."""
    from mmtfl.report.sentences import heldout_headline

    search = summary.search
    if search is None:
        return _in_the_fit(summary)
    lines = [heldout_headline(search, summary.noun)]
    if not search.score_name.startswith("minus "):  # a score that was asked for
        score = f"{number(search.best_score)}, mean of {search.n_folds} folds"
        lines.append(f"Held-out score ({search.score_name}): {score}")
    return lines


def _in_the_fit(summary: Any) -> list[str]:
    """How well the rows of the fit are predicted, where that is known."""
    from mmtfl.report.sentences import scores_in_words

    scores = summary.provenance.get("training")
    return [f"On the rows of the fit (optimistic): {scores_in_words(scores, summary.noun)}"] if scores else []
