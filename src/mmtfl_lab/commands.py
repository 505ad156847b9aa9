"""The two commands of the laboratory, read by argparse."""

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmtfl.persistence.archive import plain
from mmtfl_lab.bench import libraries as known_libraries
from mmtfl_lab.bench import run as benchmark
from mmtfl_lab.paper import data_sets, experiments, table1, table2
from mmtfl_lab.paper import methods as paper_methods
from mmtfl_lab.paper.protocol import OtherSettings, Plan
from mmtfl_lab.paper.results import Results, verdicts, verdicts_to_markdown

FILES = {
    "table1": ["table1.md"],
    "table2": ["results.csv", "results.json", "table2.md", "table2.tex", "verdicts.md"],
    "figure1": ["figure1.png", "figure1.svg"],
}


def main(words: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; bad input ends the process with code 2.

    Parameters
    ----------
    words : sequence of str, optional
        The arguments; None for those of the process.

    Returns
    -------
    int
        0; 1 if part of the work failed; 130 if interrupted.
    """
    words = sys.argv[1:] if words is None else list(words)
    given = _parser().parse_args(words)
    try:
        return given.run(given)
    except KeyboardInterrupt:
        again = shlex.join(word for word in words if word != "--fresh")
        print(f"interrupted. Finished cells are kept; to go on: python -m mmtfl_lab {again}", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m mmtfl_lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="bench|reproduce")
    bench = commands.add_parser("bench", help="time mmtfl beside other libraries, to the same accuracy")
    _several(bench, "--problems", benchmark.PROBLEMS, "all by default")
    _several(bench, "--libraries", known_libraries.NAMES, "by default those that are installed")
    bench.add_argument("--repeats", type=_count, default=5, help="rounds of timing; the least time counts")
    bench.add_argument("--quick", action="store_true", help="small problems, in about a minute")
    bench.add_argument("--out", type=Path, help="folder for results.json, results.md and pictures")
    bench.add_argument("--json", action="store_true", help="print JSON in place of tables")
    bench.add_argument("--force", action="store_true", help="write over the results of an earlier run")
    bench.set_defaults(run=_bench, refuse=bench.error)
    again = commands.add_parser("reproduce", help="rerun the paper's Table 1, Table 2 and Figure 1")
    for name in FILES:
        again.add_argument(f"--{name}", action="store_true", help=f"make {', '.join(FILES[name])}")
    _several(again, "--datasets", data_sets.PROBLEMS, "by default those of the paper that are here")
    _several(again, "--methods", paper_methods.METHODS, "by default those of the paper")
    again.add_argument("--repeats", type=_count, default=15, help="random splits of every data set")
    again.add_argument("--fractions", type=_share, nargs="+", default=[0.25, 0.33, 0.5], help="to train on")
    again.add_argument("--folds", type=_folds, default=3, help="folds that choose a method's strengths")
    again.add_argument("--jobs", type=_count, help="processes; by default one per processor")
    again.add_argument("--seed", type=int, default=0, help="of everything random")
    again.add_argument("--out", type=Path, default=Path("reproduce-output"), help="folder for the cells")
    again.add_argument("--quick", action="store_true", help="two splits at 33 % with coarse grids")
    again.add_argument("--fresh", action="store_true", help="throw away the cells of an earlier run")
    again.add_argument("--json", action="store_true", help="print the means and the verdicts as JSON")
    again.set_defaults(run=_reproduce, refuse=again.error)
    return parser


def _several(parser: argparse.ArgumentParser, option: str, known: Any, about: str) -> None:
    parser.add_argument(option, nargs="+", choices=list(known), metavar="NAME", help=about)


def _count(text: str) -> int:
    return _at_least(int(text), 1)


def _folds(text: str) -> int:
    return _at_least(int(text), 2)


def _at_least(value: int, least: int) -> int:
    if value < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
    return value


def _share(text: str) -> float:
    if not 0.0 < float(text) < 1.0:
        raise argparse.ArgumentTypeError(f"must lie between 0 and 1, got {text}")
    return float(text)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# -- bench -------------------------------------------------------------------------------------------------


def _bench(given: argparse.Namespace) -> int:
    from rich.console import Console

    from mmtfl_lab.bench.rendering import print_tables

    if given.out is not None:
        _check_folder(given)
    problems = given.problems or benchmark.PROBLEMS
    options = {"repeats": given.repeats, "quick": given.quick, "say": _say}
    results = benchmark.run(problems, given.libraries, **options)
    if given.out is not None:
        _write(results, given)
    if given.json:
        print(_dump(results))
    else:  # a pipe has no width: tables are then as wide as their text
        console = Console()
        print_tables(results, console if console.is_terminal else Console(width=200))
    return 1 if results.failed else 0


def _check_folder(given: argparse.Namespace) -> None:
    """Refuse an output folder that cannot be used, before minutes of work are lost."""
    if (given.out / "results.json").exists() and not given.force:
        given.refuse(f"{str(given.out)!r} holds results already: use another folder, or --force.")
    try:
        given.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        given.refuse(f"--out {str(given.out)!r} is no folder and cannot be made: {error.strerror}.")


def _write(results: Any, given: argparse.Namespace) -> None:
    from mmtfl.persistence.files import write_text
    from mmtfl_lab.bench.rendering import draw, to_markdown

    words = ["python", "-m", "mmtfl_lab", "bench"]
    for option in ("problems", "libraries"):
        words += [f"--{option}", *getattr(given, option)] if getattr(given, option) else []
    words += ["--repeats", str(given.repeats), *(["--quick"] if given.quick else [])]
    write_text(given.out / "results.json", _dump(results))
    write_text(given.out / "results.md", to_markdown(results, " ".join(words)))
    draw(results, given.out)
    _say(f"Written: {given.out}")


def _dump(results: Any) -> str:
    return json.dumps(results.as_dict(), indent=2, allow_nan=False)


# -- reproduce ---------------------------------------------------------------------------------------------


def _reproduce(given: argparse.Namespace) -> int:
    plan = _plan(given)
    made = [name for name in FILES if getattr(given, name)] or list(FILES)
    if "table2" in made:
        for name, reason in experiments.absent(plan).items():
            _say(f"note: {name} is left out: {reason}")
    here = [name for name in plan.datasets if name not in experiments.absent(plan)]
    if "table2" in made and not here:
        given.refuse("None of the data sets asked for is on this machine: name D1 or D2, which are drawn.")
    wanted = {f"{name[:-1]}_{name[-1]}": name in made for name in FILES}
    jobs = given.jobs or experiments.default_jobs()
    try:
        results = experiments.reproduce(
            replace(plan, datasets=here), given.out, **wanted, jobs=jobs, fresh=given.fresh, shown=True
        )
    except OtherSettings as error:
        given.refuse(str(error))
    _say(f"Written: {given.out}")
    _show(results, made, given)
    return 0


def _plan(given: argparse.Namespace) -> Plan:
    plan = Plan(
        datasets=[name for name in data_sets.PROBLEMS if name in (given.datasets or data_sets.IN_THE_PAPER)],
        methods=[
            name for name in paper_methods.METHODS if name in (given.methods or paper_methods.IN_THE_PAPER)
        ],
        fractions=sorted(set(given.fractions)),
        repeats=given.repeats,
        seed=given.seed,
        grid=paper_methods.Grid(folds=given.folds),
    )
    return experiments.quick(plan) if given.quick else plan


def _show(results: Results, made: list[str], given: argparse.Namespace) -> None:
    forms = table1.check_closed_forms(results.plan.seed) if "table1" in made else []
    found = verdicts(results) if "table2" in made else []
    if given.json:
        means = results.means() if "table2" in made else []
        tables = {"table1": [form.as_dict() for form in forms], "table2": means}
        shown = {"folder": str(given.out), **tables, "verdicts": found}
        print(json.dumps(plain(shown), indent=2, allow_nan=False))
        return
    if forms:
        print(table1.to_markdown(forms))
    if "table2" in made:
        print(table2.to_markdown(results))
        print(verdicts_to_markdown(found), end="")
