"""Figure 1: the coefficient matrices of D1 and D2, the truth and what every method learned."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.files import write_whole
from mmtfl_lab.paper.data_sets import load_pool
from mmtfl_lab.paper.methods import METHODS
from mmtfl_lab.paper.protocol import Plan
from mmtfl_lab.paper.store import Cell, Store

__all__ = ["draw_figure1", "figure_cells"]

DATASETS = ("D1", "D2")
FRACTION = 0.33


def figure_cells(plan: Plan) -> list[Cell]:
    """The cells whose coefficients the figure shows: the first split at 33 %."""
    return [
        Cell(dataset, FRACTION, 0, method)
        for dataset in DATASETS
        if dataset in plan.datasets
        for method in plan.methods
    ]


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
        figure = figures.Figure(
            figsize=(4.2 * len(datasets), 0.75 * (1 + len(methods))), layout="constrained"
        )
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
