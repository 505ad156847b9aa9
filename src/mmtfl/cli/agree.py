"""`mmtfl agree`: what sites that keep their rows agree on, proposed from one table."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmtfl.cli import options
from mmtfl.cli.main import BadInput
from mmtfl.cli.output import check_output
from mmtfl.wording import abbreviate

_MOST_FOLDS = 5


def agree(
    data: options.DataFile,
    /,
    *,
    columns: options.ColumnOptions = options.ColumnOptions(),
    units: Annotated[list[str] | None, options.SEVERAL, Parameter(group=options.TABLE)] = None,
    curves: Annotated[list[str] | None, options.SEVERAL, Parameter(group=options.TABLE)] = None,
    text: options.TextOptions = options.TextOptions(),
    folds: Annotated[int | None, Parameter(group=options.MODEL)] = None,
    seed: Annotated[int, Parameter(group=options.MODEL)] = 0,
    least: Annotated[int, Parameter(group=options.MODEL)] = 10,
    output: Annotated[Path, options.TARGET_FILE],
    talk: options.FileOptions = options.FileOptions(),
) -> int:
    """Propose what sites that keep their rows agree on.

    The file says which columns are summed up, in which coding and units, in
    how many folds, and the least number of rows of a fold. It has no value of
    a row. All sites read it, change it if need be, and then use the same
    file: `mmtfl summarise` at every site, `mmtfl cv` on the summaries.

    Example:

      mmtfl datasets hospitals -o h.csv
      mmtfl agree h.csv --task hospital --target stay --features age crp -o a.json

    Parameters
    ----------
    data
        A table of one site, with the columns that all sites have.
    units
        Units of numbers, as COLUMN=UNIT, for the people at the sites.
    curves
        Columns of numbers whose effect may be a curve; each costs two columns more.
    folds
        In how many parts the rows of a task are cut; by default 5, or fewer if this table has too few rows.
    seed
        Seed of the folds.
    least
        Fewest rows of a task in a fold, and of a category in it.
    output
        The agreement, usually agreed.json.
    """
    check_output(output, force=talk.force, inputs=[data])
    if columns.task is None or len(columns.target) != 1:
        raise BadInput("agree needs --task and one --target: see `mmtfl agree --help`.")
    file = text.open(data)
    frame = file.frame(text=[columns.task, *(columns.categories or ())])
    given: dict[str, Any] = {"task": columns.task, "target": columns.target[0], "features": columns.features}
    given |= {"drop": columns.drop or (), "categories": columns.categories or (), "missing": file.missing}
    given |= {"reference": columns.references(), "seed": seed, "least_rows": least, "curves": curves or ()}
    given["units"] = options.named_values("--units", units, "not COLUMN=UNIT, such as age=years")
    agreed, why = _propose(frame, given, folds)
    agreed.save(output, overwrite=talk.force)
    if why is not None:
        talk.note(f"this table itself gives no summary under it: {why}")
    talk.note(*file.notes)
    named = f"{abbreviate(agreed.feature_names)}; {agreed.folds} folds"
    talk.written(
        output,
        f" ({named}; next: mmtfl summarise at every site)",
        features=agreed.feature_names,
        folds=agreed.folds,
    )
    return 0


def _propose(frame: Any, given: dict[str, Any], folds: int | None) -> tuple[Any, str | None]:
    """An agreement with so many folds, or with as many as the table allows; and why it refuses the table."""
    from mmtfl.tables.agreement import Agreement

    why = None
    for number in range(_MOST_FOLDS, 1, -1) if folds is None else [folds]:
        agreed = Agreement.propose(frame, folds=number, **given)
        try:
            agreed.summarise(frame)
            return agreed, None
        except ValueError as error:
            why = str(error)
    return agreed, why
