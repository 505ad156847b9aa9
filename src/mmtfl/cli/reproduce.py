"""`mmtfl reproduce`: the paper's experiments, in a folder that an interrupted run goes on with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import JOBS, SEVERAL, SWITCH, check_counts, choose, resumable, use_one_thread
from mmtfl.cli.output import note, print_json, say

if TYPE_CHECKING:
    from mmtfl_lab.paper.protocol import Plan
    from mmtfl_lab.paper.results import Results

_Output = Parameter(name=["--out", "-o", "--output"])


def reproduce(
    *,
    table1: Annotated[bool, SWITCH] = False,
    table2: Annotated[bool, SWITCH] = False,
    figure1: Annotated[bool, SWITCH] = False,
    truth: int = 0,
    datasets: Annotated[list[str] | None, SEVERAL] = None,
    methods: Annotated[list[str] | None, SEVERAL] = None,
    repeats: int = 15,
    fractions: Annotated[list[float] | None, SEVERAL] = None,
    folds: int = 3,
    jobs: Annotated[int | None, JOBS] = None,
    seed: int = 0,
    out: Annotated[Path, _Output] = Path("reproduce-output"),
    quick: Annotated[bool, SWITCH] = False,
    fresh: Annotated[bool, SWITCH] = False,
    json: Annotated[bool, SWITCH] = False,
) -> int:
    """Rerun the paper's experiments: Table 1, Table 2 and Figure 1.

    All three, unless some are named. Every finished cell (a method on a split)
    is written at once: the same command goes on where it was stopped, and gives
    the same numbers.

    Example:

      mmtfl reproduce --quick
      mmtfl reproduce --table2 --datasets D1 D2 --repeats 5 --out d1d2

    Parameters
    ----------
    table1
        Closed forms of c, checked numerically.
    table2
        Comparison of the methods: results.csv, results.json, table2.md, table2.tex, verdicts.md.
    figure1
        Coefficient matrices of D1 and D2 at 33 %: figure1.png, figure1.svg.
    truth
        Instead of the paper: on so many simulated problems, such as 40, how often what `cv --stability` says
        is wrong.
    datasets
        Which of: D1, D2, sarcos, usps, school, landmine, liver, by default those on this machine; or survey,
        isolet, parkinsons, wheat, oes97, rf1, scm20d, which are not in the paper.
    methods
        Which of: stl, dmtl, rmtfl, mmtfl22, mmtfl11, mmtfl21, mmtfl12, auto, pooled, by default all of them;
        or centred, datashared, pretrained, boosting, as in `mmtfl compare`.
    repeats
        Random splits of every data set at every fraction.
    fractions
        Parts of the data to train on; by default 0.25, 0.33 and 0.5.
    folds
        Folds inside training, with which every method chooses its own strengths.
    jobs
        Processes; by default one per processor.
    seed
        Of everything random.
    out
        Folder for the cells and what is made of them.
    quick
        Two splits at 33 % with coarse grids, in about a minute.
    fresh
        Throw away the cells of an earlier run in the folder.
    json
        Print the means and the verdicts as JSON.
    """
    use_one_thread()
    if truth:
        from mmtfl_lab.bench.how_sure import judge

        check_counts(truth=truth, seed=seed)
        judge(truth, 10_000 + seed, 50, null=False)
        return 0
    from mmtfl_lab.paper.experiments import absent, default_jobs
    from mmtfl_lab.paper.experiments import reproduce as run
    from mmtfl_lab.paper.methods import Grid
    from mmtfl_lab.paper.protocol import OtherSettings

    check_counts(repeats=repeats, folds=folds, seed=seed, jobs=jobs)
    plan = _plan(datasets, methods, fractions, quick, repeats=repeats, seed=seed, grid=Grid(folds=folds))
    if not (table1 or table2 or figure1):
        table1 = table2 = figure1 = True
    if table2:
        for name, reason in absent(plan).items():
            note(f"{name} is left out: {reason}")
    plan = replace(plan, datasets=[name for name in plan.datasets if name not in absent(plan)])
    if table2 and not plan.datasets:
        raise BadInput("None of the data sets asked for is on this machine: name D1 or D2, which are drawn.")
    with resumable(OtherSettings):
        wanted = {"table_1": table1, "table_2": table2, "figure_1": figure1}
        results = run(plan, out, **wanted, jobs=jobs or default_jobs(), fresh=fresh, shown=True)
    _show(results, out, (table1, table2, figure1), json)
    return 0


def _plan(
    datasets: list[str] | None,
    methods: list[str] | None,
    fractions: list[float] | None,
    quick: bool,
    **others: Any,
) -> Plan:
    from mmtfl_lab.paper import data_sets
    from mmtfl_lab.paper import methods as lab_methods
    from mmtfl_lab.paper.data_sets import PROBLEMS
    from mmtfl_lab.paper.experiments import quick as make_quick
    from mmtfl_lab.paper.methods import METHODS
    from mmtfl_lab.paper.protocol import Plan

    spelled = {name.lower(): name for name in PROBLEMS}  # d1 is D1
    given = [spelled.get(name.lower(), name) for name in datasets or data_sets.IN_THE_PAPER]
    lower = [name.lower() for name in methods or lab_methods.IN_THE_PAPER]
    problems, compared = choose("datasets", given, PROBLEMS), choose("methods", lower, METHODS)
    shares = sorted(set(fractions or (0.25, 0.33, 0.5)))
    if not all(0.0 < share < 1.0 for share in shares):
        raise BadInput(f"--fractions must lie between 0 and 1, got {', '.join(map(str, shares))}.")
    plan = Plan(datasets=problems, methods=compared, fractions=shares, **others)
    return make_quick(plan) if quick else plan


def _show(results: Results, out: Path, made: tuple[bool, bool, bool], as_json: bool) -> None:
    from mmtfl_lab.paper import table1, table2
    from mmtfl_lab.paper.results import verdicts, verdicts_to_markdown

    files = {
        "table1": ["table1.md"],
        "table2": ["results.csv", "results.json", "table2.md", "table2.tex", "verdicts.md"],
        "figure1": ["figure1.png", "figure1.svg"],
    }
    names = [name for wanted, group in zip(made, files.values(), strict=True) if wanted for name in group]
    say("Written: " + ", ".join(str(out / name) for name in names if (out / name).exists()))
    forms = table1.check_closed_forms(results.plan.seed) if made[0] else []
    found = verdicts(results) if made[1] else []
    if as_json:
        means = results.means() if made[1] else []
        tables = {"table1": [form.as_dict() for form in forms], "table2": means}
        print_json({"folder": str(out), **tables, "verdicts": found})
        return
    if made[0]:
        print(table1.to_markdown(forms))
    if made[1]:
        print(table2.to_markdown(results))
        print(verdicts_to_markdown(found), end="")
