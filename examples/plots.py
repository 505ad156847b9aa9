"""Draw every display of mmtfl.plots, as docs/plots.md shows them (about a minute).

The diabetes study of the demo (four groups of patients), and a simulated problem of 600 features and 60
tasks. With a folder as argument, the pictures go there.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from demo import diabetes_by_group

from mmtfl import MMTFLRegressor, MMTFLRegressorCV
from mmtfl.datasets import make_hospitals, make_tasks
from mmtfl.model_selection import tasks_train_test_split
from mmtfl.plots import (
    CurveDisplay,
    ForestDisplay,
    HistoryDisplay,
    PathDisplay,
    SearchDisplay,
    SharedPartDisplay,
    SharingMapDisplay,
)


def diabetes():
    """Displays of a search on four groups of patients."""
    X, y, group = diabetes_by_group()
    X_train, _, y_train, _, group_train, _ = tasks_train_test_split(
        X, y, group, train_size=0.6, random_state=0
    )
    model = MMTFLRegressorCV(alphas=40, cv=5, n_jobs=2).fit(X_train, y_train, task=group_train)
    return {
        "sharing-map": SharingMapDisplay.from_estimator(model),
        "shared-part": SharedPartDisplay.from_estimator(model),
        "path": PathDisplay.from_estimator(model),
        "search": SearchDisplay.from_estimator(model),
    }


def hospitals():
    """Effects in eight hospitals, and one that is a curve."""
    table = make_hospitals(random_state=0).frame
    X = table[["age", "bmi", "pulse", "crp", "dose", "hospital"]]
    model = MMTFLRegressorCV(standardize=True, task_column="hospital", curves=True).fit(X, table["stay"])
    return {
        "forest": ForestDisplay.from_estimator(model, "dose"),
        "averages": ForestDisplay.from_estimator(model),
        "curve": CurveDisplay.from_estimator(model, "crp"),
    }


def large():
    """A staircase of 600 features over 60 tasks, shuffled, and how its fit converged."""
    data = make_tasks(60, 200, 600, pattern="staircase", n_informative=30, noise=0.5, random_state=0)
    rng = np.random.default_rng(0)
    X, task = data.X[:, rng.permutation(600)], rng.permutation(60)[data.task]
    model = MMTFLRegressor(p=1, k=2, alpha=0.2, solver="alternating").fit(X, data.y, task=task)
    return {
        "sharing-map-large": SharingMapDisplay.from_estimator(model),
        "history": HistoryDisplay.from_estimator(model),
    }


def main() -> None:
    """Draw all displays into a folder."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "plots-output")
    folder.mkdir(parents=True, exist_ok=True)
    for make in (diabetes, hospitals, large):
        for name, display in make().items():
            display.figure_.savefig(folder / f"plots-{name}.png", dpi=110)
            plt.close(display.figure_)
            print(folder / f"plots-{name}.png")


if __name__ == "__main__":
    main()
