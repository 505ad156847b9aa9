"""What a search in stages costs and misses, against the full search: forty-eight problems, one thread.

    python benchmarks/staged_search.py [N_PROBLEMS [FIRST_SEED]]

Every problem is searched with the default members, poolings and folds in both ways. Printed are both times,
both choices, and by how much the staged choice scores less, in units of the standard error over folds of the
best score: as scored by each search itself, and as both are scored in the full table.
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
from __future__ import annotations

import os

for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import sys
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

import mmtfl
from mmtfl.datasets import make_d1, make_d2, make_tasks

ROWS, FEATURES, TASKS = (30, 80), (20, 60), (4, 12)
NOISES, INFORMATIVE = (0.5, 3.0), (3, 12)
SCATTER = (0.1, 0.5)  # of the tasks' values about common ones, in units of these


def problems(first: int = 0) -> Iterator[tuple[str, Any]]:
    """Problems of the paper's kinds, of tasks that agree, and others that differ in size, noise and truth."""
    for seed in range(first, first + 4):
        yield f"D1, 40 rows, seed {seed}", make_d1(n_samples=40, random_state=seed)
        yield f"D2, 40 rows, seed {seed}", make_d2(n_samples=40, random_state=seed)
    for seed, (rows, tasks, scatter) in enumerate(product(ROWS, TASKS, SCATTER), start=first):
        words = f"{tasks} tasks that agree up to {scatter:g}, {rows} rows, 20 features, 12 of them used"
        yield words, agreeing(make_tasks(tasks, rows, 20, n_informative=12, random_state=seed), scatter, seed)
    sizes = product(ROWS, FEATURES, TASKS, NOISES, INFORMATIVE)
    for seed, (rows, d, tasks, noise, kept) in enumerate(sizes, start=first):
        words = f"{tasks} tasks, {rows} rows, {d} features, {kept} of them used, noise {noise:g}"
        yield words, make_tasks(tasks, rows, d, n_informative=kept, noise=noise, random_state=seed)


def agreeing(data: Any, scatter: float, seed: int) -> Any:
    """The same rows with targets whose coefficients scatter about common ones."""
    rng = np.random.default_rng(seed)
    n_tasks, d = data.coef.shape
    used = data.support.any(axis=0)
    coef = used * (rng.normal(size=d) + scatter * rng.normal(size=(n_tasks, d)))
    at = np.unique(data.task, return_inverse=True)[1]
    data.y = np.einsum("ij,ij->i", data.X, coef[at]) + rng.normal(scale=2.0, size=len(at))
    return data


def searched(data: Any, search: str) -> tuple[Any, float]:
    """A fitted search and the processor time that it took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mmtfl.MMTFLRegressorCV(search=search)
        start = time.process_time()
        model.fit(data.X, data.y, task=data.task)
    return model, time.process_time() - start


def shortfalls(staged: Any, full: Any) -> tuple[float, float]:
    """How much less the staged choice scores, by its own search and in the full table, in standard errors."""
    table = full.cv_results_
    splits = np.array([table[name] for name in table if name.startswith("split")])
    best = int(np.argmax(table["mean_test_score"]))
    chosen = {
        "p": staged.best_p_,
        "k": staged.best_k_,
        "pooling": staged.best_pooling_,
        "alpha": staged.alpha_,
    }
    here = np.all([table[name] == value for name, value in chosen.items()], axis=0)
    error = splits[:, best].std(ddof=1) / np.sqrt(len(splits))
    scores = staged.best_score_, table["mean_test_score"][here].item()
    own, in_table = (float(full.best_score_ - score) / error for score in scores)
    return own, in_table


def chosen(model: Any) -> str:
    """The choice in words; the strength as its place in the grid is told apart by six digits."""
    return f"{member_of(model)} {model.alpha_:.6g}"


def member_of(model: Any) -> str:
    """The (p, k) and the pooling."""
    return f"({model.best_p_:g}, {model.best_k_:g}, {model.best_pooling_:g})"


def main() -> int:
    """Search, compare and tell."""
    n_problems = int(sys.argv[1]) if len(sys.argv) > 1 else 48
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    searched(make_tasks(2, 20, 12, random_state=0), "full")  # compile
    rows = []
    for n, (words, data) in enumerate(problems(first)):
        if n == n_problems:
            break
        (staged, quick), (full, slow) = (searched(data, search) for search in ("staged", "full"))
        member = member_of(staged) == member_of(full)
        own, in_table = shortfalls(staged, full)
        rows.append((member, chosen(staged) == chosen(full), own, in_table, quick, slow))
        n_tried = len(staged.cv_results_["alpha"])
        print(
            f"{words}: {chosen(staged)} in {quick:.2f} s ({n_tried} candidates), "
            f"{chosen(full)} in {slow:.2f} s, short by {own:.3f} s.e. ({in_table:.3f} in the full table)",
            flush=True,
        )
    member, same, own, in_table, quick, slow = (np.array(column) for column in zip(*rows, strict=True))
    print(
        f"{len(rows)} problems: same member {member.mean():.0%}, same member and strength {same.mean():.0%}, "
        f"largest shortfall {own.max():.3f} s.e. ({in_table.max():.3f} in the full table), "
        f"{slow.sum() / quick.sum():.1f} times as quick"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
