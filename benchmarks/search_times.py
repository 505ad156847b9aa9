"""Processor seconds of searches beside other libraries, on one thread: the least of alternated repeats.

    python benchmarks/search_times.py [REPEATS [PROBLEM ...]]

Problems: d1, ragged, school, classes, d1-classes, and tables of 10,000 rows and 60 columns: 10-tasks and
200-tasks, each also with -classes and -counts. Adelie is `cv_grpnet` of (2,2) on columns that are centred
by hand, scikit-learn `LassoCV` task by task, both with 5 folds and 100 strengths; what is not installed is
left out.
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
from __future__ import annotations

import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np

import mmtfl
from mmtfl.datasets import make_d1, make_tasks
from mmtfl_lab.bench.judged_problems import RaggedTasks, make_ragged
from mmtfl_lab.bench.libraries import block_columns
from mmtfl_lab.datasets import load_school


def cut(data: Any) -> Any:
    """The same rows with classes: whether a target is above its task's median."""
    middle = {t: np.median(data.y[data.task == t]) for t in np.unique(data.task)}
    data.y = (data.y > np.array([middle[t] for t in data.task])).astype(int)
    return data


def large_table(n_tasks: int, kind: str = "numbers") -> Any:
    """10,000 rows of 60 columns, ten of which matter: tasks agree in part, and their levels differ."""
    random, d = np.random.default_rng(0), 60
    X, task = random.normal(size=(10_000, d)), np.repeat(np.arange(n_tasks), 10_000 // n_tasks)
    A = np.zeros((d, n_tasks))
    A[:10] = 0.5 * random.normal(size=(10, 1)) + 0.3 * random.normal(size=(10, n_tasks))
    z = (X * A.T[task]).sum(axis=1) + 0.7 * random.normal(size=n_tasks)[task]
    if kind == "classes":
        y = (z + random.logistic(size=z.size) > 0.0).astype(int)
    elif kind == "counts":
        y = random.poisson(np.exp(np.clip(0.4 * z, -5.0, 3.0))).astype(float)
    else:
        y = z + 2.0 * random.normal(size=z.size)
    return SimpleNamespace(X=X, y=y, task=task)


PROBLEMS: dict[str, Callable[[], Any]] = {
    "d1": lambda: make_d1(n_samples=60, random_state=0),
    "ragged": lambda: make_ragged(n_tasks=10, least=50, most=150, n_features=300, n_true=15),
    "school": load_school,
    "classes": lambda: make_tasks(5, 80, 20, n_informative=5, classification=True, noise=0.5, random_state=0),
    "d1-classes": lambda: cut(make_d1(n_samples=60, random_state=0)),
    "10-tasks": lambda: large_table(10),
    "200-tasks": lambda: large_table(200),
    "10-tasks-classes": lambda: large_table(10, "classes"),
    "200-tasks-classes": lambda: large_table(200, "classes"),
    "10-tasks-counts": lambda: large_table(10, "counts"),
    "200-tasks-counts": lambda: large_table(200, "counts"),
}


def parts(data: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and targets of each task, centred."""
    rows = [data.task == label for label in np.unique(data.task)]
    return [(data.X[at] - data.X[at].mean(axis=0), data.y[at] - data.y[at].mean()) for at in rows]


def adelie_search(data: Any) -> Callable[[], Any]:
    """Adelie's cross-validation of (2,2)."""
    import adelie

    centred = parts(data)
    task = np.repeat(np.arange(len(centred)), [len(y) for _, y in centred])
    X, y = (np.concatenate(one) for one in zip(*centred, strict=True))
    block = np.asfortranarray(block_columns(RaggedTasks(X, y, task)).toarray())
    d, n_tasks = X.shape[1], len(centred)
    return lambda: adelie.cv_grpnet(
        X=block, glm=adelie.glm.gaussian(y), groups=np.arange(d) * n_tasks, penalty=np.ones(d), n_folds=5,
        lmda_path_size=100, intercept=False, n_threads=1, progress_bar=False,
    )  # fmt: skip


def lasso_searches(data: Any) -> Callable[[], Any]:
    """scikit-learn's LassoCV of every task."""
    from sklearn.linear_model import LassoCV

    return lambda: [LassoCV(alphas=100, cv=5).fit(X, y) for X, y in parts(data)]


def ways(name: str, data: Any) -> dict[str, Callable[[], Any]]:
    """What is timed on a problem."""

    def fit(model: Any) -> Callable[[], Any]:
        return lambda: model.fit(data.X, data.y, task=data.task)

    if name.endswith("-counts"):
        return {"default": fit(mmtfl.MMTFLRegressorCV(loss="poisson"))}
    if "tasks-classes" in name:
        return {"default": fit(mmtfl.MMTFLClassifierCV())}
    if "classes" in name:
        return {"default": fit(mmtfl.MMTFLClassifierCV()), "(2,2)": fit(mmtfl.MMTFLClassifierCV((2, 2)))}
    out = {"default": fit(mmtfl.MMTFLRegressorCV())}
    if name == "school" or name.endswith("-tasks"):
        return out
    out["four members, 5 folds"] = fit(mmtfl.MMTFLRegressorCV(poolings=(0,), cv=5))
    out["(2,2)"] = fit(mmtfl.MMTFLRegressorCV((2, 2), poolings=(0,), cv=5))
    out["per_task"] = fit(mmtfl.SingleTaskRegressorCV(1, per_task=True, cv=5))
    with suppress(ImportError):
        out["adelie (2,2)"] = adelie_search(data)
    out["scikit-learn per task"] = lasso_searches(data)
    return out


def main() -> int:
    """Time everything, and print the least of the repeats."""
    n_repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for name in sys.argv[2:] or PROBLEMS:
        timed = ways(name, PROBLEMS[name]())
        least = dict.fromkeys(timed, np.inf)
        for _ in range(n_repeats + 1):
            for way, call in timed.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    start = time.process_time()
                    call()
                least[way] = min(least[way], time.process_time() - start)
        print(name, *(f"{way}: {seconds:.3f}" for way, seconds in least.items()), sep="   ", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
