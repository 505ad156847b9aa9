"""The targets of the solver, as data, and what was measured beside each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtfl_lab.bench.comparison import Row
from mmtfl_lab.bench.libraries import NOT_RUN

if TYPE_CHECKING:
    from mmtfl_lab.bench.run import Results

Measure = Callable[["Results"], float | None]


@dataclass(frozen=True)
class Target:
    """A bound on a measured number: `at_least` (ratios in our favour) or `at_most` (passes, seconds).

    A bound that is `indicative`, for the reason given, is on a ratio to a time measured elsewhere: shown, not
    judged.
    """

    problem: str
    against: str
    measure: Measure
    at_least: float | None = None
    at_most: float = math.inf
    unit: str = "x"
    indicative: str = ""


@dataclass(frozen=True)
class Verdict:
    """A target beside what was measured; `met` is None where nothing was, or only one side of a ratio."""

    problem: str
    against: str
    wanted: str
    measured: float | None
    unit: str
    met: bool | None
    note: str = ""


def _ratio(key: str, library: str, ours: str = "mmtfl") -> Measure:
    """Seconds of a library over ours on a case."""

    def measure(results: Results) -> float | None:
        case = results.case(key)
        return None if case is None else case.ratio(library, ours)

    return measure


def _own(key: str, value: Callable[[Row], float | None]) -> Measure:
    """A number of our best row on a case."""

    def measure(results: Results) -> float | None:
        case = results.case(key)
        row = None if case is None else case.best("mmtfl")
        return None if row is None else value(row)

    return measure


def _elsewhere(key: str, seconds: float) -> Measure:
    """Ratio of a time measured elsewhere to ours."""
    return _own(key, lambda row: seconds / row.seconds if row.seconds else None)


def _passes(key: str) -> Measure:
    return _own(key, lambda row: row.passes)


def _excess(key: str) -> Measure:
    """Suboptimality in per cent."""
    return _own(key, lambda row: None if row.suboptimality is None else 100.0 * row.suboptimality)


def _cost_ratio(key: str, way: str, *, inverse: bool = False) -> Measure:
    """The cost of a way over that of ours on a piece of work, or the inverse."""

    def measure(results: Results) -> float | None:
        cost = results.cost(key)
        ratio = None if cost is None else cost.ratio(way)
        return 1.0 / ratio if ratio and inverse else ratio

    return measure


def _default_search(results: Results) -> float | None:
    """Seconds of adelie's cross-validation of one member over those of our default search, on one thread."""
    whole, one = results.cost("default search"), results.cost("search (2,2)")
    ours = None if whole is None else whole.ways[0].value
    theirs = None if one is None else one.value("adelie, cv_grpnet")
    return theirs / ours if theirs and ours else None


def _megabytes(results: Results) -> float | None:
    cost = results.cost("memory")
    found = [] if cost is None else [way.value for way in cost.ways if way.value is not None]
    return max(found, default=None)


def _many_tasks(results: Results) -> float | None:
    curve = next((curve for curve in results.growth if curve.size == "many T"), None)
    return None if curve is None else curve.seconds[-1] / curve.seconds[0]


def _first_fit(way: str) -> Measure:
    """Seconds that a first fit takes beyond one in steady state, the most of all models."""

    def measure(results: Results) -> float | None:
        starts = [cost for cost in results.costs if cost.key.startswith("cold ")]
        extra = [(cost.value(way) or 0.0) - (cost.ways[0].value or 0.0) for cost in starts]
        return max(extra, default=None)

    return measure


# pair, library, its seconds elsewhere at 0.3 and 0.1 of the critical strengths, and the ratio wanted
_ELSEWHERE = (
    ("l2,1+l1", "mutar DirtyModel", (0.022, 0.073), 3.0),
    ("dirty", "MALSAR Least_Dirty", (1.4, 6.1), 50.0),
    ("rMTFL", "MALSAR Least_rMTFL", (2.2, 4.1), 50.0),
)


