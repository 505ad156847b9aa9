"""`mmtfl add-task`: a model with one more task, from a few rows of it."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import TABLE, TARGET_FILE, FileOptions, TextOptions
from mmtfl.cli.output import check_output, load_model, number, print_lines, save_model
from mmtfl.cli.predict import encode, known_recipe, open_table, with_targets
from mmtfl.wording import abbreviate


def add_task(
    model: Path,
    data: Path,
    /,
    *,
    task_name: Annotated[str | None, Parameter(group=TABLE)] = None,
    text: TextOptions = TextOptions(),
    output: Annotated[Path, TARGET_FILE],
    talk: FileOptions = FileOptions(),
) -> int:
    """Add a task to a model, without fitting the others again.

    A few rows are enough: what the tasks share is held, and only the new
    task's own part is fitted. The other tasks predict as before.

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl fit d1.csv --task task --target y --pooling 0.9 -o d1.mmtfl
      mmtfl add-task d1.mmtfl more.csv --task-name 20 -o wider.mmtfl

    Parameters
    ----------
    model
        A model of `mmtfl fit` or `mmtfl cv`.
    data
        The table, with the columns of the fit: .csv, .xlsx, .parquet and others.
    task_name
        Name of the new task: its rows are taken from the table, or all rows if the table has no task column.
        By default the table has rows of one task, which its task column names.
    output
        The model with one more task.
    """
    check_output(output, force=talk.force, inputs=[model, data])
    learned = load_model(model)
    recipe = _recipe(learned)
    file, frame = open_table(learned, recipe, data, text)
    talk.note(*file.notes)
    frame, label = _rows_of_task(frame, recipe, task_name)
    frame = with_targets(recipe, frame, talk)
    X = encode(learned, frame, recipe.labels(frame), talk, all_features=True)
    wider = learned.set_params(task_column=None).add_task(
        X, recipe.targets(frame), task=label, sample_weight=recipe.weights(frame), **recipe.known(frame)
    )
    wider.provenance_ = _record(learned, f"{label} ({len(frame)} rows of {data.name})")
    save_model(wider, output, force=talk.force)
    _show(wider, len(frame), output, talk)
    return 0


def _recipe(learned: Any) -> Any:
    """How the model's table is read, if it is one to which a task can be added."""
    if not hasattr(learned, "add_task"):
        raise BadInput("Tasks can be added to models of `mmtfl fit`, and of `mmtfl cv` with --method mmtfl.")
    recipe = known_recipe(learned, "use its add_task there")
    if recipe.task_column is None:
        raise BadInput("The model was fitted without a task column, so there is no task to add to it.")
    return recipe


def _rows_of_task(frame: Any, recipe: Any, task_name: str | None) -> tuple[Any, Any]:
    """The rows of the new task, and its label."""
    if recipe.task_column not in frame.columns:
        if task_name is None:
            raise BadInput(f"The table has no column {recipe.task_column!r}: name the task by --task-name.")
        frame = frame.assign(**{recipe.task_column: task_name})
    labels = recipe.labels(frame)
    found = list(dict.fromkeys(labels.tolist()))
    if task_name is None and len(found) > 1:
        raise BadInput(f"The table has rows of {abbreviate(found)}: choose one of them by --task-name.")
    label = found[0] if task_name is None else next((one for one in found if str(one) == task_name), None)
    if label is None:
        raise BadInput(f"The table has no row of task {task_name!r}: its tasks are {abbreviate(found)}.")
    return frame[labels == label].reset_index(drop=True), label


def _record(learned: Any, added: str) -> dict[str, Any]:
    """What was run, with the task that was added; of its rows no score was kept."""
    record = dict(getattr(learned, "provenance_", None) or {})
    training = {name: [*column, None] for name, column in (record.get("training") or {}).items()}
    return {**record, "training": training, "added": [*record.get("added", []), added]}


def _show(wider: Any, n_rows: int, output: Path, talk: FileOptions) -> None:
    label, coef, intercept = wider.tasks_[-1].item(), wider.coef_[-1], number(float(wider.intercept_[-1]))
    if not talk.json:
        used = f"{int((coef != 0.0).sum())} of {len(coef)} features used"
        print_lines(f"Task {label}: {used}, intercept {intercept}")
    named = dict(zip(wider._feature_names(), coef.tolist(), strict=True))
    talk.written(output, f" ({len(wider.tasks_)} tasks)", task=label, rows=n_rows, coefficients=named)
