"""What a search in stages costs and misses, against the full search, on one thread.

    python benchmarks/staged_search.py [N_PROBLEMS [FIRST_SEED [pairs]]]

Every problem is searched with the default members, poolings and folds in both ways; with `pairs` for the two
strengths of one of seven models instead, which take turns (classes: is a target above its task's median?).
Printed are both times, both choices, and by how much the staged choice scores less, in units of the standard
error over folds of the best score: as scored by each search itself, and as both are in the full table.
"""

# ruff: noqa: E402 (the number of threads must be set before numpy is imported)
from __future__ import annotations

import os

for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

import sys
import time
import warnings
from collections.abc import Iterator
from itertools import chain, islice, product
from typing import Any

import numpy as np
from search_times import cut

import mmtfl
from mmtfl.datasets import make_d1, make_d2, make_tasks

ROWS, FEATURES, TASKS = (30, 80), (20, 60), (4, 12)
NOISES, INFORMATIVE = (0.5, 3.0), (3, 12)
SCATTER = (0.1, 0.5)  # of the tasks' values about common ones, in units of these


def paper_problems(first: int) -> Iterator[tuple[str, Any]]:
    """Eight problems of the paper's kinds."""
    for seed in range(first, first + 4):
        yield f"D1, 40 rows, seed {seed}", make_d1(n_samples=40, random_state=seed)
        yield f"D2, 40 rows, seed {seed}", make_d2(n_samples=40, random_state=seed)


def agreeing_problems(first: int) -> Iterator[tuple[str, Any]]:
    """Eight problems of tasks whose coefficients scatter about common ones."""
    for seed, (rows, tasks, scatter) in enumerate(product(ROWS, TASKS, SCATTER), start=first):
        words = f"{tasks} tasks that agree up to {scatter:g}, {rows} rows, 20 features, 12 of them used"
        yield words, agreeing(make_tasks(tasks, rows, 20, n_informative=12, random_state=seed), scatter, seed)


def simulated_problems(first: int) -> Iterator[tuple[str, Any]]:
    """Thirty-two problems that differ in size, noise and truth."""
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


def searched(model: Any, data: Any) -> float:
    """Fit a search; the processor time that it took."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model.fit(data.X, data.y, task=data.task)
    return time.process_time() - start


class Family:
    """The default search over members, poolings and strengths."""

    kinds = ("MMTFLRegressorCV",)
    problems = paper_problems, agreeing_problems, simulated_problems

    def make(self, kind: str, search: str) -> Any:
        """The search, not fitted."""
        return getattr(mmtfl, kind)(search=search)

    def choice(self, model: Any) -> dict[str, Any]:
        """Columns of ``cv_results_`` that tell the choice."""
        k = 0 if model.best_k_ == "log" else model.best_k_
        return {"p": model.best_p_, "k": k, "pooling": model.best_pooling_, "alpha": model.alpha_}


class Pairs:
    """The search over the two strengths of a model."""

    kinds = (
        *("DirtyRegressor", "RobustRegressor", "LowRankRegressor", "CappedRegressor"),
        *("DirtyClassifier", "RobustClassifier", "LowRankClassifier"),
    )
    problems = simulated_problems, paper_problems

    def make(self, kind: str, search: str) -> Any:
        """The search, not fitted."""
        return mmtfl.TwoStrengthCV(getattr(mmtfl, kind)(), search=search)

    def choice(self, model: Any) -> dict[str, Any]:
        """Columns of ``cv_results_`` that tell the choice."""
        return model.best_params_


def shortfalls(choice: dict[str, Any], staged: Any, full: Any) -> tuple[float, float]:
    """How much less the staged choice scores, by its own search and in the full table, in standard errors."""
    table = full.cv_results_
    splits = np.array([table[name] for name in table if name.startswith("split")])
    best = int(np.argmax(table["mean_test_score"]))
    here = np.all([table[name] == value for name, value in choice.items()], axis=0)
    error = splits[:, best].std(ddof=1) / np.sqrt(len(splits))
    scores = staged.best_score_, table["mean_test_score"][here].item()
    own, in_table = (float(full.best_score_ - score) / error for score in scores)
    return own, in_table


def told(choice: dict[str, Any]) -> str:
    """The choice in words; strengths as places in a grid are told apart by six digits."""
    return f"({', '.join(f'{value:.6g}' for value in choice.values())})"


def main() -> int:
    """Search, compare and tell."""
    n_problems = int(sys.argv[1]) if len(sys.argv) > 1 else None
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    way: Any = Pairs() if sys.argv[3:] == ["pairs"] else Family()
    for kind in way.kinds:  # compile
        small = make_tasks(2, 20, 12, random_state=0)
        searched(way.make(kind, "full"), cut(small) if "Classifier" in kind else small)
    rows = []
    for n, (words, data) in enumerate(islice(chain(*(part(first) for part in way.problems)), n_problems)):
        kind = way.kinds[(n + n // len(way.kinds)) % len(way.kinds)]
        data = cut(data) if "Classifier" in kind else data
        staged, full = (way.make(kind, search) for search in ("staged", "full"))
        quick, slow = (searched(model, data) for model in (staged, full))
        choice, in_full = way.choice(staged), way.choice(full)
        member = list(choice.values())[:-1] == list(in_full.values())[:-1]
        own, in_table = shortfalls(choice, staged, full)
        rows.append((member, choice == in_full, own, in_table, quick, slow))
        n_tried = np.count_nonzero(~np.isnan(staged.cv_results_["split0_test_score"]))
        print(
            f"{kind}, {words}: {told(choice)} in {quick:.2f} s ({n_tried} candidates), "
            f"{told(in_full)} in {slow:.2f} s, short by {own:.3f} s.e. ({in_table:.3f} in the full table)",
            flush=True,
        )
    member, same, own, in_table, quick, slow = (np.array(column) for column in zip(*rows, strict=True))
    print(
        f"{len(rows)} problems: same but for the last strength {member.mean():.0%}, same {same.mean():.0%}, "
        f"largest shortfall {own.max():.3f} s.e. ({in_table.max():.3f} in the full table), "
        f"{slow.sum() / quick.sum():.1f} times as quick"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
