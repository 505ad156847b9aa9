"""`mmtfl predict`: a table, with the predictions of a model beside it."""

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import OUTPUT, TABLE, TARGET_FILE, FileOptions, TalkOptions, TextOptions
from mmtfl.cli.output import check_table_output, load_model, print_csv, print_json, write_table
from mmtfl.wording import abbreviate, count, meant, suggest


def predict(
    model: Path,
    data: Path,
    /,
    *,
    task: Annotated[str | None, Parameter(group=TABLE)] = None,
    unknown_task: Annotated[Literal["error", "mean", "common"], Parameter(group=TABLE)] = "error",
    interval: Annotated[float | None, Parameter(group=OUTPUT)] = None,
    text: TextOptions = TextOptions(),
    output: Annotated[Path | None, TARGET_FILE] = None,
    prefix: Annotated[str, Parameter(group=OUTPUT, show_default=False)] = "",
    talk: FileOptions = FileOptions(),
) -> int:
    """Add the predictions of a model to a table.

    The columns of the table come back as they were, followed by `prediction`
    and, for classes, `probability`, that of the second class in sorted order.
    With --interval there are also `lower` and `upper`.
    With several targets there is one such column for each of them. The table
    needs the task column and the features that the model uses, not the
    target and not the features whose coefficients are all zero.

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl fit d1.csv --task task --target y -o d1.mmtfl
      mmtfl predict d1.mmtfl d1.csv -o predicted.csv

    Parameters
    ----------
    model
        A model of `mmtfl fit`, `mmtfl cv` or Python's save.
    data
        The table: .csv, .tsv, .txt (also .gz), .xlsx, .ods, .dta, .sav, .parquet or .feather.
    task
        Column of task labels, where it has another name than in the fit.
    unknown_task
        What is done with a task the model does not know: an error, the mean over all tasks, or the common
        part of a model with --pooling.
    interval
        Add intervals that hold this share of new targets, such as 0.9, from the errors on rows held out in
        `mmtfl cv`, or given to `mmtfl calibrate`.
    output
        The table with predictions: .csv, .tsv, .parquet or .feather; without it, CSV on stdout.
    prefix
        What the names of the new columns begin with.
    """
    output = None if str(output) == "-" else output
    if output is not None:
        check_table_output(output, force=talk.force, inputs=[model, data])
    learned = load_model(model)
    recipe = _recipe_for(learned, task)
    fitted = learned._fitted()
    _check_interval(fitted, interval)

    file, frame = open_table(learned, recipe, data, text)
    labels = recipe.labels(frame)
    if unknown_task == "error":
        best = "common" if hasattr(fitted, "common_intercept_") else "mean"
        remedy = f"Correct the labels, leave these rows out, or use --unknown-task {best}."
        check_known_tasks(learned, labels, remedy)
    talk.note(*file.notes)
    X = encode(learned, frame, labels, talk)
    talk.note(*_of_new_tasks(learned, labels, unknown_task))
    talk.note(*([] if interval is None else borrowing(fitted)))
    # labels come by the recipe, whichever door they took in the fit
    fitted.set_params(unknown_task=unknown_task, task_column=None)
    rows = {"task": labels, **recipe.known(frame)}
    columns = _new_columns(learned, recipe, X, rows, prefix, interval)
    both = [name for name in columns if name in file.columns]
    if both:
        raise BadInput(
            f"The table has a column {both[0]!r} already: name the new ones apart, as by --prefix new_."
        )
    if hasattr(fitted, "classes_"):
        talk.note(f"probability is that of {(recipe.classes or fitted.classes_.tolist())[1]!r}")
    _write(file, frame, columns, output, talk)
    return 0


def _of_new_tasks(model: Any, labels: Any, unknown_task: str) -> list[str]:
    """How many rows are of tasks that the model does not know, and of which."""
    new = new_tasks(model, labels)
    if not new:
        return []
    shown = ", ".join(f"{label!r} {count(n, 'row')}" for label, n in list(new.items())[:6])
    more = f", ... ({len(new)} tasks)" if len(new) > 6 else ""
    by = "what is common to its tasks" if unknown_task == "common" else "the mean over its tasks"
    return [
        f"{count(sum(new.values()), 'row')} of tasks the model does not know, predicted by {by}: "
        f"{shown}{more}.{meant(list(new), model.tasks_)}"
    ]


def _new_columns(
    model: Any, recipe: Any, X: Any, rows: dict[str, Any], prefix: str, interval: float | None
) -> dict[str, Any]:
    """The new columns by name; of several targets those of each together."""
    import numpy as np

    found = {"prediction": model.predict(X, **rows)}
    several = found["prediction"].ndim == 2
    if hasattr(model, "classes_"):
        probability = model.predict_proba(X, **rows)
        found["probability"] = probability if several else probability[:, 1]
    if interval is not None:
        ends = model._fitted().predict_interval(X, **rows, coverage=interval)
        found |= {"lower": ends[..., 0], "upper": ends[..., 1]}
    if not several:
        return {f"{prefix}{name}": column for name, column in found.items()}
    if recipe.classes is not None:  # classes of several targets were coded as 0 and 1
        found["prediction"] = np.array(recipe.classes)[found["prediction"].astype(int)]
    return {
        f"{prefix}{name}_{target}": column[:, t]
        for t, target in enumerate(model.tasks_.tolist())
        for name, column in found.items()
    }


