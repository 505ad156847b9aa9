"""`mmtfl summarise`: what a site tells of its rows, in one file; and what a file says, in plain words."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmtfl.cli import options
from mmtfl.cli.finish import agreed_names
from mmtfl.cli.main import BadInput
from mmtfl.cli.output import check_output, naming_the_file, print_json, print_lines


def summarise(
    data: options.DataFile,
    /,
    *,
    columns: Annotated[Path | None, Parameter(group=options.TABLE)] = None,
    task: Annotated[str | None, Parameter(group=options.TABLE)] = None,
    target: Annotated[str | None, Parameter(group=options.TABLE)] = None,
    text: options.TextOptions = options.TextOptions(),
    output: Annotated[Path | None, options.TARGET_FILE] = None,
    show: Annotated[bool, options.SWITCH, Parameter(group=options.OUTPUT)] = False,
    talk: options.TalkOptions = options.TalkOptions(),
) -> int:
    """Sum up the rows of a site, which stay there.

    For every task and fold the file has the number of rows, the means and the
    scatter of the agreed columns, and nothing else. Files of several sites
    are fitted by `mmtfl cv` or `mmtfl fit`, with the result that all rows in
    one place would give. Where few rows would show through, nothing is
    written. A site gives one summary under one agreement.

    Example:

      mmtfl datasets hospitals -o h.csv
      mmtfl agree h.csv --task hospital --target stay --features age crp -o a.json
      mmtfl summarise h.csv --columns a.json -o h.summary
      mmtfl summarise --show h.summary

    Parameters
    ----------
    data
        The table of the site; or with --show alone a summary.
    columns
        What the sites agreed on, a file of `mmtfl agree`.
    task
        The site's own name of the agreed task column, if it is another.
    target
        The site's own name of the agreed target, if it is another.
    output
        The summary; its name ends in .summary.
    show
        Print in plain words what the summary says: fields, counts, and the smallest cell.
    """
    if columns is None and output is None and show:
        from mmtfl.tasks.summaries import SiteSummary

        return _show(SiteSummary.load(data), talk)
    if columns is None or output is None:
        raise BadInput("summarise needs --columns agreed.json and -o FILE; or --show and a summary.")
    check_output(output, force=False, inputs=[data, columns])
    from mmtfl.tables.agreement import Agreement

    agreed = Agreement.load(columns)
    file = text.open(data, agreed.missing)
    frame = agreed_names(file, agreed, task, target)
    summary = agreed.summarise(frame)
    _check_first(summary, output)
    with naming_the_file(output):
        summary.save(output)
    talk.note(*file.notes)
    n_left = len(frame) - int(summary.n_rows.sum())
    if n_left:
        talk.note(f"{n_left} rows without a target or a task label are left out")
    if show:
        _show(summary, talk)
    talk.say(
        f"Written: {output} ({output.stat().st_size} bytes; mmtfl summarise --show {output} says what it has)"
    )
    return 0


def _show(summary: Any, talk: options.TalkOptions) -> int:
    from mmtfl.tables.agreement import describe

    if talk.json:
        names = ("labels", "columns", "n_rows", "agreement_hash", "content_hash")
        print_json({name: getattr(summary, name) for name in names})
    else:
        print_lines(*describe(summary))
    return 0


def _check_first(summary: Any, output: Path) -> None:
    """Refuse a second, different summary of a task under the same agreement in the same folder."""
    from mmtfl.tasks.disclosure import check_written_once
    from mmtfl.tasks.summaries import SiteSummary

    own = (str(output), summary.agreement_hash, summary.content_hash, summary.labels)
    for path in sorted(output.parent.glob("*.summary")):
        try:
            other = SiteSummary.load(path)
        except ValueError:
            continue
        if other.agreement_hash == summary.agreement_hash:
            check_written_once([(str(path), other.agreement_hash, other.content_hash, other.labels), own])
