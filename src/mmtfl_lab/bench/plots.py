"""Pictures of a run: times of the libraries on every problem, and the growth curves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mmtfl.errors import require

if TYPE_CHECKING:
    from mmtfl_lab.bench.run import Results


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