def _check_interval(fitted: Any, interval: float | None) -> None:
    if interval is None:
        return
    if not 0.0 < interval < 1.0:
        raise BadInput(f"--interval {interval:g}: use a share between 0 and 1, such as 0.9.")
    if hasattr(fitted, "classes_"):
        raise BadInput("--interval is for numbers: how sure a class is stands in the column probability.")
    if not hasattr(fitted, "heldout_errors_"):
        raise BadInput(
            "--interval needs errors on held-out rows, which this model does not have: make it with "
            "`mmtfl cv`, or give it rows that it was not fitted to with `mmtfl calibrate`."
        )


def borrowing(fitted: Any) -> list[str]:
    """Which tasks are too small for intervals of their own."""
    small = [str(label) for label in fitted.borrowing_tasks_]
    if not small:
        return []
    return [
        f"{count(len(small), 'task')} with fewer than 40 held-out rows, whose intervals borrow from the "
        f"errors of all tasks: {abbreviate(small)}"
    ]


def check_known_tasks(model: Any, labels: Any, remedy: str) -> None:
    """Refuse rows of tasks that the model does not know, if the table has labels at all."""
    new = new_tasks(model, labels)
    if new:
        known, first = model.tasks_.tolist(), next(iter(new))
        row = labels.tolist().index(first) + 1
        others = f", of tasks {abbreviate(list(new))}" if len(new) > 1 else ""
        raise BadInput(
            f"Task {first!r} in data row {row} is not one the model knows ({count(sum(new.values()), 'row')} "
            f"with new tasks{others}){suggest(first, known, 'tasks')} {remedy}"
        )


def new_tasks(model: Any, labels: Any) -> Mapping[Any, int]:
    """Number of rows of every task that the model does not know, in order of appearance."""
    known = set(model.tasks_.tolist())
    return {} if labels is None else Counter(label for label in labels.tolist() if label not in known)


def _recipe_for(model: Any, task: str | None) -> Any:
    """What the columns of a table are: as in the fit, or as a model made in Python tells."""
    from mmtfl.tables.recipe import TableRecipe

    known = getattr(model, "recipe_", None)
    if known is not None:
        return known if task is None else replace(known, task_column=task)
    fitted = model._fitted()
    task = task or fitted.task_column
    if task is None and len(fitted.tasks_) > 1 and not fitted._predicts_matrix:
        raise BadInput("The model was fitted in Python and has several tasks: name their column by --task.")
    return TableRecipe(task_column=task, task_kind="int" if fitted.tasks_.dtype.kind == "i" else "str")


def encoder_of(fitted: Any) -> Any:
    """How the columns of a table become features: as in the fit, or as they are."""
    from mmtfl.tables.column_code import ColumnCode
    from mmtfl.tables.encoder import TableEncoder

    known = vars(fitted).get("encoder_")
    if known is not None:
        return known
    names = getattr(fitted, "feature_names_in_", None)
    if names is None:
        raise BadInput(
            "The model was fitted in Python on an array without names, so the columns of a table mean "
            "nothing to it: fit it on a frame, or use it in Python."
        )
    return TableEncoder.of_columns((ColumnCode(str(name)) for name in names), impute="error")


def known_recipe(model: Any, instead: str) -> Any:
    """What the columns of a table were in the fit, for what needs targets."""
    recipe = getattr(model, "recipe_", None)
    if recipe is None or not recipe.target_columns:
        raise BadInput(f"The model was fitted in Python and does not know its target: {instead}.")
    return recipe


def open_table(model: Any, recipe: Any, data: Path, text: TextOptions) -> tuple[Any, Any]:
    """A table as a `TableFile`, and its values as they were read in the fit."""
    encoder = encoder_of(model._fitted())
    file = text.open(data, encoder.missing)
    # read as text, so that 1.0 and 1 stay as they are in the file
    words = [code.name for code in encoder.codes_ if code.kind == "word" and not code.style]
    return file, file.frame(text=[*words, *([recipe.task_column] if recipe.task_column else [])])


def with_targets(recipe: Any, frame: Any, talk: TalkOptions) -> Any:
    """The rows that have a target and all else that is needed; a note on the others."""
    frame, dropped = recipe.labelled(frame)
    talk.note(*([dropped] if dropped else []))
    return frame


def encode(model: Any, frame: Any, labels: Any, talk: TalkOptions, *, all_features: bool = False) -> Any:
    """The features of a table, with notes about it; those that no task uses may be absent."""
    fitted = model._fitted()
    encoder, used = encoder_of(fitted), None if all_features else fitted._features_in_use()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        X = encoder.features(frame, labels, used=used)
    talk.note(*(str(one.message) for one in caught))
    absent = [code.name for code in encoder.codes_ if code.name not in frame.columns]
    if absent:
        them = "it" if len(absent) == 1 else "them"
        talk.note(f"the table lacks {abbreviate(absent)}: not needed, as no task of the model uses {them}")
    return X


def _write(file: Any, frame: Any, columns: dict[str, Any], output: Path | None, talk: FileOptions) -> None:
    if talk.json and output is None:
        print_json({"rows": len(frame), **{name: list(column) for name, column in columns.items()}})
        return
    # text goes out as it came in: 1.50 stays 1.50, and no cell becomes something else
    as_text = output is None or output.suffix.lower() in (".csv", ".tsv")
    out = (file.verbatim() if as_text else frame).assign(**columns)
    if as_text and file.is_text:
        out.columns = [*file.header, *columns]
    if output is None:
        print_csv(out)
        return
    write_table(out, output, force=talk.force)
    about = f" ({len(frame)} rows, {', '.join(columns)})"
    talk.written(output, about, rows=len(frame), columns=list(columns))
