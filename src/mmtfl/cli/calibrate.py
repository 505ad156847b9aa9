"""`mmtfl calibrate`: a model with intervals, from a table of rows that it was not fitted to."""

from pathlib import Path
from typing import Annotated

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import TARGET_FILE, FileOptions, TextOptions
from mmtfl.cli.output import check_output, load_model, save_model
from mmtfl.cli.predict import borrowing, check_known_tasks, encode, known_recipe, open_table, with_targets


def calibrate(
    model: Path,
    data: Path,
    /,
    *,
    text: TextOptions = TextOptions(),
    output: Annotated[Path, TARGET_FILE],
    talk: FileOptions = FileOptions(),
) -> int:
    """Learn from rows that were not fitted how far off a model's predictions are.

    The coefficients stay as they are. `mmtfl predict --interval` of the new
    model then gives intervals. Models of `mmtfl cv` have them already, from
    the rows that were held out there.

    Example:

      mmtfl datasets d1 --seed 1 -o d1.csv
      mmtfl datasets d1 --seed 1 --samples 60 -o more.csv
      mmtfl fit d1.csv --task task --target y -o d1.mmtfl
      mmtfl calibrate d1.mmtfl more.csv -o calibrated.mmtfl

    Parameters
    ----------
    model
        A model of `mmtfl fit` or `mmtfl cv`.
    data
        Rows that the model was not fitted to, with the columns of the fit.
    output
        The model with what was learned of its errors.
    """
    check_output(output, force=talk.force, inputs=[model, data])
    learned = load_model(model)
    recipe, fitted = known_recipe(learned, "use its calibrate there"), learned._fitted()
    if hasattr(fitted, "classes_"):
        raise BadInput("Intervals are for numbers, and this model predicts classes.")
    file, frame = open_table(learned, recipe, data, text)
    record = getattr(learned, "provenance_", None) or {}
    if record.get("sha256") == file.sha256:
        raise BadInput(
            "This is the table that the model was fitted to, on which its errors are too small: give other "
            "rows, or tune the model by `mmtfl cv`, which keeps the errors of held-out rows."
        )
    frame = with_targets(recipe, frame, talk)
    labels = recipe.labels(frame)
    X = encode(learned, frame, labels, talk)
    check_known_tasks(learned, labels, "Correct the labels, or leave these rows out.")
    fitted.set_params(task_column=None)
    calibrated = learned.calibrate(X, recipe.targets(frame), task=labels, **recipe.known(frame))
    calibrated.provenance_ = {**record, "calibrated": f"{len(frame)} rows of {data.name}"}
    save_model(calibrated, output, force=talk.force)
    talk.note(*file.notes, *borrowing(calibrated))
    about = f" ({len(frame)} rows; next: mmtfl predict {output} TABLE --interval 0.9)"
    talk.written(output, about, rows=len(frame))
    return 0
