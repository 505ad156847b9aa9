"""The whole benchmark: the named problems by the named libraries, on one thread."""

import platform
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import mmtfl
from mmtfl_lab.bench.comparison import CaseResult, Say, Trial, compare
from mmtfl_lab.bench.costs import (
    MODELS,
    Cost,
    Curve,
    cold_starts,
    growth_curves,
    import_times,
    memory,
    predict,
    search_cost,
    searches,
)
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
from mmtfl_lab.bench.libraries import LIBRARIES, NOT_RUN, Library
from mmtfl_lab.bench.speed_targets import verdicts

COMPARED = ("ragged", "wide", "tall", "shared", "path", "logistic", "sparse", "concave", "additive")
EXPERIMENTS = ("cv", "searches", "predict", "memory", "growth", "cold")
PROBLEMS = (*COMPARED, *EXPERIMENTS)

# arguments of the makers of the problems (of `path` the number of strengths), and of the functions of
# `mmtfl_lab.bench.costs` that make the experiments
Sizes = dict[str, Any]

FULL: Sizes = {
    "ragged": {"n_tasks": 20, "least": 100, "most": 300, "n_features": 2000, "n_true": 30},
    "wide": {"n_tasks": 10, "least": 60, "most": 60, "n_features": 20_000, "n_true": 30},
    "tall": {"n_tasks": 50, "least": 2000, "most": 2000, "n_features": 50, "n_true": 10},
    "shared": {"n_rows": 500, "n_features": 5000, "n_tasks": 20, "n_true": 30},
    "sparse": {"n_tasks": 20, "n_rows": 500, "n_features": 50_000, "n_true": 30, "density": 0.005},
    "additive": {"n_tasks": 10, "least": 100, "most": 100, "n_features": 500, "n_true": 30},
    "path": 50,
    "search": {"n_samples": 60, "alphas": 100, "every": 10},
    "searches": {"n_samples": 60, "alphas": 100},
    "predict": {"n_rows": 1_000_000, "n_features": 100, "n_tasks": 20},
    "memory": {"n_rows": 2000, "n_features": 1_000_000, "n_tasks": 10, "n_entries": 400_000},
    "growth": {
        "base": {"n": 100, "d": 1000, "T": 20},
        "n": (50, 100, 200, 400, 800),
        "d": (250, 500, 1000, 2000, 4000),
        "T": (5, 10, 20, 40, 80),
        "shares": (0.5, 0.3, 0.2, 0.1, 0.07, 0.05, 0.035),
        "tasks": (200, 2000),
        "each": {"n": 50, "d": 500},
    },
    "cold": tuple(MODELS),
}
QUICK: Sizes = {
    "ragged": {"n_tasks": 10, "least": 50, "most": 150, "n_features": 500, "n_true": 15},
    "wide": {"n_tasks": 5, "least": 40, "most": 40, "n_features": 2000, "n_true": 10},
    "tall": {"n_tasks": 10, "least": 300, "most": 300, "n_features": 20, "n_true": 5},
    "shared": {"n_rows": 200, "n_features": 1000, "n_tasks": 10, "n_true": 15},
    "sparse": {"n_tasks": 5, "n_rows": 100, "n_features": 2000, "n_true": 10, "density": 0.01},
    "additive": {"n_tasks": 10, "least": 100, "most": 100, "n_features": 60, "n_true": 15},
    "path": 15,
    "search": {"n_samples": 40, "alphas": 20, "every": 10},
    "searches": {"n_samples": 30, "alphas": 10},
    "predict": {"n_rows": 20_000, "n_features": 50, "n_tasks": 5},
    "memory": {"n_rows": 300, "n_features": 50_000, "n_tasks": 3, "n_entries": 20_000},
    "growth": {
        "base": {"n": 50, "d": 300, "T": 10},
        "n": (50, 100, 200),
        "d": (150, 300, 600),
        "T": (5, 10, 20),
        "shares": (0.3, 0.1, 0.05),
        "tasks": (20, 200),
        "each": {"n": 50, "d": 100},
    },
    "cold": ("squared (2,2)",),
}


_WARM_UP: Sizes = {
    "ragged": {"n_tasks": 3, "least": 10, "most": 12, "n_features": 8, "n_true": 2},
    "wide": {"n_tasks": 3, "least": 10, "most": 10, "n_features": 20, "n_true": 2},
    "tall": {"n_tasks": 3, "least": 20, "most": 20, "n_features": 5, "n_true": 2},
    "shared": {"n_rows": 12, "n_features": 8, "n_tasks": 3, "n_true": 2},
    "sparse": {"n_tasks": 3, "n_rows": 20, "n_features": 40, "n_true": 2, "density": 0.1},
    "additive": {"n_tasks": 3, "least": 10, "most": 10, "n_features": 8, "n_true": 2},
    "path": 2,
}
# how the data of a problem are made, and the strengths, as shares of alpha_max
_POINTS: dict[str, tuple[Callable[..., Data], Sequence[float]]] = {
    "ragged": (make_ragged, (0.3, 0.1, 0.05)),
    "wide": (make_ragged, (0.3, 0.1)),
    "tall": (make_ragged, (0.1, 0.01)),
    "shared": (make_shared, (0.1, 0.02)),
    "sparse": (make_sparse, (0.3, 0.1)),
}


