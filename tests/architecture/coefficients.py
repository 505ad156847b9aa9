"""A new command, `mmtfl coefficients`: the coefficients that are not zero, as a table."""

from pathlib import Path
from typing import Annotated

from mmtfl.cli.options import TARGET_FILE, FileOptions
from mmtfl.cli.output import check_table_output, load_model, print_csv, write_table


def coefficients(
    model: Path, /, *, output: Annotated[Path | None, TARGET_FILE] = None, talk: FileOptions = FileOptions()
) -> int:
    """Write the coefficients of a model that are not zero.

    Example:

      mmtfl coefficients d1.mmtfl -o coefficients.csv

    Parameters
    ----------
    model
        A model of `mmtfl fit`, `mmtfl cv` or Python's save.
    output
        The table: .csv, .tsv, .parquet or .feather; without it, CSV on stdout.
    """
    if output is not None:
        check_table_output(output, force=talk.force)
    frame = _frame(load_model(model))
    if output is None:
        print_csv(frame)
        return 0
    write_table(frame, output, force=talk.force)
    talk.written(output, f" ({len(frame)} coefficients)", rows=len(frame))
    return 0


def _frame(learned):
    from pandas import DataFrame  # late: `mmtfl --help` needs no pandas

    from mmtfl.report.summary import describe

    summary = describe(learned)
    rows = [
        (task.label, feature.name, coef[feature.position])
        for task, coef in zip(summary.tasks, summary.coef, strict=True)
        for feature in summary.features
        if coef[feature.position] != 0.0
    ]
    return DataFrame(rows, columns=["task", "feature", "coefficient"])
