"""The whole benchmark: the named problems by the named libraries, on one thread."""

import platform
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import mmtfl
from mmtfl_lab.bench.cases import EXPERIMENTS, FULL, PROBLEMS, QUICK, Sizes, make_cases
from mmtfl_lab.bench.comparison import CaseResult, Say, Trial, compare
from mmtfl_lab.bench.costs import Cost, cold_starts, import_times, memory, predict, search_cost, searches
from mmtfl_lab.bench.growth import Curve, growth_curves
from mmtfl_lab.bench.libraries import LIBRARIES, NOT_RUN, Library
from mmtfl_lab.bench.speed_targets import verdicts

_PATIENCE = 20.0  # seconds that the tolerances tried of one library on one case may take together
_WARM_UP = Sizes(
    ragged={"n_tasks": 3, "least": 10, "most": 12, "n_features": 8, "n_true": 2},
    wide={"n_tasks": 3, "least": 10, "most": 10, "n_features": 20, "n_true": 2},
    tall={"n_tasks": 3, "least": 20, "most": 20, "n_features": 5, "n_true": 2},
    shared={"n_rows": 12, "n_features": 8, "n_tasks": 3, "n_true": 2},
    sparse={"n_tasks": 3, "n_rows": 20, "n_features": 40, "n_true": 2, "density": 0.1},
    additive={"n_tasks": 3, "least": 10, "most": 10, "n_features": 8, "n_true": 2},
    path=2,
)


_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "adelie", "skglm", "celer", "cvxpy", "clarabel")


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
        Among `mmtfl_lab.bench.cases.PROBLEMS`.
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
                for curve in growth_curves(sizes.growth, min(repeats, 3)):
                    say(f"growth in {curve.size}: exponent {curve.exponent:.2f}")
                    results.growth.append(curve)
    return results


def _measure_costs(problems: Sequence[str], sizes: Sizes, results: Results, say: Say) -> None:
    work: dict[str, Callable[[], Iterable[Cost]]] = {
        "cv": lambda: [search_cost(**sizes.search)],
        "searches": lambda: searches(**sizes.searches),
        "predict": lambda: [predict(**sizes.predict)],
        "memory": lambda: [memory(**sizes.memory)],
        "cold": lambda: [*cold_starts(sizes.cold), import_times(max(results.repeats, 3))],
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