def make_cases(names: Sequence[str], sizes: Sizes) -> Iterator[Case]:
    """The cases of the named problems, one after another; data is made when its first case is asked for."""
    for name in COMPARED:
        if name not in names:
            continue
        if name in _POINTS:
            make, shares = _POINTS[name]
            yield from _points(name, make(**sizes[name]), shares)
        elif name == "path":
            yield _path(make_shared(**sizes["shared"]), sizes["path"])
        elif name == "logistic":
            yield from _points(name, make_ragged(**sizes["ragged"], loss="logistic"), (0.3, 0.1))
        elif name == "concave":
            ragged = make_ragged(**sizes["ragged"])
            for p, k in ((2, 1), (1, 1), (1, 2)):
                yield from _points(name, ragged, (0.1,), p=p, k=k)
        else:
            yield from _additive(replace(make_ragged(**sizes[name]), fit_intercept=True), (0.3, 0.1))


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


_PATIENCE = 20.0  # seconds that the tolerances tried of one library on one case may take together


_PACKAGES = ("numpy", "scipy", "scikit-learn", "adelie", "skglm", "celer", "cvxpy", "clarabel")


def processor() -> str:
    """Name of the processor, as far as the system tells.

    Examples
    --------
    >>> from mmtfl_lab.bench.run import processor
    >>> len(processor()) > 0
    True
    """
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.M) if cpuinfo.exists() else None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Python and the installed packages that take part."""
    found = {"mmtfl": mmtfl.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@dataclass
class Results:
    """Everything measured in one run."""

    problems: list[str]
    quick: bool
    repeats: int
    processor: str = field(default_factory=processor)
    versions: dict[str, str] = field(default_factory=versions)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    cases: list[CaseResult] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    growth: list[Curve] = field(default_factory=list)

    def case(self, key: str) -> CaseResult | None:
        """The case with a key, if it was run."""
        return next((case for case in self.cases if case.key == key), None)

    def cost(self, key: str) -> Cost | None:
        """The piece of work with a key, if it was measured."""
        return next((cost for cost in self.costs if cost.key == key), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, for JSON; with the exponents and the verdicts."""
        plain = asdict(self)
        for curve, entry in zip(self.growth, plain["growth"], strict=True):
            entry["exponent"] = curve.exponent
        return {**plain, "targets": [asdict(verdict) for verdict in verdicts(self)]}


def run(
    problems: Sequence[str] = PROBLEMS,
    libraries: Sequence[str] | None = None,
    *,
    repeats: int = 5,
    quick: bool = False,
    sizes: Sizes | None = None,
    say: Say = lambda line: None,
) -> Results:
    """Run the benchmark.

    Parameters
    ----------
    problems : sequence of str
        Among `mmtfl_lab.bench.run.PROBLEMS`.
    libraries : sequence of str, optional
        Names of libraries; None for all. Ours always takes part: times are ratios to it.
    repeats : int
        Rounds of timing, of which the least counts.
    quick : bool
        Whether to use small problems, to see that everything runs.
    sizes : Sizes, optional
        Other sizes than those of `quick`.
    say : function
        Takes a line on how it goes.

    Returns
    -------
    Results
        What was measured.

    Examples
    --------
    >>> from mmtfl_lab.bench.run import _WARM_UP, run
    >>> results = run(["ragged"], ["mmtfl"], repeats=1, sizes=_WARM_UP)
    >>> [case.key for case in results.cases]
    ['ragged 0.3', 'ragged 0.1', 'ragged 0.05']
    """
    sizes = sizes or (QUICK if quick else FULL)
    results = Results(list(problems), quick, repeats)
    with threadpool_limits(1):
        if set(problems) - set(EXPERIMENTS):
            present = _present(libraries, results.skipped)
            _warm_up(problems, present, say)
            for case in make_cases(problems, sizes):
                say(case.title)
                with _recorded(results, case.key, say):
                    results.cases.append(compare(case, present, repeats=repeats, patience=_PATIENCE, say=say))
        _measure_costs(problems, sizes, results, say)
        if "growth" in problems:
            with _recorded(results, "growth", say):
                for curve in growth_curves(sizes["growth"], min(repeats, 3)):
                    say(f"growth in {curve.size}: exponent {curve.exponent:.2f}")
                    results.growth.append(curve)
    return results


def _measure_costs(problems: Sequence[str], sizes: Sizes, results: Results, say: Say) -> None:
    work: dict[str, Callable[[], Iterable[Cost]]] = {
        "cv": lambda: [search_cost(**sizes["search"])],
        "searches": lambda: searches(**sizes["searches"]),
        "predict": lambda: [predict(**sizes["predict"])],
        "memory": lambda: [memory(**sizes["memory"])],
        "cold": lambda: [*cold_starts(sizes["cold"]), import_times(max(results.repeats, 3))],
    }
    for name, measure in work.items():
        if name in problems:
            say(name)
            with _recorded(results, name, say):
                results.costs.extend(measure())


@contextmanager
def _recorded(results: Results, what: str, say: Say) -> Iterator[None]:
    """Record a failure as a line of the results, so that the other problems are not lost."""
    try:
        yield
    except Exception as error:
        results.failed[what] = f"{type(error).__name__}: {error}"
        say(f"{what} failed: {results.failed[what]}")


def _present(names: Sequence[str] | None, skipped: dict[str, str]) -> list[Library]:
    """The libraries asked for and installed; the others go to `skipped` with the reason."""
    skipped.update(NOT_RUN if names is None else {})
    present = []
    for library in LIBRARIES:
        if names is None or library.name in (*names, "mmtfl"):
            reason = library.missing()
            if reason is None:
                present.append(library)
            else:
                skipped[library.name] = reason
    return present


def _warm_up(problems: Sequence[str], libraries: Sequence[Library], say: Say) -> None:
    """Compile and import outside the timed part, as in the tenth fit of a session."""
    say("warming up")
    for case in make_cases(problems, _WARM_UP):
        for library in libraries:
            if library.takes(case.problem):
                Trial(library, case.problem, patience=float("inf")).reached(library.ladder[0])
