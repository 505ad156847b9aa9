"""How many passes Algorithm 1 takes, plain and quick (inexact, without vanished rows, with leaps of c).

    python benchmarks/passes.py [number of problems]

The problems are those of `benchmarks/starts.py`; both run until A stands still at 1e-6.
"""

import sys
import time

import numpy as np
from starts import random_problem

from mmtfl.engine.threads import Threads
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Squared
from mmtfl.objective.objective import Objective
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers.alternating import run_passes
from mmtfl.solvers.solve import one_blas_thread

MEMBERS = ((2, 1), (1, 1), (1, 2), (1.5, 1))


def measure(objective: Objective, *, accelerate: bool) -> tuple[int, float, float]:
    """Passes, seconds and the objective reached."""
    start = time.perf_counter()
    history = run_passes(objective, Threads(), max_iter=10_000, tol=1e-6, accelerate=accelerate)[2]
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
                design = Design(tasks)
                convex = Objective(design, Squared(), make_penalty(2, 2, 1.0))
                alpha = share * float(convex.penalty.dual_norm(convex.null_gradient).max())
                objective = Objective(design, Squared(), make_penalty(*member, alpha))
                rows.append([measure(objective, accelerate=quick) for quick in (False, True)])
            values = np.array(rows)
            passes, seconds = values[:, :, 0].sum(axis=0), values[:, :, 1].sum(axis=0)
            excess = 100.0 * (values[:, 1, 2] / values[:, 0, 2] - 1.0)
            print(
                f"| {member} | {passes[0]:.0f} | {passes[1]:.0f} | {seconds[0]:.1f} | {seconds[1]:.1f} | "
                f"mean {excess.mean():+.3f}, worst {excess.max():+.3f} |"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 24)
