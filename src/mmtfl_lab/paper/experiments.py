"""All experiments of the paper in one folder: the cells, then the tables and the figure made of them."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmtfl.datasets.array_files import data_path, sources
from mmtfl.persistence.files import write_text
from mmtfl_lab.paper import table1, table2, verdicts
from mmtfl_lab.paper.data_sets import PROBLEMS
from mmtfl_lab.paper.figure1 import DATASETS, FRACTION, draw_figure1, figure_cells
from mmtfl_lab.paper.methods import Grid
from mmtfl_lab.paper.protocol import Plan, run_cell, run_cells
from mmtfl_lab.paper.results import Results
from mmtfl_lab.paper.store import Store

__all__ = ["QUICK", "absent", "quick", "render", "reproduce"]

QUICK = Grid(alphas=10, single=10, pairs=4)


def absent(plan: Plan) -> dict[str, str]:
    """The data sets of a plan whose file is not on this machine, and where it comes from."""
    found = {}
    for name in plan.datasets:
        file = PROBLEMS[name].file
        if file is not None and not (path := data_path(file)).is_file():
            found[name] = f"{path} is not there; {sources()[file].title}: {sources()[file].origin}"
    return found


def quick(plan: Plan) -> Plan:
    """The same in about a minute: two splits at 33 %, and coarse grids."""
    return replace(plan, repeats=min(plan.repeats, 2), fractions=(FRACTION,), grid=QUICK)


def reproduce(
    plan: Plan,
    folder: Path,
    *,
    table_1: bool = True,
    table_2: bool = True,
    figure_1: bool = True,
    jobs: int = 1,
    fresh: bool = False,
    shown: bool = False,
) -> Results:
    """Run what a plan asks for and write it to a folder.

    Parameters
    ----------
    plan : Plan
        Data sets, methods, fractions, repeats, seed and grid.
    folder : path
        Holds the cells and all that is made of them; a run of the same settings there goes on.
    table_1, table_2, figure_1 : bool
        What to make.
    jobs : int
        Processes.
    fresh : bool
        Throw away the cells of an earlier run there.
    shown : bool
        Whether to tell of progress on stderr.

    Returns
    -------
    Results
        The cells of the plan that Table 2 is made of.
    """
    store = Store(folder, plan.settings)
    store.open(fresh=fresh)
    cells = plan.cells() if table_2 else []
    cells += [cell for cell in (figure_cells(plan) if figure_1 else []) if cell not in cells]
    run_cells(cells, partial(run_cell, seed=plan.seed, grid=plan.grid), store, jobs=jobs, shown=shown)
    return render(plan, store, table_1=table_1, table_2=table_2, figure_1=figure_1)


def render(plan: Plan, store: Store, *, table_1: bool, table_2: bool, figure_1: bool) -> Results:
    """Make the tables and the figure from finished cells."""
    folder, results = store.folder, Results.of(plan, store)
    if table_1:
        write_text(folder / "table1.md", table1.to_markdown(table1.check_closed_forms(plan.seed)))
    if table_2:
        found = verdicts.verdicts(results)
        write_text(folder / "results.csv", results.to_csv())
        write_text(folder / "results.json", results.to_json())
        write_text(folder / "table2.md", table2.to_markdown(results))
        write_text(folder / "table2.tex", table2.to_latex(results))
        write_text(folder / "verdicts.md", verdicts.to_markdown(found))
    if figure_1 and any(dataset in plan.datasets for dataset in DATASETS):
        draw_figure1(plan, store, folder)
    return results


def default_jobs() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
