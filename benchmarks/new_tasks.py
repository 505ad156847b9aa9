"""Do intervals for tasks never seen cover? Tasks are left out in five groups; shares of their rows covered.

python benchmarks/new_tasks.py            # simulated tables, and school and parkinsons where MMTFL_DATA is
"""

import os
import warnings

import numpy as np
from sklearn.model_selection import GroupKFold

from mmtfl import MMTFLRegressorCV

SIMULATED = {  # tasks, rows of each, spread of levels, of slopes, noise
    "30 tasks of 5 to 30 rows": (30, 5, 30, 2.0, 0.5, 1.0),
    "12 tasks of 20 to 60 rows, slopes differ": (12, 20, 60, 1.0, 1.0, 1.0),
    "60 tasks of 4 to 10 rows, slopes agree": (60, 4, 10, 1.0, 0.0, 2.0),
    "25 tasks of 30 to 60 rows, slopes differ": (25, 30, 60, 3.0, 1.0, 1.0),
}


def covered(X, y, task, coverage):
    """Share of the rows of tasks left out that their intervals hold, and its standard error over tasks."""
    inside = np.empty(len(y))
    for train, test in GroupKFold(5, shuffle=True, random_state=0).split(X, y, task):
        model = MMTFLRegressorCV(standardize=True, unknown_task="common")
        model.fit(X[train], y[train], task=task[train])
        low, high = model.predict_interval(X[test], task=task[test], coverage=coverage).T
        inside[test] = (low <= y[test]) & (y[test] <= high)
    apart = np.array([np.sum(inside[task == t] - inside.mean()) for t in np.unique(task)])
    return inside.mean(), np.sqrt(np.sum(apart**2)) / len(y)


def simulated(seed, n_tasks, least, most, tau, scatter, noise):
    """Tasks with levels that a column moves by 2, and slopes about (1, -1, .5, 0, 0)."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), rng.integers(least, most, n_tasks))
    X = rng.normal(size=(len(task), 6)) + rng.normal(size=(n_tasks, 6))[task]
    X[:, 5] = rng.integers(0, 2, n_tasks)[task]
    slopes = np.array([1, -1, 0.5, 0, 0, 2]) + scatter * rng.normal(size=(n_tasks, 6)) * [1, 1, 0, 0, 0, 0]
    level = tau * rng.normal(size=n_tasks)[task]
    return X, np.sum(X * slopes[task], axis=1) + level + noise * rng.normal(size=len(task)), task


def main():
    """Print a line per table."""
    warnings.simplefilter("ignore")
    if "MMTFL_DATA" in os.environ:
        from mmtfl_lab import datasets

        for name in ("school", "parkinsons"):
            data = getattr(datasets, f"load_{name}")()
            y = np.asarray(data.y, dtype=float)
            rows = np.asarray(data.X, dtype=float), y if y.ndim == 1 else y[:, 0], np.asarray(data.task)
            found = [covered(*rows, coverage) for coverage in (0.8, 0.9)]
            print(name, "; ".join(f"{share:.3f} +- {error:.3f}" for share, error in found))
    for number, (name, numbers) in enumerate(SIMULATED.items()):
        tables = [covered(*simulated(100 * number + i, *numbers), 0.9) for i in range(6)]
        share, error = np.mean(tables, axis=0)
        print(f"{name}: {share:.3f} +- {error / np.sqrt(len(tables)):.3f} (6 tables)")


if __name__ == "__main__":
    main()
