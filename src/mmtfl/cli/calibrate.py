"""`mmtfl calibrate`: a model with intervals, from a table of rows that it was not fitted to."""

from pathlib import Path
from typing import Annotated, Any

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import TARGET_FILE, FileOptions, TextOptions
from mmtfl.cli.output import check_output, load_model, save_model
from mmtfl.cli.predict import borrowing, check_known_tasks, encode, encoder_of, text_columns
from mmtfl.cli.training import library_words


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
    recipe = _recipe(learned)
    fitted = learned._fitted()
    encoder = encoder_of(fitted)
    file = text.open(data, encoder.missing)
    _check_new(learned, file)
    frame, dropped = recipe.labelled(file.frame(text=text_columns(recipe, encoder)))
    labels = recipe.labels(frame)
    X, notes = encode(encoder, frame, labels, used=fitted._features_in_use())
    talk.note(*([dropped] if dropped else []), *notes)
    check_known_tasks(learned, labels, "Correct the labels, or leave these rows out.")
    with library_words():
        fitted.set_params(task_column=None)
        calibrated = learned.calibrate(X, recipe.targets(frame), task=labels, **recipe.known(frame))
    record = getattr(learned, "provenance_", None) or {}
    calibrated.provenance_ = {**record, "calibrated": f"{len(frame)} rows of {data.name}"}
    save_model(calibrated, output, force=talk.force)
    talk.note(*file.notes, *borrowing(calibrated))
    about = f" ({len(frame)} rows; next: mmtfl predict {output} TABLE --interval 0.9)"
    talk.written(output, about, rows=len(frame))
    return 0


def _recipe(learned: Any) -> Any:
    """How the model's table is read."""
    recipe = getattr(learned, "recipe_", None)
    if recipe is None or not recipe.target_columns:
        raise BadInput("The model was fitted in Python, and knows no table: use its calibrate there.")
    if hasattr(learned._fitted(), "classes_"):
        raise BadInput("Intervals are for numbers, and this model predicts classes.")
    return recipe


def _check_new(learned: Any, file: Any) -> None:
    """Refuse the table that the model was fitted to."""
    if (getattr(learned, "provenance_", None) or {}).get("sha256") == file.sha256:
        raise BadInput(
            "This is the table that the model was fitted to, on which its errors are too small: give other "
            "rows, or tune the model by `mmtfl cv`, which keeps the errors of held-out rows."
        )
