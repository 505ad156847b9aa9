"""`mmtfl finish`: a model of several sites at one of them, with its own intervals and residual checks."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmtfl.cli import options
from mmtfl.cli.main import BadInput
from mmtfl.cli.output import check_output, load_model, number, print_json, print_table, save_model
from mmtfl.wording import suggest

_SAME = 1e-4  # by which R^2 of the rows and of the summary differ at most, if the rows are the same


def finish(
    model: Path,
    data: Path,
    /,
    *,
    task: Annotated[str | None, Parameter(group=options.TABLE)] = None,
    target: Annotated[str | None, Parameter(group=options.TABLE)] = None,
    text: options.TextOptions = options.TextOptions(),
    output: Annotated[Path, options.TARGET_FILE],
    talk: options.FileOptions = options.FileOptions(),
) -> int:
    """Finish a model of several sites at one of them, with its own rows.

    The centre fits summaries, and has no row to see how far off the model
    is. The site has: every row is predicted by the fit that has not seen its
    fold, which gives intervals and residual checks. The coefficients stay as
    they are. The finished model knows errors of the site's rows: it stays
    there, as the rows do.

    Example:

      mmtfl datasets hospitals -o h.csv
      mmtfl agree h.csv --task hospital --target stay --features age crp -o a.json
      mmtfl summarise h.csv --columns a.json -o h.summary
      mmtfl cv h.summary -o stay.mmtfl
      mmtfl finish stay.mmtfl h.csv -o own.mmtfl

    Parameters
    ----------
    model
        A model of `mmtfl cv` on summaries.
    data
        The table that the site's summary was made of.
    task
        The site's own name of the agreed task column, if it is another.
    target
        The site's own name of the agreed target, if it is another.
    output
        The model with intervals of the site.
    """
    from mmtfl.estimators.sites import agreement_of, checks
    from mmtfl.estimators.sites import finish as finished_at

    check_output(output, force=talk.force, inputs=[model, data])
    learned = load_model(model)
    agreed = agreement_of(learned)
    file = text.open(data, agreed.missing)
    frame = agreed_names(file, agreed, task, target)
    found = finished_at(learned, frame)
    table = checks(found, frame)
    record = getattr(learned, "provenance_", None) or {}
    found.provenance_ = {**record, "finished": f"{int(table['n_rows'].sum())} rows of {data.name}"}
    save_model(found, output, force=talk.force)
    talk.note(*file.notes)
    _show(table, talk)
    about = f" (stays at the site; next: mmtfl predict {output} TABLE --interval 0.9)"
    talk.say(f"Written: {output}{about}")
    return 0


def agreed_names(file: Any, agreed: Any, task: str | None, target: str | None) -> Any:
    """The table of a site with the agreed names of the columns of tasks and targets."""
    own = {"task": task or agreed.task, "target": target or agreed.target}
    absent = next((name for name in own.values() if name not in file.columns), None)
    if absent is not None:
        raise BadInput(f"The table has no column {absent!r}{suggest(absent, file.columns)}")
    frame = file.frame(
        text=[own["task"], *(code.name for code in agreed.columns if code.levels and not code.style)]
    )
    return frame.rename(columns={own["task"]: agreed.task, own["target"]: agreed.target})


def _show(table: dict[str, Any], talk: options.FileOptions) -> None:
    """The residual checks of each task; a note where the rows are not those of the summary."""
    if talk.json:
        print_json(table)
    else:
        names = {"n_rows": "rows", "r2": "R^2 held out", "mean_error": "mean error"}
        names |= {"typical_error": "typical error", "half_width": "90 % interval +-"}
        rows = [
            [str(label), *(number(float(table[name][i])) for name in names)]
            for i, label in enumerate(table["task"].tolist())
        ]
        print_table("Rows of this site that were held out", ["task", *names.values()], rows)
    apart = abs(table["r2"] - table["r2_of_summary"])
    if (apart > _SAME).any():
        label = table["task"][int(apart.argmax())]
        talk.note(f"the rows of task {label} are not those of its summary: their held-out R^2 differs")
