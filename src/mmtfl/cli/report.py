"""`mmtfl report`: a model as one HTML page."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mmtfl.cli.options import OUTPUT, TABLE, TARGET_FILE, FileOptions, TextOptions
from mmtfl.cli.output import check_output, load_model, naming_the_file
from mmtfl.cli.predict import check_known_tasks, encode, known_recipe, open_table, with_targets
from mmtfl.cli.training import sort_by_time


def report(
    model: Path,
    data: Path | None = None,
    /,
    *,
    group: Annotated[str | None, Parameter(group=TABLE)] = None,
    time: Annotated[str | None, Parameter(group=TABLE)] = None,
    title: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    text: TextOptions = TextOptions(),
    output: Annotated[Path, TARGET_FILE],
    talk: FileOptions = FileOptions(),
) -> int:
    """Write a model as one HTML page that needs no network.

    It shows which features all tasks use, some or one, the map of all
    coefficients, how the strength was chosen and what was run. With a
    table it also shows how well the model predicts, task by task, beside
    scikit-learn's models, tuned as their own users would.

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl fit d1.csv --task task --target y -o d1.mmtfl
      mmtfl report d1.mmtfl d1.csv -o d1.html

    Parameters
    ----------
    model
        A model of `mmtfl fit`, `mmtfl cv` or Python's save.
    data
        A table with targets, best one the model was not fitted on.
    group
        Column of groups, whose rows are held out together; by default that of `mmtfl cv --group`.
    time
        Column of times, so that rows are predicted by earlier ones; by default that of `mmtfl cv --time`.
    title
        Heading of the page; by default target and task column, as in "stay, by hospital".
    output
        The page, something.html.
    """
    check_output(output, force=talk.force, inputs=[path for path in (model, data) if path is not None])
    learned = load_model(model)
    parts, source, structure = None, None, {}
    if data is not None:
        from mmtfl.tables.reading import release_unused

        asked = {"group_column": group, "time_column": time}
        asked = {name: column for name, column in asked.items() if column is not None}
        recipe = replace(known_recipe(learned, "give no table"), **asked)
        file, frame = open_table(learned, recipe, data, text)
        recipe.check_present(frame)
        frame = with_targets(recipe, frame, talk)
        source = {"data": data.name, "sha256": file.sha256}
        frame, groups = sort_by_time(recipe, frame)
        structure = {"groups": groups, "in_time": recipe.time_column is not None}
        structure["offset"] = recipe.offset(frame)
        targets, labels = recipe.targets(frame), recipe.labels(frame)
        check_known_tasks(learned, labels, "Leave these rows out.")
        X = encode(learned, frame, labels, talk)
        parts = X, targets, labels
        del frame, file
        release_unused()
    from mmtfl.report.html import write_report

    with naming_the_file(output), talk.status("making the page") as told:
        write_report(learned, output, data=parts, source=source, title=title, progress=told, **structure)
    talk.written(output, bytes=output.stat().st_size)
    return 0
