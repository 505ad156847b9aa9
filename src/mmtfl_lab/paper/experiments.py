"""All experiments of the paper in one folder: the cells, then the tables and the figure made of them."""

import io
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.files import write_text, write_whole
from mmtfl_lab.datasets.array_files import data_path, sources
from mmtfl_lab.paper import table1, table2
from mmtfl_lab.paper.data_sets import PROBLEMS, load_pool
from mmtfl_lab.paper.methods import METHODS, Grid
from mmtfl_lab.paper.protocol import Cell, Plan, Store, run_cell, run_cells
from mmtfl_lab.paper.results import Results, verdicts, verdicts_to_markdown

QUICK = Grid(alphas=10, single=10, pairs=4)
DATASETS = ("D1", "D2")  # of Figure 1
FRACTION = 0.33


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
        write_text(folder / "results.csv", results.to_csv())
        write_text(folder / "results.json", results.to_json())
        write_text(folder / "table2.md", table2.to_markdown(results))
        write_text(folder / "table2.tex", table2.to_latex(results))
        write_text(folder / "verdicts.md", verdicts_to_markdown(verdicts(results)))
    if figure_1 and any(dataset in plan.datasets for dataset in DATASETS):
        draw_figure1(plan, store, folder)
    return results


def default_jobs() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# -- Figure 1: the coefficient matrices of D1 and D2, the truth and what every method learned ----------------


def figure_cells(plan: Plan) -> list[Cell]:
    """The cells whose coefficients the figure shows: the first split at 33 %."""
    shown = [dataset for dataset in DATASETS if dataset in plan.datasets]
    return [Cell(dataset, FRACTION, 0, method) for dataset in shown for method in plan.methods]


def draw_figure1(plan: Plan, store: Store, folder: Path) -> list[Path]:
    """Draw the matrices side by side with the truth, as PNG and SVG.

    Parameters
    ----------
    plan : Plan
        Says which methods and data sets.
    store : Store
        Has the cells of `figure_cells`.
    folder : path
        Where ``figure1.png`` and ``figure1.svg`` go.

    Returns
    -------
    list of path
        The files written.
    """
    matplotlib = require("matplotlib", "plots")
    figures = require("matplotlib.figure", "plots")
    datasets = [dataset for dataset in DATASETS if dataset in plan.datasets]
    methods = [name for name in METHODS if name in plan.methods]
    with matplotlib.rc_context({"font.size": 8, "svg.hashsalt": "mmtfl"}):
        size = 4.2 * len(datasets), 0.75 * (1 + len(methods))
        figure = figures.Figure(figsize=size, layout="constrained")
        axes = figure.subplots(1 + len(methods), len(datasets), squeeze=False, sharex=True)
        for column, dataset in zip(axes.T, datasets, strict=True):
            _draw_column(column, dataset, methods, plan, store)
        bar = figure.colorbar(axes[0, -1].images[0], ax=axes, shrink=0.3, pad=0.01)
        bar.set_label("|coefficient|, darker is larger")
        paths = [folder / "figure1.png", folder / "figure1.svg"]
        _save(figure, paths[0], dpi=150, metadata={"Software": None})
        _save(figure, paths[1], metadata={"Date": None})
    return paths


def _save(figure: Any, path: Path, **options: Any) -> None:
    stored = io.BytesIO()
    figure.savefig(stored, format=path.suffix[1:], **options)
    write_whole(path, [stored.getbuffer()])


def _draw_column(axes: Any, dataset: str, methods: list[str], plan: Plan, store: Store) -> None:
    truth = np.asarray(load_pool(dataset, plan.seed).coef)
    shown = [("truth", truth, f"{dataset}: tasks by features, {100 * FRACTION:g} % training")]
    for method in methods:
        cell = store.read(Cell(dataset, FRACTION, 0, method))
        if cell is not None:
            text = f"R² {cell['pooled']:.2f}, support F1 {cell['support_f1']:.2f}"
            shown.append((METHODS[method].title, np.asarray(cell["coef"]), text))
    top = float(np.quantile(np.abs(truth), 0.99))
    for axis, (title, coef, text) in zip(axes, shown, strict=False):
        axis.imshow(np.abs(coef), cmap="Greys", vmin=0.0, vmax=top, aspect="auto", interpolation="nearest")
        axis.set_ylabel(title, rotation=0, ha="right", va="center")
        axis.set_title(text, pad=2)
        axis.set_yticks([])
    axes[-1].set_xlabel("feature")
