"""Processor time of fits with many tasks of five rows and twenty columns.

    python benchmarks/many_tasks.py [number of tasks]

Prints the table of docs/reliability.md: seconds of each model on three kinds of made tasks, at three shares
of its largest strength ((2,2)'s for the members).
"""

import sys
import time
import warnings
from typing import Any

import numpy as np

import mmtfl

N_ROWS, N_FEATURES = 5, 20
SHARES = (0.3, 0.1, 0.03)
MEMBERS = ((2, 2), (2, 1), (1, 1), (1, 2))


def made(kind: str, n_tasks: int, *, classes: bool) -> dict[str, Any]:
    """Five features with effects of each task's own, nearly common ones, or a fifth of all entries."""
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(n_tasks), N_ROWS)
    X = rng.normal(size=(len(task), N_FEATURES))
    B = np.zeros((n_tasks, N_FEATURES))
    if kind == "own":
        B[:, :5] = rng.normal(size=(n_tasks, 5))
    elif kind == "common":
        B[:, :5] = rng.normal(size=5) + 0.3 * rng.normal(size=(n_tasks, 5))
    else:
        B[:] = (rng.random(B.shape) < 0.2) * rng.normal(size=B.shape)
    noise = 0.1 if kind == "common" else 1.0
    y = np.einsum("ij,ij->i", X, B[task]) + noise * rng.normal(size=len(task))
    if classes:
        y = y.reshape(n_tasks, N_ROWS) > 0.0
        one_class = y.all(axis=1) | ~y.any(axis=1)
        y[one_class, 0] = ~y[one_class, 0]
        y = y.ravel().astype(int)
    return {"X": X, "y": y, "task": task}


def models(data: dict[str, Any], *, classes: bool) -> dict[str, Any]:
    """A function of the share that makes each model."""
    loss = {"loss": "logistic"} if classes else {}
    largest = mmtfl.path(data["X"], data["y"], data["task"], p=2, k=2, alphas=1, **loss).alphas[0]
    kind = mmtfl.MMTFLClassifier if classes else mmtfl.MMTFLRegressor
    name = "logistic" if classes else "squared"
    found: dict[str, Any] = {
        f"{name} ({p},{k})": lambda share, p=p, k=k: kind(p=p, k=k, alpha=share * largest) for p, k in MEMBERS
    }
    if not classes:
        found["Algorithm 1 (2,1)"] = lambda share: kind(p=2, k=1, alpha=share * largest, solver="alternating")
        found["Algorithm 1 (1,1)"] = lambda share: kind(p=1, k=1, alpha=share * largest, solver="alternating")
        y = data["y"].reshape(-1, N_ROWS)
        slopes = np.einsum("tij,ti->tj", data["X"].reshape(len(y), N_ROWS, -1), y - y.mean(axis=1)[:, None])
        slopes = np.abs(slopes) / N_ROWS
        found["dirty"] = lambda share: mmtfl.DirtyRegressor(
            alpha_shared=share * slopes.sum(axis=0).max(), alpha_specific=share * slopes.max()
        )
    return found


def main() -> None:
    """Print one line for each model and kind of tasks, as soon as it is known."""
    n_tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print(f"| {n_tasks:,} tasks | effects | " + " | ".join(f"{share:g}" for share in SHARES) + " |")
    for classes in (False, True):
        for effects in ("own", "common", "some"):
            data = made(effects, n_tasks, classes=classes)
            for name, make in models(data, classes=classes).items():
                seconds = []
                for share in SHARES:
                    before = time.process_time()
                    make(share).fit(**data)
                    seconds.append(time.process_time() - before)
                print(f"| {name} | {effects} | " + " | ".join(f"{s:.1f}" for s in seconds) + " |", flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings(action="ignore"):
        main()
