"""The results of a run as tables, in Markdown or on a terminal, and as pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmtfl.errors import require
from mmtfl_lab.bench.comparison import CaseResult, Row
from mmtfl_lab.bench.costs import Cost
from mmtfl_lab.bench.speed_targets import Verdict, verdicts
from mmtfl_lab.markdown import markdown_table

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
        >>> from mmtfl_lab.bench.rendering import Table
        >>> print(Table("Times", ("library", "ms"), [("mmtfl", "3")]).to_markdown())
        ### Times
        <BLANKLINE>
        | library | ms |
        | --- | --- |
        | mmtfl | 3 |
        """
        text = markdown_table(self.header, self.rows)
        return f"### {self.title}\n\n{text}" + (f"\n\n{self.below}" if self.below else "")


def make_tables(results: Results) -> Iterator[Table]:
    """The tables of everything that was run, targets first."""
    judged = verdicts(results)
    if judged:
        columns = ("problem", "against", "wanted", "measured", "met")
        yield Table("Targets", columns, [_verdict_cells(verdict) for verdict in judged])
    for case in results.cases:
        yield _case_table(case)
    for cost in results.costs:
        yield _cost_table(cost)
    if results.growth:
        yield _growth_table(results)
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


def _cost_table(cost: Cost) -> Table:
    rows = []
    for way in cost.ways:
        ratio = cost.ratio(way.name)
        value = way.note if way.value is None else f"{way.value:.3g}"
        rows.append((way.name, value, "-" if ratio is None else f"{ratio:.2f}"))
    return Table(cost.title, ("way", cost.unit, "x the first"), rows, cost.below)


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


# -- pictures ------------------------------------------------------------------------------------------------


def draw(results: Results, folder: Path) -> list[Path]:
    """Write `times.png` and `growth.png`, each if there is something to show; returns the paths."""
    figure_module = require("matplotlib.figure", "bench")
    written = []
    for name, wanted, plot in (("times", results.cases, _times), ("growth", results.growth, _growth)):
        if wanted:
            figure = figure_module.Figure(figsize=(9.0, 5.0), layout="constrained")
            plot(results, figure)
            written.append(folder / f"{name}.png")
            figure.savefig(written[-1], dpi=120)
    return written


def _times(results: Results, figure) -> None:
    axes = figure.subplots()
    names = dict.fromkeys(row.library for case in results.cases for row in case.rows)
    for name in names:
        found = [(i, case.best(name)) for i, case in enumerate(results.cases)]
        points = [(i, 1e3 * row.seconds) for i, row in found if row is not None and row.seconds]
        if points:
            ours = name == "mmtfl"
            style = {"marker": "o" if ours else "x", "zorder": 3 if ours else 2, "s": 60 if ours else 35}
            axes.scatter(*zip(*points, strict=True), label=name, **style)
    passes = [1e3 * case.pass_seconds for case in results.cases]
    axes.scatter(range(len(passes)), passes, marker="_", color="black", s=120, label="one pass")
    axes.set_yscale("log")
    axes.set_ylabel("ms to a relative suboptimality of 1e-6")
    axes.set_xticks(range(len(results.cases)), [case.key for case in results.cases], rotation=35, ha="right")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _growth(results: Results, figure) -> None:
    axes = figure.subplots()
    for curve in results.growth:
        label = f"{curve.size}: exponent {curve.exponent:.2f} ({curve.title})"
        axes.plot(curve.values, [1e3 * seconds for seconds in curve.seconds], marker="o", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("size")
    axes.set_ylabel("ms of one fit")
    axes.grid(which="both", alpha=0.3)
    axes.legend(fontsize="small", title="time against")
