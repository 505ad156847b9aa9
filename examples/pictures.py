"""The drawings of the site: the product form, the questions that lead to a model, a fit on a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

plt.switch_backend("Agg")
plt.rcParams.update({"svg.hashsalt": "mmtfl", "svg.fonttype": "none"})

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#666666"


def product(path: Path) -> None:
    """The table of coefficients as the shared column times the tasks' own table."""
    rng = np.random.default_rng(3)
    c = np.array([1.0, 0.0, 0.7, 0.0, 0.0, 0.4])
    own = rng.normal(size=(6, 5)) * (c > 0)[:, None]
    fig, axes = plt.subplots(1, 3, figsize=(8, 2.7), width_ratios=[5, 1, 5], layout="constrained")
    draw = {"cmap": "PuOr", "vmin": -1.5, "vmax": 1.5, "aspect": "equal"}
    axes[0].imshow(c[:, None] * own, **draw)
    axes[1].imshow(c[:, None], **{**draw, "cmap": "Blues", "vmin": 0.0})
    axes[2].imshow(own, **draw)
    titles = ("coefficients", "c: shared\nby all tasks", r"$\beta$: each task's own")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, fontsize=10)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xticks(np.arange(-0.5, ax.get_xlim()[1]), minor=True)
        ax.set_yticks(np.arange(-0.5, 6), minor=True)
        ax.grid(which="minor", color="white", lw=1.5)
        ax.tick_params(which="both", length=0)
        ax.spines[:].set_visible(False)
    axes[0].set_ylabel("features")
    axes[0].set_xlabel("tasks")
    axes[2].set_xlabel("tasks")
    for ax, sign in ((axes[1], "="), (axes[2], "×")):
        ax.annotate(
            sign,
            (0, 0.5),
            (-26, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=16,
            va="center",
        )
    fig.savefig(path, metadata={"Date": None})


QUESTIONS = [
    ("Do the rows come from several\nsites, people or machines?", "no", "one task: use scikit-learn"),
    (
        "Are you unsure what\nthe sites have in common?",
        "yes",
        "the default search\nMMTFLRegressorCV, MMTFLClassifierCV, mmtfl cv",
    ),
    (
        "Does a feature have about\nthe same effect in every site?",
        "yes",
        "pooling=0.9 or more\n(the default search tries it)",
    ),
    ("Is a whole site unlike all others?", "yes", "RobustRegressor"),
    ("Are there single exceptions: one\nfeature in one site?", "yes", "DirtyRegressor"),
    ("Do all sites use the same features?", "yes", "few features: pk=(2, 1)\nmany features: pk=(2, 2)"),
    ("Does each site use some of\nthe features that matter?", "yes", "pk=(1, 2) or pk=(1, 1)"),
    ("Do the sites have nothing\nin common?", "yes", "SingleTaskRegressorCV\n(one model per site)"),
]


def questions(path: Path) -> None:
    """A flowchart: questions down the left, models at the right."""
    n = len(QUESTIONS)
    fig, ax = plt.subplots(figsize=(8.5, 0.95 * (n + 1)), layout="constrained")
    for i, (question, answer, model) in enumerate(QUESTIONS):
        y = n - 1 - i
        _box(ax, 0.0, y, 3.6, question, GREY)
        _box(ax, 5.2, y, 4.2, model, BLUE)
        ax.add_patch(FancyArrowPatch((3.65, y), (5.15, y), arrowstyle="-|>", mutation_scale=12, color=BLUE))
        ax.text(4.35, y + 0.1, answer, color=BLUE, ha="center")
        ax.add_patch(
            FancyArrowPatch(
                (1.8, y - 0.34), (1.8, y - 0.66), arrowstyle="-|>", mutation_scale=12, color=ORANGE
            )
        )
        ax.text(1.9, y - 0.53, "yes" if answer == "no" else "no", color=ORANGE, va="center")
    _box(ax, 0.0, -1, 3.6, "the default search", BLUE)
    ax.set(xlim=(-0.1, 9.6), ylim=(-1.5, n - 0.5))
    ax.axis("off")
    fig.savefig(path, metadata={"Date": None})


def _box(ax, x, y, width, text, colour):
    ax.add_patch(FancyBboxPatch((x, y - 0.32), width, 0.64, boxstyle="round,pad=0.02", fc="white", ec=colour))
    ax.text(x + width / 2, y, text, ha="center", va="center", fontsize=9.5)


def cluster(path: Path) -> None:
    """One pass of a fit on a cluster: what goes out, what comes back, and what stays."""
    fig, ax = plt.subplots(figsize=(8.5, 2.6), layout="constrained")
    _box(ax, 0.0, 1.0, 2.6, "your process\nc, and which features are left", BLUE)
    for y in (0.0, 1.0, 2.0):
        _box(ax, 6.2, y, 3.3, "worker: rows and coefficients\nof its tasks, which stay here", GREY)
        for shift, colour, style in ((0.07, BLUE, "-|>"), (-0.07, ORANGE, "<|-")):
            ends = (2.7, 1.0 + shift), (6.1, y + shift)
            ax.add_patch(FancyArrowPatch(*ends, arrowstyle=style, mutation_scale=10, color=colour))
    ax.text(4.4, 2.15, "weights of the features", color=BLUE, ha="center")
    ax.text(4.4, -0.2, "losses and norms", color=ORANGE, ha="center")
    ax.set(xlim=(-0.1, 9.6), ylim=(-0.5, 2.5))
    ax.axis("off")
    fig.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    product(folder / "product.svg")
    questions(folder / "which_model.svg")
    cluster(folder / "scaling.svg")
