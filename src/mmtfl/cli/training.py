"""Training for `fit` and `cv`: read a table, fit and save a model, and print what came out."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

from mmtfl.cli.main import NOT_CONVERGED, BadInput, command_words
from mmtfl.cli.options import FileOptions, ModelOptions, ScaleOptions, TableOptions, TextOptions
from mmtfl.cli.output import check_output, naming_the_file, note, number, print_json, say
from mmtfl.cli.saved_models import fitted_part
from mmtfl.cli.scale_options import check_scale, engine_of, open_stored

_LARGE_FILE = 5_000_000  # bytes

# parameters in messages of the library, and the options that set them
_WORDS = (
    (r"The '(\w+)' parameter of \w+", r"--\1"),
    (r"set_params\(unknown_task='mean'\)", "--unknown-task mean"),
    ("standardize=True", "--standardize"),
    ("with on_degenerate_task='base_rate'", "with --drop-tasks one-class"),
    ("memory_limit", "--memory-limit"),
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
    """The input of an estimator, and the table it came from; X may be tasks that stay in files."""

    recipe: Any
    X: Any
    y: Any = None
    task: Any = None
    weights: Any = None
    file: Any = None

    @property
    def classify(self) -> bool:
        """Whether the targets are classes."""
        return self.recipe.classes is not None

    @property
    def is_stored(self) -> bool:
        """Whether the rows stay in files."""
        return self.file is None


def read_training(data: Path, table: TableOptions, text: TextOptions, *, quiet: bool) -> Training:
    """Read a table and learn how its columns are used."""
    from mmtfl.tables.reading import TableFile
    from mmtfl.tables.recipe import TableRecipe, drop_unlabelled

    file = TableFile(data, separator=text.separator, decimal=text.decimal)
    categories = table.categories or []
    frame = file.frame(text=[*categories, *([table.task] if table.task else [])])
    if table.drop_unlabelled:
        targets = table.target if len(table.target) == 1 else ()  # of several, each may have gaps
        frame, n_dropped = drop_unlabelled(frame, [table.task, *targets, table.weights])
        if n_dropped and not quiet:
            note(f"{n_dropped} rows without a target, task label or weight are left out")
    recipe = TableRecipe.learn(
        frame,
        task=table.task,
        target=table.target,
        features=table.features,
        weights=table.weights,
        impute=table.impute,
        classify=table.classify,
        drop=table.drop or (),
        categories=categories,
    )
    labels = recipe.labels(frame)
    if not quiet:
        for line in (*file.notes, *recipe.notes, *_many_tasks(table.task, labels)):
            note(line)
    return Training(recipe, recipe.matrix(frame), recipe.targets(frame), labels, recipe.weights(frame), file)


def _many_tasks(column: str | None, labels: Any) -> list[str]:
    """A note where the task column has so few rows per label that it may be the wrong column."""
    n_tasks = 0 if labels is None else len(set(labels.tolist()))
    if n_tasks <= len(labels if n_tasks else ()) / 3:
        return []
    return [f"{column!r} has {n_tasks} labels in {len(labels)} rows: is it the task column?"]


def model_options(model: ModelOptions, training: Training) -> dict[str, Any]:
    """Arguments of the estimator; targets are put on one scale where they are numbers."""
    options: dict[str, Any] = {name: getattr(model, name) for name in ("standardize", "max_iter", "tol")}
    if training.classify:
        if model.scale_targets:
            raise BadInput("--scale-targets is for numbers, and the targets are classes: leave it out.")
        return options if model.drop_tasks is None else {**options, "on_degenerate_task": "base_rate"}
    if model.drop_tasks is not None:
        raise BadInput("--drop-tasks one-class is for classes, and the targets are numbers: leave it out.")
    return {**options, "scale_targets": model.scale_targets is not False}


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
    check_output(output, force=talk.force, inputs=[data])
    check_scale(scale, data)
    _say_of_large("reading", data, talk)
    with engine_of(scale, quiet=talk.quiet) as engine:  # first: reading may take long
        training = _read(data, table, text, talk, scale)
        _say_of_large("fitting", data, talk)
        with library_words():
            model = make(training)
        _set_known(model, engine=engine, checkpoint=scale.checkpoint)
        converged = _fit(model, training, talk)
    _set_known(model, engine=None, checkpoint=None, verbose=0)  # of this run, not of the model
    fitted_part(model).recipe_ = training.recipe
    model.provenance_ = _provenance(model, training, data, output)
    with naming_the_file(output):
        model.save(output, overwrite=talk.force)
    _show(model, output, talk)
    return 0 if converged else NOT_CONVERGED


def _say_of_large(what: str, data: Path, talk: FileOptions) -> None:
    """Name what is at work on a file that takes seconds."""
    size = data.stat().st_size if data.is_file() else 0
    if size > _LARGE_FILE and not talk.quiet:
        say(f"[{what}] {data.name}, {size / 1e6:.0f} MB")


def _read(
    data: Path, table: TableOptions, text: TextOptions, talk: FileOptions, scale: ScaleOptions
) -> Training:
    if scale.memory_limit is None:
        return read_training(data, table, text, quiet=talk.quiet)
    with library_words():
        stored, recipe = open_stored(data, table, scale.memory_limit)
    return Training(recipe, stored)


def _fit(model: Any, training: Training, talk: FileOptions) -> bool:
    """Fit, pass warnings on as lines, and tell whether the solver converged."""
    from sklearn.exceptions import ConvergenceWarning

    converged = True
    with warnings.catch_warnings(record=True) as caught, library_words():
        warnings.simplefilter("always")
        model.fit(training.X, training.y, task=training.task, sample_weight=training.weights)
    for text, category in dict.fromkeys((str(w.message), w.category) for w in caught):
        if issubclass(category, ConvergenceWarning):
            converged = False
        elif not talk.quiet:
            note(" ".join(text.split()))
    fitted = fitted_part(model)
    if not converged:
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


def training_scores(model: Any, training: Training) -> dict[str, Any]:
    """Scores of each task on the rows of the fit: R^2, or accuracy, AUC and the commoner class alone.

    A task whose target does not vary has none.
    """
    from mmtfl.model_selection import per_task_scores

    def scores(predicted: Any, metric: Any) -> list[float]:
        by_task, varies = (
            per_task_scores(training.y, predicted, training.task, one).values() for one in (metric, _varies)
        )
        return [score if known == 1.0 else float("nan") for score, known in zip(by_task, varies, strict=True)]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a task with one row has no score, which the table shows
        predicted = model.predict(training.X, task=training.task)
        if not training.classify:
            return {"metric": "r2", "scores": scores(predicted, "r2")}
        log_odds = model.decision_function(training.X, task=training.task)
        return {
            "metric": "accuracy",
            "scores": scores(predicted, "accuracy"),
            "auc": scores(log_odds, "roc_auc"),
            "base_rate": scores(predicted, _share_of_commoner),
        }


def _varies(y_true: Any, y_pred: Any) -> float:
    import numpy as np

    return float(len(np.unique(y_true)) > 1)


def _share_of_commoner(y_true: Any, y_pred: Any) -> float:
    """The accuracy of always saying the commoner class."""
    import numpy as np

    return float(np.unique(y_true, return_counts=True)[1].max() / len(y_true))


def _provenance(model: Any, training: Training, data: Path, output: Path) -> dict[str, Any]:
    from datetime import UTC, datetime

    import numpy
    import sklearn

    import mmtfl

    packages = {"mmtfl": mmtfl, "numpy": numpy, "scikit-learn": sklearn}
    return {
        "command": _command(data, output),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: package.__version__ for name, package in packages.items()},
        "data": data.name,
        **_of_data(model, training),
    }


def _of_data(model: Any, training: Training) -> dict[str, Any]:
    from mmtfl.persistence.json_values import plain

    if training.is_stored:  # reading all rows once more, for a hash or a score, could take hours
        stored = training.X
        return {
            "rows": stored.n_samples,
            "columns": stored.n_features + 2,
            "fingerprint": stored.fingerprint,
            "training": {"metric": None, "scores": []},
        }
    return {
        "rows": len(training.X),
        "columns": len(training.file.columns),
        "sha256": training.file.sha256,
        "training": plain(training_scores(model, training)),
    }


def _command(data: Path, output: Path) -> str:
    """The command as it was typed, with names of files in place of their paths."""
    words = []
    for word in command_words.get():
        option, sign, value = word.partition("=") if word.startswith("-") else ("", "", word)
        words.append(option + sign + (Path(value).name if Path(value) in (data, output) else value))
    return shlex.join(["mmtfl", *words])


def _show(model: Any, output: Path, talk: FileOptions) -> None:
    from mmtfl.report.summary import describe

    summary = describe(model)
    if talk.json:
        print_json({"output": str(output), **summary.as_dict()})
        return
    for line in headlines(summary):
        print(line)
    if not talk.quiet and not summary.coef.any():
        note("no feature is kept: the strength is too large, or the features tell nothing")
    if not talk.quiet:
        say(f"Written: {output} (next: mmtfl inspect {shlex.quote(str(output))})")


def headlines(summary: Any) -> list[str]:
    """The first lines about a model: what it is, which features it uses, how well it predicts."""
    named = [] if summary.member is None else [f"(p, k) = ({', '.join(map(_exponent, summary.member))})"]
    named += [f"{name} {_strength(value)}" for name, value in summary.strengths.items()]
    lines = [f"{summary.title}: {', '.join(named)}", summary.usage, *summary.support]
    return [*lines, *_held_out(summary.search), *_in_the_fit(summary.provenance.get("training") or {})]


def _held_out(search: Any) -> list[str]:
    """How well held-out rows were predicted, and the score asked for, if it was another one."""
    from mmtfl.report.sentences import heldout_headline

    if search is None:
        return []
    headline = heldout_headline(search)
    lines = [] if headline is None else [headline]
    if headline is None or not search.score_name.startswith("minus "):
        score = f"{number(search.best_score)}, mean of {search.n_folds} folds"
        lines.append(f"Held-out score ({search.score_name}): {score}")
    return lines


def _in_the_fit(training: dict[str, Any]) -> list[str]:
    """Mean scores of the tasks on the rows of the fit, where they are known."""
    from mmtfl.report.sentences import accuracy_beside_base

    def mean(name: str) -> float:
        known = [score for score in training.get(name) or [] if score is not None]
        return sum(known) / len(known) if known else float("nan")

    if isnan(mean("scores")):
        return []
    if training["metric"] == "r2":
        alone = len(training["scores"]) == 1
        found = f"{'R^2' if alone else 'mean R^2 of the tasks'} {number(mean('scores'))}"
    elif training.get("base_rate") is None:  # older files
        found = f"mean accuracy of the tasks {number(mean('scores'))}"
    else:
        accuracy = accuracy_beside_base(mean("scores"), mean("base_rate"))
        alone = len(training["scores"]) == 1
        found = f"{'' if alone else 'means of the tasks: '}AUC {number(mean('auc'))}, {accuracy}"
    return [f"On the rows of the fit (optimistic): {found}"]


def _exponent(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _strength(value: float | list[float]) -> str:
    if isinstance(value, list):
        return f"{number(min(value))} to {number(max(value))}, by task"
    return number(value)
