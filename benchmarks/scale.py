"""What it costs to leave one process: workers of Dask, files instead of memory; and what that makes of more.

    python benchmarks/scale.py [--quick]

Prints the tables of docs/scaling.md. Workers are processes of this machine with one thread each. `--quick`
takes a tenth of the rows, to see that it runs.
"""

import argparse
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from distributed import Client, LocalCluster

from mmtfl import DaskEngine, Tasks
from mmtfl.engines.threads import Threads
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Logistic, Squared
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers import solve
from mmtfl.solvers.placed import OpenTasks, resident_bytes

MEMBER = (2, 1)
TOL = 1e-5
N_PASSES = 8  # of the scaling table: the same work for all
PAPER_PASSES = 40
LOSSES = {"squared": (Squared(), 0.1), "logistic": (Logistic(), 0.01)}


def some_tasks(n_tasks: int, n_rows: int, d: int, loss: str, seed: int = 0) -> Tasks:
    """Tasks that share a tenth of the features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_tasks * n_rows, d))
    truth = np.zeros((n_tasks, d))
    truth[:, : max(1, d // 10)] = rng.normal(size=(n_tasks, max(1, d // 10)))
    task = np.repeat(np.arange(n_tasks), n_rows)
    y = np.einsum("ij,ij->i", X, truth[task]) + rng.normal(size=len(X))
    return Tasks.from_rows(X, y if loss == "squared" else np.where(y > 0, 1.0, -1.0), task)


@contextmanager
def workers(n: int) -> Iterator[Client]:
    """A cluster of n processes of this machine."""
    with (
        LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@dataclass(frozen=True)
class Fit:
    """Seconds until the first pass was over, of every later pass, how many passes, and the solution."""

    first: float
    later: float
    n_passes: int
    solution: Any


def fit(tasks: Tasks, loss: str, engine: Any, *, max_iter: int = 1000) -> Fit:
    """A second fit: compiled code and imports are there by then."""
    formula, alpha = LOSSES[loss]
    penalty = make_penalty(*MEMBER, alpha)
    solve(Problem(Design(tasks), formula), penalty, solver="alternating", engine=engine, max_iter=2, tol=1e-5)
    passes: list[float] = []
    start = time.perf_counter()
    found = solve(
        Problem(Design(tasks), formula), penalty, solver="alternating", engine=engine,
        report=lambda *_: passes.append(time.perf_counter()), max_iter=max_iter, tol=TOL,
    )  # fmt: skip
    later = (passes[-1] - passes[0]) / max(1, len(passes) - 1)
    return Fit(passes[0] - start, later, len(passes), found)


def overhead(n_tasks: int) -> float:
    """Passes over next to nothing: what is left is the way there and back, in seconds with two workers."""
    print("\n## A pass over next to nothing\n")
    print(f"{n_tasks} tasks of 8 rows, by the number of features.\n")
    print("| features | here, ms | 1 worker, ms | 2 workers, ms | sent, kB | received, kB |")
    print("| --- | --- | --- | --- | --- | --- |")
    rows = {}
    for d in (10, 100, 1000):
        tasks = some_tasks(n_tasks, 8, d, "squared")
        rows[d] = [1e3 * fit(tasks, "squared", Threads()).later]
    for n in (1, 2):
        with workers(n) as client:
            for d in rows:
                engine = DaskEngine(client)
                tasks = some_tasks(n_tasks, 8, d, "squared")
                rows[d].append(1e3 * fit(tasks, "squared", engine).later)
                if n == 2:
                    sent, received = _bytes_per_pass(tasks, engine)
                    rows[d] += [sent, received]
    for d, row in rows.items():
        print(f"| {d} | {row[0]:.1f} | {row[1]:.0f} | {row[2]:.0f} | {row[3]:.1f} | {row[4]:.1f} |")
    return (rows[100][2] - rows[100][0] / 2) / 1e3


def _bytes_per_pass(tasks: Tasks, engine: DaskEngine) -> tuple[float, float]:
    """Bytes out and back at the first passes, where all features are there: what two passes add to one."""
    formula, alpha = LOSSES["squared"]
    penalty = make_penalty(*MEMBER, alpha)
    totals = []
    for n_passes in (1, 2):
        before = engine.bytes_sent, engine.bytes_received
        problem = Problem(Design(tasks), formula)
        solve(problem, penalty, solver="alternating", engine=engine, tol=1e-12, max_iter=n_passes)
        totals.append((engine.bytes_sent - before[0], engine.bytes_received - before[1]))
    return tuple((two - one) / 1e3 for one, two in zip(*totals, strict=True))  # type: ignore[return-value]


def scaling(n_tasks: int, n_rows: int, d: int) -> None:
    """The same work by more workers, and more work by more workers."""
    print("\n## More workers\n")
    print(
        f"{n_tasks} tasks of {n_rows} rows and {d} features; logistic loss, (p, k) = {MEMBER}, "
        f"{N_PASSES} passes."
    )
    print(
        "Strong: the same tasks; weak: as many tasks per worker. The first pass includes sending the data.\n"
    )
    print("| | tasks | first pass, s | a later pass, s | against 1 worker |")
    print("| --- | --- | --- | --- | --- |")
    tasks = some_tasks(n_tasks, n_rows, d, "logistic")
    half = some_tasks(n_tasks // 2, n_rows, d, "logistic")
    here = fit(tasks, "logistic", Threads(), max_iter=N_PASSES)
    print(f"| this process | {n_tasks} | {here.first:.2f} | {here.later:.3f} | |")
    times: dict[tuple[str, int], float] = {}
    for n in (1, 2):
        with workers(n) as client:
            for kind, data in (("strong", tasks), ("weak", tasks if n == 2 else half)):
                there = fit(data, "logistic", DaskEngine(client), max_iter=N_PASSES)
                if data is tasks:
                    assert np.array_equal(there.solution.A, here.solution.A), "the engine changed the answer"
                times[kind, n] = there.later
                ratio = times[kind, 1] / times[kind, n]
                note = (
                    "" if n == 1 else (f"{ratio:.2f} times as fast" if kind == "strong" else f"{ratio:.0%}")
                )
                print(
                    f"| {n} worker{'' if n == 1 else 's'}, {kind} | {data.n_tasks} | {there.first:.2f} | "
                    f"{there.later:.3f} | {note} |"
                )


def out_of_core(n_tasks: int, n_rows: int, d: int) -> tuple[float, float]:
    """Files against memory; bytes read per second, and seconds of a pass per task."""
    print("\n## Files instead of memory\n")
    n_bytes = 8 * n_tasks * n_rows * d
    print(
        f"{n_tasks} tasks of {n_rows} rows and {d} features: {n_bytes / 1e6:.0f} MB as numbers. To read is to"
    )
    print("have the data ready for the first pass.\n")
    print("| | read, s | passes | passes, s | held, MB |")
    print("| --- | --- | --- | --- | --- |")
    rates: tuple[float, float] = (0.0, 0.0)
    for loss in LOSSES:
        formula, alpha = LOSSES[loss]
        tasks = some_tasks(n_tasks, n_rows, d, loss)
        penalty = make_penalty(*MEMBER, alpha)
        with tempfile.TemporaryDirectory() as folder:
            _write(tasks, Path(folder))
            names = [f"x{j}" for j in range(d)]
            for limit in (None, "small"):
                stored = Tasks.from_parquet(folder, task="task", target="y", features=names)
                if limit is not None:
                    if loss == "squared":
                        continue
                    held = stored.bytes_held(compress=False)
                    limit_bytes = int(resident_bytes() + 1e8 + 0.4 * held.sum() / 0.6)
                    stored = replace(stored, memory_limit=limit_bytes)
                start = time.perf_counter()
                opened = OpenTasks(stored, formula, fit_intercept=True)
                read = time.perf_counter() - start
                start, passes = time.perf_counter(), []
                solve(
                    opened.problem(), penalty, tol=TOL,
                    report=lambda *_, p=passes: p.append(time.perf_counter()),
                )  # fmt: skip
                seconds = passes[-1] - start
                held_mb = 8 * d * int(stored.rows_held(compress=loss == "squared").sum()) / 1e6
                if limit is not None:
                    held_mb *= 0.4
                name = f"{loss}, files" + ("" if limit is None else ", 40 % of the memory")
                print(f"| {name} | {read:.2f} | {len(passes)} | {seconds:.2f} | {held_mb:.1f} |")
                if loss == "squared":
                    rates = n_bytes / read, seconds / len(passes) / n_tasks
        here = fit(tasks, loss, Threads())
        seconds = here.first + (here.n_passes - 1) * here.later
        print(f"| {loss}, memory | | {here.n_passes} | {seconds:.2f} | {n_bytes / 1e6:.1f} |")
    return rates


def _write(tasks: Tasks, folder: Path) -> None:
    for view in tasks:
        place = folder / f"task={view.label}"
        place.mkdir()
        columns = {f"x{j}": view.X[:, j] for j in range(view.X.shape[1])}
        parquet.write_table(
            pa.table({**columns, "y": view.y}),
            place / "rows.parquet",
            row_group_size=10_000,
            compression=None,
        )


def on_paper(per_byte: float, per_task: float, way: float, d: int) -> None:
    """What the measured costs make of more tasks and more data; docs/scaling.md has the model."""
    print("\n## On paper\n")
    print(
        f"r = {per_byte / 1e6:.0f} MB/s read by a worker, c = {1e6 * per_task:.0f} us per task and pass "
        f"(squared, {d} features), o = {1e3 * way:.0f} ms per pass for the way, {PAPER_PASSES} passes.\n"
    )
    print(f"| data | workers | read, s | a pass, s | {PAPER_PASSES} passes, s | held by each, GB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, n_tasks, n_bytes in (
        ("10 000 tasks of 1000 rows", 10_000, 8e3 * 10_000 * d),
        ("50 GB in 1000 tasks", 1000, 50e9),
    ):
        for n in (1, 8, 32):
            one = n_tasks * per_task / n + way
            held = 3 * 8 * n_tasks / n * d**2 / 1e9
            print(
                f"| {name} | {n} | {n_bytes / per_byte / n:.0f} | {one:.2f} | {PAPER_PASSES * one:.0f} | "
                f"{held:.2f} |"
            )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    share = 10 if parser.parse_args().quick else 1
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} at the start.")
    way = overhead(64)
    scaling(64, 4000 // share, 100)
    d = 100
    per_byte, per_task = out_of_core(40, 20_000 // share, d)
    on_paper(per_byte, per_task, way, d)


if __name__ == "__main__":
    main()