def _targets() -> Iterator[Target]:
    for share in ("0.3", "0.1", "0.05"):
        yield Target(f"ragged {share}", "adelie", _ratio(f"ragged {share}", "adelie"), at_least=5.0)
    yield Target("ragged 0.1", "MALSAR", _ratio("ragged 0.1", "MALSAR"), at_least=60.0)
    for share in ("0.1", "0.02"):
        measure = _ratio(f"shared {share}", "scikit-learn")
        yield Target(f"shared {share}", "scikit-learn", measure, at_least=3.0)
    yield Target("path", "scikit-learn", _ratio("path", "scikit-learn"), at_least=3.0)
    for problem, shares, wanted in (
        ("logistic", ("0.3", "0.1"), 5.0),
        ("wide", ("0.3", "0.1"), 5.0),
        ("tall", ("0.1", "0.01"), 3.0),
        ("sparse", ("0.3", "0.1"), 2.5),
    ):
        for share in shares:
            key = f"{problem} {share}"
            yield Target(key, "adelie", _ratio(key, "adelie"), at_least=wanted)
    for problem, passes in (("ragged", 10.0), ("wide", 15.0), ("tall", 8.0), ("logistic", 25.0)):
        key = f"{problem} 0.1"
        yield Target(key, "one pass", _passes(key), at_most=passes, unit="passes")
    for member, passes in (("(2,1)", 20.0), ("(1,1)", 40.0), ("(1,2)", 40.0)):
        key = f"concave {member}"
        yield Target(f"ragged {member}", "textbook", _ratio(key, "textbook"), at_least=20.0)
        yield Target(f"ragged {member}", "one pass", _passes(key), at_most=passes, unit="passes")
        yield Target(f"ragged {member}", "textbook objective", _excess(key), at_most=0.3, unit="%")
        yield Target(
            f"{member} alternating", "textbook", _ratio(key, "textbook", "mmtfl-alternating"), at_least=5.0
        )
    for pair, library, seconds, wanted in _ELSEWHERE:
        for share, spent in zip(("0.3", "0.1"), seconds, strict=True):
            key = f"additive {pair} {share}"
            against, why = f"{library}, {spent:g} s elsewhere", "indicative: data of unknown law"
            yield Target(key, against, _elsewhere(key, spent), at_least=wanted, indicative=why)
    cold = _cost_ratio("cv", "20 cold paths (every alpha from zero)")
    yield Target("search, 5 folds x 100 alphas x 4 (p,k)", "20 cold paths", cold, at_least=5.0)
    for key, way in (
        ("search (2,2)", "adelie, cv_grpnet"),
        ("single tasks", "scikit-learn, LassoCV per task"),
        ("single tasks", "R's glmnet, cv.glmnet per task"),
        ("predict", "scikit-learn, LinearRegression"),
    ):
        yield Target(key, way, _cost_ratio(key, way), at_least=1.0)
    yield Target("default search", "adelie, cv_grpnet of one member", _default_search, at_least=0.5)
    threads = _cost_ratio("default search", "two threads", inverse=True)
    yield Target("default search", "two threads over one", threads, at_least=1.7)
    yield Target("memory, a million sparse features", "a small fit", _megabytes, at_most=250.0, unit="MB")
    yield Target("2000 tasks", "200 tasks", _many_tasks, at_most=12.0)
    way = "first fit of a process"
    yield Target(way, "steady state", _first_fit(way), at_most=0.05, unit="s")
    imports = _cost_ratio("import", "sklearn.linear_model", inverse=True)
    yield Target("import mmtfl", "sklearn.linear_model", imports, at_most=1.5)


TARGETS = tuple(_targets())


def verdicts(results: Results) -> list[Verdict]:
    """Every target that the run says something about, and those that cannot be measured, with the reason.

    A quick run has none: its problems are not those of the targets.
    """
    if results.quick:
        return []
    found = [_verdict(target, target.measure(results)) for target in TARGETS]
    measured = [verdict for verdict in found if verdict.measured is not None]
    if results.case("ragged 0.1") is not None:
        for library, reason in NOT_RUN.items():
            measured.append(Verdict("ragged (2,2)", library, "at least 15 x", None, "x", None, reason))
    return measured


def _verdict(target: Target, measured: float | None) -> Verdict:
    side, bound, sign = "most", target.at_most, -1.0
    if target.at_least is not None:
        side, bound, sign = "least", target.at_least, 1.0
    wanted = f"at {side} {bound:g} {target.unit}"
    met = None if measured is None or target.indicative else sign * measured >= sign * bound
    return Verdict(target.problem, target.against, wanted, measured, target.unit, met, target.indicative)
