"""Time the additive models against a conic solver, at shares of their critical strengths.

T = 10 tasks of 100 rows, d = 500. Columns are normal with correlation 0.5 between neighbours, 30 rows of A
are N(0, 1), and the noise has a third of the signal's standard deviation. A time is the least of several runs
of `solve_additive`, at the loosest tolerance of a ladder that brings the objective within 1e-6 of a reference
whose own duality gap is below 1e-9, relative.

    OPENBLAS_NUM_THREADS=1 python benchmarks/additive.py [--conic] [--loss logistic]

`--conic` runs cvxpy with Clarabel too, which takes a while.
"""

import argparse
import time

import numpy as np

from mmtfl.data import Tasks
from mmtfl.objective.additive import AdditiveObjective, ColumnNorm, EntryNorm, RowNorm, TraceNorm
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Logistic, Squared
from mmtfl.solvers.additive import solve_additive

PAIRS = {
    "l2,1 rows + l1 entries": (RowNorm(1.0), EntryNorm(1.0)),
    "dirty: l1,inf rows + l1 entries": (RowNorm(1.0, np.inf), EntryNorm(1.0)),
    "rMTFL: l2,1 rows + l2,1 columns": (RowNorm(1.0), ColumnNorm(1.0)),
    "low rank: trace + l2,1 columns": (TraceNorm(1.0), ColumnNorm(1.0)),
}
LOSSES = {"squared": Squared(), "logistic": Logistic()}
LADDER = 10.0 ** -np.arange(2, 11)
ACCURACY = 1e-6


def make_problem(loss: str, n_tasks: int = 10, n_rows: int = 100, d: int = 500, seed: int = 0) -> Tasks:
    """Tasks with their own rows that share 30 features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_tasks * n_rows, d))
    for j in range(1, d):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    A = np.zeros((d, n_tasks))
    A[rng.choice(d, 30, replace=False)] = rng.normal(size=(30, n_tasks))
    task = np.repeat(np.arange(n_tasks), n_rows)
    z = np.einsum("ij,ji->i", X, A[:, task])
    z += rng.normal(size=len(z)) * z.std() / 3.0
    return Tasks.from_rows(X, z if loss == "squared" else np.sign(z), task)


def seconds(call, repeats: int) -> float:
    """The least time of some runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def loosest(run, reference: float) -> float:
    """The loosest tolerance that reaches the accuracy."""
    return next(tol for tol in LADDER if run(tol).objective <= reference + ACCURACY * abs(reference))


def conic(tasks: Tasks, loss: str, shared, specific) -> tuple[float, float]:
    """Objective and seconds of cvxpy with Clarabel, its modelling included."""
    import cvxpy as cp

    def expression(norm, A):
        if isinstance(norm, EntryNorm):
            return norm.alpha * cp.sum(cp.abs(A))
        axis = 0 if isinstance(norm, ColumnNorm) else 1
        return norm.alpha * cp.sum(cp.norm(A, getattr(norm, "p", 2), axis=axis))

    start = time.perf_counter()
    shape = tasks.n_features, tasks.n_tasks
    P, Q, b = cp.Variable(shape), cp.Variable(shape), cp.Variable(tasks.n_tasks)
    total = expression(shared, P) + expression(specific, Q)
    for t, (X, y) in enumerate(tasks.to_list()):
        z = X @ (P[:, t] + Q[:, t]) + b[t]
        rows = 0.5 * cp.sum_squares(y - z) if loss == "squared" else cp.sum(cp.logistic(-cp.multiply(y, z)))
        total += rows / (tasks.n_samples / tasks.n_tasks)
    problem = cp.Problem(cp.Minimize(total))
    problem.solve(solver=cp.CLARABEL)
    return problem.value, time.perf_counter() - start


def main() -> None:
    """Print a line per pair and share."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--conic", action="store_true")
    parser.add_argument("--loss", choices=sorted(LOSSES), default="squared")
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    tasks, loss = make_problem(options.loss), LOSSES[options.loss]
    for name, (shared, specific) in PAIRS.items():
        tops = AdditiveObjective(Design(tasks), loss, shared, specific).critical_strengths()
        for share in (0.3, 0.1):
            pair = shared.at(share * tops[0]), specific.at(share * tops[1])

            def run(tol, pair=pair):
                return solve_additive(tasks, loss, *pair, tol=tol)

            best = run(1e-11)
            assert best.dual_gap <= 1e-9 * best.objective, best.dual_gap / best.objective
            tol = loosest(run, best.objective)
            spent = seconds(lambda run=run, tol=tol: run(tol), options.repeats)
            tight = seconds(lambda run=run: run(1e-7), options.repeats)
            rows, entries = np.count_nonzero(best.shared.any(axis=1)), np.count_nonzero(best.specific)
            line = (
                f"{name:32} {share:4} {1e3 * spent:7.1f} ms (tol {tol:.0e}) {1e3 * tight:7.1f} ms (tol 1e-07)"
            )
            line += f"  {rows:3} rows of P, {entries:4} entries of Q"
            # as a semidefinite problem the trace norm would need more than 100 GB here
            if options.conic and not isinstance(shared, TraceNorm):
                value, elapsed = conic(tasks, options.loss, *pair)
                gap = value / best.objective - 1.0
                line += f"; cvxpy {elapsed:.1f} s ({elapsed / spent:.0f}x), objective {gap:+.0e} of ours"
            print(line, flush=True)


if __name__ == "__main__":
    main()
