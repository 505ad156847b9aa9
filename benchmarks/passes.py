"""How many passes Algorithm 1 takes, plain and quick (inexact, without vanished rows, with leaps of c).

    python benchmarks/passes.py [number of problems]

The problems are those of `benchmarks/starts.py`; both run until A stands still at 1e-6.
"""

import sys
import time

import numpy as np
from starts import random_problem

from mmtfl.engines.threads import Threads, one_blas_thread
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Squared
from mmtfl.objective.penalties import RowPenalty, make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.algorithm1 import run_passes
from mmtfl.solvers.path import alpha_max

MEMBERS = ((2, 1), (1, 1), (1, 2), (1.5, 1))


def measure(problem: Problem, penalty: RowPenalty, *, accelerate: bool) -> tuple[int, float, float]:
    """Passes, seconds and the objective reached."""
    start = time.perf_counter()
    history = run_passes(problem, penalty, Threads(), max_iter=10_000, tol=1e-6, accelerate=accelerate)[2]
    return len(history), time.perf_counter() - start, float(history[-1])


def main(n_problems: int) -> None:
    """Print the table."""
    print(f"{n_problems} problems, totals\n")
    print("| member | passes, plain | quick | seconds, plain | quick | objective, quick against plain, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    with one_blas_thread():
        for member in MEMBERS:
            rows = []
            for seed in range(n_problems):
                tasks, share = random_problem(seed)
                problem = Problem(Design(tasks), Squared())
                penalty = make_penalty(*member, share * alpha_max(problem, make_penalty(2, 2, 1.0)))
                rows.append([measure(problem, penalty, accelerate=quick) for quick in (False, True)])
            values = np.array(rows)
            passes, seconds = values[:, :, 0].sum(axis=0), values[:, :, 1].sum(axis=0)
            excess = 100.0 * (values[:, 1, 2] / values[:, 0, 2] - 1.0)
            print(
                f"| {member} | {passes[0]:.0f} | {passes[1]:.0f} | {seconds[0]:.1f} | {seconds[1]:.1f} | "
                f"mean {excess.mean():+.3f}, worst {excess.max():+.3f} |"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
