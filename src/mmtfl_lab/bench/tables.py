"""The results as tables: one description, rendered as Markdown or on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmtfl_lab.bench.comparison import CaseResult, Row
from mmtfl_lab.bench.targets import Verdict, verdicts

if TYPE_CHECKING:
    from mmtfl_lab.bench.run import Results


@dataclass(frozen=True)
class Table:
    """A title, column names, rows of text, and a line below."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    below: str = ""

    def to_markdown(self) -> str:
        """The table under a heading.

        Examples
        --------
        >>> from mmtfl_lab.bench.tables import Table
        >>> print(Table("Times", ("library", "ms"), [("mmtfl", "3")]).to_markdown())
        ### Times
        <BLANKLINE>
        | library | ms |
        | --- | --- |
        | mmtfl | 3 |
        """
        lines = [self.header, ("---",) * len(self.header), *self.rows]
        text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"### {self.title}\n\n{text}" + (f"\n\n{self.below}" if self.below else "")


def make_tables(results: Results) -> Iterator[Table]:
    """The tables of everything that was run, targets first."""
    judged = verdicts(results)
    if judged:
        columns = ("problem", "against", "wanted", "measured", "met")
        yield Table("Targets", columns, [_verdict_cells(verdict) for verdict in judged])
    for case in results.cases:
        yield _case_table(case)
    if results.search is not None:
        yield _search_table(results)
    if results.growth:
        yield _growth_table(results)
    if results.cold_starts:
        yield _cold_table(results)
    if results.imports:
        seconds = [(entry.module, f"{entry.seconds:.2f}") for entry in results.imports]
        yield Table("Import in a fresh process", ("module", "s"), seconds)
    if results.failed:
        yield Table("Failed", ("problem", "error"), sorted(results.failed.items()))
    if results.skipped:
        yield Table("Not run", ("library", "reason"), sorted(results.skipped.items()))


def to_markdown(results: Results, command: str) -> str:
    """The page of one run: how it was measured, then the tables."""
    installed = ", ".join(f"{name} {number}" for name, number in results.versions.items())
    lines = [f"`{command}`", f"Processor: {results.processor}, one thread. Versions: {installed}."]
    return "\n\n".join([*lines, *(table.to_markdown() for table in make_tables(results))]) + "\n"


def print_tables(results: Results, console: Any) -> None:
    """The tables on a rich console: lines and colours on a terminal, plain text elsewhere."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as RichTable

    for table in make_tables(results):
        shown = RichTable(
            *table.header,
            title=table.title,
            caption=table.below or None,
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD if console.is_terminal else box.ASCII2,
        )
        for row in table.rows:
            shown.add_row(*map(escape, row))  # else the brackets of mmtfl[bench] are taken for a style
        console.print(shown)


def _verdict_cells(verdict: Verdict) -> tuple[str, ...]:
    measured = verdict.note if verdict.measured is None else f"{verdict.measured:.3g} {verdict.unit}"
    unjudged = "-" if verdict.measured is None else verdict.note
    met = {True: "yes", False: "no", None: unjudged}[verdict.met]
    return verdict.problem, verdict.against, verdict.wanted, measured, met


def _case_table(case: CaseResult) -> Table:
    names = dict.fromkeys(row.library for row in case.rows)
    rows = [_case_cells(case, row) for row in map(case.best, names) if row is not None]
    excess = "suboptimality" if case.gap is not None else "objective against textbook"
    below = f"One pass: {1e3 * case.pass_seconds:.2f} ms. Rows kept: {case.kept}."
    if case.gap is not None:
        below += f" Duality gap of the reference, relative: {max(case.gap, 0.0):.0e}."
    header = ("library", "ms", "x ours", "passes", excess, "tolerance", "how")
    return Table(case.title, header, rows, below)


def _case_cells(case: CaseResult, row: Row) -> tuple[str, ...]:
    ratio = case.ratio(row.library)

    def shown(value: float | None, text: Callable[[float], str]) -> str:
        return "-" if value is None else text(value)

    return (
        row.library,
        shown(row.seconds, lambda value: f"{1e3 * value:.1f}"),
        shown(ratio, lambda value: f"{value:.2f}"),
        shown(row.passes, lambda value: f"{value:.1f}"),
        shown(row.suboptimality, _excess_text if case.gap is None else "{:.0e}".format),
        shown(row.tolerance, lambda value: f"{value:.0e}"),
        f"{row.form}; {row.note}" if row.note else row.form,
    )


def _excess_text(value: float) -> str:
    return f"{100.0 * value:+.4f} %"


def _search_table(results: Results) -> Table:
    cost = results.search
    assert cost is not None
    rows = [
        ("MMTFLRegressorCV, everything included", f"{cost.search:.2f}", "1.00"),
        ("20 separate paths (mmtfl.path)", f"{cost.separate:.2f}", f"{cost.separate / cost.search:.2f}"),
        ("20 cold paths (every alpha from zero)", f"{cost.cold:.2f}", f"{cost.cold / cost.search:.2f}"),
    ]
    below = f"Cold paths: {100 * cost.timed_share:.0f} % of the alphas timed, evenly spaced; scaled up."
    return Table(f"Search; {cost.title}", ("way", "s", "x ours"), rows, below)


def _growth_table(results: Results) -> Table:
    rows = [
        (
            curve.size,
            curve.title,
            ", ".join(f"{value:g}" for value in curve.values),
            ", ".join(f"{1e3 * seconds:.3g}" for seconds in curve.seconds),
            f"{curve.exponent:.2f}",
            f"{curve.gap:.0e}",
        )
        for curve in results.growth
    ]
    header = ("size", "at", "values", "ms", "exponent", "largest relative gap")
    return Table("Growth of a (2,2) fit, ragged, tol = 1e-6", header, rows)


def _cold_table(results: Results) -> Table:
    rows = [
        (start.model, *(f"{value:.3f}" for value in (start.ever, start.later, start.steady)))
        for start in results.cold_starts
    ]
    header = ("model", "first fit ever, s", "first fit of a later process, s", "steady state, s")
    return Table("Cold start", header, rows)
