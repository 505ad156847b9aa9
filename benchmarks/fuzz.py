"""Hostile problems by the seed: every answer must be finite, honest and quiet, or refused in words.

    python benchmarks/fuzz.py [--cases 300] [--first 0]
    python benchmarks/fuzz.py --replay SEED

A seed is a problem (few tasks, with offsets, extreme units, wild weights, equal, constant and nearly equal
columns, sparse or float32) and a model. The objective is computed again from `coef_` and `intercept_` in
extended precision, and the same data in another order, in other units or with a constant added must give the
same objective. Failures are printed with the seed that replays them; docs/reliability.md has the figures.
"""

import argparse
import math
import sys
import time
import warnings
from collections import Counter

import numpy as np
from scipy import sparse

import mmtfl

Long = np.longdouble
EPS = float(np.finfo(float).eps)
SLOW = 20.0  # seconds of processor time
MEMBERS = [(2, 2), (2, 1), (1, 1), (1, 2), (3, 0.3), (1.5, 3), (2, "log"), (math.inf, 1), (2, math.inf)]
FINITE = ("coef_", "intercept_", "objective_", "violation_", "history_", "dual_gap_")


class Problem:
    """The data of a seed."""

    def __init__(self, seed: int):
        self.rng = rng = np.random.default_rng([19, seed])
        n_tasks, n_features = int(rng.integers(1, 7)), int(rng.integers(1, 12))
        self.labels = np.repeat(np.arange(n_tasks), rng.integers(3, 25, n_tasks))
        n_rows = len(self.labels)
        self.X = rng.normal(size=(n_rows, n_features)) * (
            rng.random((n_rows, n_features)) < rng.choice([1, 0.4])
        )
        A = rng.normal(size=(n_features, n_tasks)) * (rng.random((n_features, 1)) < 0.5)
        y = np.einsum("ij,ji->i", self.X, A[:, self.labels]) + 10.0 ** rng.uniform(-3, 1) * rng.normal(
            size=n_rows
        )
        self.classify = bool(rng.random() < 0.35)
        self.kinds: list[str] = []
        for name in ("equal", "constant", "nearly equal", "offset", "units"):
            if rng.random() < 0.2:
                self.kinds.append(name)
                self._spoil(name)
        self.y = self._classes(y) if self.classify else self._numbers(y)
        self.weight = self._weights() if rng.random() < 0.3 else None
        self.storage = str(rng.choice(["C", "F", "csr", "csc", "float32"]))

    def _spoil(self, name: str) -> None:
        X, rng = self.X, self.rng
        if name == "equal":
            X[:, 0] = X[:, -1]
        elif name == "constant":
            X[:, 0] = rng.choice([0.0, 0.1, 3e5])
        elif name == "nearly equal":
            X[:, 0] = X[:, -1] * (1.0 + 1e-9 * rng.normal(size=len(X)))
        elif name == "offset":
            X += 10.0 ** rng.uniform(0, 9)
        else:
            X *= 10.0 ** rng.uniform(-120, 120)

    def _numbers(self, y: np.ndarray) -> np.ndarray:
        if self.rng.random() < 0.2:
            y = y + 10.0 ** self.rng.uniform(0, 12)
        if self.rng.random() < 0.2:
            y = y * 10.0 ** self.rng.uniform(-120, 120)
        return np.full_like(y, y[0]) if self.rng.random() < 0.05 else y

    def _classes(self, y: np.ndarray) -> np.ndarray:
        y = (y > np.median(y)).astype(float)
        first = np.flatnonzero(np.diff(self.labels, prepend=-1))
        y[first], y[first + 1] = 0.0, 1.0
        return y

    def _weights(self) -> np.ndarray:
        width = self.rng.choice([0.3, 12.0, 50.0])
        return 10.0 ** self.rng.uniform(-width, width, len(self.y))

    def stored(self, X: np.ndarray):
        """X as the seed has it stored."""
        if self.storage == "float32":
            size = float(np.abs(X).max()) or 1.0
            return (X if 1e-30 < size < 1e37 else X / size).astype(np.float32)
        change = {"C": np.ascontiguousarray, "F": np.asfortranarray}
        return (change | {"csr": sparse.csr_array, "csc": sparse.csc_array})[self.storage](X)


def make_model(problem: Problem, X):
    """A model of the seed, and its penalty on (n_features, n_tasks) parts in extended precision."""
    rng = problem.rng
    kind = "Classifier" if problem.classify else "Regressor"
    strength = 10.0 ** rng.uniform(-4, 0.3) * steepest(problem, X)
    options = {"fit_intercept": bool(rng.random() < 0.85)}
    family = str(rng.choice(["MMTFL", "MMTFL", "MMTFL", "Dirty", "Robust", "LowRank"]))
    if family != "MMTFL":
        second = "specific" if family == "Dirty" else "outlier"
        options |= {"alpha_shared": strength, f"alpha_{second}": 0.5 * strength}
        return getattr(mmtfl, family + kind)(**options)
    p, k = MEMBERS[rng.integers(len(MEMBERS))]
    solver = str(rng.choice(["auto", "alternating", "block"]))
    return getattr(mmtfl, "MMTFL" + kind)(p, k, alpha=strength, solver=solver, **options)


