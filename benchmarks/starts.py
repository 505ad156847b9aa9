"""What each start of the concave members is worth, against Algorithm 1 run to the end from c = 1.

    python benchmarks/starts.py [number of problems]

Every problem is solved by row descent from each start; the table has the excess of the objective over that
of `solver="alternating"` (Algorithm 1 to the end, finished by rows), in per cent.
"""

import sys

import numpy as np

from mmtfl import Tasks
from mmtfl.engines.threads import Threads, one_blas_thread
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Squared
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.algorithm1 import run_algorithm1
from mmtfl.solvers.path import alpha_max
from mmtfl.solvers.row_descent import RowDescent, best_of_starts, convex_start, rising_start

MEMBERS = ((2, 1), (1, 1), (1, 2))
OPTIONS = {"max_iter": 1000, "tol": 1e-7}


def random_problem(seed: int) -> tuple[Tasks, float]:
    """Tasks like D1 (even seeds: a feature is of all tasks or none) or D2 (odd: of some), and a share."""
    rng = np.random.default_rng(seed)
    n_tasks, n_features, least = (int(rng.integers(*limits)) for limits in ((3, 12), (20, 80), (10, 40)))
    sizes = rng.integers(least, 3 * least, size=n_tasks)
    task = np.repeat(np.arange(n_tasks), sizes)
    X = rng.normal(size=(len(task), n_features))
    used = np.zeros((n_features, n_tasks), dtype=bool)
    if seed % 2 == 0:
        used[: int(0.6 * n_features)] = True
    else:
        used[: n_features // 10] = True
        used |= rng.random(used.shape) < 0.25
    A = np.where(used, rng.normal(size=used.shape), 0.0)
    y = np.einsum("ij,ij->i", X, A.T[task]) + rng.normal(size=len(task))
    return Tasks.from_rows(X, y, task), float(rng.choice([0.3, 0.1, 0.03]))


def objectives(tasks: Tasks, share: float, member: tuple[float, float]) -> dict[str, float]:
    """Objective reached from every start, at `share` of the largest alpha of (2, 2)."""
    problem = Problem(Design(tasks), Squared())
    penalty = make_penalty(*member, share * alpha_max(problem, make_penalty(2, 2, 1.0)))
    descent = RowDescent(problem)
    descent.working_set.add(np.arange(tasks.n_features))
    starts = {
        "zero": (None, None),
        "convex (2,2) solution": convex_start(descent, penalty),
        "one rough pass of Algorithm 1": descent.rough_passes(penalty, 1),
        "twenty rough passes of Algorithm 1": descent.rough_passes(penalty, 20),
        "rising alpha": rising_start(descent, penalty),
    }
    reached = {name: descent.solve(penalty, *start, **OPTIONS).objective for name, start in starts.items()}
    best = best_of_starts(problem, penalty, **OPTIONS)
    reached["auto: best of convex, twenty passes, rising"] = best.objective
    reached["Algorithm 1"] = run_algorithm1(problem, penalty, Threads(), **OPTIONS).objective
    return reached


def main(n_problems: int) -> None:
    """Print the table."""
    excess: dict[str, list[float]] = {}
    with one_blas_thread():
        for seed in range(n_problems):
            tasks, share = random_problem(seed)
            for member in MEMBERS:
                reached = objectives(tasks, share, member)
                reference = reached.pop("Algorithm 1")
                for name, value in reached.items():
                    excess.setdefault(name, []).append(100.0 * (value / reference - 1.0))
    print(f"{n_problems} problems x {len(MEMBERS)} members, objective against Algorithm 1 in per cent\n")
    print("| start | mean | worst | best | worse by more than 0.3 |\n| --- | --- | --- | --- | --- |")
    for name, values in excess.items():
        v = np.array(values)
        print(
            f"| {name} | {v.mean():+.2f} | {v.max():+.2f} | {v.min():+.2f} | {(v > 0.3).sum()} of {v.size} |"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 67)
