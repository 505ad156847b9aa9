"""The problems of the comparison, by name and by size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mmtfl_lab.bench.costs import MODELS
from mmtfl_lab.bench.judged_problems import (
    PAIRS,
    AdditiveProblem,
    Case,
    Data,
    Problem,
    RaggedTasks,
    largest_alpha,
    make_ragged,
    make_shared,
    make_sparse,
)

COMPARED = ("ragged", "wide", "tall", "shared", "path", "logistic", "sparse", "concave", "additive")
EXPERIMENTS = ("cv", "searches", "predict", "memory", "growth", "cold")
PROBLEMS = (*COMPARED, *EXPERIMENTS)


@dataclass(frozen=True)
class Sizes:
    """How large the made problems are; the fields are the arguments of their makers.

    Attributes
    ----------
    ragged, wide, tall, additive : dict
        Arguments of `make_ragged`: many features, few features and many rows, and those of additive models.
    shared, sparse : dict
        Arguments of `make_shared` and `make_sparse`.
    path : int
        Strengths of the path.
    search : dict
        ``n_samples`` per task, number of ``alphas``, and ``every`` how many of them a cold fit is timed.
    searches, predict, memory : dict
        Arguments of the functions of these names in `mmtfl_lab.bench.costs`.
    growth : dict
        For each of n, d and T the values tried, ``base`` for the other two, the ``shares`` of alpha_max that
        make more and more rows active, and the ``tasks`` of the last comparison.
    cold : tuple of str
        Models whose first fit is timed, among those of `mmtfl_lab.bench.costs.MODELS`.
    """

    ragged: dict[str, Any]
    wide: dict[str, Any]
    tall: dict[str, Any]
    shared: dict[str, Any]
    sparse: dict[str, Any]
    additive: dict[str, Any]
    path: int
    search: dict[str, Any] = field(default_factory=dict)
    searches: dict[str, Any] = field(default_factory=dict)
    predict: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    growth: dict[str, Any] = field(default_factory=dict)
    cold: tuple[str, ...] = ()


FULL = Sizes(
    ragged={"n_tasks": 20, "least": 100, "most": 300, "n_features": 2000, "n_true": 30},
    wide={"n_tasks": 10, "least": 60, "most": 60, "n_features": 20_000, "n_true": 30},
    tall={"n_tasks": 50, "least": 2000, "most": 2000, "n_features": 50, "n_true": 10},
    shared={"n_rows": 500, "n_features": 5000, "n_tasks": 20, "n_true": 30},
    sparse={"n_tasks": 20, "n_rows": 500, "n_features": 50_000, "n_true": 30, "density": 0.005},
    additive={"n_tasks": 10, "least": 100, "most": 100, "n_features": 500, "n_true": 30},
    path=50,
    search={"n_samples": 60, "alphas": 100, "every": 10},
    searches={"n_samples": 60, "alphas": 100},
    predict={"n_rows": 1_000_000, "n_features": 100, "n_tasks": 20},
    memory={"n_rows": 2000, "n_features": 1_000_000, "n_tasks": 10, "n_entries": 400_000},
    growth={
        "base": {"n": 100, "d": 1000, "T": 20},
        "n": (50, 100, 200, 400, 800),
        "d": (250, 500, 1000, 2000, 4000),
        "T": (5, 10, 20, 40, 80),
        "shares": (0.5, 0.3, 0.2, 0.1, 0.07, 0.05, 0.035),
        "tasks": (200, 2000),
        "each": {"n": 50, "d": 500},
    },
    cold=tuple(MODELS),
)
QUICK = Sizes(
    ragged={"n_tasks": 10, "least": 50, "most": 150, "n_features": 500, "n_true": 15},
    wide={"n_tasks": 5, "least": 40, "most": 40, "n_features": 2000, "n_true": 10},
    tall={"n_tasks": 10, "least": 300, "most": 300, "n_features": 20, "n_true": 5},
    shared={"n_rows": 200, "n_features": 1000, "n_tasks": 10, "n_true": 15},
    sparse={"n_tasks": 5, "n_rows": 100, "n_features": 2000, "n_true": 10, "density": 0.01},
    additive={"n_tasks": 10, "least": 100, "most": 100, "n_features": 60, "n_true": 15},
    path=15,
    search={"n_samples": 40, "alphas": 20, "every": 10},
    searches={"n_samples": 30, "alphas": 10},
    predict={"n_rows": 20_000, "n_features": 50, "n_tasks": 5},
    memory={"n_rows": 300, "n_features": 50_000, "n_tasks": 3, "n_entries": 20_000},
    growth={
        "base": {"n": 50, "d": 300, "T": 10},
        "n": (50, 100, 200),
        "d": (150, 300, 600),
        "T": (5, 10, 20),
        "shares": (0.3, 0.1, 0.05),
        "tasks": (20, 200),
        "each": {"n": 50, "d": 100},
    },
    cold=("squared (2,2)",),
)


def make_cases(names: Sequence[str], sizes: Sizes) -> Iterator[Case]:
    """The cases of the named problems, one after another; data is made when its first case is asked for."""
    if "ragged" in names:
        yield from _points("ragged", make_ragged(**sizes.ragged), (0.3, 0.1, 0.05))
    if "wide" in names:
        yield from _points("wide", make_ragged(**sizes.wide), (0.3, 0.1))
    if "tall" in names:
        yield from _points("tall", make_ragged(**sizes.tall), (0.1, 0.01))
    if "shared" in names or "path" in names:
        shared = make_shared(**sizes.shared)
        if "shared" in names:
            yield from _points("shared", shared, (0.1, 0.02))
        if "path" in names:
            yield _path(shared, sizes.path)
    if "logistic" in names:
        yield from _points("logistic", make_ragged(**sizes.ragged, loss="logistic"), (0.3, 0.1))
    if "sparse" in names:
        yield from _points("sparse", make_sparse(**sizes.sparse), (0.3, 0.1))
    if "concave" in names:
        ragged = make_ragged(**sizes.ragged)
        for p, k in ((2, 1), (1, 1), (1, 2)):
            yield from _points("concave", ragged, (0.1,), p=p, k=k)
    if "additive" in names:
        yield from _additive(replace(make_ragged(**sizes.additive), fit_intercept=True), (0.3, 0.1))


def _points(name: str, data: Data, shares: Sequence[float], *, p: float = 2, k: float = 2) -> Iterator[Case]:
    top = largest_alpha(data)
    for share in shares:
        key = f"{name} {share:g}" if p == k == 2 else f"{name} ({p},{k})"
        title = f"{'ragged' if name == 'concave' else name} ({p},{k}), {share:g} of alpha_max; {data.shape}"
        yield Case(key, title, Problem(data, p, k, np.array([share]), top))


def _path(data: Data, length: int, least: float = 0.02) -> Case:
    title = f"path of {length} from alpha_max to {least:g} of it, (2,2); {data.shape}"
    return Case("path", title, Problem(data, 2, 2, np.geomspace(1.0, least, length), largest_alpha(data)))


def _additive(data: RaggedTasks, shares: Sequence[float]) -> Iterator[Case]:
    for pair in PAIRS:
        for share in shares:
            title = f"additive, {pair.name}, {share:g} of the critical strengths; {data.shape}"
            yield Case(f"additive {pair.name} {share:g}", title, AdditiveProblem(data, pair, share))