def steepest(problem: Problem, X) -> float:
    """The largest slope at zero, of centred targets: a strength that is neither all nor nothing."""
    dense, y = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=Long), problem.y.astype(Long)
    slope = float(np.abs((dense - dense.mean(axis=0)).T @ (y - y.mean())).max()) / len(y)
    return slope if 0.0 < slope < 1e300 else 1.0


def objective_by_hand(model, problem: Problem, X) -> tuple[float, float]:
    """The objective of the fitted coefficients, and how much of it rounding may be."""
    dense = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=Long)
    weight = np.ones(len(dense)) if problem.weight is None else problem.weight
    weight = weight.astype(Long) / (weight.astype(Long).sum() / len(model.tasks_))
    coef, intercept = model.coef_.astype(Long)[problem.labels], model.intercept_.astype(Long)[problem.labels]
    z = np.einsum("ij,ij->i", dense, coef) + intercept
    slack = 1e3 * EPS * (np.abs(dense * coef).sum(axis=1) + np.abs(intercept) + np.abs(problem.y))
    if problem.classify:
        sign = np.where(problem.y > 0, 1, -1)
        loss, rounding = (weight * np.logaddexp(Long(0), -sign * z)).sum(), (weight * slack).sum()
    else:
        apart = problem.y.astype(Long) - z
        loss = (weight * apart**2).sum() / 2
        rounding = (weight * (np.abs(apart) * slack + slack**2)).sum()
    return float(loss + penalty(model)), float(rounding)


def penalty(model) -> Long:
    """What the model's parts cost, in extended precision."""
    name = type(model).__name__
    if name.startswith("MMTFL"):
        return family_penalty(model.coef_.T.astype(Long), model.p, model.k, model.alpha)
    P = model.shared_.T.astype(Long)
    if name.startswith("Dirty"):
        Q = model.specific_.T.astype(Long)
        return model.alpha_shared * np.abs(P).max(axis=1).sum() + model.alpha_specific * np.abs(Q).sum()
    Q = model.outlier_.T.astype(Long)
    unit = np.abs(P).max() or Long(1)
    rows = np.sqrt(((P / unit) ** 2).sum(axis=1)).sum()
    trace = np.linalg.svd((P / unit).astype(float), compute_uv=False).sum()
    size = np.abs(Q).max() or Long(1)
    columns = size * np.sqrt(((Q / size) ** 2).sum(axis=0)).sum()
    return (
        model.alpha_shared * unit * (rows if name.startswith("Robust") else trace)
        + model.alpha_outlier * columns
    )


def family_penalty(A: np.ndarray, p: float, k, alpha: float) -> Long:
    """alpha sum_j ||a_j||_p^r, or its logarithmic edge."""
    largest = np.abs(A).max(axis=1)
    unit = np.where(largest > 0, largest, Long(1))
    norms = (
        largest
        if math.isinf(p)
        else unit * ((np.abs(A) / unit[:, None]) ** Long(p)).sum(axis=1) ** (1 / Long(p))
    )
    if k == "log":
        return alpha * np.log1p(norms ** Long(p) / Long(1e-2)).sum()
    r = k if math.isinf(p) else p if math.isinf(k) else p * k / (p + k)
    return alpha * (norms[norms > 0] ** Long(r)).sum()


def failures(seed: int) -> list[str]:
    """What is wrong with the answer to a seed."""
    problem = Problem(seed)
    X = problem.stored(problem.X)
    model = make_model(problem, X)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is said of the data: tasks of few rows, units
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model.fit(X, problem.y, task=problem.labels, sample_weight=problem.weight)
        except ValueError as error:  # refused, which must be said in words
            return [] if len(str(error)) > 30 else [f"odd error: {error}"]
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
    found = [f"{name} is not finite" for name in FINITE if not _is_finite(getattr(model, name))]
    if time.process_time() - began > SLOW:
        found.append("slow")
    if (np.diff(model.history_) > 1e-9 * np.abs(model.history_[:-1])).any():
        found.append("the history rises")
    if not found:
        value, rounding = objective_by_hand(model, problem, X)
        if not abs(value - model.objective_) <= 1e-7 * abs(value) + rounding + 1e-290:
            found.append(f"objective_ is {model.objective_!r}, and by hand {value!r}")
    return found


def _is_finite(value) -> bool:
    return value is None or bool(np.isfinite(np.asarray(value, dtype=float)).all())


def main() -> int:
    """Run the cases, print the failures and the figures; 1 if there is a failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--replay", type=int)
    options = parser.parse_args()
    seeds = (
        range(options.first, options.first + options.cases) if options.replay is None else [options.replay]
    )
    counts: Counter[str] = Counter()
    for seed in seeds:
        found = failures(seed)
        counts.update([kind.split(":")[0].split(" is ")[0] for kind in found] or ["good"])
        if found:
            print(f"seed {seed}: {'; '.join(found)}", flush=True)
    print(f"seeds {seeds[0]} to {seeds[-1]}: " + ", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    return int(counts["good"] < len(seeds))


if __name__ == "__main__":
    sys.exit(main())
